//! loadgen against the real gateway: small runs whose figures say nothing and whose counts must be right.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    dead_code,
    reason = "a test that cannot go on must stop; the support is shared"
)]

mod support;

use std::process::{Command, Output};

use serde_json::Value;
use support::Gateway;

const SMALL: [&str; 6] = ["--messages", "300", "--runs", "1", "--seconds", "0.05"];

fn loadgen(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loadgen"))
        .args(SMALL)
        .args(arguments)
        .output()
        .unwrap()
}

/// The one JSON object of a run that is fine.
fn report(arguments: &[&str]) -> Value {
    let output = loadgen(&[arguments, &["--format", "json"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{stderr}{}",
        String::from_utf8_lossy(&output.stdout)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Its error, and its exit code.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = loadgen(arguments);
    assert!(output.stdout.is_empty());
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

fn rows(report: &Value) -> &Vec<Value> {
    report["rows"].as_array().unwrap()
}

#[test]
fn throughput_on_sqlite_finds_again_what_it_published_through_the_gateway_and_directly() {
    let report = report(&["--direct"]);
    assert_eq!(report["scenario"], "throughput");
    assert_eq!(report["provider"], "sqlite");
    assert!(report["versions"]["sqlite"].is_string());
    let cells: Vec<(&str, &str)> = rows(&report)
        .iter()
        .map(|row| (row["mode"].as_str().unwrap(), row["via"].as_str().unwrap()))
        .collect();
    let expected = ["per-message", "deferred", "batched"]
        .into_iter()
        .flat_map(|mode| [(mode, "gateway"), (mode, "direct")]);
    assert_eq!(cells, expected.collect::<Vec<_>>());
    for row in rows(&report) {
        assert!(row["confirmed"].as_u64().unwrap() > 0, "{row}");
        assert_eq!(row["confirmed"], row["read_back"], "{row}");
        for nothing in [
            "failed",
            "unknown",
            "missing",
            "duplicates",
            "altered",
            "out_of_order",
        ] {
            assert_eq!(row[nothing], 0, "{nothing}: {row}");
        }
        assert!(row["msgs_per_s"].as_f64().unwrap() > 0.0);
        assert_eq!(row["model"].is_f64(), row["via"] == "gateway", "{row}");
        assert_eq!(
            row["provider_requests"].is_u64(),
            row["via"] == "gateway",
            "{row}"
        );
    }
    let requests = |place: usize| rows(&report)[place]["provider_requests"].as_u64().unwrap();
    let confirmed = |place: usize| rows(&report)[place]["confirmed"].as_u64().unwrap();
    // Deferred: one operation a message. Batched: far fewer.
    assert_eq!(requests(2), confirmed(2));
    assert!(requests(4) * 10 < confirmed(4));
}

#[test]
fn throughput_on_null_has_nothing_to_read_back() {
    let report = report(&["--provider", "null"]);
    assert_eq!(rows(&report).len(), 3);
    for row in rows(&report) {
        assert!(
            row["read_back"].is_null() && row["missing"].is_null(),
            "{row}"
        );
        assert!(row["confirmed"].as_u64().unwrap() > 0);
    }
}

#[test]
fn the_hop_is_compared_with_a_bare_server_at_each_frame_size() {
    let arguments = [
        "--provider",
        "null",
        "--scenario",
        "hop",
        "--frames",
        "1,50",
    ];
    let report = report(&arguments);
    let cells: Vec<(u64, &str)> = rows(&report)
        .iter()
        .map(|row| {
            (
                row["frame_messages"].as_u64().unwrap(),
                row["via"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        cells,
        [(1, "gateway"), (1, "bare"), (50, "gateway"), (50, "bare")]
    );
    for row in rows(&report) {
        assert!(row["p50_us"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["ratio"].is_f64(), row["via"] == "gateway", "{row}");
    }
}

#[test]
fn producers_that_enqueue_one_message_at_a_time_find_them_all_again() {
    let arguments = ["--scenario", "enqueue", "--producers", "7", "--direct"];
    let report = report(&arguments);
    assert_eq!(rows(&report).len(), 2);
    for row in rows(&report) {
        assert_eq!(row["producers"], 7);
        assert_eq!(
            (&row["missing"], &row["duplicates"]),
            (&0.into(), &0.into())
        );
        assert!(row["p999_us"].as_f64().unwrap() >= row["p50_us"].as_f64().unwrap());
    }
}

#[test]
fn a_gateway_that_runs_already_is_measured_and_its_store_read_back() {
    let gateway = Gateway::start();
    let store = gateway.store.display().to_string();
    let report = report(&["--gateway", &gateway.address, "--broker-url", &store]);
    for row in rows(&report) {
        assert_eq!(row["confirmed"], row["read_back"], "{row}");
        assert!(row["gateway_cpu_us_per_msg"].is_null());
    }
    let unread = self::report(&["--gateway", &gateway.address]);
    assert!(rows(&unread).iter().all(|row| row["missing"].is_null()));
}

#[test]
fn the_table_names_every_mode() {
    let output = loadgen(&["--provider", "null"]);
    let table = String::from_utf8(output.stdout).unwrap();
    for word in ["per-message", "deferred", "batched", "msg/s", "gateway"] {
        assert!(table.contains(word), "{table}");
    }
}

#[test]
fn what_does_not_exist_is_answered_with_what_does() {
    let (code, text) = refused(&["--scenario", "soak"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("throughput, hop, enqueue"), "{text}");
    let (code, text) = refused(&["--provider", "kafka"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("sqlite, null"), "{text}");
    let (code, _) = refused(&["--no-such-flag"]);
    assert_eq!(code, Some(2));
}

#[test]
fn a_gateway_that_cannot_be_reached_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let (code, text) = refused(&["--gateway", &address]);
    assert_eq!(code, Some(2));
    assert!(text.contains(&address), "{text}");
}
