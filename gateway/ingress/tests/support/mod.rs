//! A gateway with a store in memory, and clients that speak to it over loopback.

#![allow(
    dead_code,
    unreachable_pub,
    missing_debug_implementations,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "each test file uses its own part"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use sluicegate_core::{
    Batch, Capabilities, Failure, FailureClass, Limits, Opened, Order, Strength, Window, WindowUnit,
};
use sluicegate_engine::{
    Backoff, ClientLimits, Config, Connection, ConnectionConfig, ConnectionId, Engine, OpenRequest,
    Policy, Replies, Route,
};
use sluicegate_ingress::{Options, ServeError, Server};
use sluicegate_proto::v1::{
    self, client_frame::Frame, gateway_client::GatewayClient, server_frame::Frame as Answer,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

/// Longer than anything here takes: a test that hangs must say where.
const PATIENCE: Duration = Duration::from_secs(20);

pub async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} took longer than {PATIENCE:?}"),
    }
}

/// Waits until `condition` holds.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    in_time(what, async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

// === the store ===

/// Confirms rows for any destination, but: `fails` refuses each row, `lost` loses its
/// confirmations, `receipts` gives receipts. While the gate is shut nothing is answered.
#[derive(Clone)]
pub struct Store {
    gate: Arc<watch::Sender<bool>>,
}

/// As long as real sentences are.
pub const REFUSAL: &str = "row refused by the test's store, which refuses all rows of the destination `fails`: publish to another destination, since this one will never take any";

impl Store {
    pub fn shut(&self) {
        self.gate.send_replace(false);
    }

    pub fn open(&self) {
        self.gate.send_replace(true);
    }
}

struct InMemory {
    gate: watch::Receiver<bool>,
}

impl Connection for InMemory {
    async fn open(&mut self, _: OpenRequest) -> Result<Opened, Failure> {
        Ok(Opened {
            address: 0,
            limits: Limits {
                batch_messages: 1_000,
                batch_bytes: 1 << 20,
                body_bytes: 1 << 16,
            },
            capabilities: Capabilities {
                key: true,
                headers: true,
                receipts: true,
                null_body: true,
                per_message_failure: true,
                ..Capabilities::default()
            },
            strength: Strength::Fsynced,
            facts: Vec::new(),
        })
    }

    async fn send(&mut self, batch: Arc<Batch>, replies: Replies) {
        replies.sent();
        self.gate
            .wait_for(|open| *open)
            .await
            .expect("the store outlives the engine");
        let rows = 0..u32::try_from(batch.rows.len()).unwrap();
        match &*batch.destination {
            "fails" => replies.failed(rows, Failure::fatal(FailureClass::Rejected, REFUSAL)),
            "lost" => drop(replies),
            "receipts" => {
                let receipts = batch
                    .rows
                    .iter()
                    .map(|row| Bytes::from(format!("at-{}", row.origin.row)))
                    .collect();
                replies.confirmed(rows, receipts);
            }
            _ => replies.confirmed(rows, Vec::new()),
        }
    }
}

// === the gateway ===

pub struct Setup {
    pub limits: ClientLimits,
    pub options: Options,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            limits: ClientLimits {
                stream_messages: 10_000,
                stream_bytes: 4 << 20,
                total_bytes: 8 << 20,
                stream_scopes: 1_000,
                unread_result_bytes: 1 << 20,
                unread_results_timeout: PATIENCE,
                confirmation_timeout: PATIENCE,
            },
            options: Options {
                tcp: Some("127.0.0.1:0".parse().unwrap()),
                drain_timeout: PATIENCE,
                ..Options::default()
            },
        }
    }
}

pub struct TestGateway {
    pub engine: Engine,
    pub store: Store,
    pub address: SocketAddr,
    shutdown: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), ServeError>>,
}

pub fn engine(limits: ClientLimits) -> (Engine, Store) {
    let policy = Policy {
        order: Order::Key,
        linger: Duration::ZERO,
        attempts: 1,
        backoff: Backoff {
            initial: Duration::from_millis(1),
            max: Duration::from_millis(10),
        },
        max_body_bytes: None,
        max_batch_messages: None,
        idle_eviction: Duration::from_secs(60),
    };
    let route = |pattern: &str| Route {
        pattern: pattern.to_owned(),
        connection: ConnectionId(0),
        policy: policy.clone(),
        settings: Arc::new(BTreeMap::new()),
    };
    let engine = Engine::new(Config {
        connections: vec![ConnectionConfig {
            name: "memory".into(),
            window: Window {
                unit: WindowUnit::Requests,
                size: 2,
            },
        }],
        routes: ["ok", "fails", "lost", "receipts", "orders.*"]
            .map(route)
            .to_vec(),
        limits,
    })
    .unwrap();
    let (gate, shut) = watch::channel(true);
    engine.attach(ConnectionId(0), InMemory { gate: shut });
    let store = Store {
        gate: Arc::new(gate),
    };
    (engine, store)
}

