//! Messages through the real engine and the real adapter into real files, in good weather and bad.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use std::time::Duration;

use bytes::Bytes;
use sluicegate_core::{Extra, FailureClass, Header, HeaderValue, Message, Strength};
use sqlx::{Connection, Executor, Row as _};
use support::{Gateway, Setup, bodies, execute, expected, messages};

fn with_headers(body: &'static str, headers: &[(&str, HeaderValue)]) -> Message {
    Message {
        extra: Some(Box::new(Extra {
            headers: headers
                .iter()
                .map(|(name, value)| Header {
                    name: (*name).to_owned(),
                    value: value.clone(),
                })
                .collect(),
            ..Extra::default()
        })),
        ..Message::new(body)
    }
}

#[tokio::test]
async fn every_message_is_confirmed_with_the_id_of_its_row() {
    let gateway = Gateway::new(Setup::default()).await;
    let opened = gateway.engine.open("orders").await.unwrap();
    assert_eq!(opened.strength, Strength::Fsynced);
    assert!(opened.capabilities.receipts);

    let outcome = gateway.publish("orders", messages(20_000)).outcome().await;
    outcome.all_confirmed(20_000);
    let mut store = gateway.other().await;
    let rows = store
        .fetch_all("SELECT id, CAST(body AS TEXT), queue FROM messages")
        .await
        .unwrap();
    assert_eq!(rows.len(), 20_000);
    for row in rows {
        let (id, body, queue): (i64, String, String) = (row.get(0), row.get(1), row.get(2));
        let number: u64 = body.strip_prefix("body ").unwrap().parse().unwrap();
        assert_eq!(outcome.receipts.get(&number), Some(&id));
        assert_eq!(queue, "orders");
    }
}

#[tokio::test]
async fn all_that_a_message_carries_is_in_its_row() {
    let gateway = Gateway::new(Setup::default()).await;
    let rich = Message {
        body: Some(Bytes::from_static(b"\x00\xff")),
        key: Some(Bytes::from_static(b"k")),
        extra: Some(Box::new(Extra {
            headers: vec![Header {
                name: "trace".to_owned(),
                value: HeaderValue::Bytes(Bytes::from_static(b"\x00\xff")),
            }],
            id: Some("id-1".to_owned()),
            ..Extra::default()
        })),
    };
    let null = Message {
        body: None,
        key: None,
        extra: None,
    };
    let outcome = gateway
        .publish("orders", vec![rich, null, Message::new("")])
        .outcome()
        .await;
    outcome.all_confirmed(3);
    let mut store = gateway.other().await;
    let rows: Vec<String> = sqlx::query_scalar(
        "SELECT json_array(message_id, hex(key), typeof(key), json(headers), hex(body), typeof(body), \
         created_at_ms > 1700000000000) FROM messages ORDER BY id",
    )
    .fetch_all(&mut store)
    .await
    .unwrap();
    assert_eq!(
        rows,
        [
            r#"["id-1","6B","blob",[{"name":"trace","type":"bytes","value":"AP8="}],"00FF","blob",1]"#,
            r#"[null,"","null",null,"","null",1]"#,
            r#"[null,"","null",null,"","blob",1]"#,
        ]
    );
}

#[tokio::test]
async fn headers_that_json_cannot_carry_fail_their_own_row_alone() {
    let gateway = Gateway::new(Setup::default()).await;
    let outcome = gateway
        .publish(
            "orders",
            vec![
                with_headers("a", &[("ok", HeaderValue::Double(0.5))]),
                with_headers("b", &[("bad", HeaderValue::Double(f64::NAN))]),
                with_headers("c", &[("ok", HeaderValue::Int(1))]),
            ],
        )
        .outcome()
        .await;
    assert_eq!(outcome.confirmed(), [0, 2]);
    let (row, failure) = &outcome.failed[0];
    assert_eq!((*row, failure.class), (1, FailureClass::Invalid));
    assert!(failure.reason.contains("`bad`"), "{}", failure.reason);
    assert_eq!(
        bodies(&mut gateway.other().await, "messages").await,
        ["a", "c"]
    );
}

