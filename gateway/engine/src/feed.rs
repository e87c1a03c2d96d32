//! What a connection is to do next.
//!
//! **A lane is opened before its first batch** and again when its connection was made anew; rows wait
//! meanwhile. Openings and batches take turns, and so do the lanes of a connection.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{Batch, Failure, FailureClass, Opened, Time};

use crate::OpenRequest;
use crate::admit::Terms;
use crate::effects::{Notice, Wake};
use crate::flight::Flight;
use crate::gather::Draft;
use crate::lane::Door;
use crate::rng::backoff;
use crate::state::State;

/// How long a refusal answers for a destination before the broker is asked again: short enough for a
/// person who has just created the queue, long enough that a client in a loop does not flood it.
const REFUSAL: Duration = Duration::from_millis(100);

/// What a connection is to do.
#[derive(Debug)]
pub(crate) enum Work {
    Open {
        lane: usize,
        epoch: u64,
        request: OpenRequest,
    },
    Send {
        flight: usize,
        batch: Arc<Batch>,
    },
    /// Nothing until it is woken.
    Wait,
}

impl State {
    pub(crate) fn next_work(&mut self, connection: usize, now: Time) -> Work {
        loop {
            let Some(conn) = self.conns.get_mut(connection) else {
                return Work::Wait;
            };
            conn.idle = false;
            let room = conn.room();
            let sends = room > 0 && !conn.ready.is_empty();
            let opens = !conn.to_open.is_empty();
            if opens && (!conn.opened_last || !sends) {
                conn.opened_last = true;
                if let Some(lane) = conn.to_open.pop_front()
                    && let Some(work) = self.open_lane(lane)
                {
                    return work;
                }
                continue;
            }
            conn.opened_last = false;
            if !sends {
                conn.idle = true;
                return Work::Wait;
            }
            let Some(key) = conn.ready.pop_front() else {
                continue;
            };
            let Some(lane) = self.lanes.get_mut(key) else {
                continue;
            };
            lane.scheduled = false;
            let draft = lane.gather(room, &mut self.ledger, now);
            let Some(draft) = draft else {
                self.settle_idle(key, now);
                self.unblock(now);
                continue;
            };
            let work = self.take_off(key, draft, now);
            self.kick(key, now);
            self.unblock(now);
            return work;
        }
    }

    fn open_lane(&mut self, key: usize) -> Option<Work> {
        let lane = self.lanes.get_mut(key)?;
        lane.open_listed = false;
        let needed = lane.queued > 0 || lane.wanted;
        if !needed || !matches!(lane.door, Door::Closed) {
            return None;
        }
        lane.door = Door::Opening;
        let route = self.routes.get(lane.route)?;
        Some(Work::Open {
            lane: key,
            epoch: self.conns.get(lane.connection)?.epoch,
            request: OpenRequest {
                destination: Arc::clone(&lane.name),
                settings: Arc::clone(&route.route.settings),
            },
        })
    }

    fn take_off(&mut self, key: usize, draft: Draft, now: Time) -> Work {
        let Some(lane) = self.lanes.get_mut(key) else {
            return Work::Wait;
        };
        let address = match &lane.door {
            Door::Open(terms) => terms.opened.address,
            _ => 0,
        };
        let rows = draft.rows.len();
        let batch = Arc::new(Batch {
            destination: Arc::clone(&lane.name),
            address,
            rows: draft.rows,
            body_bytes: draft.body_bytes,
            deadline: draft.deadline,
            receipts: draft.receipts,
        });
        let seq = lane.next_seq();
        let jitter = self.rng.next();
        let flight = Flight::new(key, seq, Arc::clone(&batch), draft.streams, jitter, now);
        let flight = self.flights.insert(flight);
        lane.flights.push_back(flight);
        lane.keys.sent();
        lane.register(batch.deadline, &mut self.ledger);
        self.batches += 1;
        if let Some(conn) = self.conns.get_mut(lane.connection) {
            conn.batches_in_flight += 1;
            conn.rows_in_flight += u64::try_from(rows).unwrap_or(0);
        }
        Work::Send { flight, batch }
    }

