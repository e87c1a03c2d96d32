//! The read-back: what the store holds after a run, held against what was published.

use crate::body::{Bodies, Parsed, key};

/// What the store said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadBack {
    /// Messages in the store.
    pub(crate) read_back: u64,
    /// Confirmed, and not there.
    pub(crate) missing: u64,
    /// There more than once: each copy after the first.
    pub(crate) duplicates: u64,
    /// There, and not what was sent.
    pub(crate) altered: u64,
    /// There after a later message of its key.
    pub(crate) out_of_order: u64,
}

impl ReadBack {
    /// Whether everything is there once, whole and in order.
    pub(crate) fn is_clean(&self) -> bool {
        self.missing + self.duplicates + self.altered + self.out_of_order == 0
    }

    /// Adds what another run of the same row found.
    pub(crate) fn add(&mut self, other: Self) {
        self.read_back += other.read_back;
        self.missing += other.missing;
        self.duplicates += other.duplicates;
        self.altered += other.altered;
        self.out_of_order += other.out_of_order;
    }
}

/// Takes a run's messages in the order of the store.
#[derive(Debug)]
pub(crate) struct Checker {
    bodies: Bodies,
    seen: Vec<bool>,
    /// For each key the largest sequence number so far.
    last: std::collections::HashMap<Vec<u8>, u64>,
    found: ReadBack,
}

impl Checker {
    /// Expects the sequence numbers below `published`.
    pub(crate) fn new(bodies: Bodies, published: u64) -> Self {
        Self {
            bodies,
            seen: vec![false; usize::try_from(published).unwrap_or(usize::MAX)],
            last: std::collections::HashMap::new(),
            found: ReadBack::default(),
        }
    }

    /// The next message in the store.
    pub(crate) fn message(&mut self, message_key: Option<&[u8]>, body: &[u8]) {
        self.found.read_back += 1;
        let Parsed::Whole { sequence } = self.bodies.parse(body) else {
            self.found.altered += 1;
            return;
        };
        let place = usize::try_from(sequence).unwrap_or(usize::MAX);
        let (Some(seen), true) = (
            self.seen.get_mut(place),
            message_key == Some(key(sequence).as_ref()),
        ) else {
            self.found.altered += 1;
            return;
        };
        if std::mem::replace(seen, true) {
            self.found.duplicates += 1;
            return;
        }
        match self.last.get_mut(message_key.unwrap_or_default()) {
            Some(last) if *last > sequence => self.found.out_of_order += 1,
            Some(last) => *last = sequence,
            None => {
                self.last
                    .insert(message_key.unwrap_or_default().to_vec(), sequence);
            }
        }
    }

    /// What was found; `confirmed` says which sequence numbers must be there.
    pub(crate) fn finish(mut self, confirmed: impl Fn(u64) -> bool) -> ReadBack {
        self.found.missing = (0u64..)
            .zip(&self.seen)
            .filter(|(sequence, seen)| !**seen && confirmed(*sequence))
            .count() as u64;
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies() -> Bodies {
        Bodies::new(9, 55).unwrap()
    }

    fn check(sequences: &[u64], published: u64) -> ReadBack {
        let mut checker = Checker::new(bodies(), published);
        for sequence in sequences {
            checker.message(Some(&key(*sequence)), &bodies().one(*sequence));
        }
        checker.finish(|_| true)
    }

    #[test]
    fn a_store_that_holds_everything_is_clean() {
        let found = check(&(0..100).collect::<Vec<_>>(), 100);
        assert!(found.is_clean());
        assert_eq!(found.read_back, 100);
    }

    #[test]
    fn an_empty_store_is_not_clean() {
        assert_eq!(check(&[], 3).missing, 3);
    }

    #[test]
    fn a_missing_message_is_found() {
        assert_eq!(check(&[0, 1, 3], 4).missing, 1);
    }

    #[test]
    fn a_missing_message_that_was_not_confirmed_is_fine() {
        let mut checker = Checker::new(bodies(), 2);
        checker.message(Some(&key(0)), &bodies().one(0));
        assert!(checker.finish(|sequence| sequence != 1).is_clean());
    }

    #[test]
    fn each_copy_after_the_first_is_a_duplicate() {
        assert_eq!(check(&[0, 1, 1, 1], 2).duplicates, 2);
    }

    #[test]
    fn order_counts_within_a_key_alone() {
        assert_eq!(check(&[1, 0, 17, 16], 18).out_of_order, 0);
        assert_eq!(check(&[16, 0], 17).out_of_order, 1);
    }

    #[test]
    fn altered_bodies_keys_and_numbers_never_sent_are_found() {
        let mut checker = Checker::new(bodies(), 2);
        checker.message(Some(&key(0)), b"something else");
        checker.message(Some(&key(1)), &bodies().one(0));
        checker.message(None, &bodies().one(0));
        checker.message(Some(&key(5)), &bodies().one(5));
        let found = checker.finish(|_| false);
        assert_eq!((found.altered, found.read_back), (4, 4));
    }
}
