//! One history: virtual time, what happens next, and the rules.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use sluicegate_core::{Extra, Failure, FailureClass, Message, Opened, Time};

use super::Report;
use super::broker::{self, Said, Store};
use super::client::{Action, Client, Reads, Sent, SimScope, Told};
use super::setting::{self, Faults, small};
use crate::effects::{Notice, Wake};
use crate::feed::Work;
use crate::lane::Door;
use crate::ledger::Taken;
use crate::rng::Rng;
use crate::state::State;
use crate::{Event, ProtocolFault};

/// A history that has not ended after that many steps goes round in circles.
const STEPS_MAX: u64 = 400_000;

#[derive(Debug)]
enum Happening {
    Client(usize),
    Read(usize),
    Connection(usize),
    Freed(usize),
    Opened {
        connection: usize,
        lane: usize,
        epoch: u64,
        result: Result<Opened, Failure>,
    },
    Answer {
        flight: usize,
        connection: usize,
        said: Said,
    },
    Drain,
}

pub(super) struct World {
    state: State,
    rng: Rng,
    now: Time,
    /// Times, an ever growing number, and where it is in `happenings`.
    heap: BinaryHeap<Reverse<(Time, u64)>>,
    happenings: HashMap<u64, Happening>,
    next: u64,
    clients: Vec<Client>,
    store: Store,
    faults: Faults,
    busy: Vec<bool>,
    /// Whether a connection is about to ask for work.
    asks: Vec<bool>,
    next_number: u64,
    report: Report,
}

impl World {
    pub(super) fn new(seed: u64) -> Result<Self, String> {
        let mut rng = Rng::new(seed);
        let config = setting::config(&mut rng);
        let connections = config.connections.len();
        let state = State::new(config, rng.next()).map_err(|error| error.to_string())?;
        let faults = Faults::new(&mut rng);
        let mut world = Self {
            state,
            now: Time::ZERO,
            heap: BinaryHeap::new(),
            happenings: HashMap::new(),
            next: 0,
            clients: Vec::new(),
            store: Store::default(),
            faults,
            busy: vec![false; connections],
            asks: vec![false; connections],
            next_number: 1,
            report: Report::default(),
            rng,
        };
        for connection in 0..connections {
            world.plan(Duration::ZERO, Happening::Connection(connection));
        }
        for client in 0..1 + setting::pick(&mut world.rng, 4) {
            let stream = world.state.open_stream().ok_or("no stream")?;
            let new = Client::new(stream, &mut world.rng);
            world.clients.push(new);
            let after = world.some(50);
            world.plan(after, Happening::Client(client));
            world.plan_read(client);
        }
        if world.rng.below(10) == 0 {
            let after = world.some(2_000);
            world.plan(after, Happening::Drain);
        }
        Ok(world)
    }

    fn some(&mut self, millis: u64) -> Duration {
        Duration::from_micros(self.rng.below(millis * 1_000))
    }

    fn plan(&mut self, after: Duration, happening: Happening) {
        if let Happening::Connection(connection) = &happening
            && let Some(asks) = self.asks.get_mut(*connection)
        {
            *asks = true;
        }
        self.next += 1;
        self.heap.push(Reverse((self.now + after, self.next)));
        self.happenings.insert(self.next, happening);
    }

    fn plan_read(&mut self, client: usize) {
        let Some(reads) = self.clients.get(client).map(|client| client.reads) else {
            return;
        };
        let after = match reads {
            Reads::AtOnce => Duration::ZERO,
            Reads::Late => self.some(4_000),
            Reads::Never => return,
        };
        if let Some(client) = self.clients.get_mut(client) {
            if client.read_planned || client.gone {
                return;
            }
            client.read_planned = true;
        }
        self.plan(after, Happening::Read(client));
    }