    /// Schedules a lane for whatever it needs next.
    pub(crate) fn kick(&mut self, key: usize, now: Time) {
        let Some(lane) = self.lanes.get_mut(key) else {
            return;
        };
        if !lane.has_work() && !lane.wanted {
            return;
        }
        if let Door::Refused { until, why } = &lane.door
            && now < *until
        {
            let why = why.clone();
            lane.fail_all(&why, &mut self.ledger, now);
            return;
        }
        if let Door::Backoff { until, .. } = &lane.door
            && now < *until
        {
            let until = *until;
            lane.register(until, &mut self.ledger);
            return;
        }
        if matches!(lane.door, Door::Refused { .. } | Door::Backoff { .. }) {
            lane.door = Door::Closed;
        }
        let Some(conn) = self.conns.get_mut(lane.connection) else {
            return;
        };
        let wake = match lane.door {
            Door::Open(_) if lane.has_work() => {
                if !lane.scheduled {
                    lane.scheduled = true;
                    conn.ready.push_back(key);
                }
                conn.room() > 0
            }
            Door::Closed => {
                if !lane.open_listed {
                    lane.open_listed = true;
                    conn.to_open.push_back(key);
                }
                true
            }
            _ => false,
        };
        if wake && conn.idle {
            conn.idle = false;
            self.ledger
                .effects
                .wakes
                .push(Wake::Connection(lane.connection));
        }
    }

    /// A window slot is free again.
    pub(crate) fn wake_connection(&mut self, connection: usize) {
        if let Some(conn) = self.conns.get_mut(connection)
            && conn.idle
            && !conn.ready.is_empty()
            && conn.room() > 0
        {
            conn.idle = false;
            self.ledger.effects.wakes.push(Wake::Connection(connection));
        }
    }

    /// If nothing of the lane is left, its time as an idle one begins.
    pub(crate) fn settle_idle(&mut self, key: usize, now: Time) {
        if let Some(lane) = self.lanes.get_mut(key)
            && lane.is_idle()
        {
            lane.idle_since = now;
            lane.doubtful.clear();
            let at = now.saturating_add(lane.policy.idle_eviction);
            lane.register(at, &mut self.ledger);
        }
    }
}

// === opening ===

impl State {
    /// What the broker said about a destination.
    pub(crate) fn opened(
        &mut self,
        key: usize,
        epoch: u64,
        result: Result<Opened, Failure>,
        now: Time,
    ) {
        let Some(lane) = self.lanes.get_mut(key) else {
            return;
        };
        let current = self
            .conns
            .get(lane.connection)
            .is_some_and(|conn| conn.epoch == epoch);
        if current || result.is_err() {
            lane.answers += 1;
            lane.wanted = false;
        }
        if let Some(state) = self.routes.get_mut(lane.route)
            && *state.route.pattern == *lane.name
        {
            state.last = Some(match &result {
                Ok(opened) => Ok(Arc::new(opened.clone())),
                Err(why) => Err(why.clone()),
            });
        }
        match result {
            Ok(opened) if current => {
                lane.open_failures = 0;
                lane.door = Door::Open(Terms::new(opened, &lane.policy));
            }
            Ok(_) => lane.door = Door::Closed,
            Err(why) => {
                self.ledger.effects.notices.push(Notice::NotOpened {
                    destination: Arc::clone(&lane.name),
                    failure: why.clone(),
                });
                if why.retryable {
                    lane.open_failures = lane.open_failures.saturating_add(1);
                    let failures = lane.open_failures;
                    let jitter = self.rng.next();
                    let wait = backoff(lane.policy.backoff, failures, jitter);
                    let until = now.saturating_add(wait);
                    lane.door = Door::Backoff { until, why };
                } else {
                    lane.door = Door::Refused {
                        until: now.saturating_add(REFUSAL),
                        why: why.clone(),
                    };
                    lane.fail_all(&why, &mut self.ledger, now);
                }
            }
        }
        self.ledger.effects.wakes.push(Wake::Opened);
        self.kick(key, now);
        self.settle_idle(key, now);
        self.unblock(now);
    }

