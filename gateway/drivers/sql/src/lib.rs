//! Executes an adapter's SQL commands: SQLite.
//!
//! The driver moves rows and reports codes; every decision about what a code means for a message is the
//! adapter's. What is SQLite's own is in [`sqlite`]; the rest speaks of inserts and errors in no dialect.

#![forbid(unsafe_code)]

mod bindings;
mod condition;
mod connection;
mod convert;
mod error;
mod insert;
mod settings;
pub mod sqlite;

pub use connection::{ConnectError, SqlConnection};
pub use error::{SqlError, Stage};
pub use insert::{Column, Insert, Slot, Source, SparseTexts, Value};
pub use settings::{SettingError, Settings, Synchronous};
