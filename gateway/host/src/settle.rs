//! What a reply means, once the adapter's verdicts make sense.
//!
//! Invariant: a row of the reply gets at most one settlement, a row outside it none, and a row about which
//! the adapter says nothing is `unknown`, never `confirmed`. Contradictory verdicts are worth none at all:
//! whoever says two things about a row cannot be believed in either.

use std::ops::Range;

use bytes::Bytes;
use sluicegate_core::{Failure, FailureClass, Receipt};

use crate::convert;
use crate::wit::types::{BytesColumn, Outcome, Receipts, Rows, Verdict};

/// What became of some rows of a batch, in the engine's words. `rows` are places in the batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Settlement {
    /// The broker said so. The receipts are one a row, or none at all.
    Confirmed(Range<u32>, Vec<Receipt>),
    /// They are not in the broker.
    Failed(Range<u32>, Failure),
    /// They were sent, and nobody knows.
    Unknown(Range<u32>, Failure),
    /// Nothing of them is stored, because of at least one of them.
    Isolate(Range<u32>, Failure),
}

/// What is wrong with verdicts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettleFault {
    /// Rows that it was not asked about.
    #[error(
        "it gives a verdict on rows {first} to {last}; it was asked about {asked_first} to {asked_last}"
    )]
    NotAsked {
        /// First row of the verdict.
        first: u32,
        /// Last row of the verdict.
        last: u64,
        /// First row of the reply.
        asked_first: u32,
        /// Last row of the reply.
        asked_last: u64,
    },
    /// A verdict without rows.
    #[error("it gives a verdict on an empty run of rows at {first}; a run has at least one row")]
    Empty {
        /// Where.
        first: u32,
    },
    /// Two verdicts on one row.
    #[error("it gives two verdicts on row {row}; each row has one")]
    Twice {
        /// The first such row.
        row: u32,
    },
    /// Receipts that do not fit their rows.
    #[error("its receipts do not fit the {rows} rows from {first} on: {reason}")]
    Receipts {
        /// First row of the verdict.
        first: u32,
        /// Rows of the verdict.
        rows: u32,
        /// What does not fit.
        reason: &'static str,
    },
}

/// Checks verdicts on a reply's rows and says them in the engine's words. `receipts`: whether anybody wants
/// them. Rows that no verdict names come back as runs of their own.
pub(crate) fn check(
    asked: Rows,
    mut verdicts: Vec<Verdict>,
    receipts: bool,
) -> Result<(Vec<Settlement>, Vec<Range<u32>>), SettleFault> {
    verdicts.sort_by_key(|verdict| verdict.rows.first);
    let asked = asked.first..asked.first.saturating_add(asked.count);
    let mut settled = Vec::with_capacity(verdicts.len());
    let mut silent = Vec::new();
    let mut next = asked.start;
    for verdict in verdicts {
        let Rows { first, count } = verdict.rows;
        if count == 0 {
            return Err(SettleFault::Empty { first });
        }
        let end = match first.checked_add(count) {
            Some(end) if first >= asked.start && end <= asked.end => end,
            _ => {
                return Err(SettleFault::NotAsked {
                    first,
                    last: u64::from(first) + u64::from(count) - 1,
                    asked_first: asked.start,
                    asked_last: u64::from(asked.end).saturating_sub(1),
                });
            }
        };
        if first < next {
            return Err(SettleFault::Twice { row: first });
        }
        if first > next {
            silent.push(next..first);
        }
        next = end;
        settled.push(settlement(verdict, first..end, receipts)?);
    }
    if next < asked.end {
        silent.push(next..asked.end);
    }
    Ok((settled, silent))
}

/// Nobody knows about the rows, and the adapter is to blame.
pub(crate) fn unknown(rows: Range<u32>, reason: String) -> Settlement {
    Settlement::Unknown(rows, Failure::fatal(FailureClass::AdapterFault, reason))
}

fn settlement(verdict: Verdict, rows: Range<u32>, wanted: bool) -> Result<Settlement, SettleFault> {
    Ok(match verdict.outcome {
        Outcome::Confirmed(receipts) => {
            let receipts = if wanted {
                texts(receipts, &rows)?
            } else {
                Vec::new()
            };
            Settlement::Confirmed(rows, receipts)
        }
        Outcome::Failed(failure) => Settlement::Failed(rows, convert::failure(failure)),
        Outcome::Unknown(failure) => Settlement::Unknown(rows, convert::failure(failure)),
        Outcome::Isolate(failure) => Settlement::Isolate(rows, convert::failure(failure)),
    })
}

/// One receipt a row; all of them are slices of one buffer.
fn texts(receipts: Receipts, rows: &Range<u32>) -> Result<Vec<Receipt>, SettleFault> {
    let column = match receipts {
        Receipts::None => return Ok(Vec::new()),
        Receipts::Sequence(first) => sequence(first, rows.len()),
        Receipts::Texts(column) => column,
    };
    let fault = |reason| SettleFault::Receipts {
        first: rows.start,
        rows: rows.end - rows.start,
        reason,
    };
    if column.ends.len() != rows.len() {
        return Err(fault("there is not one for each row"));
    }
    if std::str::from_utf8(&column.data).is_err() {
        return Err(fault("they are not UTF-8"));
    }
    let data = Bytes::from(column.data);
    let mut start = 0;
    column
        .ends
        .into_iter()
        .map(|end| {
            let end = end as usize;
            if start > end || end > data.len() {
                return Err(fault("one ends where it cannot"));
            }
            let text = data.slice(start..end);
            start = end;
            Ok(text)
        })
        .collect()
}

