//! The gateway between ingress and connections: scopes, lanes, batches, verdicts.
//!
//! SKELETON: signatures that the other crates build against; the bodies are being written.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{Batch, Failure, Message, Opened, Order, Receipt, Window};

// ---------------------------------------------------------------- configuration

/// Which connection, by its place in [`Config::connections`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionId(pub u32);

/// What the engine has to know before it starts.
#[derive(Clone, Debug)]
pub struct Config {
    /// The connections, in the order in which they are attached.
    pub connections: Vec<ConnectionConfig>,
    /// Destinations; an exact name wins over a pattern, a longer pattern over a shorter one.
    pub routes: Vec<Route>,
    /// What clients may do.
    pub limits: ClientLimits,
}

/// One configured broker.
#[derive(Clone, Debug)]
pub struct ConnectionConfig {
    pub name: Arc<str>,
    pub window: Window,
}

/// A destination name, or a pattern of names (`*` stands for any run of characters).
#[derive(Clone, Debug)]
pub struct Route {
    pub pattern: String,
    pub connection: ConnectionId,
    pub policy: Policy,
    /// The route's own settings, for the adapter's `open`: text by key.
    pub settings: Arc<BTreeMap<String, String>>,
}

/// How the engine treats a destination's rows.
#[derive(Clone, Debug)]
pub struct Policy {
    pub order: Order,
    /// How long an idle lane waits for more rows before it sends; 0 by default.
    pub linger: Duration,
    /// How often a retryable row is sent at most; 1 is no retry.
    pub attempts: u32,
    /// Capped exponential backoff with jitter between them.
    pub backoff: Backoff,
    /// Upper bound of a body on top of what the destination's own `open` found.
    pub max_body_bytes: Option<u64>,
    /// Upper bound of a batch on top of what `open` found.
    pub max_batch_messages: Option<u32>,
    /// When an idle lane is forgotten.
    pub idle_eviction: Duration,
}

#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    pub initial: Duration,
    pub max: Duration,
}

/// What clients may do; sent to them in `Welcome`.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    /// Rows that one stream may have unsettled.
    pub stream_messages: u32,
    /// Bytes that one stream may have unsettled.
    pub stream_bytes: u64,
    /// Bytes that all streams together may have unsettled.
    pub total_bytes: u64,
    /// Scopes that one stream may have open.
    pub stream_scopes: u32,
    /// Bytes of results that one stream may leave unread.
    pub unread_result_bytes: u64,
    /// How long it may leave them unread before its stream is ended.
    pub unread_results_timeout: Duration,
    /// Confirmation timeout of a scope that names none.
    pub confirmation_timeout: Duration,
}

// ---------------------------------------------------------------- towards connections

/// A destination to be opened on a connection.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    pub destination: Arc<str>,
    pub settings: Arc<BTreeMap<String, String>>,
}

/// One configured broker, as the engine sees it. A pairing of driver and adapter implements it.
pub trait Connection: Send + 'static {
    /// Finds out what the broker says about a destination. A retryable failure is tried again
    /// with backoff; any other fails the lane's rows with it (and is asked again for later rows).
    fn open(
        &mut self,
        request: OpenRequest,
    ) -> impl Future<Output = Result<Opened, Failure>> + Send;

    /// Plans a batch whole and sends it. Returns when the next batch may be planned; verdicts may
    /// come later, from any task. A batch closes when the last clone of its `replies` is dropped;
    /// rows without a verdict are then `unknown` (if `replies.sent()` was said) or failed.
    fn send(&mut self, batch: Arc<Batch>, replies: Replies) -> impl Future<Output = ()> + Send;
}

/// Where a connection reports what became of a batch's rows. `rows` are places in `Batch::rows`.
/// The first verdict of a row stands; later ones are counted as adapter faults and dropped.
#[derive(Clone, Debug)]
pub struct Replies {
    _private: (),
}

