//! What the gateway costs: the whole of it with a connection that confirms at once, against a bare
//! tonic stream that answers every frame, in one run and by turns.
//!
//! `cargo bench -p sluicegate-ingress --profile release --bench hop [-- seconds]`
//!
//! With the argument `stalled` it pushes without end at a store that never answers, and prints what
//! memory the gateway takes: the budget and little more, while the stream waits.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a measurement that cannot run must stop"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use sluicegate_core::{
    Batch, Capabilities, Failure, Limits, Opened, Order, Strength, Window, WindowUnit,
};
use sluicegate_engine::{
    Backoff, ClientLimits, Config, Connection, ConnectionConfig, ConnectionId, Engine, OpenRequest,
    Policy, Replies, Route,
};
use sluicegate_ingress::{Options, Server};
use sluicegate_proto::v1::{
    self,
    client_frame::Frame,
    gateway_client::GatewayClient,
    gateway_server::{Gateway, GatewayServer},
    server_frame,
};
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};

/// LOADGEN's size for the hop.
const BODY_BYTES: usize = 256;

/// Turns of each side; the median counts.
const TURNS: usize = 3;

/// Round trips for the latencies.
const ROUND_TRIPS: usize = 20_000;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let seconds: f64 = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .next()
        .unwrap_or(1.0);
    if std::env::args().any(|argument| argument == "stalled") {
        return stalled().await;
    }
    let only = std::env::var("HOP_ONLY").unwrap_or_default();
    let bare = serve_bare().await;
    let (gateway, _engine) = serve_gateway(Instantly, 32 << 20).await;
    println!("frame_messages  via      msgs_per_s  ratio  cpu_ns_per_msg  p50_us  p99_us");
    for frame_messages in [1, 10, 100, 1_000] {
        let mut rates = [Vec::new(), Vec::new()];
        let mut cpu = [Vec::new(), Vec::new()];
        for _ in 0..TURNS {
            for (side, address) in [bare, gateway].into_iter().enumerate() {
                if only.is_empty() || only == ["bare", "gateway"][side] {
                    let (rate, cpu_ns) = throughput(address, frame_messages, seconds).await;
                    rates[side].push(rate);
                    cpu[side].push(cpu_ns);
                }
            }
        }
        let mut base = f64::NAN;
        for (side, via) in ["bare", "gateway"].into_iter().enumerate() {
            let rates = &mut rates[side];
            if rates.is_empty() {
                continue;
            }
            rates.sort_by(f64::total_cmp);
            let rate = rates[rates.len() / 2];
            cpu[side].sort_by(f64::total_cmp);
            let cpu_ns = cpu[side][cpu[side].len() / 2];
            if side == 0 {
                base = rate;
            }
            let (p50, p99) = lock_step([bare, gateway][side], frame_messages).await;
            println!(
                "{frame_messages:>14}  {via:<7}  {rate:>10.0}  {:>5.2}  {cpu_ns:>14.0}  {:>6.1}  {:>6.1}",
                rate / base,
                p50.as_secs_f64() * 1e6,
                p99.as_secs_f64() * 1e6,
            );
        }
    }
}

// === the client, the same for both ===

fn client_frame(frame: Frame) -> v1::ClientFrame {
    v1::ClientFrame { frame: Some(frame) }
}

fn open() -> [v1::ClientFrame; 2] {
    [
        client_frame(Frame::Hello(v1::Hello {
            client: "hop".to_owned(),
        })),
        client_frame(Frame::OpenScope(v1::OpenScope {
            scope: 1,
            options: None,
        })),
    ]
}

fn messages(count: usize) -> v1::ClientFrame {
    let message = v1::Message {
        body: Some(Bytes::from(vec![7; BODY_BYTES])),
        ..v1::Message::default()
    };
    client_frame(Frame::Messages(v1::Messages {
        scope: 1,
        destination: "hop".to_owned(),
        messages: vec![message; count],
    }))
}

async fn connect(address: SocketAddr) -> GatewayClient<tonic::transport::Channel> {
    let channel = tonic::transport::Endpoint::new(format!("http://{address}"))
        .unwrap()
        .tcp_nodelay(true)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(1 << 21)
        .connect()
        .await
        .unwrap();
    GatewayClient::new(channel).max_decoding_message_size(usize::MAX)
}

/// Processor time of the whole process, client included, in nanoseconds: what a busy machine does
/// not distort.
fn cpu_ns() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks: f64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse::<f64>().unwrap())
        .sum();
    ticks * 1e7
}

/// Confirmed messages a second, from the first to the last verdict, and what one costs.
async fn throughput(address: SocketAddr, frame_messages: usize, seconds: f64) -> (f64, f64) {
    let cpu_before = cpu_ns();
    let mut client = connect(address).await;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let frame = messages(frame_messages);
    let frames =
        futures::stream::iter(open()).chain(futures::stream::iter(std::iter::from_fn(move || {
            (Instant::now() < end).then(|| frame.clone())
        })));
    let start = Instant::now();
    let mut answers = client.stream(frames).await.unwrap().into_inner();
    let mut confirmed = 0;
    while let Some(answer) = answers.message().await.unwrap() {
        confirmed += confirmed_of(&answer);
    }
    let confirmed = f64::from(u32::try_from(confirmed).unwrap());
    (
        confirmed / start.elapsed().as_secs_f64(),
        (cpu_ns() - cpu_before) / confirmed,
    )
}

