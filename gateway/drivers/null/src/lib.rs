//! The driver that settles at once: what is left is the gateway's own cost.
//!
//! Invariant: the whole path (plan, check, settle, verdicts) runs inline in `send`, without a task or a
//! channel, and allocates per batch, never per message. It is the path by which the gateway is measured, and
//! the shape that every other driver has, with nothing in the place of the broker.

#![forbid(unsafe_code)]

mod bindings;
mod connection;

pub use connection::{ConnectError, NullConnection};
