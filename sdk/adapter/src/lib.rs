//! Write an adapter: implement two traits, export them with one macro.
//!
//! An adapter is a pure function of its arguments and of its connection's settings: it does no I/O, keeps
//! nothing between calls, and all it can import is the log. It says who it is ([`Adapter`]) and answers for
//! the one driver that it pairs with ([`null::NullDriver`], [`sql::SqlDriver`]).
//!
//! ```
//! use sluicegate_adapter::null::{Command, NullDriver, Planned, Reply};
//! use sluicegate_adapter::{
//!     Adapter, Batch, Capabilities, Columns, Destination, Failure, Limits, Manifest, OpenedDestination,
//!     Outcome, Receipts, Rows, Settings, Strength, Verdict, Window, WindowUnit,
//! };
//!
//! struct Discard;
//!
//! impl Adapter for Discard {
//!     fn manifest() -> Manifest {
//!         Manifest {
//!             name: "discard".into(),
//!             version: "1.0.0".into(),
//!             driver: "null".into(),
//!             summary: "Confirms every message and keeps none.".into(),
//!             reads: Columns::empty(),
//!             window: Window { unit: WindowUnit::Messages, size: 1_000 },
//!             capabilities: Capabilities::NONE,
//!             connection_settings: vec![],
//!             destination_settings: vec![],
//!         }
//!     }
//!
//!     fn configure(_settings: &Settings) -> Result<Self, String> {
//!         Ok(Discard)
//!     }
//! }
//!
//! impl NullDriver for Discard {
//!     fn open(&self, _destination: &Destination) -> Result<OpenedDestination, Failure> {
//!         Ok(OpenedDestination {
//!             address: vec![],
//!             limits: Limits { batch_messages: 1_000, batch_bytes: 1 << 20, body_bytes: 1 << 20 },
//!             capabilities: Capabilities::NONE,
//!             strength: Strength::Accepted,
//!             facts: vec![],
//!         })
//!     }
//!
//!     fn plan(&self, batch: &Batch) -> Planned {
//!         let rows = Rows::all(batch);
//!         Planned { commands: vec![Command { rows, context: vec![] }], failures: vec![] }
//!     }
//!
//!     fn settle(&self, _context: &[u8], reply: &Reply) -> Vec<Verdict> {
//!         vec![Verdict { rows: reply.rows, outcome: Outcome::Confirmed(Receipts::None) }]
//!     }
//! }
//!
//! sluicegate_adapter::export_null!(Discard);
//! # fn main() {}
//! ```
//!
//! The crate is a `cdylib`, built for `wasm32-unknown-unknown` and wrapped into a component. All types
//! compile for the host as well, so that an adapter's tests are ordinary ones: call `plan` with a [`Batch`]
//! made by hand and look at what comes back.
//!
//! A panic is a trap: the gateway throws the instance away, logs the panic's message, and looks for the row
//! that caused it. A row that cannot be sent is no reason to panic: name it in the plan's failures.

#![deny(unsafe_code)]

// The bindings name this crate by its full path, here as in the crates that export an adapter.
extern crate self as sluicegate_adapter;

mod adapter;
#[doc(hidden)]
pub mod bindings;
mod columns;
mod failure;
pub mod log;
pub mod null;
mod rows;
mod settings;
pub mod sql;

#[doc(hidden)]
pub mod instance;

pub use adapter::Adapter;
pub use bindings::sluicegate::adapter::types::{
    Batch, BytesColumn, Capabilities, Columns, Destination, Failure, FailureClass, HeaderColumns,
    HeaderKind, Limits, Manifest, OpenedDestination, Outcome, Receipts, RowFailure, Rows, Setting,
    SparseBytes, SparseNumbers, Strength, Verdict, Window, WindowUnit,
};
pub use columns::{Header, HeaderValue, Headers};
pub use rows::ranges;
pub use settings::Settings;

/// What the export macros need of the bindings' runtime.
#[doc(hidden)]
pub use wit_bindgen;
