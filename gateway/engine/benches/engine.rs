//! What the engine costs a message: frames through a stream, a lane and a connection that confirms at
//! once, to events that are taken.
//!
//! `cargo bench -p sluicegate-engine --profile release [-- frame_messages]`

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a measurement that cannot run must stop"
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sluicegate_core::{
    Batch, Capabilities, Failure, Limits, Message, Opened, Order, Strength, Window, WindowUnit,
};
use sluicegate_engine::{
    Backoff, ClientLimits, Config, Connection, ConnectionConfig, ConnectionId, Engine, Event,
    OpenRequest, Policy, Replies, Route, ScopeOptions, Stream,
};

const BODY_BYTES: usize = 256;
const MESSAGES: usize = 3_000_000;
/// What a read of a socket brings at most, before its task gives way.
const READ_MESSAGES: usize = 1_000;

struct Instantly;

impl Connection for Instantly {
    async fn open(&mut self, _: OpenRequest) -> Result<Opened, Failure> {
        Ok(Opened {
            address: 0,
            limits: Limits {
                batch_messages: 10_000,
                batch_bytes: 16 << 20,
                body_bytes: 1 << 20,
            },
            capabilities: Capabilities {
                key: true,
                ..Capabilities::default()
            },
            strength: Strength::Accepted,
            facts: Vec::new(),
        })
    }

    async fn send(&mut self, batch: Arc<Batch>, replies: Replies) {
        replies.sent();
        replies.confirmed(0..u32::try_from(batch.rows.len()).unwrap(), Vec::new());
    }
}

fn engine() -> Engine {
    let engine = Engine::new(Config {
        connections: vec![ConnectionConfig {
            name: "instant".into(),
            window: Window {
                unit: WindowUnit::Requests,
                size: 4,
            },
        }],
        routes: vec![Route {
            pattern: "*".to_owned(),
            connection: ConnectionId(0),
            policy: Policy {
                order: Order::Key,
                linger: Duration::ZERO,
                attempts: 1,
                backoff: Backoff {
                    initial: Duration::from_millis(10),
                    max: Duration::from_secs(1),
                },
                max_body_bytes: None,
                max_batch_messages: None,
                idle_eviction: Duration::from_secs(60),
            },
            settings: Arc::new(BTreeMap::new()),
        }],
        limits: ClientLimits {
            stream_messages: 100_000,
            stream_bytes: 32 << 20,
            total_bytes: 64 << 20,
            stream_scopes: 1_000,
            unread_result_bytes: 1 << 20,
            unread_results_timeout: Duration::from_secs(30),
            confirmation_timeout: Duration::from_secs(30),
        },
    })
    .unwrap();
    engine.attach(ConnectionId(0), Instantly);
    engine
}

fn frame(buffer: &Bytes, count: usize, keyed: bool) -> Vec<Message> {
    (0..count)
        .map(|place| Message {
            body: Some(buffer.slice(place * BODY_BYTES..(place + 1) * BODY_BYTES)),
            key: keyed.then(|| buffer.slice(place * BODY_BYTES..place * BODY_BYTES + 8)),
            extra: None,
        })
        .collect()
}

/// What the benchmark itself costs: making and dropping the messages.
fn making(count: usize, keyed: bool) -> f64 {
    let start = Instant::now();
    for _ in 0..MESSAGES / count {
        let buffer = Bytes::from(vec![7; count * BODY_BYTES]);
        black_box(frame(&buffer, count, keyed));
    }
    start.elapsed().as_secs_f64() * 1e9 / (MESSAGES / count * count) as f64
}

async fn flood(count: usize, keyed: bool) -> f64 {
    let stream = Arc::new(engine().open_stream().unwrap());
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    let start = Instant::now();
    let reader = tokio::spawn(read(Arc::clone(&stream)));
    for round in 1..=MESSAGES / count {
        if (round * count).is_multiple_of(READ_MESSAGES) {
            tokio::task::yield_now().await;
        }
        stream.ready(count * BODY_BYTES).await;
        let buffer = Bytes::from(vec![7; count * BODY_BYTES]);
        let messages = frame(&buffer, count, keyed);
        stream
            .publish(1, "orders", messages, count * BODY_BYTES)
            .unwrap();
    }
    stream.finish();
    assert_eq!(reader.await.unwrap(), (MESSAGES / count * count) as u64);
    start.elapsed().as_secs_f64() * 1e9 / (MESSAGES / count * count) as f64
}

async fn read(stream: Arc<Stream>) -> u64 {
    let mut confirmed = 0;
    let mut events = Vec::new();
    loop {
        let more = stream.events(&mut events, 1 << 16).await;
        for event in events.drain(..) {
            if let Event::Results(results) = event {
                confirmed += results
                    .confirmed
                    .iter()
                    .map(|range| range.end - range.start)
                    .sum::<u64>();
            }
        }
        if !more {
            return confirmed;
        }
    }
}

/// Microseconds from publishing a frame to its last verdict, one frame at a time.
async fn lock_step(count: usize) -> f64 {
    const ROUNDS: usize = 100_000;
    let stream = engine().open_stream().unwrap();
    stream.open_scope(1, ScopeOptions::default()).unwrap();
    let buffer = Bytes::from(vec![7; count * BODY_BYTES]);
    let mut events = Vec::new();
    let start = Instant::now();
    for _ in 0..ROUNDS {
        stream
            .publish(
                1,
                "orders",
                frame(&buffer, count, false),
                count * BODY_BYTES,
            )
            .unwrap();
        let mut confirmed = 0;
        while confirmed < count as u64 {
            assert!(stream.events(&mut events, 1 << 16).await);
            for event in events.drain(..) {
                if let Event::Results(results) = event {
                    confirmed += results
                        .confirmed
                        .iter()
                        .map(|r| r.end - r.start)
                        .sum::<u64>();
                }
            }
        }
    }
    start.elapsed().as_secs_f64() * 1e6 / ROUNDS as f64
}

fn main() {
    let only = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .next();
    println!("threads  frame_messages  keyed  ns_per_message  of_it_making  lock_step_us");
    for threads in [1, 2] {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .build()
            .unwrap();
        for (count, keyed) in [
            (1, false),
            (10, false),
            (100, false),
            (100, true),
            (1_000, false),
        ] {
            if only.is_some_and(|only: usize| only != count) {
                continue;
            }
            let ns = runtime.block_on(async { tokio::spawn(flood(count, keyed)).await.unwrap() });
            let us = runtime.block_on(async { tokio::spawn(lock_step(count)).await.unwrap() });
            println!(
                "{threads:>7}  {count:>14}  {keyed:<5}  {ns:>14.1}  {:>12.1}  {us:>12.1}",
                making(count, keyed)
            );
        }
    }
}
