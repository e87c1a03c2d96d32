//! SQLite through sqlx: WAL, `synchronous = FULL`, the gateway's own default table.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures::TryStreamExt as _;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous,
};
use sqlx::{Arguments as _, AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};

use crate::body::{Bodies, key};
use crate::check::{Checker, ReadBack};

/// Rows of one statement that [`Direct::tune`] tries.
const STATEMENT_ROWS: [usize; 6] = [1, 10, 50, 100, 250, 1_000];
/// Rows that each trial of [`Direct::tune`] inserts.
const TRIAL_ROWS: usize = 10_000;
/// Rows of one transaction, as in the gateway's largest batch.
pub(crate) const TRANSACTION_ROWS: usize = 10_000;
/// Other producers may hold the lock for as long as their commit takes; 50 of them queue up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

/// The columns that the gateway's adapter makes by default.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    queue TEXT NOT NULL,
    message_id TEXT,
    key BLOB,
    headers TEXT,
    body BLOB,
    created_at_ms INTEGER NOT NULL
)";

/// One connection that inserts into one queue.
#[derive(Debug)]
pub(crate) struct Direct {
    connection: SqliteConnection,
    queue: String,
    statement_rows: usize,
    /// The statement of `statement_rows` rows.
    full: String,
}

impl Direct {
    /// Opens the file, and makes it and the table if they are not there.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or written.
    pub(crate) async fn open(path: &Path, queue: &str) -> Result<Self> {
        let mut connection = options(path)
            .create_if_missing(true)
            .connect()
            .await
            .with_context(|| format!("cannot open the database {}", path.display()))?;
        sqlx::raw_sql(CREATE).execute(&mut connection).await?;
        Ok(Self {
            connection,
            queue: queue.to_owned(),
            statement_rows: 1,
            full: statement(1),
        })
    }

    /// Another queue from here on.
    pub(crate) fn set_queue(&mut self, queue: &str) {
        queue.clone_into(&mut self.queue);
    }

    /// Tries several numbers of rows a statement and keeps the fastest, which it returns.
    ///
    /// # Errors
    ///
    /// The database refused an insert.
    pub(crate) async fn tune(&mut self, bodies: Bodies) -> Result<usize> {
        let bodies = bodies.range(0, TRIAL_ROWS);
        let queue = std::mem::replace(&mut self.queue, "tune".to_owned());
        let mut best = (Duration::MAX, 1);
        for rows in STATEMENT_ROWS {
            self.set_statement_rows(rows);
            // The first one prepares the statement.
            self.insert_all(0, bodies.get(..rows).unwrap_or_default())
                .await?;
            let start = Instant::now();
            self.insert_all(0, &bodies).await?;
            best = best.min((start.elapsed(), rows));
        }
        self.queue = queue;
        self.set_statement_rows(best.1);
        Ok(best.1)
    }

    /// Rows of one statement.
    pub(crate) fn set_statement_rows(&mut self, rows: usize) {
        self.statement_rows = rows.max(1);
        self.full = statement(self.statement_rows);
    }

    /// One message in a transaction of its own.
    ///
    /// # Errors
    ///
    /// The database refused it.
    pub(crate) async fn insert_one(&mut self, sequence: u64, body: &Bytes) -> Result<()> {
        insert(
            &mut self.connection,
            statement(1),
            &self.queue,
            sequence,
            std::slice::from_ref(body),
        )
        .await
    }

    /// Messages in transactions of at most [`TRANSACTION_ROWS`]; the first has sequence number `first`.
    ///
    /// # Errors
    ///
    /// The database refused one; transactions before it are committed.
    pub(crate) async fn insert_all(&mut self, first: u64, bodies: &[Bytes]) -> Result<()> {
        let mut sequence = first;
        for bodies in bodies.chunks(TRANSACTION_ROWS) {
            let mut transaction = self.connection.begin_with("BEGIN IMMEDIATE").await?;
            for rows in bodies.chunks(self.statement_rows) {
                let text = if rows.len() == self.statement_rows {
                    self.full.clone()
                } else {
                    statement(rows.len())
                };
                insert(&mut transaction, text, &self.queue, sequence, rows).await?;
                sequence += rows.len() as u64;
            }
            transaction.commit().await?;
        }
        Ok(())
    }