    pub(super) fn run(mut self) -> Result<Report, String> {
        for _ in 0..STEPS_MAX {
            let planned = self.heap.peek().map(|Reverse((at, _))| *at);
            let timer = self.state.next_timer();
            let step = match (planned, timer) {
                (None, None) => return self.end(),
                (Some(at), timer) if timer.is_none_or(|timer| at <= timer) => {
                    let number = self.heap.pop().map_or(0, |Reverse((_, number))| number);
                    self.now = self.now.max(at);
                    match self.happenings.remove(&number) {
                        Some(happening) => self.happen(happening),
                        None => Ok(()),
                    }
                }
                (_, timer) => {
                    self.now = self.now.max(timer.unwrap_or_default());
                    self.state.tick(self.now);
                    Ok(())
                }
            };
            step.and_then(|()| self.after())
                .map_err(|broken| format!("at {:?}: {broken}", self.now))?;
        }
        Err(format!("no end after {STEPS_MAX} steps"))
    }

    fn happen(&mut self, happening: Happening) -> Result<(), String> {
        match happening {
            Happening::Client(client) => self.act(client),
            Happening::Read(client) => self.read(client),
            Happening::Freed(connection) => {
                self.free(connection);
                self.feed(connection);
                Ok(())
            }
            Happening::Connection(connection) => {
                if let Some(asks) = self.asks.get_mut(connection) {
                    *asks = false;
                }
                self.feed(connection);
                Ok(())
            }
            Happening::Opened {
                connection,
                lane,
                epoch,
                result,
            } => {
                self.state.opened(lane, epoch, result, self.now);
                self.free(connection);
                self.feed(connection);
                Ok(())
            }
            Happening::Answer {
                flight,
                connection,
                said,
            } => {
                self.answer(flight, connection, said);
                Ok(())
            }
            Happening::Drain => {
                self.state.ledger.drain(Duration::from_secs(10), self.now);
                Ok(())
            }
        }
    }

    // === connections ===

    fn free(&mut self, connection: usize) {
        if let Some(busy) = self.busy.get_mut(connection) {
            *busy = false;
        }
    }

    fn feed(&mut self, connection: usize) {
        let Some(busy) = self.busy.get_mut(connection).filter(|busy| !**busy) else {
            return;
        };
        match self.state.next_work(connection, self.now) {
            Work::Wait => {}
            Work::Open {
                lane,
                epoch,
                request,
            } => {
                *busy = true;
                let refused = self.rng.below(100) < self.faults.refuse;
                let result = if refused {
                    Err(Failure {
                        retryable: self.rng.below(2) == 0,
                        ..Failure::fatal(FailureClass::NotFound, "simulated refusal")
                    })
                } else {
                    Ok(setting::opened(&mut self.rng, &request.destination))
                };
                let after = self.some(5);
                self.plan(
                    after,
                    Happening::Opened {
                        connection,
                        lane,
                        epoch,
                        result,
                    },
                );
            }
            Work::Send { flight, batch } => {
                *busy = true;
                let answers = broker::take(&batch, &mut self.store, self.faults, &mut self.rng);
                for answer in answers {
                    self.plan(
                        answer.after,
                        Happening::Answer {
                            flight,
                            connection,
                            said: answer.said,
                        },
                    );
                }
                let after = self.some(2);
                self.plan(after, Happening::Freed(connection));
            }
        }
    }

    fn answer(&mut self, flight: usize, connection: usize, said: Said) {
        let now = self.now;
        let state = &mut self.state;
        match said {
            Said::Confirmed(rows) => state.confirmed(flight, rows, &[], now),
            Said::Failed(rows, failure) => state.failed(flight, rows, &failure, now),
            Said::Unknown(rows, reason) => state.lost(flight, rows, &reason, now),
            Said::Isolate(rows, failure) => {
                self.report.isolated += 1;
                state.isolate(flight, rows, &failure, now);
            }
            Said::Reopen => state.reopen(connection, now),
            Said::Closed { sent } => state.close_flight(flight, sent, now),
        }
    }

    // === clients ===

