//! What stdout carries: one JSON object for programs, or a table for people.
//!
//! Field names and their order are read by scripts: they are only ever added to.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::machine::Machine;

/// The whole report.
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

/// Rows of one scenario.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Rows {
    Throughput(Vec<ThroughputRow>),
    Hop(Vec<HopRow>),
    Enqueue(Vec<EnqueueRow>),
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct ThroughputRow {
    pub(crate) mode: &'static str,
    pub(crate) via: &'static str,
    pub(crate) setting: String,
    pub(crate) seconds: Seconds,
    pub(crate) msgs_per_s: f64,
    pub(crate) speedup: Option<f64>,
    pub(crate) model: Option<f64>,
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
    pub(crate) note: Option<&'static str>,
}

#[derive(Debug, Default, Serialize)]
pub(crate) struct Seconds {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct HopRow {
    pub(crate) frame_messages: usize,
    pub(crate) via: &'static str,
    pub(crate) msgs_per_s: f64,
    pub(crate) ratio: Option<f64>,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct EnqueueRow {
    pub(crate) via: &'static str,
    pub(crate) producers: u32,
    pub(crate) msgs_per_s: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) missing: Option<u64>,
    pub(crate) duplicates: Option<u64>,
}

impl Report {
    /// The table, with what it was measured on.
    pub(crate) fn table(&self) -> String {
        let (titles, rows) = match &self.rows {
            Rows::Throughput(rows) => throughput(rows),
            Rows::Hop(rows) => hop(rows),
            Rows::Enqueue(rows) => enqueue(rows),
        };
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
        table.set_header(&titles);
        for row in rows {
            table.add_row(row.into_iter().enumerate().map(|(index, text)| {
                let text = comfy_table::Cell::new(text);
                // Words to the left, figures to the right.
                if index < 2 {
                    text
                } else {
                    text.set_alignment(comfy_table::CellAlignment::Right)
                }
            }));
        }
        let mut lines = vec![format!(
            "{} on {}: {} messages of {} bytes a scope, median of {} run(s)",
            self.scenario,
            self.provider,
            grouped(self.messages),
            self.size,
            self.runs
        )];
        lines.push(table.to_string());
        if let Rows::Throughput(rows) = &self.rows {
            lines.extend(rows.iter().map(|row| {
                let note = row.note.map_or(String::new(), |note| format!(" ({note})"));
                format!("{} {}: {}{note}", row.mode, row.via, row.setting)
            }));
        }
        let versions: Vec<String> = self
            .versions
            .iter()
            .map(|(name, version)| format!("{name} {version}"))
            .collect();
        lines.push(versions.join(", "));
        lines.join("\n")
    }
}

type Table = (Vec<&'static str>, Vec<Vec<String>>);

fn throughput(rows: &[ThroughputRow]) -> Table {
    let titles = vec![
        "mode",
        "via",
        "msg/s",
        "speedup",
        "model",
        "confirmed",
        "failed",
        "unknown",
        "read back",
        "requests",
        "cpu us/msg",
        "peak MiB",
    ];
    let rows = rows
        .iter()
        .map(|row| {
            vec![
                row.mode.to_owned(),
                row.via.to_owned(),
                figure(row.msgs_per_s),
                row.speedup
                    .map_or_else(none, |value| format!("{value:.1}x")),
                row.model.map_or_else(none, figure),
                grouped(row.confirmed),
                grouped(row.failed),
                grouped(row.unknown),
                read_back(row),
                count(row.provider_requests),
                row.gateway_cpu_us_per_msg.map_or_else(none, figure),
                row.gateway_rss_peak_bytes
                    .map_or_else(none, |bytes| grouped(bytes >> 20)),
            ]
        })
        .collect();
    (titles, rows)
}

/// Whether all is there as it was published, and what is not.
fn read_back(row: &ThroughputRow) -> String {
    if row.read_back.is_none() {
        return none();
    }
    let wrong: Vec<String> = [
        ("missing", row.missing),
        ("twice", row.duplicates),
        ("altered", row.altered),
        ("out of order", row.out_of_order),
    ]
    .into_iter()
    .filter_map(|(what, count)| {
        let count = count.filter(|count| *count > 0)?;
        Some(format!("{} {what}", grouped(count)))
    })
    .collect();
    if wrong.is_empty() {
        "all, in order".to_owned()
    } else {
        wrong.join(", ")
    }
}

fn hop(rows: &[HopRow]) -> Table {
    let titles = vec![
        "messages a frame",
        "via",
        "msg/s",
        "ratio",
        "p50 us",
        "p99 us",
    ];
    let rows = rows
        .iter()
        .map(|row| {
            vec![
                grouped(row.frame_messages as u64),
                row.via.to_owned(),
                figure(row.msgs_per_s),
                row.ratio.map_or_else(none, |ratio| format!("{ratio:.2}")),
                figure(row.p50_us),
                figure(row.p99_us),
            ]
        })
        .collect();
    (titles, rows)
}

fn enqueue(rows: &[EnqueueRow]) -> Table {
    let titles = vec![
        "via",
        "producers",
        "msg/s",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "missing",
        "duplicates",
    ];
    let rows = rows
        .iter()
        .map(|row| {
            vec![
                row.via.to_owned(),
                row.producers.to_string(),
                figure(row.msgs_per_s),
                figure(row.p50_us),
                figure(row.p99_us),
                figure(row.p999_us),
                count(row.missing),
                count(row.duplicates),
            ]
        })
        .collect();
    (titles, rows)
}

fn none() -> String {
    "-".to_owned()
}

fn count(value: Option<u64>) -> String {
    value.map_or_else(none, grouped)
}

/// As many digits as are read.
fn figure(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    grouped(format!("{value:.0}").parse().unwrap_or(0))
}

/// 1,234,567.
fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(rows: Rows) -> Report {
        Report {
            scenario: "throughput",
            provider: "null",
            messages: 1_000,
            size: 55,
            runs: 1,
            versions: BTreeMap::new(),
            machine: Machine::read(),
            rows,
        }
    }

    #[test]
    fn what_does_not_apply_is_null_and_not_absent() {
        let rows = vec![ThroughputRow::default()];
        let json = serde_json::to_value(report(Rows::Throughput(rows))).unwrap();
        let fields: Vec<&str> = json["rows"][0]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let mut expected = vec![
            "mode",
            "via",
            "setting",
            "seconds",
            "msgs_per_s",
            "speedup",
            "model",
            "idle",
            "confirmed",
            "failed",
            "unknown",
            "read_back",
            "missing",
            "duplicates",
            "altered",
            "out_of_order",
            "provider_requests",
            "gateway_cpu_us_per_msg",
            "gateway_rss_peak_bytes",
            "note",
        ];
        expected.sort_unstable();
        let mut sorted = fields.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, expected);
        assert!(json["rows"][0]["missing"].is_null());
        assert!(json["machine"]["cpus"].is_u64());
    }

    #[test]
    fn numbers_are_grouped_for_people() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(999), "999");
        assert_eq!(figure(1_234.4), "1,234");
        assert_eq!(figure(2.34), "2.3");
    }

    #[test]
    fn the_table_says_what_the_read_back_found() {
        let mut row = ThroughputRow::default();
        assert_eq!(read_back(&row), "-");
        row.read_back = Some(10);
        row.missing = Some(0);
        assert_eq!(read_back(&row), "all, in order");
        row.missing = Some(1_200);
        row.out_of_order = Some(3);
        assert_eq!(read_back(&row), "1,200 missing, 3 out of order");
    }

    #[test]
    fn the_table_shows_a_dash_for_what_was_not_measured() {
        let rows = vec![ThroughputRow {
            mode: "batched",
            via: "gateway",
            msgs_per_s: 123_456.0,
            ..Default::default()
        }];
        let table = report(Rows::Throughput(rows)).table();
        assert!(
            table.contains("123,456") && table.contains(" - "),
            "{table}"
        );
    }
}
