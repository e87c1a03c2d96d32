use sluicegate_adapter::Rows;
use sluicegate_adapter::sql::Inserted;

use super::*;

fn database() -> Database {
    Database::new(&Settings::from([
        ("path", "/data/q.db"),
        ("busy_timeout_ms", "250"),
    ]))
}

fn error(extended: i32, message: &str) -> SqlError {
    SqlError {
        code: if extended == 0 {
            String::new()
        } else {
            extended.to_string()
        },
        primary_code: extended & 0xff,
        message: message.to_owned(),
        stage: Stage::NotStored,
    }
}

fn reply(result: Result<Inserted, SqlError>) -> Reply {
    Reply {
        rows: Rows { first: 3, count: 4 },
        result,
    }
}

/// The context of a batch that wants receipts.
const CONTEXT: &[u8] = b"messages\x001\0orders\0";

#[test]
fn each_code_has_its_class_its_fault_and_says_what_to_do() {
    use FailureClass as Class;
    // Extended code, SQLite's words, class, retryable, the rows' fault, what the reason names.
    let table = [
        (
            5,
            "database is locked",
            Class::Unavailable,
            true,
            false,
            "250 ms",
        ),
        (
            261,
            "database is locked",
            Class::Unavailable,
            true,
            false,
            "250 ms",
        ),
        (
            517,
            "database is locked",
            Class::Unavailable,
            true,
            false,
            "busy_timeout_ms",
        ),
        (
            6,
            "database table is locked",
            Class::Unavailable,
            true,
            false,
            "/data/q.db",
        ),
        (
            7,
            "out of memory",
            Class::Unavailable,
            true,
            false,
            "memory",
        ),
        (
            8,
            "attempt to write a readonly database",
            Class::Unauthorized,
            false,
            false,
            "chmod",
        ),
        (
            1032,
            "the database /data/q.db was deleted",
            Class::Unavailable,
            true,
            false,
            "deleted",
        ),
        (
            1544,
            "attempt to write a readonly database",
            Class::Unauthorized,
            false,
            false,
            "/data/q.db",
        ),
        (
            3,
            "access permission denied",
            Class::Unauthorized,
            false,
            false,
            "chmod",
        ),
        (
            23,
            "authorization denied",
            Class::Unauthorized,
            false,
            false,
            "chmod",
        ),
        (
            10,
            "disk I/O error",
            Class::Unavailable,
            true,
            false,
            "disk",
        ),
        (
            1034,
            "disk I/O error",
            Class::Unavailable,
            true,
            false,
            "/data/q.db",
        ),
        (
            11,
            "database disk image is malformed",
            Class::Unavailable,
            false,
            false,
            "PRAGMA integrity_check",
        ),
        (
            26,
            "file is not a database",
            Class::Unavailable,
            false,
            false,
            "PRAGMA integrity_check",
        ),
        (
            13,
            "database or disk is full",
            Class::Unavailable,
            true,
            false,
            "free space",
        ),
        (
            14,
            "the directory /data does not exist: create it",
            Class::Unavailable,
            true,
            false,
            "create it",
        ),
        (
            15,
            "locking protocol",
            Class::Unavailable,
            true,
            false,
            "/data/q.db",
        ),
        (
            9,
            "interrupted",
            Class::Unavailable,
            true,
            false,
            "/data/q.db",
        ),
        (
            17,
            "database schema has changed",
            Class::Unavailable,
            true,
            false,
            "`messages`",
        ),
        (
            1,
            "no such table: messages",
            Class::Unavailable,
            true,
            false,
            "`messages`",
        ),
        (
            1,
            "table messages has no column named key",
            Class::Unavailable,
            true,
            false,
            "looked at again",
        ),
        (
            1,
            "malformed JSON",
            Class::Rejected,
            false,
            true,
            "malformed JSON",
        ),
        (
            18,
            "string or blob too big",
            Class::TooLarge,
            false,
            true,
            "send less",
        ),
        (
            19,
            "constraint failed",
            Class::Rejected,
            false,
            true,
            "constraint",
        ),
        (
            275,
            "CHECK constraint failed: length(body) < 9",
            Class::Rejected,
            false,
            true,
            "length(body) < 9",
        ),
        (
            1299,
            "NOT NULL constraint failed: messages.key",
            Class::Rejected,
            false,
            true,
            "messages.key",
        ),
        (
            2067,
            "UNIQUE constraint failed: messages.message_id",
            Class::Rejected,
            false,
            true,
            "message_id",
        ),
        (
            3091,
            "cannot store BLOB value in TEXT column",
            Class::Rejected,
            false,
            true,
            "TEXT column",
        ),
        (
            20,
            "datatype mismatch",
            Class::Invalid,
            false,
            true,
            "column's type",
        ),
        (
            0,
            "worker crashed",
            Class::Unavailable,
            true,
            false,
            "opened anew",
        ),
        (
            2,
            "internal malfunction",
            Class::Unavailable,
            false,
            false,
            "internal malfunction",
        ),
    ];
    for (extended, message, class, retryable, rows, says) in table {
        let error = error(extended, message);
        let meaning = meaning(&database(), "messages", &error);
        assert_eq!(matches!(meaning, Meaning::Rows(_)), rows, "{extended}");
        let failure = meaning.into_failure();
        assert_eq!(
            (failure.class, failure.retryable, &failure.code),
            (class, retryable, &error.code),
            "{extended}"
        );
        assert!(failure.reason.contains(says), "{}", failure.reason);
        assert!(failure.reason.contains(message), "{}", failure.reason);
    }
}

#[test]
fn a_committed_transaction_is_confirmed_with_its_row_ids() {
    let inserted = |first_id| reply(Ok(Inserted { first_id }));
    let settled = |context, reply: &Reply| settle(&database(), context, reply).outcome;
    assert_eq!(
        settled(CONTEXT, &inserted(Some(41))),
        Outcome::Confirmed(Receipts::Sequence(41))
    );
    assert_eq!(
        settled(CONTEXT, &inserted(None)),
        Outcome::Confirmed(Receipts::None)
    );
    // Nobody asked.
    assert_eq!(
        settled(b"messages\x000\0orders\0", &inserted(Some(41))),
        Outcome::Confirmed(Receipts::None)
    );
}

#[test]
fn a_verdict_is_on_the_rows_of_its_reply_and_on_no_others() {
    for result in [
        Ok(Inserted { first_id: None }),
        Err(error(5, "locked")),
        Err(error(19, "constraint")),
    ] {
        let verdict = settle(&database(), CONTEXT, &reply(result));
        assert_eq!(verdict.rows.range(), 3..7);
    }
}

#[test]
fn a_commit_that_may_have_happened_is_unknown_whatever_its_code() {
    for extended in [0, 10, 19, 1032, 1034] {
        let error = SqlError {
            stage: Stage::Committing,
            ..error(extended, "lost")
        };
        let verdict = settle(&database(), CONTEXT, &reply(Err(error)));
        let Outcome::Unknown(failure) = verdict.outcome else {
            panic!("{extended}: {verdict:?}");
        };
        for says in ["/data/q.db", "`orders`", "lost"] {
            assert!(failure.reason.contains(says), "{}", failure.reason);
        }
    }
}

#[test]
fn the_rows_fault_is_isolated_and_the_stores_is_not() {
    let outcome =
        |extended| settle(&database(), CONTEXT, &reply(Err(error(extended, "x")))).outcome;
    assert!(matches!(outcome(275), Outcome::Isolate(_)));
    assert!(matches!(outcome(13), Outcome::Failed(_)));
}
