//! When something has to be looked at again, though nobody calls.
//!
//! **A timer may fire for nothing, but never not at all**: whoever is woken looks at its own state
//! and registers the next time. So an entry need not be removed when its reason is gone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sluicegate_core::Time;

use crate::effects::{Effects, Wake};

/// Who is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    Lane(usize),
    Stream(usize),
}

/// Times and who they are for, earliest first.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Time, Timer)>>,
}

impl Timers {
    pub(crate) fn register(&mut self, at: Time, timer: Timer, effects: &mut Effects) {
        let earlier = self.next().is_none_or(|next| at < next);
        self.heap.push(Reverse((at, timer)));
        if earlier {
            effects.wakes.push(Wake::Timer);
        }
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, timer))| timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_come_due_in_order_and_only_a_new_earliest_one_wakes_the_ticker() {
        let mut effects = Effects::default();
        let mut timers = Timers::default();
        let at = Time::from_secs;
        timers.register(at(5), Timer::Lane(1), &mut effects);
        timers.register(at(7), Timer::Stream(2), &mut effects);
        assert_eq!(effects.wakes, [Wake::Timer]);
        timers.register(at(1), Timer::Lane(3), &mut effects);
        assert_eq!(effects.wakes.len(), 2);
        assert_eq!(timers.pop_due(at(0)), None);
        assert_eq!(timers.pop_due(at(6)), Some(Timer::Lane(3)));
        assert_eq!(timers.pop_due(at(6)), Some(Timer::Lane(1)));
        assert_eq!(timers.pop_due(at(6)), None);
    }
}
