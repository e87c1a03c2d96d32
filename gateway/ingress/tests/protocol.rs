//! Protocol faults end the stream with a status that names the fault and the remedy; what was
//! accepted before settles all the same.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod support;

use bytes::Bytes;
use prost::Message as _;
use sluicegate_ingress::Options;
use sluicegate_proto::v1::{self, client_frame::Frame};
use support::*;
use tonic::Code;

/// Says these frames after Hello and returns the status that comes of it.
async fn fault_of(frames: impl IntoIterator<Item = Frame>) -> tonic::Status {
    let gateway = TestGateway::start(Setup::default()).await;
    let mut client = gateway.stream().await;
    for frame in frames {
        client.send(frame).await;
    }
    client.status().await
}

#[tokio::test]
async fn a_stream_that_does_not_begin_with_hello_is_refused() {
    let gateway = TestGateway::start(Setup::default()).await;
    let mut client = gateway.silent_stream().await;
    client.send(open_scope(1)).await;
    let status = client.status().await;
    assert_status(&status, Code::InvalidArgument, &["Hello", "OpenScope"]);
}

#[tokio::test]
async fn a_stream_that_ends_before_hello_is_refused() {
    let gateway = TestGateway::start(Setup::default()).await;
    let mut client = gateway.silent_stream().await;
    client.half_close();
    assert_status(&client.status().await, Code::InvalidArgument, &["Hello"]);
}

#[tokio::test]
async fn a_second_hello_is_refused() {
    let status = fault_of([hello()]).await;
    assert_status(&status, Code::InvalidArgument, &["second Hello"]);
}

#[tokio::test]
async fn a_scope_id_cannot_be_used_twice() {
    let status = fault_of([open_scope(7), open_scope(7)]).await;
    assert_status(&status, Code::InvalidArgument, &["scope 7", "larger id"]);
}

#[tokio::test]
async fn a_scope_takes_no_message_after_close_scope() {
    let status = fault_of([open_scope(1), close(1), messages(1, "ok", 1)]).await;
    assert_status(&status, Code::InvalidArgument, &["scope 1", "closed"]);
}

#[tokio::test]
async fn a_scope_that_was_never_opened_takes_nothing() {
    for frame in [messages(3, "ok", 1), flush(3, 1), close(3), abort(3)] {
        let status = fault_of([frame]).await;
        assert_status(&status, Code::InvalidArgument, &["scope 3", "OpenScope"]);
    }
}

#[tokio::test]
async fn a_frame_without_content_is_refused() {
    let gateway = TestGateway::start(Setup::default()).await;
    let mut client = gateway.stream().await;
    client.send_raw(v1::ClientFrame { frame: None }).await;
    let status = client.status().await;
    assert_status(&status, Code::InvalidArgument, &["without content"]);
}

#[tokio::test]
async fn a_frame_over_the_limit_is_refused_with_its_size_and_the_limit() {
    let mut setup = Setup::default();
    setup.options = Options {
        frame_bytes: 1_000,
        ..setup.options
    };
    let gateway = TestGateway::start(setup).await;
    let mut client = gateway.stream().await;
    client.send(open_scope(1)).await;
    client
        .send(Frame::Messages(v1::Messages {
            scope: 1,
            destination: "ok".to_owned(),
            messages: vec![v1::Message {
                body: Some(Bytes::from(vec![0; 2_000])),
                ..v1::Message::default()
            }],
        }))
        .await;
    let status = client.status().await;
    assert_status(
        &status,
        Code::InvalidArgument,
        &["2015 bytes", "1000", "frame_bytes"],
    );
}

#[tokio::test]
async fn a_frame_of_too_many_messages_is_refused_with_their_number_and_the_limit() {
    let mut setup = Setup::default();
    setup.options = Options {
        frame_messages: 10,
        ..setup.options
    };
    let gateway = TestGateway::start(setup).await;
    let mut client = gateway.stream().await;
    client.send(open_scope(1)).await;
    client.send(messages(1, "ok", 10)).await;
    client.send(messages(1, "ok", 12)).await;
    let status = client.status().await;
    assert_status(&status, Code::InvalidArgument, &["12 messages", "10"]);
    gateway.settled().await;
    assert_eq!(gateway.engine.stats().confirmed, 10);
}

#[tokio::test]
async fn bytes_that_are_no_frame_are_refused() {
    let gateway = TestGateway::start(Setup::default()).await;
    let hello = v1::ClientFrame {
        frame: Some(hello()),
    };
    let frames = vec![
        Bytes::from(hello.encode_to_vec()),
        Bytes::from_static(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
    ];
    let status = raw_call(&gateway, "/sluicegate.v1.Gateway/Stream", frames).await;
    assert_status(
        &status,
        Code::InvalidArgument,
        &["no ClientFrame", ".proto"],
    );
}

#[tokio::test]
async fn an_error_channel_is_refused_as_not_yet_served() {
    let status = fault_of([Frame::OpenScope(v1::OpenScope {
        scope: 1,
        options: Some(v1::ScopeOptions {
            error_channel: Some("dead-letters".to_owned()),
            ..v1::ScopeOptions::default()
        }),
    })])
    .await;
    assert_status(&status, Code::Unimplemented, &["dead-letters"]);
}

#[tokio::test]
async fn a_confirmation_timeout_of_nothing_is_refused() {
    let status = fault_of([Frame::OpenScope(v1::OpenScope {
        scope: 1,
        options: Some(v1::ScopeOptions {
            confirmation_timeout_ms: Some(0),
            ..v1::ScopeOptions::default()
        }),
    })])
    .await;
    assert_status(&status, Code::InvalidArgument, &["confirmation_timeout_ms"]);
}

#[tokio::test]
async fn rows_accepted_before_a_fault_settle() {
    let gateway = TestGateway::start(Setup::default()).await;
    gateway.store.shut();
    let mut client = gateway.stream().await;
    client.send(open_scope(1)).await;
    client.send(messages(1, "ok", 5)).await;
    client.send(hello()).await;
    let (tally, status) = client.rest().await;
    assert_status(&status, Code::InvalidArgument, &["second Hello"]);
    assert_eq!(tally.verdicts(), 0, "the stream ends at once");
    gateway.store.open();
    gateway.settled().await;
    let stats = gateway.engine.stats();
    assert_eq!((stats.accepted, stats.confirmed), (5, 5));
}

#[tokio::test]
async fn another_method_is_named_as_unknown() {
    let gateway = TestGateway::start(Setup::default()).await;
    let status = raw_call(&gateway, "/sluicegate.v1.Gateway/Consume", Vec::new()).await;
    assert_status(&status, Code::Unimplemented, &["Consume", "Publish"]);
}
