//! The words of the gateway: message, batch, verdict, failure.
//!
//! Every other crate speaks in these types; this one knows neither gRPC, nor WebAssembly, nor a
//! broker, nor a clock.

#![forbid(unsafe_code)]

mod batch;
mod destination;
mod message;
mod verdict;

pub use batch::{Batch, Origin, Row};
pub use destination::{
    Capabilities, Deduplication, Limits, Opened, Order, Strength, Window, WindowUnit,
};
pub use message::{Extra, Header, HeaderValue, Message};
pub use verdict::{Failure, FailureClass, Receipt, Verdict};

/// Time since the gateway's own origin.
///
/// The engine reads no clock: whoever calls it says what time it is, so that a simulation can run
/// years of it in a second.
pub type Time = std::time::Duration;
