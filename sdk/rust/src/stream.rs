//! One stream to the gateway, as all its scopes share it.
//!
//! Everything is behind one lock that is held for as long as it takes to encode a frame, and no task
//! stands between: a publisher encodes into the buffer that the transport takes, and the task that
//! reads the gateway's frames settles rows. Wakers are woken after the lock is released.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use sluicegate_proto::v1;
use sluicegate_proto::v1::client_frame::Frame as ClientFrame;
use sluicegate_proto::v1::server_frame::Frame as ServerFrame;

use crate::credit::Credit;
use crate::encode;
use crate::error::Error;
use crate::message::Message;
use crate::outgoing::{FrameLimits, Outgoing, Taken};
use crate::rows::{Answers, Caller, Rows};
use crate::verdict::{Failure, FailureClass};

/// What may be encoded and not yet taken by the transport: beyond it, a publisher waits. Enough to
/// keep the transport busy, far less than a stream's credit.
const BUFFERED_BYTES: usize = 1024 * 1024;

/// A publisher of many messages gives up the lock after so many bytes, at a frame's end.
const LOCKED_BYTES: usize = 64 * 1024;

/// The stream.
#[derive(Debug)]
pub(crate) struct Shared {
    address: Arc<str>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    outgoing: Outgoing,
    credit: Credit,
    scopes: HashMap<u64, Rows>,
    last_scope: u64,
    open_scopes: usize,
    draining: bool,
    /// Why the stream is gone.
    lost: Option<Arc<str>>,
    /// Publishers that wait for credit or for the transport, and openers that wait for a scope to
    /// end.
    blocked: Vec<Waker>,
}

/// A new scope cannot be opened on this stream: another one is needed.
#[derive(Debug)]
pub(crate) struct Gone;

impl Shared {
    pub(crate) fn new(address: Arc<str>, limits: FrameLimits) -> Self {
        Self {
            address,
            state: Mutex::new(State {
                outgoing: Outgoing::new(limits),
                credit: Credit::default(),
                scopes: HashMap::new(),
                last_scope: 0,
                open_scopes: 0,
                draining: false,
                lost: None,
                blocked: Vec::new(),
            }),
        }
    }