impl Replies {
    /// From here on rows without a verdict are `unknown`: bytes may have left.
    pub fn sent(&self) {
        unimplemented!()
    }
    /// Confirmed. `receipts` is empty, or has one entry for each row.
    pub fn confirmed(&self, rows: Range<u32>, receipts: Vec<Receipt>) {
        let _ = (rows, receipts);
        unimplemented!()
    }
    /// Failed, all for the same reason.
    pub fn failed(&self, rows: Range<u32>, failure: Failure) {
        let _ = (rows, failure);
        unimplemented!()
    }
    /// Sent, confirmation lost.
    pub fn unknown(&self, rows: Range<u32>, reason: Failure) {
        let _ = (rows, reason);
        unimplemented!()
    }
    /// Nothing of these rows is stored, because of at least one of them: they are split, left half
    /// first, until the poison rows stand alone; a row that fails alone fails with `failure`.
    pub fn isolate(&self, rows: Range<u32>, failure: Failure) {
        let _ = (rows, failure);
        unimplemented!()
    }
    /// The connection was lost and made anew: every destination on it is to be opened again.
    pub fn reopen(&self) {
        unimplemented!()
    }
    /// Counts, for metrics and loadgen: one request to the provider.
    pub fn provider_requests(&self, n: u64) {
        let _ = n;
        unimplemented!()
    }
}

// ---------------------------------------------------------------- towards ingress

/// The running engine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine {
    _private: (),
}

impl Engine {
    /// Must be called within a tokio runtime.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let _ = config;
        unimplemented!()
    }
    /// Starts the task that feeds a connection. `id`s are places in `Config::connections`.
    pub fn attach<C: Connection>(&self, id: ConnectionId, connection: C) {
        let _ = (id, connection);
        unimplemented!()
    }
    /// Opens a destination ahead of its first message (`serve` at start, `check`).
    pub async fn open(&self, destination: &str) -> Result<Opened, Failure> {
        let _ = destination;
        unimplemented!()
    }
    /// A client's stream; dropping it without `finish` is a lost stream: accepted rows settle and are logged.
    pub fn open_stream(&self) -> Result<Stream, Draining> {
        unimplemented!()
    }
    /// Refuses new scopes from now on and tells every stream (`Event::Draining`).
    pub fn drain(&self, deadline: Duration) {
        let _ = deadline;
        unimplemented!()
    }
    /// Resolves when nothing is queued or in flight.
    pub async fn drained(&self) {
        unimplemented!()
    }
    pub fn stats(&self) -> Stats {
        unimplemented!()
    }
    pub fn limits(&self) -> ClientLimits {
        unimplemented!()
    }
    /// Configured routes, and destinations opened so far (for Welcome, check, Stats).
    pub fn destinations(&self) -> Vec<DestinationInfo> {
        unimplemented!()
    }
}

#[derive(Clone, Debug)]
pub struct DestinationInfo {
    /// The name or pattern.
    pub name: String,
    pub connection: Arc<str>,
    /// None: not opened yet, or a pattern.
    pub opened: Option<Opened>,
    /// Why it could not be opened, when that is so.
    pub refusal: Option<Failure>,
}

/// A bad configuration of the engine itself.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// The gateway is shutting down and takes no new work.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the gateway is draining and takes no new work; connect to another one or try again")]
pub struct Draining;

/// What a client did that the protocol does not allow. It ends the client's stream.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProtocolFault {
    #[error(
        "scope {0} was used before on this stream: scope ids grow from one OpenScope to the next; open the next scope with a larger id"
    )]
    ScopeReused(u64),
    #[error("scope {0} is not open on this stream: send OpenScope first")]
    NoSuchScope(u64),
    #[error(
        "scope {0} was closed: a scope takes no messages and no flush after CloseScope or AbortScope; open a new one"
    )]
    ScopeClosed(u64),
    #[error(
        "{0} scopes are open on this stream, which is the limit: close some, or use another stream"
    )]
    TooManyScopes(u32),
}

