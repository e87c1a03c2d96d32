//! How rows become a batch.
//!
//! **Every row is looked at once before it is sent**, here: whether its time has passed, whether its
//! destination can take it, whether its key or its scope has to wait. What cannot be sent gets its
//! verdict and harms no other row.

use std::collections::VecDeque;

use sluicegate_core::{Failure, Row, Time};

use crate::admit::{Terms, aborted, timed_out};
use crate::flow::{Chunk, MESSAGE_COST, QUANTUM_BYTES};
use crate::keys::KeyId;
use crate::lane::{Ahead, Door, Lane};
use crate::ledger::Ledger;
use crate::scope::Phase;

/// A batch in the making.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) rows: Vec<Row>,
    pub(crate) body_bytes: usize,
    pub(crate) deadline: Time,
    pub(crate) receipts: bool,
    /// The stream of each row, where a key's order is kept; empty if no row has a key.
    pub(crate) streams: Vec<usize>,
    keyed: bool,
    /// Scopes that may have one batch in flight, once for each row here.
    strict: Vec<u32>,
    /// Rows that cannot be sent.
    refused: Vec<(Row, Failure)>,
}

/// How serving a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    /// Nothing is left in it.
    Empty,
    /// It has had its share.
    TurnOver,
    /// It waits for a verdict of its scope.
    Blocked,
    /// The batch takes no more.
    Full,
}

impl Draft {
    #[inline]
    fn push(&mut self, row: Row, deadline: Time, receipts: bool) {
        self.body_bytes += row.message.body_bytes();
        self.deadline = if self.rows.is_empty() {
            deadline
        } else {
            self.deadline.min(deadline)
        };
        self.receipts |= receipts;
        self.rows.push(row);
    }

    /// Takes rows from a chunk's front that need no second look, which is nearly all rows nearly always.
    fn take_plain(
        &mut self,
        chunk: &mut Chunk,
        terms: &Terms,
        most: usize,
        deadline: Time,
        receipts: bool,
    ) {
        let before = self.rows.len();
        let mut body_bytes = self.body_bytes;
        while self.rows.len() < most
            && let Some(message) = chunk.messages.as_slice().first()
        {
            let body = message.body_bytes();
            let fits = self.rows.is_empty() || body_bytes + body <= terms.batch_bytes;
            if !fits || !terms.takes_plainly(message) {
                break;
            }
            body_bytes += body;
            self.rows.extend(chunk.next());
        }
        self.body_bytes = body_bytes;
        if self.rows.len() > before {
            self.receipts |= receipts;
            self.deadline = if before == 0 {
                deadline
            } else {
                self.deadline.min(deadline)
            };
        }
    }

    /// None of the chunk's rows can be sent.
    fn refuse(&mut self, chunk: Option<Chunk>, why: impl Fn(u64) -> Failure) {
        if let Some(mut chunk) = chunk {
            while let Some(row) = chunk.next() {
                let failure = why(row.origin.row);
                self.refused.push((row, failure));
            }
        }
    }

    fn fits(&self, body_bytes: usize, terms: &Terms) -> bool {
        self.rows.is_empty() || self.body_bytes + body_bytes <= terms.batch_bytes
    }
}

/// What is to be done with a row now.
enum Fate {
    /// `alone`: as a batch of its own.
    Send {
        alone: bool,
    },
    /// Its scope has a batch in flight.
    Wait,
    /// Its key has a row that has to be sent before.
    Park(KeyId),
    Refuse(Failure),
}

impl Lane {
    /// The next batch of at most `room` rows, if there is anything to send.
    pub(crate) fn gather(&mut self, room: usize, ledger: &mut Ledger, now: Time) -> Option<Draft> {
        let Door::Open(terms) = &self.door else {
            return None;
        };
        let terms = terms.clone();
        let most = terms.batch_messages.min(room);
        let queued = usize::try_from(self.queued).unwrap_or(usize::MAX);
        if most == 0 || self.lingers(&terms, queued, ledger, now) {
            return None;
        }
        let mut draft = Draft {
            rows: Vec::with_capacity(most.min(queued)),
            ..Draft::default()
        };
        let goes_on = self.gather_ahead(&mut draft, &terms, most, room, ledger, now);
        if goes_on {
            self.gather_flows(&mut draft, &terms, most, ledger, now);
        }
        if !self.has_work() {
            self.flushed = false;
        }
        self.linger_from = now;
        for (row, failure) in std::mem::take(&mut draft.refused) {
            self.queued = self.queued.saturating_sub(1);
            self.fail(&row, failure, ledger, now);
        }
        if draft.rows.is_empty() {
            return None;
        }
        let count = u64::try_from(draft.rows.len()).unwrap_or(u64::MAX);
        self.queued = self.queued.saturating_sub(count);
        ledger.flying += count;
        for scope in &draft.strict {
            let key = usize::try_from(*scope).unwrap_or(usize::MAX);
            if let Some(scope) = ledger.scopes.get_mut(key) {
                scope.flying += 1;
            }
        }
        if draft.keyed {
            let stream = |row: &Row| ledger.scope(row.origin.scope).map_or(0, |s| s.stream);
            draft.streams = draft.rows.iter().map(stream).collect();
        }
        Some(draft)
    }

