//! Opens a stream and moves its frames: the only part that knows HTTP/2.
//!
//! The request's body hands encoded frames to HTTP/2 as they are; only the gateway's frames, which
//! are few, go through the generated code.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::Frame;
use sluicegate_proto::v1;
use sluicegate_proto::v1::client_frame::Frame as ClientFrame;
use sluicegate_proto::v1::server_frame::Frame as ServerFrame;
use tonic::Status;
use tonic::codec::{Codec as _, Streaming};
use tonic::transport::{Channel, Endpoint};
use tower::{Service as _, ServiceExt as _};

use crate::encode;
use crate::error::Error;
use crate::message::Message;
use crate::outgoing::FrameLimits;
use crate::stream::{self, Shared};

/// The method's path.
const STREAM: &str = "/sluicegate.v1.Gateway/Stream";

/// The longest frame that is taken from a gateway: far above the budget that it gives to results.
const RESULT_FRAME_BYTES: usize = 64 * 1024 * 1024;

/// One HTTP/2 connection and the stream on it. Dropping it ends the stream once all is sent.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) channel: Channel,
    pub(crate) welcome: v1::Welcome,
    frame_bytes: usize,
}

impl Handle {
    /// Names the first message that no frame can carry.
    pub(crate) fn check(&self, destination: &str, messages: &[Message]) -> Result<(), Error> {
        let start = encode::frame_start_bytes(u64::MAX, destination);
        let entry = |message| start + encode::entry_bytes(encode::message_bytes(message));
        let mut bytes = messages.iter().map(entry).enumerate();
        match bytes.find(|(_, bytes)| *bytes > self.frame_bytes) {
            None => Ok(()),
            Some((index, bytes)) => Err(Error::TooLarge {
                destination: destination.to_owned(),
                index,
                bytes,
                limit: self.frame_bytes,
            }),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.end();
    }
}

/// Connects, says Hello, waits for Welcome.
pub(crate) async fn open(
    endpoint: &Endpoint,
    address: &Arc<str>,
    client: &str,
    limits: FrameLimits,
) -> Result<Handle, String> {
    let mut channel = endpoint.connect().await.map_err(|error| chain(&error))?;
    let shared = Arc::new(Shared::new(Arc::clone(address), limits));
    shared.control(ClientFrame::Hello(v1::Hello {
        client: client.to_owned(),
    }));

    let body = Outgoing(Arc::clone(&shared));
    let request = http::Request::post(STREAM)
        .header(http::header::TE, "trailers")
        .header(http::header::CONTENT_TYPE, "application/grpc")
        .body(tonic::body::Body::new(body))
        .map_err(|error| error.to_string())?;
    let service = channel.ready().await.map_err(|error| chain(&error))?;
    let response = service.call(request).await.map_err(|error| chain(&error))?;
    if let Some(status) = Status::from_header_map(response.headers()) {
        return Err(describe(&status));
    }
    let (parts, body) = response.into_parts();
    let decoder = tonic_prost::ProstCodec::<v1::ClientFrame, v1::ServerFrame>::default().decoder();
    let mut frames =
        Streaming::new_response(decoder, body, parts.status, None, Some(RESULT_FRAME_BYTES));

    let welcome = match frames.message().await {
        Ok(Some(v1::ServerFrame {
            frame: Some(ServerFrame::Welcome(welcome)),
        })) => welcome,
        Ok(Some(_)) => return Err("its first frame is no Welcome".to_owned()),
        Ok(None) => return Err("it ended the stream at once".to_owned()),
        Err(status) => return Err(describe(&status)),
    };
    shared.welcome(&welcome, limits);
    tokio::spawn(read(Arc::clone(&shared), frames));
    Ok(Handle {
        shared,
        channel,
        frame_bytes: stream::frame_bytes(&welcome),
        welcome,
    })
}

/// Reads until the stream ends, whoever ends it.
async fn read(shared: Arc<Shared>, mut frames: Streaming<v1::ServerFrame>) {
    let reason = loop {
        match frames.message().await {
            Ok(Some(v1::ServerFrame { frame })) => {
                // A frame without content is one of a later version's.
                if let Some(frame) = frame {
                    shared.receive(frame);
                }
            }
            Ok(None) => break "the gateway ended it".to_owned(),
            Err(status) => break describe(&status),
        }
    };
    tracing::debug!(reason, "stream ended");
    shared.lose(&reason);
}

/// A status in words.
pub(crate) fn describe(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => format!(
            "{:?}: {}: {}",
            status.code(),
            status.message(),
            chain(source)
        ),
        None => format!("{:?}: {}", status.code(), status.message()),
    }
}

/// An error and what caused it: tonic's own says "transport error" and no more.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let own = error.to_string();
        if !text.contains(&own) {
            text = format!("{text}: {own}");
        }
        cause = error.source();
    }
    text
}

/// The request's body.
struct Outgoing(Arc<Shared>);

impl http_body::Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_outgoing(cx)
            .map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
