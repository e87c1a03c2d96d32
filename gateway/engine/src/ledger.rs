//! What every row is charged to, and who is told what became of it.
//!
//! **Every accepted row is entered once and crossed out once.** Its charges (rows and bytes, of its
//! stream, of its stream's share of a destination, of the whole gateway) are returned at that moment,
//! so that nothing held is uncounted and nothing counted stays.
//!
//! A row is charged to its frame: a slice that is kept keeps all of it. The whole frame's bytes are
//! returned when the last of its rows has a verdict.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use slab::Slab;
use sluicegate_core::{Failure, Origin, Receipt, Row, Time};

use crate::effects::{Effects, Notice, Wake};
use crate::scope::{Phase, Scope};
use crate::stream_state::{Share, StreamState};
use crate::timers::{Timer, Timers};
use crate::{ClientLimits, Event, ProtocolFault, ScopeOptions};

/// Memory of a row beside its frame.
const ROW_BYTES: u64 = size_of::<Row>() as u64;

/// What an unanswered flush is charged to the stream's unread results.
const FLUSH_BYTES: u64 = 32;

/// Credit is told without results when this part of it has come back: late enough that it costs no
/// frames, early enough that the client need not stop.
const CREDIT_PART: u64 = 8;

/// Verdicts by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) confirmed: u64,
    pub(crate) failed: u64,
    pub(crate) unknown: u64,
}

/// Messages that came together and whose memory is one.
#[derive(Debug)]
struct Frame {
    share: usize,
    bytes: u64,
    held: u64,
    remaining: u64,
}

/// What became of what `take` was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// There was something.
    Some,
    /// There is nothing yet.
    Nothing,
    /// There will be no more.
    Done,
}

#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) limits: ClientLimits,
    pub(crate) streams: Slab<StreamState>,
    pub(crate) scopes: Slab<Scope>,
    frames: Slab<Frame>,
    pub(crate) shares: Slab<Share>,
    pub(crate) timers: Timers,
    pub(crate) effects: Effects,
    pub(crate) accepted: u64,
    pub(crate) totals: Counts,
    pub(crate) unsettled: u64,
    /// Rows handed to connections and unsettled.
    pub(crate) flying: u64,
    pub(crate) held_bytes: u64,
    memory_waiters: Vec<usize>,
    pub(crate) draining: Option<Time>,
    /// Whether everything was settled at once, and nothing is taken any more.
    pub(crate) gave_up: bool,
    next_stream: u64,
    /// Lanes that may go on because nothing of a scope is in flight any more.
    pub(crate) unblocked: Vec<usize>,
}

impl Ledger {
    pub(crate) fn new(limits: ClientLimits) -> Self {
        Self {
            limits,
            streams: Slab::new(),
            scopes: Slab::new(),
            frames: Slab::new(),
            shares: Slab::new(),
            timers: Timers::default(),
            effects: Effects::default(),
            accepted: 0,
            totals: Counts::default(),
            unsettled: 0,
            flying: 0,
            held_bytes: 0,
            memory_waiters: Vec::new(),
            draining: None,
            gave_up: false,
            next_stream: 0,
            unblocked: Vec::new(),
        }
    }

    pub(crate) fn scope(&self, key: u32) -> Option<&Scope> {
        self.scopes.get(usize::try_from(key).ok()?)
    }

    /// When a row's confirmation timeout runs out.
    pub(crate) fn deadline(&self, row: &Row) -> Time {
        self.scope(row.origin.scope).map_or(Time::MAX, |scope| {
            row.accepted_at.saturating_add(scope.timeout)
        })
    }
}

// === streams and scopes ===

impl Ledger {
    pub(crate) fn open_stream(&mut self) -> usize {
        self.next_stream += 1;
        self.streams.insert(StreamState::new(self.next_stream))
    }