fn confirmed_of(answer: &v1::ServerFrame) -> u64 {
    match &answer.frame {
        Some(server_frame::Frame::Results(results)) => {
            assert!(results.failed.is_empty() && results.unknown.is_empty());
            results.confirmed.iter().map(|rows| rows.count).sum()
        }
        _ => 0,
    }
}

/// p50 and p99 from a frame's writing to its last verdict, one frame at a time.
async fn lock_step(address: SocketAddr, frame_messages: usize) -> (Duration, Duration) {
    let mut client = connect(address).await;
    let (sender, receiver) = mpsc::channel(4);
    for frame in open() {
        sender.send(frame).await.unwrap();
    }
    let frame = messages(frame_messages);
    let frames = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let mut answers = client.stream(frames).await.unwrap().into_inner();
    let mut took = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let start = Instant::now();
        sender.send(frame.clone()).await.unwrap();
        let mut confirmed = 0;
        while confirmed < frame_messages as u64 {
            confirmed += confirmed_of(&answers.message().await.unwrap().unwrap());
        }
        took.push(start.elapsed());
    }
    took.sort();
    (took[took.len() / 2], took[took.len() * 99 / 100])
}

// === the bare stream ===

struct Bare;

type Answers = Pin<Box<dyn Stream<Item = Result<v1::ServerFrame, Status>> + Send>>;

#[tonic::async_trait]
impl Gateway for Bare {
    type StreamStream = Answers;

    async fn stream(
        &self,
        request: Request<Streaming<v1::ClientFrame>>,
    ) -> Result<Response<Answers>, Status> {
        let mut row = 0;
        let answers = request.into_inner().filter_map(move |frame| {
            let answer = frame.map(|frame| match frame.frame {
                Some(Frame::Messages(messages)) => {
                    let count = messages.messages.len() as u64;
                    let first = row;
                    row += count;
                    Some(v1::ServerFrame {
                        frame: Some(server_frame::Frame::Results(v1::Results {
                            scope: messages.scope,
                            confirmed: vec![v1::Range { first, count }],
                            ..v1::Results::default()
                        })),
                    })
                }
                _ => None,
            });
            std::future::ready(answer.transpose())
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn publish(
        &self,
        _: Request<v1::PublishRequest>,
    ) -> Result<Response<v1::PublishResponse>, Status> {
        Err(Status::unimplemented("bare"))
    }

    async fn stats(
        &self,
        _: Request<v1::StatsRequest>,
    ) -> Result<Response<v1::StatsResponse>, Status> {
        Err(Status::unimplemented("bare"))
    }
}

async fn serve_bare() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let incoming = tonic::transport::server::TcpIncoming::from(listener).with_nodelay(Some(true));
    tokio::spawn(
        tonic::transport::Server::builder()
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(1 << 22)
            .serve_with_incoming(GatewayServer::new(Bare), incoming),
    );
    address
}

// === the gateway ===

/// Confirms whatever it is given, at once.
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
            capabilities: Capabilities::default(),
            strength: Strength::Accepted,
            facts: Vec::new(),
        })
    }

    async fn send(&mut self, batch: Arc<Batch>, replies: Replies) {
        replies.sent();
        replies.confirmed(0..u32::try_from(batch.rows.len()).unwrap(), Vec::new());
    }
}

/// Takes a batch and is not heard of again.
struct Never;

impl Connection for Never {
    async fn open(&mut self, request: OpenRequest) -> Result<Opened, Failure> {
        Instantly.open(request).await
    }

    async fn send(&mut self, _batch: Arc<Batch>, replies: Replies) {
        replies.sent();
        std::future::pending::<()>().await;
    }
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib / 1_024
}

/// The client is in the same process, but its bodies are one body.
async fn stalled() {
    let argument = std::env::args().find_map(|argument| argument.parse().ok());
    let frame_messages = argument.unwrap_or(1_000);
    // One stream may use the whole budget.
    let (address, engine) = serve_gateway(Never, 256 << 20).await;
    let before = resident_mib();
    let mut client = connect(address).await;
    let frame = messages(frame_messages);
    let frames =
        futures::stream::iter(open()).chain(futures::stream::iter(std::iter::repeat(frame)));
    let _answers = client.stream(frames).await.unwrap();
    let mut accepted = 0;
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = engine.stats().accepted;
        if now == accepted && now > 0 {
            break;
        }
        accepted = now;
    }
    println!(
        "{frame_messages} a frame: {before} MiB before, {} MiB with {accepted} messages, {} MiB of them charged",
        resident_mib(),
        engine.stats().held_bytes >> 20,
    );
}

async fn serve_gateway(connection: impl Connection, stream_bytes: u64) -> (SocketAddr, Engine) {
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
            stream_messages: 1_000_000,
            stream_bytes,
            total_bytes: 64 << 20,
            stream_scopes: 1_000,
            unread_result_bytes: 1 << 20,
            unread_results_timeout: Duration::from_secs(30),
            confirmation_timeout: Duration::from_secs(30),
        },
    })
    .unwrap();
    engine.attach(ConnectionId(0), connection);
    let options = Options {
        tcp: Some("127.0.0.1:0".parse().unwrap()),
        ..Options::default()
    };
    let server = Server::bind(options, engine.clone()).await.unwrap();
    let address = server.local_addr().unwrap();
    tokio::spawn(server.serve(std::future::pending()));
    (address, engine)
}