    fn lingers(&mut self, terms: &Terms, queued: usize, ledger: &mut Ledger, now: Time) -> bool {
        if self.policy.linger.is_zero() || self.flushed || !self.flights.is_empty() {
            return false;
        }
        let until = self.linger_from.saturating_add(self.policy.linger);
        let lingers = now < until && queued < terms.batch_messages && self.ahead.is_empty();
        if lingers {
            self.register(until, ledger);
        }
        lingers
    }

    /// Sends what has to go before the flows. Returns whether they may add to the batch.
    fn gather_ahead(
        &mut self,
        draft: &mut Draft,
        terms: &Terms,
        most: usize,
        room: usize,
        ledger: &mut Ledger,
        now: Time,
    ) -> bool {
        while let Some(entry) = self.ahead.pop_front() {
            let (mut rows, exact) = match entry {
                Ahead::Row(row) => (VecDeque::from([row]), false),
                Ahead::Exact(rows) => (rows, true),
            };
            let limit = if exact { room } else { most };
            let mut closed = exact && !draft.rows.is_empty();
            while !closed && let Some(row) = rows.pop_front() {
                let fits = exact || draft.fits(row.message.body_bytes(), terms);
                if draft.rows.len() >= limit || !fits {
                    rows.push_front(row);
                    break;
                }
                match self.fate(&row, terms, ledger, now) {
                    Fate::Refuse(failure) => draft.refused.push((row, failure)),
                    Fate::Park(key) => {
                        if let Some(hold) = self.keys.holds.get_mut(&key) {
                            hold.parked.push_back(row);
                        }
                    }
                    Fate::Send { alone } if !alone || draft.rows.is_empty() => {
                        closed = alone;
                        self.take(row, draft, ledger);
                    }
                    Fate::Send { .. } | Fate::Wait => {
                        rows.push_front(row);
                        break;
                    }
                }
            }
            let all_taken = rows.is_empty();
            if !all_taken {
                self.ahead.push_front(match rows.pop_front() {
                    Some(row) if !exact => Ahead::Row(row),
                    Some(row) => {
                        rows.push_front(row);
                        Ahead::Exact(rows)
                    }
                    None => Ahead::Exact(rows),
                });
            }
            if !all_taken || closed || exact && !draft.rows.is_empty() {
                return false;
            }
        }
        true
    }

    fn take(&self, row: Row, draft: &mut Draft, ledger: &Ledger) {
        let Some(scope) = ledger.scope(row.origin.scope) else {
            return;
        };
        if !scope.options.deferred_confirmation {
            draft.strict.push(row.origin.scope);
        }
        draft.keyed |= self.ordered() && row.message.key.is_some();
        let deadline = row.accepted_at.saturating_add(scope.timeout);
        draft.push(row, deadline, scope.options.receipts);
    }

    /// What is to be done with a row that waited ahead of the flows.
    fn fate(&self, row: &Row, terms: &Terms, ledger: &mut Ledger, now: Time) -> Fate {
        if let Some(failure) = self.overdue(row, None, ledger, now) {
            return Fate::Refuse(failure);
        }
        let Some(scope) = ledger.scope(row.origin.scope) else {
            return Fate::Send { alone: false };
        };
        let number = row.origin.row;
        if scope.options.receipts && !terms.gives_receipts() {
            return Fate::Refuse(terms.no_receipts(number, &self.name));
        }
        let waited = now.saturating_sub(row.accepted_at);
        if let Some(failure) = terms.refusal(&row.message, number, &self.name, waited) {
            return Fate::Refuse(failure);
        }
        let alone = !scope.options.batching;
        let strict = !scope.options.deferred_confirmation;
        let (stream, flying) = (scope.stream, scope.flying);
        if self.ordered()
            && let Some(key) = &row.message.key
        {
            let key = KeyId::new(stream, key);
            if self.keys.holds.contains_key(&key) {
                return Fate::Park(key);
            }
        }
        if strict && flying > 0 {
            ledger.block(row.origin.scope, self.key);
            return Fate::Wait;
        }
        Fate::Send { alone }
    }

