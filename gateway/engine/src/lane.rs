//! The queue of one destination, where rows of all scopes and streams gather into batches.
//!
//! **A row is in one place**: in a flow, ahead of the flows (what has to be sent first), waiting for
//! its backoff, held with its key, or in flight. `queued` counts all but the last.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{Failure, Order, Row, Time};

use crate::admit::{Terms, aborted, timed_out};
use crate::config::Policy;
use crate::flow::{Chunk, FlowKey, Flows};
use crate::keys::{Cause, Hold, Keys};
use crate::ledger::Ledger;
use crate::scope::Phase;
use crate::timers::Timer;

/// A lane is looked at no more often than that: the granularity of the shell's timers.
const TICK: Duration = Duration::from_millis(1);

/// Queued rows are searched for passed deadlines no more often than that, so that a long queue of
/// rows that pass one by one costs its length a hundred times a second at most.
pub(crate) const SWEEP: Duration = Duration::from_millis(10);

/// Whether batches may be sent to the destination.
#[derive(Clone, Debug)]
pub(crate) enum Door {
    /// To be opened when there is something to send.
    Closed,
    /// The connection is asking the broker.
    Opening,
    Open(Terms),
    /// Could not be opened; asked again at this time.
    Backoff {
        until: Time,
        why: Failure,
    },
    /// Refused: until this time rows fail with it, after that the broker is asked again.
    Refused {
        until: Time,
        why: Failure,
    },
}

/// What is to be sent before the flows.
#[derive(Debug)]
pub(crate) enum Ahead {
    /// A row that was sent before, or waited behind one.
    Row(Row),
    /// Rows that make a batch of their own.
    Exact(VecDeque<Row>),
}

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) key: usize,
    pub(crate) name: Arc<str>,
    pub(crate) connection: usize,
    pub(crate) route: usize,
    pub(crate) policy: Policy,
    pub(crate) door: Door,
    /// How often opening it was answered.
    pub(crate) answers: u64,
    /// Failures to open it since it was last open.
    pub(crate) open_failures: u32,
    /// Someone asked for it to be opened.
    pub(crate) wanted: bool,
    /// In its connection's list of lanes to be opened.
    pub(crate) open_listed: bool,
    /// In its connection's list of lanes with something to send.
    pub(crate) scheduled: bool,
    pub(crate) flows: Flows,
    pub(crate) ahead: VecDeque<Ahead>,
    /// Rows that wait for their backoff, by when it is over.
    pub(crate) later: BTreeMap<(Time, u64), (Row, Failure)>,
    pub(crate) keys: Keys,
    /// Rows that may be stored by an earlier attempt: what follows can confirm them, never fail them.
    pub(crate) doubtful: HashSet<(u32, u64)>,
    pub(crate) flights: VecDeque<usize>,
    next_seq: u64,
    next_later: u64,
    pub(crate) queued: u64,
    /// Since when rows linger.
    pub(crate) linger_from: Time,
    /// A flush or the end of a scope ends the linger.
    pub(crate) flushed: bool,
    pub(crate) idle_since: Time,
    timer_at: Option<Time>,
}

impl Lane {
    pub(crate) fn new(
        key: usize,
        name: Arc<str>,
        connection: usize,
        route: usize,
        policy: Policy,
        now: Time,
    ) -> Self {
        Self {
            key,
            name,
            connection,
            route,
            policy,
            door: Door::Closed,
            answers: 0,
            open_failures: 0,
            wanted: false,
            open_listed: false,
            scheduled: false,
            flows: Flows::default(),
            ahead: VecDeque::new(),
            later: BTreeMap::new(),
            keys: Keys::default(),
            doubtful: HashSet::new(),
            flights: VecDeque::new(),
            next_seq: 0,
            next_later: 0,
            queued: 0,
            linger_from: now,
            flushed: false,
            idle_since: now,
            timer_at: None,
        }
    }

    pub(crate) fn ordered(&self) -> bool {
        self.policy.order == Order::Key
    }

