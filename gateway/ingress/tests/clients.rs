//! Clients that do what clients should not: nothing of theirs is lost, and nobody else notices.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod support;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use sluicegate_proto::v1::{self, client_frame::Frame};
use support::*;
use tonic::{Code, Status};
use tower::{Service as _, ServiceExt as _};

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

/// Bodies of 60 KB in one frame: `count` of them.
fn large(destination: &str, count: usize) -> Frame {
    let body = Some(Bytes::from(vec![1; 60_000]));
    let message = v1::Message {
        body,
        ..v1::Message::default()
    };
    Frame::Messages(v1::Messages {
        scope: 1,
        destination: destination.to_owned(),
        messages: vec![message; count],
    })
}

#[tokio::test]
async fn clients_that_send_large_frames_at_once_take_one_frame_more_than_the_memory_there_is() {
    const CLIENTS: u64 = 40;
    let setup = Setup::default();
    let memory = setup.limits.total_bytes;
    let gateway = TestGateway::start(setup).await;
    gateway.store.shut();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let client = gateway.stream().await;
        client.send(open_scope(1)).await;
        clients.push(client);
    }
    until("the scopes", || gateway.engine.stats().scopes == CLIENTS).await;
    // 40 MB, where there is room for 8.
    for client in &mut clients {
        client.send(large("ok", 17)).await;
        client.half_close();
    }
    until("memory's use", || {
        gateway.engine.stats().held_bytes >= memory
    })
    .await;
    for _ in 0..2_000 {
        tokio::task::yield_now().await;
        let held = gateway.engine.stats().held_bytes;
        assert!(held <= memory + (1 << 20) + (1 << 16), "{held} bytes held");
    }
    gateway.store.open();
    for client in &mut clients {
        let (tally, status) = client.rest().await;
        assert_eq!(status.code(), Code::Ok, "{status:?}");
        assert_eq!(tally.confirmed.len(), 17);
    }
    assert_eq!(gateway.engine.stats().held_bytes, 0);
}

#[tokio::test]
async fn streams_that_wait_do_not_hold_up_their_neighbours_on_the_connection() {
    let mut setup = Setup::default();
    setup.limits.stream_bytes = 1_000;
    setup.limits.total_bytes = 1 << 30;
    let gateway = TestGateway::start(setup).await;
    gateway.store.shut();
    let channel = gateway.channel().await;
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let mut client = gateway.stream_on(channel.clone()).await;
        client.send(open_scope(1)).await;
        // One uses up the credit, two wait: more than HTTP/2 takes for a stream.
        for _ in 0..3 {
            client.send(large("ok", 10)).await;
        }
        client.half_close();
        waiting.push(client);
    }
    let accepted = || gateway.engine.stats().accepted;
    until("the credit's use", || accepted() == 1_000).await;

    // Its rows have nowhere to go, which needs no store.
    let mut neighbour = gateway.stream_on(channel).await;
    neighbour.send(open_scope(1)).await;
    neighbour.send(large("nowhere", 50)).await;
    neighbour.send(close(1)).await;
    assert_eq!(neighbour.scope_done(1).await.failed.len(), 50);
    assert_eq!(accepted(), 1_050);

    gateway.store.open();
    for client in &mut waiting {
        let (tally, status) = client.rest().await;
        assert_eq!(status.code(), Code::Ok, "{status:?}");
        assert_eq!(tally.confirmed.len(), 30);
    }
}

/// A request of which no more comes.
struct Unfinished(Option<Bytes>);

impl http_body::Body for Unfinished {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Status>>> {
        match self.0.take() {
            Some(bytes) => Poll::Ready(Some(Ok(http_body::Frame::data(bytes)))),
            None => Poll::Pending,
        }
    }
}

#[tokio::test]
async fn a_client_that_stops_in_the_middle_of_a_frame_is_ended_and_its_memory_is_free() {
    let mut setup = Setup::default();
    setup.options.frame_timeout = Duration::from_millis(300);
    let gateway = TestGateway::start(setup).await;
    let cut_short: &[u8] = &[0, 0, 1, 0, 0, 1, 2, 3];
    let left_open: &[u8] = &[0, 0, 0, 0, 3, 1, 2, 3];
    for (begun, charge, words) in [
        (cut_short, 65_536, "3 of a frame's 65536 bytes"),
        (left_open, 3, "half-close"),
    ] {
        let body = Unfinished(Some(Bytes::from_static(begun)));
        let request = http::Request::post("/sluicegate.v1.Gateway/Publish")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(tonic::body::Body::new(body))
            .unwrap();
        let mut channel = gateway.channel().await;
        let answering = channel.ready().await.unwrap().call(request);
        let watching = until("the frame's charge", || {
            gateway.engine.stats().held_bytes == charge
        });
        let (response, ()) = tokio::join!(answering, watching);
        let response = response.unwrap();
        let status = Status::from_header_map(response.headers()).expect("a status");
        assert_status(&status, Code::ResourceExhausted, &[words, "300 ms"]);
        assert_eq!(gateway.engine.stats().held_bytes, 0);
    }
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
