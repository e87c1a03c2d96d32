//! SQLite through sqlx: one connection, one transaction a command.

mod bind;
mod database;
mod errors;
mod identity;
mod options;
mod patience;
mod statement;

pub use database::{Database, Inserted};
pub(crate) use errors::{is_of_the_store, loses_connection, loses_schema};
pub use options::PAGE_BYTES;
