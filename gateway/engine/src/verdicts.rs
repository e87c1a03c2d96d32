//! What a connection reports of a batch, and what follows from it.
//!
//! **One layer retries: here.** A row is sent again only when it is known not to be stored (or when its
//! destination recognises its id), only while attempts and time are left, and never behind a later row
//! of its key.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use sluicegate_core::{Deduplication, Failure, FailureClass, Receipt, Row, Time};

use crate::admit::aborted;
use crate::effects::Notice;
use crate::keys::{Cause, Held, Hold, KeyId};
use crate::lane::{Ahead, Door, SWEEP};
use crate::rng::backoff;
use crate::scope::Phase;
use crate::state::State;

/// A fault of an adapter is logged when its connection's count of faults is a power of two: the first
/// is never missed and a broken adapter does not fill the disk.
fn is_logged(faults: u64) -> bool {
    faults.is_power_of_two()
}

/// What is to become of a row that has come back.
enum Next {
    /// Sent again: at once when alone, after its backoff otherwise.
    Again(Time, Cause),
    Failed(Failure),
    Unknown(Failure),
}

impl State {
    /// Rows of a flight that exist and have no verdict, as runs; the rest are faults of the adapter.
    fn open_runs(&mut self, flight_key: usize, rows: Range<u32>) -> Vec<Range<u32>> {
        let Some(flight) = self.flights.get(flight_key) else {
            return Vec::new();
        };
        let end = rows.end.min(flight.rows());
        let start = rows.start.min(end);
        let mut fault = None;
        if rows.end > flight.rows() || rows.start > rows.end {
            fault = Some("gave a verdict on rows that the batch does not have");
        }
        let mut runs = Vec::new();
        if flight.none_settled(start..end) {
            if start < end {
                runs.push(start..end);
            }
        } else {
            if !flight.overdue {
                fault = Some("gave a second verdict on a row");
            }
            let mut run = start..start;
            for place in start..end {
                if flight.is_settled(place) {
                    if !run.is_empty() {
                        runs.push(run);
                    }
                    run = place + 1..place + 1;
                } else {
                    run.end = place + 1;
                }
            }
            if !run.is_empty() {
                runs.push(run);
            }
        }
        if let Some(what) = fault {
            self.adapter_fault(flight_key, what);
        }
        runs
    }

    fn adapter_fault(&mut self, flight_key: usize, what: &'static str) {
        let Some(flight) = self.flights.get(flight_key) else {
            return;
        };
        let Some(lane) = self.lanes.get(flight.lane) else {
            return;
        };
        if let Some(conn) = self.conns.get_mut(lane.connection) {
            conn.faults += 1;
            if is_logged(conn.faults) {
                self.ledger.effects.notices.push(Notice::AdapterFault {
                    connection: Arc::clone(&conn.name),
                    what,
                    total: conn.faults,
                });
            }
        }
    }

    pub(crate) fn confirmed(
        &mut self,
        flight_key: usize,
        rows: Range<u32>,
        receipts: &[Receipt],
        now: Time,
    ) {
        let expected = usize::try_from(rows.end.saturating_sub(rows.start)).unwrap_or(0);
        if !receipts.is_empty() && receipts.len() != expected {
            self.adapter_fault(flight_key, "gave receipts for other rows than it confirmed");
        }
        let first = rows.start;
        for run in self.open_runs(flight_key, rows) {
            self.confirm_receipts(flight_key, &run, first, receipts);
            self.confirm_run(flight_key, run, now);
        }
        self.after(flight_key, now);
    }

    fn confirm_receipts(
        &mut self,
        flight_key: usize,
        run: &Range<u32>,
        first: u32,
        receipts: &[Receipt],
    ) {
        if receipts.is_empty() {
            return;
        }
        let Some(flight) = self.flights.get(flight_key) else {
            return;
        };
        for place in run.clone() {
            let index = usize::try_from(place - first).unwrap_or(usize::MAX);
            if let (Some(row), Some(receipt)) = (flight.row(place), receipts.get(index)) {
                self.ledger.receipt(row.origin, receipt.clone());
            }
        }
    }

