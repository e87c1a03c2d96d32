//! The state machine behind its lock, and who is woken.
//!
//! **The lock is held for one call of the state machine, never across an await**; wake-ups and
//! everything that frees memory happen after it. All calls are per frame or per batch, so that a
//! message costs a fraction of a lock.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sluicegate_core::Time;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::effects::{Effects, Wake};
use crate::state::State;

/// Who waits for a stream's events and room.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    pub(crate) events: Notify,
    pub(crate) room: Notify,
    pub(crate) stalled: Notify,
}

struct Guarded {
    state: State,
    /// Signals of streams, by their keys.
    streams: Vec<Option<Arc<Signals>>>,
}

pub(crate) struct Shared {
    guarded: Mutex<Guarded>,
    origin: Instant,
    pub(crate) connections: Vec<Notify>,
    pub(crate) ticker: Notify,
    /// A destination was opened or refused.
    pub(crate) opened: Notify,
    pub(crate) drained: Notify,
    stopped: AtomicBool,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(state: State) -> Self {
        Self {
            connections: state.conns.iter().map(|_| Notify::new()).collect(),
            guarded: Mutex::new(Guarded {
                state,
                streams: Vec::new(),
            }),
            origin: Instant::now(),
            ticker: Notify::new(),
            opened: Notify::new(),
            drained: Notify::new(),
            stopped: AtomicBool::new(false),
        }
    }

    /// Calls the state machine, and then does what it left to be done.
    pub(crate) fn with<T>(&self, call: impl FnOnce(&mut State, Time) -> T) -> T {
        self.with_streams(|state, _, now| call(state, now))
    }

    pub(crate) fn with_streams<T>(
        &self,
        call: impl FnOnce(&mut State, &mut Vec<Option<Arc<Signals>>>, Time) -> T,
    ) -> T {
        let now = self.origin.elapsed();
        let mut signals = Vec::new();
        // A panic inside the state machine would be a bug; what it left is still the best there is.
        let mut guarded = self.guarded.lock().unwrap_or_else(PoisonError::into_inner);
        let Guarded { state, streams } = &mut *guarded;
        let result = call(state, streams, now);
        let effects = state.effects();
        for wake in &effects.wakes {
            if let Wake::Events(stream) | Wake::Room(stream) | Wake::Stalled(stream) = wake
                && let Some(Some(signal)) = streams.get(*stream)
            {
                signals.push((*wake, Arc::clone(signal)));
            }
        }
        drop(guarded);
        self.fire(&effects, &signals);
        result
    }

    fn fire(&self, effects: &Effects, signals: &[(Wake, Arc<Signals>)]) {
        for (wake, signal) in signals {
            match wake {
                Wake::Events(_) => signal.events.notify_one(),
                Wake::Stalled(_) => signal.stalled.notify_one(),
                _ => signal.room.notify_one(),
            }
        }
        for wake in &effects.wakes {
            match wake {
                Wake::Events(_) | Wake::Room(_) | Wake::Stalled(_) => {}
                Wake::Connection(key) => {
                    if let Some(connection) = self.connections.get(*key) {
                        connection.notify_one();
                    }
                }
                Wake::Timer => self.ticker.notify_one(),
                Wake::Opened => self.opened.notify_waiters(),
                Wake::Drained => self.drained.notify_waiters(),
            }
        }
        for notice in &effects.notices {
            notice.log();
        }
    }

    pub(crate) fn at(&self, time: Time) -> Option<Instant> {
        self.origin.checked_add(time)
    }

    /// Ends the engine's tasks.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.ticker.notify_one();
        for connection in &self.connections {
            connection.notify_one();
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}
