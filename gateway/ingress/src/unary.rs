//! The calls of one request and one response: `Publish` and `Stats`.
//!
//! **`Publish` is a stream of one scope**: the same limits, lanes and verdicts, so that nothing is
//! true of it that is not true of `Stream`.

use bytes::{Bytes, BytesMut};
use http::Response;
use sluicegate_engine::{Engine, Event, Memory, Results, Stream};
use sluicegate_proto::v1;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;

use crate::answer::{Answer, append};
use crate::convert;
use crate::decode::publish_request;
use crate::fault::Fault;
use crate::frame;
use crate::options::Options;
use crate::wire::Messages;

/// The only scope of the stream.
const SCOPE: u64 = 1;

/// Verdicts taken from the engine at a time: they are gathered into one answer anyway.
const TURN_BYTES: usize = 64 * 1024;

pub(crate) async fn publish(
    engine: &Engine,
    options: &Options,
    body: Body,
) -> Result<v1::PublishResponse, Fault> {
    let stream = engine.open_stream().map_err(|_| Fault::Draining)?;
    let mut messages = Messages::new(body, options.frame_bytes);
    let frame = frame::next(&stream, &mut messages, options.frame_timeout)
        .await?
        .ok_or(Fault::NoRequest)?;
    timeout(options.frame_timeout, no_more(&mut messages))
        .await
        .map_err(|_| Fault::RequestUnfinished(options.frame_timeout))??;
    let request = publish_request(&frame, options.frame_messages)?;
    if request.list.messages.is_empty() {
        return Err(Fault::NoMessages);
    }
    let scope_options = convert::scope_options(request.options)?;
    let memory = Memory {
        frame: frame.len(),
        extra: request.list.extra_bytes,
    };
    let single = request.list.messages.len() == 1;
    stream.open_scope(SCOPE, scope_options)?;
    stream.publish(SCOPE, request.destination, request.list.messages, memory)?;
    stream.finish();
    settle(engine, &stream, single).await
}

/// All verdicts of a stream that is finished.
async fn settle(
    engine: &Engine,
    stream: &Stream,
    single: bool,
) -> Result<v1::PublishResponse, Fault> {
    let mut all = Results {
        scope: SCOPE,
        ..Results::default()
    };
    let mut response = v1::PublishResponse::default();
    let mut events = Vec::new();
    loop {
        let more = stream.events(&mut events, TURN_BYTES).await;
        for event in events.drain(..) {
            match event {
                Event::Results(results) => {
                    all.confirmed.extend(results.confirmed);
                    all.failed.extend(results.failed);
                    all.unknown.extend(results.unknown);
                    all.receipts.extend(results.receipts);
                }
                Event::ScopeDone {
                    confirmed,
                    failed,
                    unknown,
                    ..
                } => {
                    response.confirmed = confirmed;
                    response.failed = failed;
                    response.unknown = unknown;
                }
                Event::Stalled => {
                    return Err(Fault::Stalled(engine.limits().unread_results_timeout));
                }
                // A drain settles what was accepted; credit is of no use to a single frame.
                Event::Flushed { .. } | Event::Credit { .. } | Event::Draining { .. } => {}
            }
        }
        if !more {
            break;
        }
    }
    if let (true, [(_, reason)]) = (single, all.unknown.as_slice()) {
        return Err(Fault::VerdictUnknown(reason.to_string()));
    }
    response.results = Some(convert::results(all));
    Ok(response)
}

pub(crate) async fn stats(
    engine: &Engine,
    options: &Options,
    body: Body,
) -> Result<v1::StatsResponse, Fault> {
    let mut messages = Messages::new(body, options.frame_bytes);
    let frame = messages.message().await?;
    no_more(&mut messages).await?;
    let v1::StatsRequest {} = decode(&frame, "StatsRequest")?;
    Ok(convert::stats(&engine.stats()))
}

/// The response of a unary call.
pub(crate) fn respond(answer: Result<impl prost::Message, Fault>) -> Response<Body> {
    let encoded = answer.and_then(|message| {
        let mut buffer = BytesMut::new();
        append(&message, &mut buffer)?;
        Ok(buffer.freeze())
    });
    match encoded {
        Ok(bytes) => ok(Answer::new(|out| async move {
            out.write(bytes).await;
            Ok(())
        })),
        Err(fault) => Status::from(fault).into_http(),
    }
}

/// A response whose status comes at its end.
pub(crate) fn ok(answer: Answer) -> Response<Body> {
    let mut response = Response::new(Body::new(answer));
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/grpc"),
    );
    response
}

async fn no_more(messages: &mut Messages<Body>) -> Result<(), Fault> {
    match messages.length().await? {
        None => Ok(()),
        Some(_) => Err(Fault::SecondRequest),
    }
}

fn decode<T: prost::Message + Default>(frame: &Bytes, expected: &'static str) -> Result<T, Fault> {
    T::decode(frame.clone()).map_err(|error| Fault::Malformed {
        expected,
        reason: error.to_string(),
    })
}