impl TestGateway {
    pub async fn start(setup: Setup) -> Self {
        let (engine, store) = engine(setup.limits);
        let server = Server::bind(setup.options, engine.clone()).await.unwrap();
        let address = server.local_addr().unwrap();
        let (shutdown, asked) = oneshot::channel();
        let serving = tokio::spawn(server.serve(async {
            let _ = asked.await;
        }));
        Self {
            engine,
            store,
            address,
            shutdown,
            serving,
        }
    }

    pub async fn channel(&self) -> Channel {
        tonic::transport::Endpoint::new(format!("http://{}", self.address))
            .unwrap()
            .connect()
            .await
            .unwrap()
    }

    pub async fn client(&self) -> GatewayClient<Channel> {
        GatewayClient::new(self.channel().await)
    }

    /// A stream that has said nothing yet.
    pub async fn silent_stream(&self) -> Client {
        Client::open(self.channel().await).await
    }

    /// A stream that has said Hello and has read Welcome, on a connection of its own.
    pub async fn stream(&self) -> Client {
        self.stream_on(self.channel().await).await
    }

    /// The same on a connection that it shares.
    pub async fn stream_on(&self, channel: Channel) -> Client {
        let mut client = Client::open(channel).await;
        client.send(hello()).await;
        let welcome = client.next().await;
        assert!(matches!(welcome, Answer::Welcome(_)), "{welcome:?}");
        client
    }

    /// Waits until no row is without a verdict.
    pub async fn settled(&self) {
        until("settling", || {
            let stats = self.engine.stats();
            stats.queued_messages + stats.in_flight_messages == 0
        })
        .await;
    }

    /// Asks for the shutdown and waits until it is done.
    pub async fn shut_down(self) {
        self.shutdown.send(()).unwrap();
        in_time("the shutdown", self.serving)
            .await
            .unwrap()
            .unwrap();
    }

    /// Asks for the shutdown; the handle says when it is done.
    pub fn begin_shutdown(self) -> JoinHandle<Result<(), ServeError>> {
        self.shutdown.send(()).unwrap();
        self.serving
    }
}

// === a client ===

pub struct Client {
    frames: Option<mpsc::Sender<v1::ClientFrame>>,
    pub answers: Streaming<v1::ServerFrame>,
}

impl Client {
    async fn open(channel: Channel) -> Self {
        let (sender, receiver) = mpsc::channel(64);
        let frames = tokio_stream::wrappers::ReceiverStream::new(receiver);
        let answers = GatewayClient::new(channel).stream(frames).await;
        Self {
            frames: Some(sender),
            answers: answers.unwrap().into_inner(),
        }
    }

    pub async fn send(&self, frame: Frame) {
        assert!(self.try_send(frame).await, "the stream takes frames");
    }

    /// False when the stream is over.
    pub async fn try_send(&self, frame: Frame) -> bool {
        self.send_raw(v1::ClientFrame { frame: Some(frame) }).await
    }

    pub async fn send_raw(&self, frame: v1::ClientFrame) -> bool {
        let frames = self.frames.as_ref().expect("not half-closed");
        in_time("a frame's sending", frames.send(frame))
            .await
            .is_ok()
    }

    /// For a task that writes on its own.
    pub fn sender(&self) -> mpsc::Sender<v1::ClientFrame> {
        self.frames.clone().expect("not half-closed")
    }

    pub fn half_close(&mut self) {
        self.frames = None;
    }

    /// The next frame of the gateway.
    pub async fn next(&mut self) -> Answer {
        let answer = in_time("an answer", self.answers.message()).await;
        answer.unwrap().expect("a frame").frame.expect("a content")
    }

    /// The next frame that is no Credit.
    pub async fn next_but_credit(&mut self) -> Answer {
        loop {
            match self.next().await {
                Answer::Credit(_) => {}
                other => return other,
            }
        }
    }

