//! How an engine ends that cannot wait any longer.
//!
//! **Every accepted row gets its verdict, also when the gateway's time is up**: what waits has failed
//! and can be published again, what was handed over may be stored and is unknown. A client that was
//! told nothing would have to guess, and one that was told `unavailable` would publish it twice.

use sluicegate_core::{Failure, FailureClass, Time};

use crate::keys::Cause;
use crate::scope::Phase;
use crate::state::State;

/// What the rows are told that were not handed to their connection.
pub(crate) fn not_sent() -> Failure {
    Failure::retryable(
        FailureClass::Unavailable,
        "the gateway shut down before the message was sent; publish it again, to another gateway or when this one is back",
    )
}

fn not_confirmed() -> Failure {
    Failure::retryable(
        FailureClass::Unavailable,
        "the gateway shut down before the message was confirmed; it may be stored, so publish it again only if a duplicate does no harm",
    )
}

impl State {
    /// Settles everything, closes every scope, and takes nothing more.
    pub(crate) fn give_up(&mut self, now: Time) {
        self.ledger.gave_up = true;
        self.fail_waiting(now);
        let flights: Vec<usize> = self.flights.iter().map(|(key, _)| key).collect();
        for key in flights {
            let Some(flight) = self.flights.get_mut(key) else {
                continue;
            };
            // The connection may still answer: that is no fault of its.
            flight.overdue = true;
            let places: Vec<u32> = (0..flight.rows())
                .filter(|place| !flight.is_settled(*place))
                .collect();
            for place in places {
                self.come_back(key, place, Cause::Unknown(not_confirmed()), now);
            }
            self.after(key, now);
        }
        // Rows that waited for one of those in flight were set free by its end.
        self.fail_waiting(now);
        let open: Vec<usize> = self.ledger.scopes.iter().map(|(key, _)| key).collect();
        for key in open {
            if self.ledger.scopes.get(key).map(|scope| scope.phase) == Some(Phase::Open) {
                self.ledger.close_scope(key, Phase::Closed);
            }
        }
        self.kick_all(now);
    }

    fn fail_waiting(&mut self, now: Time) {
        for (_, lane) in &mut self.lanes {
            lane.fail_all(&not_sent(), &mut self.ledger, now);
        }
    }
}
