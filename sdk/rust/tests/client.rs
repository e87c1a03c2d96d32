//! The client against a gateway that speaks the protocol and keeps nothing.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "a test that cannot go on must stop; doctests include the support as it is"
)]

mod support;

use std::time::Duration;

use futures::StreamExt as _;
use sluicegate_client::{Client, Error, FailureClass, Message, ScopeOptions, Verdict};
use support::Gateway;

async fn connect(gateway: &Gateway) -> Client {
    Client::connect(gateway.address()).await.unwrap()
}

fn messages(count: usize) -> Vec<Message> {
    (0..count).map(|n| Message::new(n.to_string())).collect()
}

#[tokio::test]
async fn every_row_has_its_verdict_and_a_failure_harms_one_row() {
    let gateway = Gateway::start().await;
    let scope = connect(&gateway).await.scope().await.unwrap();
    for row in 0..100 {
        let (destination, body) = match row {
            17 => ("a", "bad".to_owned()),
            42 => ("nowhere", "x".to_owned()),
            _ => ("a", row.to_string()),
        };
        assert_eq!(scope.publish(destination, body).await.unwrap(), row);
    }
    let summary = scope.close().await.unwrap();
    assert_eq!(
        (summary.confirmed, summary.failed, summary.unknown),
        (98, 2, 0)
    );
    let failures: Vec<_> = summary
        .failures
        .iter()
        .map(|failed| (failed.row, failed.failure.class))
        .collect();
    assert!(failures.contains(&(17, FailureClass::Invalid)));
    assert!(failures.contains(&(42, FailureClass::NotFound)));
}

#[tokio::test]
async fn far_more_messages_than_credit_arrive_in_frames_of_many() {
    let gateway = Gateway::with(100, 10).await;
    let scope = connect(&gateway).await.scope().await.unwrap();
    let rows = scope.publish_many("a", &messages(5_000)).await.unwrap();
    assert_eq!(rows, 0..5_000);
    let summary = scope.flush().await.unwrap();
    assert_eq!(summary.confirmed, 5_000);
    let frames = gateway.frames.lock().unwrap().clone();
    assert_eq!(frames.iter().sum::<usize>(), 5_000);
    // One destination holds half of the credit: no frame can carry more.
    assert!(frames.iter().all(|messages| *messages <= 50), "{frames:?}");
    assert!(frames.len() < 2_500, "{} frames", frames.len());
}

#[tokio::test]
async fn messages_published_one_by_one_share_frames() {
    let gateway = Gateway::start().await;
    let scope = connect(&gateway).await.scope().await.unwrap();
    for n in 0..400 {
        scope.publish("a", n.to_string()).await.unwrap();
    }
    assert_eq!(scope.close().await.unwrap().confirmed, 400);
    let frames = gateway.frames.lock().unwrap().len();
    assert!(frames < 100, "{frames} frames for 400 messages");
}

#[tokio::test]
async fn frames_are_never_larger_than_the_client_was_told() {
    let gateway = Gateway::start().await;
    let client = Client::builder()
        .frame_messages(7)
        .connect(gateway.address())
        .await
        .unwrap();
    let scope = client.scope().await.unwrap();
    scope.publish_many("a", &messages(70)).await.unwrap();
    scope.close().await.unwrap();
    assert_eq!(*gateway.frames.lock().unwrap(), vec![7; 10]);
}

#[tokio::test]
async fn rows_without_a_verdict_on_a_lost_stream_are_unknown_and_new_scopes_go_on() {
    let gateway = Gateway::start().await;
    let client = connect(&gateway).await;
    let scope = client.scope().await.unwrap();
    scope.publish_many("a", &messages(10)).await.unwrap();
    assert_eq!(scope.flush().await.unwrap().confirmed, 10);
    scope.publish("a", "hold").await.unwrap();
    scope.publish("a", "lose").await.unwrap();
    let summary = scope.close().await.unwrap();
    assert_eq!(
        (summary.confirmed, summary.failed, summary.unknown),
        (10, 0, 2)
    );
    let unknown = &summary.unknowns[0];
    assert_eq!(unknown.row, 10);
    assert!(
        unknown.failure.reason.contains("lost"),
        "{}",
        unknown.failure
    );

    let scope = client.scope().await.unwrap();
    scope.publish("a", "again").await.unwrap();
    assert!(scope.close().await.unwrap().all_confirmed());
}