    /// Asks for a destination to be opened. Returns its lane, and how often it had been answered.
    pub(crate) fn want_open(
        &mut self,
        destination: &str,
        now: Time,
    ) -> Result<(usize, u64), Failure> {
        let key = self.lane_for(destination, now)?;
        let answers = self.lanes.get(key).map_or(0, |lane| lane.answers);
        if let Some(lane) = self.lanes.get_mut(key)
            && !matches!(lane.door, Door::Open(_))
        {
            lane.wanted = true;
            if let Door::Refused { until, .. } | Door::Backoff { until, .. } = &mut lane.door {
                *until = now;
            }
        }
        self.kick(key, now);
        Ok((key, answers))
    }

    /// The answer to `want_open`, once there is one.
    pub(crate) fn open_answer(&self, key: usize, answers: u64) -> Option<Result<Opened, Failure>> {
        let Some(lane) = self.lanes.get(key) else {
            return Some(Err(Failure::retryable(
                FailureClass::Unavailable,
                "the destination was idle and forgotten before it was looked at; ask again",
            )));
        };
        match &lane.door {
            Door::Open(terms) => Some(Ok(Opened::clone(&terms.opened))),
            Door::Backoff { why, .. } | Door::Refused { why, .. } if lane.answers > answers => {
                Some(Err(why.clone()))
            }
            _ => None,
        }
    }

    /// A connection was made anew: what was found out about its destinations may not hold.
    pub(crate) fn reopen(&mut self, connection: usize, now: Time) {
        if let Some(conn) = self.conns.get_mut(connection) {
            conn.epoch += 1;
        }
        let mut closed = Vec::new();
        for (key, lane) in &mut self.lanes {
            if lane.connection == connection && matches!(lane.door, Door::Open(_)) {
                lane.door = Door::Closed;
                lane.scheduled = false;
                closed.push(key);
            }
        }
        if let Some(conn) = self.conns.get_mut(connection) {
            conn.ready.retain(|lane| !closed.contains(lane));
        }
        for lane in closed {
            self.kick(lane, now);
        }
    }
}

impl State {
    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.ledger.timers.next()
    }

    /// Does what time has made due.
    pub(crate) fn tick(&mut self, now: Time) {
        use crate::timers::Timer;
        while let Some(timer) = self.ledger.timers.pop_due(now) {
            match timer {
                Timer::Stream(stream) => self.ledger.check_stall(stream, now),
                Timer::Lane(lane) => self.tick_lane(lane, now),
            }
        }
        self.unblock(now);
    }

    fn tick_lane(&mut self, key: usize, now: Time) {
        let Some(lane) = self.lanes.get_mut(key) else {
            return;
        };
        if !lane.timer_fired(now) {
            return;
        }
        self.sweep_flights(key, now);
        let Some(lane) = self.lanes.get_mut(key) else {
            return;
        };
        lane.sweep(&mut self.ledger, now);
        self.retries += lane.release_due(&mut self.ledger, now);
        let idle_for = now.saturating_sub(lane.idle_since);
        if lane.is_idle() && idle_for >= lane.policy.idle_eviction {
            self.evict(key);
            return;
        }
        if lane.is_idle() && !lane.doubtful.is_empty() {
            lane.doubtful.clear();
        }
        self.kick(key, now);
        let Some(lane) = self.lanes.get_mut(key) else {
            return;
        };
        let own = lane.next_time(&self.ledger, now);
        let flights = lane.flights.iter().filter_map(|key| self.flights.get(*key));
        let overdue = flights
            .filter(|flight| flight.unsettled > 0)
            .map(|flight| flight.deadline.max(now))
            .min();
        if let Some(next) = own.into_iter().chain(overdue).min() {
            lane.register(next, &mut self.ledger);
        }
    }
}
