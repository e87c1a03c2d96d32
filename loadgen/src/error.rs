//! Why loadgen stops, and the exit code that says so to scripts.

/// Why it stops.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    /// The command line asks for something that there is not.
    #[error("{0}")]
    Usage(String),
    /// A gateway or a store cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The gateway refuses its configuration.
    #[error("{0}")]
    Configuration(String),
    /// Someone ended it.
    #[error("interrupted")]
    Interrupted,
}

impl Stop {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Unreachable(_) => 2,
            Self::Configuration(_) => 64,
            // 128 + SIGINT, as shells have it.
            Self::Interrupted => 130,
        }
    }
}

impl From<sluicegate_client::Error> for Stop {
    fn from(error: sluicegate_client::Error) -> Self {
        Self::Unreachable(error.to_string())
    }
}

impl From<sqlx::Error> for Stop {
    fn from(error: sqlx::Error) -> Self {
        Self::Unreachable(format!("SQLite: {error}"))
    }
}
