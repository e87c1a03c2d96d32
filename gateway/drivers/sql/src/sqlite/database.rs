//! An open database, and the transactions on it.
//!
//! Invariant: [`Database::insert`] says `Ok` only when the rows are committed to the file that is at the
//! configured path, and [`Stage::NotStored`] only when none of them is. Whatever lies between is
//! [`Stage::Committing`].

use std::path::Path;

use futures::TryStreamExt as _;
use sluicegate_core::Row;
use sqlx::sqlite::{SqliteConnection, SqliteQueryResult, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Decode, Row as _, ValueRef as _};
use tokio::time::Instant;

use super::errors::after_commit;
use super::identity::{Fate, StoreFile};
use super::patience::Patience;
use super::statement::{Shape, Statements};
use super::{bind, options};
use crate::error::{BUSY, CORRUPT, FILE_MOVED, SqlError, Stage};
use crate::insert::{Insert, Slot, Value};
use crate::settings::Settings;

/// Rows of an answer to a statement of the adapter's own: an answer is about a schema, and a guest
/// should not be flooded by a view that has its name.
const MAX_ANSWER_ROWS: usize = 1_000;

/// The SQLite database of a connection: opened when it is needed, closed when it cannot be trusted.
#[derive(Debug)]
pub struct Database {
    settings: Settings,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    connection: SqliteConnection,
    /// Closed after the connection: see [`StoreFile`].
    file: StoreFile,
    statements: Statements,
    /// Something was begun and has not returned: its future was dropped half-way, and what it left is to
    /// be rolled back first.
    unfinished: bool,
    /// The lock was taken when it was last asked for: the next transaction takes it first of all, so that
    /// its rows are not bound in vain.
    contended: bool,
}

/// A transaction that was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inserted {
    /// Row id of the first row, when the ids are consecutive. Meaningful for a table whose rows have
    /// ids and whose inserts fire no triggers; the adapter knows that.
    pub first_id: Option<i64>,
}

impl Database {
    /// A database that is not open yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            open: None,
        }
    }

    /// The database's file.
    pub fn path(&self) -> &Path {
        &self.settings.path
    }

    /// Whether the database is open.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Closes the database; the next call opens it again.
    pub async fn close(&mut self) {
        if let Some(open) = self.open.take()
            && let Err(error) = open.connection.close().await
        {
            tracing::debug!(path = %self.path().display(), %error, "closing the database failed");
        }
    }

    /// Closes the database if its file was deleted, replaced or cut short.
    pub async fn close_if_moved(&mut self) {
        let Some(open) = &mut self.open else {
            return;
        };
        let fate = open.file.fate().await;
        if let Some(error) = lost(fate, &self.settings.path) {
            tracing::warn!("{error}");
            self.close().await;
        }
    }

    /// Executes a statement of the adapter's own and gives back at most 1,000 rows.
    ///
    /// # Errors
    ///
    /// What the database said, or why it cannot be opened.
    pub async fn query(
        &mut self,
        text: String,
        parameters: Vec<Value>,
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        let mut patience = Patience::new(self.settings.busy_timeout, None);
        let open = self.ready(&mut patience).await?;
        open.unfinished = true;
        let answer = loop {
            let answer = open.query(&text, parameters.clone()).await;
            match patience.again(answer).await {
                Ok(Some(answer)) => break Ok(answer),
                Ok(None) => {}
                Err(error) => break Err(error),
            }
        };
        open.unfinished = false;
        answer.map_err(|error| options::explained(error, &self.settings))
    }

    /// Inserts rows in one transaction; the first of them is row `first` of its batch. `sent` is called
    /// when rows may be stored from then on. A lock that another process holds is waited for until
    /// `busy_timeout` has passed, or almost until `deadline`: then nothing of the rows is stored.
    ///
    /// # Errors
    ///
    /// What the database said, and how far the transaction had come; or why it cannot be opened.
    pub async fn insert(
        &mut self,
        rows: &[Row],
        first: u32,
        insert: &Insert,
        deadline: Option<Instant>,
        sent: impl FnOnce() + Send,
    ) -> Result<Inserted, SqlError> {
        let mut patience = Patience::new(self.settings.busy_timeout, deadline);
        let open = self.ready(&mut patience).await?;
        open.unfinished = true;
        let result = open.insert(rows, first, insert, &mut patience, sent).await;
        open.unfinished = false;
        let committed = match result {
            Ok(committed) => committed,
            Err(error) => return Err(options::explained(error, &self.settings)),
        };
        // Deleted or cut short while it was being written to: what was committed is in a file without a
        // name, or in the middle of nothing.
        let fate = open.file.fate().await;
        match lost(fate, &self.settings.path) {
            None => Ok(committed),
            Some(error) => Err(error.at(Stage::Committing)),
        }
    }

    /// The open database, with nothing unfinished on it, in the file that is at its path.
    async fn ready(&mut self, patience: &mut Patience) -> Result<&mut Open, SqlError> {
        let open = match self.open.take() {
            Some(open) => open,
            None => loop {
                let opened = Open::open(&self.settings).await;
                if let Some(open) = patience.again(opened).await? {
                    break open;
                }
            },
        };
        let open = self.open.insert(open);
        let fate = open.file.fate().await;
        if let Some(error) = lost(fate, &self.settings.path) {
            return Err(error);
        }
        if open.unfinished {
            // Fails when there is nothing to roll back, which is as good.
            let _ = open.execute("ROLLBACK").await;
            open.unfinished = false;
        }
        Ok(open)
    }
}