    fn confirm_run(&mut self, flight_key: usize, run: Range<u32>, now: Time) {
        let Some(flight) = self.flights.get_mut(flight_key) else {
            return;
        };
        flight.settle(run.clone(), true);
        let count = run.end - run.start;
        flight.delivered += count;
        if let Some(lane) = self.lanes.get_mut(flight.lane) {
            if let Some(conn) = self.conns.get_mut(lane.connection) {
                conn.rows_in_flight = conn.rows_in_flight.saturating_sub(u64::from(count));
            }
            if flight.keyed {
                let overtakes = lane
                    .flights
                    .front()
                    .is_some_and(|first| *first != flight_key);
                if overtakes || !lane.keys.is_empty() {
                    for place in run.clone() {
                        if let Some(key) = flight.key(place) {
                            if overtakes {
                                lane.keys.overtook(key, flight.seq);
                            }
                            lane.keys.landed(key, (flight.seq, place), true);
                        }
                    }
                }
            }
            if !lane.doubtful.is_empty() {
                for row in run.clone().filter_map(|place| flight.row(place)) {
                    lane.doubtful.remove(&(row.origin.scope, row.origin.row));
                }
            }
        }
        // Consecutive rows of one scope and one frame are one range.
        let start = usize::try_from(run.start).unwrap_or(usize::MAX);
        let end = usize::try_from(run.end).unwrap_or(usize::MAX);
        let rows = flight.batch.rows.get(start..end).unwrap_or_default();
        let mut rows = rows.iter();
        let Some(first) = rows.next() else {
            return;
        };
        let mut origin = first.origin;
        let mut next = origin.row + 1;
        let mut settle = |origin: sluicegate_core::Origin, next: u64| {
            self.ledger.landed(origin.scope, next - origin.row);
            self.ledger
                .confirmed(origin.scope, origin.frame, origin.row..next, now);
        };
        for row in rows {
            let same = row.origin.scope == origin.scope && row.origin.frame == origin.frame;
            if same && row.origin.row == next {
                next += 1;
            } else {
                settle(origin, next);
                origin = row.origin;
                next = origin.row + 1;
            }
        }
        settle(origin, next);
    }

    pub(crate) fn failed(
        &mut self,
        flight_key: usize,
        rows: Range<u32>,
        failure: &Failure,
        now: Time,
    ) {
        for run in self.open_runs(flight_key, rows) {
            for place in run {
                self.come_back(flight_key, place, Cause::Failed(failure.clone()), now);
            }
        }
        self.after(flight_key, now);
    }

    pub(crate) fn lost(
        &mut self,
        flight_key: usize,
        rows: Range<u32>,
        reason: &Failure,
        now: Time,
    ) {
        for run in self.open_runs(flight_key, rows) {
            for place in run {
                self.come_back(flight_key, place, Cause::Unknown(reason.clone()), now);
            }
        }
        self.after(flight_key, now);
    }

    /// Takes a row out of its flight.
    fn land(&mut self, flight_key: usize, place: u32, stored: bool) -> Option<(Row, usize)> {
        let flight = self.flights.get_mut(flight_key)?;
        let row = flight.row(place)?.clone();
        flight.settle(place..place + 1, stored);
        let lane = self.lanes.get_mut(flight.lane)?;
        if let Some(conn) = self.conns.get_mut(lane.connection) {
            conn.rows_in_flight = conn.rows_in_flight.saturating_sub(1);
        }
        if let Some(key) = flight.key(place) {
            if stored {
                let first = lane.flights.front();
                if first.is_some_and(|first| *first != flight_key) {
                    lane.keys.overtook(key, flight.seq);
                }
            }
            lane.keys.landed(key, (flight.seq, place), stored);
        }
        self.ledger.landed(row.origin.scope, 1);
        Some((row, flight.lane))
    }

