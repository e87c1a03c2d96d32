//! The client: one stream at a time, made anew when it is lost.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sluicegate_proto::v1;
use sluicegate_proto::v1::gateway_client::GatewayClient;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tonic::transport::Endpoint;

use crate::error::Error;
use crate::message::Message;
use crate::outgoing::FrameLimits;
use crate::scope::{Scope, ScopeOptions};
use crate::transport::{self, Handle};
use crate::verdict::{Failure, FailureClass, Verdict};

/// Messages of one frame. A frame's cost is spread over them: beyond some hundred nothing is won.
const FRAME_MESSAGES: usize = 1_000;

/// Bytes of one frame. What a slow row keeps in the gateway's memory is its whole frame.
const FRAME_BYTES: usize = 256 * 1024;

/// A gateway is near; one that does not answer for so long is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a lost stream is made anew before the caller is told: a gateway restarts in less.
const RECONNECT_FOR: Duration = Duration::from_secs(30);

/// Between attempts, at first and at most.
const FIRST_BACKOFF: Duration = Duration::from_millis(20);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// Finds a dead connection that carries nothing: no packet would ever say so.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// How to connect.
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    name: String,
    limits: FrameLimits,
    connect_timeout: Duration,
    reconnect_for: Duration,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            name: concat!("sluicegate-client ", env!("CARGO_PKG_VERSION")).to_owned(),
            limits: FrameLimits {
                messages: FRAME_MESSAGES,
                bytes: FRAME_BYTES,
            },
            connect_timeout: CONNECT_TIMEOUT,
            reconnect_for: RECONNECT_FOR,
        }
    }
}

impl ClientBuilder {
    /// Name and version of the application, for the gateway's log.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Messages of one frame at most; at least 1.
    #[must_use]
    pub fn frame_messages(mut self, messages: usize) -> Self {
        self.limits.messages = messages.max(1);
        self
    }

    /// Bytes of one frame at most; a single larger message makes a frame of its own.
    #[must_use]
    pub fn frame_bytes(mut self, bytes: usize) -> Self {
        self.limits.bytes = bytes;
        self
    }

    /// How long one attempt to connect may take.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// For how long a lost stream is made anew, with growing pauses, before the caller is told. Zero
    /// tries once.
    #[must_use]
    pub fn reconnect_for(mut self, duration: Duration) -> Self {
        self.reconnect_for = duration;
        self
    }

    /// Connects, once: `http://host:port`, or `unix:/path/to/socket`.
    ///
    /// # Errors
    ///
    /// The address is none, or no gateway answers there.
    pub async fn connect(self, address: impl AsRef<str>) -> Result<Client, Error> {
        let address = address.as_ref();
        let wrong = |reason: String| Error::Address {
            address: address.to_owned(),
            reason,
        };
        if !["http://", "unix:"]
            .iter()
            .any(|scheme| address.starts_with(scheme))
        {
            return Err(wrong("it begins with neither http:// nor unix:".to_owned()));
        }
        let endpoint = Endpoint::from_shared(address.to_owned())
            .map_err(|error| wrong(error.to_string()))?
            .connect_timeout(self.connect_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        let address: Arc<str> = address.into();
        let handle = open(&endpoint, &address, &self).await?;
        Ok(Client {
            inner: Arc::new(Inner {
                current: Mutex::new(Arc::new(handle)),
                single: Mutex::new(None),
                reconnecting: tokio::sync::Mutex::new(()),
                endpoint,
                address,
                options: self,
            }),
        })
    }
}

async fn open(
    endpoint: &Endpoint,
    address: &Arc<str>,
    options: &ClientBuilder,
) -> Result<Handle, Error> {
    let opening = transport::open(endpoint, address, &options.name, options.limits);
    // The timeout covers the greeting too: something that accepts connections need not be a gateway.
    let opened = tokio::time::timeout(options.connect_timeout, opening).await;
    opened
        .unwrap_or_else(|_| Err(format!("no answer within {:?}", options.connect_timeout)))
        .map_err(|reason| Error::Connect {
            address: Arc::clone(address),
            reason,
        })
}

/// A connection to a gateway. Cheap to clone; all clones share one stream.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    current: Mutex<Arc<Handle>>,
    /// The scope of messages that are published one by one.
    single: Mutex<Option<Arc<Scope>>>,
    /// Held by the one that reconnects.
    reconnecting: tokio::sync::Mutex<()>,
    endpoint: Endpoint,
    address: Arc<str>,
    options: ClientBuilder,
}

impl Client {
    /// Connects with the defaults: `http://host:port`, or `unix:/path/to/socket`.
    ///
    /// # Errors
    ///
    /// The address is none, or no gateway answers there.
    pub async fn connect(address: impl AsRef<str>) -> Result<Self, Error> {
        Self::builder().connect(address).await
    }

