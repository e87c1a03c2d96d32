//! A scope's rows: which were published, which have their verdicts, who waits for them.
//!
//! **Each row ends with exactly one verdict**, also when the stream is lost: whatever is not settled
//! then becomes `unknown`. Verdicts are kept as they come, as ranges; nothing is kept for a row.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;

use sluicegate_proto::v1;
use tokio::sync::oneshot;

use crate::credit::Credit;
use crate::ranges::RangeSet;
use crate::verdict::{Failure, RowFailure, Summary, Verdict, Verdicts};

/// A caller that waits for the verdict of its one message.
pub(crate) type Caller = oneshot::Sender<Verdict>;

/// Callers and what they are to be told once the lock is released.
pub(crate) type Answers = Vec<(Caller, Verdict)>;

/// What the client knows of one scope.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    published: u64,
    settled: RangeSet,
    confirmed: u64,
    failed: u64,
    unknown: u64,
    /// Which destination's credit the rows hold, oldest first.
    runs: VecDeque<Run>,
    /// Verdicts that nobody has taken.
    pending: Verdicts,
    /// In the scope of single messages: who waits, by row, from `callers_base` on.
    callers: VecDeque<Option<Caller>>,
    callers_base: u64,
    /// Flushes asked for, and the latest that was answered.
    flushes: u64,
    flushed: u64,
    /// CloseScope or AbortScope was sent.
    pub(crate) finished: bool,
    /// Nobody will ask any more.
    pub(crate) abandoned: bool,
    /// No verdict will come any more.
    pub(crate) done: bool,
    /// The gateway's own counts, in ScopeDone.
    counted: Option<(u64, u64, u64)>,
    wakers: Vec<Waker>,
}

/// Rows one after the other for the same destination.
#[derive(Debug)]
struct Run {
    first: u64,
    end: u64,
    destination: usize,
    /// Of its rows without a verdict.
    held_rows: u64,
    held_bytes: u64,
}

impl Rows {
    /// The next row's number.
    pub(crate) fn published(&self) -> u64 {
        self.published
    }

    /// The destination of the last row, which the next one probably has as well.
    pub(crate) fn last_destination(&self) -> usize {
        self.runs.back().map_or(0, |run| run.destination)
    }

    /// Messages were sent.
    pub(crate) fn publish(&mut self, destination: usize, rows: u64, bytes: u64) {
        let first = self.published;
        self.published += rows;
        match self.runs.back_mut() {
            Some(run) if run.destination == destination => {
                run.end += rows;
                run.held_rows += rows;
                run.held_bytes += bytes;
            }
            _ => self.runs.push_back(Run {
                first,
                end: first + rows,
                destination,
                held_rows: rows,
                held_bytes: bytes,
            }),
        }
    }

    /// Who waits for the row that was published last.
    pub(crate) fn call(&mut self, caller: Caller) {
        if self.callers.is_empty() {
            self.callers_base = self.published.saturating_sub(1);
        }
        self.callers.push_back(Some(caller));
    }

    /// Takes what the gateway sent.
    pub(crate) fn results(
        &mut self,
        results: v1::Results,
        credit: &mut Credit,
        answers: &mut Answers,
    ) {
        for range in results.confirmed {
            let end = range.first.saturating_add(range.count).min(self.published);
            let rows = range.first..end.max(range.first);
            self.confirmed += self.settle(rows.clone(), credit);
            if self.callers.is_empty() {
                self.pending.confirm(rows);
            } else {
                self.answer(rows, &Verdict::Confirmed, answers);
            }
        }
        for failed in results.failed {
            let failure = Failure::from_protocol(failed.failure);
            self.failed += self.fail(failed.row, &Verdict::Failed(failure), credit, answers);
        }
        for unknown in results.unknown {
            let failure = Failure::from_protocol(unknown.failure);
            self.unknown += self.fail(unknown.row, &Verdict::Unknown(failure), credit, answers);
        }
        self.pending.receipts.extend(
            results
                .receipts
                .into_iter()
                .map(|receipt| (receipt.row, receipt.receipt)),
        );
        if self.abandoned {
            self.pending = Verdicts::default();
        }
    }

    fn fail(
        &mut self,
        row: u64,
        verdict: &Verdict,
        credit: &mut Credit,
        answers: &mut Answers,
    ) -> u64 {
        let new = self.settle(row..row.saturating_add(1).min(self.published), credit);
        if new > 0 {
            self.answer(row..row + 1, verdict, answers);
        }
        new
    }

