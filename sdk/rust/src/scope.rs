//! One unit of the application's work: many publishes, one result.

use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::Stream;
use sluicegate_proto::v1;

use crate::error::Error;
use crate::message::Message;
use crate::rows::Caller;
use crate::transport::Handle;
use crate::verdict::{Summary, Verdicts};

/// How a scope's messages are treated. Each option is a mechanism of its own.
#[derive(Clone, Debug, Default)]
pub struct ScopeOptions {
    inner: v1::ScopeOptions,
}

impl ScopeOptions {
    /// The gateway's defaults: batching, deferred confirmation, no receipts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether rows may share provider batches. False: each message is a provider operation of its
    /// own.
    #[must_use]
    pub fn batching(mut self, batching: bool) -> Self {
        self.inner.batching = Some(batching);
        self
    }

    /// Whether a row may be sent before the row before it has its verdict.
    #[must_use]
    pub fn deferred_confirmation(mut self, deferred: bool) -> Self {
        self.inner.deferred_confirmation = Some(deferred);
        self
    }

    /// From a message's acceptance to its verdict at the latest.
    #[must_use]
    pub fn confirmation_timeout(mut self, timeout: Duration) -> Self {
        let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.inner.confirmation_timeout_ms = Some(ms.max(1));
        self
    }

    /// Whether confirmed rows come with their receipts.
    #[must_use]
    pub fn receipts(mut self, receipts: bool) -> Self {
        self.inner.receipts = Some(receipts);
        self
    }

    pub(crate) fn protocol(&self) -> v1::ScopeOptions {
        self.inner.clone()
    }
}

/// An open scope.
///
/// Its methods take `&self`, so that tasks may share it; rows are numbered in the order in which
/// publishes happen. Dropping a scope closes it without asking what became of its messages: they
/// still settle.
#[derive(Debug)]
pub struct Scope {
    handle: Arc<Handle>,
    id: u64,
}

impl Scope {
    pub(crate) fn new(handle: Arc<Handle>, id: u64) -> Self {
        Self { handle, id }
    }

    /// Publishes a message and returns its row. Waits only for credit, never for the verdict; a
    /// publish that was cancelled before it returned has published nothing.
    ///
    /// # Errors
    ///
    /// The stream was lost, the scope was finished, or no frame can carry the message.
    pub async fn publish(
        &self,
        destination: &str,
        message: impl Into<Message>,
    ) -> Result<u64, Error> {
        let rows = self
            .publish_as(destination, &message.into(), &mut None)
            .await?;
        Ok(rows.start)
    }

    pub(crate) async fn publish_as(
        &self,
        destination: &str,
        message: &Message,
        caller: &mut Option<Caller>,
    ) -> Result<Range<u64>, Error> {
        let message = std::slice::from_ref(message);
        self.handle.check(destination, message)?;
        // Lets the transport run where there is but one thread and the application never waits.
        tokio::task::consume_budget().await;
        poll_fn(|cx| {
            self.handle
                .shared
                .poll_publish(self.id, destination, message, caller, cx)
        })
        .await
    }

    /// Publishes many messages for one destination, in order, and returns their rows (without gaps
    /// unless another task publishes to the scope meanwhile). Cancelled, it has published the first
    /// few of them.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish); when a message is too large, none was published.
    pub async fn publish_many(
        &self,
        destination: &str,
        messages: &[Message],
    ) -> Result<Range<u64>, Error> {
        self.handle.check(destination, messages)?;
        let mut rest = messages;
        let mut all: Option<Range<u64>> = None;
        while !rest.is_empty() {
            if all.is_some() {
                tokio::task::yield_now().await;
            }
            let rows = poll_fn(|cx| {
                self.handle
                    .shared
                    .poll_publish(self.id, destination, rest, &mut None, cx)
            })
            .await?;
            let taken = usize::try_from(rows.end - rows.start).unwrap_or(usize::MAX);
            rest = rest.get(taken..).unwrap_or_default();
            all = Some(all.map_or(rows.start, |all| all.start)..rows.end);
        }
        Ok(all.unwrap_or_default())
    }

    /// Sends what lingers and waits until everything published before has its verdict. On a lost
    /// stream what had none is unknown.
    ///
    /// # Errors
    ///
    /// The scope was finished.
    pub async fn flush(&self) -> Result<Summary, Error> {
        let token = self.handle.shared.flush(self.id)?;
        self.when(|rows| rows.is_flushed(token).then(|| rows.summary()))
            .await
            .ok_or(Error::Finished)
    }

    /// Takes no more messages, and says what became of those that were published. On a lost stream
    /// what had no verdict is unknown.
    ///
    /// # Errors
    ///
    /// The gateway's counts differ from those of the verdicts that came.
    pub async fn close(self) -> Result<Summary, Error> {
        self.finish();
        self.done().await
    }

    /// As [`close`](Self::close), but what was not yet sent to the broker fails with `ABORTED`.
    ///
    /// # Errors
    ///
    /// As [`close`](Self::close).
    pub async fn abort(self) -> Result<Summary, Error> {
        self.handle.shared.finish(self.id, true);
        self.done().await
    }

    /// Takes no more messages, and does not wait: [`next_verdicts`](Self::next_verdicts) ends when
    /// all have come.
    pub fn finish(&self) {
        self.handle.shared.finish(self.id, false);
    }

    /// The verdicts that came since the last call, or the next to come; `None` once the scope is
    /// finished (or its stream lost) and all were taken.
    pub async fn next_verdicts(&self) -> Option<Verdicts> {
        self.when(|rows| match rows.take_verdicts() {
            Some(verdicts) => Some(Some(verdicts)),
            None => rows.done.then_some(None),
        })
        .await
        .flatten()
    }

    /// [`next_verdicts`](Self::next_verdicts) as a stream.
    pub fn verdicts(&self) -> impl Stream<Item = Verdicts> + '_ {
        futures::stream::unfold(self, |scope| async move {
            Some((scope.next_verdicts().await?, scope))
        })
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.handle.shared.is_gone()
    }

    async fn done(&self) -> Result<Summary, Error> {
        self.when(|rows| {
            rows.done.then(|| match rows.miscounted() {
                None => Ok(rows.summary()),
                Some((gateway, verdicts)) => Err(Error::Miscounted { gateway, verdicts }),
            })
        })
        .await
        .unwrap_or(Err(Error::Finished))
    }

    /// Waits until the rows give an answer. They live as long as their scope: there is always one.
    async fn when<T>(
        &self,
        mut answer: impl FnMut(&mut crate::rows::Rows) -> Option<T>,
    ) -> Option<T> {
        poll_fn(|cx| {
            self.handle
                .shared
                .with_rows(self.id, |rows| match answer(rows) {
                    Some(answer) => Poll::Ready(Some(answer)),
                    None => {
                        rows.wait(cx.waker());
                        Poll::Pending
                    }
                })
                .unwrap_or(Poll::Ready(None))
        })
        .await
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        self.handle.shared.abandon(self.id);
    }
}
