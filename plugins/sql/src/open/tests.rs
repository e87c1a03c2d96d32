use sluicegate_adapter::Settings;
use sluicegate_adapter::sql::{SqlError, Stage};

use super::*;
use crate::table::tests::destination;

/// What a database answers; by default that of the table which the adapter creates.
struct Answers(Vec<Answer>);

impl Answers {
    fn new() -> Self {
        let mut answers = Self(vec![Ok(vec![]); ASKED.len()]);
        answers.columns(&[
            ("id", "INTEGER", 0, None, 1),
            ("queue", "TEXT", 1, None, 0),
            ("message_id", "TEXT", 0, None, 0),
            ("key", "BLOB", 0, None, 0),
            ("headers", "TEXT", 0, None, 0),
            ("body", "BLOB", 0, None, 0),
            ("created_at_ms", "INTEGER", 1, None, 0),
        ]);
        answers.set(
            Ask::Kind,
            vec![
                Value::Text("table".into()),
                Value::Integer(0),
                Value::Text("CREATE TABLE m (id INTEGER PRIMARY KEY AUTOINCREMENT)".into()),
            ],
        );
        for ask in [Ask::Keys, Ask::Triggers] {
            answers.set(ask, vec![Value::Integer(0)]);
        }
        answers.set(Ask::Synchronous, vec![Value::Integer(2)]);
        answers.set(Ask::Journal, vec![Value::Text("wal".into())]);
        answers.set(Ask::Version, vec![Value::Text("3.50.0".into())]);
        answers
    }

    fn set(&mut self, ask: Ask, row: Vec<Value>) {
        self.0[ask as usize] = Ok(vec![row]);
    }

    fn fail(&mut self, ask: Ask, code: i32, message: &str) {
        self.0[ask as usize] = Err(SqlError {
            code: code.to_string(),
            primary_code: code & 0xff,
            message: message.to_owned(),
            stage: Stage::NotStored,
        });
    }

    fn columns(&mut self, columns: &[(&str, &str, i64, Option<&str>, i64)]) {
        let rows = columns
            .iter()
            .map(|(name, kind, not_null, default, primary)| {
                vec![
                    Value::Text((*name).to_owned()),
                    Value::Text((*kind).to_owned()),
                    Value::Integer(*not_null),
                    default.map_or(Value::Null, |text| Value::Text(text.to_owned())),
                    Value::Integer(*primary),
                ]
            })
            .collect();
        self.0[Ask::Columns as usize] = Ok(rows);
    }

    fn open(&self, settings: &[(&str, &str)]) -> Result<OpenedDestination, Failure> {
        let destination = destination(settings);
        let table = Table::configured(&destination).unwrap();
        let database = Database::new(&Settings::from([("path", "/data/q.db")]));
        opened(&database, &destination, &table, &self.0)
    }
}

fn fact<'a>(opened: &'a OpenedDestination, name: &str) -> &'a str {
    opened
        .facts
        .iter()
        .find(|(key, _)| key == name)
        .map_or("", |(_, value)| value)
}

#[test]
fn the_adapters_own_table_can_do_everything_that_a_table_can() {
    let opened = Answers::new().open(&[]).unwrap();
    let can = opened.capabilities;
    assert!(can.key && can.headers && can.id && can.null_body && can.receipts);
    assert!(!can.delay && !can.ttl && !can.deduplication && !can.per_message_failure);
    assert_eq!(opened.strength, Strength::Fsynced);
    assert_eq!(fact(&opened, "database"), "/data/q.db");
    assert_eq!(fact(&opened, "receipts"), "id, never used twice");
}

