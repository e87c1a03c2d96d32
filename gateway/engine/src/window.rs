//! How much a connection may have sent and not yet settled.
//!
//! **A window decides nothing but a number.** What it counts is the provider's unit; a window that
//! tunes itself learns from what it is told and stands behind the same trait.

use std::fmt::Debug;
use std::time::Duration;

/// How many units a connection may have in flight.
pub(crate) trait WindowPolicy: Debug + Send {
    /// Units that may be in flight now; at least one.
    fn capacity(&self) -> u32;
    /// A batch closed: how many of its rows got an answer, and how long after its sending.
    fn on_settled(&mut self, delivered: u32, round_trip: Duration);
}

/// As configured.
#[derive(Debug)]
pub(crate) struct FixedWindow {
    size: u32,
}

impl FixedWindow {
    pub(crate) fn new(size: u32) -> Self {
        Self { size: size.max(1) }
    }
}

impl WindowPolicy for FixedWindow {
    fn capacity(&self) -> u32 {
        self.size
    }

    fn on_settled(&mut self, _delivered: u32, _round_trip: Duration) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_nothing_would_never_send_and_so_is_one() {
        assert_eq!(FixedWindow::new(0).capacity(), 1);
        assert_eq!(FixedWindow::new(16).capacity(), 16);
    }
}