    /// A panic elsewhere leaves the state whole: each change is made without calling out.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self, reason: &Arc<str>) -> Error {
        Error::Lost {
            address: Arc::clone(&self.address),
            reason: Arc::clone(reason),
        }
    }

    /// Takes what the gateway granted; `limits` are the client's own.
    pub(crate) fn welcome(&self, welcome: &v1::Welcome, limits: FrameLimits) {
        let granted = welcome.limits.unwrap_or_default();
        let credit = welcome.credit.unwrap_or_default();
        let frame_bytes = frame_bytes(welcome);
        let frame_messages = match granted.frame_messages {
            0 => usize::MAX,
            messages => usize::try_from(messages).unwrap_or(usize::MAX),
        };
        let mut state = self.lock();
        state.credit = Credit::new(credit.messages, credit.bytes);
        state.open_scopes = usize::try_from(granted.open_scopes)
            .unwrap_or(usize::MAX)
            .max(1);
        state.outgoing.set_limits(FrameLimits {
            messages: limits.messages.min(frame_messages).max(1),
            bytes: limits.bytes.min(frame_bytes),
        });
    }

    /// Sends a frame that carries no messages.
    pub(crate) fn control(&self, frame: ClientFrame) {
        let mut state = self.lock();
        state.outgoing.control(frame);
        wake_one(state);
    }

    /// Whether new scopes need another stream.
    pub(crate) fn is_gone(&self) -> bool {
        let state = self.lock();
        state.draining || state.lost.is_some()
    }

    /// Opens a scope once the gateway's limit allows it.
    pub(crate) fn poll_open(
        &self,
        options: v1::ScopeOptions,
        cx: &mut Context<'_>,
    ) -> Poll<Result<u64, Gone>> {
        let mut state = self.lock();
        if state.draining || state.lost.is_some() {
            return Poll::Ready(Err(Gone));
        }
        if state.scopes.len() >= state.open_scopes {
            state.block(cx.waker());
            return Poll::Pending;
        }
        state.last_scope += 1;
        let scope = state.last_scope;
        state.scopes.insert(scope, Rows::default());
        state
            .outgoing
            .control(ClientFrame::OpenScope(v1::OpenScope {
                scope,
                options: Some(options),
            }));
        wake_one(state);
        Poll::Ready(Ok(scope))
    }

    /// Publishes some of the messages, at least one, as soon as there is credit.
    pub(crate) fn poll_publish(
        &self,
        scope: u64,
        destination: &str,
        messages: &[Message],
        caller: &mut Option<Caller>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Range<u64>, Error>> {
        let mut state = self.lock();
        if let Some(reason) = &state.lost {
            return Poll::Ready(Err(self.lost(reason)));
        }
        let rows = state.publish(scope, destination, messages)?;
        if rows.is_empty() && !messages.is_empty() {
            state.block(cx.waker());
            return Poll::Pending;
        }
        if let Some(caller) = caller.take()
            && let Some(own) = state.scopes.get_mut(&scope)
        {
            own.call(caller);
        }
        wake_one(state);
        Poll::Ready(Ok(rows))
    }

    /// Reads or changes a scope.
    pub(crate) fn with_rows<T>(&self, scope: u64, f: impl FnOnce(&mut Rows) -> T) -> Option<T> {
        self.lock().scopes.get_mut(&scope).map(f)
    }

    /// Asks for `Flushed`; returns its token.
    pub(crate) fn flush(&self, scope: u64) -> Result<u64, Error> {
        let mut state = self.lock();
        let lost = state.lost.is_some();
        let rows = state.scopes.get_mut(&scope).ok_or(Error::Finished)?;
        if rows.finished {
            return Err(Error::Finished);
        }
        let token = rows.flush();
        // On a lost stream every row has its verdict already.
        if !lost {
            let frame = ClientFrame::Flush(v1::Flush { scope, token });
            state.outgoing.control(frame);
            wake_one(state);
        }
        Ok(token)
    }

    /// Ends a scope, once.
    pub(crate) fn finish(&self, scope: u64, abort: bool) {
        let mut state = self.lock();
        let lost = state.lost.is_some();
        let Some(rows) = state.scopes.get_mut(&scope) else {
            return;
        };
        if lost || (rows.finished && !abort) || rows.done {
            return;
        }
        rows.finished = true;
        state.outgoing.control(if abort {
            ClientFrame::AbortScope(v1::AbortScope { scope })
        } else {
            ClientFrame::CloseScope(v1::CloseScope { scope })
        });
        wake_one(state);
    }

    /// Nobody asks for the scope any more: it is forgotten when it is over.
    pub(crate) fn abandon(&self, scope: u64) {
        let mut state = self.lock();
        let Some(rows) = state.scopes.get_mut(&scope) else {
            return;
        };
        if rows.done {
            state.scopes.remove(&scope);
            let blocked = std::mem::take(&mut state.blocked);
            drop(state);
            blocked.into_iter().for_each(Waker::wake);
            return;
        }
        rows.abandoned = true;
        drop(rows.take_verdicts());
        drop(state);
        self.finish(scope, false);
    }

    /// No handle is left: the request ends once everything is sent.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.outgoing.end();
        wake_one(state);
    }

    /// What the transport is to write next.
    pub(crate) fn poll_outgoing(&self, cx: &mut Context<'_>) -> Poll<Option<bytes::Bytes>> {
        let mut state = self.lock();
        match state.outgoing.take() {
            Taken::Bytes(bytes) => {
                // Publishers that wait for room are woken at half of it, not at each write.
                if !state.blocked.is_empty()
                    && state.outgoing.buffered_bytes() <= BUFFERED_BYTES / 2
                {
                    let blocked = std::mem::take(&mut state.blocked);
                    drop(state);
                    blocked.into_iter().for_each(Waker::wake);
                }
                Poll::Ready(Some(bytes))
            }
            Taken::End => Poll::Ready(None),
            Taken::Wait => {
                state.outgoing.wait(cx.waker());
                Poll::Pending
            }
        }
    }

    /// Takes a frame of the gateway's.
    pub(crate) fn receive(&self, frame: ServerFrame) {
        let mut answers = Answers::new();
        let mut wakers = Vec::new();
        {
            let mut state = self.lock();
            let state = &mut *state;
            match frame {
                ServerFrame::Results(results) => {
                    if let Some(rows) = state.scopes.get_mut(&results.scope) {
                        rows.results(results, &mut state.credit, &mut answers);
                        rows.take_wakers(&mut wakers);
                    }
                    // A destination's half may be free again.
                    wakers.append(&mut state.blocked);
                }
                ServerFrame::Flushed(flushed) => {
                    if let Some(rows) = state.scopes.get_mut(&flushed.scope) {
                        rows.flushed(flushed.token);
                        rows.take_wakers(&mut wakers);
                    }
                }
                ServerFrame::ScopeDone(done) => {
                    if let Some(rows) = state.scopes.get_mut(&done.scope) {
                        rows.finish(done);
                        rows.take_wakers(&mut wakers);
                        if rows.abandoned {
                            state.scopes.remove(&done.scope);
                        }
                        wakers.append(&mut state.blocked);
                    }
                }
                ServerFrame::Credit(credit) => {
                    state.credit.give_back(credit.messages, credit.bytes);
                    wakers.append(&mut state.blocked);
                }
                ServerFrame::Draining(_) => {
                    state.draining = true;
                    wakers.append(&mut state.blocked);
                }
                // A second Welcome says nothing new.
                ServerFrame::Welcome(_) => {}
            }
        }
        wakers.into_iter().for_each(Waker::wake);
        for (caller, verdict) in answers {
            // A caller that has gone needs no answer.
            let _ = caller.send(verdict);
        }
    }

    /// The stream is gone.
    pub(crate) fn lose(&self, reason: &str) {
        let mut answers = Answers::new();
        let mut wakers = Vec::new();
        {
            let mut state = self.lock();
            if state.lost.is_some() {
                return;
            }
            state.lost = Some(reason.into());
            state.outgoing.clear();
            let failure = Arc::new(Failure {
                class: FailureClass::Unavailable,
                retryable: true,
                attempts: 0,
                code: String::new(),
                reason: format!(
                    "the stream to {} was lost before the message had its verdict: {reason}; it may be in the broker or not, publish it again if a duplicate does no harm",
                    self.address
                ),
            });
            for rows in state.scopes.values_mut() {
                rows.lose(&failure, &mut answers);
                rows.take_wakers(&mut wakers);
            }
            state.scopes.retain(|_, rows| !rows.abandoned);
            wakers.append(&mut state.blocked);
            wakers.extend(state.outgoing.take_waker());
        }
        wakers.into_iter().for_each(Waker::wake);
        for (caller, verdict) in answers {
            let _ = caller.send(verdict);
        }
    }
}

