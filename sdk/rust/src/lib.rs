//! The Rust client of the Sluicegate producer gateway.
//!
//! An application publishes messages in scopes and learns what became of each:
//!
//! ```
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/mod.rs"));
//! use sluicegate_client::{Client, Message};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), sluicegate_client::Error> {
//! # let address = Gateway::start().await.address();
//! // address = "http://127.0.0.1:7077", or "unix:/run/sluicegate.sock"
//! let client = Client::connect(&address).await?;
//!
//! let scope = client.scope().await?;
//! scope.publish("orders", "first").await?;
//! scope.publish("orders", Message::new("second").key("customer-4")).await?;
//! scope.publish("nowhere", "third").await?;
//!
//! let summary = scope.close().await?;
//! assert_eq!((summary.confirmed, summary.failed), (2, 1));
//! assert_eq!(summary.failures[0].row, 2);
//! # Ok(())
//! # }
//! ```
//!
//! A single message, awaited; callers at the same time share frames and batches:
//!
//! ```
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/mod.rs"));
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), sluicegate_client::Error> {
//! # let address = Gateway::start().await.address();
//! # let client = sluicegate_client::Client::connect(&address).await?;
//! let verdict = client.publish_confirmed("orders", "hello").await?;
//! assert!(verdict.is_confirmed());
//! # Ok(())
//! # }
//! ```
//!
//! Verdicts as they come:
//!
//! ```
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/mod.rs"));
//! use sluicegate_client::Message;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), sluicegate_client::Error> {
//! # let address = Gateway::start().await.address();
//! # let client = sluicegate_client::Client::connect(&address).await?;
//! let scope = client.scope().await?;
//! let messages: Vec<Message> = (0..1_000).map(|n| Message::new(n.to_string())).collect();
//! scope.publish_many("orders", &messages).await?;
//! scope.finish();
//! let mut rows = 0;
//! while let Some(verdicts) = scope.next_verdicts().await {
//!     rows += verdicts.rows();
//! }
//! assert_eq!(rows, 1_000);
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//!
//! - Every published message ends with exactly one verdict. When the stream is lost, what had none is
//!   `unknown`; the client connects again, and new scopes go on.
//! - Publishing waits for the gateway's credit and for nothing else; one destination holds at most
//!   half of it.
//! - Messages that are published while the transport is writing share a frame. Nothing waits for a
//!   frame to fill.

#![forbid(unsafe_code)]

mod client;
mod credit;
mod encode;
mod error;
mod message;
mod outgoing;
mod ranges;
mod rows;
mod scope;
mod stream;
mod transport;
mod verdict;

pub use client::{Client, ClientBuilder};
pub use error::Error;
pub use message::{HeaderValue, Message};
pub use scope::{Scope, ScopeOptions};
pub use verdict::{Failure, FailureClass, RowFailure, Summary, Verdict, Verdicts};

/// The protocol's own types, as far as the client hands them out.
pub use sluicegate_proto::v1 as protocol;
