//! A configured database, as the engine sees it.
//!
//! Invariant: every command gets one reply, whatever happens to it, and the adapter says what the reply
//! means. A database that cannot be trusted any more (deleted, replaced, damaged, lost) is closed, and every
//! destination on it is opened again before anything else is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluicegate_core::{Batch, Failure, Opened};
use sluicegate_engine::{Connection, OpenRequest, Replies};
use sluicegate_host::wit::types::{self, Rows};
use sluicegate_host::{Adapter, Guest, Health, Settlement};

use crate::bindings::Sql;
use crate::bindings::exports::sluicegate::adapter::sql_driver::{
    Answer, Command, Inserted, Reply, Statement,
};
use crate::condition::Condition;
use crate::convert;
use crate::error::SqlError;
use crate::insert::Insert;
use crate::settings::Settings;
use crate::sqlite::{self, Database};

pub use sluicegate_host::ConnectError;

/// A database and the adapter that knows what to write into it.
#[derive(Debug)]
pub struct SqlConnection {
    guest: Guest<Sql>,
    database: Database,
    condition: Condition,
}

impl SqlConnection {
    /// Pairs with an adapter. `settings` are the connection's own; the adapter's manifest lists them. The
    /// database is opened with its first destination, which says if it cannot be.
    ///
    /// # Errors
    ///
    /// The adapter is for another driver, or something is wrong with a setting.
    pub async fn connect(
        adapter: &Adapter,
        name: &str,
        settings: &BTreeMap<String, String>,
    ) -> Result<Self, ConnectError> {
        let guest = Guest::connect(adapter, name, settings).await?;
        let settings =
            Settings::parse(settings).map_err(|error| ConnectError::Settings(error.to_string()))?;
        Ok(Self {
            guest,
            database: Database::new(settings),
            condition: Condition::new(name),
        })
    }

    /// How the adapter is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        self.guest.health()
    }

    /// Executes a command; afterwards the database is as good as it can be made.
    async fn execute(
        &mut self,
        batch: &Batch,
        rows: Rows,
        insert: Insert,
        replies: &Replies,
    ) -> Reply {
        let from = rows.first as usize;
        let to = from.saturating_add(rows.count as usize);
        // The plan was checked: the range is within the batch.
        let of_batch = batch.rows.get(from..to).unwrap_or_default();
        replies.provider_requests(1);
        let deadline = replies.instant(batch.deadline);
        let result = self
            .database
            .insert(of_batch, rows.first, &insert, deadline, || replies.sent())
            .await;
        self.condition.saw(result.as_ref().err());
        if let Err(error) = &result {
            self.recover(error, replies).await;
        }
        Reply {
            rows,
            result: result
                .map(|inserted| Inserted {
                    first_id: inserted.first_id,
                })
                .map_err(Into::into),
        }
    }

    /// Whether a destination with these settings could ever be opened, as far as the adapter can tell
    /// without the database.
    ///
    /// # Errors
    ///
    /// The adapter's refusal.
    pub async fn examine(&mut self, request: &OpenRequest) -> Result<(), Failure> {
        let destination = self
            .guest
            .destination(&request.destination, &request.settings)?;
        match self.statements(&destination).await? {
            Ok(_) => Ok(()),
            Err(refusal) => self
                .guest
                .opened(&request.destination, Err(refusal))
                .map(drop),
        }
    }

    /// What the adapter wants to ask the database about a destination, or why it need not.
    async fn statements(
        &mut self,
        destination: &types::Destination,
    ) -> Result<Result<Vec<Statement>, types::Failure>, Failure> {
        let mut call = self.guest.enter().await?;
        let exports = call.bindings.sluicegate_adapter_sql_driver();
        let statements = exports.call_open(&mut call.store, destination).await;
        self.guest.leave("open", call, statements)
    }

    /// Executes the statements of a destination's opening.
    async fn ask(&mut self, statements: Vec<Statement>) -> Vec<Answer> {
        self.database.close_if_moved().await;
        let mut answers = Vec::with_capacity(statements.len());
        let mut shut: Option<SqlError> = None;
        for statement in statements {
            // Whatever keeps the database shut, every statement would wait for it anew.
            let result = match &shut {
                Some(error) => Err(error.clone()),
                None => {
                    let parameters = statement.parameters.into_iter().map(Into::into).collect();
                    self.database.query(statement.text, parameters).await
                }
            };
            if let Err(error) = &result
                && !self.database.is_open()
                && shut.is_none()
            {
                self.condition.saw(Some(error));
                shut = Some(error.clone());
            }
            answers.push(convert::answer(result));
        }
        answers
    }

    async fn recover(&mut self, error: &SqlError, replies: &Replies) {
        if sqlite::loses_connection(error) {
            if self.database.is_open() {
                let path = self.database.path().display();
                tracing::warn!(%path, %error, "the database is closed and will be opened anew");
                self.database.close().await;
            }
            replies.reopen();
        } else if sqlite::loses_schema(error) {
            replies.reopen();
        }
    }
}

impl Connection for SqlConnection {
    async fn open(&mut self, request: OpenRequest) -> Result<Opened, Failure> {
        let destination = self
            .guest
            .destination(&request.destination, &request.settings)?;
        let statements = match self.statements(&destination).await? {
            Ok(statements) => statements,
            Err(refusal) => return self.guest.opened(&request.destination, Err(refusal)),
        };
        let answers = self.ask(statements).await;

        let mut call = self.guest.enter().await?;
        let exports = call.bindings.sluicegate_adapter_sql_driver();
        let found = exports
            .call_opened(&mut call.store, &destination, &answers)
            .await;
        let found = self.guest.leave("opened", call, found)?;
        self.guest.opened(&request.destination, found)
    }

    async fn send(&mut self, batch: Arc<Batch>, replies: Replies) {
        let planned = self.guest.plan(&batch).await;
        deliver(&replies, planned.settled);
        if planned.reopen {
            replies.reopen();
        }
        for command in planned.commands {
            let Command {
                rows,
                insert,
                context,
            } = command;
            let reply = self.execute(&batch, rows, insert.into(), &replies).await;
            let settled = self.guest.settle(&batch, rows, &context, &reply).await;
            deliver(&replies, settled);
        }
    }
}

fn deliver(replies: &Replies, settled: Vec<Settlement>) {
    for settlement in settled {
        match settlement {
            Settlement::Confirmed(rows, receipts) => replies.confirmed(rows, receipts),
            Settlement::Failed(rows, failure) => replies.failed(rows, failure),
            Settlement::Unknown(rows, failure) => replies.unknown(rows, failure),
            Settlement::Isolate(rows, failure) => replies.isolate(rows, failure),
        }
    }
}
