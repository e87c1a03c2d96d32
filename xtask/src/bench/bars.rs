//! What is promised, and how a report is held against it. Pure: reports in, bars out.

use std::fmt::Write as _;

use anyhow::{Context as _, bail};
use serde_json::Value;

/// One promise and what became of it.
#[derive(Debug)]
pub(super) struct Bar {
    what: String,
    measured: String,
    bar: String,
    holds: bool,
}

impl Bar {
    /// Larger is better.
    pub(super) fn at_least(what: &str, measured: f64, bar: f64, unit: &str) -> Self {
        Self {
            what: what.to_owned(),
            measured: figure(measured, unit),
            bar: format!("≥ {}", figure(bar, unit)),
            holds: measured >= bar,
        }
    }

    /// Smaller is better.
    pub(super) fn at_most(what: &str, measured: f64, bar: f64, unit: &str) -> Self {
        Self {
            what: what.to_owned(),
            measured: figure(measured, unit),
            bar: format!("≤ {}", figure(bar, unit)),
            holds: measured <= bar,
        }
    }

    /// It could not be measured.
    pub(super) fn broken(what: &str, why: &str) -> Self {
        Self {
            what: what.to_owned(),
            measured: why.to_owned(),
            bar: String::new(),
            holds: false,
        }
    }
}

fn figure(value: f64, unit: &str) -> String {
    let number = if value.abs() >= 1_000.0 {
        format!("{value:.0}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}")
    };
    if unit.is_empty() {
        number
    } else {
        format!("{number} {unit}")
    }
}

/// The table for people.
pub(super) fn table(bars: &[Bar]) -> String {
    let width = |text: fn(&Bar) -> &str, title: &str| {
        bars.iter()
            .map(|bar| text(bar).chars().count())
            .chain([title.chars().count()])
            .max()
            .unwrap_or(0)
    };
    let what = width(|bar| &bar.what, "what");
    let measured = width(|bar| &bar.measured, "measured");
    let wanted = width(|bar| &bar.bar, "bar");
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{:what$}  {:>measured$}  {:>wanted$}  holds",
        "what", "measured", "bar"
    );
    for bar in bars {
        let holds = if bar.holds { "yes" } else { "NO" };
        let _ = writeln!(
            text,
            "{:what$}  {:>measured$}  {:>wanted$}  {holds}",
            bar.what, bar.measured, bar.bar
        );
    }
    text
}

fn rows(report: &Value) -> anyhow::Result<&Vec<Value>> {
    report
        .get("rows")
        .and_then(Value::as_array)
        .context("the report has no rows")
}

fn number(row: &Value, field: &str) -> anyhow::Result<f64> {
    row.get(field)
        .and_then(Value::as_f64)
        .with_context(|| format!("a row has no {field}: {row}"))
}

fn find<'a>(report: &'a Value, wanted: &[(&str, &str)]) -> anyhow::Result<&'a Value> {
    rows(report)?
        .iter()
        .find(|row| {
            wanted
                .iter()
                .all(|(field, value)| row.get(*field).and_then(Value::as_str) == Some(*value))
        })
        .with_context(|| format!("the report has no row with {wanted:?}"))
}

/// The gateway's own cost.
pub(super) fn hop(report: &Value) -> anyhow::Result<Vec<Bar>> {
    let at = |via: &str, frame: Option<f64>| -> anyhow::Result<Vec<&Value>> {
        Ok(rows(report)?
            .iter()
            .filter(|row| row.get("via").and_then(Value::as_str) == Some(via))
            .filter(|row| {
                let messages = row
                    .get("frame_messages")
                    .and_then(Value::as_f64)
                    .unwrap_or(0.0);
                frame.map_or(messages >= 100.0, |frame| messages == frame)
            })
            .collect())
    };
    let mut bars = Vec::new();
    for row in at("gateway", None)? {
        let frame = number(row, "frame_messages")?;
        bars.push(Bar::at_least(
            &format!("hop, {frame} messages a frame: part of bare tonic"),
            number(row, "ratio")?,
            0.6,
            "",
        ));
        bars.push(Bar::at_least(
            &format!("hop, {frame} messages a frame (an aim)"),
            number(row, "msgs_per_s")?,
            2_000_000.0,
            "msg/s",
        ));
    }
    if bars.is_empty() {
        bail!("the report has no row of 100 messages a frame or more");
    }
    let (gateway, bare) = (at("gateway", Some(1.0))?, at("bare", Some(1.0))?);
    let (Some(gateway), Some(bare)) = (gateway.first(), bare.first()) else {
        bail!("the report has no rows of one message a frame");
    };
    for (field, bar) in [("p50_us", 150.0), ("p99_us", 500.0)] {
        bars.push(Bar::at_most(
            &format!(
                "hop, lock-step latency over bare, {}",
                field.trim_end_matches("_us")
            ),
            number(gateway, field)? - number(bare, field)?,
            bar,
            "us",
        ));
    }
    Ok(bars)
}

