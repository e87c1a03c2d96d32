//! Row numbers and runs of them.
//!
//! Everything that an adapter says, it says about runs of rows: a batch of ten thousand that goes well is
//! one run.

use std::ops::Range;

use crate::{Batch, Rows};

impl Rows {
    /// All rows of a batch.
    #[must_use]
    pub fn all(batch: &Batch) -> Self {
        Self {
            first: 0,
            count: batch.count,
        }
    }

    /// One row.
    #[must_use]
    pub fn one(row: u32) -> Self {
        Self {
            first: row,
            count: 1,
        }
    }

    /// The row numbers.
    #[must_use]
    pub fn range(self) -> Range<u32> {
        self.first..self.first.saturating_add(self.count)
    }
}

impl From<u32> for Rows {
    fn from(row: u32) -> Self {
        Self::one(row)
    }
}

/// The runs of rows of `0..count` that are not in `excluded`, which must be ascending.
///
/// What is left of a batch when some of its rows were refused.
pub fn ranges(count: u32, excluded: impl IntoIterator<Item = u32>) -> impl Iterator<Item = Rows> {
    let mut excluded = excluded.into_iter().filter(move |row| *row < count);
    let mut next = 0;
    std::iter::from_fn(move || {
        while next < count {
            let first = next;
            let end = excluded.next().unwrap_or(count).max(first);
            next = end.saturating_add(1);
            if end > first {
                return Some(Rows {
                    first,
                    count: end - first,
                });
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;

    fn runs(count: u32, excluded: &[u32]) -> Vec<(u32, u32)> {
        ranges(count, excluded.iter().copied())
            .map(|rows| (rows.first, rows.count))
            .collect()
    }

    #[test]
    fn without_exclusions_all_rows_are_one_run() {
        assert_eq!(runs(5, &[]), [(0, 5)]);
    }

    #[test]
    fn excluded_rows_at_the_ends_and_side_by_side_leave_no_empty_run() {
        assert_eq!(runs(6, &[0, 2, 3, 5]), [(1, 1), (4, 1)]);
    }

    #[test]
    fn a_batch_that_is_refused_whole_has_no_run() {
        assert_eq!(runs(3, &[0, 1, 2]), []);
    }

    proptest! {
        #[test]
        fn each_row_is_either_excluded_or_in_exactly_one_run(
            count in 0_u32..50,
            excluded in btree_set(0_u32..60, 0..40),
        ) {
            let mut seen = Vec::new();
            for run in ranges(count, excluded.iter().copied()) {
                seen.extend(run.range());
            }
            let expected: Vec<u32> = (0..count).filter(|row| !excluded.contains(row)).collect();
            prop_assert_eq!(seen, expected);
        }
    }
}