    pub(crate) fn open_scope(
        &mut self,
        stream: usize,
        id: u64,
        options: ScopeOptions,
    ) -> Result<(), ProtocolFault> {
        let limit = self.limits.stream_scopes;
        let Some(state) = self.streams.get_mut(stream) else {
            return Err(ProtocolFault::NoSuchScope(id));
        };
        if state.last_scope.is_some_and(|last| id <= last) {
            return Err(ProtocolFault::ScopeReused(id));
        }
        if self.draining.is_some() {
            return Err(ProtocolFault::Draining);
        }
        if state.finished {
            return Err(ProtocolFault::ScopeClosed(id));
        }
        if state.open_scopes >= limit {
            return Err(ProtocolFault::TooManyScopes(limit));
        }
        let timeout = options
            .confirmation_timeout
            .unwrap_or(self.limits.confirmation_timeout);
        let key = self.scopes.insert(Scope::new(id, stream, options, timeout));
        state.last_scope = Some(id);
        state.open_scopes += 1;
        state.scopes.insert(id, key);
        Ok(())
    }

    /// The slab key of a scope that still takes rows.
    pub(crate) fn open_scope_key(&self, stream: usize, id: u64) -> Result<usize, ProtocolFault> {
        let Some(state) = self.streams.get(stream) else {
            return Err(ProtocolFault::NoSuchScope(id));
        };
        match state.scopes.get(&id) {
            Some(key) => match self.scopes.get(*key) {
                Some(scope) if scope.phase == Phase::Open => Ok(*key),
                _ => Err(ProtocolFault::ScopeClosed(id)),
            },
            None if state.last_scope.is_some_and(|last| id <= last) => {
                Err(ProtocolFault::ScopeClosed(id))
            }
            None => Err(ProtocolFault::NoSuchScope(id)),
        }
    }

    pub(crate) fn flush(&mut self, key: usize, token: u64) {
        let Some(scope) = self.scopes.get_mut(key) else {
            return;
        };
        scope.flush(token);
        if let Some(stream) = self.streams.get_mut(scope.stream) {
            stream.flush_bytes += FLUSH_BYTES;
        }
        self.list(key);
    }

    pub(crate) fn close_scope(&mut self, key: usize, phase: Phase) {
        let Some(scope) = self.scopes.get_mut(key) else {
            return;
        };
        if scope.phase == Phase::Open
            && let Some(stream) = self.streams.get_mut(scope.stream)
        {
            stream.open_scopes = stream.open_scopes.saturating_sub(1);
        }
        scope.phase = phase;
        self.list(key);
    }

    /// The client sends no more.
    pub(crate) fn finish(&mut self, stream: usize) {
        let Some(state) = self.streams.get_mut(stream) else {
            return;
        };
        state.finished = true;
        // In the order of their opening: a history must not depend on a hash.
        let mut scopes: Vec<(u64, usize)> =
            state.scopes.iter().map(|(id, key)| (*id, *key)).collect();
        scopes.sort_unstable();
        for (_, key) in scopes {
            if self.scopes.get(key).map(|scope| scope.phase) == Some(Phase::Open) {
                self.close_scope(key, Phase::Closed);
            }
        }
        self.wake_events(stream);
    }

    /// Nobody will take this stream's results any more.
    pub(crate) fn lose(&mut self, stream: usize) {
        self.finish(stream);
        self.frame_read(stream);
        let Some(state) = self.streams.get_mut(stream) else {
            return;
        };
        state.lost = true;
        state.listed.clear();
        self.memory_waiters.retain(|waiter| *waiter != stream);
        let mut scopes: Vec<usize> = state.scopes.values().copied().collect();
        scopes.sort_unstable();
        state.cut_short = !scopes.is_empty();
        for key in scopes {
            self.drop_if_over(key);
        }
        self.remove_if_over(stream);
    }

    /// A scope of a lost stream has nobody to tell.
    fn drop_if_over(&mut self, key: usize) {
        let Some(scope) = self.scopes.get_mut(key) else {
            return;
        };
        scope.pending = Default::default();
        scope.flushed.clear();
        if scope.is_over() {
            let scope = self.scopes.remove(key);
            self.unblocked.extend(scope.blocked);
            let stream = scope.stream;
            if let Some(state) = self.streams.get_mut(stream) {
                state.scopes.remove(&scope.id);
            }
            self.remove_if_over(stream);
        }
    }

    fn remove_if_over(&mut self, stream: usize) {
        let over = |state: &StreamState| state.lost && state.scopes.is_empty();
        if self.streams.get(stream).is_some_and(over) {
            let state = self.streams.remove(stream);
            if state.cut_short {
                self.effects.notices.push(Notice::Lost {
                    stream: state.number,
                    counts: state.counts,
                });
            }
        }
    }

