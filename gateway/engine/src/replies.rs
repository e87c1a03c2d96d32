//! Where a connection says what became of a batch.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sluicegate_core::{Failure, Receipt, Time};
use tokio::time::Instant;

use crate::shared::Shared;

/// Where a connection reports what became of a batch's rows. `rows` are places in `Batch::rows`.
/// The first verdict of a row stands; later ones are counted as adapter faults and dropped.
///
/// **The batch closes when the last clone is dropped**: whatever happens to the task that holds one,
/// every row gets a verdict.
#[derive(Clone, Debug)]
pub struct Replies(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    flight: usize,
    connection: usize,
    sent: AtomicBool,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("flight", &self.flight)
            .field("sent", &self.sent)
            .finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let sent = *self.sent.get_mut();
        self.shared
            .with(|state, now| state.close_flight(self.flight, sent, now));
    }
}

impl Replies {
    pub(crate) fn new(shared: Arc<Shared>, flight: usize, connection: usize) -> Self {
        Self(Arc::new(Handle {
            shared,
            flight,
            connection,
            sent: AtomicBool::new(false),
        }))
    }

    /// From here on rows without a verdict are `unknown`: bytes may have left.
    pub fn sent(&self) {
        self.0.sent.store(true, Ordering::Release);
    }

    /// Confirmed. `receipts` is empty, or has one entry for each row.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the engine may come to keep them; a connection has no use for them afterwards"
    )]
    pub fn confirmed(&self, rows: Range<u32>, receipts: Vec<Receipt>) {
        let flight = self.0.flight;
        self.0
            .shared
            .with(|state, now| state.confirmed(flight, rows, &receipts, now));
    }

    /// Failed, all for the same reason: nothing of these rows is stored.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a connection has no use for the failure afterwards, and its code is shorter"
    )]
    pub fn failed(&self, rows: Range<u32>, failure: Failure) {
        let flight = self.0.flight;
        self.0
            .shared
            .with(|state, now| state.failed(flight, rows, &failure, now));
    }

    /// Sent, confirmation lost.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a connection has no use for the reason afterwards, and its code is shorter"
    )]
    pub fn unknown(&self, rows: Range<u32>, reason: Failure) {
        let flight = self.0.flight;
        self.0
            .shared
            .with(|state, now| state.lost(flight, rows, &reason, now));
    }

    /// Nothing of these rows is stored, because of at least one of them: they are split, left half
    /// first, until the poison rows stand alone; a row that fails alone fails with `failure`.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a connection has no use for the failure afterwards, and its code is shorter"
    )]
    pub fn isolate(&self, rows: Range<u32>, failure: Failure) {
        let flight = self.0.flight;
        self.0
            .shared
            .with(|state, now| state.isolate(flight, rows, &failure, now));
    }

    /// The connection was lost and made anew: every destination on it is to be opened again.
    pub fn reopen(&self) {
        let connection = self.0.connection;
        self.0
            .shared
            .with(|state, now| state.reopen(connection, now));
    }

    /// When it will be `time`, a batch's deadline for example, on the clock that a connection sleeps by.
    /// None: never.
    #[must_use]
    pub fn instant(&self, time: Time) -> Option<Instant> {
        self.0.shared.at(time)
    }

    /// Counts, for metrics and loadgen: one request to the provider.
    pub fn provider_requests(&self, n: u64) {
        self.0.shared.with(|state, _| state.provider_requests += n);
    }
}
