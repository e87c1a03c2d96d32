//! What a call of the state machine leaves to be done once its lock is free.
//!
//! **Nothing is woken and nothing large is freed under the lock**: waking a task costs a system
//! call when a thread sleeps, and a batch may hold the last reference to megabytes of frames.

use std::sync::Arc;

use sluicegate_core::{Batch, Failure, Message};

use crate::ledger::Counts;

/// To be done after the lock is released.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) wakes: Vec<Wake>,
    /// Batches nobody needs any more.
    pub(crate) batches: Vec<Arc<Batch>>,
    /// Messages that were rejected as they came.
    pub(crate) messages: Vec<Vec<Message>>,
    pub(crate) notices: Vec<Notice>,
}

/// Who has something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// A stream has events.
    Events(usize),
    /// A stream may read on.
    Room(usize),
    /// A stream has stalled.
    Stalled(usize),
    /// A connection has work.
    Connection(usize),
    /// The earliest timer is earlier than it was.
    Timer,
    /// A destination was opened, or refused.
    Opened,
    /// Nothing is unsettled.
    Drained,
}

/// What people should read in the log.
#[derive(Clone, Debug)]
pub(crate) enum Notice {
    /// A lost stream has settled.
    Lost { stream: u64, counts: Counts },
    /// A connection answered nonsense; `total` counts such answers.
    AdapterFault {
        connection: Arc<str>,
        what: &'static str,
        total: u64,
    },
    /// A destination could not be opened.
    NotOpened {
        destination: Arc<str>,
        failure: Failure,
    },
}

impl Notice {
    pub(crate) fn log(&self) {
        match self {
            Self::Lost { stream, counts } => tracing::warn!(
                stream,
                confirmed = counts.confirmed,
                failed = counts.failed,
                unknown = counts.unknown,
                "a stream was lost with rows unsettled or results unread; its rows have settled and nobody was told"
            ),
            Self::AdapterFault {
                connection,
                what,
                total,
            } => tracing::error!(
                connection = &**connection,
                total,
                "an adapter or driver {what}; the first verdict of a row stands"
            ),
            Self::NotOpened {
                destination,
                failure,
            } => tracing::warn!(
                destination = &**destination,
                class = failure.class.as_str(),
                retryable = failure.retryable,
                "could not open: {}",
                failure.reason
            ),
        }
    }
}
