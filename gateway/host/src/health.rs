//! Whether a connection's adapter is in its right mind.
//!
//! Invariant: one poison row never makes a connection unhealthy, however deep it is buried: isolating it
//! costs as many traps in a row as the batch can be halved. An adapter that traps on everything does.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Trap;

/// Traps without a good call in between that make a connection unhealthy. Isolating the first row of a batch
/// of 65,536 traps 17 times in a row; twice that is no single row's fault.
pub const UNHEALTHY_AFTER: u32 = 34;

/// A connection's record of traps. Cheap to clone; every clone shows the same.
#[derive(Clone, Debug)]
pub struct Health(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    adapter: Arc<str>,
    connection: Arc<str>,
    consecutive: AtomicU32,
    total: AtomicU64,
    last: Mutex<Option<Trap>>,
}

impl Health {
    pub(crate) fn new(adapter: Arc<str>, connection: Arc<str>) -> Self {
        Self(Arc::new(Shared {
            adapter,
            connection,
            consecutive: AtomicU32::new(0),
            total: AtomicU64::new(0),
            last: Mutex::new(None),
        }))
    }

    /// Traps since the start.
    #[must_use]
    pub fn traps(&self) -> u64 {
        self.0.total.load(Relaxed)
    }

    /// Why the connection is unhealthy, if it is. It goes on trying all the same, since the next row may be
    /// a good one; the first call that succeeds makes it healthy again.
    #[must_use]
    pub fn unhealthy(&self) -> Option<String> {
        let consecutive = self.0.consecutive.load(Relaxed);
        if consecutive < UNHEALTHY_AFTER {
            return None;
        }
        let last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner);
        let last = last.as_ref().map(ToString::to_string).unwrap_or_default();
        Some(format!(
            "the adapter `{}` of the connection `{}` failed {consecutive} calls in a row, the last one because {last}; replace the adapter",
            self.0.adapter, self.0.connection
        ))
    }

    pub(crate) fn trapped(&self, trap: &Trap) {
        self.0.total.fetch_add(1, Relaxed);
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(trap.clone());
        let consecutive = self.0.consecutive.fetch_add(1, Relaxed).saturating_add(1);
        let (adapter, connection) = (&*self.0.adapter, &*self.0.connection);
        if consecutive == 1 {
            tracing::warn!(adapter, connection, "the adapter failed: {trap}");
        } else if consecutive == UNHEALTHY_AFTER {
            tracing::warn!(
                adapter,
                connection,
                "the connection is unhealthy: its adapter failed {consecutive} calls in a row, the last one because {trap}"
            );
        }
    }

    pub(crate) fn succeeded(&self) {
        // Almost always a load: calls succeed.
        if self.0.consecutive.load(Relaxed) == 0 {
            return;
        }
        if self.0.consecutive.swap(0, Relaxed) >= UNHEALTHY_AFTER {
            let (adapter, connection) = (&*self.0.adapter, &*self.0.connection);
            tracing::info!(adapter, connection, "the connection is healthy again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trap() -> Trap {
        Trap::Other {
            call: "plan",
            reason: "unreachable".into(),
        }
    }

    #[test]
    fn traps_in_a_row_make_a_connection_unhealthy_and_it_says_why() {
        let health = Health::new("sql".into(), "orders".into());
        for _ in 1..UNHEALTHY_AFTER {
            health.trapped(&trap());
            assert_eq!(health.unhealthy(), None);
        }
        health.trapped(&trap());
        let why = health.unhealthy().unwrap();
        for part in ["`sql`", "`orders`", "unreachable"] {
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn one_good_call_makes_it_healthy_again_and_the_total_stays() {
        let health = Health::new("sql".into(), "orders".into());
        for _ in 0..UNHEALTHY_AFTER {
            health.trapped(&trap());
        }
        health.succeeded();
        assert_eq!(health.unhealthy(), None);
        assert_eq!(health.traps(), u64::from(UNHEALTHY_AFTER));
    }
}
