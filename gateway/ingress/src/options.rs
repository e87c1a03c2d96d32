//! What the ingress can be told, and what it does when told nothing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Encoded size of one frame. Large enough for thousands of small messages or a few large ones,
/// small enough that a stream's memory stays a matter of its credit; also what gRPC libraries
/// accept by default.
pub(crate) const DEFAULT_FRAME_BYTES: u32 = 4 * 1024 * 1024;

/// Messages of one frame. A message may be two bytes on the wire and is some 200 in memory, so a
/// limit in bytes alone would let one frame take fifty times its size.
pub(crate) const DEFAULT_FRAME_MESSAGES: u32 = 65_536;

/// How long a frame may take: a client that stops in the middle of one keeps memory from all others, as
/// one that leaves its results unread does, and has as long.
pub(crate) const DEFAULT_FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest confirmation timeout that a scope may ask for: a day. A longer wait is a mistake of
/// units, and would hold memory for as long.
pub(crate) const MAX_CONFIRMATION_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a drain may take: below the 30 s that Kubernetes grants between SIGTERM and SIGKILL.
pub(crate) const DEFAULT_DRAIN_TIMEOUT: Duration = Duration::from_secs(25);

/// Where the gateway listens and what it accepts.
#[derive(Clone, Debug)]
pub struct Options {
    /// TCP address; `None` listens on no TCP port. Port 0 takes a free one.
    pub tcp: Option<SocketAddr>,
    /// Path of a Unix socket; `None` makes none. Its mode is 0600: only the user that runs the
    /// gateway may connect.
    pub unix: Option<PathBuf>,
    /// Encoded size of one frame in bytes; a larger one is a protocol fault.
    pub frame_bytes: u32,
    /// Messages of one frame; more is a protocol fault.
    pub frame_messages: u32,
    /// How long the rest of a frame may take after memory was found for it; then the stream ends.
    pub frame_timeout: Duration,
    /// How long streams may take to settle after shutdown was asked for.
    pub drain_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tcp: None,
            unix: None,
            frame_bytes: DEFAULT_FRAME_BYTES,
            frame_messages: DEFAULT_FRAME_MESSAGES,
            frame_timeout: DEFAULT_FRAME_TIMEOUT,
            drain_timeout: DEFAULT_DRAIN_TIMEOUT,
        }
    }
}
