//! Why the program ends without having done what it was asked to.

use std::process::ExitCode;

use crate::config::{BadConfiguration, Problem};

/// `EX_USAGE` of sysexits.h, as other proxies use it for a configuration that cannot be served.
const BAD_CONFIGURATION: u8 = 64;

/// Classified by whose fault it is: the configuration's, or the world's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Whoever wrote the configuration has to change it.
    #[error(transparent)]
    Configuration(#[from] BadConfiguration),
    /// Anything else: the same configuration may work another time.
    #[error("sluicegate: {0:#}")]
    Other(#[from] anyhow::Error),
}

impl Failure {
    /// What the process exits with.
    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Configuration(_) => ExitCode::from(BAD_CONFIGURATION),
            Self::Other(_) => ExitCode::FAILURE,
        }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Configuration(problem.into())
    }
}

impl From<Vec<Problem>> for Failure {
    fn from(problems: Vec<Problem>) -> Self {
        Self::Configuration(BadConfiguration(problems))
    }
}
