//! What became of a message.

use std::fmt;

use bytes::Bytes;

/// What became of one message: every accepted message gets exactly one.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The broker said so, at the strength found when the destination was opened.
    Confirmed(Option<Receipt>),
    /// It is not in the broker.
    Failed(Failure),
    /// It was sent and its confirmation lost: it may be in the broker or not.
    Unknown(Failure),
}

/// Where a confirmed message landed: partition and offset, message id, row id, stream id.
///
/// Text, in the provider's own notation.
pub type Receipt = Bytes;

/// Why a message failed, or why its fate is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure, the same on every provider.
    pub class: FailureClass,
    /// Whether publishing the same message again may succeed.
    pub retryable: bool,
    /// How often the message was sent.
    pub attempts: u32,
    /// The provider's own code, as it spells it; empty if it gave none.
    pub code: String,
    /// Names the message, the destination and what to do.
    pub reason: String,
}

impl Failure {
    /// A failure that publishing again will not cure.
    pub fn fatal(class: FailureClass, reason: impl Into<String>) -> Self {
        Self {
            class,
            retryable: false,
            attempts: 0,
            code: String::new(),
            reason: reason.into(),
        }
    }

    /// A failure that publishing again may cure.
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

    /// Length in bytes of its texts, as charged to a stream's unwritten results.
    pub fn bytes(&self) -> usize {
        self.code.len() + self.reason.len()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.reason)?;
        if !self.code.is_empty() {
            write!(f, " [{}]", self.code)?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// The kinds of failure, the same on every provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureClass {
    /// The message itself is wrong for this destination.
    Invalid,
    /// Over a limit of the gateway, the provider or the destination.
    TooLarge,
    /// The gateway's credentials do not allow it.
    Unauthorized,
    /// No such destination, table, topic, queue or exchange.
    NotFound,
    /// The broker took it and had nowhere to put it.
    Unroutable,
    /// The broker refused it.
    Rejected,
    /// The broker asks for less.
    Throttled,
    /// The broker cannot be reached or cannot serve.
    Unavailable,
    /// Its confirmation timeout passed before it was sent.
    Timeout,
    /// Its time-to-live passed before it was sent.
    Expired,
    /// Its scope was aborted before it was sent.
    Aborted,
    /// Resending it would have put it behind a later message of its key.
    OutOfOrder,
    /// The adapter trapped on it, or answered nonsense about it.
    AdapterFault,
}

impl FailureClass {
    /// Every class, in the order of the protocol's numbers.
    pub const ALL: [Self; 13] = [
        Self::Invalid,
        Self::TooLarge,
        Self::Unauthorized,
        Self::NotFound,
        Self::Unroutable,
        Self::Rejected,
        Self::Throttled,
        Self::Unavailable,
        Self::Timeout,
        Self::Expired,
        Self::Aborted,
        Self::OutOfOrder,
        Self::AdapterFault,
    ];

    /// The name that the protocol, logs and metrics use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "INVALID",
            Self::TooLarge => "TOO_LARGE",
            Self::Unauthorized => "UNAUTHORIZED",
            Self::NotFound => "NOT_FOUND",
            Self::Unroutable => "UNROUTABLE",
            Self::Rejected => "REJECTED",
            Self::Throttled => "THROTTLED",
            Self::Unavailable => "UNAVAILABLE",
            Self::Timeout => "TIMEOUT",
            Self::Expired => "EXPIRED",
            Self::Aborted => "ABORTED",
            Self::OutOfOrder => "OUT_OF_ORDER",
            Self::AdapterFault => "ADAPTER_FAULT",
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
