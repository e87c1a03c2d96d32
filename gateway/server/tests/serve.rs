//! `serve` and `publish` against a real store: what a newcomer does first, and how it ends.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod common;

use std::io::Write as _;
use std::process::Stdio;

use common::Place;

const ANY_PORT: (&str, &str) = ("SLUICEGATE_LISTEN", "127.0.0.1:0");
const ALL: &str = "SELECT queue, body FROM messages ORDER BY id";

#[test]
fn without_a_configuration_lines_become_rows_of_a_store_in_the_working_directory() {
    let place = Place::new();
    let gateway = place.serve(&[ANY_PORT]);

    let ran = place.run_with_input(
        &["publish", "greetings", "--address", &gateway.address],
        b"hello\nworld\r\n\n\xff\xfe\nlast",
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        ran.stdout,
        "5 messages to greetings: 5 confirmed, 0 failed, 0 unknown\n"
    );

    let rows = place.rows("sluicegate.db", ALL);
    let bodies: Vec<&[u8]> = rows
        .iter()
        .map(|(_, body)| body.as_deref().unwrap())
        .collect();
    assert_eq!(
        bodies,
        [&b"hello"[..], b"world\r", b"", b"\xff\xfe", b"last"]
    );
    assert!(rows.iter().all(|(queue, _)| queue == "greetings"));
}

#[test]
fn receipts_are_the_ids_of_the_rows() {
    let place = Place::new();
    let gateway = place.serve(&[ANY_PORT]);
    let ran = place.run_with_input(
        &["publish", "q", "--address", &gateway.address, "--receipts"],
        b"a\nb\n",
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        ran.stdout,
        "line 1: confirmed 1\nline 2: confirmed 2\n2 messages to q: 2 confirmed, 0 failed, 0 unknown\n"
    );
}

#[test]
fn a_line_that_fails_is_named_with_its_reason_and_its_neighbours_are_stored() {
    let place = Place::new();
    place.write(
        "sluicegate.toml",
        "[connections.main]\nadapter = \"sql\"\n[destinations.\"*\"]\nmax_body_bytes = 4\n",
    );
    let gateway = place.serve(&[ANY_PORT]);
    let ran = place.run_with_input(
        &["publish", "q", "--address", &gateway.address],
        b"a\ntoo long\nb\n",
    );
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{ran:?}");
    assert!(
        lines[0].starts_with("line 2: failed TOO_LARGE: "),
        "{ran:?}"
    );
    assert_eq!(
        lines[1],
        "3 messages to q: 2 confirmed, 1 failed, 0 unknown"
    );
    assert_eq!(place.rows("sluicegate.db", ALL).len(), 2);
}

#[test]
fn a_key_and_headers_reach_the_store() {
    let place = Place::new();
    let gateway = place.serve(&[ANY_PORT]);
    let ran = place.run_with_input(
        &[
            "publish",
            "q",
            "--address",
            &gateway.address,
            "--key",
            "k1",
            "--header",
            "a=b=c",
        ],
        b"x\n",
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows = place.rows("sluicegate.db", "SELECT headers, key FROM messages");
    assert_eq!(rows[0].1.as_deref(), Some(&b"k1"[..]));
    assert!(rows[0].0.contains("\"b=c\""), "{rows:?}");
}

#[test]
fn nobody_at_the_address_is_said_with_the_address() {
    let place = Place::new();
    // Nobody listens on a port that was just given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let ran = place.run_with_input(&["publish", "q", "--address", &port.to_string()], b"x\n");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains(&port.to_string()), "{ran:?}");
}

#[test]
fn a_port_that_is_taken_is_said_and_is_no_fault_of_the_configuration() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = place
        .command(&["serve"])
        .env("SLUICEGATE_LISTEN", &address)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(&address), "{stderr}");
}

#[test]
fn sigterm_settles_what_was_accepted_and_ends_well() {
    let place = Place::new();
    let mut gateway = place.serve(&[ANY_PORT]);

    // A publisher that keeps its scope open: its rows are accepted, and it has more to say.
    let mut publisher = place
        .command(&["publish", "q", "--address", &gateway.address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = publisher.stdin.take().unwrap();
    for number in 0..20_000 {
        writeln!(input, "message {number}").unwrap();
    }
    drop(input);
    // The publisher's answer may come before or after the signal: either way nothing is lost.
    gateway.terminate();
    let status = gateway.wait();
    assert_eq!(status.code(), Some(0), "{}", gateway.log());

    let output = publisher.wait_with_output().unwrap();
    let summary = String::from_utf8(output.stdout).unwrap();
    let confirmed: usize = summary
        .lines()
        .last()
        .and_then(|line| line.split(": ").nth(1))
        .and_then(|counts| counts.split(' ').next())
        .and_then(|count| count.parse().ok())
        .unwrap_or(0);
    let stored = place.rows("sluicegate.db", ALL).len();
    assert!(
        stored >= confirmed,
        "{confirmed} were confirmed and {stored} are stored"
    );
    let log = gateway.log();
    assert!(log.contains("SIGTERM"), "{log}");
    assert!(log.contains("drained"), "{log}");
}

#[test]
fn a_unix_socket_serves_beside_tcp() {
    let place = Place::new();
    let socket = place.path("s.sock");
    let mut gateway = place.serve(&[
        ANY_PORT,
        ("SLUICEGATE_UNIX_SOCKET", socket.to_str().unwrap()),
    ]);
    let address = format!("unix:{}", socket.display());
    let ran = place.run_with_input(&["publish", "q", "--address", &address], b"x\n");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    gateway.terminate();
    assert_eq!(gateway.wait().code(), Some(0));
    assert!(!socket.exists(), "the socket's file is left behind");
}

#[test]
fn json_logs_carry_the_same_message() {
    let place = Place::new();
    // `serve` waits for "listening on": that it returns is the test.
    let gateway = place.serve(&[ANY_PORT, ("SLUICEGATE_LOG__FORMAT", "json")]);
    assert!(
        gateway.address.starts_with("127.0.0.1:"),
        "{}",
        gateway.address
    );
}

#[test]
fn a_store_that_cannot_be_opened_keeps_the_gateway_serving_the_others() {
    let place = Place::new();
    place.write(
        "sluicegate.toml",
        "[connections.good]\nadapter = \"sql\"\npath = \"good.db\"\n\
         [connections.bad]\nadapter = \"sql\"\npath = \"no/such/directory/bad.db\"\n\
         [destinations.good]\nconnection = \"good\"\n\
         [destinations.bad]\nconnection = \"bad\"\n",
    );
    let mut gateway = place.serve(&[ANY_PORT]);
    let ran = place.run_with_input(&["publish", "good", "--address", &gateway.address], b"x\n");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let line = gateway.wait_for("no/such/directory");
    assert!(line.contains("bad"), "{line}");
}
