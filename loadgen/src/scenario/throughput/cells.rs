//! What the runs of a mode say together: the report's rows.

use std::time::Duration;

use sluicegate_client::{RowFailure, Summary};

use crate::check::Found;
use crate::machine;
use crate::report::{Seconds, ThroughputRow};
use crate::scenario::add_found;
use crate::sqlite::Grouping;
use crate::stats::{median, rate, rounded, serial};

/// How messages are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    PerMessage,
    Deferred,
    Batched,
}

impl Mode {
    pub(super) const ALL: [Self; 3] = [Self::PerMessage, Self::Deferred, Self::Batched];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PerMessage => "per-message",
            Self::Deferred => "deferred",
            Self::Batched => "batched",
        }
    }

    pub(super) fn setting(self) -> &'static str {
        match self {
            Self::PerMessage => "each publish awaited before the next",
            Self::Deferred => "scope with batching off, 600 s to confirm, awaited at its end",
            Self::Batched => "defaults, many messages a call, awaited at the scope's end",
        }
    }
}

/// What messages go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    Gateway,
    /// The gateway with nothing behind it.
    Hop,
    Direct,
}

/// All runs of one mode through one thing.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) mode: Mode,
    pub(super) via: Via,
    pub(super) rates: Vec<f64>,
    pub(super) seconds: Vec<f64>,
    pub(super) total: Sent,
    pub(super) found: Option<Found>,
    pub(super) provider_requests: Option<u64>,
    pub(super) cpu: Option<Duration>,
    pub(super) peak_bytes: Option<u64>,
    pub(super) idle: Vec<f64>,
}

/// What a run sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent {
    pub(super) seconds: f64,
    pub(super) messages: u64,
    pub(super) confirmed: u64,
    pub(super) failed: u64,
    pub(super) unknown: u64,
    /// Numbers of those that were not confirmed.
    pub(super) unconfirmed: Vec<u64>,
    /// Of this process, while publishing.
    pub(super) own_cpu: Option<Duration>,
}

impl Sent {
    pub(super) fn add(&mut self, other: Self) {
        self.seconds += other.seconds;
        self.messages += other.messages;
        self.confirmed += other.confirmed;
        self.failed += other.failed;
        self.unknown += other.unknown;
        self.unconfirmed.extend(other.unconfirmed);
    }

    /// A scope whose first message has the number `first`.
    pub(super) fn scope(&mut self, first: u64, messages: u64, summary: &Summary) {
        self.messages += messages;
        self.confirmed += summary.confirmed;
        self.failed += summary.failed;
        self.unknown += summary.unknown;
        let rows = summary.failures.iter().chain(&summary.unknowns);
        self.unconfirmed
            .extend(rows.map(|RowFailure { row, .. }| first + row));
    }
}

/// One run of a cell.
pub(super) struct Run {
    pub(super) sent: Sent,
    pub(super) found: Option<Found>,
    pub(super) provider_requests: Option<u64>,
    pub(super) cpu: Option<Duration>,
    pub(super) peak_bytes: Option<u64>,
}

impl Via {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Hop => "hop",
            Self::Direct => "direct",
        }
    }
}

