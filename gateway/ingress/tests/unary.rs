//! `Publish` and `Stats`, and what the gateway says about itself.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod support;

use bytes::Bytes;
use sluicegate_ingress::Options;
use sluicegate_proto::v1::{self, PublishRequest, PublishResponse, StatsRequest};
use support::*;
use tokio_stream::StreamExt;
use tonic::{Code, Status};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

async fn publish(
    gateway: &TestGateway,
    destination: &str,
    count: usize,
) -> Result<PublishResponse, Status> {
    let request = PublishRequest {
        destination: destination.to_owned(),
        messages: vec![message("a body"); count],
        options: None,
    };
    in_time("a publish", gateway.client().await.publish(request))
        .await
        .map(tonic::Response::into_inner)
}

#[tokio::test]
async fn a_publish_is_answered_with_its_verdicts() {
    let gateway = TestGateway::start(Setup::default()).await;
    let response = publish(&gateway, "ok", 2_500).await.unwrap();
    assert_eq!(
        (response.confirmed, response.failed, response.unknown),
        (2_500, 0, 0)
    );
    let rows: u64 = response
        .results
        .unwrap()
        .confirmed
        .iter()
        .map(|rows| rows.count)
        .sum();
    assert_eq!(rows, 2_500);
}

#[tokio::test]
async fn a_message_that_failed_is_ok_with_a_failure() {
    let gateway = TestGateway::start(Setup::default()).await;
    let response = publish(&gateway, "fails", 1).await.unwrap();
    assert_eq!((response.confirmed, response.failed), (0, 1));
    let results = response.results.unwrap();
    let failure = results.failed[0].failure.as_ref().unwrap();
    assert_eq!(failure.class(), v1::FailureClass::Rejected);
}

#[tokio::test]
async fn one_message_whose_fate_is_unknown_is_the_status_unknown() {
    let gateway = TestGateway::start(Setup::default()).await;
    let status = publish(&gateway, "lost", 1).await.expect_err("unknown");
    assert_eq!(status.code(), Code::Unknown);
    assert!(!status.message().is_empty());
}

#[tokio::test]
async fn several_messages_whose_fate_is_unknown_are_ok_with_verdicts() {
    let gateway = TestGateway::start(Setup::default()).await;
    let response = publish(&gateway, "lost", 2).await.unwrap();
    assert_eq!(response.unknown, 2);
    assert_eq!(response.results.unwrap().unknown.len(), 2);
}

#[tokio::test]
async fn a_publish_without_messages_is_refused() {
    let gateway = TestGateway::start(Setup::default()).await;
    let status = publish(&gateway, "ok", 0).await.expect_err("nothing");
    assert_status(&status, Code::InvalidArgument, &["without messages"]);
}

#[tokio::test]
async fn the_limits_of_a_stream_hold_for_a_publish() {
    let mut setup = Setup::default();
    setup.options = Options {
        frame_bytes: 4_000,
        frame_messages: 20,
        ..setup.options
    };
    let gateway = TestGateway::start(setup).await;
    let status = publish(&gateway, "ok", 21).await.expect_err("too many");
    assert_status(&status, Code::InvalidArgument, &["21 messages", "20"]);
    let large = PublishRequest {
        destination: "ok".to_owned(),
        messages: vec![v1::Message {
            body: Some(Bytes::from(vec![0; 5_000])),
            ..v1::Message::default()
        }],
        options: None,
    };
    let status = gateway
        .client()
        .await
        .publish(large)
        .await
        .expect_err("too large");
    assert_status(&status, Code::InvalidArgument, &["4000", "frame_bytes"]);
    assert_eq!(gateway.engine.stats().accepted, 0);
}

#[tokio::test]
async fn a_publish_of_more_than_the_streams_credit_settles() {
    let mut setup = Setup::default();
    setup.limits.stream_messages = 100;
    let gateway = TestGateway::start(setup).await;
    let response = publish(&gateway, "ok", 1_000).await.unwrap();
    assert_eq!(response.confirmed, 1_000);
}

#[tokio::test]
async fn bytes_that_are_no_request_are_refused() {
    let gateway = TestGateway::start(Setup::default()).await;
    let status = raw_call(
        &gateway,
        "/sluicegate.v1.Gateway/Publish",
        vec![Bytes::from_static(b"\xff\xff")],
    )
    .await;
    assert_status(&status, Code::InvalidArgument, &["no PublishRequest"]);
}

#[tokio::test]
async fn stats_add_up() {
    let gateway = TestGateway::start(Setup::default()).await;
    publish(&gateway, "ok", 10).await.unwrap();
    publish(&gateway, "fails", 3).await.unwrap();
    publish(&gateway, "lost", 2).await.unwrap();
    let stats = gateway
        .client()
        .await
        .stats(StatsRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(stats.accepted, 15);
    assert_eq!((stats.confirmed, stats.failed, stats.unknown), (10, 3, 2));
    assert_eq!((stats.queued_messages, stats.in_flight_messages), (0, 0));
    assert!(stats.batches >= 3);
}

#[tokio::test]
async fn reflection_names_the_services_and_knows_their_messages() {
    let gateway = TestGateway::start(Setup::default()).await;
    let ask = |request: MessageRequest| ServerReflectionRequest {
        host: String::new(),
        message_request: Some(request),
    };
    let requests = vec![
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol(
            "sluicegate.v1.ClientFrame".to_owned(),
        )),
    ];
    let mut answers = ServerReflectionClient::new(gateway.channel().await)
        .server_reflection_info(tokio_stream::iter(requests))
        .await
        .unwrap()
        .into_inner();
    let Some(MessageResponse::ListServicesResponse(services)) =
        answers.next().await.unwrap().unwrap().message_response
    else {
        panic!("a list of services");
    };
    let names: Vec<_> = services
        .service
        .iter()
        .map(|service| service.name.as_str())
        .collect();
    assert!(names.contains(&"sluicegate.v1.Gateway"), "{names:?}");
    assert!(names.contains(&"grpc.health.v1.Health"), "{names:?}");
    let Some(MessageResponse::FileDescriptorResponse(file)) =
        answers.next().await.unwrap().unwrap().message_response
    else {
        panic!("a file");
    };
    assert!(!file.file_descriptor_proto.is_empty());
}