/// Why a file that this has become of cannot be written to any more.
fn lost(fate: Fate, path: &Path) -> Option<SqlError> {
    let path = path.display();
    match fate {
        Fate::Whole => None,
        Fate::Moved => Some(SqlError::sqlite(
            FILE_MOVED,
            format!("the database {path} was deleted or replaced while it was open"),
        )),
        Fate::CutShort { was, is } => Some(SqlError::sqlite(
            CORRUPT,
            format!(
                "the database {path} was cut from {was} to {is} bytes while it was open, so that pages of it are missing: look at it with `PRAGMA integrity_check`, and restore it"
            ),
        )),
    }
}

impl Open {
    async fn open(settings: &Settings) -> Result<Self, SqlError> {
        options::examine(settings)?;
        let file =
            StoreFile::open(settings).map_err(|error| options::unopened(&error, settings))?;
        let connected = options::options(settings).connect().await;
        let connection = connected.map_err(|error| options::explained(error.into(), settings))?;
        let mut open = Self {
            connection,
            file,
            statements: Statements::default(),
            unfinished: false,
            contended: false,
        };
        let page_bytes: i64 = sqlx::query_scalar("PRAGMA page_size")
            .fetch_one(&mut open.connection)
            .await?;
        let pages = options::LOG_BYTES / u64::try_from(page_bytes).unwrap_or(1).max(1);
        open.execute(&format!("PRAGMA wal_autocheckpoint = {pages}"))
            .await?;
        Ok(open)
    }

    /// At most 1,000 rows of an answer.
    async fn query(
        &mut self,
        text: &str,
        parameters: Vec<Value>,
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        let bound = bind::values(parameters)?;
        let mut rows = sqlx::query_with(AssertSqlSafe(text.to_owned()), bound)
            .persistent(false)
            .fetch(&mut self.connection);
        let mut answer = Vec::new();
        while let Some(row) = rows.try_next().await? {
            if answer.len() >= MAX_ANSWER_ROWS {
                break;
            }
            answer.push(values(&row)?);
        }
        Ok(answer)
    }

