//! What the broker said about a destination when it was opened.

use std::fmt;

/// What opening a destination found.
#[derive(Clone, Debug, PartialEq)]
pub struct Opened {
    /// The connection's own number of the destination; batches carry it.
    pub address: u32,
    /// What a batch and a message may hold.
    pub limits: Limits,
    /// What a message may ask for.
    pub capabilities: Capabilities,
    /// What `confirmed` promises.
    pub strength: Strength,
    /// The provider's own words for what was found, for people (`sluicegate check`).
    pub facts: Vec<(String, String)>,
}

/// What a batch and a message may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rows of one batch.
    pub batch_messages: u32,
    /// Sum of the bodies of one batch, in bytes.
    pub batch_bytes: u64,
    /// One body, in bytes.
    pub body_bytes: u64,
}

/// What a message may ask for. What is not here is refused, never imitated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Keys reach the broker or order its messages.
    pub key: bool,
    /// Headers reach the consumer.
    pub headers: bool,
    /// The application's message id reaches the consumer.
    pub id: bool,
    /// A delay is kept by the provider.
    pub delay: bool,
    /// A time-to-live is kept by the provider.
    pub ttl: bool,
    /// A body may be null.
    pub null_body: bool,
    /// Confirmed messages have receipts.
    pub receipts: bool,
    /// The provider names the rows of a batch that failed.
    pub per_message_failure: bool,
    /// Whether resending an `unknown` row can duplicate it.
    pub deduplication: Deduplication,
}

/// Whether the destination recognises a message that it already has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deduplication {
    /// It does not: an `unknown` row is never resent.
    #[default]
    None,
    /// By message id: an `unknown` row that has one is resent.
    MessageId,
}

/// What the broker promised by confirming, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// On several machines.
    Replicated,
    /// On disk: it survives loss of power.
    Fsynced,
    /// With the operating system: it survives the broker's death.
    Written,
    /// In the broker's memory, or in none.
    Accepted,
}

impl Strength {
    /// The name that the protocol, logs and metrics use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replicated => "replicated",
            Self::Fsynced => "fsynced",
            Self::Written => "written",
            Self::Accepted => "accepted",
        }
    }
}

impl fmt::Display for Strength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What order a destination keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Rows of one key, of the scopes of one stream, are sent in order.
    #[default]
    Key,
    /// No promise: failed rows are resent freely.
    None,
}

/// What a connection's window counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowUnit {
    /// Batches in flight.
    Requests,
    /// Rows in flight.
    Messages,
}

/// How much a connection may have sent and not yet settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// What is counted.
    pub unit: WindowUnit,
    /// How many; at least one.
    pub size: u32,
}
