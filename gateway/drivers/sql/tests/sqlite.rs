//! The SQLite half of the driver, on real files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use sluicegate_core::{Extra, Message, Origin, Row, Time};
use sluicegate_driver_sql::sqlite::{Database, PAGE_BYTES};
use sluicegate_driver_sql::{
    Column, Insert, Settings, Source, SparseTexts, SqlError, Stage, Synchronous, Value,
};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row as _};
use tokio::time::Instant;

const TABLE: &str = "CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, \
     message_id TEXT, key BLOB, headers TEXT, body BLOB)";

fn settings(path: &Path) -> Settings {
    Settings {
        path: path.to_owned(),
        busy_timeout: Duration::from_millis(20),
        synchronous: Synchronous::Full,
        create: true,
    }
}

async fn database(path: &Path) -> Database {
    let mut database = Database::new(settings(path));
    database.query(TABLE.to_owned(), vec![]).await.unwrap();
    database
}

fn row(message: Message) -> Row {
    Row {
        message,
        origin: Origin::default(),
        accepted_at: Time::ZERO,
        attempts: 0,
    }
}

fn rows(count: usize) -> Vec<Row> {
    (0..count)
        .map(|n| row(Message::new(format!("body {n}"))))
        .collect()
}

fn column(name: &str, source: Source) -> Column {
    Column {
        name: name.to_owned(),
        source,
    }
}

fn insert() -> Insert {
    Insert {
        table: vec!["messages".to_owned()],
        columns: vec![
            column("queue", Source::Constant(Value::Text("orders".to_owned()))),
            column("message_id", Source::Id),
            column("key", Source::Key),
            column("headers", Source::Texts(SparseTexts::default())),
            column("body", Source::Body),
        ],
    }
}

async fn reader(path: &Path) -> sqlx::SqliteConnection {
    sqlx::sqlite::SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(Duration::ZERO)
        .connect()
        .await
        .unwrap()
}

/// Ids and bodies in the table, by id, as another process would read them.
async fn stored(path: &Path) -> Vec<(i64, String)> {
    let mut reader = reader(path).await;
    reader
        .fetch_all("SELECT id, CAST(body AS TEXT) FROM messages ORDER BY id")
        .await
        .unwrap()
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect()
}

fn expected(first_id: i64, count: usize) -> Vec<(i64, String)> {
    (first_id..)
        .zip((0..count).map(|n| format!("body {n}")))
        .collect()
}

async fn fails(database: &mut Database) -> SqlError {
    database
        .insert(&rows(3), 0, &insert(), None, || ())
        .await
        .unwrap_err()
}

#[tokio::test]
async fn any_number_of_rows_is_stored_once_each_in_order_under_consecutive_ids() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut database = database(&path).await;
    let mut next_id = 1;
    // Around each size of a statement, and more than one statement can take.
    for count in [1, 2, 7, 8, 9, 64, 65, 600, 7_999, 8_000, 8_001, 20_000] {
        let mut sent = 0;
        let inserted = database
            .insert(&rows(count), 0, &insert(), None, || sent += 1)
            .await
            .unwrap();
        assert_eq!(inserted.first_id, Some(next_id), "{count} rows");
        assert_eq!(sent, 1);
        let all = stored(&path).await;
        let from = all.len() - count;
        assert_eq!(all[from..], expected(next_id, count)[..], "{count} rows");
        assert_eq!(all.len() as i64, next_id - 1 + count as i64);
        next_id += count as i64;
    }
}

