//! A broker in memory that misbehaves.
//!
//! It applies what it is sent in the order in which it is sent, on one path, as a broker that keeps the
//! order of keys does; what it answers, and when, is another matter.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::time::Duration;

use sluicegate_core::{Batch, Failure, FailureClass, Row};

use super::setting::Faults;
use crate::rng::Rng;

/// An atomic broker refuses each message whose number this divides.
const POISON: u64 = 23;

/// What is said of a batch, and when.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) after: Duration,
    pub(super) said: Said,
}

#[derive(Debug)]
pub(super) enum Said {
    Confirmed(Range<u32>),
    Failed(Range<u32>, Failure),
    Unknown(Range<u32>, Failure),
    Isolate(Range<u32>, Failure),
    Reopen,
    /// The last handle is dropped.
    Closed {
        sent: bool,
    },
}

#[derive(Debug, Default)]
pub(super) struct Store {
    /// Where each stored message is in the order of all.
    pub(super) places: HashMap<u64, u64>,
    next: u64,
    /// Messages stored more than once.
    pub(super) duplicates: HashSet<u64>,
}

impl Store {
    fn put(&mut self, row: &Row, deduplicates: bool) {
        let number = number(row);
        self.next += 1;
        if self.places.contains_key(&number) {
            if !(deduplicates && row.message.id().is_some()) {
                self.duplicates.insert(number);
            }
            return;
        }
        self.places.insert(number, self.next);
    }
}

/// The number that a client gave its message.
pub(super) fn number(row: &Row) -> u64 {
    let body = row.message.body.as_deref().unwrap_or_default();
    let bytes = body.first_chunk().copied().unwrap_or_default();
    u64::from_le_bytes(bytes)
}

fn chance(rng: &mut Rng, percent: u64) -> bool {
    rng.below(100) < percent
}

fn delay(rng: &mut Rng, faults: Faults) -> Duration {
    if chance(rng, faults.slow) {
        Duration::from_millis(rng.below(40_000))
    } else {
        Duration::from_micros(rng.below(20_000))
    }
}

fn failure(retryable: bool) -> Failure {
    Failure {
        retryable,
        ..Failure::fatal(FailureClass::Rejected, "simulated")
    }
}

/// Applies a batch, and says what its connection will be told.
pub(super) fn take(batch: &Batch, store: &mut Store, faults: Faults, rng: &mut Rng) -> Vec<Answer> {
    let rows = u32::try_from(batch.rows.len()).unwrap_or(0);
    let deduplicates = batch.destination.starts_with("dedup");
    let atomic = batch.destination.ends_with('a') && rng.below(2) == 0;
    let poison = |row: &Row| number(row).is_multiple_of(POISON);
    let mut answers = Vec::new();
    let mut last = Duration::ZERO;
    let mut sent = true;
    let mut at = 0;
    while at < rows {
        let left = u64::from(rows - at);
        let count = if atomic { left } else { 1 + rng.below(left) };
        let piece = at..at + u32::try_from(count).unwrap_or(1);
        at = piece.end;
        let places =
            usize::try_from(piece.start).unwrap_or(0)..usize::try_from(piece.end).unwrap_or(0);
        let slice = batch.rows.get(places).unwrap_or_default();
        let after = delay(rng, faults);
        let mut put = |all: bool| {
            for row in slice.iter().filter(|_| all) {
                store.put(row, deduplicates);
            }
        };
        let said = if atomic && slice.iter().any(poison) {
            // A trap in `plan` is reported in the same way, and nothing was sent.
            sent &= rng.below(2) == 0;
            Some(Said::Isolate(piece, failure(rng.below(4) == 0)))
        } else if chance(rng, faults.isolate) {
            Some(Said::Isolate(piece, failure(rng.below(4) == 0)))
        } else if chance(rng, faults.fail) {
            Some(Said::Failed(piece, failure(rng.below(4) > 0)))
        } else if chance(rng, faults.lose) {
            put(rng.below(2) == 0);
            (rng.below(2) == 0).then(|| Said::Unknown(piece, failure(true)))
        } else {
            put(true);
            Some(Said::Confirmed(piece))
        };
        // Without a word rows are unknown, if something was sent.
        last = last.max(after);
        answers.extend(said.map(|said| Answer { after, said }));
    }
    let stored = batch
        .rows
        .iter()
        .any(|row| store.places.contains_key(&number(row)));
    let said_all = answers
        .iter()
        .any(|answer| !matches!(answer.said, Said::Isolate(..)));
    sent |= stored || said_all;
    if rows > 1 && chance(rng, faults.nonsense) {
        // Rows that do not exist, and a verdict too many: after the first, which stands.
        answers.push(Answer {
            after: last,
            said: Said::Confirmed(rows..rows + 2),
        });
        let confirmed = answers.iter().find_map(|answer| match &answer.said {
            Said::Confirmed(piece) if piece.end <= rows => Some(piece.clone()),
            _ => None,
        });
        answers.extend(confirmed.map(|piece| Answer {
            after: last + Duration::from_micros(1),
            said: Said::Failed(piece, failure(true)),
        }));
        last += Duration::from_micros(2);
    }
    if chance(rng, faults.reopen) {
        let after = delay(rng, faults);
        answers.push(Answer {
            after,
            said: Said::Reopen,
        });
        last = last.max(after);
    }
    let slack = Duration::from_micros(rng.below(2_000));
    answers.push(Answer {
        after: last + slack,
        said: Said::Closed { sent },
    });
    answers
}
