//! Rows bound for one destination, planned and sent together.

use std::sync::Arc;

use crate::{Message, Time};

/// Where a row came from. Only the engine reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The engine's own number of the scope.
    pub scope: u32,
    /// The message's place in its scope: the n-th message is row n, counted from 0.
    pub row: u64,
    /// The engine's own number of the frame whose memory the row keeps.
    pub frame: u32,
}

/// One message on its way.
#[derive(Clone, Debug)]
pub struct Row {
    /// What is to be published.
    pub message: Message,
    /// Whose it is.
    pub origin: Origin,
    /// When its frame was accepted: delay, time-to-live and confirmation timeout count from here.
    pub accepted_at: Time,
    /// How often it has been sent.
    pub attempts: u32,
}

/// Rows bound for one destination, planned and sent together.
///
/// Shared, never copied: the engine keeps one reference (a row may have to be resent), the
/// connection another.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The destination's name, as the application wrote it.
    pub destination: Arc<str>,
    /// The connection's own number of the destination, as its `open` returned it.
    pub address: u32,
    /// The batch's rows; a batch is never empty.
    pub rows: Vec<Row>,
    /// Sum of the rows' body lengths.
    pub body_bytes: usize,
    /// When the first of its rows runs out of its confirmation timeout.
    pub deadline: Time,
    /// Whether a verdict needs its receipt.
    pub receipts: bool,
}
