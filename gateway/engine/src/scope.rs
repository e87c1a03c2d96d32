//! One unit of the application's work.
//!
//! **A scope is over when it takes no more rows and each of its rows has a verdict**; its counts then
//! add up to the rows that were published to it.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use crate::ScopeOptions;
use crate::ledger::Counts;
use crate::pending::Pending;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// Takes no more rows.
    Closed,
    /// Takes no more rows, and what is unsent fails.
    Aborted,
}

#[derive(Debug)]
pub(crate) struct Scope {
    /// The client's own number.
    pub(crate) id: u64,
    pub(crate) stream: usize,
    pub(crate) options: ScopeOptions,
    /// From acceptance to verdict.
    pub(crate) timeout: Duration,
    pub(crate) phase: Phase,
    pub(crate) next_row: u64,
    pub(crate) unsettled: u64,
    /// Rows in flight; counted only where confirmation is not deferred.
    pub(crate) flying: u64,
    pub(crate) counts: Counts,
    pub(crate) pending: Pending,
    marks: VecDeque<Mark>,
    /// Tokens of flushes whose rows have all settled.
    pub(crate) flushed: VecDeque<u64>,
    /// Whether it is in its stream's list of scopes with something to tell.
    pub(crate) listed: bool,
    /// Lanes that hold a row until nothing of the scope is in flight.
    pub(crate) blocked: Vec<usize>,
}

/// A flush that waits for rows.
#[derive(Debug)]
struct Mark {
    token: u64,
    /// The first row that the flush does not wait for.
    end: u64,
    /// Rows before `end`, and not before the end of the mark before, without a verdict.
    waiting: u64,
}

impl Scope {
    pub(crate) fn new(id: u64, stream: usize, options: ScopeOptions, timeout: Duration) -> Self {
        Self {
            id,
            stream,
            options,
            timeout,
            phase: Phase::Open,
            next_row: 0,
            unsettled: 0,
            flying: 0,
            counts: Counts::default(),
            pending: Pending::default(),
            marks: VecDeque::new(),
            flushed: VecDeque::new(),
            listed: false,
            blocked: Vec::new(),
        }
    }

    /// Numbers `count` rows.
    pub(crate) fn accept(&mut self, count: u64) -> Range<u64> {
        let first = self.next_row;
        self.next_row += count;
        self.unsettled += count;
        first..self.next_row
    }

    pub(crate) fn flush(&mut self, token: u64) {
        let earlier: u64 = self.marks.iter().map(|mark| mark.waiting).sum();
        self.marks.push_back(Mark {
            token,
            end: self.next_row,
            waiting: self.unsettled.saturating_sub(earlier),
        });
        self.pop_marks();
    }

    /// Rows got their verdicts.
    pub(crate) fn settled(&mut self, rows: &Range<u64>) {
        self.unsettled = self.unsettled.saturating_sub(rows.end - rows.start);
        if self.marks.is_empty() {
            return;
        }
        let mut start = rows.start;
        let first = self.marks.partition_point(|mark| mark.end <= start);
        for mark in self.marks.iter_mut().skip(first) {
            if start >= rows.end {
                break;
            }
            let end = rows.end.min(mark.end);
            mark.waiting = mark.waiting.saturating_sub(end.saturating_sub(start));
            start = end.max(start);
        }
        self.pop_marks();
    }

    fn pop_marks(&mut self) {
        while self.marks.front().is_some_and(|mark| mark.waiting == 0) {
            self.flushed
                .extend(self.marks.pop_front().map(|mark| mark.token));
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.phase != Phase::Open && self.unsettled == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope() -> Scope {
        Scope::new(1, 0, ScopeOptions::default(), Duration::from_secs(30))
    }

    #[test]
    fn a_flush_of_nothing_is_done_at_once() {
        let mut scope = scope();
        scope.flush(7);
        assert_eq!(scope.flushed, [7]);
    }

    #[test]
    fn a_flush_waits_for_the_rows_before_it_and_for_no_others() {
        let mut scope = scope();
        scope.accept(10);
        scope.flush(1);
        scope.accept(10);
        scope.flush(2);
        scope.flush(3);
        // Later rows settle first: no flush is done.
        scope.settled(&(12..20));
        assert!(scope.flushed.is_empty());
        // A range over the border of two flushes.
        scope.settled(&(5..12));
        assert!(scope.flushed.is_empty());
        scope.settled(&(0..5));
        assert_eq!(scope.flushed, [1, 2, 3]);
        assert_eq!(scope.unsettled, 0);
    }

    #[test]
    fn rows_published_after_a_flush_do_not_answer_it() {
        let mut scope = scope();
        scope.accept(1);
        scope.flush(1);
        scope.accept(5);
        scope.settled(&(1..6));
        assert!(scope.flushed.is_empty());
        scope.settled(&(0..1));
        assert_eq!(scope.flushed, [1]);
    }
}