#[tokio::test]
async fn poison_rows_fail_alone_and_all_others_are_stored_once() {
    let gateway = Gateway::new(Setup {
        destination: &[
            ("table", "audit"),
            ("create_table", "false"),
            ("queue_column", ""),
            ("id_column", ""),
            ("key_column", ""),
            ("headers_column", ""),
            ("created_at_column", ""),
        ],
        ..Setup::default()
    })
    .await;
    let mut store = {
        // The table is the user's own, with a rule of its own.
        std::fs::write(gateway.path(), "").unwrap();
        gateway.other().await
    };
    execute(
        &mut store,
        "CREATE TABLE audit (id INTEGER PRIMARY KEY, body BLOB NOT NULL CHECK (body <> X'706f69736f6e'))",
    )
    .await;

    let poison = [0, 1, 99, 250, 499, 500, 501, 777, 998, 999];
    let mut batch = messages(1_000);
    for row in poison {
        batch[row] = Message::new("poison");
    }
    let outcome = gateway.publish("audit", batch).outcome().await;

    let failed: Vec<usize> = {
        let mut rows: Vec<usize> = outcome
            .failed
            .iter()
            .map(|(row, _)| usize::try_from(*row).unwrap())
            .collect();
        rows.sort_unstable();
        rows
    };
    assert_eq!(failed, poison);
    for (_, failure) in &outcome.failed {
        assert_eq!(failure.class, FailureClass::Rejected);
        assert_eq!(failure.code, "275");
        assert!(failure.reason.contains("CHECK"), "{}", failure.reason);
    }
    let stored = bodies(&mut store, "audit").await;
    let mut good = expected(1_000);
    good.retain(|body| !poison.iter().any(|row| *body == format!("body {row}")));
    assert!(stored == good, "{} stored", stored.len());
}

#[tokio::test]
async fn what_a_table_has_no_column_for_is_refused_row_by_row() {
    let gateway = Gateway::new(Setup {
        destination: &[("key_column", ""), ("headers_column", "")],
        ..Setup::default()
    })
    .await;
    let opened = gateway.engine.open("orders").await.unwrap();
    assert!(!opened.capabilities.key && !opened.capabilities.headers);
    let keyed = Message {
        key: Some("k".into()),
        ..Message::new("keyed")
    };
    let outcome = gateway
        .publish(
            "orders",
            vec![
                keyed,
                with_headers("headed", &[("h", HeaderValue::Null)]),
                Message::new("plain"),
            ],
        )
        .outcome()
        .await;
    assert_eq!(outcome.confirmed(), [2]);
    assert!(
        outcome
            .failed
            .iter()
            .all(|(_, failure)| failure.class == FailureClass::Invalid)
    );
}

#[tokio::test]
async fn a_name_that_a_client_chose_is_a_value_whatever_is_in_it() {
    let gateway = Gateway::new(Setup::default()).await;
    let evil = r#"x'); DROP TABLE messages; --""#;
    gateway
        .publish(evil, messages(3))
        .outcome()
        .await
        .all_confirmed(3);
    let queues: Vec<String> = sqlx::query_scalar("SELECT DISTINCT queue FROM messages")
        .fetch_all(&mut gateway.other().await)
        .await
        .unwrap();
    assert_eq!(queues, [evil]);
}

#[tokio::test]
async fn a_locked_store_fails_retryably_and_rows_are_stored_once_the_lock_is_gone() {
    let impatient = &[("busy_timeout_ms", "5")];
    let gateway = Gateway::new(Setup {
        connection: impatient,
        ..Setup::default()
    })
    .await;
    gateway.engine.open("orders").await.unwrap();
    let mut other = gateway.other().await;
    execute(&mut other, "BEGIN IMMEDIATE").await;
    let outcome = gateway.publish("orders", messages(3)).outcome().await;
    assert_eq!(outcome.failed.len(), 3);
    for (_, failure) in &outcome.failed {
        assert_eq!(failure.class, FailureClass::Unavailable);
        assert!(failure.retryable);
        assert!(failure.reason.contains("locked"), "{}", failure.reason);
    }
    execute(&mut other, "ROLLBACK").await;
    assert_eq!(bodies(&mut other, "messages").await, [""; 0]);

    let patient = Gateway::new(Setup {
        connection: impatient,
        attempts: 1_000,
        ..Setup::default()
    })
    .await;
    patient.engine.open("orders").await.unwrap();
    let mut other = patient.other().await;
    execute(&mut other, "BEGIN IMMEDIATE").await;
    let publishing = patient.publish("orders", messages(100));
    while patient.engine.stats().retries == 0 {
        tokio::task::yield_now().await;
    }
    execute(&mut other, "ROLLBACK").await;
    publishing.outcome().await.all_confirmed(100);
    assert_eq!(bodies(&mut other, "messages").await, expected(100));
}

