//! What can go wrong with a call. What became of a message is a verdict, never an error.

use std::sync::Arc;

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is none.
    #[error(
        "{address:?} is no address of a gateway: {reason}; write http://host:port or unix:/path/to/socket"
    )]
    Address {
        /// As it was given.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody answers, or whoever does is no gateway.
    #[error(
        "cannot reach the gateway at {address}: {reason}; is `sluicegate serve` running there?"
    )]
    Connect {
        /// Where.
        address: Arc<str>,
        /// What happened.
        reason: String,
    },
    /// The stream that carried the scope is gone. Rows that had no verdict are `unknown`: the
    /// scope's summary has them.
    #[error(
        "the stream to {address} was lost: {reason}; what had no verdict is unknown (close the scope for its summary), open a new scope to go on"
    )]
    Lost {
        /// Where the gateway is.
        address: Arc<str>,
        /// What happened.
        reason: Arc<str>,
    },
    /// A message that no frame can carry. Nothing of the call was published.
    #[error(
        "message {index} for {destination:?} takes {bytes} bytes, and a frame to this gateway carries {limit}: publish smaller messages, or raise frame_bytes in the gateway's configuration"
    )]
    TooLarge {
        /// For which destination.
        destination: String,
        /// Its place in the call, counted from 0.
        index: usize,
        /// What it takes.
        bytes: usize,
        /// What there is.
        limit: usize,
    },
    /// The scope was finished.
    #[error("the scope was finished and takes no more messages: open a new one")]
    Finished,
    /// The gateway contradicts itself.
    #[error(
        "the gateway's counts of a scope ({gateway}) are not those of the verdicts that it sent ({verdicts}): report this, with the versions of gateway and client"
    )]
    Miscounted {
        /// In ScopeDone.
        gateway: String,
        /// In Results.
        verdicts: String,
    },
    /// A unary call failed.
    #[error("{call} at {address}: {reason}")]
    Call {
        /// Which.
        call: &'static str,
        /// Where.
        address: Arc<str>,
        /// The status and its message.
        reason: String,
    },
}
