//! What the hop is compared with: the same protocol in a process of its own, by tonic and the
//! generated code alone. It keeps nothing and confirms every frame at once.
//!
//! HTTP/2's windows are the gateway's, so that the ratio is of the work and not of the settings.

use std::pin::Pin;

use futures::Stream;
use futures::StreamExt as _;
use sluicegate_proto::v1;
use sluicegate_proto::v1::client_frame::Frame as ClientFrame;
use sluicegate_proto::v1::gateway_server::{Gateway, GatewayServer};
use sluicegate_proto::v1::server_frame::Frame as ServerFrame;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status, Streaming};

use crate::error::Stop;

const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
const HTTP2_FRAME_BYTES: u32 = 64 * 1024;

/// tonic's own limit, 4 MiB, less what a frame adds to its content.
const FRAME_BYTES: u64 = 4 * 1024 * 1024 - 1024;

/// So much that nobody ever waits for it.
const CREDIT: u64 = 1 << 50;

/// Serves until it is ended.
pub(crate) async fn serve() -> Result<(), Stop> {
    let failed = |error: &dyn std::fmt::Display| Stop::Unreachable(format!("bare server: {error}"));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .map_err(|error| failed(&error))?;
    let address = listener.local_addr().map_err(|error| failed(&error))?;
    eprintln!("listening on {address}");
    let incoming = TcpListenerStream::new(listener).map(|connection| {
        connection.inspect(|connection| {
            // tonic's own listener does the same.
            let _ = connection.set_nodelay(true);
        })
    });
    tonic::transport::Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(HTTP2_FRAME_BYTES)
        .serve_with_incoming(GatewayServer::new(Bare), incoming)
        .await
        .map_err(|error| failed(&error))
}

#[derive(Debug)]
struct Bare;

/// Rows of the one scope that is open: loadgen opens them one after the other.
#[derive(Debug, Default)]
struct Scopes {
    rows: std::collections::HashMap<u64, u64>,
}

impl Scopes {
    fn answer(&mut self, frame: v1::ClientFrame) -> Option<ServerFrame> {
        Some(match frame.frame? {
            ClientFrame::Messages(messages) => {
                let rows = self.rows.entry(messages.scope).or_default();
                let first = *rows;
                let count = messages.messages.len() as u64;
                *rows += count;
                ServerFrame::Results(v1::Results {
                    scope: messages.scope,
                    confirmed: vec![v1::Range { first, count }],
                    ..Default::default()
                })
            }
            ClientFrame::Hello(_) => ServerFrame::Welcome(v1::Welcome {
                gateway: "bare tonic".to_owned(),
                limits: Some(v1::Limits {
                    frame_bytes: FRAME_BYTES,
                    open_scopes: 16,
                    ..Default::default()
                }),
                credit: Some(v1::Credit {
                    messages: CREDIT,
                    bytes: CREDIT,
                }),
                destinations: Vec::new(),
            }),
            ClientFrame::OpenScope(_) => return None,
            ClientFrame::Flush(v1::Flush { scope, token }) => {
                ServerFrame::Flushed(v1::Flushed { scope, token })
            }
            ClientFrame::CloseScope(v1::CloseScope { scope })
            | ClientFrame::AbortScope(v1::AbortScope { scope }) => {
                ServerFrame::ScopeDone(v1::ScopeDone {
                    scope,
                    confirmed: self.rows.remove(&scope).unwrap_or(0),
                    ..Default::default()
                })
            }
        })
    }
}

#[tonic::async_trait]
impl Gateway for Bare {
    type StreamStream = Pin<Box<dyn Stream<Item = Result<v1::ServerFrame, Status>> + Send>>;

    async fn stream(
        &self,
        request: Request<Streaming<v1::ClientFrame>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        let mut scopes = Scopes::default();
        let answers = request.into_inner().filter_map(move |frame| {
            let answer = match frame {
                Ok(frame) => scopes
                    .answer(frame)
                    .map(|frame| Ok(v1::ServerFrame { frame: Some(frame) })),
                Err(status) => Some(Err(status)),
            };
            std::future::ready(answer)
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn publish(
        &self,
        _: Request<v1::PublishRequest>,
    ) -> Result<Response<v1::PublishResponse>, Status> {
        Err(Status::unimplemented("the bare server only has streams"))
    }

    async fn stats(
        &self,
        _: Request<v1::StatsRequest>,
    ) -> Result<Response<v1::StatsResponse>, Status> {
        Err(Status::unimplemented("the bare server counts nothing"))
    }
}