/// How a scope wants its messages treated.
#[derive(Clone, Debug)]
pub struct ScopeOptions {
    /// Whether its rows may share a batch with others; otherwise each is one provider operation.
    pub batching: bool,
    /// Whether a row may be sent before the one before it has its verdict.
    pub deferred_confirmation: bool,
    /// From a row's acceptance to its verdict at the latest; `None` is the gateway's default.
    pub confirmation_timeout: Option<Duration>,
    /// Where failed messages go. Not yet served: an error when not `None`.
    pub error_channel: Option<String>,
    /// Whether confirmations come with receipts.
    pub receipts: bool,
}

impl Default for ScopeOptions {
    fn default() -> Self {
        Self {
            batching: true,
            deferred_confirmation: true,
            confirmation_timeout: None,
            error_channel: None,
            receipts: false,
        }
    }
}

/// One client's stream: its scopes, its credit, its results.
#[derive(Debug)]
pub struct Stream {
    _private: (),
}

impl Stream {
    /// `id`s must grow within the stream.
    pub fn open_scope(&self, id: u64, options: ScopeOptions) -> Result<(), ProtocolFault> {
        let _ = (id, options);
        unimplemented!()
    }
    /// Accepts messages as the scope's next rows. `frame_bytes` is the memory that they keep alive.
    /// Never waits: ask `ready` before reading the next frame.
    pub fn publish(
        &self,
        scope: u64,
        destination: &str,
        messages: Vec<Message>,
        frame_bytes: usize,
    ) -> Result<(), ProtocolFault> {
        let _ = (scope, destination, messages, frame_bytes);
        unimplemented!()
    }
    /// Answered by `Event::Flushed` when each row published to the scope before it has its verdict.
    pub fn flush(&self, scope: u64, token: u64) -> Result<(), ProtocolFault> {
        let _ = (scope, token);
        unimplemented!()
    }
    /// No more messages; answered by `Event::ScopeDone`.
    pub fn close_scope(&self, scope: u64) -> Result<(), ProtocolFault> {
        let _ = scope;
        unimplemented!()
    }
    /// Fails what is unsent with ABORTED; answered by `Event::ScopeDone` when what was sent has settled.
    pub fn abort_scope(&self, scope: u64) -> Result<(), ProtocolFault> {
        let _ = scope;
        unimplemented!()
    }
    /// Resolves when another frame may be read: credit, memory and unread results allow it.
    pub async fn ready(&self) {
        unimplemented!()
    }
    /// Waits for results and appends them to `events`, up to about `budget_bytes`. Returns false when the
    /// stream was finished (`finish`) and everything has been taken.
    pub async fn events(&self, events: &mut Vec<Event>, budget_bytes: usize) -> bool {
        let _ = (events, budget_bytes);
        unimplemented!()
    }
    /// The client will send no more: open scopes are closed. `events` ends when all have settled.
    pub fn finish(&self) {
        unimplemented!()
    }
}

/// What a stream is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Results(Results),
    Flushed {
        scope: u64,
        token: u64,
    },
    ScopeDone {
        scope: u64,
        confirmed: u64,
        failed: u64,
        unknown: u64,
    },
    /// Credit that came back since the last one.
    Credit {
        messages: u64,
        bytes: u64,
    },
    Draining {
        deadline: Duration,
    },
    /// Results were left unread too long: the stream is over (RESOURCE_EXHAUSTED).
    Stalled,
}

/// Verdicts of one scope. Row numbers count from 0 in the scope.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    pub scope: u64,
    /// Ascending, disjoint, coalesced.
    pub confirmed: Vec<Range<u64>>,
    pub failed: Vec<(u64, Failure)>,
    pub unknown: Vec<(u64, Failure)>,
    /// Of confirmed rows, when the scope wanted them.
    pub receipts: Vec<(u64, Receipt)>,
}

/// Counters since the start, and gauges of now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    pub accepted: u64,
    pub confirmed: u64,
    pub failed: u64,
    pub unknown: u64,
    pub retries: u64,
    pub batches: u64,
    pub provider_requests: u64,
    /// Now: rows waiting in lanes.
    pub queued_messages: u64,
    /// Now: rows sent and unsettled.
    pub in_flight_messages: u64,
    /// Now: memory charged to queued and sent rows.
    pub held_bytes: u64,
    pub streams: u64,
    pub scopes: u64,
    pub lanes: u64,
}
