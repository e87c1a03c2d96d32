//! Clients that do what clients should not: nothing of theirs is lost, and nobody else notices.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use sluicegate_proto::v1::{self, client_frame::Frame};
use support::*;
use tonic::Code;

#[tokio::test]
async fn a_client_that_vanishes_leaves_its_accepted_rows_to_settle() {
    let gateway = TestGateway::start(Setup::default()).await;
    gateway.store.shut();
    let client = gateway.stream().await;
    client.send(open_scope(1)).await;
    client.send(messages(1, "ok", 50)).await;
    until("acceptance", || gateway.engine.stats().accepted == 50).await;
    drop(client);
    gateway.store.open();
    gateway.settled().await;
    until("the stream's end", || gateway.engine.stats().streams == 0).await;
    assert_eq!(gateway.engine.stats().confirmed, 50);
}

#[tokio::test]
async fn a_client_that_writes_everything_before_it_reads_gets_all_its_results() {
    let mut setup = Setup::default();
    setup.limits.stream_messages = 1_000;
    let gateway = TestGateway::start(setup).await;
    let mut client = gateway.stream().await;
    // Far more than the credit, and than HTTP/2 holds on the way.
    for scope in 1..=400 {
        client.send(open_scope(scope)).await;
        client
            .send(Frame::Messages(v1::Messages {
                scope,
                destination: "ok".to_owned(),
                messages: vec![
                    v1::Message {
                        body: Some(Bytes::from(vec![1; 1_000])),
                        ..v1::Message::default()
                    };
                    100
                ],
            }))
            .await;
        client.send(close(scope)).await;
    }
    client.half_close();
    let (tally, status) = client.rest().await;
    assert_eq!(status.code(), Code::Ok, "{status:?}");
    assert_eq!(tally.confirmed.len(), 40_000);
    assert_eq!(tally.done.len(), 400);
}

#[tokio::test]
async fn a_client_that_ignores_its_credit_waits_and_the_gateway_holds_no_more_than_the_credit() {
    let mut setup = Setup::default();
    setup.limits.stream_messages = 1_000;
    let gateway = TestGateway::start(setup).await;
    gateway.store.shut();
    let mut client = gateway.stream().await;
    client.send(open_scope(1)).await;
    let body = Bytes::from(vec![1; 1_000]);
    let frame = move || {
        Frame::Messages(v1::Messages {
            scope: 1,
            destination: "ok".to_owned(),
            messages: vec![
                v1::Message {
                    body: Some(body.clone()),
                    ..v1::Message::default()
                };
                100
            ],
        })
    };
    // 20 MB, where credit is 1,000 messages: the writer must come to a stop.
    let frames = client.sender();
    let writer = tokio::spawn(async move {
        for _ in 0..200 {
            frames
                .send(v1::ClientFrame {
                    frame: Some(frame()),
                })
                .await
                .unwrap();
        }
    });
    until("the credit's use", || {
        gateway.engine.stats().accepted >= 500
    })
    .await;
    for _ in 0..2_000 {
        tokio::task::yield_now().await;
        let stats = gateway.engine.stats();
        assert!(
            stats.accepted <= 1_100,
            "{} rows accepted, one frame more than the credit at most",
            stats.accepted
        );
    }
    assert!(!writer.is_finished(), "flow control holds the writer");
    gateway.store.open();
    in_time("the writing", writer).await.unwrap();
    client.half_close();
    let (tally, status) = client.rest().await;
    assert_eq!(status.code(), Code::Ok, "{status:?}");
    assert_eq!(tally.confirmed.len(), 20_000);
}

