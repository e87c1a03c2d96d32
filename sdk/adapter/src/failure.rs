//! Failures, as short to write as they are common.

use std::fmt;

use crate::{Failure, FailureClass, Outcome, RowFailure, Rows, Verdict};

impl Failure {
    /// A failure that sending the same row again will not cure.
    pub fn fatal(class: FailureClass, reason: impl Into<String>) -> Self {
        Self {
            class,
            retryable: false,
            code: String::new(),
            reason: reason.into(),
        }
    }

    /// A failure that sending the same row again may cure.
    pub fn retryable(class: FailureClass, reason: impl Into<String>) -> Self {
        Self {
            retryable: true,
            ..Self::fatal(class, reason)
        }
    }

    /// The same failure with the provider's own code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = code.into();
        self
    }

    /// The failure of these rows, for a plan.
    #[must_use]
    pub fn of(self, rows: impl Into<Rows>) -> RowFailure {
        RowFailure {
            rows: rows.into(),
            failure: self,
        }
    }
}

impl Outcome {
    /// What became of these rows, for `settle`.
    #[must_use]
    pub fn of(self, rows: impl Into<Rows>) -> Verdict {
        Verdict {
            rows: rows.into(),
            outcome: self,
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
