//! What the tests and the benchmark of this crate share: guests built from source, a driver to call them
//! through, batches.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "shared by test binaries, each of which uses a part of it"
)]

pub mod guests;
pub mod null;

pub use guests::component;

use std::time::Duration;

use sluicegate_core::{Batch, Message, Origin, Row};

/// A batch of messages of 256 bytes for the destination that has the number 0.
pub fn batch(rows: usize) -> Batch {
    batch_of((0..rows).map(|_| Message::new(vec![b'x'; 256])).collect())
}

/// A batch of these messages.
pub fn batch_of(messages: Vec<Message>) -> Batch {
    Batch {
        destination: "orders".into(),
        address: 0,
        body_bytes: messages.iter().map(Message::body_bytes).sum(),
        rows: messages
            .into_iter()
            .map(|message| Row {
                message,
                origin: Origin::default(),
                accepted_at: Duration::ZERO,
                attempts: 0,
            })
            .collect(),
        deadline: Duration::from_secs(30),
        receipts: false,
    }
}