    /// Whether there is something that could be sent now.
    pub(crate) fn has_work(&self) -> bool {
        !self.flows.is_empty() || !self.ahead.is_empty()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queued == 0
            && self.flights.is_empty()
            && !self.wanted
            && !matches!(self.door, Door::Opening)
    }

    pub(crate) fn next_seq(&mut self) -> u64 {
        self.next_seq += 1;
        self.next_seq
    }

    pub(crate) fn push(&mut self, key: FlowKey, chunk: Chunk, now: Time) {
        if !self.has_work() {
            self.linger_from = now;
        }
        self.queued += chunk.left();
        self.flows.push(key, chunk);
    }

    /// A row waits for its backoff.
    pub(crate) fn wait(&mut self, due: Time, row: Row, why: Failure) {
        self.next_later += 1;
        self.later.insert((due, self.next_later), (row, why));
        self.queued += 1;
    }

    pub(crate) fn register(&mut self, at: Time, ledger: &mut Ledger) {
        if self.timer_at.is_none_or(|registered| at < registered) {
            self.timer_at = Some(at);
            ledger
                .timers
                .register(at, Timer::Lane(self.key), &mut ledger.effects);
        }
    }

    /// Whether the registered time has come; forgets it then.
    pub(crate) fn timer_fired(&mut self, now: Time) -> bool {
        let due = self.timer_at.is_some_and(|at| at <= now);
        if due {
            self.timer_at = None;
        }
        due
    }
}

// === verdicts of rows that are not in flight ===

impl Lane {
    /// A row that is in no queue any more fails, unless it may be stored.
    pub(crate) fn fail(&mut self, row: &Row, mut failure: Failure, ledger: &mut Ledger, now: Time) {
        failure.attempts = row.attempts;
        let doubtful =
            !self.doubtful.is_empty() && self.doubtful.remove(&(row.origin.scope, row.origin.row));
        if doubtful {
            failure.reason = format!(
                "an earlier attempt may have been stored, and then: {}",
                failure.reason
            );
            ledger.unknown(row.origin, failure, now);
        } else {
            ledger.failed(row.origin, failure, now);
        }
    }

    /// Why a row that waits must not be sent any more.
    pub(crate) fn overdue(
        &self,
        row: &Row,
        why: Option<&Failure>,
        ledger: &Ledger,
        now: Time,
    ) -> Option<Failure> {
        let scope = ledger.scope(row.origin.scope)?;
        if scope.phase == Phase::Aborted {
            return Some(aborted(row.origin.row, &self.name));
        }
        if now >= row.accepted_at.saturating_add(scope.timeout) {
            let why = why.or(match &self.door {
                Door::Backoff { why, .. } => Some(why),
                _ => None,
            });
            return Some(timed_out(
                row.origin.row,
                &self.name,
                scope.timeout,
                why.map(|why| &*why.reason),
            ));
        }
        None
    }

