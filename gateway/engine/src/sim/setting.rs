//! What a history is played in: destinations, limits, and how bad its brokers are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{
    Capabilities, Deduplication, Limits, Opened, Order, Strength, Window, WindowUnit,
};

use crate::rng::Rng;
use crate::{Backoff, ClientLimits, Config, ConnectionConfig, ConnectionId, Policy, Route};

/// Destinations that clients use; the last is unknown to the configuration.
pub(super) const DESTINATIONS: [&str; 5] = ["key.a", "key.b", "none.a", "dedup.a", "nowhere"];

/// How often things go wrong, in percent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    pub(super) fail: u64,
    pub(super) lose: u64,
    pub(super) isolate: u64,
    pub(super) nonsense: u64,
    pub(super) slow: u64,
    pub(super) reopen: u64,
    pub(super) refuse: u64,
}

impl Faults {
    pub(super) fn new(rng: &mut Rng) -> Self {
        // A third of the histories is calm, so that faults meet an engine in every condition.
        let most = *[1, 10, 40].get(pick(rng, 3)).unwrap_or(&1);
        Self {
            fail: rng.below(most),
            lose: rng.below(most),
            isolate: rng.below(most),
            nonsense: rng.below(most.min(5)),
            slow: rng.below(most),
            reopen: rng.below(most.min(10)),
            refuse: rng.below(most),
        }
    }
}

pub(super) fn pick(rng: &mut Rng, count: u64) -> usize {
    usize::try_from(rng.below(count)).unwrap_or(0)
}

pub(super) fn small(rng: &mut Rng, bound: u64) -> u32 {
    u32::try_from(rng.below(bound)).unwrap_or(0)
}

pub(super) fn config(rng: &mut Rng) -> Config {
    let window = |rng: &mut Rng| Window {
        unit: if rng.below(2) == 0 {
            WindowUnit::Requests
        } else {
            WindowUnit::Messages
        },
        size: 1 + small(rng, 6),
    };
    let connections = (0..2)
        .map(|n| ConnectionConfig {
            name: format!("broker {n}").into(),
            window: window(rng),
        })
        .collect();
    let routes = ["key.*", "none.*", "dedup.*"]
        .into_iter()
        .map(|pattern| Route {
            pattern: pattern.to_owned(),
            connection: ConnectionId(small(rng, 2)),
            policy: policy(rng, pattern),
            settings: Arc::new(BTreeMap::new()),
        })
        .collect();
    let messages = 2 + small(rng, 60);
    Config {
        connections,
        routes,
        limits: ClientLimits {
            stream_messages: messages,
            stream_bytes: 100 + rng.below(10_000),
            total_bytes: 1_000 + rng.below(30_000),
            stream_scopes: 2 + small(rng, 4),
            unread_result_bytes: 200 + rng.below(20_000),
            unread_results_timeout: Duration::from_secs(1 + rng.below(30)),
            confirmation_timeout: Duration::from_millis(200 + rng.below(20_000)),
        },
    }
}

fn policy(rng: &mut Rng, pattern: &str) -> Policy {
    Policy {
        order: if pattern.starts_with("none") {
            Order::None
        } else {
            Order::Key
        },
        linger: Duration::from_millis(rng.below(3).saturating_sub(1) * rng.below(50)),
        attempts: 1 + small(rng, 4),
        backoff: Backoff {
            initial: Duration::from_millis(1 + rng.below(100)),
            max: Duration::from_millis(100 + rng.below(400)),
        },
        max_body_bytes: None,
        max_batch_messages: Some(1 + small(rng, 12)),
        idle_eviction: Duration::from_millis(100 + rng.below(5_000)),
    }
}

pub(super) fn opened(rng: &mut Rng, destination: &str) -> Opened {
    Opened {
        address: 0,
        limits: Limits {
            batch_messages: 1 + small(rng, 12),
            batch_bytes: 60 + rng.below(400),
            body_bytes: 50,
        },
        capabilities: Capabilities {
            key: true,
            headers: false,
            id: true,
            delay: false,
            ttl: true,
            null_body: false,
            receipts: true,
            per_message_failure: true,
            deduplication: if destination.starts_with("dedup") {
                Deduplication::MessageId
            } else {
                Deduplication::None
            },
        },
        strength: Strength::Accepted,
        facts: Vec::new(),
    }
}
