//! A drain refuses what is new, settles what there is, and ends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod support;

use std::time::Duration;

use sluicegate_ingress::Options;
use sluicegate_proto::v1::{self, server_frame::Frame as Answer};
use support::*;
use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

const SERVICE: &str = "sluicegate.v1.Gateway";

#[tokio::test]
async fn streams_are_told_and_open_scopes_go_on() {
    let gateway = TestGateway::start(Setup::default()).await;
    let mut client = gateway.stream().await;
    client.send(open_scope(1)).await;
    client.send(messages(1, "ok", 1)).await;
    client.send(flush(1, 1)).await;
    while !matches!(client.next().await, Answer::Flushed(_)) {}
    gateway.engine.drain(Duration::from_secs(9));
    let Answer::Draining(draining) = client.next_but_credit().await else {
        panic!("Draining comes next");
    };
    assert!((1..=9_000).contains(&draining.deadline_ms));
    client.send(messages(1, "ok", 2)).await;
    client.send(close(1)).await;
    let (tally, status) = client.rest().await;
    assert_eq!(tally.done[0].confirmed, 3, "the open scope went on");
    assert_status(&status, Code::Unavailable, &["shutting down"]);
}

#[tokio::test]
async fn a_scope_opened_after_draining_is_refused() {
    let gateway = TestGateway::start(Setup::default()).await;
    gateway.store.shut();
    let mut client = gateway.stream().await;
    client.send(open_scope(1)).await;
    client.send(messages(1, "ok", 1)).await;
    until("acceptance", || gateway.engine.stats().accepted == 1).await;
    gateway.engine.drain(Duration::from_secs(9));
    while !matches!(client.next().await, Answer::Draining(_)) {}
    client.send(open_scope(2)).await;
    assert_status(
        &client.status().await,
        Code::Unavailable,
        &["shutting down"],
    );
    gateway.store.open();
    in_time("settling", gateway.engine.drained()).await;
    assert_eq!(gateway.engine.stats().confirmed, 1);
}

#[tokio::test]
async fn new_streams_and_publishes_are_refused() {
    let gateway = TestGateway::start(Setup::default()).await;
    let mut client = gateway.client().await;
    gateway.engine.drain(Duration::from_secs(9));
    let refused = client
        .stream(tokio_stream::iter(Vec::<v1::ClientFrame>::new()))
        .await
        .expect_err("a stream");
    assert_status(&refused, Code::Unavailable, &["shutting down"]);
    let refused = client
        .publish(v1::PublishRequest {
            destination: "ok".to_owned(),
            messages: vec![message("late")],
            options: None,
        })
        .await
        .expect_err("a publish");
    assert_status(&refused, Code::Unavailable, &["shutting down"]);
    assert_eq!(gateway.engine.stats().accepted, 0);
}

#[tokio::test]
async fn health_says_serving_and_then_not_serving() {
    let gateway = TestGateway::start(Setup::default()).await;
    gateway.store.shut();
    let mut health = HealthClient::new(gateway.channel().await);
    for service in ["", SERVICE] {
        let answer = health
            .check(HealthCheckRequest {
                service: service.to_owned(),
            })
            .await
            .unwrap();
        assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
    }
    let mut watch = health
        .watch(HealthCheckRequest {
            service: SERVICE.to_owned(),
        })
        .await
        .unwrap()
        .into_inner();
    let first = watch.message().await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::Serving);

    // A row in flight keeps the drain going while health is asked.
    let mut client = gateway.stream().await;
    client.send(open_scope(1)).await;
    client.send(messages(1, "ok", 1)).await;
    client.half_close();
    until("acceptance", || gateway.engine.stats().accepted == 1).await;
    let store = gateway.store.clone();
    let ended = gateway.begin_shutdown();
    let next = in_time("the change", watch.message()).await;
    assert_eq!(next.unwrap().unwrap().status(), ServingStatus::NotServing);

    // The watch never ends by itself, and does not hold up the end.
    store.open();
    in_time("the shutdown", ended).await.unwrap().unwrap();
    let (tally, _) = client.rest().await;
    assert_eq!(tally.confirmed, [0]);
}

#[tokio::test]
async fn a_shutdown_settles_what_was_accepted_and_idle_streams_do_not_hold_it_up() {
    let gateway = TestGateway::start(Setup::default()).await;
    gateway.store.shut();
    let mut idle = gateway.stream().await;
    let mut busy = gateway.stream().await;
    busy.send(open_scope(1)).await;
    busy.send(messages(1, "ok", 100)).await;
    busy.send(close(1)).await;
    until("acceptance", || gateway.engine.stats().accepted == 100).await;
    let (engine, store) = (gateway.engine.clone(), gateway.store.clone());
    let ended = gateway.begin_shutdown();
    let (tally, status) = idle.rest().await;
    assert!(tally.draining);
    assert_eq!(status.code(), Code::Unavailable);
    assert!(!ended.is_finished(), "rows are in flight");
    store.open();
    in_time("the shutdown", ended).await.unwrap().unwrap();
    let (tally, status) = busy.rest().await;
    assert_eq!(tally.confirmed.len(), 100);
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(engine.stats().confirmed, 100);
}

#[tokio::test]
async fn at_the_deadline_every_row_gets_its_verdict_before_the_stream_ends() {
    let mut setup = Setup::default();
    setup.options = Options {
        drain_timeout: Duration::from_millis(50),
        ..setup.options
    };
    let gateway = TestGateway::start(setup).await;
    gateway.store.shut();
    let mut client = gateway.stream().await;
    client.send(open_scope(1)).await;
    client.send(messages(1, "ok", 100)).await;
    let mut unary = gateway.client().await;
    let single = tokio::spawn(async move {
        let request = v1::PublishRequest {
            destination: "ok".to_owned(),
            messages: vec![message("a")],
            options: None,
        };
        unary.publish(request).await
    });
    until("acceptance", || gateway.engine.stats().accepted == 101).await;
    let engine = gateway.engine.clone();
    gateway.shut_down().await;
    let (tally, status) = client.rest().await;
    assert_eq!(tally.verdicts(), 100);
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    // Never UNAVAILABLE for a row that may be stored: clients retry that by themselves.
    match single.await.unwrap() {
        Ok(answer) => assert_eq!(answer.into_inner().failed, 1),
        Err(status) => assert_eq!(status.code(), Code::Unknown, "{status:?}"),
    }
    let stats = engine.stats();
    assert_eq!(stats.queued_messages + stats.in_flight_messages, 0);
}

#[tokio::test]
async fn a_scope_that_is_never_closed_ends_at_the_deadline() {
    let mut setup = Setup::default();
    setup.options = Options {
        drain_timeout: Duration::from_millis(50),
        ..setup.options
    };
    let gateway = TestGateway::start(setup).await;
    let mut client = gateway.stream().await;
    client.send(open_scope(1)).await;
    client.send(messages(1, "ok", 1)).await;
    client.send(flush(1, 1)).await;
    while !matches!(client.next().await, Answer::Flushed(_)) {}
    gateway.shut_down().await;
    let (tally, status) = client.rest().await;
    assert!(tally.draining);
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}

#[tokio::test]
async fn a_shutdown_of_an_idle_gateway_ends_at_once() {
    TestGateway::start(Setup::default()).await.shut_down().await;
}
