//! One client's stream.

use std::sync::Arc;

use sluicegate_core::{Message, Time};

use crate::ledger::Taken;
use crate::shared::Signals;
use crate::state::State;
use crate::{Engine, Event, ProtocolFault, ScopeOptions};

/// What messages that came together take in memory, beside their rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// The frame that their bodies are slices of: what the stream's credit is charged.
    pub frame: usize,
    /// What was allocated for ids and headers (`Extra::memory`): charged to the gateway's memory, and
    /// not to credit, since a client cannot know it.
    pub extra: usize,
}

impl From<usize> for Memory {
    fn from(frame: usize) -> Self {
        Self { frame, extra: 0 }
    }
}

/// One client's stream: its scopes, its credit, its results.
///
/// One task reads the client's frames (`ready`, then `publish` and its like), another takes `events`;
/// neither waits for the other. Dropping the stream before `events` has returned false is a lost
/// stream: accepted rows settle and are logged.
#[derive(Debug)]
pub struct Stream {
    engine: Engine,
    key: usize,
    signals: Arc<Signals>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        // The slot is given up under the same lock, before another stream can have the key.
        let slot = self.engine.shared.with_streams(|state, streams, now| {
            state.lose(self.key, now);
            streams.get_mut(self.key).and_then(Option::take)
        });
        drop(slot);
    }
}

impl Stream {
    pub(crate) fn new(engine: Engine, key: usize, signals: Arc<Signals>) -> Self {
        Self {
            engine,
            key,
            signals,
        }
    }

    /// Opens a scope. `id`s must grow within the stream.
    ///
    /// # Errors
    ///
    /// When the id was used, too many scopes are open, or the gateway is draining.
    pub fn open_scope(&self, id: u64, options: ScopeOptions) -> Result<(), ProtocolFault> {
        self.frame(|state, _| state.open_scope(self.key, id, options))
    }

    /// Accepts messages as the scope's next rows. `memory` is what they keep alive; a number is that of
    /// their frame.
    /// Never waits: ask `ready` before reading the next frame.
    ///
    /// # Errors
    ///
    /// When the scope is not open; nothing is accepted then.
    pub fn publish(
        &self,
        scope: u64,
        destination: &str,
        messages: Vec<Message>,
        memory: impl Into<Memory>,
    ) -> Result<(), ProtocolFault> {
        let memory = memory.into();
        self.frame(|state, now| state.publish(self.key, scope, destination, messages, memory, now))
    }

    /// Answered by `Event::Flushed` when each row published to the scope before it has its verdict.
    ///
    /// # Errors
    ///
    /// When the scope is not open.
    pub fn flush(&self, scope: u64, token: u64) -> Result<(), ProtocolFault> {
        self.frame(|state, now| state.flush(self.key, scope, token, now))
    }

    /// No more messages; answered by `Event::ScopeDone`.
    ///
    /// # Errors
    ///
    /// When the scope is not open.
    pub fn close_scope(&self, scope: u64) -> Result<(), ProtocolFault> {
        self.frame(|state, now| state.close_scope(self.key, scope, now))
    }

    /// Fails what is unsent with ABORTED; answered by `Event::ScopeDone` when what was sent has settled.
    ///
    /// # Errors
    ///
    /// When the scope is not open.
    pub fn abort_scope(&self, scope: u64) -> Result<(), ProtocolFault> {
        self.frame(|state, now| state.abort_scope(self.key, scope, now))
    }

    /// Resolves when a frame of so many bytes may be read: credit, memory and unread results allow it.
    /// The bytes are charged to the gateway's memory until the frame has done something to the stream
    /// (`publish` or its like), this is asked again, or the stream is dropped.
    pub async fn ready(&self, frame_bytes: usize) {
        let bytes = u64::try_from(frame_bytes).unwrap_or(u64::MAX);
        while !self
            .engine
            .shared
            .with(|state, _| state.ledger.let_in(self.key, bytes))
        {
            self.signals.room.notified().await;
        }
    }

    /// What a frame does to the stream; it is then charged no more as being read.
    fn frame<T>(&self, act: impl FnOnce(&mut State, Time) -> T) -> T {
        self.engine.shared.with(|state, now| {
            let done = act(state, now);
            state.ledger.frame_read(self.key);
            done
        })
    }

    /// Waits for results and appends them to `events`, up to about `budget_bytes`. Returns false when the
    /// stream was finished (`finish`) and everything has been taken.
    pub async fn events(&self, events: &mut Vec<Event>, budget_bytes: usize) -> bool {
        loop {
            let taken = self
                .engine
                .shared
                .with(|state, now| state.take_events(self.key, events, budget_bytes, now));
            match taken {
                Taken::Some => return true,
                Taken::Done => return false,
                Taken::Nothing => self.signals.events.notified().await,
            }
        }
    }

    /// Resolves once when results have been left unread too long, whether or not anybody takes
    /// `events`: a client that reads nothing keeps them from being asked for.
    pub async fn stalled(&self) {
        self.signals.stalled.notified().await;
    }

    /// The client will send no more: open scopes are closed. `events` ends when all have settled.
    pub fn finish(&self) {
        self.engine
            .shared
            .with(|state, now| state.finish(self.key, now));
    }
}
