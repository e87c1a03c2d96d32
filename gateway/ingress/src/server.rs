//! Listens, serves and drains.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_engine::Engine;
use sluicegate_proto::v1;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::listen::{self, BindError, Socket};
use crate::options::Options;
use crate::service::{Calls, GATEWAY_SERVICE, Gateway, GrpcService, Services};

/// What a stream may have on the way before the gateway reads it. A stream that the engine does not
/// read fills this window and no more. Half of it takes some 30 % of the rate away from a client that
/// sends all it can; twice as much adds nothing to speak of.
const STREAM_WINDOW_BYTES: u32 = 512 * 1024;

/// Calls at once on one connection: an application needs a handful. More wait in the client.
const CONNECTION_CALLS: u32 = 256;

/// The same for a whole connection: all of its streams' worth. With less, streams that wait for credit or
/// memory would use it up, and hold up a neighbour that is in the middle of its frame: for ever, when
/// the memory that they wait for is kept for that frame.
///
/// It also is what the HTTP/2 library measures small DATA frames by: it charges each of fewer than
/// 256 bytes that waits unread with what it lacks, and ends a connection that comes to half of the
/// window. A stream full of frames of 18 bytes, a message each, comes to 6.7 MiB of these 64.
const CONNECTION_WINDOW_BYTES: u32 = CONNECTION_CALLS * STREAM_WINDOW_BYTES;

/// When the drain timeout has passed and all that was left has its verdict, clients have this long to
/// read them: a few round trips, well within the time that process managers add before they kill.
const LAST_RESULTS_GRACE: Duration = Duration::from_secs(1);

/// HTTP/2 frames of this size let one read take several of the default 16 KiB, and a client's
/// frame arrive in few pieces.
const HTTP2_FRAME_BYTES: u32 = 64 * 1024;

/// A peer that answers no ping within the timeout is gone; without this a lost machine would hold
/// its streams for ever.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// How long connections may take to close after their last call has ended: enough to flush what is
/// written, and short because some clients (health watches) never close.
const CLOSE_GRACE: Duration = Duration::from_millis(250);

/// Why serving ended before it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The transport failed.
    #[error("the gRPC server stopped: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// The compiled contract cannot be served by reflection.
    #[error("the gateway's own descriptors are broken, which is a bug: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// A gateway that listens and does not serve yet.
#[derive(Debug)]
pub struct Server {
    engine: Engine,
    options: Arc<Options>,
    tcp: Option<(TcpListener, SocketAddr)>,
    unix: Option<(UnixListener, Socket)>,
    calls: Calls,
}

impl Server {
    /// Takes the addresses. Clients may connect from now on; they are served by [`Self::serve`].
    ///
    /// # Errors
    ///
    /// An address that cannot be had, with what to do about it.
    pub async fn bind(options: Options, engine: Engine) -> Result<Self, BindError> {
        if options.tcp.is_none() && options.unix.is_none() {
            return Err(BindError::Nowhere);
        }
        let tcp = match options.tcp {
            Some(address) => Some(listen::tcp(address).await?),
            None => None,
        };
        let unix = match &options.unix {
            Some(path) => Some(listen::unix(path).await?),
            None => None,
        };
        Ok(Self {
            engine,
            options: Arc::new(options),
            tcp,
            unix,
            calls: Calls::default(),
        })
    }

    /// The TCP address, with the port that was taken if 0 was asked for.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().map(|(_, address)| *address)
    }

    /// The Unix socket's path.
    pub fn unix_path(&self) -> Option<&Path> {
        self.options.unix.as_deref()
    }

    /// Serves until `shutdown` resolves, then drains: health says NOT_SERVING, nobody can connect,
    /// new scopes and streams are refused with UNAVAILABLE, and open ones settle. Returns when all
    /// have. At the drain timeout what is left gets its verdict at once ([`Engine::give_up`]), and its
    /// clients a second to read it.
    ///
    /// # Errors
    ///
    /// When serving fails, which only a failing listener can make it.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Result<(), ServeError> {
        let (health, health_service) = tonic_health::server::health_reporter();
        report(&health, ServingStatus::Serving).await;
        let services = Services {
            gateway: Gateway::new(
                self.engine.clone(),
                Arc::clone(&self.options),
                self.calls.clone(),
            ),
            health: health_service,
            reflection: reflection().build_v1()?,
            reflection_alpha: reflection().build_v1alpha()?,
        };

        let (stop, stopped) = watch::channel(false);
        // The socket's file goes when serving ends, however it ends.
        let (unix, _socket) = self.unix.unzip();
        let serving = async {
            tokio::try_join!(
                serve_tcp(services.clone(), self.tcp, stopped.clone()),
                serve_unix(services.clone(), unix, stopped.clone()),
            )
        };
        tokio::pin!(serving);
        tokio::select! {
            ended = &mut serving => return ended.map(|_| ()).map_err(ServeError::from),
            () = shutdown => {}
        }

        tracing::info!(streams = self.engine.stats().streams, "draining");
        report(&health, ServingStatus::NotServing).await;
        self.engine.drain(self.options.drain_timeout);
        stop.send_replace(true);
        let settled = async {
            self.calls.none().await;
            self.engine.drained().await;
        };
        let drained = async {
            tokio::select! {
                ended = &mut serving => {
                    self.engine.drained().await;
                    ended
                }
                () = settled => timeout(CLOSE_GRACE, &mut serving)
                    .await
                    .unwrap_or(Ok(((), ()))),
            }
        };
        tokio::pin!(drained);
        let ended = match timeout(self.options.drain_timeout, &mut drained).await {
            Ok(ended) => Some(ended),
            Err(_) => {
                let stats = self.engine.stats();
                tracing::warn!(
                    streams = stats.streams,
                    queued_messages = stats.queued_messages,
                    in_flight_messages = stats.in_flight_messages,
                    "the drain timeout passed before everything had settled: what waits fails, what was sent is unknown"
                );
                self.engine.give_up();
                timeout(LAST_RESULTS_GRACE, &mut drained).await.ok()
            }
        };
        match ended {
            Some(ended) => {
                tracing::info!("drained");
                ended.map(|_| ()).map_err(ServeError::from)
            }
            // Some client does not read its last results.
            None => Ok(()),
        }
    }
}

fn http2() -> tonic::transport::Server {
    tonic::transport::Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(HTTP2_FRAME_BYTES)
        .max_concurrent_streams(CONNECTION_CALLS)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
}

async fn serve_tcp<H: GrpcService, R: GrpcService, A: GrpcService>(
    services: Services<H, R, A>,
    listener: Option<(TcpListener, SocketAddr)>,
    stopped: watch::Receiver<bool>,
) -> Result<(), tonic::transport::Error> {
    let Some((listener, _)) = listener else {
        return Ok(());
    };
    // A result must not wait for the acknowledgement of the one before it.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    http2()
        .serve_with_incoming_shutdown(services, incoming, until(stopped))
        .await
}

async fn serve_unix<H: GrpcService, R: GrpcService, A: GrpcService>(
    services: Services<H, R, A>,
    listener: Option<UnixListener>,
    stopped: watch::Receiver<bool>,
) -> Result<(), tonic::transport::Error> {
    let Some(listener) = listener else {
        return Ok(());
    };
    http2()
        .serve_with_incoming_shutdown(services, UnixListenerStream::new(listener), until(stopped))
        .await
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender is gone, which is a stop as well.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// "" is the server as a whole, which is what most probes ask for.
async fn report(health: &HealthReporter, status: ServingStatus) {
    health.set_service_status("", status).await;
    health.set_service_status(GATEWAY_SERVICE, status).await;
}

fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(v1::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}
