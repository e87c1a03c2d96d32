//! The engine without its tasks: a state machine that does no I/O and reads no clock.
//!
//! **Every call says what time it is and returns at once.** What has to happen outside (a task to
//! wake, a batch to free) is left in [`Effects`]. So the same code runs under the gateway's tasks and
//! under a simulation that lives through years in a second.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use slab::Slab;
use sluicegate_core::{Failure, FailureClass, Message, Opened, Time, Window, WindowUnit};

use crate::admit::clipped;
use crate::effects::Effects;
use crate::flight::Flight;
use crate::flow::{Chunk, FlowKey};
use crate::give_up::not_sent;
use crate::lane::{Door, Lane};
use crate::ledger::{Ledger, Taken};
use crate::pattern;
use crate::rng::Rng;
use crate::scope::Phase;
use crate::window::{FixedWindow, WindowPolicy};
use crate::{
    Config, ConfigError, DestinationInfo, Event, Memory, ProtocolFault, Route, ScopeOptions, Stats,
};

/// Destinations with a lane at once. A pattern lets clients make up names; each costs about a
/// kilobyte here and an entry in its connection.
const LANES_MAX: usize = 10_000;

/// Length of a destination's name at most. Longer than any broker's own names (SQS: 80, AMQP: 255,
/// Kafka: 249), and short enough that names which clients make up take little memory.
const NAME_BYTES_MAX: usize = 1_024;

/// Why an unknown destination was used is mostly a typing error: this many names help.
const NAMES_SHOWN: usize = 8;

#[derive(Debug)]
pub(crate) struct RouteState {
    pub(crate) route: Route,
    /// What opening it found the last time; for exact names.
    pub(crate) last: Option<Result<Arc<Opened>, Failure>>,
}

#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) name: Arc<str>,
    pub(crate) unit: WindowUnit,
    pub(crate) window: Box<dyn WindowPolicy>,
    pub(crate) batches_in_flight: u32,
    pub(crate) rows_in_flight: u64,
    /// Lanes with something to send, in the order of their turns.
    pub(crate) ready: VecDeque<usize>,
    pub(crate) to_open: VecDeque<usize>,
    /// Whether the last work was an opening: openings and batches take turns.
    pub(crate) opened_last: bool,
    /// Whether its task waits to be woken.
    pub(crate) idle: bool,
    /// How often it was made anew.
    pub(crate) epoch: u64,
    pub(crate) faults: u64,
}

impl Conn {
    fn new(name: Arc<str>, window: Window) -> Self {
        Self {
            name,
            unit: window.unit,
            window: Box::new(FixedWindow::new(window.size)),
            batches_in_flight: 0,
            rows_in_flight: 0,
            ready: VecDeque::new(),
            to_open: VecDeque::new(),
            opened_last: false,
            idle: true,
            epoch: 0,
            faults: 0,
        }
    }

