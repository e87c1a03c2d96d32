//! What became of the messages.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use sluicegate_proto::v1;

pub use sluicegate_proto::v1::FailureClass;

/// What became of one message: every published message gets exactly one.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The broker said so.
    Confirmed,
    /// It is not in the broker.
    Failed(Arc<Failure>),
    /// It was sent and its confirmation lost: it may be in the broker or not.
    Unknown(Arc<Failure>),
}

impl Verdict {
    /// Whether the broker has it.
    pub fn is_confirmed(&self) -> bool {
        matches!(self, Self::Confirmed)
    }
}

/// Why a message failed, or why its fate is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure, the same on every provider.
    pub class: FailureClass,
    /// Whether publishing the same message again may succeed.
    pub retryable: bool,
    /// How often the gateway sent it.
    pub attempts: u32,
    /// The provider's own code, as it spells it; empty if it gave none.
    pub code: String,
    /// Names the message, the destination and what to do.
    pub reason: String,
}

impl Failure {
    pub(crate) fn from_protocol(failure: Option<v1::Failure>) -> Arc<Self> {
        let failure = failure.unwrap_or_default();
        Arc::new(Self {
            class: failure.class(),
            retryable: failure.retryable,
            attempts: failure.attempts,
            code: failure.code,
            reason: failure.reason,
        })
    }

    /// The class as logs and metrics spell it: `TOO_LARGE`.
    pub fn class_name(&self) -> &'static str {
        let name = self.class.as_str_name();
        name.strip_prefix("FAILURE_CLASS_").unwrap_or(name)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class_name(), self.reason)?;
        if !self.code.is_empty() {
            write!(f, " [{}]", self.code)?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// A row and why it is not confirmed.
#[derive(Clone, Debug, PartialEq)]
pub struct RowFailure {
    /// The message's place in its scope, counted from 0.
    pub row: u64,
    /// Why. Rows that were lost together share it.
    pub failure: Arc<Failure>,
}

/// Verdicts of one scope, in any order, each row once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdicts {
    /// Confirmed rows.
    pub confirmed: Vec<Range<u64>>,
    /// Rows that are not in the broker.
    pub failed: Vec<RowFailure>,
    /// Rows that may be in the broker or not.
    pub unknown: Vec<RowFailure>,
    /// Where confirmed rows landed, in the provider's own notation; only for scopes that asked.
    pub receipts: Vec<(u64, Bytes)>,
}

impl Verdicts {
    /// How many rows these are.
    pub fn rows(&self) -> u64 {
        let confirmed: u64 = self
            .confirmed
            .iter()
            .map(|rows| rows.end - rows.start)
            .sum();
        confirmed + (self.failed.len() + self.unknown.len()) as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.confirmed.is_empty()
            && self.failed.is_empty()
            && self.unknown.is_empty()
            && self.receipts.is_empty()
    }

    pub(crate) fn confirm(&mut self, rows: Range<u64>) {
        match self.confirmed.last_mut() {
            Some(last) if last.end == rows.start => last.end = rows.end,
            _ => self.confirmed.push(rows),
        }
    }
}

/// What became of a scope's messages.
///
/// The counts are of all its messages so far; details are those that nobody took before, by
/// [`Scope::next_verdicts`](crate::Scope::next_verdicts) or an earlier summary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Messages that the broker has.
    pub confirmed: u64,
    /// Messages that it has not.
    pub failed: u64,
    /// Messages that it may have or not.
    pub unknown: u64,
    /// Why each failed message failed.
    pub failures: Vec<RowFailure>,
    /// Why the fate of each unknown one is unknown.
    pub unknowns: Vec<RowFailure>,
    /// Where confirmed messages landed; only for scopes that asked.
    pub receipts: Vec<(u64, Bytes)>,
}

impl Summary {
    /// Whether every message of the scope, and at least one, is confirmed.
    pub fn all_confirmed(&self) -> bool {
        self.confirmed > 0 && self.failed == 0 && self.unknown == 0
    }

    /// Messages that have a verdict.
    pub fn total(&self) -> u64 {
        self.confirmed + self.failed + self.unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_summary_is_no_success() {
        assert!(!Summary::default().all_confirmed());
    }

    #[test]
    fn a_failure_reads_as_a_sentence_with_the_providers_code() {
        let failure = Failure {
            class: FailureClass::TooLarge,
            retryable: false,
            attempts: 1,
            code: "18".to_owned(),
            reason: "too long".to_owned(),
        };
        assert_eq!(failure.to_string(), "TOO_LARGE: too long [18]");
    }

    #[test]
    fn ranges_that_follow_each_other_are_one() {
        let mut verdicts = Verdicts::default();
        verdicts.confirm(0..3);
        verdicts.confirm(3..5);
        verdicts.confirm(6..7);
        assert_eq!(verdicts.confirmed, vec![0..5, 6..7]);
        assert_eq!(verdicts.rows(), 6);
    }
}
