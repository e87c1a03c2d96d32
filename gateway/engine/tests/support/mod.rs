//! A broker in memory that does what a test tells it, and an engine in front of it.

#![allow(dead_code, reason = "each test uses the part that it needs")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "a test that cannot go on must fail"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{
    Batch, Capabilities, Deduplication, Failure, Limits, Message, Opened, Order, Strength, Window,
    WindowUnit,
};
use sluicegate_engine::{
    Backoff, ClientLimits, Config, Connection, ConnectionConfig, ConnectionId, Engine, Event,
    OpenRequest, Policy, Replies, Results, Route, Stream,
};
use tokio::sync::mpsc;

/// What a connection was asked; the test answers.
pub(crate) struct Asked {
    pub(crate) batch: Arc<Batch>,
    pub(crate) replies: Replies,
}

impl Asked {
    pub(crate) fn bodies(&self) -> Vec<String> {
        let rows = self.batch.rows.iter();
        rows.map(|row| String::from_utf8(row.message.body.as_ref().unwrap().to_vec()).unwrap())
            .collect()
    }

    pub(crate) fn rows(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.batch.rows.len()).unwrap()
    }

    /// Confirms all and closes the batch.
    pub(crate) fn confirm(self) {
        self.replies.sent();
        self.replies.confirmed(self.rows(), Vec::new());
    }
}

pub(crate) struct Broker {
    batches: mpsc::UnboundedSender<Asked>,
    openings: Vec<Result<Opened, Failure>>,
}

impl Connection for Broker {
    async fn open(&mut self, _: OpenRequest) -> Result<Opened, Failure> {
        if self.openings.len() > 1 {
            self.openings.remove(0)
        } else {
            self.openings[0].clone()
        }
    }

    async fn send(&mut self, batch: Arc<Batch>, replies: Replies) {
        self.batches.send(Asked { batch, replies }).unwrap();
    }
}

pub(crate) fn opened() -> Opened {
    Opened {
        address: 7,
        limits: Limits {
            batch_messages: 100,
            batch_bytes: 1 << 20,
            body_bytes: 1 << 16,
        },
        capabilities: Capabilities {
            key: true,
            headers: true,
            id: true,
            delay: true,
            ttl: true,
            null_body: true,
            receipts: true,
            per_message_failure: true,
            deduplication: Deduplication::None,
        },
        strength: Strength::Fsynced,
        facts: Vec::new(),
    }
}

pub(crate) fn policy() -> Policy {
    Policy {
        order: Order::Key,
        linger: Duration::ZERO,
        attempts: 3,
        backoff: Backoff {
            initial: Duration::from_millis(100),
            max: Duration::from_secs(1),
        },
        max_body_bytes: None,
        max_batch_messages: None,
        idle_eviction: Duration::from_secs(60),
    }
}

pub(crate) fn limits() -> ClientLimits {
    ClientLimits {
        stream_messages: 1_000,
        stream_bytes: 1 << 20,
        total_bytes: 4 << 20,
        stream_scopes: 10,
        unread_result_bytes: 10_000,
        unread_results_timeout: Duration::from_secs(30),
        confirmation_timeout: Duration::from_secs(30),
    }
}

pub(crate) fn config(policy: Policy, window: u32, limits: ClientLimits) -> Config {
    Config {
        connections: vec![ConnectionConfig {
            name: "memory".into(),
            window: Window {
                unit: WindowUnit::Requests,
                size: window,
            },
        }],
        routes: ["orders", "orders.*"]
            .into_iter()
            .map(|pattern| Route {
                pattern: pattern.to_owned(),
                connection: ConnectionId(0),
                policy: policy.clone(),
                settings: Arc::new(BTreeMap::new()),
            })
            .collect(),
        limits,
    }
}

/// An engine whose broker is the returned channel.
pub(crate) fn engine(config: Config) -> (Engine, mpsc::UnboundedReceiver<Asked>) {
    engine_that_opens(config, vec![Ok(opened())])
}

pub(crate) fn engine_that_opens(
    config: Config,
    openings: Vec<Result<Opened, Failure>>,
) -> (Engine, mpsc::UnboundedReceiver<Asked>) {
    let engine = Engine::new(config).unwrap();
    let (batches, asked) = mpsc::unbounded_channel();
    engine.attach(ConnectionId(0), Broker { batches, openings });
    (engine, asked)
}

pub(crate) fn standard() -> (Engine, mpsc::UnboundedReceiver<Asked>) {
    engine(config(policy(), 1, limits()))
}

pub(crate) fn messages<const N: usize>(bodies: [&'static str; N]) -> Vec<Message> {
    bodies.into_iter().map(Message::new).collect()
}

pub(crate) fn keyed(key: &'static str, body: &'static str) -> Message {
    Message {
        key: Some(key.into()),
        ..Message::new(body)
    }
}

/// All that a stream is told until its end, with credit left out.
pub(crate) async fn all(stream: &Stream) -> Vec<Event> {
    let mut events = Vec::new();
    while stream.events(&mut events, 1 << 16).await {}
    events.retain(|event| !matches!(event, Event::Credit { .. }));
    events
}

/// The next results of a stream, whatever else it is told before.
pub(crate) async fn results(stream: &Stream) -> Results {
    loop {
        let mut events = Vec::new();
        assert!(stream.events(&mut events, 1 << 16).await);
        for event in events {
            if let Event::Results(results) = event {
                return results;
            }
        }
    }
}

pub(crate) fn done(scope: u64, confirmed: u64, failed: u64, unknown: u64) -> Event {
    Event::ScopeDone {
        scope,
        confirmed,
        failed,
        unknown,
    }
}
