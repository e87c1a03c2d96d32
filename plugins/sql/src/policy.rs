//! What SQLite's answers mean.
//!
//! Invariant: `confirmed` only for a transaction that was committed, `unknown` only for one of which that
//! cannot be said, and a failure that is not the rows' own never costs them a split. Codes are those of
//! <https://www.sqlite.org/rescode.html>.

use sluicegate_adapter::sql::{Reply, SqlError, Stage};
use sluicegate_adapter::{Failure, FailureClass, Outcome, Receipts, Settings, Verdict};

use crate::address::Context;

const ERROR: i32 = 1;
const PERM: i32 = 3;
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const NOMEM: i32 = 7;
const READONLY: i32 = 8;
const INTERRUPT: i32 = 9;
const IOERR: i32 = 10;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANTOPEN: i32 = 14;
const PROTOCOL: i32 = 15;
const SCHEMA: i32 = 17;
const TOOBIG: i32 = 18;
const CONSTRAINT: i32 = 19;
const MISMATCH: i32 = 20;
const AUTH: i32 = 23;
const NOTADB: i32 = 26;

/// READONLY_DBMOVED: the file is no longer the one that was opened.
const DBMOVED: &str = "1032";

/// How SQLite words it that a table or a column of a statement is not there (code ERROR, which is also the
/// code of functions that fail on a value).
const MISSING: [&str; 3] = ["no such table", "no such column", "has no column named"];

/// What sentences say about the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Database {
    path: String,
    busy_timeout_ms: String,
}

impl Database {
    pub(crate) fn new(settings: &Settings) -> Self {
        let get = |key: &str, default: &str| settings.get(key).unwrap_or(default).to_owned();
        Self {
            path: get("path", "./sluicegate.db"),
            busy_timeout_ms: get("busy_timeout_ms", "5000"),
        }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

/// Whose fault an error is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Meaning {
    /// The store's, or the configuration's: all rows fare alike.
    Store(Failure),
    /// At least one of the rows'.
    Rows(Failure),
}

impl Meaning {
    pub(crate) fn into_failure(self) -> Failure {
        match self {
            Self::Store(failure) | Self::Rows(failure) => failure,
        }
    }
}

/// The verdict on a command's rows.
pub(crate) fn settle(database: &Database, context: &[u8], reply: &Reply) -> Verdict {
    let context = Context::decode(context).unwrap_or(Context {
        destination: "?",
        table: "?",
        receipts: false,
    });
    let outcome = match &reply.result {
        Ok(inserted) => Outcome::Confirmed(match inserted.first_id {
            Some(first) if context.receipts => Receipts::Sequence(first),
            _ => Receipts::None,
        }),
        Err(error) if error.stage == Stage::Committing => {
            Outcome::Unknown(unknown(database, &context, error))
        }
        Err(error) => match meaning(database, context.table, error) {
            Meaning::Store(failure) => Outcome::Failed(about(failure, &context)),
            Meaning::Rows(failure) => Outcome::Isolate(about(failure, &context)),
        },
    };
    outcome.of(reply.rows)
}

fn about(failure: Failure, context: &Context<'_>) -> Failure {
    let destination = context.destination.escape_debug();
    Failure {
        reason: format!("destination `{destination}`: {}", failure.reason),
        ..failure
    }
}

fn unknown(database: &Database, context: &Context<'_>, error: &SqlError) -> Failure {
    let failure = Failure::fatal(
        FailureClass::Unavailable,
        format!(
            "the commit in {} failed half-way ({}), so the message may be stored or not: look for it in the \
             table {} before publishing it again",
            database.path,
            words(error),
            context.table
        ),
    );
    about(failure.with_code(error.code.as_str()), context)
}

/// What an error means for a statement on a table.
pub(crate) fn meaning(database: &Database, table: &str, error: &SqlError) -> Meaning {
    use FailureClass::{Invalid, Rejected, TooLarge, Unauthorized, Unavailable};

    let path = &database.path;
    let says = words(error);
    let (class, retryable, reason) = match error.primary_code {
        // The rows' own.
        CONSTRAINT => (
            Rejected,
            false,
            format!(
                "the table `{table}` does not take the message: {says}; change the message or the table's constraint"
            ),
        ),
        TOOBIG => (
            TooLarge,
            false,
            format!("the message is larger than the database takes: {says}; send less"),
        ),
        MISMATCH => (
            Invalid,
            false,
            format!(
                "a value does not fit its column in the table `{table}`: {says}; change the message or the column's type"
            ),
        ),
        ERROR if !missing(error) => (
            Rejected,
            false,
            format!("the table `{table}` does not take the message: {says}"),
        ),
        // The store's, for a while.
        _ if error.code == DBMOVED => (Unavailable, true, format!("{says}; it is opened anew")),
        BUSY | LOCKED => (
            Unavailable,
            true,
            format!(
                "{path} is locked by another process ({says}): end that process's transaction; an attempt waits for {} ms (`busy_timeout_ms`), and never past the confirmation timeout",
                database.busy_timeout_ms
            ),
        ),
        FULL => (
            Unavailable,
            true,
            format!("there is no room for {path} ({says}): free space on its disk"),
        ),
        // What is missing can come back: a directory, a mount, a permission.
        CANTOPEN => (
            Unavailable,
            true,
            format!("{path} cannot be opened: {says}"),
        ),
        NOMEM => (
            Unavailable,
            true,
            format!("there is no memory left for {path} ({says})"),
        ),
        IOERR => (
            Unavailable,
            true,
            format!("reading or writing {path} failed ({says}): look at its disk"),
        ),
        INTERRUPT | PROTOCOL => (
            Unavailable,
            true,
            format!("{path} cannot be reached for the moment ({says})"),
        ),
        ERROR | SCHEMA => (
            Unavailable,
            true,
            format!(
                "the table `{table}` in {path} is not what it was when the destination was opened ({says}); it is looked at again"
            ),
        ),
        0 => (
            Unavailable,
            true,
            format!("the connection to {path} was lost ({says}); it is opened anew"),
        ),
        // The store's, until somebody does something about it.
        READONLY | PERM | AUTH => (
            Unauthorized,
            false,
            format!(
                "{path} may not be written to ({says}): give the gateway's user write permission on the file and its directory (chmod, chown), or point `path` elsewhere"
            ),
        ),
        CORRUPT => (
            Unavailable,
            false,
            format!(
                "{path} is damaged ({says}): look at it with `PRAGMA integrity_check`, and restore it from a backup"
            ),
        ),
        NOTADB => (
            Unavailable,
            false,
            format!(
                "{path} is no SQLite database, or its beginning is damaged ({says}): point `path` elsewhere, or look at it with `PRAGMA integrity_check`"
            ),
        ),
        _ => (Unavailable, false, format!("{path} failed: {says}")),
    };
    let failure = Failure {
        class,
        retryable,
        code: error.code.clone(),
        reason,
    };
    let rows = matches!(error.primary_code, CONSTRAINT | TOOBIG | MISMATCH)
        || (error.primary_code == ERROR && !missing(error));
    if rows {
        Meaning::Rows(failure)
    } else {
        Meaning::Store(failure)
    }
}

/// The database's words, with its code.
fn words(error: &SqlError) -> String {
    let message = if error.message.is_empty() {
        "no reason given"
    } else {
        &error.message
    };
    match error.code.as_str() {
        "" => message.to_owned(),
        code => format!("{message}, SQLite code {code}"),
    }
}

fn missing(error: &SqlError) -> bool {
    MISSING.iter().any(|words| error.message.contains(words))
}

#[cfg(test)]
mod tests;