    /// Fails all that waits and for which `why` has a failure.
    fn fail_where(
        &mut self,
        ledger: &mut Ledger,
        now: Time,
        why: impl Fn(&Self, &Ledger, &Row, Option<&Failure>) -> Option<Failure>,
    ) {
        let mut ahead = std::mem::take(&mut self.ahead);
        for entry in std::mem::take(&mut ahead) {
            match entry {
                Ahead::Row(row) => match why(self, ledger, &row, None) {
                    Some(failure) => self.drop_row(&row, failure, ledger, now),
                    None => ahead.push_back(Ahead::Row(row)),
                },
                Ahead::Exact(rows) => {
                    let mut kept = VecDeque::with_capacity(rows.len());
                    for row in rows {
                        match why(self, ledger, &row, None) {
                            Some(failure) => self.drop_row(&row, failure, ledger, now),
                            None => kept.push_back(row),
                        }
                    }
                    if !kept.is_empty() {
                        ahead.push_back(Ahead::Exact(kept));
                    }
                }
            }
        }
        self.ahead = ahead;
        for (due, (row, cause)) in std::mem::take(&mut self.later) {
            match why(self, ledger, &row, Some(&cause)) {
                Some(failure) => self.drop_row(&row, failure, ledger, now),
                None => {
                    self.later.insert(due, (row, cause));
                }
            }
        }
        let holds = std::mem::take(&mut self.keys.holds);
        for (key, mut hold) in holds {
            for (place, held) in std::mem::take(&mut hold.failed) {
                let cause = match &held.cause {
                    Cause::Failed(failure) | Cause::Unknown(failure) => Some(failure),
                    Cause::Isolated => None,
                };
                match why(self, ledger, &held.row, cause) {
                    Some(failure) => self.drop_row(&held.row, failure, ledger, now),
                    None => {
                        hold.failed.insert(place, held);
                    }
                }
            }
            for row in std::mem::take(&mut hold.parked) {
                match why(self, ledger, &row, None) {
                    Some(failure) => self.drop_row(&row, failure, ledger, now),
                    None => hold.parked.push_back(row),
                }
            }
            self.keys.holds.insert(key, hold);
        }
    }

    fn drop_row(&mut self, row: &Row, failure: Failure, ledger: &mut Ledger, now: Time) {
        self.queued = self.queued.saturating_sub(1);
        self.fail(row, failure, ledger, now);
    }

    fn drop_chunk(
        &mut self,
        mut chunk: Chunk,
        ledger: &mut Ledger,
        now: Time,
        failure: impl Fn(&Row) -> Failure,
    ) {
        while let Some(row) = chunk.next() {
            let failure = failure(&row);
            self.drop_row(&row, failure, ledger, now);
        }
    }

    /// Fails everything that waits, for one reason.
    pub(crate) fn fail_all(&mut self, failure: &Failure, ledger: &mut Ledger, now: Time) {
        for chunk in self.flows.take(|_| true) {
            self.drop_chunk(chunk, ledger, now, |_| failure.clone());
        }
        self.fail_where(ledger, now, |_, _, _, _| Some(failure.clone()));
        self.release_holds(ledger, now);
    }

    /// Fails rows whose time has passed or whose scope was aborted.
    pub(crate) fn sweep(&mut self, ledger: &mut Ledger, now: Time) {
        if self.queued == 0 {
            return;
        }
        let gone = |chunk: &Chunk| {
            ledger.scope(chunk.scope).is_none_or(|scope| {
                scope.phase == Phase::Aborted
                    || now >= chunk.accepted_at.saturating_add(scope.timeout)
            })
        };
        for chunk in self.flows.take(gone) {
            let why = match &self.door {
                Door::Backoff { why, .. } => Some(why.reason.clone()),
                _ => None,
            };
            let name = Arc::clone(&self.name);
            let (was_aborted, timeout) = ledger
                .scope(chunk.scope)
                .map_or((false, Time::ZERO), |scope| {
                    (scope.phase == Phase::Aborted, scope.timeout)
                });
            self.drop_chunk(chunk, ledger, now, |row| {
                if was_aborted {
                    aborted(row.origin.row, &name)
                } else {
                    timed_out(row.origin.row, &name, timeout, why.as_deref())
                }
            });
        }
        let exceptional = !self.ahead.is_empty() || !self.later.is_empty() || !self.keys.is_empty();
        if exceptional {
            self.fail_where(ledger, now, |lane, ledger, row, why| {
                lane.overdue(row, why, ledger, now)
            });
            self.release_holds(ledger, now);
        }
    }
}

// === rows whose wait is over ===

