//! Where destinations are: the adapter's own notes, by the number that batches carry.
//!
//! Invariant: a batch never gets another destination's note. Numbers are reused once the table is full, so a
//! batch must name the destination that its number stands for; one that does not is to be opened again.

use std::sync::Arc;

/// Destinations that a connection remembers. Where names come from a pattern, clients choose how many there
/// are; past this the one that was idle longest is forgotten, and opened again if it comes back.
const REMEMBERED: usize = 65_536;

#[derive(Debug, Default)]
pub(crate) struct Places {
    places: Vec<Place>,
    /// Counts uses, to tell which place was idle longest.
    clock: u64,
}

#[derive(Debug)]
struct Place {
    destination: Arc<str>,
    note: Vec<u8>,
    used: u64,
}

impl Places {
    /// Takes a note down and gives its number.
    pub(crate) fn put(&mut self, destination: &Arc<str>, note: Vec<u8>) -> u32 {
        self.put_within(REMEMBERED, destination, note)
    }

    fn put_within(&mut self, limit: usize, destination: &Arc<str>, note: Vec<u8>) -> u32 {
        self.clock += 1;
        let place = Place {
            destination: destination.clone(),
            note,
            used: self.clock,
        };
        let known = self
            .places
            .iter()
            .position(|place| place.destination == *destination);
        let number = known.or_else(|| {
            let oldest = || {
                self.places
                    .iter()
                    .enumerate()
                    .min_by_key(|(_, place)| place.used)
            };
            (self.places.len() >= limit)
                .then(oldest)
                .flatten()
                .map(|(number, _)| number)
        });
        let number = match number.and_then(|number| Some((number, self.places.get_mut(number)?))) {
            Some((number, slot)) => {
                *slot = place;
                number
            }
            None => {
                self.places.push(place);
                self.places.len() - 1
            }
        };
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    /// The note for a batch, unless its number stands for another destination by now.
    pub(crate) fn get(&mut self, number: u32, destination: &str) -> Option<&[u8]> {
        self.clock += 1;
        let place = self.places.get_mut(number as usize)?;
        if *place.destination != *destination {
            return None;
        }
        place.used = self.clock;
        Some(&place.note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_keeps_its_number_when_it_is_opened_again() {
        let mut places = Places::default();
        let (a, b) = (Arc::from("a"), Arc::from("b"));
        let first = places.put(&a, vec![1]);
        let second = places.put(&b, vec![2]);
        assert_ne!(first, second);
        assert_eq!(places.put(&a, vec![3]), first);
        assert_eq!(places.get(first, "a"), Some(&[3][..]));
    }

    #[test]
    fn a_full_table_forgets_the_destination_that_was_idle_longest() {
        let mut places = Places::default();
        let names: Vec<Arc<str>> = ["a", "b", "c"].into_iter().map(Arc::from).collect();
        let a = places.put_within(2, &names[0], vec![1]);
        let b = places.put_within(2, &names[1], vec![2]);
        places.get(a, "a").unwrap();
        let c = places.put_within(2, &names[2], vec![3]);
        assert_eq!(c, b, "b was idle longest");
        assert_eq!(places.get(b, "b"), None, "its number is c's by now");
        assert_eq!(places.get(c, "c"), Some(&[3][..]));
        assert_eq!(places.get(a, "a"), Some(&[1][..]));
    }
}