#[tokio::test]
async fn keys_ids_headers_and_null_bodies_arrive_with_their_own_rows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut database = database(&path).await;

    let mut batch = rows(5);
    batch[1].message.key = Some("k".into());
    batch[2].message.body = None;
    batch[3].message.body = Some(bytes::Bytes::new());
    batch[3].message.key = Some(bytes::Bytes::new());
    batch[4].message.extra = Some(Box::new(Extra {
        id: Some("id-4".to_owned()),
        ..Extra::default()
    }));
    // The rows are 10 to 14 of their batch.
    let mut insert = insert();
    insert.columns[3].source = Source::Texts(SparseTexts {
        rows: vec![2, 11, 14, 20],
        values: ["no", "eleven", "fourteen", "no"].map(str::to_owned).into(),
    });
    database
        .insert(&batch, 10, &insert, None, || ())
        .await
        .unwrap();
    // One row alone takes the other shape of statement.
    database
        .insert(&batch[4..], 14, &insert, None, || ())
        .await
        .unwrap();

    let mut reader = reader(&path).await;
    let rows = reader
        .fetch_all("SELECT queue, message_id, key, headers, body FROM messages ORDER BY id")
        .await
        .unwrap();
    type Stored = (
        String,
        Option<String>,
        Option<Vec<u8>>,
        Option<String>,
        Option<Vec<u8>>,
    );
    let rows: Vec<Stored> = rows
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4)))
        .collect();
    let stored =
        |id: Option<&str>, key: Option<&str>, headers: Option<&str>, body: Option<&str>| {
            (
                "orders".to_owned(),
                id.map(str::to_owned),
                key.map(|key| key.as_bytes().to_vec()),
                headers.map(str::to_owned),
                body.map(|body| body.as_bytes().to_vec()),
            )
        };
    let last = stored(Some("id-4"), None, Some("fourteen"), Some("body 4"));
    assert_eq!(
        rows,
        [
            stored(None, None, None, Some("body 0")),
            stored(None, Some("k"), Some("eleven"), Some("body 1")),
            stored(None, None, None, None),
            stored(None, Some(""), None, Some("")),
            last.clone(),
            last,
        ]
    );
}

#[tokio::test]
async fn names_and_constants_are_taken_literally_whatever_is_in_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut database = Database::new(settings(&path));
    let evil = r#"m"; DROP TABLE other; --"#;
    database
        .query("CREATE TABLE other (x)".into(), vec![])
        .await
        .unwrap();
    database
        .query(
            format!(r#"CREATE TABLE "{}" (q, b)"#, evil.replace('"', "\"\"")),
            vec![],
        )
        .await
        .unwrap();
    let insert = Insert {
        table: vec![evil.to_owned()],
        columns: vec![
            column("q", Source::Constant(Value::Text("'); --".to_owned()))),
            column("b", Source::Body),
        ],
    };
    for count in [1, 5] {
        database
            .insert(&rows(count), 0, &insert, None, || ())
            .await
            .unwrap();
    }
    let answer = database
        .query(
            "SELECT count(*), (SELECT count(*) FROM other) FROM sqlite_master".into(),
            vec![],
        )
        .await
        .unwrap();
    assert_eq!(answer, [[Value::Integer(2), Value::Integer(0)]]);
}

#[tokio::test]
async fn answers_keep_the_types_of_their_values() {
    let directory = tempfile::tempdir().unwrap();
    let mut database = Database::new(settings(&directory.path().join("store.db")));
    let sent = vec![
        Value::Null,
        Value::Integer(-7),
        Value::Real(0.5),
        Value::Text("é".to_owned()),
        Value::Blob(vec![0, 255]),
    ];
    let answer = database
        .query("SELECT ?, ?, ?, ?, ?".into(), sent.clone())
        .await
        .unwrap();
    assert_eq!(answer, [sent]);
    let pragma = database
        .query("PRAGMA page_size".into(), vec![])
        .await
        .unwrap();
    assert_eq!(pragma, [[Value::Integer(i64::from(PAGE_BYTES))]]);
    let endless = database
        .query(
            "WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n LIMIT 5000) SELECT v FROM n"
                .into(),
            vec![],
        )
        .await
        .unwrap();
    assert_eq!(endless.len(), 1_000);
}