/// The longest frame that this gateway takes.
pub(crate) fn frame_bytes(welcome: &v1::Welcome) -> usize {
    let granted = welcome.limits.unwrap_or_default().frame_bytes;
    usize::try_from(granted)
        .unwrap_or(usize::MAX)
        .min(encode::MAX_FRAME_BYTES)
}

impl State {
    fn publish(
        &mut self,
        scope: u64,
        destination: &str,
        messages: &[Message],
    ) -> Result<Range<u64>, Error> {
        let rows = self.scopes.get_mut(&scope).ok_or(Error::Finished)?;
        if rows.finished {
            return Err(Error::Finished);
        }
        let index = self
            .credit
            .destination(destination, rows.last_destination());
        let first = rows.published();
        let (mut taken, mut charged) = (0, 0);
        for message in messages {
            if !self.credit.allows(index)
                || self.outgoing.buffered_bytes() >= BUFFERED_BYTES
                || (charged >= LOCKED_BYTES && self.outgoing.at_frame_boundary())
            {
                break;
            }
            let bytes = encode::message_bytes(message);
            let grown = self
                .outgoing
                .message(scope, (index, destination), message, bytes);
            self.credit.spend(index, grown);
            charged += grown;
            taken += 1;
        }
        if taken > 0 {
            rows.publish(index, taken, charged as u64);
        }
        Ok(first..first + taken)
    }

    fn block(&mut self, waker: &Waker) {
        if !self.blocked.iter().any(|known| known.will_wake(waker)) {
            self.blocked.push(waker.clone());
        }
    }
}

/// Wakes the transport, after the lock is released.
fn wake_one(mut state: MutexGuard<'_, State>) {
    let transport = state.outgoing.take_waker();
    drop(state);
    if let Some(transport) = transport {
        transport.wake();
    }
}
