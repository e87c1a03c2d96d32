// A gateway for tests: it speaks the protocol and keeps nothing.
// What it does is written in the messages: a body that begins with "bad" fails, the destination
// "nowhere" does not exist, a body "lose" loses the stream, a body "hold" gets no verdict until the
// scope is closed (or the test says so), a body "drain" announces a shutdown.
// (No inner doc comments: doctests include this file.)

#[allow(dead_code, reason = "not every test uses all of it")]
pub struct Gateway {
    address: std::net::SocketAddr,
    pub frames: std::sync::Arc<std::sync::Mutex<Vec<usize>>>,
    server: tokio::task::JoinHandle<()>,
}

#[derive(Clone)]
struct Service {
    credit: u64,
    scopes: u32,
    frames: std::sync::Arc<std::sync::Mutex<Vec<usize>>>,
}

#[allow(dead_code, reason = "not every test uses all of it")]
impl Gateway {
    pub async fn start() -> Self {
        Self::with(1_000, 100).await
    }

    /// `credit` in messages, `scopes` open at once.
    pub async fn with(credit: u64, scopes: u32) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, credit, scopes)
    }

    pub fn on(listener: tokio::net::TcpListener, credit: u64, scopes: u32) -> Self {
        let address = listener.local_addr().unwrap();
        let frames = std::sync::Arc::default();
        let service = Service {
            credit,
            scopes,
            frames: std::sync::Arc::clone(&frames),
        };
        let service = sluicegate_proto::v1::gateway_server::GatewayServer::new(service);
        let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
        let serving = tonic::transport::Server::builder().serve_with_incoming(service, incoming);
        let server = tokio::spawn(async move { serving.await.unwrap() });
        Self {
            address,
            frames,
            server,
        }
    }

    /// On a Unix socket; serves until the runtime ends.
    pub fn on_unix(path: &std::path::Path) {
        let service = Service {
            credit: 1_000,
            scopes: 100,
            frames: std::sync::Arc::default(),
        };
        let listener = tokio::net::UnixListener::bind(path).unwrap();
        let incoming = tokio_stream::wrappers::UnixListenerStream::new(listener);
        let service = sluicegate_proto::v1::gateway_server::GatewayServer::new(service);
        let serving = tonic::transport::Server::builder().serve_with_incoming(service, incoming);
        tokio::spawn(async move { serving.await.unwrap() });
    }

    pub fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn stop(self) -> std::net::SocketAddr {
        self.server.abort();
        self.address
    }
}

type Reply = Result<sluicegate_proto::v1::ServerFrame, tonic::Status>;

fn reply(frame: sluicegate_proto::v1::server_frame::Frame) -> Reply {
    Ok(sluicegate_proto::v1::ServerFrame { frame: Some(frame) })
}

fn failed(row: u64, class: sluicegate_proto::v1::FailureClass) -> sluicegate_proto::v1::FailedRow {
    sluicegate_proto::v1::FailedRow {
        row,
        failure: Some(sluicegate_proto::v1::Failure {
            class: class.into(),
            reason: format!("row {row}"),
            ..Default::default()
        }),
    }
}

#[derive(Default)]
struct Counts {
    next: u64,
    confirmed: u64,
    failed: u64,
    held: Vec<u64>,
    bytes: u64,
}

impl Counts {
    /// Confirms what was held.
    fn release(&mut self, scope: u64) -> sluicegate_proto::v1::Results {
        self.confirmed += self.held.len() as u64;
        sluicegate_proto::v1::Results {
            scope,
            confirmed: self
                .held
                .drain(..)
                .map(|first| sluicegate_proto::v1::Range { first, count: 1 })
                .collect(),
            ..Default::default()
        }
    }
}

#[tonic::async_trait]
impl sluicegate_proto::v1::gateway_server::Gateway for Service {
    type StreamStream = tokio_stream::wrappers::ReceiverStream<Reply>;

