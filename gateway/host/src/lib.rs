//! Runs adapters: WebAssembly components without I/O.
//!
//! Invariant: whatever an adapter does, it harms at most the rows that it was asked about. It cannot reach
//! anything (it imports nothing but `log`), cannot run on (a call has a budget, and gives its thread back
//! at every tick), cannot hoard (memory and tables are limited), and what it answers is checked before
//! anyone acts on it. An instance that trapped or answered nonsense is thrown away; since no state lives
//! in it, a fresh one goes on in its place.
//!
//! The way in: a [`Host`] loads an [`Adapter`] from a file, once; a driver's connection makes itself a
//! [`Guest`] of it, which plans its batches and settles its replies. What a driver adds is its own
//! interface of the contract, by implementing [`Driver`].

// One line is audited: loading a compiled component from the gateway's own cache (`cache`).
#![deny(unsafe_code)]

mod adapter;
mod cache;
mod convert;
mod driver;
mod epoch;
mod error;
mod guest;
mod health;
mod host;
mod inspect;
mod lower;
mod manifest;
mod places;
mod plan;
mod settings;
mod settle;
mod state;
pub mod wit;

pub use adapter::Adapter;
pub use cache::CacheError;
pub use driver::{Driver, Store};
pub use error::{ConnectError, LoadError, Trap};
pub use guest::{Call, Guest, Planned};
pub use health::{Health, UNHEALTHY_AFTER};
pub use host::{CALL_BUDGET, Host, HostError, MEMORY_BYTES, Options};
pub use lower::Lowering;
pub use manifest::{Manifest, Reads, Setting};
pub use plan::PlanFault;
pub use settle::{SettleFault, Settlement};
pub use state::State;

/// For the bindings of a driver's own interface: `wasmtime_crate: sluicegate_host::wasmtime`.
pub use wasmtime;