#[tokio::test]
async fn a_database_locked_by_another_writer_stores_nothing_and_serves_again_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut database = database(&path).await;
    let mut other = reader(&path).await;
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    for count in [1, 3, 10_000] {
        let error = database
            .insert(&rows(count), 0, &insert(), None, || ())
            .await
            .unwrap_err();
        assert_eq!((error.primary, error.stage), (5, Stage::NotStored));
    }
    other.execute("ROLLBACK").await.unwrap();
    database
        .insert(&rows(3), 0, &insert(), None, || ())
        .await
        .unwrap();
    assert_eq!(stored(&path).await, expected(1, 3));
}

#[tokio::test]
async fn a_lock_is_not_waited_for_beyond_a_deadline_and_afterwards_it_is_asked_for_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut database = Database::new(Settings {
        // Longer than any test may take.
        busy_timeout: Duration::from_secs(3_600),
        ..settings(&path)
    });
    database.query(TABLE.to_owned(), vec![]).await.unwrap();
    let mut other = reader(&path).await;
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    // The first try finds the lock taken; from then on nothing counts as sent before the lock is there.
    for expected in [1, 0, 0] {
        let deadline = Some(Instant::now());
        let mut sent = 0;
        let error = database
            .insert(&rows(3), 0, &insert(), deadline, || sent += 1)
            .await
            .unwrap_err();
        assert_eq!((error.primary, error.stage), (5, Stage::NotStored));
        assert_eq!(sent, expected);
    }
    // A lock that goes away is taken.
    let (many, insert) = (rows(3), insert());
    let mut waiting = Box::pin(database.insert(&many, 0, &insert, None, || ()));
    assert!(futures::poll!(&mut waiting).is_pending());
    other.execute("ROLLBACK").await.unwrap();
    waiting.await.unwrap();
    assert_eq!(stored(&path).await, expected(1, 3));
}

#[tokio::test]
async fn a_poison_row_keeps_its_whole_transaction_out() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut database = database(&path).await;
    database
        .query(
            "CREATE TRIGGER poison BEFORE INSERT ON messages WHEN NEW.body = X'706f69736f6e' \
             BEGIN SELECT RAISE(ABORT, 'poison'); END"
                .into(),
            vec![],
        )
        .await
        .unwrap();
    for (count, place) in [(1, 0), (100, 50), (20_000, 19_999)] {
        let mut rows = rows(count);
        rows[place].message.body = Some("poison".into());
        let error = database
            .insert(&rows, 0, &insert(), None, || ())
            .await
            .unwrap_err();
        assert_eq!((error.primary, error.stage), (19, Stage::NotStored));
        assert_eq!(stored(&path).await, []);
    }
    // Nothing is left open.
    database
        .insert(&rows(3), 0, &insert(), None, || ())
        .await
        .unwrap();
    assert_eq!(stored(&path).await.len(), 3);
}

#[tokio::test]
async fn a_full_disk_stores_nothing_of_the_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut database = database(&path).await;
    // The same code as for a disk without room: the file may not grow.
    database
        .query("PRAGMA max_page_count = 5".into(), vec![])
        .await
        .unwrap();
    let mut big = rows(3);
    for row in &mut big {
        row.message.body = Some(vec![7; 100_000].into());
    }
    let error = database
        .insert(&big, 0, &insert(), None, || ())
        .await
        .unwrap_err();
    assert_eq!((error.primary, error.stage), (13, Stage::NotStored));
    assert_eq!(stored(&path).await, []);
    database
        .query("PRAGMA max_page_count = 1000".into(), vec![])
        .await
        .unwrap();
    database
        .insert(&big, 0, &insert(), None, || ())
        .await
        .unwrap();
    assert_eq!(stored(&path).await.len(), 3);
}

#[tokio::test]
async fn a_database_that_may_only_be_read_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    database(&path).await.close().await;
    // A file whose write version is newer than the library's is read-only for everyone, root included
    // (byte 18 of the header; byte 19 is the read version).
    let mut file = std::fs::read(&path).unwrap();
    file[18] = 3;
    std::fs::write(&path, file).unwrap();
    let mut database = Database::new(settings(&path));
    let error = fails(&mut database).await;
    assert_eq!((error.primary, error.stage), (8, Stage::NotStored));
}