#[tokio::test]
async fn frames_of_a_few_bytes_that_ignore_credit_wait_like_all_others() {
    const FRAMES: u64 = 100_000;
    let mut setup = Setup::default();
    setup.limits.stream_messages = 1_000;
    let gateway = TestGateway::start(setup).await;
    gateway.store.shut();
    let mut client = gateway.stream().await;
    client.send(open_scope(1)).await;
    let frames = client.sender();
    let last = client.sender();
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let writer = tokio::spawn(async move {
        for _ in 0..FRAMES {
            let frame = Some(messages(1, "ok", 1));
            frames.send(v1::ClientFrame { frame }).await.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
            // Or the client's library writes several into one DATA frame.
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        }
    });
    // All that flow control lets through, which is not all.
    let mut before = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = sent.load(Ordering::Relaxed);
        if now > 1_000 && now == before {
            break;
        }
        before = now;
    }
    assert!(before < FRAMES, "flow control holds nothing back");
    assert!(gateway.engine.stats().accepted <= 1_001);
    gateway.store.open();
    // Results are read meanwhile: the same guard watches the client's side of the connection.
    let closing = async {
        writer.await.unwrap();
        let frame = Some(close(1));
        last.send(v1::ClientFrame { frame }).await.unwrap();
    };
    let (tally, ()) = tokio::join!(client.scope_done(1), closing);
    assert_eq!(tally.done[0].confirmed, FRAMES);
    gateway.shut_down().await;
}

#[tokio::test]
async fn a_client_that_never_reads_its_results_is_ended_and_told_when_it_reads() {
    let mut setup = Setup::default();
    setup.limits.unread_result_bytes = 64 * 1024;
    setup.limits.unread_results_timeout = Duration::from_millis(50);
    let gateway = TestGateway::start(setup).await;
    let mut client = gateway.stream().await;
    client.send(open_scope(1)).await;
    // Each row fails with a sentence: megabytes of results, more than HTTP/2 takes unread.
    let frames = client.sender();
    let writer = tokio::spawn(async move {
        for _ in 0..1_000 {
            let frame = v1::ClientFrame {
                frame: Some(messages(1, "fails", 100)),
            };
            if frames.send(frame).await.is_err() {
                return;
            }
        }
    });
    until("the stream's end", || gateway.engine.stats().streams == 0).await;
    let (tally, status) = client.rest().await;
    assert_status(&status, Code::ResourceExhausted, &["unread", "50 ms"]);
    assert!(tally.failed.len() < 100_000);
    gateway.settled().await;
    let stats = gateway.engine.stats();
    assert_eq!(
        stats.accepted, stats.failed,
        "what was accepted has settled"
    );
    writer.abort();
}

#[tokio::test]
async fn ten_thousand_scopes_at_once_are_served() {
    let mut setup = Setup::default();
    setup.limits.stream_scopes = 10_000;
    setup.limits.stream_messages = 20_000;
    let gateway = TestGateway::start(setup).await;
    gateway.store.shut();
    let mut client = gateway.stream().await;
    for scope in 1..=10_000 {
        client.send(open_scope(scope)).await;
        client.send(messages(scope, "ok", 1)).await;
    }
    until("all scopes", || gateway.engine.stats().scopes == 10_000).await;
    gateway.store.open();
    client.half_close();
    let (tally, status) = client.rest().await;
    assert_eq!(status.code(), Code::Ok, "{status:?}");
    assert_eq!(tally.done.len(), 10_000);
    assert!(tally.done.iter().all(|done| done.confirmed == 1));
}

#[tokio::test]
async fn one_scope_more_than_the_limit_ends_the_stream_and_names_the_limit() {
    let mut setup = Setup::default();
    setup.limits.stream_scopes = 3;
    let gateway = TestGateway::start(setup).await;
    let mut client = gateway.stream().await;
    for scope in 1..=4 {
        client.send(open_scope(scope)).await;
    }
    let status = client.status().await;
    assert_status(&status, Code::ResourceExhausted, &["3 scopes", "limit"]);
}

#[tokio::test]
async fn a_fault_of_one_stream_is_none_of_its_neighbour() {
    let gateway = TestGateway::start(Setup::default()).await;
    let mut good = gateway.stream().await;
    let mut bad = gateway.stream().await;
    good.send(open_scope(1)).await;
    good.send(messages(1, "ok", 10)).await;
    bad.send(hello()).await;
    assert_eq!(bad.status().await.code(), Code::InvalidArgument);
    good.send(messages(1, "ok", 10)).await;
    good.send(close(1)).await;
    assert_eq!(good.scope_done(1).await.confirmed.len(), 20);
}
