//! How fast SQLite takes rows through sqlx, by shape and size of the statement: the figures behind the
//! constants of `sqlite::statement` and `sqlite::options`.
//!
//! ```sh
//! cargo run --release -p sluicegate-driver-sql --example insert_rate [DIRECTORY]
//! ```
//!
//! 96,000 rows of 256 bytes a line, the best of three runs; the last lines are single rows.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sluicegate_core::{Message, Origin, Row, Time};
use sluicegate_driver_sql::sqlite::Database;
use sluicegate_driver_sql::{Column, Insert, Settings, Source, Synchronous, Value};
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous,
};
use sqlx::{Arguments, AssertSqlSafe, ConnectOptions, Connection, Executor, SqlSafeStr};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A multiple of every size below, since only the shape with LIMIT leaves room unused.
const ROWS: usize = 96_000;
const BODY_BYTES: usize = 256;
const RUNS: usize = 3;
/// How long single rows are counted.
const SINGLES_FOR: Duration = Duration::from_secs(2);

const TABLE: &str = "CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, \
     message_id TEXT, key BLOB, headers TEXT, body BLOB, created_at_ms INTEGER NOT NULL)";

/// A way to write many rows in one statement.
#[derive(Clone, Copy)]
enum Shape {
    /// `VALUES ('q', NULL, NULL, NULL, ?, ?), …`
    Values,
    /// Constants bound once, cut by LIMIT: what the driver does.
    Limit,
    /// One blob of all bodies, cut up by positions in a JSON array.
    Json,
}

impl Shape {
    fn text(self, rows: usize) -> String {
        let mut text = String::new();
        let into = "INSERT INTO messages (queue, message_id, key, headers, body, created_at_ms)";
        match self {
            Self::Values => {
                let _ = write!(text, "{into} VALUES ('q', NULL, NULL, NULL, ?, ?)");
                text.extend(std::iter::repeat_n(
                    ",('q', NULL, NULL, NULL, ?, ?)",
                    rows - 1,
                ));
            }
            Self::Limit => {
                let _ = write!(
                    text,
                    "WITH k(n, t) AS (SELECT ?, ?) {into} SELECT 'q', NULL, NULL, NULL, column1, \
                     (SELECT t FROM k) FROM (VALUES (?)"
                );
                text.extend(std::iter::repeat_n(",(?)", rows - 1));
                text.push_str(") LIMIT (SELECT n FROM k)");
            }
            Self::Json => {
                let _ = write!(
                    text,
                    "{into} SELECT 'q', NULL, NULL, NULL, substr(?1, value >> 32, value & 4294967295), ?3 \
                     FROM json_each(?2)"
                );
            }
        }
        text
    }

    fn bind(self, bodies: &[Bytes]) -> Result<SqliteArguments, Error> {
        let mut bound = SqliteArguments::default();
        let now = 1_700_000_000_000_i64;
        match self {
            Self::Values => {
                for body in bodies {
                    bound.add(&body[..])?;
                    bound.add(now)?;
                }
            }
            Self::Limit => {
                bound.add(i64::try_from(bodies.len())?)?;
                bound.add(now)?;
                for body in bodies {
                    bound.add(&body[..])?;
                }
            }
            Self::Json => {
                let mut all = Vec::new();
                let mut places = String::from("[");
                for body in bodies {
                    if !all.is_empty() {
                        places.push(',');
                    }
                    let _ = write!(places, "{}", ((all.len() + 1) << 32) | body.len());
                    all.extend_from_slice(body);
                }
                places.push(']');
                bound.add(all)?;
                bound.add(places)?;
                bound.add(now)?;
            }
        }
        Ok(bound)
    }
}

async fn open(path: &Path, page_bytes: u32) -> Result<SqliteConnection, Error> {
    let mut connection = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .page_size(page_bytes)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .pragma("wal_autocheckpoint", ((8 << 20) / page_bytes).to_string())
        .connect()
        .await?;
    connection.execute(TABLE).await?;
    Ok(connection)
}