    fn act(&mut self, place: usize) -> Result<(), String> {
        let Some(client) = self.clients.get_mut(place) else {
            return Ok(());
        };
        if client.gone || client.finished {
            return Ok(());
        }
        let stream = client.stream;
        if !client.reading {
            // More than a frame holds at times: what is kept is less than what was read.
            let bytes = self.rng.below(400);
            let room = self.state.ledger.let_in(stream, bytes);
            if !room && client.obeys_credit && !(client.vanishes && self.rng.below(3) == 0) {
                client.waits_for_room = true;
                return Ok(());
            }
            client.waits_for_room = false;
            if self.rng.below(4) == 0 {
                // The rest of the frame is on its way.
                client.reading = true;
                let after = self.some(20);
                self.plan(after, Happening::Client(place));
                return Ok(());
            }
        }
        client.reading = false;
        let action = client.choose(&mut self.rng);
        self.take_action(place, action)?;
        self.state.ledger.frame_read(stream);
        let after = if self.rng.below(3) == 0 {
            self.some(100)
        } else {
            Duration::ZERO
        };
        self.plan(after, Happening::Client(place));
        Ok(())
    }

    fn take_action(&mut self, place: usize, action: Action) -> Result<(), String> {
        let now = self.now;
        let Some(client) = self.clients.get_mut(place) else {
            return Ok(());
        };
        let stream = client.stream;
        let result = match action {
            Action::Open(options) => {
                let id = client.next_scope;
                client.next_scope += 1;
                let opened = self.state.open_scope(stream, id, options);
                if opened.is_ok() {
                    client.scopes.push(SimScope {
                        id,
                        rows: Vec::new(),
                        flushes: Vec::new(),
                        open: true,
                        done: false,
                    });
                }
                opened
            }
            Action::Publish {
                scope,
                destination,
                keys,
            } => return self.publish(place, scope, destination, &keys),
            Action::Flush(scope) => {
                let token = client.next_token;
                client.next_token += 1;
                let Some(scope) = client.scopes.get_mut(scope) else {
                    return Ok(());
                };
                scope.flushes.push((token, scope.rows.len()));
                self.state.flush(stream, scope.id, token, now)
            }
            Action::Close(scope) | Action::Abort(scope) => {
                let aborts = matches!(action, Action::Abort(_));
                let Some(scope) = client.scopes.get_mut(scope) else {
                    return Ok(());
                };
                scope.open = false;
                if aborts {
                    self.state.abort_scope(stream, scope.id, now)
                } else {
                    self.state.close_scope(stream, scope.id, now)
                }
            }
            Action::Finish => {
                client.finished = true;
                for scope in &mut client.scopes {
                    scope.open = false;
                }
                self.state.finish(stream, now);
                self.plan_read(place);
                Ok(())
            }
            Action::Vanish => {
                client.gone = true;
                self.state.lose(stream, now);
                Ok(())
            }
        };
        match result {
            Ok(()) | Err(ProtocolFault::TooManyScopes(_) | ProtocolFault::Draining) => Ok(()),
            Err(fault) => Err(format!("client {place} was refused: {fault}")),
        }
    }

