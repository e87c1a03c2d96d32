//! The whole path below ingress: engine, connection, host and a real adapter.
//!
//! Time is paused, so that timeouts and delays pass at once and nothing depends on the machine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "tests"
)]

#[path = "../../../host/tests/support/guests.rs"]
mod guests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{Failure, FailureClass, Message, Order};
use sluicegate_driver_null::NullConnection;
use sluicegate_engine::{
    Backoff, ClientLimits, Config, ConnectionConfig, ConnectionId, Engine, Event, Policy, Route,
    ScopeOptions, Stream,
};
use sluicegate_host::{Health, Host, Options};

/// When a row that nobody settles is given up.
const CONFIRMATION_TIMEOUT: Duration = Duration::from_secs(30);

/// An engine with one connection, to which every destination leads.
struct Gateway {
    engine: Engine,
    health: Health,
}

/// What became of a scope.
#[derive(Debug, Default)]
struct Outcome {
    confirmed: u64,
    failed: BTreeMap<u64, Failure>,
    unknown: BTreeMap<u64, Failure>,
}

async fn gateway(adapter: &str, settings: &[(&str, &str)]) -> Gateway {
    let host = Host::new(&Options::default()).unwrap();
    let adapter = host.load(guests::component(adapter)).await.unwrap();
    let settings = settings
        .iter()
        .map(|&(key, value)| (key.into(), value.into()))
        .collect();
    let connection = NullConnection::connect(&adapter, "nothing", &settings)
        .await
        .unwrap();
    let health = connection.health();
    let engine = Engine::new(Config {
        connections: vec![ConnectionConfig {
            name: "nothing".into(),
            window: adapter.manifest().window,
        }],
        routes: vec![Route {
            pattern: "*".into(),
            connection: ConnectionId(0),
            policy: Policy {
                order: Order::Key,
                linger: Duration::ZERO,
                attempts: 3,
                backoff: Backoff {
                    initial: Duration::from_millis(10),
                    max: Duration::from_secs(1),
                },
                max_body_bytes: None,
                max_batch_messages: None,
                idle_eviction: Duration::from_secs(60),
            },
            settings: Arc::default(),
        }],
        limits: ClientLimits {
            stream_messages: 100_000,
            stream_bytes: 64 << 20,
            total_bytes: 64 << 20,
            stream_scopes: 16,
            unread_result_bytes: 1 << 20,
            unread_results_timeout: Duration::from_secs(30),
            confirmation_timeout: CONFIRMATION_TIMEOUT,
        },
    })
    .unwrap();
    engine.attach(ConnectionId(0), connection);
    Gateway { engine, health }
}

/// Rows, of which these are poison to the hostile adapter.
fn rows(count: u64, poison: &[u64]) -> Vec<Message> {
    (0..count)
        .map(|row| Message {
            key: poison.contains(&row).then(|| "poison".into()),
            ..Message::new("body")
        })
        .collect()
}

impl Gateway {
    /// Publishes the messages as one scope and waits for its end.
    async fn publish(&self, messages: Vec<Message>) -> Outcome {
        let stream = self.engine.open_stream().unwrap();
        stream.open_scope(1, ScopeOptions::default()).unwrap();
        let sent = messages.len() as u64;
        let bytes = messages.iter().map(Message::bytes).sum::<usize>();
        stream.publish(1, "orders", messages, bytes).unwrap();
        stream.close_scope(1).unwrap();
        let (outcome, counts) = results(&stream).await;
        let listed = (
            outcome.confirmed,
            outcome.failed.len() as u64,
            outcome.unknown.len() as u64,
        );
        assert_eq!(counts, listed, "the counts are those of the verdicts");
        assert_eq!(listed.0 + listed.1 + listed.2, sent, "each row has one");
        outcome
    }
}

async fn results(stream: &Stream) -> (Outcome, (u64, u64, u64)) {
    let mut outcome = Outcome::default();
    let mut events = Vec::new();
    loop {
        stream.events(&mut events, 1 << 20).await;
        for event in events.drain(..) {
            match event {
                Event::Results(results) => {
                    outcome.confirmed += results
                        .confirmed
                        .iter()
                        .map(|rows| rows.end - rows.start)
                        .sum::<u64>();
                    outcome.failed.extend(results.failed);
                    outcome.unknown.extend(results.unknown);
                }
                Event::ScopeDone {
                    confirmed,
                    failed,
                    unknown,
                    ..
                } => return (outcome, (confirmed, failed, unknown)),
                _ => {}
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_scope_is_confirmed_whole() {
    let gateway = gateway("sluicegate-adapter-null", &[]).await;
    let outcome = gateway.publish(rows(10_000, &[])).await;
    assert_eq!(outcome.confirmed, 10_000);
    assert_eq!(gateway.health.traps(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_an_open_destination_can_do_is_what_the_adapter_found() {
    let gateway = gateway("sluicegate-adapter-null", &[]).await;
    let opened = gateway.engine.open("orders").await.unwrap();
    assert_eq!(opened.limits.batch_messages, 16_384);
    assert!(opened.capabilities.headers && !opened.capabilities.delay);
}

#[tokio::test(start_paused = true)]
async fn only_the_rows_that_trap_fail() {
    let poison = [0, 1, 1_234, 4_999];
    let gateway = gateway("sluicegate-hostile", &[("behaviour", "trap-on-poison")]).await;
    let outcome = gateway.publish(rows(5_000, &poison)).await;
    let failed: BTreeSet<u64> = outcome.failed.keys().copied().collect();
    assert_eq!(failed, BTreeSet::from(poison));
    for failure in outcome.failed.values() {
        assert_eq!(failure.class, FailureClass::AdapterFault);
        assert!(!failure.retryable);
    }
    assert_eq!(outcome.confirmed, 4_996);
    assert_eq!(gateway.health.unhealthy(), None);
}

#[tokio::test(start_paused = true)]
async fn an_adapter_that_traps_on_everything_fails_every_row_and_is_unhealthy() {
    let gateway = gateway("sluicegate-hostile", &[("behaviour", "trap-in-plan")]).await;
    let outcome = gateway.publish(rows(64, &[])).await;
    assert_eq!(outcome.failed.len(), 64);
    assert!(gateway.health.unhealthy().is_some());
}

#[tokio::test(start_paused = true)]
async fn rows_whose_settle_traps_twice_are_unknown() {
    let gateway = gateway("sluicegate-hostile", &[("behaviour", "trap-in-settle")]).await;
    let outcome = gateway.publish(rows(100, &[])).await;
    assert_eq!(outcome.unknown.len(), 100);
    let failure = &outcome.unknown[&0];
    assert_eq!(failure.class, FailureClass::AdapterFault);
}

#[tokio::test(start_paused = true)]
async fn at_a_stalled_store_rows_are_unknown_when_their_time_is_up() {
    let gateway = gateway("sluicegate-adapter-null", &[("stall", "true")]).await;
    let start = tokio::time::Instant::now();
    let outcome = gateway.publish(rows(10, &[])).await;
    assert_eq!(outcome.unknown.len(), 10);
    assert!(start.elapsed() >= CONFIRMATION_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_delay_passes_before_rows_are_confirmed() {
    let gateway = gateway("sluicegate-adapter-null", &[("delay_ms", "250")]).await;
    let start = tokio::time::Instant::now();
    let outcome = gateway.publish(rows(10, &[])).await;
    assert_eq!(outcome.confirmed, 10);
    assert!(start.elapsed() >= Duration::from_millis(250));
}