    /// A row came back without being confirmed.
    pub(crate) fn come_back(&mut self, flight_key: usize, place: u32, cause: Cause, now: Time) {
        let flight = self.flights.get(flight_key);
        let Some(row) = flight.and_then(|flight| flight.row(place)).cloned() else {
            return;
        };
        let next = self.decide(flight_key, &row, cause, now);
        // A row that may be stored stands in the way of earlier ones, also when it is sent again.
        let stored = matches!(next, Next::Unknown(_) | Next::Again(_, Cause::Unknown(_)));
        let Some((mut row, lane_key)) = self.land(flight_key, place, stored) else {
            return;
        };
        row.attempts += 1;
        let Some(lane) = self.lanes.get_mut(lane_key) else {
            return;
        };
        match next {
            Next::Unknown(mut reason) => {
                lane.doubtful.remove(&(row.origin.scope, row.origin.row));
                reason.attempts = row.attempts;
                self.ledger.unknown(row.origin, reason, now);
            }
            Next::Failed(failure) => lane.fail(&row, failure, &mut self.ledger, now),
            Next::Again(due, cause) => {
                if matches!(cause, Cause::Unknown(_)) {
                    lane.doubtful.insert((row.origin.scope, row.origin.row));
                }
                let key = self.flights.get(flight_key).and_then(|f| f.key(place));
                match key {
                    Some(key) => self.hold(flight_key, place, key, row, cause, due, now),
                    None => {
                        let (Cause::Failed(why) | Cause::Unknown(why)) = cause else {
                            return;
                        };
                        lane.wait(due, row, why);
                        lane.register(due, &mut self.ledger);
                    }
                }
            }
        }
    }

    fn decide(&self, flight_key: usize, row: &Row, cause: Cause, now: Time) -> Next {
        let (resendable, verdict) = match &cause {
            Cause::Failed(failure) => (failure.retryable, Next::Failed(failure.clone())),
            Cause::Unknown(reason) => (true, Next::Unknown(reason.clone())),
            Cause::Isolated => return Next::Again(now, cause),
        };
        let Some(flight) = self.flights.get(flight_key) else {
            return verdict;
        };
        let jitter = flight.jitter;
        let Some(lane) = self.lanes.get(flight.lane) else {
            return verdict;
        };
        let deduplicates = match &lane.door {
            Door::Open(terms) => {
                terms.opened.capabilities.deduplication == Deduplication::MessageId
            }
            _ => false,
        };
        let safe =
            !matches!(cause, Cause::Unknown(_)) || deduplicates && row.message.id().is_some();
        let attempts = row.attempts.saturating_add(1);
        let scope = self.ledger.scope(row.origin.scope);
        let wanted = scope.is_some_and(|scope| scope.phase != Phase::Aborted);
        if !resendable
            || !safe
            || !wanted
            || self.ledger.gave_up
            || attempts >= lane.policy.attempts
        {
            return verdict;
        }
        let due = now.saturating_add(backoff(lane.policy.backoff, attempts, jitter));
        if due >= self.ledger.deadline(row) {
            return verdict;
        }
        Next::Again(due, cause)
    }

