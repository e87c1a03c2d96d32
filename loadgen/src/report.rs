//! What is printed: one JSON object, or a table.
//!
//! Field names and units are fixed: scripts read them. What does not apply is null.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table, presets::UTF8_FULL_CONDENSED};
use serde::Serialize;

use crate::check::ReadBack;
use crate::machine::Machine;
use crate::statistics::Spread;

/// A whole report.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) scenario: &'static str,
    pub(crate) provider: &'static str,
    pub(crate) messages: u64,
    pub(crate) size: usize,
    pub(crate) runs: u32,
    pub(crate) versions: BTreeMap<&'static str, String>,
    pub(crate) machine: Machine,
    pub(crate) rows: Rows,
}

/// Its rows, by scenario.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Rows {
    Throughput(Vec<Throughput>),
    Hop(Vec<Hop>),
    Enqueue(Vec<Enqueue>),
}

/// One mode through the gateway, or direct.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Throughput {
    pub(crate) mode: &'static str,
    pub(crate) via: &'static str,
    /// How the client was set.
    pub(crate) setting: String,
    pub(crate) seconds: Option<Spread>,
    pub(crate) msgs_per_s: f64,
    /// Against per-message of the same `via`.
    pub(crate) speedup: Option<f64>,
    /// What serial work on shared cores allows, in messages a second.
    pub(crate) model: Option<f64>,
    /// The part of all cores that direct left idle.
    pub(crate) idle: Option<f64>,
    pub(crate) confirmed: u64,
    pub(crate) failed: u64,
    pub(crate) unknown: u64,
    pub(crate) read_back: Option<u64>,
    pub(crate) missing: Option<u64>,
    pub(crate) duplicates: Option<u64>,
    pub(crate) altered: Option<u64>,
    pub(crate) out_of_order: Option<u64>,
    pub(crate) provider_requests: Option<u64>,
    pub(crate) gateway_cpu_us_per_msg: Option<f64>,
    pub(crate) gateway_rss_peak_bytes: Option<u64>,
    pub(crate) note: Option<String>,
}

/// One frame size through the gateway, or bare.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Hop {
    pub(crate) frame_messages: u32,
    pub(crate) via: &'static str,
    pub(crate) msgs_per_s: f64,
    /// Gateway over bare.
    pub(crate) ratio: Option<f64>,
    /// Lock-step round trips of one frame.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

/// Many producers through the gateway, or direct.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Enqueue {
    pub(crate) via: &'static str,
    pub(crate) producers: u32,
    pub(crate) msgs_per_s: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) missing: Option<u64>,
    pub(crate) duplicates: Option<u64>,
}

impl Throughput {
    /// Whether every message was confirmed and read back once, whole and in order.
    pub(crate) fn adds_up(&self) -> bool {
        let clean = |count: Option<u64>| count.unwrap_or(0) == 0;
        self.failed + self.unknown == 0
            && clean(self.missing)
            && clean(self.duplicates)
            && clean(self.altered)
            && clean(self.out_of_order)
            && self.read_back.is_none_or(|found| found == self.confirmed)
    }

    /// Fills in what the store said.
    pub(crate) fn found(&mut self, found: Option<ReadBack>) {
        self.read_back = found.map(|f| f.read_back);
        self.missing = found.map(|f| f.missing);
        self.duplicates = found.map(|f| f.duplicates);
        self.altered = found.map(|f| f.altered);
        self.out_of_order = found.map(|f| f.out_of_order);
    }
}

impl Report {
    /// Exactly one JSON object.
    pub(crate) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// For people.
    pub(crate) fn table(&self) -> String {
        let mut table = Table::new();
        table.load_preset(UTF8_FULL_CONDENSED);
        let (header, rows) = match &self.rows {
            Rows::Throughput(rows) => throughput(rows),
            Rows::Hop(rows) => hop(rows),
            Rows::Enqueue(rows) => enqueue(rows),
        };
        table.set_header(header);
        table.add_rows(rows);
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!(
            "{}: {} messages of {} bytes on {}, median of {}; {} × {}\n{table}",
            self.scenario,
            number(self.messages as f64),
            self.size,
            self.provider,
            self.runs,
            self.machine.cpus,
            self.machine.model,
        )
    }
}

