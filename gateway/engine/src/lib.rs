//! The gateway between ingress and connections: scopes, lanes, batches, verdicts.
//!
//! **Every accepted row gets exactly one verdict**, and nothing that is held is uncounted. The engine
//! knows neither gRPC, nor WebAssembly, nor a broker; it does no I/O and reads no clock but tokio's,
//! which tests pause.
//!
//! Inside is a state machine without tasks (`state.rs` and the files beside it)
//! behind one lock; around it a thin shell ([`Engine`], [`Stream`], [`Replies`]). [`sim`] drives the
//! state machine alone, with virtual time and a broker that misbehaves.
//!
//! A row's way: `Stream::publish` enters it in the ledger and puts its frame into a flow of its
//! destination's lane; when its connection has room the lane gathers a batch, which becomes a flight;
//! replies settle its rows, and the ledger crosses them out and keeps their verdicts until
//! `Stream::events` takes them.

#![forbid(unsafe_code)]

mod admit;
mod bits;
mod config;
mod connection;
mod effects;
mod engine;
mod event;
mod fault;
mod feed;
mod flight;
mod flow;
mod gather;
mod give_up;
mod keys;
mod lane;
mod ledger;
mod pattern;
mod pending;
mod replies;
mod rng;
mod scope;
mod shared;
pub mod sim;
mod state;
mod stream;
mod stream_state;
mod timers;
mod verdicts;
mod window;

pub use config::{
    Backoff, ClientLimits, Config, ConfigError, ConnectionConfig, ConnectionId, Policy, Route,
};
pub use connection::{Connection, DestinationInfo, OpenRequest};
pub use engine::Engine;
pub use event::{Event, Results, ScopeOptions, Stats};
pub use fault::{Draining, ProtocolFault};
pub use replies::Replies;
pub use stream::{Memory, Stream};
