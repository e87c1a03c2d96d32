//! What a store knows about its instance: how long it ran, how much memory it took, what it logged.
//!
//! Invariant: nothing that a guest does grows without bound: its memories together stay under the limit, its
//! tables under a fixed size, its log under 100 lines a second of 4,096 bytes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wasmtime::ResourceLimiter;

use crate::wit::log::{Host, Level};

/// Elements of all tables together. Tables hold the targets of indirect calls, some hundreds in a large
/// adapter; an element costs the host 8 bytes.
const TABLE_ELEMENTS: usize = 100_000;

/// Core instances of one component: its own module and the few that wrapping adds.
const INSTANCES: usize = 32;

/// Tables of one component, which each of those instances may bring.
const TABLES: usize = 32;

/// Memories of one component, likewise.
const MEMORIES: usize = 32;

/// Length of a line in the log. Enough for a sentence and a payload's beginning.
const LINE_BYTES: usize = 4_096;

/// Length of what a trap's reason repeats of the guest's last error: a panic's place and sentence.
const LAST_WORDS_BYTES: usize = 512;

/// Lines in a second. An adapter that says something about every row must not drown everything else.
const LINES_PER_SECOND: u32 = 100;

/// What a store knows about its instance.
#[derive(Debug)]
pub struct State {
    adapter: Arc<str>,
    connection: Arc<str>,
    memory_limit: usize,
    memory_bytes: usize,
    table_elements: usize,
    /// Memory that was asked for and refused in this call: the cause of the trap that mostly follows.
    refused_bytes: Option<usize>,
    /// Ticks that this call may still run.
    ticks_left: u32,
    /// The last error that the guest logged in this call: before a trap, the message of its panic.
    last_words: Option<String>,
    log: LogRate,
}

impl State {
    pub(crate) fn new(adapter: Arc<str>, connection: Arc<str>, memory_limit: usize) -> Self {
        Self {
            adapter,
            connection,
            memory_limit,
            memory_bytes: 0,
            table_elements: 0,
            refused_bytes: None,
            ticks_left: 0,
            last_words: None,
            log: LogRate::default(),
        }
    }

    /// A call begins, with so many ticks to run.
    pub(crate) fn begin(&mut self, ticks: u32) {
        self.ticks_left = ticks;
        self.refused_bytes = None;
        self.last_words = None;
    }

    /// A tick has passed while the guest ran. False: that was its last one.
    pub(crate) fn tick(&mut self) -> bool {
        self.ticks_left = self.ticks_left.saturating_sub(1);
        self.ticks_left > 0
    }

    /// What the guest said about its trap, if anything.
    pub(crate) fn last_words(&self) -> Option<&str> {
        self.last_words.as_deref()
    }

    /// Why a call that ended in a trap did so, where the host knows.
    pub(crate) fn cause(&self) -> Option<Cause> {
        if self.ticks_left == 0 {
            return Some(Cause::Budget);
        }
        self.refused_bytes.map(|asked| Cause::Memory {
            asked,
            limit: self.memory_limit,
        })
    }
}

/// Why a call ended in a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It ran too long.
    Budget,
    /// It wanted more memory than it may have.
    Memory { asked: usize, limit: usize },
}

// === limits ===

impl ResourceLimiter for State {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = self
            .memory_bytes
            .saturating_add(desired.saturating_sub(current));
        if total > self.memory_limit {
            self.refused_bytes = Some(total);
            return Ok(false);
        }
        self.memory_bytes = total;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = self
            .table_elements
            .saturating_add(desired.saturating_sub(current));
        if total > TABLE_ELEMENTS {
            return Ok(false);
        }
        self.table_elements = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        INSTANCES
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn memories(&self) -> usize {
        MEMORIES
    }
}

// === log ===

impl crate::wit::types::Host for State {}

impl Host for State {
    fn log(&mut self, level: Level, message: String) {
        if level == Level::Error {
            self.last_words = Some(cut(&message, LAST_WORDS_BYTES).to_owned());
        }
        let admitted = self.log.admit(Instant::now());
        let (adapter, connection) = (&*self.adapter, &*self.connection);
        match admitted {
            Admitted::No => return,
            Admitted::Yes { dropped: 0 } => {}
            Admitted::Yes { dropped } => tracing::warn!(
                adapter,
                connection,
                "{dropped} lines of the adapter were dropped: it may log {LINES_PER_SECOND} a second"
            ),
        }
        let line = cut(&message, LINE_BYTES);
        match level {
            Level::Error => tracing::error!(adapter, connection, "{line}"),
            Level::Warn => tracing::warn!(adapter, connection, "{line}"),
            Level::Info => tracing::info!(adapter, connection, "{line}"),
            Level::Debug => tracing::debug!(adapter, connection, "{line}"),
        }
    }
}

/// At most `bytes` of a text, ending at a character's end.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}

#[derive(Debug, Default)]
struct LogRate {
    /// Since when lines are counted; none before the first.
    since: Option<Instant>,
    lines: u32,
    dropped: u32,
}

#[derive(Debug, PartialEq)]
enum Admitted {
    /// Write it, after saying how many were dropped before.
    Yes {
        dropped: u32,
    },
    No,
}

impl LogRate {
    fn admit(&mut self, now: Instant) -> Admitted {
        let mut dropped = 0;
        if self
            .since
            .is_none_or(|since| now.duration_since(since) >= Duration::from_secs(1))
        {
            self.since = Some(now);
            self.lines = 0;
            dropped = std::mem::take(&mut self.dropped);
        }
        if self.lines >= LINES_PER_SECOND {
            self.dropped = self.dropped.saturating_add(1);
            return Admitted::No;
        }
        self.lines += 1;
        Admitted::Yes { dropped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_lines_a_second_are_written_and_the_rest_is_counted() {
        let start = Instant::now();
        let mut rate = LogRate::default();
        for _ in 0..100 {
            assert_eq!(rate.admit(start), Admitted::Yes { dropped: 0 });
        }
        for _ in 0..7 {
            assert_eq!(rate.admit(start), Admitted::No);
        }
        let later = start + Duration::from_secs(1);
        assert_eq!(rate.admit(later), Admitted::Yes { dropped: 7 });
        assert_eq!(rate.admit(later), Admitted::Yes { dropped: 0 });
    }

    #[test]
    fn a_line_is_cut_at_a_characters_end() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("aé", 100), "aé");
    }

    #[test]
    fn memories_count_together_and_a_refusal_is_remembered_as_the_cause() {
        let mut state = State::new("a".into(), "c".into(), 100);
        state.begin(5);
        assert!(state.memory_growing(0, 60, None).unwrap());
        assert!(
            state.memory_growing(0, 40, None).unwrap(),
            "a second memory"
        );
        assert_eq!(state.cause(), None);
        assert!(!state.memory_growing(60, 61, None).unwrap());
        assert_eq!(
            state.cause(),
            Some(Cause::Memory {
                asked: 101,
                limit: 100
            })
        );
        state.begin(5);
        assert_eq!(state.cause(), None, "a new call has not been refused yet");
    }

    #[test]
    fn a_call_ends_with_its_last_tick() {
        let mut state = State::new("a".into(), "c".into(), 100);
        state.begin(2);
        assert!(state.tick());
        assert!(!state.tick());
        assert_eq!(state.cause(), Some(Cause::Budget));
    }
}
