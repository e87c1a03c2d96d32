//! The running engine: the state machine with its tasks.
//!
//! **One task per connection** asks what to do, opens or sends, and asks again; one task watches the
//! time. They end when the last handle of the engine and of its streams is gone.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{Failure, FailureClass, Opened};
use tokio::time::{sleep_until, timeout};

use crate::feed::Work;
use crate::shared::{Shared, Signals};
use crate::state::State;
use crate::{
    ClientLimits, Config, ConfigError, Connection, ConnectionId, DestinationInfo, Draining,
    Replies, Stats, Stream,
};

/// A broker that has not answered for that long is asked again later; until then no other
/// destination of its connection could be opened or served.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Where the jitter of backoffs starts. It needs to differ between rows, not between gateways that
/// were started at different times.
const SEED: u64 = 0x5c1f_9e37;

/// The running engine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
    _running: Arc<Running>,
    limits: ClientLimits,
}

/// Ends the engine's tasks when the last handle is gone.
#[derive(Debug)]
struct Running(Arc<Shared>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Engine {
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// When a route names a connection that does not exist, is empty, or is there twice.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        let limits = config.limits;
        let shared = Arc::new(Shared::new(State::new(config, SEED)?));
        tokio::spawn(tick(Arc::clone(&shared)));
        Ok(Self {
            _running: Arc::new(Running(Arc::clone(&shared))),
            shared,
            limits,
        })
    }

    /// Starts the task that feeds a connection. `id`s are places in `Config::connections`.
    pub fn attach<C: Connection>(&self, id: ConnectionId, connection: C) {
        let key = usize::try_from(id.0).unwrap_or(usize::MAX);
        tokio::spawn(feed(Arc::clone(&self.shared), key, connection));
    }

    /// Opens a destination ahead of its first message (`serve` at start, `check`). Answers with the
    /// first answer of the broker, be it a retryable failure.
    ///
    /// # Errors
    ///
    /// The failure that the rows of the destination would meet.
    pub async fn open(&self, destination: &str) -> Result<Opened, Failure> {
        let (lane, answers) = self
            .shared
            .with(|state, now| state.want_open(destination, now))?;
        loop {
            let opened = self.shared.opened.notified();
            tokio::pin!(opened);
            opened.as_mut().enable();
            let answer = self
                .shared
                .with(|state, _| state.open_answer(lane, answers));
            if let Some(answer) = answer {
                return answer;
            }
            opened.await;
        }
    }

    /// A client's stream; dropping it before all has been taken is a lost stream: accepted rows
    /// settle and are logged.
    ///
    /// # Errors
    ///
    /// When the gateway is draining.
    pub fn open_stream(&self) -> Result<Stream, Draining> {
        let signals = Arc::new(Signals::default());
        let key = self.shared.with_streams(|state, streams, _| {
            let key = state.open_stream()?;
            if streams.len() <= key {
                streams.resize_with(key + 1, || None);
            }
            if let Some(slot) = streams.get_mut(key) {
                *slot = Some(Arc::clone(&signals));
            }
            Some(key)
        });
        let key = key.ok_or(Draining)?;
        Ok(Stream::new(self.clone(), key, signals))
    }

    /// Refuses new scopes from now on and tells every stream (`Event::Draining`).
    pub fn drain(&self, deadline: Duration) {
        self.shared
            .with(|state, now| state.ledger.drain(deadline, now));
    }

    /// Resolves when nothing is queued or in flight. Means little before `drain`.
    pub async fn drained(&self) {
        loop {
            let drained = self.shared.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            if self.shared.with(|state, _| state.ledger.unsettled == 0) {
                return;
            }
            drained.await;
        }
    }

    /// Settles everything at once: rows that wait fail, rows that were handed over are unknown, open
    /// scopes are closed, and what is published from now on fails. For the end of a drain's time.
    pub fn give_up(&self) {
        self.shared.with(|state, now| state.give_up(now));
    }

    /// Counters since the start, and gauges of now.
    pub fn stats(&self) -> Stats {
        self.shared.with(|state, _| state.stats())
    }

    /// What clients may do.
    pub fn limits(&self) -> ClientLimits {
        self.limits
    }

    /// The configured destinations and patterns: what every client may know. A name that a pattern
    /// matched is its client's own business.
    pub fn destinations(&self) -> Vec<DestinationInfo> {
        self.shared.with(|state, _| state.destinations())
    }
}

async fn feed<C: Connection>(shared: Arc<Shared>, key: usize, mut connection: C) {
    while !shared.is_stopped() {
        match shared.with(|state, now| state.next_work(key, now)) {
            Work::Open {
                lane,
                epoch,
                request,
            } => {
                let destination = Arc::clone(&request.destination);
                let opening = timeout(OPEN_TIMEOUT, connection.open(request)).await;
                let result = opening.unwrap_or_else(|_| {
                    Err(Failure::retryable(
                        FailureClass::Unavailable,
                        format!(
                            "the broker did not say within {OPEN_TIMEOUT:?} what {destination:?} is; see whether it is reachable"
                        ),
                    ))
                });
                shared.with(|state, now| state.opened(lane, epoch, result, now));
            }
            Work::Send { flight, batch } => {
                let replies = Replies::new(Arc::clone(&shared), flight, key);
                connection.send(batch, replies).await;
            }
            Work::Wait => {
                if let Some(wake) = shared.connections.get(key) {
                    wake.notified().await;
                } else {
                    return;
                }
            }
        }
    }
}

async fn tick(shared: Arc<Shared>) {
    while !shared.is_stopped() {
        let next = shared.with(|state, now| {
            state.tick(now);
            state.next_timer()
        });
        let changed = shared.ticker.notified();
        match next.and_then(|next| shared.at(next)) {
            Some(at) => {
                tokio::select! {
                    () = sleep_until(at) => {}
                    () = changed => {}
                }
            }
            None => changed.await,
        }
    }
}
