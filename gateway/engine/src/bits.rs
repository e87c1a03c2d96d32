//! A set of row places within one batch.
//!
//! Ranges are set a word at a time, so that confirming a batch of ten thousand rows costs some
//! hundred operations.

use std::ops::Range;

const WORD: u32 = u64::BITS;

#[derive(Clone, Debug, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
}

impl Bits {
    pub(crate) fn new(len: u32) -> Self {
        let words = usize::try_from(len.div_ceil(WORD)).unwrap_or(0);
        Self {
            words: vec![0; words],
        }
    }

    pub(crate) fn get(&self, place: u32) -> bool {
        let word = usize::try_from(place / WORD)
            .ok()
            .and_then(|word| self.words.get(word));
        word.is_some_and(|word| word >> (place % WORD) & 1 == 1)
    }

    pub(crate) fn set(&mut self, places: Range<u32>) {
        self.each_word(places, |word, mask| *word |= mask);
    }

    /// Whether none of the places is in the set.
    pub(crate) fn none(&self, places: Range<u32>) -> bool {
        let mut at = places.start;
        while at < places.end {
            let (mask, next) = mask(at, places.end);
            let word = usize::try_from(at / WORD)
                .ok()
                .and_then(|word| self.words.get(word));
            if word.is_some_and(|word| word & mask != 0) {
                return false;
            }
            at = next;
        }
        true
    }

    fn each_word(&mut self, places: Range<u32>, mut apply: impl FnMut(&mut u64, u64)) {
        let mut at = places.start;
        while at < places.end {
            let (mask, next) = mask(at, places.end);
            let word = usize::try_from(at / WORD)
                .ok()
                .and_then(|word| self.words.get_mut(word));
            if let Some(word) = word {
                apply(word, mask);
            }
            at = next;
        }
    }
}

/// The bits of the word that `at` is in, from `at` to before `end`, and where the next word begins.
fn mask(at: u32, end: u32) -> (u64, u32) {
    let low = at % WORD;
    let count = (end - at).min(WORD - low);
    let ones = if count == WORD {
        u64::MAX
    } else {
        (1 << count) - 1
    };
    (ones << low, at + count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_of_places_is_a_set_of_places(
            ranges in prop::collection::vec((0_u32..300, 0_u32..100), 0..12),
            probe in (0_u32..300, 0_u32..100),
        ) {
            let mut bits = Bits::new(300);
            let mut model = std::collections::HashSet::new();
            for (start, len) in ranges {
                let range = start..(start + len).min(300);
                bits.set(range.clone());
                model.extend(range);
            }
            for place in 0..300 {
                prop_assert_eq!(bits.get(place), model.contains(&place));
            }
            let probe = probe.0..(probe.0 + probe.1).min(300);
            prop_assert_eq!(bits.none(probe.clone()), probe.into_iter().all(|p| !model.contains(&p)));
        }
    }
}
