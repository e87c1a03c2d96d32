//! `serve` and `publish` against a real store: what a newcomer does first, and how it ends.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod common;

use common::Place;
use sluicegate_client::{Client, Message};

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
fn a_line_that_no_frame_can_carry_fails_alone() {
    let place = Place::new();
    place.write("sluicegate.toml", "[limits]\nframe_bytes = 1024\n");
    let gateway = place.serve(&[ANY_PORT]);
    let large = "x".repeat(2_000);
    let ran = place.run_with_input(
        &["publish", "q", "--address", &gateway.address, "--receipts"],
        format!("a\n{large}\n{large}\nb\n").as_bytes(),
    );
    assert_eq!(ran.code, Some(1), "{ran:?}");
    for line in ["line 2", "line 3"] {
        assert!(
            ran.stdout.contains(&format!("{line}: failed TOO_LARGE: ")),
            "{ran:?}"
        );
    }
    assert!(ran.stdout.contains("line 1: confirmed 1\n"), "{ran:?}");
    assert!(ran.stdout.contains("line 4: confirmed 2\n"), "{ran:?}");
    assert!(
        ran.stdout
            .ends_with("4 messages to q: 2 confirmed, 2 failed, 0 unknown\n"),
        "{ran:?}"
    );
    assert_eq!(place.rows("sluicegate.db", ALL).len(), 2);
}

#[test]
fn an_input_that_cannot_be_read_is_said_and_nothing_is_counted() {
    let place = Place::new();
    let gateway = place.serve(&[ANY_PORT]);
    for (input, says) in [(".", "directory"), ("no-such-file", "no-such-file")] {
        let ran = place.run(&["publish", "q", input, "--address", &gateway.address]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert_eq!(ran.stdout, "", "{ran:?}");
        assert!(ran.stderr.contains(says), "{ran:?}");
    }
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
    const MESSAGES: u64 = 1_000;
    let place = Place::new();
    let mut gateway = place.serve(&[ANY_PORT]);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let summary = runtime.block_on(async {
        let client = Client::connect(format!("http://{}", gateway.address))
            .await
            .unwrap();
        // The first message makes the store; then somebody else writes to it and does not end.
        assert!(
            client
                .publish_confirmed("q", "0")
                .await
                .unwrap()
                .is_confirmed()
        );
        let mut lock = place.connect("sluicegate.db").await;
        sqlx::query("BEGIN IMMEDIATE")
            .execute(&mut lock)
            .await
            .unwrap();

        let scope = client.scope().await.unwrap();
        let messages: Vec<Message> = (0..MESSAGES).map(|n| Message::new(n.to_string())).collect();
        scope.publish_many("q", &messages).await.unwrap();
        while client.stats().await.unwrap().accepted < MESSAGES + 1 {
            tokio::task::yield_now().await;
        }
        gateway.terminate();
        gateway.wait_for("draining");
        // The gateway was told to end, and nothing of the scope is stored yet.
        let stored: i64 = sqlx::query_scalar("SELECT count(*) FROM messages")
            .fetch_one(&mut lock)
            .await
            .unwrap();
        assert_eq!(stored, 1);
        sqlx::query("ROLLBACK").execute(&mut lock).await.unwrap();
        scope.close().await.unwrap()
    });
    assert_eq!(summary.confirmed, MESSAGES, "{summary:?}");
    assert!(summary.all_confirmed(), "{summary:?}");
    assert_eq!(gateway.wait().code(), Some(0), "{}", gateway.log());
    assert_eq!(place.rows("sluicegate.db", ALL).len() as u64, MESSAGES + 1);
}

#[test]
fn a_second_signal_ends_it_without_waiting() {
    let place = Place::new();
    // Nothing is ever settled: a drain would take all of its 25 seconds, and this ends before.
    place.write(
        "sluicegate.toml",
        "[connections.main]\nadapter = \"null\"\nstall = true\n[destinations.\"*\"]\n",
    );
    let mut gateway = place.serve(&[ANY_PORT]);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let _client = runtime.block_on(async {
        let client = Client::connect(format!("http://{}", gateway.address))
            .await
            .unwrap();
        let scope = client.scope().await.unwrap();
        scope.publish("q", "x").await.unwrap();
        while client.stats().await.unwrap().accepted < 1 {
            tokio::task::yield_now().await;
        }
        (client, scope)
    });
    gateway.terminate();
    gateway.wait_for("draining");
    gateway.terminate();
    assert_eq!(gateway.wait().code(), Some(1));
    assert!(gateway.log().contains("SIGTERM again"));
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