    /// Closes the connection.
    ///
    /// # Errors
    ///
    /// The database did not close cleanly.
    pub(crate) async fn close(self) -> Result<()> {
        Ok(self.connection.close().await?)
    }
}

/// Reads a queue in the order of the store.
///
/// # Errors
///
/// The file or the table is not there, or cannot be read.
pub(crate) async fn read_back(
    path: &Path,
    queue: &str,
    bodies: Bodies,
    published: u64,
    confirmed: impl Fn(u64) -> bool,
) -> Result<ReadBack> {
    let mut connection = options(path)
        .connect()
        .await
        .with_context(|| format!("cannot open the database {} to read back", path.display()))?;
    let mut checker = Checker::new(bodies, published);
    {
        let mut rows = sqlx::query("SELECT key, body FROM messages WHERE queue = ? ORDER BY id")
            .bind(queue)
            .fetch(&mut connection);
        while let Some(row) = rows.try_next().await? {
            let key: Option<&[u8]> = row.try_get(0)?;
            let body: Option<&[u8]> = row.try_get(1)?;
            checker.message(key, body.unwrap_or_default());
        }
    }
    connection.close().await?;
    Ok(checker.finish(confirmed))
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging()
}

/// `?1` is the queue and `?2` the time; a row has two parameters of its own.
fn statement(rows: usize) -> String {
    let mut text = String::from("INSERT INTO messages (queue, created_at_ms, key, body) VALUES ");
    for row in 0..rows {
        let comma = if row == 0 { "" } else { "," };
        let place = 3 + row * 2;
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}(?1,?2,?{place},?{})", place + 1);
    }
    text
}

async fn insert(
    connection: &mut SqliteConnection,
    text: String,
    queue: &str,
    first: u64,
    bodies: &[Bytes],
) -> Result<()> {
    let now_ms = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| {
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        });
    let mut arguments = SqliteArguments::default();
    let full = "a statement takes at most 32,766 parameters";
    arguments
        .add(queue)
        .map_err(anyhow::Error::from_boxed)
        .context(full)?;
    arguments
        .add(now_ms)
        .map_err(anyhow::Error::from_boxed)
        .context(full)?;
    for (sequence, body) in (first..).zip(bodies) {
        arguments
            .add(key(sequence).as_ref())
            .map_err(anyhow::Error::from_boxed)?;
        arguments
            .add(body.as_ref())
            .map_err(anyhow::Error::from_boxed)?;
    }
    sqlx::query_with(AssertSqlSafe(text), arguments)
        .execute(connection)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_inserted_is_read_back_clean_and_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let bodies = Bodies::new(1, 64).unwrap();
        let mut direct = Direct::open(&path, "q").await.unwrap();
        direct.insert_one(0, &bodies.one(0)).await.unwrap();
        direct.set_statement_rows(100);
        direct.insert_all(1, &bodies.range(1, 250)).await.unwrap();
        direct.set_queue("another");
        direct.insert_one(9, &bodies.one(9)).await.unwrap();

        let found = read_back(&path, "q", bodies, 251, |_| true).await.unwrap();
        assert_eq!(found.read_back, 251);
        assert!(found.is_clean(), "{found:?}");
        let other = read_back(&path, "another", bodies, 10, |s| s == 9)
            .await
            .unwrap();
        assert_eq!((other.read_back, other.missing), (1, 0));
        direct.close().await.unwrap();
    }

    #[tokio::test]
    async fn a_row_that_was_deleted_behind_our_back_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let bodies = Bodies::new(1, 64).unwrap();
        let mut direct = Direct::open(&path, "q").await.unwrap();
        direct.insert_all(0, &bodies.range(0, 5)).await.unwrap();
        sqlx::raw_sql("DELETE FROM messages WHERE id = 3")
            .execute(&mut direct.connection)
            .await
            .unwrap();
        let found = read_back(&path, "q", bodies, 5, |_| true).await.unwrap();
        assert_eq!((found.read_back, found.missing), (4, 1));
    }
}