    fn publish(
        &mut self,
        place: usize,
        scope: usize,
        destination: &'static str,
        keys: &[Option<&'static str>],
    ) -> Result<(), String> {
        let Some(client) = self.clients.get_mut(place) else {
            return Ok(());
        };
        let Some(scope) = client.scopes.get_mut(scope) else {
            return Ok(());
        };
        let mut messages = Vec::new();
        let mut bytes = 0;
        for key in keys {
            let number = self.next_number;
            self.next_number += 1;
            let mut body = number.to_le_bytes().to_vec();
            // One in a hundred is over the destination's limit.
            let padding = if self.rng.below(100) == 0 {
                60
            } else {
                small(&mut self.rng, 40)
            };
            body.resize(body.len() + usize::try_from(padding).unwrap_or(0), 0);
            bytes += body.len();
            let extra = (self.rng.below(2) == 0).then(|| {
                Box::new(Extra {
                    id: Some(number.to_string()),
                    ttl_ms: (self.rng.below(4) == 0).then(|| self.rng.below(3_000)),
                    ..Extra::default()
                })
            });
            messages.push(Message {
                body: Some(body.into()),
                key: key.map(|key| Bytes::from_static(key.as_bytes())),
                extra,
            });
            scope.rows.push(client.sent.len());
            client.sent.push(Sent {
                number,
                destination,
                key: *key,
                told: None,
            });
        }
        self.state
            .publish(
                client.stream,
                scope.id,
                destination,
                messages,
                bytes,
                self.now,
            )
            .map_err(|fault| format!("client {place} could not publish: {fault}"))
    }

    fn read(&mut self, place: usize) -> Result<(), String> {
        let budget = 1 + setting::pick(&mut self.rng, 2_000);
        let Some(client) = self.clients.get_mut(place) else {
            return Ok(());
        };
        client.read_planned = false;
        if client.gone {
            return Ok(());
        }
        let mut events = Vec::new();
        let stream = client.stream;
        let taken = self
            .state
            .take_events(stream, &mut events, budget, self.now);
        for event in &events {
            client
                .told(event)
                .map_err(|broken| format!("client {place}: {broken}"))?;
            if let Event::Results(results) = event {
                let out_of_order =
                    |(_, failure): &&(u64, Failure)| failure.class == FailureClass::OutOfOrder;
                let count = results.failed.iter().filter(out_of_order).count();
                self.report.out_of_order += u64::try_from(count).unwrap_or(0);
            }
        }
        if events.contains(&Event::Stalled) {
            self.report.stalled_streams += 1;
            client.gone = true;
            self.state.lose(stream, self.now);
            return Ok(());
        }
        match taken {
            Taken::Some => self.plan_read(place),
            Taken::Nothing => {}
            Taken::Done => {
                client.gone = true;
                let undone = client.scopes.iter().find(|scope| !scope.done);
                if let Some(scope) = undone {
                    return Err(format!(
                        "client {place} ends without the end of scope {}",
                        scope.id
                    ));
                }
                let sent = u64::try_from(client.sent.len()).unwrap_or(u64::MAX);
                if client.credit != sent {
                    return Err(format!(
                        "client {place} sent {sent} and got credit for {}",
                        client.credit
                    ));
                }
                self.state.lose(stream, self.now);
            }
        }
        Ok(())
    }

    // === rules ===

    /// Wakes whom the engine wakes, and looks whether it forgot someone.
    fn after(&mut self) -> Result<(), String> {
        let effects = self.state.effects();
        for wake in effects.wakes {
            match wake {
                Wake::Connection(connection) => {
                    self.plan(Duration::ZERO, Happening::Connection(connection));
                }
                Wake::Events(stream) | Wake::Room(stream) => {
                    let found = self
                        .clients
                        .iter()
                        .position(|client| client.stream == stream && !client.gone);
                    let Some(client) = found else {
                        continue;
                    };
                    if matches!(wake, Wake::Events(_)) {
                        self.plan_read(client);
                    } else if self.clients.get(client).is_some_and(|c| c.waits_for_room) {
                        self.plan(Duration::ZERO, Happening::Client(client));
                    }
                }
                Wake::Stalled(_) | Wake::Timer | Wake::Opened | Wake::Drained => {}
            }
        }
        for notice in effects.notices {
            match notice {
                Notice::Lost { .. } => self.report.lost_streams += 1,
                Notice::AdapterFault { .. } => self.report.adapter_faults += 1,
                Notice::NotOpened { .. } => {}
            }
        }
        self.nobody_is_forgotten()
    }

    fn nobody_is_forgotten(&self) -> Result<(), String> {
        let about = self.busy.iter().zip(&self.asks);
        for (conn, (busy, asks)) in self.state.conns.iter().zip(about) {
            let sends = conn.room() > 0 && !conn.ready.is_empty();
            if !busy && !asks && (sends || !conn.to_open.is_empty()) {
                return Err(format!("a connection sleeps on work: {conn:?}"));
            }
        }
        for (key, lane) in &self.state.lanes {
            let scopes = &self.state.ledger.scopes;
            let blocked = scopes
                .iter()
                .any(|(_, scope)| scope.flying > 0 && scope.blocked.contains(&key));
            let lingers = !lane.policy.linger.is_zero();
            let open = matches!(lane.door, Door::Open(_));
            if open && lane.has_work() && !lane.scheduled && !blocked && !lingers {
                return Err(format!("lane {key} has rows and no turn: {lane:?}"));
            }
            if matches!(lane.door, Door::Closed) && lane.queued > 0 && !lane.open_listed {
                let waits = !lane.has_work();
                if !waits {
                    return Err(format!("lane {key} has rows and is not to be opened"));
                }
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<Report, String> {
        // Clients that never read and wait for room end here, as everyone does at last.
        for place in 0..self.clients.len() {
            let Some(client) = self.clients.get_mut(place) else {
                continue;
            };
            if client.gone {
                continue;
            }
            if client.reads != Reads::Never {
                return Err(format!(
                    "client {place} waits for ever (for room: {}, finished: {})",
                    client.waits_for_room, client.finished
                ));
            }
            client.gone = true;
            let stream = client.stream;
            self.state.lose(stream, self.now);
        }
        self.nothing_is_left()?;
        self.store_agrees()?;
        Ok(self.report)
    }

    fn nothing_is_left(&mut self) -> Result<(), String> {
        if let Some(left) = self.state.ledger.leftovers() {
            return Err(format!("left at the end: {left}"));
        }
        let stats = self.state.stats();
        let left = [
            ("lanes", stats.lanes),
            ("streams", stats.streams),
            (
                "flights",
                u64::try_from(self.state.flights.len()).unwrap_or(1),
            ),
        ];
        if let Some((what, count)) = left.iter().find(|(_, count)| *count > 0) {
            return Err(format!("left at the end: {count} {what}"));
        }
        for conn in &self.state.conns {
            if conn.batches_in_flight > 0 || conn.rows_in_flight > 0 {
                return Err(format!(
                    "a connection's window is not free at the end: {conn:?}"
                ));
            }
        }
        let sent: usize = self.clients.iter().map(|client| client.sent.len()).sum();
        let settled = stats.confirmed + stats.failed + stats.unknown;
        if stats.accepted != settled || u64::try_from(sent) != Ok(settled) {
            return Err(format!("{sent} sent, and the counts are {stats:?}"));
        }
        self.report.accepted = stats.accepted;
        self.report.confirmed = stats.confirmed;
        self.report.failed = stats.failed;
        self.report.unknown = stats.unknown;
        self.report.retries = stats.retries;
        self.report.batches = stats.batches;
        Ok(())
    }

    fn store_agrees(&self) -> Result<(), String> {
        if let Some(number) = self.store.duplicates.iter().min() {
            return Err(format!("message {number} is stored twice"));
        }
        for (place, client) in self.clients.iter().enumerate() {
            let mut latest = HashMap::new();
            for sent in &client.sent {
                let stored = self.store.places.get(&sent.number);
                match sent.told {
                    Some(Told::Confirmed) if stored.is_none() => {
                        return Err(format!("confirmed and not stored: {sent:?}"));
                    }
                    Some(Told::Failed) if stored.is_some() => {
                        return Err(format!("failed and stored: {sent:?}"));
                    }
                    _ => {}
                }
                let ordered = !sent.destination.starts_with("none");
                if let (Some(key), Some(stored), true) = (sent.key, stored, ordered) {
                    let latest = latest.entry((sent.destination, key)).or_insert((0, 0));
                    if *stored < latest.0 {
                        return Err(format!(
                            "client {place}: message {} is stored before {}, which was published before it with the same key: {sent:?}",
                            sent.number, latest.1
                        ));
                    }
                    *latest = (*stored, sent.number);
                }
            }
        }
        Ok(())
    }
}