    pub(crate) fn drain(&mut self, deadline: Duration, now: Time) {
        if self.draining.is_none() {
            self.draining = Some(now.saturating_add(deadline));
            let streams: Vec<usize> = self.streams.iter().map(|(key, _)| key).collect();
            for stream in streams {
                self.wake_events(stream);
            }
        }
        if self.unsettled == 0 {
            self.effects.wakes.push(Wake::Drained);
        }
    }
}

// === entering and crossing out ===

impl Ledger {
    /// Enters rows of a scope, bound for a lane: `bytes` of credit, and `extra` memory. Returns their numbers and their frame's.
    pub(crate) fn accept(
        &mut self,
        scope_key: usize,
        lane: usize,
        count: u64,
        bytes: u64,
        extra: u64,
    ) -> Option<(Range<u64>, u32)> {
        let scope = self.scopes.get_mut(scope_key)?;
        let stream = self.streams.get_mut(scope.stream)?;
        let rows = scope.accept(count);
        let share_key = match stream.shares.get(&lane) {
            Some(key) => *key,
            None => {
                let key = self.shares.insert(Share::new(scope.stream, lane));
                stream.shares.insert(lane, key);
                key
            }
        };
        let share = self.shares.get_mut(share_key)?;
        share.messages += count;
        share.bytes += bytes;
        share.frames += 1;
        stream.messages += count;
        stream.bytes += bytes;
        stream.weigh(share, &self.limits);
        let held = bytes + extra + count * ROW_BYTES;
        let frame = self.frames.insert(Frame {
            share: share_key,
            bytes,
            held,
            remaining: count,
        });
        self.held_bytes += held;
        self.unsettled += count;
        self.accepted += count;
        Some((rows, u32::try_from(frame).unwrap_or(u32::MAX)))
    }

    /// Enters rows that go nowhere and crosses them out.
    pub(crate) fn reject(
        &mut self,
        scope_key: usize,
        count: u64,
        bytes: u64,
        failure: &Failure,
        now: Time,
    ) {
        let Some(scope) = self.scopes.get_mut(scope_key) else {
            return;
        };
        let rows = scope.accept(count);
        scope.settled(&rows);
        scope.counts.failed += count;
        for row in rows {
            scope.pending.failed(row, failure.clone());
        }
        self.accepted += count;
        self.totals.failed += count;
        if let Some(stream) = self.streams.get_mut(scope.stream) {
            stream.counts.failed += count;
            stream.returned_messages += count;
            stream.returned_bytes += bytes;
        }
        self.told(scope_key, now);
    }

    /// Bytes that were never kept go back to the client's credit.
    pub(crate) fn give_back(&mut self, stream: usize, bytes: u64) {
        if let Some(state) = self.streams.get_mut(stream) {
            state.returned_bytes += bytes;
        }
        self.wake_events_if_any(stream);
    }

    /// Consecutive rows of one scope and one frame.
    pub(crate) fn confirmed(&mut self, scope: u32, frame: u32, rows: Range<u64>, now: Time) {
        let Some(key) = usize::try_from(scope).ok() else {
            return;
        };
        let Some(scope) = self.scopes.get_mut(key) else {
            return;
        };
        let count = rows.end - rows.start;
        scope.counts.confirmed += count;
        self.totals.confirmed += count;
        if let Some(stream) = self.streams.get_mut(scope.stream) {
            stream.counts.confirmed += count;
        }
        scope.settled(&rows);
        scope.pending.confirmed(rows);
        self.retire(key, frame, count, now);
    }

    /// To be said before the row is confirmed, which charges it.
    pub(crate) fn receipt(&mut self, origin: Origin, receipt: Receipt) {
        let scope = usize::try_from(origin.scope).ok();
        if let Some(scope) = scope.and_then(|key| self.scopes.get_mut(key))
            && scope.options.receipts
            && !self.streams.get(scope.stream).is_none_or(|s| s.lost)
        {
            scope.pending.receipt(origin.row, receipt);
        }
    }