    /// A keyed row waits with its key until it may be sent again.
    #[expect(
        clippy::too_many_arguments,
        reason = "a row, where it was, and why it waits: one call, two callers"
    )]
    fn hold(
        &mut self,
        flight_key: usize,
        place: u32,
        key: KeyId,
        row: Row,
        cause: Cause,
        due: Time,
        now: Time,
    ) {
        let Some(flight) = self.flights.get(flight_key) else {
            return;
        };
        let at = (flight.seq, place);
        let Some(lane) = self.lanes.get_mut(flight.lane) else {
            return;
        };
        lane.queued += 1;
        if !lane.keys.holds.contains_key(&key) {
            let (flying, stored) = lane.keys.look(key, &self.flights, &lane.flights);
            let hold = Hold {
                flying,
                stored,
                due,
                ..Hold::default()
            };
            lane.keys.holds.insert(key, hold);
        }
        if let Some(hold) = lane.keys.holds.get_mut(&key) {
            hold.due = hold.due.max(due);
            let held = Held { row, cause };
            hold.failed.insert(at, held);
        }
        lane.register(due.max(now), &mut self.ledger);
    }

    /// A command failed as a whole because of at least one of its rows: they are split, left half
    /// first, and a row that fails alone fails with `failure`.
    pub(crate) fn isolate(
        &mut self,
        flight_key: usize,
        rows: Range<u32>,
        failure: &Failure,
        now: Time,
    ) {
        let alone = rows.end.saturating_sub(rows.start) == 1;
        let runs = self.open_runs(flight_key, rows);
        if alone {
            for place in runs.into_iter().flatten() {
                self.come_back(flight_key, place, Cause::Failed(failure.clone()), now);
            }
            self.after(flight_key, now);
            return;
        }
        // All of them leave the flight before any key is looked at: nothing of these rows is stored,
        // so that none of them stands in another's way.
        let mut landed = Vec::new();
        for place in runs.into_iter().flatten() {
            landed.extend(
                self.land(flight_key, place, false)
                    .map(|(row, _)| (place, row)),
            );
        }
        let mut kept = VecDeque::new();
        for (place, row) in landed {
            if let Some(row) = self.isolated(flight_key, place, row, now) {
                kept.push_back(row);
            }
        }
        let lane = self.flights.get(flight_key).map(|flight| flight.lane);
        if let Some(lane) = lane.and_then(|lane| self.lanes.get_mut(lane)) {
            let half = kept.split_off(kept.len().div_ceil(2));
            for rows in [half, kept] {
                if !rows.is_empty() {
                    lane.queued += u64::try_from(rows.len()).unwrap_or(0);
                    lane.ahead.push_front(Ahead::Exact(rows));
                }
            }
        }
        self.after(flight_key, now);
    }

    /// Gives the row back if nothing of its key stands in the way of sending it again at once.
    fn isolated(&mut self, flight_key: usize, place: u32, row: Row, now: Time) -> Option<Row> {
        let flight = self.flights.get(flight_key)?;
        let lane = self.lanes.get_mut(flight.lane)?;
        let scope = self.ledger.scope(row.origin.scope);
        if scope.is_some_and(|scope| scope.phase == Phase::Aborted) {
            let failure = aborted(row.origin.row, &lane.name);
            lane.fail(&row, failure, &mut self.ledger, now);
            return None;
        }
        let Some(key) = flight.key(place) else {
            return Some(row);
        };
        let at = (flight.seq, place);
        let held = lane.keys.holds.contains_key(&key);
        let (flying, stored) = lane.keys.look(key, &self.flights, &lane.flights);
        if !held && flying == 0 {
            if stored.is_some_and(|stored| stored > at) {
                lane.overtaken(&row, Cause::Isolated, &mut self.ledger, now);
                return None;
            }
            return Some(row);
        }
        self.hold(flight_key, place, key, row, Cause::Isolated, now, now);
        None
    }

    /// What every report ends with.
    pub(crate) fn after(&mut self, flight_key: usize, now: Time) {
        let Some(lane_key) = self.flights.get(flight_key).map(|flight| flight.lane) else {
            return;
        };
        let Some(lane) = self.lanes.get_mut(lane_key) else {
            return;
        };
        self.retries += lane.release_holds(&mut self.ledger, now);
        let connection = lane.connection;
        self.kick(lane_key, now);
        self.unblock(now);
        self.wake_connection(connection);
    }

    /// Rows in flight whose time has passed are unknown: they were handed over and may be stored.
    pub(crate) fn sweep_flights(&mut self, lane_key: usize, now: Time) {
        let Some(lane) = self.lanes.get(lane_key) else {
            return;
        };
        let overdue = |key: &usize| {
            self.flights
                .get(*key)
                .is_some_and(|flight| flight.unsettled > 0 && flight.deadline <= now)
        };
        let flights: Vec<usize> = lane.flights.iter().copied().filter(overdue).collect();
        for flight_key in flights {
            self.sweep_flight(flight_key, now);
        }
    }

    fn sweep_flight(&mut self, flight_key: usize, now: Time) {
        let Some(flight) = self.flights.get(flight_key) else {
            return;
        };
        let mut next = Time::MAX;
        let mut due = Vec::new();
        for place in (0..flight.rows()).filter(|place| !flight.is_settled(*place)) {
            let Some(row) = flight.row(place) else {
                continue;
            };
            let deadline = self.ledger.deadline(row);
            if deadline <= now {
                due.push(place);
            } else {
                next = next.min(deadline);
            }
        }
        let destination = Arc::clone(&flight.batch.destination);
        if let Some(flight) = self.flights.get_mut(flight_key) {
            flight.deadline = next.max(now + SWEEP);
            flight.overdue |= !due.is_empty();
        }
        for place in due {
            let Some((row, lane_key)) = self.land(flight_key, place, true) else {
                continue;
            };
            let timeout = self
                .ledger
                .scope(row.origin.scope)
                .map_or(Time::ZERO, |scope| scope.timeout);
            let mut reason = Failure::retryable(
                FailureClass::Timeout,
                format!(
                    "row {} for {destination:?}: handed to the broker and not confirmed within {timeout:?}; it may be stored, so publish it again only if a duplicate does no harm",
                    row.origin.row
                ),
            );
            reason.attempts = row.attempts + 1;
            if let Some(lane) = self.lanes.get_mut(lane_key) {
                lane.doubtful.remove(&(row.origin.scope, row.origin.row));
            }
            self.ledger.unknown(row.origin, reason, now);
        }
        self.after(flight_key, now);
    }

    /// The last handle of a batch's replies is gone.
    pub(crate) fn close_flight(&mut self, flight_key: usize, sent: bool, now: Time) {
        let Some(flight) = self.flights.get(flight_key) else {
            return;
        };
        let destination = Arc::clone(&flight.batch.destination);
        let all = 0..flight.rows();
        if flight.unsettled > 0 {
            let places = all.filter(|place| !flight.is_settled(*place));
            let places: Vec<u32> = places.collect();
            let cause = if sent {
                Cause::Unknown(Failure::retryable(
                    FailureClass::Unavailable,
                    format!(
                        "sent to {destination:?}, and the confirmation was lost; it may be stored, so publish it again only if a duplicate does no harm"
                    ),
                ))
            } else {
                Cause::Failed(Failure::retryable(
                    FailureClass::Unavailable,
                    format!(
                        "the connection of {destination:?} gave the batch up before sending it; publish again"
                    ),
                ))
            };
            for place in places {
                self.come_back(flight_key, place, cause.clone(), now);
            }
        }
        let Some(flight) = self.flights.try_remove(flight_key) else {
            return;
        };
        let Some(lane) = self.lanes.get_mut(flight.lane) else {
            return;
        };
        lane.flights.retain(|key| *key != flight_key);
        let oldest = lane.flights.front().and_then(|key| self.flights.get(*key));
        lane.keys.closed(oldest.map(|flight| flight.seq));
        self.retries += lane.release_holds(&mut self.ledger, now);
        let connection = lane.connection;
        if let Some(conn) = self.conns.get_mut(connection) {
            conn.batches_in_flight = conn.batches_in_flight.saturating_sub(1);
            let round_trip = now.saturating_sub(flight.sent_at);
            conn.window.on_settled(flight.delivered, round_trip);
        }
        let lane_key = flight.lane;
        self.ledger.effects.batches.push(flight.batch);
        self.kick(lane_key, now);
        self.unblock(now);
        self.settle_idle(lane_key, now);
        self.wake_connection(connection);
    }
}
