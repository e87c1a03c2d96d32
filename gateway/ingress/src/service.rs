//! Which path is which call.
//!
//! Written by hand where tonic would generate it: the generated service decodes every frame with
//! prost and answers a frame over the limit, or one that cannot be decoded, with statuses that are
//! not the protocol's.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use http::{Method, Request, Response, StatusCode};
use sluicegate_engine::Engine;
use tokio::sync::Notify;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};

use crate::answer::Answer;
use crate::fault::Fault;
use crate::options::Options;
use crate::session::{self, Session};
use crate::unary;
use crate::wire::Messages;

/// The service's name, in paths, health and reflection.
pub(crate) const GATEWAY_SERVICE: &str = "sluicegate.v1.Gateway";

const HEALTH_PATHS: &str = "/grpc.health.v1.Health/";
const REFLECTION_PATHS: &str = "/grpc.reflection.v1.ServerReflection/";
const REFLECTION_ALPHA_PATHS: &str = "/grpc.reflection.v1alpha.ServerReflection/";

/// All that is served on a connection: the gateway itself, health, and reflection in both versions
/// that clients ask for.
#[derive(Clone, Debug)]
pub(crate) struct Services<H, R, A> {
    pub(crate) gateway: Gateway,
    pub(crate) health: H,
    pub(crate) reflection: R,
    pub(crate) reflection_alpha: A,
}

impl<H, R, A> Service<Request<Body>> for Services<H, R, A>
where
    H: GrpcService,
    R: GrpcService,
    A: GrpcService,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_grpc = request.method() == Method::POST
            && request
                .headers()
                .get(http::header::CONTENT_TYPE)
                .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        if !is_grpc {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Box::pin(ready(Ok(response)));
        }
        let path = request.uri().path();
        if path.starts_with(HEALTH_PATHS) {
            return self.health.call(request);
        }
        if path.starts_with(REFLECTION_PATHS) {
            return self.reflection.call(request);
        }
        if path.starts_with(REFLECTION_ALPHA_PATHS) {
            return self.reflection_alpha.call(request);
        }
        self.gateway.call(request)
    }
}

/// A generated service, as tonic's own crates make them.
pub(crate) trait GrpcService:
    Service<
        Request<Body>,
        Response = Response<Body>,
        Error = Infallible,
        Future = BoxFuture<Response<Body>, Infallible>,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> GrpcService for S where
    S: Service<
            Request<Body>,
            Response = Response<Body>,
            Error = Infallible,
            Future = BoxFuture<Response<Body>, Infallible>,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

/// `sluicegate.v1.Gateway`.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    engine: Engine,
    options: Arc<Options>,
    calls: Calls,
}

impl Gateway {
    pub(crate) fn new(engine: Engine, options: Arc<Options>, calls: Calls) -> Self {
        Self {
            engine,
            options,
            calls,
        }
    }

    fn call(&self, request: Request<Body>) -> BoxFuture<Response<Body>, Infallible> {
        let method = request
            .uri()
            .path()
            .strip_prefix('/')
            .and_then(|path| path.strip_prefix(GATEWAY_SERVICE))
            .and_then(|path| path.strip_prefix('/'));
        match method {
            Some("Stream") => Box::pin(ready(Ok(self.stream(request.into_body())))),
            Some("Publish") => {
                let this = self.clone();
                let call = self.calls.begin();
                Box::pin(async move {
                    let answer =
                        unary::publish(&this.engine, &this.options, request.into_body()).await;
                    drop(call);
                    Ok(unary::respond(answer))
                })
            }
            Some("Stats") => {
                let this = self.clone();
                Box::pin(async move {
                    let answer =
                        unary::stats(&this.engine, &this.options, request.into_body()).await;
                    Ok(unary::respond(answer))
                })
            }
            _ => {
                let path = request.uri().path();
                let status = Status::unimplemented(format!(
                    "{path} is not served here: {GATEWAY_SERVICE} has Stream, Publish and Stats; generate the client from the gateway's .proto, or ask by reflection"
                ));
                Box::pin(ready(Ok(status.into_http())))
            }
        }
    }

    fn stream(&self, body: Body) -> Response<Body> {
        let Ok(stream) = self.engine.open_stream() else {
            return Status::from(Fault::Draining).into_http();
        };
        let stream = Arc::new(stream);
        let session = Arc::new(Session::new(&stream, &self.engine.limits(), &self.options));
        let messages = Messages::new(body, self.options.frame_bytes);
        let reader =
            tokio::spawn(session::read(Arc::clone(&session), stream, messages)).abort_handle();
        let (engine, options) = (self.engine.clone(), Arc::clone(&self.options));
        let call = self.calls.begin();
        unary::ok(Answer::new(|out| async move {
            let _call = call;
            session::write(session, engine, options, reader, out).await
        }))
    }
}

/// How many calls are under way, so that a drain knows when it is done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<CallsInner>);

#[derive(Debug, Default)]
struct CallsInner {
    count: AtomicUsize,
    ended: Notify,
}

impl Calls {
    fn begin(&self) -> Call {
        self.0.count.fetch_add(1, Ordering::AcqRel);
        Call(Arc::clone(&self.0))
    }

    /// Resolves when no call is under way.
    pub(crate) async fn none(&self) {
        loop {
            let ended = self.0.ended.notified();
            if self.0.count.load(Ordering::Acquire) == 0 {
                return;
            }
            ended.await;
        }
    }
}

/// A call under way.
#[derive(Debug)]
struct Call(Arc<CallsInner>);

impl Drop for Call {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.ended.notify_waiters();
        }
    }
}
