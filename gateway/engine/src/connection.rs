//! What the engine asks of a broker, and what it tells about destinations.
//!
//! **To the engine a connection is one trait**: take a batch, give back verdicts as they come. The
//! pairing of driver and adapter stays behind it.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use sluicegate_core::{Batch, Failure, Opened};

use crate::Replies;

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

/// What is known of a configured or opened destination.
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
