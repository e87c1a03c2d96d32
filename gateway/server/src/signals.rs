//! SIGTERM and SIGINT: the first asks for a drain, the second ends the process at once, because
//! whoever sends two does not want to wait.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both signals, listened to from its making on.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens. Made before a port is bound, so that no signal finds the default action in place.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("signals cannot be listened to");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    /// The name of the next one.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
