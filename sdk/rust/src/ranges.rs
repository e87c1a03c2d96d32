//! A set of rows, kept as ranges.
//!
//! Verdicts come as ranges and mostly in order, so a scope of a million confirmed rows is one entry.

use std::collections::BTreeMap;
use std::ops::Range;

/// Rows, coalesced.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RangeSet {
    /// End by start; disjoint, and never adjacent.
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// Adds the rows; returns how many of them were not in the set.
    pub(crate) fn insert(&mut self, rows: Range<u64>) -> u64 {
        if rows.is_empty() {
            return 0;
        }
        // The common case: the next rows in order.
        if let Some(mut last) = self.ranges.last_entry()
            && *last.get() == rows.start
        {
            *last.get_mut() = rows.end;
            return rows.end - rows.start;
        }
        let (mut start, mut end) = (rows.start, rows.end);
        let mut known = 0;
        while let Some((&other, &other_end)) = self.ranges.range(..=end).next_back()
            && other_end >= start
        {
            known += other_end
                .min(rows.end)
                .saturating_sub(other.max(rows.start));
            start = start.min(other);
            end = end.max(other_end);
            self.ranges.remove(&other);
        }
        self.ranges.insert(start, end);
        rows.end - rows.start - known
    }

    /// What of `0..rows` is not in the set.
    pub(crate) fn missing(&self, rows: u64) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut next = 0;
        for (&start, &end) in &self.ranges {
            if start.min(rows) > next {
                missing.push(next..start.min(rows));
            }
            next = end;
        }
        if next < rows {
            missing.push(next..rows);
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_in_order_are_one_range() {
        let mut set = RangeSet::default();
        for row in 0..1_000 {
            assert_eq!(set.insert(row..row + 1), 1);
        }
        assert_eq!(set.ranges.len(), 1);
        assert_eq!(set.missing(1_002), vec![1_000..1_002]);
    }

    proptest! {
        #[test]
        fn it_counts_and_misses_what_a_set_of_rows_would(
            inserted in prop::collection::vec((0_u64..60, 0_u64..12), 0..30)
        ) {
            let mut ranges = RangeSet::default();
            let mut rows = BTreeSet::new();
            for (first, count) in inserted {
                let before = rows.len();
                rows.extend(first..first + count);
                let new = u64::try_from(rows.len() - before).unwrap();
                prop_assert_eq!(ranges.insert(first..first + count), new);
            }
            let missing: Vec<u64> = ranges.missing(64).into_iter().flatten().collect();
            let expected: Vec<u64> = (0..64).filter(|row| !rows.contains(row)).collect();
            prop_assert_eq!(missing, expected);
        }
    }
}