    pub(crate) fn failed(&mut self, origin: Origin, failure: Failure, now: Time) {
        self.one(origin, now, |scope, counts| {
            counts.failed += 1;
            scope.pending.failed(origin.row, failure);
        });
    }

    pub(crate) fn unknown(&mut self, origin: Origin, reason: Failure, now: Time) {
        self.one(origin, now, |scope, counts| {
            counts.unknown += 1;
            scope.pending.unknown(origin.row, reason);
        });
    }

    fn one(&mut self, origin: Origin, now: Time, tell: impl FnOnce(&mut Scope, &mut Counts)) {
        let Some(key) = usize::try_from(origin.scope).ok() else {
            return;
        };
        let Some(scope) = self.scopes.get_mut(key) else {
            return;
        };
        let mut counts = Counts::default();
        tell(scope, &mut counts);
        scope.counts.add(counts);
        self.totals.add(counts);
        if let Some(stream) = self.streams.get_mut(scope.stream) {
            stream.counts.add(counts);
        }
        scope.settled(&(origin.row..origin.row + 1));
        self.retire(key, origin.frame, 1, now);
    }

    /// Returns the charges of rows that got their verdicts.
    fn retire(&mut self, scope_key: usize, frame_key: u32, count: u64, now: Time) {
        self.unsettled = self.unsettled.saturating_sub(count);
        if self.unsettled == 0 && self.draining.is_some() {
            self.effects.wakes.push(Wake::Drained);
        }
        let frame_key = usize::try_from(frame_key).unwrap_or(usize::MAX);
        if let Some(frame) = self.frames.get_mut(frame_key) {
            let share_key = frame.share;
            frame.remaining = frame.remaining.saturating_sub(count);
            let done = frame.remaining == 0;
            let (bytes, held) = (frame.bytes, frame.held);
            if done {
                self.frames.remove(frame_key);
            }
            if let Some(share) = self.shares.get_mut(share_key)
                && let Some(stream) = self.streams.get_mut(share.stream)
            {
                share.messages = share.messages.saturating_sub(count);
                stream.messages = stream.messages.saturating_sub(count);
                stream.returned_messages += count;
                if done {
                    share.bytes = share.bytes.saturating_sub(bytes);
                    share.frames = share.frames.saturating_sub(1);
                    stream.bytes = stream.bytes.saturating_sub(bytes);
                    stream.returned_bytes += bytes;
                }
                stream.weigh(share, &self.limits);
                if share.frames == 0 {
                    let share = self.shares.remove(share_key);
                    stream.shares.remove(&share.lane);
                }
            }
            if done {
                self.release(held);
            }
        }
        self.told(scope_key, now);
    }

    fn release(&mut self, held: u64) {
        let was_full = self.held_bytes >= self.limits.total_bytes;
        self.held_bytes = self.held_bytes.saturating_sub(held);
        if was_full && self.held_bytes < self.limits.total_bytes {
            let waiters = std::mem::take(&mut self.memory_waiters);
            for stream in waiters {
                self.wake_room_if_any(stream);
            }
        }
    }

    /// A scope has something new to tell.
    fn told(&mut self, key: usize, now: Time) {
        let Some(scope) = self.scopes.get_mut(key) else {
            return;
        };
        let stream_key = scope.stream;
        let Some(stream) = self.streams.get_mut(stream_key) else {
            return;
        };
        if stream.lost {
            self.drop_if_over(key);
            return;
        }
        stream.recount(scope);
        if stream.unread_bytes > self.limits.unread_result_bytes && stream.over_since.is_none() {
            stream.over_since = Some(now);
            let at = now.saturating_add(self.limits.unread_results_timeout);
            self.timers
                .register(at, Timer::Stream(stream_key), &mut self.effects);
        }
        self.list(key);
        self.wake_room_if_any(stream_key);
    }

    /// A lane waits until nothing of the scope is in flight.
    pub(crate) fn block(&mut self, scope: u32, lane: usize) {
        let key = usize::try_from(scope).unwrap_or(usize::MAX);
        if let Some(scope) = self.scopes.get_mut(key)
            && !scope.blocked.contains(&lane)
        {
            scope.blocked.push(lane);
        }
    }

