//! What a database said, and how far the command had come.
//!
//! The driver reports codes and stages; what they mean for a message is the adapter's to say.

use std::fmt;

/// SQLite's READONLY_DBMOVED, which the driver also gives when it finds by itself that the file
/// which it has open is no longer the file at its path.
pub(crate) const FILE_MOVED: i32 = 1032;

/// SQLite's BUSY: somebody else holds the lock, and nothing was done.
pub(crate) const BUSY: i32 = 5;

/// SQLite's CORRUPT, which the driver also gives when it finds by itself that pages are missing.
pub(crate) const CORRUPT: i32 = 11;

/// SQLite's CANTOPEN.
pub(crate) const CANNOT_OPEN: i32 = 14;

/// How a statement failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// The database's own code; empty if there is none.
    pub code: String,
    /// SQLite: the low eight bits of the code; 0 if there is none.
    pub primary: i32,
    /// The database's own words, or the driver's.
    pub message: String,
    /// How far the command had come.
    pub stage: Stage,
}

/// How far a command had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing of it can be stored.
    NotStored,
    /// COMMIT was begun, and whether it took effect is not known.
    Committing,
}

impl SqlError {
    /// A failure with one of SQLite's extended result codes.
    pub fn sqlite(extended: i32, message: impl Into<String>) -> Self {
        Self {
            code: extended.to_string(),
            primary: extended & 0xff,
            message: message.into(),
            stage: Stage::NotStored,
        }
    }

    /// A failure of the connection itself.
    pub fn connection(message: impl Into<String>) -> Self {
        Self {
            code: String::new(),
            primary: 0,
            message: message.into(),
            stage: Stage::NotStored,
        }
    }

    /// The same failure at another stage.
    #[must_use]
    pub fn at(self, stage: Stage) -> Self {
        Self { stage, ..self }
    }

    /// SQLite's extended result code; 0 if there is none.
    pub fn extended(&self) -> i32 {
        self.code.parse().unwrap_or(0)
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.code.is_empty() {
            write!(f, " (code {})", self.code)?;
        }
        Ok(())
    }
}

impl std::error::Error for SqlError {}

impl From<sqlx::Error> for SqlError {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(error) => {
                let extended = error
                    .code()
                    .and_then(|code| code.parse::<i32>().ok())
                    .unwrap_or(0);
                Self::sqlite(extended, error.message())
            }
            error => Self::connection(error.to_string()),
        }
    }
}
