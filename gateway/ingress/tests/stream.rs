//! What a stream is told of its scopes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod support;

use sluicegate_ingress::{Options, Server};
use sluicegate_proto::v1::{self, client_frame::Frame, server_frame::Frame as Answer};
use support::*;
use tonic::Code;

#[tokio::test]
async fn welcome_says_what_the_gateway_serves_and_accepts() {
    let gateway = TestGateway::start(Setup::default()).await;
    gateway.engine.open("ok").await.unwrap();
    let mut client = gateway.silent_stream().await;
    client.send(hello()).await;
    let Answer::Welcome(welcome) = client.next().await else {
        panic!("Welcome comes first");
    };
    assert!(welcome.gateway.starts_with("sluicegate "));
    let limits = welcome.limits.unwrap();
    assert_eq!(limits.frame_bytes, 4 << 20);
    assert_eq!(limits.frame_messages, 65_536);
    assert_eq!(limits.open_scopes, 1_000);
    let credit = welcome.credit.unwrap();
    assert_eq!((credit.messages, credit.bytes), (10_000, 4 << 20));
    let ok = welcome
        .destinations
        .iter()
        .find(|destination| destination.name == "ok")
        .expect("a configured destination");
    assert_eq!(ok.connection, "memory");
    let state = ok.state.as_ref().expect("it is open");
    assert_eq!(state.strength(), v1::Strength::Fsynced);
    assert_eq!(state.body_bytes, 1 << 16);
    let capabilities = state.capabilities.unwrap();
    assert!(capabilities.key && capabilities.receipts && !capabilities.delay);
    assert!(
        welcome
            .destinations
            .iter()
            .any(|destination| destination.name == "orders.*" && destination.state.is_none()),
        "a pattern has no state"
    );
}

#[tokio::test]
async fn a_scope_gets_each_verdict_once_and_its_counts_add_up() {
    let gateway = TestGateway::start(Setup::default()).await;
    let mut client = gateway.stream().await;
    client.send(open_scope(1)).await;
    client.send(messages(1, "ok", 3)).await;
    client.send(messages(1, "fails", 2)).await;
    client.send(messages(1, "orders.eu", 4)).await;
    client.send(messages(1, "nowhere", 1)).await;
    client.send(messages(1, "lost", 1)).await;
    client.send(close(1)).await;
    let mut tally = client.scope_done(1).await;
    tally.confirmed.sort_unstable();
    assert_eq!(tally.confirmed, [0, 1, 2, 5, 6, 7, 8]);
    let mut failed: Vec<(u64, v1::FailureClass)> = tally
        .failed
        .iter()
        .map(|row| (row.row, row.failure.as_ref().unwrap().class()))
        .collect();
    failed.sort_unstable();
    assert_eq!(
        failed,
        [
            (3, v1::FailureClass::Rejected),
            (4, v1::FailureClass::Rejected),
            (9, v1::FailureClass::NotFound),
        ]
    );
    let unknown: Vec<u64> = tally.unknown.iter().map(|row| row.row).collect();
    assert_eq!(unknown, [10]);
    let [done] = tally.done.as_slice() else {
        panic!("one ScopeDone: {:?}", tally.done);
    };
    assert_eq!((done.confirmed, done.failed, done.unknown), (7, 3, 1));
}

#[tokio::test]
async fn a_failure_carries_the_stores_own_sentence() {
    let gateway = TestGateway::start(Setup::default()).await;
    let mut client = gateway.stream().await;
    client.send(open_scope(1)).await;
    client.send(messages(1, "fails", 1)).await;
    client.send(close(1)).await;
    let tally = client.scope_done(1).await;
    let failure = tally.failed[0].failure.as_ref().unwrap();
    assert!(failure.reason.contains(REFUSAL), "{}", failure.reason);
    assert!(!failure.retryable);
    assert_eq!(failure.attempts, 1);
}

