//! Why a call ends before its time: one enum, mapped once to what the client sees.
//!
//! A fault is about the call. What became of a message is a verdict and never passes here.

use std::time::Duration;

use sluicegate_engine::ProtocolFault;
use tonic::{Code, Status};

/// Why a call ends.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(
        "the first frame of a stream must be Hello, and this one is {0}: send Hello before anything else"
    )]
    HelloMissing(&'static str),
    #[error(
        "a second Hello: Hello is the first frame of a stream and only the first; open another stream to say Hello again"
    )]
    HelloTwice,
    #[error(
        "a frame without content: exactly one of hello, open_scope, messages, flush, close_scope and abort_scope must be set"
    )]
    EmptyFrame,
    #[error(
        "a frame of {bytes} bytes, and the limit is {limit}: send fewer messages in a frame, or raise frame_bytes in the gateway's configuration"
    )]
    FrameTooLarge { bytes: u32, limit: u32 },
    #[error(
        "a frame of {messages} messages, and the limit is {limit}: send them in several frames"
    )]
    TooManyMessages { messages: usize, limit: u32 },
    #[error(
        "a frame that is no {expected}: {reason}; generate the client from the gateway's .proto"
    )]
    Malformed {
        expected: &'static str,
        reason: String,
    },
    #[error("the request ended inside a frame: {have} of {want} bytes came")]
    Truncated { have: usize, want: usize },
    #[error(
        "{have} of a frame's {want} bytes came within {} ms, and memory is kept for all of it: write a frame at once, and send smaller ones where the way is slow",
        .patience.as_millis()
    )]
    FrameUnfinished {
        have: usize,
        want: usize,
        patience: Duration,
    },
    #[error(
        "a compressed frame: the gateway takes none; switch compression off in the client's channel"
    )]
    Compressed,
    #[error("no frame: a unary call carries exactly one")]
    NoRequest,
    #[error(
        "the request did not end within {} ms after its frame: half-close a unary call when its one frame is written",
        .0.as_millis()
    )]
    RequestUnfinished(Duration),
    #[error("a second frame: a unary call carries exactly one")]
    SecondRequest,
    #[error("a request without messages: put at least one in")]
    NoMessages,
    #[error("confirmation_timeout_ms is {ms}: name 1 to {max_ms}, or leave it out")]
    ConfirmationTimeout { ms: u64, max_ms: u64 },
    #[error(
        "error_channel {0:?} was asked for, and the gateway does not serve error channels yet: leave it out and handle failed rows in the application"
    )]
    ErrorChannel(String),
    #[error(transparent)]
    Protocol(ProtocolFault),
    #[error(
        "results were left unread for {} ms: read the stream's results while writing to it; accepted rows still settle",
        .0.as_millis()
    )]
    Stalled(Duration),
    #[error(
        "the gateway is shutting down and takes no new work: connect to another one, or try again"
    )]
    Draining,
    #[error("the request broke off: {0}")]
    Lost(String),
    #[error(
        "an answer of {0} bytes, which is more than gRPC can frame: publish fewer messages at once"
    )]
    AnswerTooLarge(usize),
    /// The message's own words: a status is all that a unary caller gets.
    #[error("{0}")]
    VerdictUnknown(String),
}

impl Fault {
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::HelloMissing(_)
            | Self::HelloTwice
            | Self::EmptyFrame
            | Self::FrameTooLarge { .. }
            | Self::TooManyMessages { .. }
            | Self::Malformed { .. }
            | Self::Truncated { .. }
            | Self::NoRequest
            | Self::SecondRequest
            | Self::NoMessages
            | Self::ConfirmationTimeout { .. } => Code::InvalidArgument,
            Self::Compressed | Self::ErrorChannel(_) => Code::Unimplemented,
            Self::Protocol(fault) => match fault {
                ProtocolFault::TooManyScopes(_) => Code::ResourceExhausted,
                _ => Code::InvalidArgument,
            },
            Self::FrameUnfinished { .. }
            | Self::RequestUnfinished(_)
            | Self::Stalled(_)
            | Self::AnswerTooLarge(_) => Code::ResourceExhausted,
            Self::Draining => Code::Unavailable,
            Self::Lost(_) => Code::Cancelled,
            Self::VerdictUnknown(_) => Code::Unknown,
        }
    }
}

impl From<ProtocolFault> for Fault {
    fn from(fault: ProtocolFault) -> Self {
        match fault {
            // Nobody's fault, and one sentence for it is enough.
            ProtocolFault::Draining => Self::Draining,
            other => Self::Protocol(other),
        }
    }
}

impl From<&Fault> for Status {
    fn from(fault: &Fault) -> Self {
        Self::new(fault.code(), fault.to_string())
    }
}

impl From<Fault> for Status {
    fn from(fault: Fault) -> Self {
        Self::from(&fault)
    }
}
