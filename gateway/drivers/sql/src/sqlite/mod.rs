//! SQLite through sqlx: one connection, one transaction a command.

mod bind;
mod database;
mod identity;
mod options;
mod statement;

pub use database::{Database, Inserted};
pub use options::PAGE_BYTES;