    /// How many rows may be sent now.
    pub(crate) fn room(&self) -> usize {
        let capacity = self.window.capacity();
        match self.unit {
            WindowUnit::Requests if self.batches_in_flight < capacity => usize::MAX,
            WindowUnit::Requests => 0,
            WindowUnit::Messages => {
                let free = u64::from(capacity).saturating_sub(self.rows_in_flight);
                usize::try_from(free).unwrap_or(usize::MAX)
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) ledger: Ledger,
    pub(crate) routes: Vec<RouteState>,
    pub(crate) conns: Vec<Conn>,
    pub(crate) lanes: Slab<Lane>,
    by_name: HashMap<Arc<str>, usize>,
    pub(crate) flights: Slab<Flight>,
    pub(crate) rng: Rng,
    pub(crate) batches: u64,
    pub(crate) retries: u64,
    pub(crate) provider_requests: u64,
}

impl State {
    pub(crate) fn new(config: Config, seed: u64) -> Result<Self, ConfigError> {
        for (place, route) in config.routes.iter().enumerate() {
            let connection = usize::try_from(route.connection.0).unwrap_or(usize::MAX);
            if config.connections.get(connection).is_none() {
                return Err(ConfigError(format!(
                    "destination {:?} is on connection number {connection}, and there are {}: name a connection that is configured",
                    route.pattern,
                    config.connections.len()
                )));
            }
            if route.pattern.is_empty() {
                return Err(ConfigError(
                    "a destination has an empty name: name it, or use * for all".into(),
                ));
            }
            let before = config.routes.iter().take(place);
            if before.into_iter().any(|r| r.pattern == route.pattern) {
                return Err(ConfigError(format!(
                    "destination {:?} is configured twice: remove one",
                    route.pattern
                )));
            }
        }
        let conns = config.connections.into_iter();
        let routes = config.routes.into_iter();
        Ok(Self {
            ledger: Ledger::new(config.limits),
            routes: routes
                .map(|route| RouteState { route, last: None })
                .collect(),
            conns: conns.map(|c| Conn::new(c.name, c.window)).collect(),
            lanes: Slab::new(),
            by_name: HashMap::new(),
            flights: Slab::new(),
            rng: Rng::new(seed),
            batches: 0,
            retries: 0,
            provider_requests: 0,
        })
    }

    pub(crate) fn effects(&mut self) -> Effects {
        std::mem::take(&mut self.ledger.effects)
    }

    /// Lets lanes go on that waited for a scope's verdicts.
    pub(crate) fn unblock(&mut self, now: Time) {
        while let Some(lane) = self.ledger.unblocked.pop() {
            self.kick(lane, now);
        }
    }
}

// === streams ===

impl State {
    pub(crate) fn open_stream(&mut self) -> Option<usize> {
        if self.ledger.draining.is_some() {
            return None;
        }
        Some(self.ledger.open_stream())
    }

    pub(crate) fn open_scope(
        &mut self,
        stream: usize,
        id: u64,
        options: ScopeOptions,
    ) -> Result<(), ProtocolFault> {
        self.ledger.open_scope(stream, id, options)
    }

    pub(crate) fn publish(
        &mut self,
        stream: usize,
        scope: u64,
        destination: &str,
        messages: Vec<Message>,
        memory: impl Into<Memory>,
        now: Time,
    ) -> Result<(), ProtocolFault> {
        let memory = memory.into();
        let scope_key = self.ledger.open_scope_key(stream, scope)?;
        let bytes = u64::try_from(memory.frame).unwrap_or(u64::MAX);
        let extra = u64::try_from(memory.extra).unwrap_or(u64::MAX);
        let count = u64::try_from(messages.len()).unwrap_or(u64::MAX);
        if count == 0 {
            self.ledger.give_back(stream, bytes);
            return Ok(());
        }
        let lane_key = match self.lane_for(destination, now) {
            Ok(lane) => lane,
            Err(failure) => {
                self.ledger.reject(scope_key, count, bytes, &failure, now);
                self.ledger.effects.messages.push(messages);
                return Ok(());
            }
        };
        let Some(lane) = self.lanes.get_mut(lane_key) else {
            return Ok(());
        };
        if let Door::Refused { until, why } = &lane.door
            && now < *until
        {
            let why = why.clone();
            self.ledger.reject(scope_key, count, bytes, &why, now);
            self.ledger.effects.messages.push(messages);
            return Ok(());
        }
        let Some((rows, frame)) = self.ledger.accept(scope_key, lane_key, count, bytes, extra)
        else {
            return Ok(());
        };
        let keyed = lane.ordered() && messages.iter().any(|message| message.key.is_some());
        let key = if keyed {
            FlowKey::Stream(stream)
        } else {
            FlowKey::Scope(scope_key)
        };
        let chunk = Chunk {
            scope: u32::try_from(scope_key).unwrap_or(u32::MAX),
            frame,
            next_row: rows.start,
            accepted_at: now,
            messages: messages.into_iter(),
        };
        lane.push(key, chunk, now);
        if let Some(scope) = self.ledger.scopes.get(scope_key) {
            let deadline = now.saturating_add(scope.timeout);
            lane.register(deadline, &mut self.ledger);
        }
        self.kick(lane_key, now);
        Ok(())
    }

    pub(crate) fn flush(
        &mut self,
        stream: usize,
        scope: u64,
        token: u64,
        now: Time,
    ) -> Result<(), ProtocolFault> {
        let key = self.ledger.open_scope_key(stream, scope)?;
        self.ledger.flush(key, token);
        self.end_linger(now);
        Ok(())
    }

    pub(crate) fn close_scope(
        &mut self,
        stream: usize,
        scope: u64,
        now: Time,
    ) -> Result<(), ProtocolFault> {
        let key = self.ledger.open_scope_key(stream, scope)?;
        self.ledger.close_scope(key, Phase::Closed);
        self.end_linger(now);
        Ok(())
    }

    pub(crate) fn abort_scope(
        &mut self,
        stream: usize,
        scope: u64,
        now: Time,
    ) -> Result<(), ProtocolFault> {
        let key = self.ledger.open_scope_key(stream, scope)?;
        self.ledger.close_scope(key, Phase::Aborted);
        for (_, lane) in &mut self.lanes {
            lane.sweep(&mut self.ledger, now);
        }
        self.kick_all(now);
        Ok(())
    }

    pub(crate) fn finish(&mut self, stream: usize, now: Time) {
        self.ledger.finish(stream);
        self.end_linger(now);
    }

    pub(crate) fn lose(&mut self, stream: usize, now: Time) {
        self.ledger.lose(stream);
        self.end_linger(now);
        self.unblock(now);
    }

    pub(crate) fn take_events(
        &mut self,
        stream: usize,
        events: &mut Vec<Event>,
        budget: usize,
        now: Time,
    ) -> Taken {
        let taken = self.ledger.take(stream, events, budget, now);
        self.unblock(now);
        taken
    }

    /// A scope that flushes or ends wants its rows sent: lanes that linger go on. A lane does not
    /// know which scopes its rows are of, so each that lingers does: rare, and never wrong.
    fn end_linger(&mut self, now: Time) {
        let lingers = |route: &RouteState| !route.route.policy.linger.is_zero();
        if !self.routes.iter().any(lingers) {
            return;
        }
        for (_, lane) in &mut self.lanes {
            lane.flushed |= lane.has_work();
        }
        self.kick_all(now);
    }

    pub(crate) fn kick_all(&mut self, now: Time) {
        let lanes: Vec<usize> = self.lanes.iter().map(|(key, _)| key).collect();
        for lane in lanes {
            self.kick(lane, now);
        }
        self.unblock(now);
    }
}

// === destinations ===

impl State {
    /// The lane of a destination; made by its first message.
    pub(crate) fn lane_for(&mut self, destination: &str, now: Time) -> Result<usize, Failure> {
        if self.ledger.gave_up {
            return Err(not_sent());
        }
        if let Some(lane) = self.by_name.get(destination) {
            return Ok(*lane);
        }
        if destination.len() > NAME_BYTES_MAX {
            return Err(Failure::fatal(
                FailureClass::Invalid,
                format!(
                    "the destination {:?}… is a name of {} bytes, and the limit is {NAME_BYTES_MAX}: use a shorter one",
                    clipped(destination),
                    destination.len()
                ),
            ));
        }
        if destination.is_empty() {
            return Err(Failure::fatal(
                FailureClass::Invalid,
                "the destination is empty: name one",
            ));
        }
        let patterns = self.routes.iter().map(|route| &*route.route.pattern);
        let Some(route_key) = pattern::route(patterns, destination) else {
            return Err(self.no_such_destination(destination));
        };
        if self.lanes.len() >= LANES_MAX && !self.evict_one() {
            return Err(Failure::retryable(
                FailureClass::Unavailable,
                format!(
                    "{:?} would be destination number {} in use at once, and the limit is {LANES_MAX}: use fewer, or try again when some are idle",
                    clipped(destination),
                    LANES_MAX + 1
                ),
            ));
        }
        let Some(RouteState { route, .. }) = self.routes.get(route_key) else {
            return Err(self.no_such_destination(destination));
        };
        let name: Arc<str> = destination.into();
        let connection = usize::try_from(route.connection.0).unwrap_or(usize::MAX);
        let policy = route.policy.clone();
        let entry = self.lanes.vacant_entry();
        let key = entry.key();
        let lane = Lane::new(key, Arc::clone(&name), connection, route_key, policy, now);
        entry.insert(lane);
        self.by_name.insert(name, key);
        Ok(key)
    }

    fn no_such_destination(&self, destination: &str) -> Failure {
        let mut names: Vec<&str> = self.routes.iter().map(|r| &*r.route.pattern).collect();
        let more = names.len().saturating_sub(NAMES_SHOWN);
        names.truncate(NAMES_SHOWN);
        let known = if names.is_empty() {
            "none is configured".to_owned()
        } else {
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            format!("there are {names:?}{more}")
        };
        Failure::fatal(
            FailureClass::NotFound,
            format!(
                "no destination {:?}: {known}; publish to one of them, or configure it under [destinations]",
                clipped(destination)
            ),
        )
    }

    fn evict_one(&mut self) -> bool {
        let idle = self.lanes.iter().filter(|(_, lane)| lane.is_idle());
        let longest = idle.min_by_key(|(_, lane)| lane.idle_since);
        match longest.map(|(key, _)| key) {
            Some(key) => {
                self.evict(key);
                true
            }
            None => false,
        }
    }

    pub(crate) fn evict(&mut self, key: usize) {
        if let Some(lane) = self.lanes.try_remove(key) {
            self.by_name.remove(&lane.name);
            if let Some(conn) = self.conns.get_mut(lane.connection) {
                conn.ready.retain(|ready| *ready != key);
                conn.to_open.retain(|listed| *listed != key);
            }
        }
    }

    pub(crate) fn destinations(&self) -> Vec<DestinationInfo> {
        let connection = |key: usize| {
            self.conns
                .get(key)
                .map_or_else(|| Arc::from(""), |conn| Arc::clone(&conn.name))
        };
        let configured = self.routes.iter().map(|state| {
            let key = usize::try_from(state.route.connection.0).unwrap_or(usize::MAX);
            let (opened, refusal) = match &state.last {
                None => (None, None),
                Some(Ok(opened)) => (Some(Opened::clone(opened)), None),
                Some(Err(why)) => (None, Some(why.clone())),
            };
            DestinationInfo {
                name: state.route.pattern.clone(),
                connection: connection(key),
                opened,
                refusal,
            }
        });
        configured.collect()
    }

    pub(crate) fn stats(&self) -> Stats {
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let ledger = &self.ledger;
        Stats {
            accepted: ledger.accepted,
            confirmed: ledger.totals.confirmed,
            failed: ledger.totals.failed,
            unknown: ledger.totals.unknown,
            retries: self.retries,
            batches: self.batches,
            provider_requests: self.provider_requests,
            queued_messages: ledger.unsettled.saturating_sub(ledger.flying),
            in_flight_messages: ledger.flying,
            held_bytes: ledger.held_bytes,
            streams: count(ledger.streams.len()),
            scopes: count(ledger.scopes.len()),
            lanes: count(self.lanes.len()),
        }
    }
}
