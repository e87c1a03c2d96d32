//! The adapter `sql`: every message is a row of a table.
//!
//! By default all destinations share one table, which the adapter creates:
//!
//! ```sql
//! CREATE TABLE "messages" (
//!   "id"            INTEGER PRIMARY KEY AUTOINCREMENT, -- the receipt
//!   "queue"         TEXT NOT NULL,                     -- the destination's name
//!   "message_id"    TEXT,                              -- the application's id
//!   "key"           BLOB,
//!   "headers"       TEXT,                              -- JSON: [{"name": …, "type": …, "value": …}]
//!   "body"          BLOB,                              -- NULL for a null body
//!   "created_at_ms" INTEGER NOT NULL                   -- when the gateway made the batch
//! )
//! ```
//!
//! A consumer reads `WHERE queue = … ORDER BY id` and deletes what it has done. Ids are never used twice,
//! also when the newest rows were deleted: that is what AUTOINCREMENT is for, and it costs single rows
//! 5 to 9 % and batches nothing that can be measured. There is no index but that of the ids; where many
//! queues share a table and their rows stay long, add one on `(queue, id)`.
//!
//! An operator may VACUUM the database while it is served: batches wait for it as for any other writer, and
//! the file, though shorter afterwards, counts as many pages as it has. A file that is shorter than its own
//! header says was damaged, and nothing more is confirmed on it.
//!
//! A destination may have a table of its own (`table`), and its columns may have other names, or be switched
//! off with an empty one; without its column a message cannot have the thing. The message's own words (body,
//! key, id, headers, the queue's name) are always bound, never written into a statement; the names of tables
//! and columns come from the configuration and are quoted.

#![deny(unsafe_code)]

mod address;
mod base64;
mod headers;
mod json;
mod manifest;
mod open;
mod plan;
mod policy;
mod table;

use sluicegate_adapter::sql::{Answer, Planned, Reply, SqlDriver, Statement};
use sluicegate_adapter::{
    Adapter, Batch, Destination, Failure, Manifest, OpenedDestination, Settings, Verdict,
};

use crate::policy::Database;
use crate::table::Table;

/// The adapter with its connection's settings, of which it needs only what its sentences name.
#[derive(Debug)]
struct Sql {
    database: Database,
}

impl Adapter for Sql {
    fn manifest() -> Manifest {
        manifest::manifest()
    }

    fn configure(settings: &Settings) -> Result<Self, String> {
        Ok(Self {
            database: Database::new(settings),
        })
    }
}

impl SqlDriver for Sql {
    fn open(&self, destination: &Destination) -> Result<Vec<Statement>, Failure> {
        Ok(open::statements(&Table::configured(destination)?))
    }

    fn opened(
        &self,
        destination: &Destination,
        answers: &[Answer],
    ) -> Result<OpenedDestination, Failure> {
        let table = Table::configured(destination)?;
        open::opened(&self.database, destination, &table, answers)
    }

    fn plan(&self, batch: &Batch) -> Planned {
        plan::plan(batch)
    }

    fn settle(&self, context: &[u8], reply: &Reply) -> Vec<Verdict> {
        vec![policy::settle(&self.database, context, reply)]
    }
}

sluicegate_adapter::export_sql!(Sql);