#[tokio::test]
async fn a_file_that_is_no_database_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    std::fs::write(
        &path,
        "just some text, and a good deal more of it ".repeat(100),
    )
    .unwrap();
    let error = fails(&mut Database::new(settings(&path))).await;
    assert_eq!((error.primary, error.stage), (26, Stage::NotStored));
}

#[tokio::test]
async fn a_corrupt_database_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut whole = database(&path).await;
    whole
        .insert(&rows(500), 0, &insert(), None, || ())
        .await
        .unwrap();
    whole.close().await;
    // All but the first page, which holds the schema, is overwritten.
    let mut file = std::fs::read(&path).unwrap();
    file[PAGE_BYTES as usize..].fill(0xaa);
    std::fs::write(&path, file).unwrap();
    let error = fails(&mut Database::new(settings(&path))).await;
    assert_eq!((error.primary, error.stage), (11, Stage::NotStored));
}

#[tokio::test]
async fn rows_never_go_into_a_file_that_was_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut database = database(&path).await;
    database
        .insert(&rows(3), 0, &insert(), None, || ())
        .await
        .unwrap();

    std::fs::remove_file(&path).unwrap();
    let error = fails(&mut database).await;
    assert_eq!(
        (error.code.as_str(), error.stage),
        ("1032", Stage::NotStored)
    );
    assert!(error.message.contains("store.db"), "{error}");
    assert!(!path.exists());

    // Closed and opened anew, it is a new file.
    database.close().await;
    database.query(TABLE.to_owned(), vec![]).await.unwrap();
    database
        .insert(&rows(2), 0, &insert(), None, || ())
        .await
        .unwrap();
    assert_eq!(stored(&path).await, expected(1, 2));
}

#[tokio::test]
async fn a_file_deleted_during_the_transaction_is_never_taken_for_a_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut database = database(&path).await;
    for count in [1, 3, 10_000] {
        // `sent` is called after the check and before the commit.
        let error = database
            .insert(&rows(count), 0, &insert(), None, || {
                std::fs::remove_file(&path).unwrap();
            })
            .await
            .unwrap_err();
        assert_eq!(
            (error.code.as_str(), error.stage),
            ("1032", Stage::Committing)
        );
        database.close().await;
        database.query(TABLE.to_owned(), vec![]).await.unwrap();
    }
}

#[tokio::test]
async fn a_file_cut_short_or_overwritten_while_open_is_never_taken_for_a_store() {
    for damage in ["cut", "emptied", "overwritten"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store.db");
        let mut database = database(&path).await;
        for _ in 0..2 {
            database
                .insert(&rows(3_000), 0, &insert(), None, || ())
                .await
                .unwrap();
        }
        // As much as there is, in the file.
        reader(&path)
            .await
            .execute("PRAGMA wal_checkpoint(TRUNCATE)")
            .await
            .unwrap();
        database
            .insert(&rows(1), 0, &insert(), None, || ())
            .await
            .unwrap();
        let damaged = || match damage {
            "cut" => {
                let file = std::fs::File::options().write(true).open(&path).unwrap();
                file.set_len(u64::from(PAGE_BYTES) * 2).unwrap();
            }
            "emptied" => std::fs::write(&path, "").unwrap(),
            _ => std::fs::write(&path, "something else").unwrap(),
        };
        // During the transaction, and before the next one.
        let error = database
            .insert(&rows(3), 0, &insert(), None, damaged)
            .await
            .unwrap_err();
        assert_eq!((error.primary, error.stage), (11, Stage::Committing));
        let error = fails(&mut database).await;
        assert_eq!((error.primary, error.stage), (11, Stage::NotStored));
        for says in ["store.db", "PRAGMA integrity_check"] {
            assert!(error.message.contains(says), "{error}");
        }
    }
}