    /// Rows of a scope are in flight no more; lanes that waited for that may go on.
    pub(crate) fn landed(&mut self, scope: u32, count: u64) {
        self.flying = self.flying.saturating_sub(count);
        let key = usize::try_from(scope).unwrap_or(usize::MAX);
        if let Some(scope) = self.scopes.get_mut(key)
            && !scope.options.deferred_confirmation
        {
            scope.flying = scope.flying.saturating_sub(count);
            if scope.flying == 0 {
                self.unblocked.append(&mut scope.blocked);
            }
        }
    }
}

// === telling ===

impl Ledger {
    /// Puts a scope on its stream's list, if it has something to tell.
    fn list(&mut self, key: usize) {
        let Some(scope) = self.scopes.get_mut(key) else {
            return;
        };
        let tells = !scope.pending.is_empty() || !scope.flushed.is_empty() || scope.is_over();
        let stream_key = scope.stream;
        if tells && let Some(stream) = self.streams.get_mut(stream_key) {
            if !scope.listed {
                scope.listed = true;
                stream.listed.push_back(key);
            }
            self.wake_events(stream_key);
        }
    }

    fn wake_events(&mut self, stream: usize) {
        if let Some(state) = self.streams.get_mut(stream)
            && state.events_waiting
        {
            state.events_waiting = false;
            self.effects.wakes.push(Wake::Events(stream));
        }
    }

    fn wake_events_if_any(&mut self, stream: usize) {
        if self.credit_is_due(stream) {
            self.wake_events(stream);
        }
    }

    fn credit_is_due(&self, stream: usize) -> bool {
        self.streams.get(stream).is_some_and(|state| {
            state.returned_messages * CREDIT_PART >= u64::from(self.limits.stream_messages)
                && state.returned_messages > 0
                || state.returned_bytes * CREDIT_PART >= self.limits.stream_bytes
                    && state.returned_bytes > 0
        })
    }

    /// Takes what the stream is to be told, up to about `budget` bytes.
    pub(crate) fn take(
        &mut self,
        stream: usize,
        events: &mut Vec<Event>,
        budget: usize,
        now: Time,
    ) -> Taken {
        let credit_due = self.credit_is_due(stream);
        let Some(state) = self.streams.get_mut(stream) else {
            return Taken::Done;
        };
        let before = events.len();
        if state.stalled {
            if !state.stall_told {
                state.stall_told = true;
                events.push(Event::Stalled);
                return Taken::Some;
            }
            state.events_waiting = true;
            return Taken::Nothing;
        }
        if let Some(at) = self.draining
            && !state.drain_told
        {
            state.drain_told = true;
            events.push(Event::Draining {
                deadline: at.saturating_sub(now),
            });
        }
        let mut left = budget.max(1);
        while left > 0 {
            let Some(key) = state.listed.pop_front() else {
                break;
            };
            let Some(scope) = self.scopes.get_mut(key) else {
                continue;
            };
            if !scope.pending.is_empty() {
                let size = scope.pending.bytes();
                let results = scope.pending.take(scope.id, left);
                let taken = size - scope.pending.bytes();
                left = left.saturating_sub(taken);
                state.recount(scope);
                events.push(Event::Results(results));
                if !scope.pending.is_empty() {
                    state.listed.push_back(key);
                    break;
                }
            }
            for token in scope.flushed.drain(..) {
                state.flush_bytes = state.flush_bytes.saturating_sub(FLUSH_BYTES);
                left = left.saturating_sub(usize::try_from(FLUSH_BYTES).unwrap_or(0));
                events.push(Event::Flushed {
                    scope: scope.id,
                    token,
                });
            }
            scope.listed = false;
            if scope.is_over() {
                events.push(Event::ScopeDone {
                    scope: scope.id,
                    confirmed: scope.counts.confirmed,
                    failed: scope.counts.failed,
                    unknown: scope.counts.unknown,
                });
                left = left.saturating_sub(usize::try_from(FLUSH_BYTES).unwrap_or(0));
                let scope = self.scopes.remove(key);
                self.unblocked.extend(scope.blocked);
                state.scopes.remove(&scope.id);
            }
        }
        let progress = events.len() > before;
        let done = state.finished && state.scopes.is_empty();
        if (progress && state.returned_messages + state.returned_bytes > 0) || credit_due {
            events.push(Event::Credit {
                messages: std::mem::take(&mut state.returned_messages),
                bytes: std::mem::take(&mut state.returned_bytes),
            });
        }
        if progress {
            state.over_since = None;
            if state.unread_bytes > self.limits.unread_result_bytes {
                state.over_since = Some(now);
                let at = now.saturating_add(self.limits.unread_results_timeout);
                self.timers
                    .register(at, Timer::Stream(stream), &mut self.effects);
            }
            self.wake_room_if_any(stream);
        }
        if done {
            return Taken::Done;
        }
        if events.len() > before {
            return Taken::Some;
        }
        if let Some(state) = self.streams.get_mut(stream) {
            state.events_waiting = true;
        }
        Taken::Nothing
    }