type Cells = (Vec<&'static str>, Vec<Vec<String>>);

fn throughput(rows: &[Throughput]) -> Cells {
    let header = vec![
        "mode", "via", "msg/s", "speed-up", "of model", "confirmed", "failed", "unknown",
        "missing", "twice", "altered", "disorder", "messages a request", "gateway µs/msg",
        "gateway MB",
    ];
    let cells = rows.iter().map(|row| {
        vec![
            row.mode.to_owned(),
            row.via.to_owned(),
            number(row.msgs_per_s),
            optional(row.speedup, |s| format!("{s:.1} ×")),
            optional(row.model, |model| format!("{:.2}", row.msgs_per_s / model)),
            number(row.confirmed as f64),
            number(row.failed as f64),
            number(row.unknown as f64),
            count(row.missing),
            count(row.duplicates),
            count(row.altered),
            count(row.out_of_order),
            optional(row.provider_requests.filter(|n| *n > 0), |n| {
                number(row.confirmed as f64 / n as f64)
            }),
            optional(row.gateway_cpu_us_per_msg, |us| format!("{us:.2}")),
            optional(row.gateway_rss_peak_bytes, |b| {
                number(b as f64 / 1_048_576.0)
            }),
        ]
    });
    (header, cells.collect())
}

fn hop(rows: &[Hop]) -> Cells {
    let header = vec!["messages a frame", "via", "msg/s", "of bare", "p50 µs", "p99 µs"];
    let cells = rows.iter().map(|row| {
        vec![
            number(f64::from(row.frame_messages)),
            row.via.to_owned(),
            number(row.msgs_per_s),
            optional(row.ratio, |ratio| format!("{ratio:.2}")),
            number(row.p50_us),
            number(row.p99_us),
        ]
    });
    (header, cells.collect())
}

fn enqueue(rows: &[Enqueue]) -> Cells {
    let header = vec![
        "producers", "via", "msg/s", "p50 µs", "p99 µs", "p99.9 µs", "missing", "twice",
    ];
    let cells = rows.iter().map(|row| {
        vec![
            number(f64::from(row.producers)),
            row.via.to_owned(),
            number(row.msgs_per_s),
            number(row.p50_us),
            number(row.p99_us),
            number(row.p999_us),
            count(row.missing),
            count(row.duplicates),
        ]
    });
    (header, cells.collect())
}

fn optional<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "–".to_owned(), show)
}

fn count(value: Option<u64>) -> String {
    optional(value, |value| number(value as f64))
}

/// A whole number with commas between thousands.
fn number(value: f64) -> String {
    let digits = format!("{value:.0}");
    let places = digits.len();
    let mut out = String::with_capacity(places + places / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (places - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Throughput {
        Throughput {
            mode: "batched",
            via: "gateway",
            setting: "s".into(),
            seconds: Spread::of(vec![1.0]),
            msgs_per_s: 1_234_567.0,
            speedup: None,
            model: None,
            idle: None,
            confirmed: 10,
            failed: 0,
            unknown: 0,
            read_back: Some(10),
            missing: Some(0),
            duplicates: Some(0),
            altered: Some(0),
            out_of_order: Some(0),
            provider_requests: Some(2),
            gateway_cpu_us_per_msg: None,
            gateway_rss_peak_bytes: None,
            note: None,
        }
    }

    #[test]
    fn a_row_adds_up_only_when_all_is_confirmed_and_there() {
        assert!(row().adds_up());
        for broken in [
            Throughput { failed: 1, ..row() },
            Throughput { unknown: 1, ..row() },
            Throughput { missing: Some(1), ..row() },
            Throughput { duplicates: Some(1), ..row() },
            Throughput { altered: Some(1), ..row() },
            Throughput { out_of_order: Some(1), ..row() },
            Throughput { read_back: Some(9), ..row() },
        ] {
            assert!(!broken.adds_up(), "{broken:?}");
        }
    }

    #[test]
    fn json_has_the_fields_that_scripts_read_and_null_where_one_does_not_apply() {
        let report = Report {
            scenario: "throughput",
            provider: "sqlite",
            messages: 10,
            size: 55,
            runs: 1,
            versions: BTreeMap::from([("loadgen", "1".to_owned())]),
            machine: Machine::read(),
            rows: Rows::Throughput(vec![row()]),
        };
        let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
        let fields = [
            "mode", "via", "setting", "seconds", "msgs_per_s", "speedup", "model", "idle",
            "confirmed", "failed", "unknown", "read_back", "missing", "duplicates", "altered",
            "out_of_order", "provider_requests", "gateway_cpu_us_per_msg",
            "gateway_rss_peak_bytes", "note",
        ];
        for field in fields {
            assert!(json["rows"][0].get(field).is_some(), "{field}");
        }
        assert_eq!(json["rows"][0]["seconds"]["median"], 1.0);
        assert!(json["rows"][0]["note"].is_null());
        assert!(json["machine"]["cpus"].as_u64().unwrap() > 0);
        assert!(report.table().contains("1,234,567"));
    }

    #[test]
    fn numbers_have_commas_between_thousands() {
        assert_eq!(number(0.0), "0");
        assert_eq!(number(999.6), "1,000");
        assert_eq!(number(1_234_567.0), "1,234,567");
    }
}