#[tokio::test]
async fn a_file_that_an_operator_vacuumed_is_smaller_and_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut database = database(&path).await;
    database
        .insert(&rows(8_000), 0, &insert(), None, || ())
        .await
        .unwrap();
    let mut operator = reader(&path).await;
    for text in ["PRAGMA wal_checkpoint(TRUNCATE)", "DELETE FROM messages"] {
        operator.execute(text).await.unwrap();
    }
    database
        .insert(&rows(1), 0, &insert(), None, || ())
        .await
        .unwrap();
    let before = std::fs::metadata(&path).unwrap().len();
    for text in ["VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"] {
        operator.execute(text).await.unwrap();
    }
    assert!(std::fs::metadata(&path).unwrap().len() < before);
    for count in [1, 3, 10_000] {
        database
            .insert(&rows(count), 0, &insert(), None, || ())
            .await
            .unwrap();
    }
    assert_eq!(stored(&path).await.len(), 10_005);
}

#[tokio::test]
async fn a_path_that_cannot_be_opened_is_named_with_what_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("file"), "").unwrap();
    std::os::unix::fs::symlink(at("missing/link.db"), at("link.db")).unwrap();
    for (path, create, says) in [
        (at("missing/store.db"), true, "missing of the database"),
        (at("file/store.db"), true, "is not a directory"),
        (at(""), true, "is a directory"),
        (at("store.db"), false, "`create` is false"),
        (PathBuf::from("/dev/null"), true, "is no regular file"),
        // What cannot be seen at the path itself.
        (at("link.db"), true, directory.path().to_str().unwrap()),
    ] {
        let error = fails(&mut Database::new(Settings {
            create,
            ..settings(&path)
        }))
        .await;
        assert_eq!((error.primary, error.stage), (14, Stage::NotStored));
        assert!(error.message.contains(says), "{error}");
    }
}

#[tokio::test]
async fn an_insert_that_nobody_waited_for_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut database = database(&path).await;
    {
        let many = rows(20_000);
        let insert = insert();
        let mut lost = Box::pin(database.insert(&many, 0, &insert, None, || ()));
        // Far enough for BEGIN to be on its way.
        let _ = futures::poll!(&mut lost);
    }
    database
        .insert(&rows(3), 0, &insert(), None, || ())
        .await
        .unwrap();
    let bodies: Vec<String> = stored(&path).await.into_iter().map(|row| row.1).collect();
    assert_eq!(bodies, ["body 0", "body 1", "body 2"]);
}

#[tokio::test]
async fn synchronous_and_journal_are_set_as_configured() {
    let directory = tempfile::tempdir().unwrap();
    for (synchronous, value) in [
        (Synchronous::Off, 0),
        (Synchronous::Normal, 1),
        (Synchronous::Full, 2),
    ] {
        let mut database = Database::new(Settings {
            synchronous,
            ..settings(&directory.path().join("store.db"))
        });
        for (pragma, expected) in [
            ("synchronous", Value::Integer(value)),
            ("journal_mode", Value::Text("wal".to_owned())),
        ] {
            let answer = database
                .query(format!("PRAGMA {pragma}"), vec![])
                .await
                .unwrap();
            assert_eq!(answer, [[expected]]);
        }
        database.close().await;
    }
}

#[tokio::test]
async fn a_table_with_an_ordinary_name_of_another_schema_is_reached() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.db");
    let mut database = database(&path).await;
    let insert = Insert {
        table: vec!["main".to_owned(), "messages".to_owned()],
        ..insert()
    };
    database
        .insert(&rows(2), 0, &insert, None, || ())
        .await
        .unwrap();
    let mut reader = reader(&path).await;
    let count: i64 = sqlx::query_scalar(AssertSqlSafe("SELECT count(*) FROM messages"))
        .fetch_one(&mut reader)
        .await
        .unwrap();
    assert_eq!(count, 2);
    reader.close().await.unwrap();
}