    async fn insert(
        &mut self,
        rows: &[Row],
        first: u32,
        insert: &Insert,
        patience: &mut Patience,
        sent: impl FnOnce() + Send,
    ) -> Result<Inserted, SqlError> {
        let slots: Vec<Slot> = insert
            .columns
            .iter()
            .map(|column| column.source.slot(rows, first))
            .collect();
        let shape = Shape::new(insert, &slots);
        let most = shape.max_rows();
        let mut sent = Some(sent);

        // One statement is its own transaction: the usual case, without BEGIN and COMMIT.
        if rows.len() <= most && !self.contended {
            sent.take().into_iter().for_each(|sent| sent());
            match self.statement(rows, first, insert, &slots, &shape).await {
                Ok(done) => {
                    return Ok(Inserted {
                        first_id: first_id(&done, rows.len()),
                    });
                }
                // Nothing was done: the lock is waited for below.
                Err(error) if error.primary == BUSY => {}
                Err(error) => {
                    let stage = after_commit(&error);
                    return Err(error.at(stage));
                }
            }
        }

        let begun = self.execute("BEGIN IMMEDIATE").await;
        self.contended = begun.is_err();
        if patience.again(begun).await?.is_none() {
            self.execute_patiently("BEGIN IMMEDIATE", patience).await?;
        }
        let mut first_of_all = None;
        let mut number = first;
        for chunk in rows.chunks(most) {
            match self.statement(chunk, number, insert, &slots, &shape).await {
                Ok(done) if number == first => first_of_all = first_id(&done, chunk.len()),
                Ok(_) => {}
                Err(error) => {
                    self.roll_back().await;
                    return Err(error);
                }
            }
            number = number.saturating_add(u32::try_from(chunk.len()).unwrap_or(u32::MAX));
        }
        sent.take().into_iter().for_each(|sent| sent());
        // Where there is no write-ahead log, a commit waits for readers.
        match self.execute_patiently("COMMIT", patience).await {
            Ok(()) => Ok(Inserted {
                first_id: first_of_all,
            }),
            Err(error) => {
                self.roll_back().await;
                let stage = after_commit(&error);
                Err(error.at(stage))
            }
        }
    }

    /// The same as [`Self::execute`], again while the lock is another's.
    async fn execute_patiently(
        &mut self,
        text: &str,
        patience: &mut Patience,
    ) -> Result<(), SqlError> {
        loop {
            let result = self.execute(text).await;
            if patience.again(result).await?.is_some() {
                return Ok(());
            }
        }
    }

    async fn statement(
        &mut self,
        rows: &[Row],
        first: u32,
        insert: &Insert,
        slots: &[Slot],
        shape: &Shape,
    ) -> Result<SqliteQueryResult, SqlError> {
        let statement = self.statements.get(shape, rows.len());
        let bound = bind::arguments(rows, first, insert, slots, statement.many)?;
        sqlx::query_with(statement.text, bound)
            .persistent(true)
            .execute(&mut self.connection)
            .await
            .map_err(SqlError::from)
    }

    async fn execute(&mut self, text: &str) -> Result<(), SqlError> {
        sqlx::raw_sql(AssertSqlSafe(text.to_owned()))
            .execute(&mut self.connection)
            .await?;
        Ok(())
    }

    /// After some errors SQLite has rolled back by itself, and says so with another error.
    async fn roll_back(&mut self) {
        let _ = self.execute("ROLLBACK").await;
    }
}

/// The id of the first of `rows` rows that one statement inserted: SQLite numbers them one after the
/// other, and no other writer can come between.
fn first_id(done: &SqliteQueryResult, rows: usize) -> Option<i64> {
    let rows = i64::try_from(rows).ok()?;
    if u64::try_from(rows).ok()? != done.rows_affected() {
        return None;
    }
    done.last_insert_rowid().checked_sub(rows - 1)
}

fn values(row: &SqliteRow) -> Result<Vec<Value>, SqlError> {
    (0..row.len())
        .map(|place| value(row, place).map_err(|error| SqlError::connection(error.to_string())))
        .collect()
}

fn value(row: &SqliteRow, place: usize) -> Result<Value, sqlx::error::BoxDynError> {
    use sqlx::TypeInfo as _;

    let raw = row.try_get_raw(place)?;
    if raw.is_null() {
        return Ok(Value::Null);
    }
    let kind = raw.type_info().name().to_owned();
    Ok(match kind.as_str() {
        "INTEGER" | "BOOLEAN" => Value::Integer(Decode::<sqlx::Sqlite>::decode(raw)?),
        "REAL" => Value::Real(Decode::<sqlx::Sqlite>::decode(raw)?),
        "BLOB" => Value::Blob(Decode::<sqlx::Sqlite>::decode(raw)?),
        _ => Value::Text(Decode::<sqlx::Sqlite>::decode(raw)?),
    })
}
