//! What a stream asks for and what it is told.

use std::ops::Range;
use std::time::Duration;

use sluicegate_core::{Failure, Receipt};

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