impl Cell {
    pub(super) fn new((mode, via): (Mode, Via)) -> Self {
        Self {
            mode,
            via,
            rates: Vec::new(),
            seconds: Vec::new(),
            total: Sent::default(),
            found: None,
            provider_requests: None,
            cpu: None,
            peak_bytes: None,
            idle: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, run: Run) {
        self.rates.push(rate(run.sent.messages, run.sent.seconds));
        self.seconds.push(run.sent.seconds);
        if let Some(own) = run.sent.own_cpu {
            #[allow(clippy::cast_precision_loss, reason = "a number of processors")]
            let whole = run.sent.seconds * machine::cpus() as f64;
            self.idle
                .push((1.0 - own.as_secs_f64() / whole).clamp(0.0, 1.0));
        }
        self.total.add(run.sent);
        add_found(&mut self.found, run.found);
        if let Some(requests) = run.provider_requests {
            *self.provider_requests.get_or_insert_default() += requests;
        }
        if let Some(cpu) = run.cpu {
            *self.cpu.get_or_insert_default() += cpu;
        }
        self.peak_bytes = self.peak_bytes.max(run.peak_bytes);
    }

    pub(super) fn adds_up(&self) -> bool {
        self.total.confirmed > 0
            && self.total.confirmed == self.total.messages
            && self.found.is_none_or(Found::is_clean)
    }

    pub(super) fn rate(&self) -> Option<f64> {
        median(&self.rates)
    }
}

pub(super) fn rows(cells: &[Cell], grouping: Grouping) -> Vec<ThroughputRow> {
    let find = |mode: Mode, via: Via| {
        cells
            .iter()
            .find(|cell| cell.mode == mode && cell.via == via)
    };
    cells
        .iter()
        .filter(|cell| cell.via != Via::Hop)
        .map(|cell| {
            let rate = cell.rate().unwrap_or(0.0);
            let direct = find(cell.mode, Via::Direct);
            let hop = find(cell.mode, Via::Hop).and_then(Cell::rate);
            let model = match (cell.via, direct.and_then(Cell::rate), hop) {
                (Via::Gateway, Some(direct), Some(hop)) => serial(direct, hop),
                _ => None,
            };
            let single = find(Mode::PerMessage, cell.via).and_then(Cell::rate);
            let fold = |f: fn(f64, f64) -> f64| cell.seconds.iter().copied().reduce(f);
            #[allow(clippy::cast_precision_loss, reason = "far below 2^52 messages")]
            let messages = cell.total.messages as f64;
            ThroughputRow {
                mode: cell.mode.name(),
                via: cell.via.name(),
                setting: match (cell.via, cell.mode) {
                    (Via::Direct, Mode::Batched) => grouping.describe(),
                    (Via::Direct, _) => Grouping::SINGLE.describe(),
                    (_, mode) => mode.setting().to_owned(),
                },
                seconds: Seconds {
                    min: rounded(fold(f64::min).unwrap_or(0.0)),
                    median: rounded(median(&cell.seconds).unwrap_or(0.0)),
                    max: rounded(fold(f64::max).unwrap_or(0.0)),
                },
                msgs_per_s: rounded(rate),
                speedup: single
                    .filter(|single| *single > 0.0)
                    .map(|single| rounded(rate / single)),
                model: model.map(rounded),
                idle: direct.and_then(|direct| median(&direct.idle)).map(rounded),
                confirmed: cell.total.confirmed,
                failed: cell.total.failed,
                unknown: cell.total.unknown,
                read_back: cell.found.map(|found| found.read_back),
                missing: cell.found.map(|found| found.missing),
                duplicates: cell.found.map(|found| found.duplicates),
                altered: cell.found.map(|found| found.altered),
                out_of_order: cell.found.map(|found| found.out_of_order),
                provider_requests: cell.provider_requests,
                gateway_cpu_us_per_msg: cell
                    .cpu
                    .filter(|_| messages > 0.0)
                    .map(|cpu| rounded(cpu.as_secs_f64() * 1e6 / messages)),
                gateway_rss_peak_bytes: cell.peak_bytes,
                note: match (cell.via, cell.mode) {
                    (Via::Direct, Mode::Deferred) => {
                        Some("sqlx cannot pipeline one connection: the same as per-message")
                    }
                    _ => None,
                },
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cell whose runs sent so many messages in a second each.
    fn cell(mode: Mode, via: Via, rates: &[u64]) -> Cell {
        let mut cell = Cell::new((mode, via));
        for messages in rates {
            cell.add(Run {
                sent: Sent {
                    seconds: 1.0,
                    messages: *messages,
                    confirmed: *messages,
                    ..Sent::default()
                },
                found: None,
                provider_requests: Some(2),
                cpu: Some(Duration::from_millis(10)),
                peak_bytes: Some(7),
            });
        }
        cell
    }

    #[test]
    fn the_model_is_of_the_same_mode_and_speedup_against_per_message_of_the_same_via() {
        let cells = [
            cell(Mode::PerMessage, Via::Gateway, &[10, 1_000, 20]),
            cell(Mode::PerMessage, Via::Direct, &[40]),
            cell(Mode::Batched, Via::Gateway, &[400]),
            cell(Mode::Batched, Via::Hop, &[3_000]),
            cell(Mode::Batched, Via::Direct, &[1_000]),
        ];
        let rows = rows(&cells, Grouping::SINGLE);
        assert_eq!(rows.len(), 4, "the hop is no row of its own");
        assert_eq!((rows[0].msgs_per_s, rows[0].speedup), (20.0, Some(1.0)));
        assert_eq!(rows[0].model, None);
        assert_eq!((rows[2].model, rows[2].speedup), (Some(750.0), Some(20.0)));
        assert_eq!((rows[3].model, rows[3].speedup), (None, Some(25.0)));
        assert_eq!(rows[0].provider_requests, Some(6));
    }

    #[test]
    fn a_cell_without_a_single_confirmed_message_does_not_add_up() {
        assert!(cell(Mode::Batched, Via::Gateway, &[1]).adds_up());
        assert!(!cell(Mode::Batched, Via::Gateway, &[0]).adds_up());
        let mut lost = cell(Mode::Batched, Via::Gateway, &[5]);
        lost.found = Some(Found {
            read_back: 4,
            missing: 1,
            ..Found::default()
        });
        assert!(!lost.adds_up());
        let mut failed = cell(Mode::Batched, Via::Gateway, &[5]);
        failed.total.confirmed = 4;
        assert!(!failed.adds_up());
    }

    #[test]
    fn numbers_of_failed_rows_count_from_the_scopes_first_message() {
        let mut sent = Sent::default();
        let failure = sluicegate_client::Failure {
            class: sluicegate_client::FailureClass::Invalid,
            retryable: false,
            attempts: 0,
            code: String::new(),
            reason: String::new(),
        };
        let summary = Summary {
            confirmed: 9,
            failed: 1,
            failures: vec![RowFailure {
                row: 3,
                failure: failure.into(),
            }],
            ..Summary::default()
        };
        sent.scope(100, 10, &summary);
        assert_eq!(sent.unconfirmed, [103]);
    }
}