#[tokio::test]
async fn rows_that_only_waited_for_a_lock_until_their_deadline_are_failed_and_not_unknown() {
    // The lock would be waited for far longer than the rows have time.
    let gateway = Gateway::new(Setup {
        connection: &[("busy_timeout_ms", "600000")],
        attempts: 10,
        ..Setup::default()
    })
    .await;
    gateway.engine.open("orders").await.unwrap();
    let mut other = gateway.other().await;
    execute(&mut other, "BEGIN IMMEDIATE").await;
    let publishing: Vec<_> = (1..=4)
        .map(|n| gateway.publish_within(Duration::from_millis(n * 500), "orders", messages(50)))
        .collect();
    for published in publishing {
        let outcome = published.outcome().await;
        assert_eq!(outcome.unknown.first(), None);
        assert_eq!(outcome.failed.len(), 50);
        for (_, failure) in &outcome.failed {
            assert!(failure.retryable, "{failure:?}");
            assert!(
                matches!(
                    failure.class,
                    FailureClass::Unavailable | FailureClass::Timeout
                ),
                "{failure:?}"
            );
        }
    }
    execute(&mut other, "ROLLBACK").await;
    gateway
        .publish("orders", messages(3))
        .outcome()
        .await
        .all_confirmed(3);
    assert_eq!(bodies(&mut other, "messages").await, expected(3));
}

#[tokio::test]
async fn a_store_deleted_while_running_is_made_anew_and_nothing_goes_into_the_old_one() {
    let gateway = Gateway::new(Setup {
        attempts: 10,
        ..Setup::default()
    })
    .await;
    gateway
        .publish("orders", messages(10))
        .outcome()
        .await
        .all_confirmed(10);
    for suffix in ["", "-wal", "-shm"] {
        let mut file = gateway.path().into_os_string();
        file.push(suffix);
        std::fs::remove_file(file).unwrap();
    }
    let outcome = gateway
        .publish_plain("orders", messages(1_000))
        .outcome()
        .await;
    outcome.all_confirmed(1_000);
    assert_eq!(
        bodies(&mut gateway.other().await, "messages").await,
        expected(1_000)
    );
}

