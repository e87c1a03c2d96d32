//! SQLite without the gateway: written directly, and read back.
//!
//! Direct runs use the crate, the journal, the durability, the table and the columns that the
//! gateway's driver uses, in a file on the same disk.

use std::path::Path;
use std::time::{Duration, SystemTime};

use futures::TryStreamExt as _;
use sluicegate_client::Message;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous,
};
use sqlx::{Arguments as _, AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};
use sqlx::{Row as _, SqlSafeStr as _, SqlStr};

use crate::body;
use crate::check::{Checker, Found};
use crate::error::Stop;

/// The table that the `sql` adapter makes.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY AUTOINCREMENT, \
     queue TEXT NOT NULL, message_id TEXT, key BLOB, headers TEXT, body BLOB, \
     created_at_ms INTEGER NOT NULL)";

/// One row.
const INSERT: &str = "INSERT INTO messages (queue, created_at_ms, key, body) VALUES (?, ?, ?, ?)";

/// Many: what is the same for all is bound once, and SQLite runs VALUES as a coroutine.
const INSERT_MANY: &str = "INSERT INTO messages (queue, created_at_ms, key, body) \
     SELECT ?, ?, column1, column2 FROM (VALUES ";
const ROW: &str = "(?, ?)";

/// The page and the log before it is folded back, as the driver has them: it found them the fastest.
const PAGE_BYTES: u32 = 16_384;
const LOG_PAGES: u32 = (8 << 20) / PAGE_BYTES;

/// Fifty producers wait for each other: long enough that none gives up.
const BUSY_TIMEOUT: Duration = Duration::from_secs(120);

/// A statement is kept for each number of rows that is tried.
const STATEMENTS: usize = 64;

/// How many rows a statement and a transaction hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grouping {
    pub(crate) statement_rows: usize,
    pub(crate) transaction_rows: usize,
}

impl Grouping {
    /// One operation a message.
    pub(crate) const SINGLE: Self = Self {
        statement_rows: 1,
        transaction_rows: 1,
    };

    /// What is tried for batches of at most `messages`, to take the best.
    pub(crate) fn candidates(messages: usize) -> Vec<Self> {
        let mut candidates = Vec::new();
        for transaction_rows in [2_000, 10_000] {
            for statement_rows in [100, 500, 2_000, 10_000] {
                let transaction_rows = transaction_rows.min(messages);
                let candidate = Self {
                    statement_rows: statement_rows.min(transaction_rows),
                    transaction_rows,
                };
                if !candidates.contains(&candidate) {
                    candidates.push(candidate);
                }
            }
        }
        candidates
    }

    pub(crate) fn describe(self) -> String {
        if self == Self::SINGLE {
            return "WAL, synchronous=FULL, one prepared INSERT a message, autocommit".to_owned();
        }
        format!(
            "WAL, synchronous=FULL, {} rows an INSERT, {} rows a transaction (best of those tried)",
            self.statement_rows, self.transaction_rows
        )
    }
}

/// One connection that writes.
#[derive(Debug)]
pub(crate) struct Writer {
    connection: SqliteConnection,
}

impl Writer {
    pub(crate) async fn open(path: &Path) -> Result<Self, Stop> {
        let mut connection = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .page_size(PAGE_BYTES)
            .pragma("wal_autocheckpoint", LOG_PAGES.to_string())
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            .statement_cache_capacity(STATEMENTS)
            .disable_statement_logging()
            .connect()
            .await?;
        connection.execute(TABLE).await?;
        Ok(Self { connection })
    }

