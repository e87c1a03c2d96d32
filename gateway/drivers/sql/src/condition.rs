//! Whether the store takes rows, as the operator's log tells it.
//!
//! Invariant: a change is logged and a state is not: a store that fails is one line when it begins, one for
//! each new reason and one when it works again, never more than one in [`QUIET`], however many batches fail.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::SqlError;
use crate::sqlite;

/// A store that fails and works by turns is a line this often.
const QUIET: Duration = Duration::from_secs(10);

/// What the log knows of a connection's store.
#[derive(Debug)]
pub(crate) struct Condition {
    connection: String,
    /// Since when it fails, and with which code the log says so.
    failing: Option<(Instant, String)>,
    /// When the last line about a failure was written.
    warned: Option<Instant>,
}

/// What is to be logged.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Fails,
    Works { after: Duration },
}

impl Condition {
    pub(crate) fn new(connection: &str) -> Self {
        Self {
            connection: connection.to_owned(),
            failing: None,
            warned: None,
        }
    }

    /// Takes in how a command ended, and logs what has changed.
    pub(crate) fn saw(&mut self, error: Option<&SqlError>) {
        match (self.change(error, Instant::now()), error) {
            (Some(Change::Fails), Some(error)) => tracing::warn!(
                "connection {}: failing: {error}; batches are sent again until their deadline",
                self.connection
            ),
            (Some(Change::Works { after }), _) => tracing::info!(
                "connection {}: works again, after {} ms",
                self.connection,
                after.as_millis()
            ),
            _ => {}
        }
    }

    fn change(&mut self, error: Option<&SqlError>, now: Instant) -> Option<Change> {
        // An error of the rows' own says that the store works.
        let Some(error) = error.filter(|error| sqlite::is_of_the_store(error)) else {
            let (since, _) = self.failing.take()?;
            let after = now.saturating_duration_since(since);
            return Some(Change::Works { after });
        };
        let quiet = self
            .warned
            .is_some_and(|warned| now.saturating_duration_since(warned) < QUIET);
        let known = self.failing.as_ref().map(|(_, code)| code);
        if quiet || known == Some(&error.code) {
            return None;
        }
        let since = self.failing.take().map_or(now, |(since, _)| since);
        self.failing = Some((since, error.code.clone()));
        self.warned = Some(now);
        Some(Change::Fails)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_a_line_when_it_begins_when_its_reason_changes_and_when_it_ends() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let busy = SqlError::sqlite(5, "database is locked");
        let full = SqlError::sqlite(13, "database or disk is full");
        let mut condition = Condition::new("main");
        assert_eq!(condition.change(None, at(0)), None);
        assert_eq!(condition.change(Some(&busy), at(0)), Some(Change::Fails));
        assert_eq!(condition.change(Some(&busy), at(60)), None);
        assert_eq!(condition.change(Some(&full), at(61)), Some(Change::Fails));
        let after = Duration::from_secs(70);
        let works = Some(Change::Works { after });
        assert_eq!(condition.change(None, at(70)), works);
        assert_eq!(condition.change(None, at(71)), None);
    }

    #[test]
    fn a_store_that_fails_and_works_by_turns_does_not_fill_the_log() {
        let start = Instant::now();
        let busy = SqlError::sqlite(5, "database is locked");
        let mut condition = Condition::new("main");
        let lines = (0..1_000)
            .filter(|n| {
                let error = (n % 2 == 0).then_some(&busy);
                condition
                    .change(error, start + Duration::from_millis(*n))
                    .is_some()
            })
            .count();
        assert_eq!(lines, 2);
    }

    #[test]
    fn a_row_that_the_table_refuses_is_no_failure_of_the_store() {
        let now = Instant::now();
        let mut condition = Condition::new("main");
        for code in [1, 18, 19, 20, 2_067] {
            let error = SqlError::sqlite(code, "no");
            assert_eq!(condition.change(Some(&error), now), None, "{code}");
        }
    }
}