#[tokio::test]
async fn flushed_comes_after_the_verdicts_of_what_was_published_before() {
    let gateway = TestGateway::start(Setup::default()).await;
    let mut client = gateway.stream().await;
    client.send(open_scope(1)).await;
    client.send(messages(1, "ok", 100)).await;
    client.send(flush(1, 42)).await;
    let mut confirmed = 0;
    let flushed = loop {
        match client.next_but_credit().await {
            Answer::Results(results) => {
                confirmed += results.confirmed.iter().map(|rows| rows.count).sum::<u64>();
            }
            Answer::Flushed(flushed) => break flushed,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        flushed,
        v1::Flushed {
            scope: 1,
            token: 42
        }
    );
    assert_eq!(confirmed, 100);
}

#[tokio::test]
async fn receipts_come_only_to_scopes_that_ask() {
    let gateway = TestGateway::start(Setup::default()).await;
    let mut client = gateway.stream().await;
    for (scope, receipts) in [(1, true), (2, false)] {
        let options = v1::ScopeOptions {
            receipts: Some(receipts),
            ..v1::ScopeOptions::default()
        };
        client
            .send(Frame::OpenScope(v1::OpenScope {
                scope,
                options: Some(options),
            }))
            .await;
        client.send(messages(scope, "receipts", 2)).await;
        client.send(close(scope)).await;
        let mut tally = client.scope_done(scope).await;
        assert_eq!(tally.confirmed.len(), 2);
        tally.receipts.sort_unstable_by_key(|receipt| receipt.row);
        let got: Vec<_> = tally
            .receipts
            .iter()
            .map(|receipt| (receipt.row, &receipt.receipt[..]))
            .collect();
        if receipts {
            assert_eq!(got, [(0, &b"at-0"[..]), (1, &b"at-1"[..])]);
        } else {
            assert!(got.is_empty());
        }
    }
}

#[tokio::test]
async fn all_credit_comes_back() {
    let gateway = TestGateway::start(Setup::default()).await;
    let mut client = gateway.stream().await;
    client.send(open_scope(1)).await;
    for _ in 0..50 {
        client.send(messages(1, "ok", 1_000)).await;
    }
    client.half_close();
    let (tally, status) = client.rest().await;
    assert_eq!(status.code(), Code::Ok, "{status:?}");
    assert_eq!(tally.confirmed.len(), 50_000);
    assert!(tally.credit_messages <= 50_000);
    assert!(
        tally.credit_messages > 30_000,
        "credit came back as rows settled: {}",
        tally.credit_messages
    );
    assert!(tally.credit_bytes > 0);
}

#[tokio::test]
async fn a_client_that_ends_its_side_gets_every_result_and_ok() {
    let gateway = TestGateway::start(Setup::default()).await;
    let mut client = gateway.stream().await;
    for scope in 1..=3 {
        client.send(open_scope(scope)).await;
        client.send(messages(scope, "ok", 10)).await;
    }
    client.half_close();
    let (tally, status) = client.rest().await;
    assert_eq!(status.code(), Code::Ok, "{status:?}");
    assert_eq!(tally.confirmed.len(), 30);
    assert_eq!(tally.done.len(), 3, "open scopes are closed");
}

#[tokio::test]
async fn an_aborted_scope_is_answered_with_scope_done() {
    let gateway = TestGateway::start(Setup::default()).await;
    gateway.store.shut();
    let mut client = gateway.stream().await;
    client.send(open_scope(1)).await;
    client.send(messages(1, "ok", 5_000)).await;
    client.send(abort(1)).await;
    client.send(open_scope(2)).await;
    gateway.store.open();
    let tally = client.scope_done(1).await;
    assert_eq!(tally.verdicts(), 5_000);
    for row in &tally.failed {
        let failure = row.failure.as_ref().unwrap();
        assert_eq!(failure.class(), v1::FailureClass::Aborted);
    }
    assert!(!tally.failed.is_empty(), "what was not sent is aborted");
}

#[tokio::test]
async fn a_unix_socket_serves_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.sock");
    let (engine, _store) = engine(Setup::default().limits);
    let options = Options {
        unix: Some(path.clone()),
        ..Options::default()
    };
    let server = Server::bind(options, engine).await.unwrap();
    assert_eq!(server.local_addr(), None);
    assert_eq!(server.unix_path(), Some(path.as_path()));
    let serving = tokio::spawn(server.serve(std::future::pending()));
    let channel = tonic::transport::Endpoint::new(format!("unix://{}", path.display()))
        .unwrap()
        .connect()
        .await
        .unwrap();
    let response = v1::gateway_client::GatewayClient::new(channel)
        .publish(v1::PublishRequest {
            destination: "ok".to_owned(),
            messages: vec![message("over a socket")],
            options: None,
        })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(response.confirmed, 1);
    serving.abort();
}