    fn gather_flows(
        &mut self,
        draft: &mut Draft,
        terms: &Terms,
        most: usize,
        ledger: &mut Ledger,
        now: Time,
    ) {
        let mut blocked = 0;
        while blocked < self.flows.len() {
            match self.serve(draft, terms, most, ledger, now) {
                Served::Empty => self.flows.remove_first(),
                Served::TurnOver => {
                    blocked = 0;
                    self.flows.rotate();
                }
                Served::Blocked => {
                    blocked += 1;
                    self.flows.rotate();
                }
                Served::Full => break,
            }
        }
        while self.flows.first().is_some_and(|flow| {
            if flow.chunks.front().is_some_and(|chunk| chunk.left() == 0) {
                flow.chunks.pop_front();
            }
            flow.chunks.is_empty()
        }) {
            self.flows.remove_first();
        }
    }

    /// Gives the first flow its turn.
    fn serve(
        &mut self,
        draft: &mut Draft,
        terms: &Terms,
        most: usize,
        ledger: &mut Ledger,
        now: Time,
    ) -> Served {
        let ordered = self.ordered();
        let sole = self.flows.len() == 1;
        let Self {
            flows, keys, name, ..
        } = self;
        let Some(flow) = flows.first() else {
            return Served::Empty;
        };
        if !flow.in_turn {
            flow.in_turn = true;
            flow.deficit += QUANTUM_BYTES;
        }
        while let Some(chunk) = flow.chunks.front_mut() {
            let Some(scope) = ledger.scope(chunk.scope) else {
                flow.chunks.pop_front();
                continue;
            };
            let deadline = chunk.accepted_at.saturating_add(scope.timeout);
            let (receipts, stream) = (scope.options.receipts, scope.stream);
            let no_receipts = receipts && !terms.gives_receipts();
            let was_aborted = scope.phase == Phase::Aborted;
            if was_aborted || now >= deadline || no_receipts {
                let timeout = scope.timeout;
                draft.refuse(flow.chunks.pop_front(), |row| {
                    if was_aborted {
                        aborted(row, name)
                    } else if no_receipts {
                        terms.no_receipts(row, name)
                    } else {
                        timed_out(row, name, timeout, None)
                    }
                });
                continue;
            }
            let strict = !scope.options.deferred_confirmation;
            let alone = !scope.options.batching;
            if strict && scope.flying > 0 {
                ledger.block(chunk.scope, self.key);
                return Served::Blocked;
            }
            let waited = now.saturating_sub(chunk.accepted_at);
            if sole && !strict && !alone {
                draft.take_plain(chunk, terms, most, deadline, receipts);
            }
            while let Some(message) = chunk.messages.as_slice().first() {
                if draft.rows.len() >= most || alone && !draft.rows.is_empty() {
                    return Served::Full;
                }
                let plain = terms.takes_plainly(message);
                let mut hold = None;
                if !plain {
                    let refusal = terms.refusal(message, chunk.next_row, name, waited);
                    if let Some(failure) = refusal {
                        draft.refused.extend(chunk.next().map(|row| (row, failure)));
                        continue;
                    }
                    if let Some(key) = message.key.as_ref().filter(|_| ordered) {
                        draft.keyed = true;
                        if !keys.is_empty() {
                            hold = keys.holds.get_mut(&KeyId::new(stream, key));
                        }
                    }
                }
                if let Some(hold) = hold {
                    hold.parked.extend(chunk.next());
                    continue;
                }
                if !draft.fits(message.body_bytes(), terms) {
                    return Served::Full;
                }
                if !sole {
                    let bytes = u64::try_from(message.bytes()).unwrap_or(u64::MAX);
                    let cost = bytes.saturating_add(MESSAGE_COST);
                    if flow.deficit < cost {
                        return Served::TurnOver;
                    }
                    flow.deficit -= cost;
                }
                if let Some(row) = chunk.next() {
                    if strict {
                        draft.strict.push(row.origin.scope);
                    }
                    draft.push(row, deadline, receipts);
                }
            }
            flow.chunks.pop_front();
            if alone && !draft.rows.is_empty() {
                return if flow.chunks.is_empty() {
                    Served::Empty
                } else {
                    Served::Full
                };
            }
        }
        Served::Empty
    }
}
