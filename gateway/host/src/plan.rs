//! Is a plan whole? Each row must be in exactly one command or failure.
//!
//! Invariant: a plan that would send a row twice, forget one, or name one that is not there is refused
//! before its first byte is sent. The cost depends on the runs of rows in the plan, not on the rows.

use crate::wit::types::Rows;

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanFault {
    /// A run without rows.
    #[error("it names an empty run of rows at {first}; a run has at least one row")]
    Empty {
        /// Where.
        first: u32,
    },
    /// A run that ends after the batch.
    #[error("it names rows {first} to {last} of a batch that has only {count}")]
    NoSuchRow {
        /// First row of the run.
        first: u32,
        /// Last row of the run.
        last: u64,
        /// Rows of the batch.
        count: u32,
    },
    /// A row in two places.
    #[error("it puts row {row} in two places; each row belongs in exactly one command or failure")]
    Twice {
        /// The first such row.
        row: u32,
    },
    /// A row in no place.
    #[error("it leaves out row {row}; each row belongs in exactly one command or failure")]
    Missing {
        /// The first such row.
        row: u32,
    },
}

/// Checks a plan's runs, those of commands and of failures together, against a batch of `count` rows.
pub(crate) fn check(count: u32, runs: impl Iterator<Item = Rows>) -> Result<(), PlanFault> {
    let mut runs: Vec<(u32, u32)> = runs.map(|rows| (rows.first, rows.count)).collect();
    runs.sort_unstable();
    let mut next = 0;
    for (first, length) in runs {
        let end = end_of(first, length, count)?;
        if first < next {
            return Err(PlanFault::Twice { row: first });
        }
        if first > next {
            return Err(PlanFault::Missing { row: next });
        }
        next = end;
    }
    if next < count {
        return Err(PlanFault::Missing { row: next });
    }
    Ok(())
}

fn end_of(first: u32, length: u32, count: u32) -> Result<u32, PlanFault> {
    if length == 0 {
        return Err(PlanFault::Empty { first });
    }
    match first.checked_add(length) {
        Some(end) if end <= count => Ok(end),
        _ => Err(PlanFault::NoSuchRow {
            first,
            last: u64::from(first) + u64::from(length) - 1,
            count,
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn checked(count: u32, runs: &[(u32, u32)]) -> Result<(), PlanFault> {
        check(
            count,
            runs.iter().map(|&(first, count)| Rows { first, count }),
        )
    }

    #[test]
    fn a_plan_is_whole_when_its_runs_cover_the_batch_in_any_order() {
        assert_eq!(checked(10, &[(0, 10)]), Ok(()));
        assert_eq!(checked(10, &[(7, 3), (0, 2), (2, 5)]), Ok(()));
    }

    #[test]
    fn a_row_in_two_places_is_named() {
        assert_eq!(
            checked(10, &[(0, 6), (5, 5)]),
            Err(PlanFault::Twice { row: 5 })
        );
        assert_eq!(
            checked(2, &[(0, 1), (0, 1), (1, 1)]),
            Err(PlanFault::Twice { row: 0 })
        );
    }

    #[test]
    fn a_row_in_no_place_is_named() {
        assert_eq!(checked(3, &[]), Err(PlanFault::Missing { row: 0 }));
        assert_eq!(
            checked(3, &[(0, 1), (2, 1)]),
            Err(PlanFault::Missing { row: 1 })
        );
        assert_eq!(checked(3, &[(0, 2)]), Err(PlanFault::Missing { row: 2 }));
    }

    #[test]
    fn rows_that_do_not_exist_are_named_even_where_numbers_overflow() {
        assert_eq!(
            checked(3, &[(0, 4)]),
            Err(PlanFault::NoSuchRow {
                first: 0,
                last: 3,
                count: 3
            })
        );
        assert_eq!(
            checked(3, &[(u32::MAX, u32::MAX)]),
            Err(PlanFault::NoSuchRow {
                first: u32::MAX,
                last: u64::from(u32::MAX) * 2 - 1,
                count: 3
            })
        );
    }

    #[test]
    fn an_empty_run_is_a_fault() {
        assert_eq!(
            checked(3, &[(0, 3), (3, 0)]),
            Err(PlanFault::Empty { first: 3 })
        );
    }

    proptest! {
        #[test]
        fn a_plan_holds_exactly_when_every_row_is_counted_once(
            count in 1_u32..12,
            runs in vec((0_u32..14, 0_u32..14), 0..5),
        ) {
            let mut times = [0; 32];
            for &(first, length) in &runs {
                for row in first..first + length {
                    times[row as usize] += 1;
                }
            }
            let whole = runs.iter().all(|run| run.1 > 0)
                && (0..32).all(|row| times[row as usize] == u32::from(row < count));
            prop_assert_eq!(checked(count, &runs).is_ok(), whole);
        }
    }
}