fn sequence(first: i64, count: usize) -> BytesColumn {
    use std::io::Write as _;

    // As many bytes as a rowid of a well-filled table has digits.
    let mut data = Vec::with_capacity(count * 8);
    let mut ends = Vec::with_capacity(count);
    let mut number = first;
    for _ in 0..count {
        // Writing to a vector cannot fail.
        let _ = write!(data, "{number}");
        ends.push(u32::try_from(data.len()).unwrap_or(u32::MAX));
        number = number.wrapping_add(1);
    }
    BytesColumn { data, ends }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wit::types;

    const ASKED: Rows = Rows {
        first: 10,
        count: 10,
    };

    fn confirmed(first: u32, count: u32) -> Verdict {
        verdict(first, count, Outcome::Confirmed(Receipts::None))
    }

    fn verdict(first: u32, count: u32, outcome: Outcome) -> Verdict {
        Verdict {
            rows: Rows { first, count },
            outcome,
        }
    }

    fn failure() -> types::Failure {
        types::Failure {
            class: types::FailureClass::Rejected,
            retryable: false,
            code: "7".into(),
            reason: "no".into(),
        }
    }

    #[test]
    fn every_outcome_is_said_in_the_engines_words() {
        let verdicts = vec![
            verdict(16, 4, Outcome::Isolate(failure())),
            confirmed(10, 2),
            verdict(12, 1, Outcome::Failed(failure())),
            verdict(13, 3, Outcome::Unknown(failure())),
        ];
        let core = || Failure::fatal(FailureClass::Rejected, "no").with_code("7");
        assert_eq!(
            check(ASKED, verdicts, false),
            Ok((
                vec![
                    Settlement::Confirmed(10..12, vec![]),
                    Settlement::Failed(12..13, core()),
                    Settlement::Unknown(13..16, core()),
                    Settlement::Isolate(16..20, core()),
                ],
                vec![]
            ))
        );
    }

    #[test]
    fn rows_without_a_verdict_are_listed_wherever_they_are() {
        let (settled, silent) =
            check(ASKED, vec![confirmed(11, 2), confirmed(15, 1)], false).unwrap();
        assert_eq!(settled.len(), 2);
        assert_eq!(silent, [10..11, 13..15, 16..20]);

        let (settled, silent) = check(ASKED, vec![], false).unwrap();
        assert_eq!((settled.len(), silent.len()), (0, 1));
        assert_eq!(silent[0], 10..20);
    }

    #[test]
    fn two_verdicts_on_a_row_are_a_fault_even_if_they_agree() {
        assert_eq!(
            check(ASKED, vec![confirmed(10, 5), confirmed(14, 6)], false),
            Err(SettleFault::Twice { row: 14 })
        );
    }

    #[test]
    fn a_verdict_on_rows_outside_the_reply_is_a_fault() {
        for (first, count) in [(9, 2), (19, 2), (20, 1), (u32::MAX, u32::MAX)] {
            assert!(
                matches!(
                    check(ASKED, vec![confirmed(first, count)], false),
                    Err(SettleFault::NotAsked { .. })
                ),
                "{first}, {count}"
            );
        }
        assert_eq!(
            check(ASKED, vec![confirmed(12, 0)], false),
            Err(SettleFault::Empty { first: 12 })
        );
    }

    #[test]
    fn a_sequence_numbers_its_rows() {
        let verdicts = vec![verdict(10, 10, Outcome::Confirmed(Receipts::Sequence(95)))];
        let (settled, _) = check(ASKED, verdicts, true).unwrap();
        let [Settlement::Confirmed(rows, receipts)] = &settled[..] else {
            panic!("{settled:?}");
        };
        assert_eq!(rows, &(10..20));
        let expected: Vec<String> = (95..105).map(|number| number.to_string()).collect();
        assert_eq!(receipts, &expected);
    }

    #[test]
    fn receipts_that_do_not_fit_are_a_fault_when_anybody_wants_them() {
        let column = |data: &[u8], ends: &[u32]| {
            let column = BytesColumn {
                data: data.to_vec(),
                ends: ends.to_vec(),
            };
            vec![verdict(10, 2, Outcome::Confirmed(Receipts::Texts(column)))]
        };
        let good = check(ASKED, column(b"0@10@2", &[3, 6]), true).unwrap().0;
        assert_eq!(
            good,
            [Settlement::Confirmed(
                10..12,
                vec!["0@1".into(), "0@2".into()]
            )]
        );
        for (data, ends) in [
            (&b"ab"[..], &[1][..]),
            (b"ab", &[2, 1]),
            (b"ab", &[1, 3]),
            (b"\xff\xff", &[1, 2]),
        ] {
            assert!(
                matches!(
                    check(ASKED, column(data, ends), true),
                    Err(SettleFault::Receipts { .. })
                ),
                "{data:?} {ends:?}"
            );
            assert!(check(ASKED, column(data, ends), false).is_ok());
        }
    }
}