    async fn stream(
        &self,
        request: tonic::Request<tonic::Streaming<sluicegate_proto::v1::ClientFrame>>,
    ) -> Result<tonic::Response<Self::StreamStream>, tonic::Status> {
        use sluicegate_proto::v1;
        use sluicegate_proto::v1::client_frame::Frame as From;
        use sluicegate_proto::v1::server_frame::Frame as To;

        let (send, receive) = tokio::sync::mpsc::channel(1_000);
        let mut requests = request.into_inner();
        let own = self.clone();
        tokio::spawn(async move {
            let mut scopes = std::collections::HashMap::<u64, Counts>::new();
            while let Ok(Some(frame)) = requests.message().await {
                let mut replies = Vec::new();
                match frame.frame.unwrap() {
                    From::Hello(_) => replies.push(reply(To::Welcome(v1::Welcome {
                        gateway: "test 0".to_owned(),
                        limits: Some(v1::Limits {
                            frame_bytes: 1 << 20,
                            open_scopes: own.scopes,
                            frame_messages: 1_000,
                            ..Default::default()
                        }),
                        credit: Some(v1::Credit {
                            messages: own.credit,
                            bytes: 1 << 30,
                        }),
                        destinations: Vec::new(),
                    }))),
                    From::OpenScope(open) => {
                        scopes.insert(open.scope, Counts::default());
                    }
                    From::Messages(messages) => {
                        own.frames.lock().unwrap().push(messages.messages.len());
                        let scope = scopes.get_mut(&messages.scope).unwrap();
                        let mut results = v1::Results {
                            scope: messages.scope,
                            ..Default::default()
                        };
                        let mut settled = 0;
                        for message in messages.messages {
                            let body = message.body.unwrap_or_default();
                            let row = scope.next;
                            scope.next += 1;
                            if body.starts_with(b"lose") {
                                let _ = send.send(Err(tonic::Status::internal("lost"))).await;
                                return;
                            }
                            if body.starts_with(b"drain") {
                                replies.push(reply(To::Draining(v1::Draining::default())));
                            }
                            if body.starts_with(b"hold") {
                                scope.held.push(row);
                                continue;
                            }
                            settled += 1;
                            if messages.destination == "nowhere" {
                                results.failed.push(failed(row, v1::FailureClass::NotFound));
                            } else if body.starts_with(b"bad") {
                                results.failed.push(failed(row, v1::FailureClass::Invalid));
                            } else {
                                scope.confirmed += 1;
                                results.confirmed.push(v1::Range {
                                    first: row,
                                    count: 1,
                                });
                            }
                        }
                        scope.failed += results.failed.len() as u64;
                        scope.bytes += 1;
                        replies.push(reply(To::Results(results)));
                        replies.push(reply(To::Credit(v1::Credit {
                            messages: settled,
                            bytes: 1 << 20,
                        })));
                    }
                    From::Flush(flush) => {
                        let results = scopes.get_mut(&flush.scope).unwrap().release(flush.scope);
                        let messages = results.confirmed.len() as u64;
                        replies.push(reply(To::Results(results)));
                        replies.push(reply(To::Credit(v1::Credit { messages, bytes: 0 })));
                        replies.push(reply(To::Flushed(v1::Flushed {
                            scope: flush.scope,
                            token: flush.token,
                        })));
                    }
                    From::CloseScope(v1::CloseScope { scope })
                    | From::AbortScope(v1::AbortScope { scope }) => {
                        let mut counts = scopes.remove(&scope).unwrap();
                        let results = counts.release(scope);
                        let messages = results.confirmed.len() as u64;
                        replies.push(reply(To::Results(results)));
                        replies.push(reply(To::Credit(v1::Credit { messages, bytes: 0 })));
                        replies.push(reply(To::ScopeDone(v1::ScopeDone {
                            scope,
                            confirmed: counts.confirmed,
                            failed: counts.failed,
                            unknown: 0,
                        })));
                    }
                }
                for reply in replies {
                    if send.send(reply).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(tonic::Response::new(
            tokio_stream::wrappers::ReceiverStream::new(receive),
        ))
    }

    async fn publish(
        &self,
        _: tonic::Request<sluicegate_proto::v1::PublishRequest>,
    ) -> Result<tonic::Response<sluicegate_proto::v1::PublishResponse>, tonic::Status> {
        Err(tonic::Status::unimplemented("not in this test"))
    }

    async fn stats(
        &self,
        _: tonic::Request<sluicegate_proto::v1::StatsRequest>,
    ) -> Result<tonic::Response<sluicegate_proto::v1::StatsResponse>, tonic::Status> {
        Ok(tonic::Response::new(Default::default()))
    }
}