impl Lane {
    /// Moves rows whose backoff is over to where they are sent from. Returns how many.
    pub(crate) fn release_due(&mut self, ledger: &mut Ledger, now: Time) -> u64 {
        let mut resent = 0;
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let (row, _) = entry.remove();
            self.ahead.push_back(Ahead::Row(row));
            resent += 1;
        }
        resent + self.release_holds(ledger, now)
    }

    /// Goes on with keys of which nothing is in flight any more: what was overtaken has its verdict,
    /// the rest is sent again, in order, before what waited behind it.
    pub(crate) fn release_holds(&mut self, ledger: &mut Ledger, now: Time) -> u64 {
        if self.keys.is_empty() {
            return 0;
        }
        // No need to wait for what can only be refused.
        let holds = self.keys.holds.values_mut();
        let overtaken: Vec<_> = holds.flat_map(Hold::take_overtaken).collect();
        for held in overtaken {
            self.queued = self.queued.saturating_sub(1);
            self.overtaken(&held.row, held.cause, ledger, now);
        }
        let mut resent = 0;
        for key in self.keys.due(now) {
            if let Some(hold) = self.keys.holds.remove(&key) {
                resent += self.resume(hold);
            }
        }
        resent
    }

    fn resume(&mut self, hold: Hold) -> u64 {
        let resent = hold.failed.len();
        for row in hold.parked.into_iter().rev() {
            self.ahead.push_front(Ahead::Row(row));
        }
        for held in hold.failed.into_values().rev() {
            self.ahead.push_front(match held.cause {
                Cause::Isolated => Ahead::Exact(VecDeque::from([held.row])),
                Cause::Failed(_) | Cause::Unknown(_) => Ahead::Row(held.row),
            });
        }
        u64::try_from(resent).unwrap_or(0)
    }

    /// A row cannot be sent again, since a later one of its key may be stored.
    pub(crate) fn overtaken(&mut self, row: &Row, cause: Cause, ledger: &mut Ledger, now: Time) {
        use sluicegate_core::FailureClass::OutOfOrder;
        let because = match cause {
            Cause::Failed(failure) | Cause::Unknown(failure) => failure.to_string(),
            Cause::Isolated => "a message of its batch was refused".to_owned(),
        };
        let failure = Failure::fatal(
            OutOfOrder,
            format!(
                "row {} for {:?}: it failed ({because}), and a later message of its key may be stored, so that sending it again would put it behind that one; publish it again if the order does not matter",
                row.origin.row, self.name
            ),
        );
        self.fail(row, failure, ledger, now);
    }

    /// When the lane has to be looked at next, if at all.
    pub(crate) fn next_time(&self, ledger: &Ledger, now: Time) -> Option<Time> {
        let deadline = |row: &Row| ledger.deadline(row).max(now + SWEEP);
        let mut next: Option<Time> = None;
        let mut at = |time: Time| {
            let time = time.max(now + TICK);
            next = Some(next.map_or(time, |next| next.min(time)));
        };
        for chunk in self.flows.chunks() {
            if let Some(scope) = ledger.scope(chunk.scope) {
                at(chunk
                    .accepted_at
                    .saturating_add(scope.timeout)
                    .max(now + SWEEP));
            }
        }
        for entry in &self.ahead {
            match entry {
                Ahead::Row(row) => at(deadline(row)),
                Ahead::Exact(rows) => rows.iter().for_each(|row| at(deadline(row))),
            }
        }
        for ((due, _), (row, _)) in &self.later {
            at((*due).min(deadline(row)));
        }
        for hold in self.keys.holds.values() {
            if hold.flying == 0 {
                at(hold.due);
            }
            for held in hold.failed.values() {
                at(deadline(&held.row));
            }
            hold.parked.iter().for_each(|row| at(deadline(row)));
        }
        match &self.door {
            Door::Backoff { until, .. } => at(*until),
            Door::Refused { until, .. } if self.queued > 0 => at(*until),
            _ => {}
        }
        if !self.policy.linger.is_zero() && self.has_work() && self.flights.is_empty() {
            at(self.linger_from.saturating_add(self.policy.linger));
        }
        if self.is_idle() {
            at(self.idle_since.saturating_add(self.policy.idle_eviction));
        }
        next
    }
}