    /// Hands a verdict to whoever waits for it, or keeps it.
    fn answer(&mut self, rows: Range<u64>, verdict: &Verdict, answers: &mut Answers) {
        for row in rows {
            let caller = row
                .checked_sub(self.callers_base)
                .and_then(|index| usize::try_from(index).ok())
                .and_then(|index| self.callers.get_mut(index))
                .and_then(Option::take);
            match (caller, verdict) {
                (Some(caller), _) => answers.push((caller, verdict.clone())),
                (None, Verdict::Confirmed) => self.pending.confirm(row..row + 1),
                (None, Verdict::Failed(failure)) => self.pending.failed.push(RowFailure {
                    row,
                    failure: Arc::clone(failure),
                }),
                (None, Verdict::Unknown(failure)) => self.pending.unknown.push(RowFailure {
                    row,
                    failure: Arc::clone(failure),
                }),
            }
        }
        while let Some(None) = self.callers.front() {
            self.callers.pop_front();
            self.callers_base += 1;
        }
    }

    /// Gives back the credit of the rows; returns how many had no verdict before.
    fn settle(&mut self, rows: Range<u64>, credit: &mut Credit) -> u64 {
        let new = self.settled.insert(rows.clone());
        if new == 0 {
            return 0;
        }
        let from = self.runs.partition_point(|run| run.end <= rows.start);
        for run in self.runs.range_mut(from..) {
            if run.first >= rows.end {
                break;
            }
            let overlap = run.end.min(rows.end) - run.first.max(rows.start);
            let settled = overlap.min(run.held_rows);
            if settled == 0 {
                continue;
            }
            // A row's bytes are not known: its run's average is what it gives back.
            let bytes = share(run.held_bytes, settled, run.held_rows);
            run.held_rows -= settled;
            run.held_bytes -= bytes;
            credit.settle(run.destination, settled, bytes);
        }
        while self.runs.front().is_some_and(|run| run.held_rows == 0) {
            self.runs.pop_front();
        }
        new
    }

    /// Begins a flush; returns its token.
    pub(crate) fn flush(&mut self) -> u64 {
        self.flushes += 1;
        self.flushes
    }

    pub(crate) fn flushed(&mut self, token: u64) {
        self.flushed = self.flushed.max(token);
    }

    /// Whether all rows before the flush have their verdicts.
    pub(crate) fn is_flushed(&self, token: u64) -> bool {
        self.flushed >= token || self.done
    }

    /// The gateway says that the scope is over.
    pub(crate) fn finish(&mut self, done: v1::ScopeDone) {
        self.counted = Some((done.confirmed, done.failed, done.unknown));
        self.done = true;
    }

    /// The stream is gone: what has no verdict is unknown.
    pub(crate) fn lose(&mut self, failure: &Arc<Failure>, answers: &mut Answers) {
        self.done = true;
        let verdict = Verdict::Unknown(Arc::clone(failure));
        for rows in self.settled.missing(self.published) {
            self.unknown += rows.end - rows.start;
            self.settled.insert(rows.clone());
            self.answer(rows, &verdict, answers);
        }
        self.runs.clear();
        if self.abandoned {
            self.pending = Verdicts::default();
        }
    }

    /// The gateway's counts and one's own, when they differ.
    pub(crate) fn miscounted(&self) -> Option<(String, String)> {
        let own = (self.confirmed, self.failed, self.unknown);
        let text = |(confirmed, failed, unknown): (u64, u64, u64)| {
            format!("{confirmed} confirmed, {failed} failed, {unknown} unknown")
        };
        let complete = self.confirmed + self.failed + self.unknown == self.published;
        self.counted
            .filter(|counted| *counted != own || !complete)
            .map(|counted| (text(counted), text(own)))
    }

    /// Verdicts that nobody has taken, if there are any.
    pub(crate) fn take_verdicts(&mut self) -> Option<Verdicts> {
        (!self.pending.is_empty()).then(|| std::mem::take(&mut self.pending))
    }

    /// The counts, and the details that nobody has taken.
    pub(crate) fn summary(&mut self) -> Summary {
        let pending = std::mem::take(&mut self.pending);
        Summary {
            confirmed: self.confirmed,
            failed: self.failed,
            unknown: self.unknown,
            failures: pending.failed,
            unknowns: pending.unknown,
            receipts: pending.receipts,
        }
    }

    /// Wakes a task when something changes.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        if !self.wakers.iter().any(|known| known.will_wake(waker)) {
            self.wakers.push(waker.clone());
        }
    }

    pub(crate) fn take_wakers(&mut self, wakers: &mut Vec<Waker>) {
        wakers.append(&mut self.wakers);
    }
}

/// `part` of `whole`'s share of an amount; all of it when the whole is meant.
fn share(amount: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(amount) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(amount)
}

#[cfg(test)]
mod tests;