    /// Whether results were left unread too long.
    pub(crate) fn check_stall(&mut self, stream: usize, now: Time) {
        let timeout = self.limits.unread_results_timeout;
        if let Some(state) = self.streams.get_mut(stream)
            && let Some(since) = state.over_since
            && !state.lost
            && now >= since.saturating_add(timeout)
        {
            state.over_since = None;
            state.stalled = true;
            self.effects.wakes.push(Wake::Stalled(stream));
            self.wake_events(stream);
        }
    }
}

// === pushing back ===

impl Ledger {
    /// Whether the stream may read a frame of so many bytes, which are then charged until it has been
    /// read (`frame_read`); otherwise it is told when it may.
    ///
    /// A frame is let in when there is any room: all that is held exceeds the limit by one frame at
    /// most, however many streams read at once, and a large frame waits no longer than a small one.
    pub(crate) fn let_in(&mut self, stream: usize, bytes: u64) -> bool {
        self.frame_read(stream);
        let room = self.room(stream);
        let memory_full = self.held_bytes >= self.limits.total_bytes;
        if let Some(state) = self.streams.get_mut(stream) {
            state.room_waiting = !room;
            if room {
                state.reading_bytes = bytes;
                self.held_bytes += bytes;
            } else if memory_full && !self.memory_waiters.contains(&stream) {
                self.memory_waiters.push(stream);
            }
        }
        room
    }

    /// The frame that was let in has been read: what is kept of it is charged to its rows by now.
    pub(crate) fn frame_read(&mut self, stream: usize) {
        if let Some(state) = self.streams.get_mut(stream) {
            let bytes = std::mem::take(&mut state.reading_bytes);
            self.release(bytes);
        }
    }

    fn room(&self, stream: usize) -> bool {
        let limits = &self.limits;
        self.held_bytes < limits.total_bytes
            && self
                .streams
                .get(stream)
                .is_none_or(|state| state.has_room(limits))
    }

    fn wake_room_if_any(&mut self, stream: usize) {
        let waits = |state: &StreamState| state.room_waiting;
        if !self.streams.get(stream).is_some_and(waits) {
            self.wake_events_if_any(stream);
            return;
        }
        if self.room(stream) {
            if let Some(state) = self.streams.get_mut(stream) {
                state.room_waiting = false;
            }
            self.effects.wakes.push(Wake::Room(stream));
        } else if self.held_bytes >= self.limits.total_bytes
            && !self.memory_waiters.contains(&stream)
        {
            self.memory_waiters.push(stream);
        }
    }

    /// What is held by streams, for the invariant that nothing stays.
    pub(crate) fn leftovers(&self) -> Option<String> {
        let left = [
            ("scopes", self.scopes.len()),
            ("frames", self.frames.len()),
            ("shares", self.shares.len()),
            (
                "held bytes",
                usize::try_from(self.held_bytes).unwrap_or(usize::MAX),
            ),
            (
                "unsettled rows",
                usize::try_from(self.unsettled).unwrap_or(usize::MAX),
            ),
            (
                "flying rows",
                usize::try_from(self.flying).unwrap_or(usize::MAX),
            ),
        ];
        let left: VecDeque<String> = left
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(what, count)| format!("{count} {what}"))
            .collect();
        (!left.is_empty()).then(|| left.into_iter().collect::<Vec<_>>().join(", "))
    }
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.confirmed += other.confirmed;
        self.failed += other.failed;
        self.unknown += other.unknown;
    }
}
