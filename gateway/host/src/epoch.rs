//! The clock of calls: a thread that moves the engine's epoch every tick.
//!
//! Invariant: it ticks as long as the host or any of its adapters lives, and not longer. Without it a guest that loops would keep
//! its thread for ever; with it compiled code compares one number at each loop and function entry, and
//! reads no clock.

use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use wasmtime::Engine;

/// Length of a tick: the longest that a guest keeps a thread of the runtime from other tasks. A hundred
/// wake-ups a second cost nothing that can be measured, and other tasks can wait so long now and then.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Moves the epoch until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    /// Dropping it wakes and ends the thread.
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    pub(crate) fn start(engine: Engine) -> std::io::Result<Self> {
        let (stop, stopped) = sync_channel::<()>(0);
        let thread = std::thread::Builder::new()
            .name("adapter-ticks".into())
            .spawn(move || {
                while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(TICK) {
                    engine.increment_epoch();
                }
            })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How many ticks a budget is; at least one, so that a call can begin.
pub(crate) fn ticks(budget: Duration) -> u32 {
    u32::try_from(budget.as_nanos().div_ceil(TICK.as_nanos()))
        .unwrap_or(u32::MAX)
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_rounded_up_to_whole_ticks_and_never_none() {
        for (milliseconds, expected) in [(0, 1), (1, 1), (10, 1), (11, 2), (1_000, 100)] {
            assert_eq!(
                ticks(Duration::from_millis(milliseconds)),
                expected,
                "{milliseconds} ms"
            );
        }
    }
}
