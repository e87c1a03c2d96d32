//! Verdicts of one scope that its client has not taken yet.
//!
//! **A client that reads late costs ranges, not rows**: confirmed rows are kept as coalesced ranges
//! however many they are. What grows with the rows (failures, receipts) is counted in bytes, for the
//! stream's budget of unread results.

use std::ops::Range;

use sluicegate_core::{Failure, Receipt};

use crate::Results;

/// What a range of confirmed rows is charged and costs on the wire, generously.
const RANGE_BYTES: usize = 24;

/// What a failure or receipt is charged on top of its texts: row number, class, lengths.
const ENTRY_BYTES: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Pending {
    results: Results,
    bytes: usize,
    /// What of it the stream has been charged.
    charged: usize,
}

impl Pending {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The stream's unread bytes, with what changed here since the last time.
    pub(crate) fn recharge(&mut self, unread: u64) -> u64 {
        let wide = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        let unread = (unread + wide(self.bytes)).saturating_sub(wide(self.charged));
        self.charged = self.bytes;
        unread
    }

    pub(crate) fn confirmed(&mut self, rows: Range<u64>) {
        let before = self.results.confirmed.len();
        insert(&mut self.results.confirmed, rows);
        let after = self.results.confirmed.len();
        self.bytes = (self.bytes + after * RANGE_BYTES).saturating_sub(before * RANGE_BYTES);
    }

    pub(crate) fn failed(&mut self, row: u64, failure: Failure) {
        self.bytes += ENTRY_BYTES + failure.bytes();
        self.results.failed.push((row, failure));
    }

    pub(crate) fn unknown(&mut self, row: u64, reason: Failure) {
        self.bytes += ENTRY_BYTES + reason.bytes();
        self.results.unknown.push((row, reason));
    }

    pub(crate) fn receipt(&mut self, row: u64, receipt: Receipt) {
        self.bytes += ENTRY_BYTES + receipt.len();
        self.results.receipts.push((row, receipt));
    }

    /// Takes up to about `budget` bytes, and at least one entry.
    pub(crate) fn take(&mut self, scope: u64, budget: usize) -> Results {
        if self.bytes <= budget {
            self.bytes = 0;
            let mut all = std::mem::take(&mut self.results);
            all.scope = scope;
            return all;
        }
        let mut taken = 0;
        let mut left = |bytes: usize| {
            let fits = taken == 0 || taken + bytes <= budget;
            taken += bytes;
            fits
        };
        let part = Results {
            scope,
            confirmed: take(&mut self.results.confirmed, |_| left(RANGE_BYTES)),
            failed: take(&mut self.results.failed, |(_, failure)| {
                left(ENTRY_BYTES + failure.bytes())
            }),
            unknown: take(&mut self.results.unknown, |(_, reason)| {
                left(ENTRY_BYTES + reason.bytes())
            }),
            receipts: take(&mut self.results.receipts, |(_, receipt)| {
                left(ENTRY_BYTES + receipt.len())
            }),
        };
        self.bytes = self.bytes.saturating_sub(bytes(&part));
        part
    }
}

fn bytes(results: &Results) -> usize {
    let failures = results.failed.iter().chain(&results.unknown);
    results.confirmed.len() * RANGE_BYTES
        + failures
            .map(|(_, f)| ENTRY_BYTES + f.bytes())
            .sum::<usize>()
        + results
            .receipts
            .iter()
            .map(|(_, r)| ENTRY_BYTES + r.len())
            .sum::<usize>()
}

/// The longest run of entries from the front for which `fits` holds.
fn take<T>(from: &mut Vec<T>, mut fits: impl FnMut(&T) -> bool) -> Vec<T> {
    let count = from
        .iter()
        .position(|entry| !fits(entry))
        .unwrap_or(from.len());
    let rest = from.split_off(count);
    std::mem::replace(from, rest)
}

/// Adds a range to ascending, disjoint, coalesced ranges that do not hold it yet.
fn insert(ranges: &mut Vec<Range<u64>>, rows: Range<u64>) {
    if rows.is_empty() {
        return;
    }
    match ranges.last_mut() {
        Some(last) if last.end == rows.start => {
            last.end = rows.end;
            return;
        }
        Some(last) if last.end > rows.start => {}
        _ => {
            ranges.push(rows);
            return;
        }
    }
    let at = ranges.partition_point(|range| range.end < rows.start);
    let mut merged = rows;
    let mut until = at;
    for range in ranges.iter().skip(at) {
        if range.start > merged.end {
            break;
        }
        merged.start = merged.start.min(range.start);
        merged.end = merged.end.max(range.end);
        until += 1;
    }
    ranges.splice(at..until, [merged]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluicegate_core::FailureClass;

    use super::*;

    proptest! {
        #[test]
        fn ranges_stay_ascending_disjoint_and_coalesced_in_any_order_of_confirmation(
            order in Just((0_u64..40).collect::<Vec<_>>()).prop_shuffle(),
            count in 0_usize..40,
        ) {
            let mut pending = Pending::default();
            let mut rows: Vec<u64> = order.into_iter().take(count).collect();
            for row in &rows {
                pending.confirmed(*row..row + 1);
            }
            let results = pending.take(1, usize::MAX);
            for pair in results.confirmed.windows(2) {
                prop_assert!(pair[0].end < pair[1].start);
            }
            rows.sort_unstable();
            prop_assert_eq!(results.confirmed.into_iter().flatten().collect::<Vec<_>>(), rows);
            prop_assert!(pending.is_empty());
        }

        #[test]
        fn whatever_is_taken_in_pieces_is_what_was_put_in(budget in 1_usize..400, n in 0_u64..30) {
            let mut pending = Pending::default();
            let mut expected = 0;
            for row in 0..n {
                let failure = Failure::fatal(FailureClass::Invalid, "x".repeat(usize::try_from(row).unwrap()));
                match row % 4 {
                    0 => pending.failed(row, failure),
                    1 => pending.unknown(row, failure),
                    2 => pending.confirmed(row..row + 1),
                    _ => pending.receipt(row, Receipt::from_static(b"r")),
                }
                expected += 1;
            }
            let mut got = 0;
            while !pending.is_empty() {
                let part = pending.take(7, budget);
                let entries = part.confirmed.len() + part.failed.len() + part.unknown.len() + part.receipts.len();
                prop_assert!(entries > 0);
                prop_assert_eq!(part.scope, 7);
                got += entries;
            }
            prop_assert_eq!(got, expected);
            prop_assert_eq!(pending.bytes(), 0);
        }
    }
}
