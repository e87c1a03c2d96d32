//! How much may be unsettled.
//!
//! **One destination holds at most half of a stream's credit**, so a stalled one cannot keep
//! messages for the others from being sent. Whoever still has credit may send a message of any size
//! and run into debt: waiting for room that is as large as the message could mean waiting for ever.

use std::collections::HashMap;
use std::sync::Arc;

use slab::Slab;

/// Names of idle destinations that are remembered, so that publishing one message at a time to the
/// same destination allocates nothing. Beyond it they are forgotten when their last row settles:
/// there may be a destination for each user of an application.
const IDLE_DESTINATIONS: usize = 1_024;

/// The stream's credit and who holds it.
#[derive(Debug, Default)]
pub(crate) struct Credit {
    messages: Account,
    bytes: Account,
    destinations: Slab<Destination>,
    by_name: HashMap<Arc<str>, usize>,
}

/// Of one unit.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    granted: i64,
    free: i64,
    half: i64,
}

impl Account {
    fn new(granted: u64) -> Self {
        let granted = signed(granted).max(1);
        Self {
            granted,
            free: granted,
            half: (granted / 2).max(1),
        }
    }

    /// Never more than was granted: an error in counting must not add up.
    fn give_back(&mut self, amount: u64) {
        self.free = self.free.saturating_add(signed(amount)).min(self.granted);
    }
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// What a destination holds.
#[derive(Debug)]
struct Destination {
    name: Arc<str>,
    messages: i64,
    bytes: i64,
}

impl Credit {
    /// What `Welcome` granted.
    pub(crate) fn new(messages: u64, bytes: u64) -> Self {
        Self {
            messages: Account::new(messages),
            bytes: Account::new(bytes),
            ..Self::default()
        }
    }

    /// The destination's own number; `hint` is the one that was probably meant.
    pub(crate) fn destination(&mut self, name: &str, hint: usize) -> usize {
        if let Some(known) = self.destinations.get(hint)
            && *known.name == *name
        {
            return hint;
        }
        if let Some(&known) = self.by_name.get(name) {
            return known;
        }
        let name: Arc<str> = name.into();
        let index = self.destinations.insert(Destination {
            name: Arc::clone(&name),
            messages: 0,
            bytes: 0,
        });
        self.by_name.insert(name, index);
        index
    }

    /// Whether a message may be sent now.
    #[inline]
    pub(crate) fn allows(&self, destination: usize) -> bool {
        self.messages.free > 0
            && self.bytes.free > 0
            && self.destinations.get(destination).is_some_and(|held| {
                held.messages < self.messages.half && held.bytes < self.bytes.half
            })
    }

    /// A message was sent.
    #[inline]
    pub(crate) fn spend(&mut self, destination: usize, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.messages.free -= 1;
        self.bytes.free -= bytes;
        if let Some(held) = self.destinations.get_mut(destination) {
            held.messages += 1;
            held.bytes += bytes;
        }
    }

    /// Rows of a destination have their verdicts.
    pub(crate) fn settle(&mut self, destination: usize, messages: u64, bytes: u64) {
        let Some(held) = self.destinations.get_mut(destination) else {
            return;
        };
        held.messages -= signed(messages);
        held.bytes -= signed(bytes);
        if held.messages <= 0 && self.destinations.len() > IDLE_DESTINATIONS {
            let forgotten = self.destinations.remove(destination);
            self.by_name.remove(&forgotten.name);
        }
    }

    /// The gateway gave credit back.
    pub(crate) fn give_back(&mut self, messages: u64, bytes: u64) {
        self.messages.give_back(messages);
        self.bytes.give_back(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_destination_holds_at_most_half() {
        let mut credit = Credit::new(10, 1_000_000);
        let a = credit.destination("a", 0);
        let b = credit.destination("b", a);
        for _ in 0..5 {
            assert!(credit.allows(a));
            credit.spend(a, 1);
        }
        assert!(!credit.allows(a));
        assert!(credit.allows(b));
        credit.settle(a, 1, 1);
        assert!(credit.allows(a));
    }

    #[test]
    fn a_message_larger_than_the_credit_is_sent_alone() {
        let mut credit = Credit::new(10, 100);
        let a = credit.destination("a", 0);
        credit.spend(a, 1_000);
        assert!(!credit.allows(a));
        credit.settle(a, 1, 1_000);
        credit.give_back(1, 1_000);
        assert!(credit.allows(a));
    }

    #[test]
    fn credit_never_grows_beyond_what_was_granted() {
        let mut credit = Credit::new(2, 100);
        credit.give_back(50, 50);
        let a = credit.destination("a", 0);
        let b = credit.destination("b", 0);
        credit.spend(a, 1);
        credit.spend(b, 1);
        let c = credit.destination("c", 0);
        assert!(!credit.allows(c));
    }

    #[test]
    fn the_last_bit_of_credit_is_enough_for_one_message() {
        let mut credit = Credit::new(1, 1);
        let a = credit.destination("a", 0);
        assert!(credit.allows(a));
    }

    #[test]
    fn idle_destinations_are_forgotten_when_there_are_many() {
        let mut credit = Credit::new(10, 100);
        for number in 0..10_000 {
            let index = credit.destination(&number.to_string(), 0);
            credit.spend(index, 0);
            credit.settle(index, 1, 0);
            credit.give_back(1, 0);
        }
        assert!(credit.destinations.len() <= IDLE_DESTINATIONS);
        assert_eq!(credit.destinations.len(), credit.by_name.len());
    }
}