#[tokio::test]
async fn a_store_replaced_by_another_file_is_served_under_its_name() {
    let gateway = Gateway::new(Setup {
        attempts: 10,
        ..Setup::default()
    })
    .await;
    for queue in ["orders", "invoices"] {
        gateway
            .publish(queue, messages(5))
            .outcome()
            .await
            .all_confirmed(5);
    }
    // Another database, in which nobody has opened anything yet.
    let other = Gateway::new(Setup::default()).await;
    other
        .publish("elsewhere", messages(2))
        .outcome()
        .await
        .all_confirmed(2);
    let mut store = other.other().await;
    execute(&mut store, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    store.close().await.unwrap();
    std::fs::rename(other.path(), gateway.path()).unwrap();
    let _ = std::fs::remove_file(gateway.directory.path().join("store.db-wal"));
    let _ = std::fs::remove_file(gateway.directory.path().join("store.db-shm"));

    for queue in ["orders", "invoices"] {
        gateway
            .publish(queue, messages(5))
            .outcome()
            .await
            .all_confirmed(5);
    }
    let counts: Vec<String> = sqlx::query_scalar(
        "SELECT queue || ' ' || count(*) FROM messages GROUP BY queue ORDER BY queue",
    )
    .fetch_all(&mut gateway.other().await)
    .await
    .unwrap();
    assert_eq!(counts, ["elsewhere 2", "invoices 5", "orders 5"]);
}

#[tokio::test]
async fn a_table_dropped_while_running_is_made_anew() {
    let gateway = Gateway::new(Setup {
        attempts: 10,
        ..Setup::default()
    })
    .await;
    gateway
        .publish("orders", messages(5))
        .outcome()
        .await
        .all_confirmed(5);
    execute(&mut gateway.other().await, "DROP TABLE messages").await;
    gateway
        .publish("orders", messages(7))
        .outcome()
        .await
        .all_confirmed(7);
    assert_eq!(
        bodies(&mut gateway.other().await, "messages").await,
        expected(7)
    );
}

#[tokio::test]
async fn a_missing_directory_is_named_and_once_it_is_there_messages_are_stored() {
    let gateway = Gateway::new(Setup {
        file: Some("missing/store.db"),
        ..Setup::default()
    })
    .await;
    let refusal = gateway.engine.open("orders").await.unwrap_err();
    assert_eq!(
        (refusal.class, refusal.retryable),
        (FailureClass::Unavailable, true)
    );
    for says in ["missing", "does not exist", "create it"] {
        assert!(refusal.reason.contains(says), "{}", refusal.reason);
    }
    let late = gateway.publish_within(Duration::from_millis(300), "orders", messages(2));
    let outcome = late.outcome().await;
    assert_eq!(outcome.failed.len(), 2);
    assert!(outcome.failed.iter().all(|(_, failure)| failure.retryable));

    // What waits is stored once the directory is there.
    let waiting = gateway.publish("orders", messages(2));
    std::fs::create_dir(gateway.directory.path().join("missing")).unwrap();
    waiting.outcome().await.all_confirmed(2);
}

#[tokio::test]
async fn a_directory_removed_while_running_is_waited_for() {
    let gateway = Gateway::prepared(
        Setup {
            file: Some("mount/store.db"),
            attempts: 100,
            ..Setup::default()
        },
        |path| std::fs::create_dir(path.parent().unwrap()).unwrap(),
    )
    .await;
    gateway
        .publish("orders", messages(2))
        .outcome()
        .await
        .all_confirmed(2);
    let mount = gateway.directory.path().join("mount");
    std::fs::rename(&mount, gateway.directory.path().join("away")).unwrap();
    let outcome = gateway
        .publish_within(Duration::from_millis(300), "orders", messages(2))
        .outcome()
        .await;
    assert_eq!(outcome.failed.len(), 2);
    for (_, failure) in &outcome.failed {
        assert!(failure.retryable, "{failure:?}");
        assert!(failure.reason.contains("mount"), "{}", failure.reason);
    }
    let waiting = gateway.publish("orders", messages(2));
    std::fs::rename(gateway.directory.path().join("away"), &mount).unwrap();
    waiting.outcome().await.all_confirmed(2);
}

#[tokio::test]
async fn a_store_that_may_only_be_read_is_refused_with_what_to_do() {
    let gateway = Gateway::prepared(Setup::default(), |path| {
        // A file of a newer write version is read-only for everyone, root included.
        let mut file = empty_database();
        file[18] = 3;
        std::fs::write(path, file).unwrap();
    })
    .await;
    let refusal = gateway.engine.open("orders").await.unwrap_err();
    assert_eq!(refusal.class, FailureClass::Unauthorized);
    assert!(!refusal.retryable);
    for says in ["store.db", "chmod"] {
        assert!(refusal.reason.contains(says), "{}", refusal.reason);
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_with_what_to_do() {
    let gateway = Gateway::prepared(Setup::default(), |path| {
        std::fs::write(
            path,
            "not a database, but more than a page of text ".repeat(500),
        )
        .unwrap();
    })
    .await;
    let refusal = gateway.engine.open("orders").await.unwrap_err();
    assert_eq!(
        (refusal.class, refusal.retryable),
        (FailureClass::Unavailable, false)
    );
    for says in ["store.db", "PRAGMA integrity_check"] {
        assert!(refusal.reason.contains(says), "{}", refusal.reason);
    }
}

/// The header of a database and nothing in it, as SQLite's file format describes it.
fn empty_database() -> Vec<u8> {
    let mut page = vec![0_u8; 4_096];
    page[..16].copy_from_slice(b"SQLite format 3\0");
    page[16..18].copy_from_slice(&4_096_u16.to_be_bytes());
    page[18..24].copy_from_slice(&[1, 1, 0, 64, 32, 32]);
    page[28..32].copy_from_slice(&1_u32.to_be_bytes());
    page[44..48].copy_from_slice(&4_u32.to_be_bytes());
    page[56..60].copy_from_slice(&1_u32.to_be_bytes());
    // An empty leaf of the schema's table.
    page[100] = 0x0d;
    page[105..107].copy_from_slice(&4_096_u16.to_be_bytes());
    page
}