    /// Options, before connecting.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Opens a scope with the gateway's defaults.
    ///
    /// # Errors
    ///
    /// The stream was lost and could not be made anew.
    pub async fn scope(&self) -> Result<Scope, Error> {
        self.scope_with(&ScopeOptions::default()).await
    }

    /// Opens a scope. Waits while as many are open as the gateway allows on one stream.
    ///
    /// # Errors
    ///
    /// The stream was lost and could not be made anew.
    pub async fn scope_with(&self, options: &ScopeOptions) -> Result<Scope, Error> {
        loop {
            let handle = self.handle().await?;
            let opened = poll_fn(|cx| handle.shared.poll_open(options.protocol(), cx)).await;
            if let Ok(id) = opened {
                return Ok(Scope::new(handle, id));
            }
        }
    }

    /// Publishes one message and waits for its verdict. Callers at the same time share frames, and in
    /// the gateway batches.
    ///
    /// # Errors
    ///
    /// The stream was lost before the message was published, or no frame can carry it. A stream lost
    /// afterwards is no error: the verdict is unknown.
    pub async fn publish_confirmed(
        &self,
        destination: &str,
        message: impl Into<Message>,
    ) -> Result<Verdict, Error> {
        let message = message.into();
        let (caller, answer) = oneshot::channel();
        let mut caller = Some(caller);
        loop {
            let scope = self.single().await?;
            match scope.publish_as(destination, &message, &mut caller).await {
                Ok(_) => break,
                // It was lost between two lines of this function; nothing was published.
                Err(Error::Lost { .. }) if caller.is_some() => {}
                Err(error) => return Err(error),
            }
        }
        // The other half is dropped only with its stream, whose loss answers it first.
        Ok(answer.await.unwrap_or_else(|_| {
            Verdict::Unknown(Arc::new(Failure {
                class: FailureClass::Unavailable,
                retryable: true,
                attempts: 0,
                code: String::new(),
                reason: "the client was dropped before the verdict came".to_owned(),
            }))
        }))
    }

    /// What the gateway said when it was connected to: its name, limits and destinations.
    pub fn welcome(&self) -> v1::Welcome {
        lock(&self.inner.current).welcome.clone()
    }

    /// The gateway's counters.
    ///
    /// # Errors
    ///
    /// The call failed.
    pub async fn stats(&self) -> Result<v1::StatsResponse, Error> {
        let channel = lock(&self.inner.current).channel.clone();
        GatewayClient::new(channel)
            .stats(v1::StatsRequest {})
            .await
            .map(tonic::Response::into_inner)
            .map_err(|status| Error::Call {
                call: "Stats",
                address: Arc::clone(&self.inner.address),
                reason: transport::describe(&status),
            })
    }

    async fn single(&self) -> Result<Arc<Scope>, Error> {
        let known = lock(&self.inner.single).clone();
        match known {
            Some(scope) if !scope.is_gone() => Ok(scope),
            _ => {
                let scope = Arc::new(self.scope().await?);
                // Of two that open one at the same time, the first wins.
                let mut single = lock(&self.inner.single);
                match &*single {
                    Some(known) if !known.is_gone() => Ok(Arc::clone(known)),
                    _ => {
                        *single = Some(Arc::clone(&scope));
                        Ok(scope)
                    }
                }
            }
        }
    }

    /// The stream, made anew if it is lost.
    async fn handle(&self) -> Result<Arc<Handle>, Error> {
        if let Some(handle) = self.alive() {
            return Ok(handle);
        }
        let _reconnecting = self.inner.reconnecting.lock().await;
        if let Some(handle) = self.alive() {
            return Ok(handle);
        }
        let give_up = Instant::now() + self.inner.options.reconnect_for;
        let mut backoff = FIRST_BACKOFF;
        loop {
            match open(
                &self.inner.endpoint,
                &self.inner.address,
                &self.inner.options,
            )
            .await
            {
                Ok(handle) => {
                    let handle = Arc::new(handle);
                    *lock(&self.inner.current) = Arc::clone(&handle);
                    tracing::info!(address = %self.inner.address, "connected again");
                    return Ok(handle);
                }
                Err(error) if Instant::now() + backoff >= give_up => return Err(error),
                Err(error) => {
                    tracing::debug!(%error, "cannot connect yet");
                    tokio::time::sleep(backoff).await;
                    backoff = (backoff * 2).min(MAX_BACKOFF);
                }
            }
        }
    }

    fn alive(&self) -> Option<Arc<Handle>> {
        let handle = Arc::clone(&lock(&self.inner.current));
        (!handle.shared.is_gone()).then_some(handle)
    }
}

/// Nothing behind these locks is left half done by a panic.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
