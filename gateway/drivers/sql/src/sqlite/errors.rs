//! What SQLite's errors say about the connection itself; what they mean for messages is the adapter's to say.

use crate::error::{CANNOT_OPEN, CORRUPT, FILE_MOVED, SqlError, Stage};

const ERROR: i32 = 1;
const IO: i32 = 10;
const SCHEMA: i32 = 17;
const TOO_BIG: i32 = 18;
const CONSTRAINT: i32 = 19;
const MISMATCH: i32 = 20;
const NOT_A_DATABASE: i32 = 26;

/// I/O errors after which a commit may have reached the file all the same: the log's last frame can be
/// written and the error come after it (IOERR, IOERR_WRITE, IOERR_FSYNC, IOERR_DIR_FSYNC), and recovery
/// after a crash would then find it whole.
const AMBIGUOUS_IO: [i32; 4] = [10, 778, 1_034, 1_290];

/// How SQLite words it that what a statement names is not there; its code, ERROR, is also that of functions
/// that fail on a value.
const MISSING: [&str; 3] = ["no such table", "no such column", "has no column named"];

/// Whether a commit that failed like this can have taken effect.
pub(super) fn after_commit(error: &SqlError) -> Stage {
    let lost = error.primary == 0;
    if lost || AMBIGUOUS_IO.contains(&error.extended()) {
        Stage::Committing
    } else {
        Stage::NotStored
    }
}

/// Whether all rows fare alike: the error is not about what is in them.
pub(crate) fn is_of_the_store(error: &SqlError) -> bool {
    !matches!(error.primary, ERROR | TOO_BIG | CONSTRAINT | MISMATCH) || loses_schema(error)
}

/// Whether the connection is not to be used after such an error.
pub(crate) fn loses_connection(error: &SqlError) -> bool {
    error.extended() == FILE_MOVED
        || matches!(
            error.primary,
            0 | IO | CORRUPT | CANNOT_OPEN | NOT_A_DATABASE
        )
}

/// Whether the table is not what it was when its destination was opened.
pub(crate) fn loses_schema(error: &SqlError) -> bool {
    error.primary == SCHEMA
        || (error.primary == ERROR && MISSING.iter().any(|words| error.message.contains(words)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_that_can_follow_a_written_commit_leave_it_in_doubt() {
        for (extended, stage) in [
            (10, Stage::Committing),
            (778, Stage::Committing),
            (1_034, Stage::Committing),
            // Read, before anything was written.
            (266, Stage::NotStored),
            (5, Stage::NotStored),
            (13, Stage::NotStored),
            (275, Stage::NotStored),
        ] {
            assert_eq!(after_commit(&SqlError::sqlite(extended, "x")), stage);
        }
        let lost = SqlError::connection("worker crashed");
        assert_eq!(after_commit(&lost), Stage::Committing);
    }

    #[test]
    fn a_lock_a_full_disk_and_a_bad_row_keep_the_connection() {
        for extended in [5, 13, 18, 275] {
            let error = SqlError::sqlite(extended, "x");
            assert!(!loses_connection(&error) && !loses_schema(&error));
        }
        for error in [
            SqlError::sqlite(FILE_MOVED, "deleted"),
            SqlError::sqlite(1_034, "disk I/O error"),
            SqlError::sqlite(11, "malformed"),
            SqlError::connection("worker crashed"),
        ] {
            assert!(loses_connection(&error), "{error}");
        }
    }

    #[test]
    fn a_table_that_was_dropped_is_told_from_a_function_that_failed() {
        assert!(loses_schema(&SqlError::sqlite(
            1,
            "no such table: messages"
        )));
        assert!(!loses_schema(&SqlError::sqlite(1, "malformed JSON")));
    }
}