/// Rows a second, in transactions of `batch` rows and statements of `chunk`.
async fn rate(
    directory: &Path,
    shape: Shape,
    page_bytes: u32,
    chunk: usize,
    batch: usize,
    bodies: &[Bytes],
) -> Result<f64, Error> {
    let mut best = 0.0_f64;
    for _ in 0..RUNS {
        let directory = tempfile::tempdir_in(directory)?;
        let mut connection = open(&directory.path().join("rate.db"), page_bytes).await?;
        let text = AssertSqlSafe(shape.text(chunk)).into_sql_str();
        connection.prepare(text.clone()).await?;
        let start = Instant::now();
        for rows in bodies.chunks(batch) {
            let whole = rows.len() <= chunk;
            if !whole {
                connection.execute("BEGIN IMMEDIATE").await?;
            }
            for part in rows.chunks(chunk) {
                sqlx::query_with(text.clone(), shape.bind(part)?)
                    .execute(&mut connection)
                    .await?;
            }
            if !whole {
                connection.execute("COMMIT").await?;
            }
        }
        best = best.max(bodies.len() as f64 / start.elapsed().as_secs_f64());
        connection.close().await?;
    }
    Ok(best)
}

fn insert() -> Insert {
    let column = |name: &str, source| Column {
        name: name.to_owned(),
        source,
    };
    Insert {
        table: vec!["messages".to_owned()],
        columns: vec![
            column("queue", Source::Constant(Value::Text("q".to_owned()))),
            column("message_id", Source::Id),
            column("key", Source::Key),
            column("body", Source::Body),
            column("created_at_ms", Source::Constant(Value::Integer(1))),
        ],
    }
}

/// Rows a second through the driver itself.
async fn driver_rate(
    directory: &Path,
    synchronous: Synchronous,
    batch: usize,
    rows: &[Row],
) -> Result<f64, Error> {
    let mut best = 0.0_f64;
    let insert = insert();
    for _ in 0..RUNS {
        let directory = tempfile::tempdir_in(directory)?;
        let mut database = Database::new(Settings {
            path: directory.path().join("rate.db"),
            synchronous,
            ..Settings::default()
        });
        database.query(TABLE.to_owned(), vec![]).await?;
        database
            .insert(rows.get(..batch).unwrap_or(rows), 0, &insert, None, || ())
            .await?;
        let start = Instant::now();
        let mut count = 0;
        for rows in rows.chunks(batch) {
            database.insert(rows, 0, &insert, None, || ()).await?;
            count += rows.len();
            if start.elapsed() > SINGLES_FOR {
                break;
            }
        }
        best = best.max(f64::from(u32::try_from(count)?) / start.elapsed().as_secs_f64());
        database.close().await;
    }
    Ok(best)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let directory = std::env::args()
        .nth(1)
        .map_or_else(std::env::temp_dir, Into::into);
    let bodies = vec![Bytes::from(vec![7_u8; BODY_BYTES]); ROWS];
    let rows: Vec<Row> = bodies
        .iter()
        .map(|body| Row {
            message: Message::new(body.clone()),
            origin: Origin::default(),
            accepted_at: Time::ZERO,
            attempts: 0,
        })
        .collect();

    println!("statement           page   rows a statement   rows a transaction      rows/s");
    for (name, shape, page_bytes, chunk, batch) in [
        ("values", Shape::Values, 4_096, 50, 8_000),
        ("values", Shape::Values, 4_096, 100, 8_000),
        ("values", Shape::Values, 4_096, 250, 8_000),
        ("values", Shape::Values, 4_096, 500, 8_000),
        ("values", Shape::Values, 4_096, 1_000, 8_000),
        ("values", Shape::Values, 4_096, 8_000, 8_000),
        ("limit", Shape::Limit, 4_096, 1_000, 8_000),
        ("limit", Shape::Limit, 4_096, 8_000, 8_000),
        ("json", Shape::Json, 4_096, 8_000, 8_000),
        ("values", Shape::Values, 16_384, 1_000, 8_000),
        ("limit", Shape::Limit, 8_192, 8_000, 8_000),
        ("limit", Shape::Limit, 16_384, 1_000, 1_000),
        ("limit", Shape::Limit, 16_384, 8_000, 8_000),
        ("limit", Shape::Limit, 32_768, 8_000, 8_000),
        ("limit", Shape::Limit, 65_536, 8_000, 8_000),
        ("json", Shape::Json, 16_384, 8_000, 8_000),
    ] {
        let rate = rate(&directory, shape, page_bytes, chunk, batch, &bodies).await?;
        println!("{name:16} {page_bytes:>7} {chunk:>18} {batch:>20} {rate:>11.0}");
    }
    for batch in [8_000, 4_000, 1_000, 100, 50, 10, 1] {
        let rate = driver_rate(&directory, Synchronous::Full, batch, &rows).await?;
        println!("the driver        16384 {batch:>18} {batch:>20} {rate:>11.0}");
    }
    let rate = driver_rate(&directory, Synchronous::Normal, 1, &rows).await?;
    println!("the driver, synchronous = normal      1                    1 {rate:>11.0}");
    Ok(())
}