/// SQLite through the gateway, against SQLite without it.
pub(super) fn throughput(report: &Value) -> anyhow::Result<Vec<Bar>> {
    let batched = find(report, &[("mode", "batched"), ("via", "gateway")])?;
    let single = find(report, &[("mode", "per-message"), ("via", "gateway")])?;
    let direct = find(report, &[("mode", "per-message"), ("via", "direct")])?;
    let rate = number(batched, "msgs_per_s")?;
    let mut bars = vec![
        Bar::at_least(
            "SQLite batched: part of the model",
            rate / number(batched, "model")?,
            0.9,
            "",
        ),
        Bar::at_least(
            "SQLite batched: times per-message",
            rate / number(single, "msgs_per_s")?,
            20.0,
            "x",
        ),
        Bar::at_least(
            "SQLite per-message: part of direct",
            number(single, "msgs_per_s")? / number(direct, "msgs_per_s")?,
            0.7,
            "",
        ),
    ];
    bars.push(read_back(
        report,
        "SQLite throughput: missing, altered, duplicated",
    )?);
    Ok(bars)
}

/// Fifty that publish one message at a time.
pub(super) fn enqueue(report: &Value) -> anyhow::Result<Vec<Bar>> {
    let gateway = find(report, &[("via", "gateway")])?;
    let direct = find(report, &[("via", "direct")])?;
    Ok(vec![
        Bar::at_least(
            "50 one-at-a-time producers on SQLite: times direct",
            number(gateway, "msgs_per_s")? / number(direct, "msgs_per_s")?,
            3.0,
            "x",
        ),
        read_back(report, "enqueue: missing, duplicated")?,
    ])
}

/// A rate of rows that are not there would be no rate.
fn read_back(report: &Value, what: &str) -> anyhow::Result<Bar> {
    let mut wrong = 0.0;
    for row in rows(report)? {
        for field in ["missing", "duplicates", "altered"] {
            wrong += row.get(field).and_then(Value::as_f64).unwrap_or(0.0);
        }
    }
    Ok(Bar::at_most(what, wrong, 0.0, ""))
}

/// The host crate's benchmark prints a table: rows, bare ns/message, host ns/message, ratio.
pub(super) fn boundary(text: &str) -> anyhow::Result<Vec<Bar>> {
    let mut bars = Vec::new();
    for line in text.lines() {
        let figures: Vec<f64> = line
            .split_whitespace()
            .map_while(|word| word.parse().ok())
            .collect();
        let &[rows, _bare, host, _ratio] = figures.as_slice() else {
            continue;
        };
        if rows >= 1_000.0 {
            bars.push(Bar::at_most(
                &format!("adapter boundary, {rows} rows: plan and settle"),
                host,
                20.0,
                "ns/message",
            ));
        }
    }
    if bars.is_empty() {
        bail!("the host's benchmark printed no line `rows bare host ratio` of 1,000 rows or more");
    }
    Ok(bars)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(bars: &[Bar]) -> Vec<bool> {
        bars.iter().map(|bar| bar.holds).collect()
    }

    #[test]
    fn the_hop_is_held_against_bare_tonic_of_the_same_run() {
        let report = json!({"rows": [
            {"frame_messages": 1, "via": "bare", "msgs_per_s": 100.0, "ratio": null, "p50_us": 50.0, "p99_us": 80.0},
            {"frame_messages": 1, "via": "gateway", "msgs_per_s": 90.0, "ratio": 0.9, "p50_us": 250.0, "p99_us": 300.0},
            {"frame_messages": 100, "via": "bare", "msgs_per_s": 4e6, "ratio": null, "p50_us": 60.0, "p99_us": 90.0},
            {"frame_messages": 100, "via": "gateway", "msgs_per_s": 3e6, "ratio": 0.75, "p50_us": 90.0, "p99_us": 120.0},
        ]});
        // Ratio, rate, p50 (200 us over bare: too slow), p99 (220 us over bare: fine).
        assert_eq!(holds(&hop(&report).unwrap()), [true, true, false, true]);
    }

    #[test]
    fn a_report_without_large_frames_is_no_report_of_the_hop() {
        let report = json!({"rows": [{"frame_messages": 1, "via": "gateway", "ratio": 0.9}]});
        assert!(
            hop(&report)
                .unwrap_err()
                .to_string()
                .contains("100 messages")
        );
    }

    #[test]
    fn batched_is_held_against_the_model_and_per_message_against_direct() {
        let report = json!({"rows": [
            {"mode": "per-message", "via": "gateway", "msgs_per_s": 500.0, "missing": 0},
            {"mode": "per-message", "via": "direct", "msgs_per_s": 1_000.0, "missing": 0},
            {"mode": "batched", "via": "gateway", "msgs_per_s": 95_000.0, "model": 100_000.0, "missing": 1},
        ]});
        assert_eq!(
            holds(&throughput(&report).unwrap()),
            [true, true, false, false]
        );
    }

    #[test]
    fn the_boundary_is_read_from_the_benchmarks_own_lines() {
        let text = "null.wasm: 5 bytes\n    rows  bare ns/message  host ns/message  ratio\n     \
                    100  4.00  30.00  7.50\n    1000  3.00  12.50  4.10\n";
        let bars = boundary(text).unwrap();
        assert_eq!(holds(&bars), [true]);
        assert!(boundary("nothing").is_err());
    }

    #[test]
    fn the_table_says_which_bar_does_not_hold() {
        let text = table(&[
            Bar::at_least("a", 1.0, 2.0, "x"),
            Bar::at_most("b", 1.0, 2.0, "ms"),
        ]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("NO"), "{text}");
        assert!(lines[2].ends_with("yes"), "{text}");
    }
}