    /// What the rest of the stream says, and how it ends.
    pub async fn rest(&mut self) -> (Tally, Status) {
        let mut tally = Tally::default();
        loop {
            match in_time("the end of the stream", self.answers.message()).await {
                Ok(Some(answer)) => tally.add(answer.frame.expect("a content")),
                Ok(None) => return (tally, Status::ok("")),
                Err(status) => return (tally, status),
            }
        }
    }

    /// The status that the gateway ends the stream with.
    pub async fn status(&mut self) -> Status {
        self.rest().await.1
    }

    /// Reads until the scope is done.
    pub async fn scope_done(&mut self, scope: u64) -> Tally {
        let mut tally = Tally::default();
        loop {
            let answer = self.next().await;
            let done = matches!(&answer, Answer::ScopeDone(done) if done.scope == scope);
            tally.add(answer);
            if done {
                return tally;
            }
        }
    }
}

/// What a stream's frames come to.
#[derive(Debug, Default)]
pub struct Tally {
    pub confirmed: Vec<u64>,
    pub failed: Vec<v1::FailedRow>,
    pub unknown: Vec<v1::FailedRow>,
    pub receipts: Vec<v1::Receipt>,
    pub flushed: Vec<v1::Flushed>,
    pub done: Vec<v1::ScopeDone>,
    pub credit_messages: u64,
    pub credit_bytes: u64,
    pub draining: bool,
}

impl Tally {
    fn add(&mut self, answer: Answer) {
        match answer {
            Answer::Welcome(_) => {}
            Answer::Results(results) => {
                for rows in results.confirmed {
                    self.confirmed.extend(rows.first..rows.first + rows.count);
                }
                self.failed.extend(results.failed);
                self.unknown.extend(results.unknown);
                self.receipts.extend(results.receipts);
            }
            Answer::Flushed(flushed) => self.flushed.push(flushed),
            Answer::ScopeDone(done) => self.done.push(done),
            Answer::Credit(credit) => {
                self.credit_messages += credit.messages;
                self.credit_bytes += credit.bytes;
            }
            Answer::Draining(_) => self.draining = true,
        }
    }

    pub fn verdicts(&self) -> usize {
        self.confirmed.len() + self.failed.len() + self.unknown.len()
    }
}

pub fn hello() -> Frame {
    Frame::Hello(v1::Hello {
        client: "tests".to_owned(),
    })
}

pub fn open_scope(scope: u64) -> Frame {
    Frame::OpenScope(v1::OpenScope {
        scope,
        options: None,
    })
}

pub fn message(body: &'static str) -> v1::Message {
    v1::Message {
        body: Some(Bytes::from_static(body.as_bytes())),
        ..v1::Message::default()
    }
}

pub fn messages(scope: u64, destination: &str, count: usize) -> Frame {
    Frame::Messages(v1::Messages {
        scope,
        destination: destination.to_owned(),
        messages: vec![message("a body"); count],
    })
}

pub fn flush(scope: u64, token: u64) -> Frame {
    Frame::Flush(v1::Flush { scope, token })
}

pub fn close(scope: u64) -> Frame {
    Frame::CloseScope(v1::CloseScope { scope })
}

pub fn abort(scope: u64) -> Frame {
    Frame::AbortScope(v1::AbortScope { scope })
}

pub fn assert_status(status: &Status, code: Code, words: &[&str]) {
    assert_eq!(status.code(), code, "{status:?}");
    for word in words {
        assert!(
            status.message().contains(word),
            "`{word}` in `{}`",
            status.message()
        );
    }
}

// === frames that no generated client would write ===

/// Frames as bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// Calls a method with raw frames, reads to the end, and returns the status.
pub async fn raw_call(gateway: &TestGateway, path: &'static str, frames: Vec<Bytes>) -> Status {
    let mut grpc = tonic::client::Grpc::new(gateway.channel().await);
    grpc.ready().await.unwrap();
    let request = tonic::Request::new(tokio_stream::iter(frames));
    let path = http::uri::PathAndQuery::from_static(path);
    let mut answers = match grpc.streaming(request, path, Raw).await {
        Ok(response) => response.into_inner(),
        Err(status) => return status,
    };
    loop {
        match in_time("the end of the call", answers.message()).await {
            Ok(Some(_)) => {}
            Ok(None) => return Status::ok(""),
            Err(status) => return status,
        }
    }
}