#[test]
fn a_name_reaches_the_catalogue_as_a_value_and_a_statement_in_quotes() {
    let table = Table::configured(&destination(&[("table", r#"a"b"#)])).unwrap();
    for statement in statements(&table) {
        let unquoted = statement.text.replace(r#""a""b""#, "");
        assert!(!unquoted.contains("a\"b"), "{}", statement.text);
        assert!(!unquoted.contains("a\"\"b"), "{}", statement.text);
    }
}

#[test]
fn a_table_that_is_not_to_be_created_is_not() {
    let table = Table::configured(&destination(&[("create_table", "false")])).unwrap();
    assert!(
        statements(&table)
            .iter()
            .all(|statement| !statement.text.contains("CREATE"))
    );
}

#[test]
fn a_missing_table_is_not_found() {
    let mut answers = Answers::new();
    answers.columns(&[]);
    let failure = answers.open(&[("create_table", "false")]).unwrap_err();
    assert_eq!(failure.class, FailureClass::NotFound);
    for says in ["`messages`", "/data/q.db", "create_table"] {
        assert!(failure.reason.contains(says), "{}", failure.reason);
    }
}

#[test]
fn a_missing_column_is_named_with_those_that_exist() {
    let mut answers = Answers::new();
    answers.columns(&[
        ("id", "INTEGER", 0, None, 1),
        ("payload", "BLOB", 0, None, 0),
    ]);
    let failure = answers.open(&[("table", "audit")]).unwrap_err();
    assert_eq!(failure.class, FailureClass::NotFound);
    for says in [
        "`audit`",
        "`queue`",
        "`id`, `payload`",
        "`queue_column`",
        "`orders`",
    ] {
        assert!(failure.reason.contains(says), "{}", failure.reason);
    }
}

#[test]
fn columns_are_found_whatever_their_case() {
    let mut answers = Answers::new();
    answers.columns(&[("ID", "integer", 0, None, 1), ("Body", "", 0, None, 0)]);
    let opened = answers
        .open(&[
            ("queue_column", ""),
            ("id_column", ""),
            ("key_column", ""),
            ("headers_column", ""),
            ("created_at_column", ""),
        ])
        .unwrap();
    assert!(opened.capabilities.receipts && opened.capabilities.null_body);
    let can = opened.capabilities;
    assert!(!can.key && !can.headers && !can.id);
}

#[test]
fn a_column_that_nothing_can_fill_is_refused_before_every_insert_fails() {
    let mut answers = Answers::new();
    answers.0[Ask::Columns as usize]
        .as_mut()
        .unwrap()
        .push(vec![
            Value::Text("tenant".into()),
            Value::Text("TEXT".into()),
            Value::Integer(1),
            Value::Null,
            Value::Integer(0),
        ]);
    let failure = answers.open(&[]).unwrap_err();
    assert_eq!(failure.class, FailureClass::Invalid);
    assert!(failure.reason.contains("`tenant`"), "{}", failure.reason);
}

#[test]
fn receipts_are_offered_only_where_row_ids_are_known() {
    let receipts = |change: &dyn Fn(&mut Answers)| {
        let mut answers = Answers::new();
        change(&mut answers);
        answers.open(&[]).unwrap().capabilities.receipts
    };
    assert!(receipts(&|_| ()));
    // A trigger may insert rows of its own.
    assert!(!receipts(
        &|answers| answers.set(Ask::Triggers, vec![Value::Integer(1)])
    ));
    // INTEGER PRIMARY KEY DESC is no row id.
    assert!(!receipts(
        &|answers| answers.set(Ask::Keys, vec![Value::Integer(1)])
    ));
    // WITHOUT ROWID.
    assert!(!receipts(&|answers| {
        answers.set(
            Ask::Kind,
            vec![Value::Text("table".into()), Value::Integer(1), Value::Null],
        );
    }));
    assert!(!receipts(&|answers| {
        answers.set(
            Ask::Kind,
            vec![Value::Text("view".into()), Value::Integer(0), Value::Null],
        );
    }));
    // What could not be found out is not promised.
    for ask in [Ask::Kind, Ask::Keys, Ask::Triggers] {
        assert!(!receipts(&|answers| answers.fail(ask, 1, "no such table")));
    }
    let without = Answers::new().open(&[("receipt_column", "")]).unwrap();
    assert!(!without.capabilities.receipts);
    let other = Answers::new()
        .open(&[("receipt_column", "number")])
        .unwrap();
    assert!(!other.capabilities.receipts);
}

#[test]
fn ids_that_may_be_used_again_are_said_to_be() {
    let mut answers = Answers::new();
    answers.set(
        Ask::Kind,
        vec![
            Value::Text("table".into()),
            Value::Integer(0),
            Value::Text("CREATE TABLE m (autoincremented, id INTEGER PRIMARY KEY)".into()),
        ],
    );
    let opened = answers.open(&[]).unwrap();
    assert!(opened.capabilities.receipts);
    assert!(fact(&opened, "receipts").contains("used again"));
}

#[test]
fn a_commit_that_waits_for_no_disk_is_only_written() {
    for (level, strength) in [
        (0, Strength::Written),
        (1, Strength::Written),
        (2, Strength::Fsynced),
        (3, Strength::Fsynced),
    ] {
        let mut answers = Answers::new();
        answers.set(Ask::Synchronous, vec![Value::Integer(level)]);
        assert_eq!(answers.open(&[]).unwrap().strength, strength);
    }
    let mut answers = Answers::new();
    answers.fail(Ask::Synchronous, 10, "disk I/O error");
    assert_eq!(answers.open(&[]).unwrap().strength, Strength::Written);
}

#[test]
fn a_body_that_may_not_be_null_is_refused_before_it_is_sent() {
    let mut answers = Answers::new();
    answers.0[Ask::Columns as usize].as_mut().unwrap()[5][2] = Value::Integer(1);
    assert!(!answers.open(&[]).unwrap().capabilities.null_body);
}

#[test]
fn a_database_that_cannot_be_opened_or_written_says_why_and_a_lock_passes() {
    for (ask, code, message, class) in [
        (
            Ask::Create,
            14,
            "the directory /data does not exist",
            Some(FailureClass::Unavailable),
        ),
        (
            Ask::Create,
            26,
            "file is not a database",
            Some(FailureClass::Unavailable),
        ),
        (
            Ask::Create,
            5,
            "database is locked",
            Some(FailureClass::Unavailable),
        ),
        (
            Ask::Write,
            8,
            "attempt to write a readonly database",
            Some(FailureClass::Unauthorized),
        ),
        (Ask::Write, 5, "database is locked", None),
    ] {
        let mut answers = Answers::new();
        answers.fail(ask, code, message);
        let result = answers.open(&[]);
        assert_eq!(
            result.as_ref().map_err(|failure| failure.class).err(),
            class,
            "{code}"
        );
        if let Err(failure) = result {
            assert!(failure.reason.contains(message), "{}", failure.reason);
        }
    }
}
