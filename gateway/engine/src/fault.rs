//! What a client cannot do: its call is refused, and nothing that was accepted is touched.

/// The gateway is shutting down and takes no new work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the gateway is draining and takes no new work; connect to another one or try again")]
pub struct Draining;

/// What a client did that the protocol does not allow. It ends the client's stream.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProtocolFault {
    #[error(
        "scope {0} was used before on this stream: scope ids grow from one OpenScope to the next; open the next scope with a larger id"
    )]
    ScopeReused(u64),
    #[error("scope {0} is not open on this stream: send OpenScope first")]
    NoSuchScope(u64),
    #[error(
        "scope {0} was closed: a scope takes no messages and no flush after CloseScope or AbortScope; open a new one"
    )]
    ScopeClosed(u64),
    /// A call that came too late, not a fault of the client: ingress answers UNAVAILABLE.
    #[error("the gateway is draining and opens no new scope; connect to another one or try again")]
    Draining,
    #[error(
        "{0} scopes are open on this stream, which is the limit: close some, or use another stream"
    )]
    TooManyScopes(u32),
}
