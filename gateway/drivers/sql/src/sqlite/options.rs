//! How a database is opened, and why it cannot be.
//!
//! SQLite says "unable to open database file" for everything that can be wrong with a path, so the
//! path is looked at first: an error names what is missing and what to do.

use std::io;
use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};

use crate::error::{CANNOT_OPEN, SqlError};
use crate::settings::{Settings, Synchronous};

/// Page size of a file that is created here; an existing file keeps its own. Messages of some hundred
/// bytes fill many pages a batch, and a page costs its checksum and two writes, so 16 KiB takes 1.5
/// times as many 256-byte rows a second as SQLite's 4 KiB, while a commit of one row, which writes
/// whole pages, costs no more. Larger pages cost the single row what they give the batch
/// (`examples/insert_rate.rs`).
pub const PAGE_BYTES: u32 = 16_384;

/// How large the log grows before it is folded back into the database, which holds up one commit by
/// 10 to 20 ms here. Smaller is folded more often for the same rows.
pub(super) const LOG_BYTES: u64 = 8 << 20;

/// To what the log's file is cut after a reader has kept it from being folded back for long.
const MAX_IDLE_LOG_BYTES: u64 = 64 << 20;

/// Prepared statements kept: those of eight shapes at the six sizes of a destination or two. The largest
/// take about a megabyte each, so they are not kept without end.
const STATEMENT_CACHE: usize = 64;

/// SQLite's words for whatever keeps a file from being opened.
const UNSPECIFIC: &str = "unable to open database file";

pub(super) fn options(settings: &Settings) -> SqliteConnectOptions {
    use sqlx::ConnectOptions as _;

    SqliteConnectOptions::new()
        .filename(&settings.path)
        .create_if_missing(settings.create)
        .page_size(PAGE_BYTES)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(match settings.synchronous {
            Synchronous::Full => SqliteSynchronous::Full,
            Synchronous::Normal => SqliteSynchronous::Normal,
            Synchronous::Off => SqliteSynchronous::Off,
        })
        // Locks are waited for by the driver, which knows until when (`patience`).
        .busy_timeout(Duration::ZERO)
        // Where fsync does not reach the disk (macOS), the call that does; elsewhere nothing.
        .pragma("fullfsync", "1")
        .pragma("journal_size_limit", MAX_IDLE_LOG_BYTES.to_string())
        .statement_cache_capacity(STATEMENT_CACHE)
        // A statement can be tens of kilobytes of question marks.
        .disable_statement_logging()
}

/// What is wrong with the path, if that can be seen from here.
pub(super) fn examine(settings: &Settings) -> Result<(), SqlError> {
    let path = settings.path.as_path();
    let shown = path.display();
    let directory = directory(path);
    let problem = if !directory.exists() {
        format!(
            "the directory {} of the database {shown} does not exist: create it, or point `path` elsewhere",
            directory.display()
        )
    } else if !directory.is_dir() {
        format!(
            "{} in the path of the database {shown} is not a directory: point `path` elsewhere",
            directory.display()
        )
    } else if path.is_dir() {
        format!("{shown} is a directory: point `path` at a file in it")
    } else if path.exists() && !path.is_file() {
        format!("{shown} is no regular file: point `path` elsewhere")
    } else if !settings.create && !path.exists() {
        format!(
            "the database {shown} does not exist and `create` is false: create it, or set `create = true`"
        )
    } else {
        return Ok(());
    };
    Err(SqlError::sqlite(CANNOT_OPEN, problem))
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// SQLite's error with what to do, where SQLite says no more than that a file cannot be opened: the
/// database's own, or one of those beside it.
pub(super) fn explained(error: SqlError, settings: &Settings) -> SqlError {
    if error.primary != CANNOT_OPEN || error.message != UNSPECIFIC {
        return error;
    }
    let message = match examine(settings) {
        Err(problem) => problem.message,
        Ok(()) => format!(
            "{UNSPECIFIC}: let the gateway's user write to the directory {} and to the database's files in it (a read-only mount, chmod, chown), or point `path` elsewhere",
            directory(&settings.path).display()
        ),
    };
    SqlError { message, ..error }
}

/// Why the file itself cannot be opened.
pub(super) fn unopened(error: &io::Error, settings: &Settings) -> SqlError {
    let explained = explained(SqlError::sqlite(CANNOT_OPEN, UNSPECIFIC), settings);
    let message = format!("{error}: {}", explained.message);
    SqlError {
        message,
        ..explained
    }
}