    /// Writes all of them, `grouping` at a time.
    pub(crate) async fn insert(
        &mut self,
        queue: &str,
        messages: &[(Message, [u8; 2])],
        grouping: Grouping,
    ) -> Result<(), Stop> {
        let statement = statement(grouping.statement_rows);
        for rows in messages.chunks(grouping.transaction_rows.max(1)) {
            let alone = rows.len() <= grouping.statement_rows;
            if !alone {
                self.connection.execute("BEGIN IMMEDIATE").await?;
            }
            for part in rows.chunks(grouping.statement_rows.max(1)) {
                let sql = if part.len() == grouping.statement_rows {
                    statement.clone()
                } else {
                    self::statement(part.len())
                };
                let mut arguments = SqliteArguments::default();
                arguments.reserve(2 + 2 * part.len(), 0);
                arguments.add(queue).map_err(sqlx::Error::Encode)?;
                arguments.add(now_ms()).map_err(sqlx::Error::Encode)?;
                for (message, key) in part {
                    arguments.add(&key[..]).map_err(sqlx::Error::Encode)?;
                    let body = message.body().unwrap_or_default();
                    arguments.add(body).map_err(sqlx::Error::Encode)?;
                }
                sqlx::query_with(sql, arguments)
                    .execute(&mut self.connection)
                    .await?;
            }
            if !alone {
                self.connection.execute("COMMIT").await?;
            }
        }
        Ok(())
    }

    /// Of the library.
    pub(crate) async fn version(&mut self) -> Result<String, Stop> {
        let row = self.connection.fetch_one("SELECT sqlite_version()").await?;
        Ok(row.try_get(0)?)
    }

    pub(crate) async fn close(self) -> Result<(), Stop> {
        Ok(self.connection.close().await?)
    }
}

/// A message with the key that a direct insert binds.
pub(crate) fn keyed(first: u64, messages: Vec<Message>) -> Vec<(Message, [u8; 2])> {
    messages
        .into_iter()
        .zip(first..)
        .map(|(message, number)| (message, body::key(number)))
        .collect()
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
}

fn statement(rows: usize) -> SqlStr {
    if rows == 1 {
        return INSERT.into_sql_str();
    }
    let mut sql = String::with_capacity(INSERT_MANY.len() + rows * (ROW.len() + 1) + 1);
    sql.push_str(INSERT_MANY);
    for row in 0..rows {
        if row > 0 {
            sql.push(',');
        }
        sql.push_str(ROW);
    }
    sql.push(')');
    // Made of constants alone.
    AssertSqlSafe(sql).into_sql_str()
}

/// Reads a queue's rows, in the order of their ids.
pub(crate) async fn read_back(
    path: &Path,
    queue: &str,
    mut checker: Checker,
) -> Result<Found, Stop> {
    let mut connection = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .busy_timeout(BUSY_TIMEOUT)
        .connect()
        .await
        .map_err(|error| {
            Stop::Unreachable(format!("cannot read back from {}: {error}", path.display()))
        })?;
    {
        let mut rows = sqlx::query("SELECT key, body FROM messages WHERE queue = ? ORDER BY id")
            .bind(queue)
            .fetch(&mut connection);
        while let Some(row) = rows.try_next().await? {
            let key: Option<&[u8]> = row.try_get(0)?;
            let body: Option<&[u8]> = row.try_get(1)?;
            checker.row(key, body.unwrap_or_default());
        }
    }
    connection.close().await?;
    Ok(checker.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Numbers;

    #[tokio::test]
    async fn what_was_written_in_any_grouping_is_read_back_clean() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let mut writer = Writer::open(&path).await.unwrap();
        let messages = keyed(0, body::messages(9, 0, 105, 60));
        let groupings = [
            Grouping::SINGLE,
            Grouping {
                statement_rows: 10,
                transaction_rows: 50,
            },
            Grouping {
                statement_rows: 105,
                transaction_rows: 105,
            },
        ];
        for (index, grouping) in groupings.into_iter().enumerate() {
            let queue = format!("q{index}");
            writer.insert(&queue, &messages, grouping).await.unwrap();
            let checker = Checker::new(9, 60, 105, Numbers::first(105));
            let found = read_back(&path, &queue, checker).await.unwrap();
            assert!(found.is_clean(), "{grouping:?}: {found:?}");
            assert_eq!(found.read_back, 105);
        }
        writer.close().await.unwrap();
    }

    #[test]
    fn small_scopes_try_no_grouping_twice() {
        let candidates = Grouping::candidates(10);
        assert_eq!(candidates.len(), 1);
        assert!(Grouping::candidates(10_000).len() > 4);
    }
}