#[tokio::test]
async fn a_publish_after_the_stream_was_lost_is_an_error_that_says_what_to_do() {
    let gateway = Gateway::start().await;
    let scope = connect(&gateway).await.scope().await.unwrap();
    scope.publish("a", "lose").await.unwrap();
    while scope.next_verdicts().await.is_some() {}
    let error = scope.publish("a", "x").await.unwrap_err();
    assert!(matches!(error, Error::Lost { .. }));
    assert!(error.to_string().contains("open a new scope"), "{error}");
}

#[tokio::test]
async fn a_gateway_that_comes_back_at_its_address_is_found_again() {
    let gateway = Gateway::start().await;
    let client = connect(&gateway).await;
    let scope = client.scope().await.unwrap();
    scope.publish("a", "lose").await.unwrap();
    assert_eq!(scope.close().await.unwrap().unknown, 1);
    let address = gateway.stop();
    let opening = tokio::spawn({
        let client = client.clone();
        async move { client.scope().await }
    });
    // Whether the new one listens before or after the first attempt: both must work.
    let listener = loop {
        match tokio::net::TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let _gateway = Gateway::on(listener, 1_000, 100);
    let scope = opening.await.unwrap().unwrap();
    scope.publish("a", "x").await.unwrap();
    assert!(scope.close().await.unwrap().all_confirmed());
}

#[tokio::test]
async fn single_messages_share_a_stream_and_each_caller_gets_its_own_verdict() {
    let gateway = Gateway::start().await;
    let client = connect(&gateway).await;
    let callers = (0..200).map(|n| {
        let client = client.clone();
        let body = if n % 10 == 3 { "bad" } else { "good" };
        async move { (n, client.publish_confirmed("a", body).await.unwrap()) }
    });
    for (n, verdict) in futures::future::join_all(callers).await {
        assert_eq!(verdict.is_confirmed(), n % 10 != 3, "{n}: {verdict:?}");
    }
    let frames = gateway.frames.lock().unwrap().len();
    assert!(frames < 200, "{frames} frames for 200 callers");
}

#[tokio::test]
async fn a_single_message_whose_stream_is_lost_is_unknown_and_the_next_one_goes_on() {
    let gateway = Gateway::start().await;
    let client = connect(&gateway).await;
    let verdict = client.publish_confirmed("a", "lose").await.unwrap();
    assert!(matches!(verdict, Verdict::Unknown(_)), "{verdict:?}");
    let verdict = client.publish_confirmed("a", "x").await.unwrap();
    assert!(verdict.is_confirmed());
}

#[tokio::test]
async fn after_a_drain_was_announced_old_scopes_finish_and_new_ones_take_another_stream() {
    let gateway = Gateway::start().await;
    let client = connect(&gateway).await;
    let old = client.scope().await.unwrap();
    old.publish("a", "drain").await.unwrap();
    old.flush().await.unwrap();
    let new = client.scope().await.unwrap();
    old.publish("a", "old").await.unwrap();
    new.publish("a", "new").await.unwrap();
    assert_eq!(old.close().await.unwrap().confirmed, 2);
    assert_eq!(new.close().await.unwrap().confirmed, 1);
}

#[tokio::test]
async fn a_scope_over_the_gateways_limit_waits_for_another_to_end() {
    let gateway = Gateway::with(1_000, 2).await;
    let client = connect(&gateway).await;
    let first = client.scope().await.unwrap();
    let _second = client.scope().await.unwrap();
    let mut third = Box::pin(client.scope());
    assert!(futures::poll!(&mut third).is_pending());
    first.close().await.unwrap();
    third.await.unwrap();
}

#[tokio::test]
async fn a_dropped_scope_is_closed_and_makes_room() {
    let gateway = Gateway::with(1_000, 1).await;
    let client = connect(&gateway).await;
    for _ in 0..5 {
        let scope = client.scope().await.unwrap();
        scope.publish("a", "hold").await.unwrap();
    }
}

#[tokio::test]
async fn a_destination_that_holds_its_half_does_not_stop_the_others() {
    let gateway = Gateway::with(10, 10).await;
    let scope = connect(&gateway).await.scope().await.unwrap();
    for _ in 0..5 {
        scope.publish("stalled", "hold").await.unwrap();
    }
    let mut sixth = Box::pin(scope.publish("stalled", "hold"));
    assert!(futures::poll!(&mut sixth).is_pending());
    for _ in 0..50 {
        scope.publish("other", "x").await.unwrap();
    }
    drop(sixth);
    let summary = scope.close().await.unwrap();
    assert_eq!(summary.confirmed, 55);
}

#[tokio::test]
async fn verdicts_come_as_a_stream_that_ends() {
    let gateway = Gateway::start().await;
    let scope = connect(&gateway)
        .await
        .scope_with(&ScopeOptions::new().receipts(true).batching(false))
        .await
        .unwrap();
    scope.publish_many("a", &messages(300)).await.unwrap();
    scope.publish("a", "bad").await.unwrap();
    scope.finish();
    let rows: Vec<u64> = scope
        .verdicts()
        .map(|verdicts| verdicts.rows())
        .collect()
        .await;
    assert_eq!(rows.iter().sum::<u64>(), 301);
    let error = scope.publish("a", "late").await.unwrap_err();
    assert!(matches!(error, Error::Finished));
}

#[tokio::test]
async fn an_aborted_scope_still_accounts_for_every_row() {
    let gateway = Gateway::start().await;
    let scope = connect(&gateway).await.scope().await.unwrap();
    scope.publish_many("a", &messages(10)).await.unwrap();
    assert_eq!(scope.abort().await.unwrap().total(), 10);
}

#[tokio::test]
async fn a_message_that_no_frame_can_carry_is_refused_before_any_is_published() {
    let gateway = Gateway::start().await;
    let scope = connect(&gateway).await.scope().await.unwrap();
    let batch = [Message::new("x"), Message::new(vec![0; 2 << 20])];
    let error = scope.publish_many("a", &batch).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { index: 1, .. }), "{error}");
    assert_eq!(scope.close().await.unwrap().total(), 0);
}

#[tokio::test]
async fn an_address_where_nobody_listens_is_named() {
    let gateway = Gateway::start().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop((gateway, listener));
    let error = Client::connect(&address).await.unwrap_err().to_string();
    assert!(
        error.contains(&address) && error.contains("sluicegate serve"),
        "{error}"
    );
}

#[tokio::test]
async fn an_address_that_is_none_is_refused_with_what_to_write() {
    for address in ["127.0.0.1:7077", "ftp://x", "http://"] {
        let error = Client::connect(address).await.unwrap_err();
        assert!(matches!(error, Error::Address { .. }), "{address}: {error}");
    }
}

#[tokio::test]
async fn someone_who_accepts_and_says_nothing_is_no_gateway() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let error = Client::builder()
        .connect_timeout(Duration::from_millis(50))
        .connect(&address)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
}

#[tokio::test]
async fn a_unix_socket_carries_the_same_stream() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.sock");
    Gateway::on_unix(&path);
    let client = Client::connect(format!("unix:{}", path.display()))
        .await
        .unwrap();
    assert!(
        client
            .publish_confirmed("a", "x")
            .await
            .unwrap()
            .is_confirmed()
    );
}
