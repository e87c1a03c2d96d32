//! What the engine has to know before it starts.
//!
//! Plain data: whoever reads a configuration file fills it in, and [`crate::Engine::new`] checks
//! what the types cannot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{Order, Window};

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

/// A bad configuration of the engine itself.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);
