//! Compares what is in the store with what was published.
//!
//! Counts are kept for what was expected as for what was found: an empty store is not a clean one.

use crate::body;

/// Which numbers of a run were published and confirmed, and which were found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    words: Vec<u64>,
}

impl Numbers {
    /// `0..count`.
    pub(crate) fn first(count: u64) -> Self {
        let mut numbers = Self::default();
        for number in 0..count {
            numbers.insert(number);
        }
        numbers
    }

    /// Whether the number is new.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let Some(word) = self.words.get_mut(word) else {
            return false;
        };
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    pub(crate) fn remove(&mut self, number: u64) {
        let (word, bit) = Self::place(number);
        if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
        }
    }

    fn place(number: u64) -> (usize, u64) {
        (
            usize::try_from(number / 64).unwrap_or(usize::MAX - 1),
            1 << (number % 64),
        )
    }

    /// How many are here and not there.
    fn without(&self, other: &Self) -> u64 {
        self.words
            .iter()
            .enumerate()
            .map(|(index, word)| {
                let other = other.words.get(index).copied().unwrap_or(0);
                u64::from((word & !other).count_ones())
            })
            .sum()
    }
}

/// What a read-back found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Rows.
    pub(crate) read_back: u64,
    /// Confirmed and not there.
    pub(crate) missing: u64,
    /// There more than once.
    pub(crate) duplicates: u64,
    /// Not as they were published: body, key, or from nowhere.
    pub(crate) altered: u64,
    /// Behind a later message of their key.
    pub(crate) out_of_order: u64,
}

impl Found {
    pub(crate) fn is_clean(self) -> bool {
        self.missing + self.duplicates + self.altered + self.out_of_order == 0
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.read_back += other.read_back;
        self.missing += other.missing;
        self.duplicates += other.duplicates;
        self.altered += other.altered;
        self.out_of_order += other.out_of_order;
    }
}

/// Takes a run's rows in the store's order.
#[derive(Debug)]
pub(crate) struct Checker {
    run: u32,
    size: usize,
    /// Sent, whatever their verdict.
    sent: u64,
    confirmed: Numbers,
    seen: Numbers,
    /// The latest number of each key.
    latest: Vec<Option<u64>>,
    found: Found,
}

impl Checker {
    /// `sent` is one more than the largest number that was sent.
    pub(crate) fn new(run: u32, size: usize, sent: u64, confirmed: Numbers) -> Self {
        Self {
            run,
            size,
            sent,
            confirmed,
            seen: Numbers::default(),
            latest: (0..body::KEYS).map(|_| None).collect(),
            found: Found::default(),
        }
    }

    pub(crate) fn row(&mut self, key: Option<&[u8]>, body: &[u8]) {
        self.found.read_back += 1;
        let number = body::verify(body, self.run, self.size)
            .filter(|number| *number < self.sent)
            .filter(|number| key == Some(&body::key(*number)[..]));
        let Some(number) = number else {
            self.found.altered += 1;
            return;
        };
        if !self.seen.insert(number) {
            self.found.duplicates += 1;
            return;
        }
        let place = usize::try_from(number % body::KEYS).unwrap_or(0);
        if let Some(latest) = self.latest.get_mut(place) {
            if latest.is_some_and(|latest| latest > number) {
                self.found.out_of_order += 1;
            }
            *latest = (*latest).max(Some(number));
        }
    }

    pub(crate) fn finish(mut self) -> Found {
        self.found.missing = self.confirmed.without(&self.seen);
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 55;

    fn check(numbers: impl IntoIterator<Item = u64>) -> Found {
        let mut checker = Checker::new(1, SIZE, 100, Numbers::first(100));
        for number in numbers {
            checker.row(Some(&body::key(number)), &body::one(1, number, SIZE));
        }
        checker.finish()
    }

    #[test]
    fn all_rows_in_order_are_clean() {
        let found = check(0..100);
        assert!(found.is_clean());
        assert_eq!(found.read_back, 100);
    }

    #[test]
    fn an_empty_store_is_not_clean() {
        assert_eq!(check([]).missing, 100);
    }

    #[test]
    fn one_missing_row_is_noticed() {
        let found = check((0..100).filter(|number| *number != 63));
        assert_eq!((found.missing, found.read_back), (1, 99));
        assert!(!found.is_clean());
    }

    #[test]
    fn a_duplicate_is_noticed_and_is_not_out_of_order() {
        let found = check((0..100).chain([7]));
        assert_eq!((found.duplicates, found.out_of_order), (1, 0));
        assert!(!found.is_clean());
    }

    #[test]
    fn rows_of_one_key_that_change_places_are_noticed() {
        let mut numbers: Vec<u64> = (0..100).collect();
        numbers.swap(3, 19);
        let found = check(numbers);
        assert_eq!(found.out_of_order, 1);
        assert!(!found.is_clean());
    }

    #[test]
    fn rows_of_different_keys_may_change_places() {
        let mut numbers: Vec<u64> = (0..100).collect();
        numbers.swap(3, 4);
        assert!(check(numbers).is_clean());
    }

    #[test]
    fn an_altered_body_or_key_is_noticed_and_its_message_missing() {
        let mut checker = Checker::new(1, SIZE, 2, Numbers::first(2));
        let mut body = body::one(1, 0, SIZE).to_vec();
        body[54] = b'!';
        checker.row(Some(&body::key(0)), &body);
        checker.row(Some(b"99"), &body::one(1, 1, SIZE));
        let found = checker.finish();
        assert_eq!((found.altered, found.missing), (2, 2));
    }

    #[test]
    fn a_row_that_nobody_sent_is_noticed() {
        let found = check((0..100).chain([100]));
        assert_eq!(found.altered, 1);
    }

    #[test]
    fn a_message_that_was_not_confirmed_may_be_there_or_not() {
        let mut confirmed = Numbers::first(2);
        confirmed.remove(1);
        let checker = |rows: u64| {
            let mut checker = Checker::new(1, SIZE, 2, confirmed.clone());
            for number in 0..rows {
                checker.row(Some(&body::key(number)), &body::one(1, number, SIZE));
            }
            checker.finish()
        };
        assert!(checker(1).is_clean());
        assert!(checker(2).is_clean());
        assert!(!checker(0).is_clean());
    }
}
