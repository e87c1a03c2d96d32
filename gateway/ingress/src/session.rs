//! One client's stream: a reader that turns its frames into calls of the engine, and a writer that
//! turns the engine's events into frames.
//!
//! **Reading and writing do not wait for each other.** The reader is a task of its own; the writer
//! runs inside the response body. A client that writes all that it has before it reads anything
//! therefore gets through: HTTP/2 stops polling a body whose client does not read, and were the
//! reader driven from there, both sides would wait for ever.
//!
//! For the same reason it is the reader that learns of a stall: while a client reads nothing, the
//! writer is not asked for anything.
//!
//! The reader stops only when the engine says so (`ready`): credit is used up, memory is short, or
//! results are left unread. It reads nothing ahead, so HTTP/2 flow control holds the client back.
//!
//! **A stream that is dropped is lost, not aborted**: whoever ends first takes the other along, and
//! the engine settles what it had accepted.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use sluicegate_engine::{ClientLimits, Engine, Event, Memory, Stream};
use sluicegate_proto::v1;
use tokio::sync::SetOnce;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};
use tonic::body::Body;

use crate::answer::{Out, append};
use crate::convert;
use crate::decode::{ClientFrame, client_frame};
use crate::fault::Fault;
use crate::frame;
use crate::options::Options;
use crate::wire::Messages;

/// Name and version, as clients read them in `Welcome`.
const GATEWAY: &str = concat!("sluicegate ", env!("CARGO_PKG_VERSION"));

/// Results taken from the engine at a time. One HTTP/2 window of most clients; taking more would
/// only move results from the engine's budget into a buffer that nobody counts.
const TURN_BYTES: usize = 64 * 1024;

/// Room kept for the next piece to write: what a busy stream's events come to.
const PIECE_BYTES: usize = 4 * 1024;

/// What the reader and the writer of one stream share.
#[derive(Debug)]
pub(crate) struct Session {
    /// The reader owns it, so that a stream that has failed is given up at once: the writer may be
    /// stuck in front of a client that does not read.
    stream: Weak<Stream>,
    frame_messages: u32,
    frame_timeout: Duration,
    stall_timeout: Duration,
    /// The client's name, once it has said Hello.
    hello: SetOnce<String>,
    /// Why the stream ends, once there is a reason.
    fault: SetOnce<Fault>,
    /// Scopes opened whose ScopeDone was not written yet.
    open_scopes: AtomicUsize,
    /// Set before the client is told: a scope opened later is refused.
    draining: AtomicBool,
}

impl Session {
    pub(crate) fn new(stream: &Arc<Stream>, limits: &ClientLimits, options: &Options) -> Self {
        Self {
            stream: Arc::downgrade(stream),
            frame_messages: options.frame_messages,
            frame_timeout: options.frame_timeout,
            stall_timeout: limits.unread_results_timeout,
            hello: SetOnce::new(),
            fault: SetOnce::new(),
            open_scopes: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
        }
    }

    fn client(&self) -> &str {
        self.hello.get().map_or("(no Hello yet)", String::as_str)
    }

    /// The first reason stands.
    fn fail(&self, fault: Fault) {
        if self.fault.set(fault).is_err() {
            tracing::trace!("the stream had failed before");
        }
    }
}

// === the reader ===

/// Reads all that the client writes. What goes wrong becomes the stream's status.
pub(crate) async fn read(session: Arc<Session>, stream: Arc<Stream>, mut messages: Messages<Body>) {
    let Err(fault) = read_frames(&session, &stream, &mut messages).await;
    session.fail(fault);
    drop(stream);
    // The body stays until the status is written: dropping it now would reset the stream, and the
    // client would see that instead.
    std::future::pending::<()>().await;
}

async fn read_frames(
    session: &Session,
    stream: &Stream,
    messages: &mut Messages<Body>,
) -> Result<Infallible, Fault> {
    if messages.length().await?.is_none() {
        return Err(Fault::HelloMissing("the end of the stream"));
    }
    // Whatever memory there is: a client is to know what it may send.
    let first = messages.message().await?;
    match client_frame(&first, session.frame_messages)? {
        ClientFrame::Hello(hello) => {
            tracing::debug!(client = hello.client, "stream opened");
            if session.hello.set(hello.client).is_err() {
                return Err(Fault::HelloTwice);
            }
        }
        other => return Err(Fault::HelloMissing(other.name())),
    }
    loop {
        let frame = tokio::select! {
            biased;
            frame = frame::next(stream, messages, session.frame_timeout) => frame?,
            () = stream.stalled() => return Err(Fault::Stalled(session.stall_timeout)),
        };
        match frame {
            Some(frame) => accept(session, stream, &frame)?,
            None => break,
        }
    }
    stream.finish();
    stream.stalled().await;
    Err(Fault::Stalled(session.stall_timeout))
}

fn accept(session: &Session, stream: &Stream, frame: &Bytes) -> Result<(), Fault> {
    match client_frame(frame, session.frame_messages)? {
        ClientFrame::Messages(publish) => stream.publish(
            publish.scope,
            publish.destination,
            publish.list.messages,
            Memory {
                frame: frame.len(),
                extra: publish.list.extra_bytes,
            },
        )?,
        ClientFrame::OpenScope(open) => {
            let options = convert::scope_options(open.options)?;
            if session.draining.load(Ordering::Acquire) {
                return Err(Fault::Draining);
            }
            // Counted before it is open: its ScopeDone may be written before this returns.
            session.open_scopes.fetch_add(1, Ordering::AcqRel);
            stream.open_scope(open.scope, options)?;
        }
        ClientFrame::Flush(flush) => stream.flush(flush.scope, flush.token)?,
        ClientFrame::CloseScope(close) => stream.close_scope(close.scope)?,
        ClientFrame::AbortScope(abort) => stream.abort_scope(abort.scope)?,
        ClientFrame::Hello(_) => return Err(Fault::HelloTwice),
    }
    Ok(())
}

// === the writer ===

/// Writes Welcome, and then events until the stream is over.
pub(crate) async fn write(
    session: Arc<Session>,
    engine: Engine,
    options: Arc<Options>,
    reader: AbortHandle,
    out: Out,
) -> Result<(), Fault> {
    let mut end = End {
        session: &session,
        reader,
        told: false,
    };
    let ended = write_frames(&session, &engine, &options, &out).await;
    end.told = true;
    if let Err(fault) = &ended {
        tracing::info!(client = session.client(), status = ?fault.code(), "stream ended: {fault}");
    }
    ended
}

async fn write_frames(
    session: &Session,
    engine: &Engine,
    options: &Options,
    out: &Out,
) -> Result<(), Fault> {
    let limits = engine.limits();
    let mut piece = BytesMut::with_capacity(PIECE_BYTES);
    tokio::select! {
        biased;
        _ = session.hello.wait() => {}
        fault = session.fault.wait() => return Err(fault.clone()),
    }
    let welcome = convert::welcome(GATEWAY, options, &limits, engine.destinations());
    append(&server_frame(welcome), &mut piece)?;
    out.write(piece.split().freeze()).await;

    let mut events = Vec::new();
    let mut deadline = None;
    loop {
        // Held for as long as events are waited for, and not while they are written.
        let Some(stream) = session.stream.upgrade() else {
            return Err(session.fault.wait().await.clone());
        };
        let more = tokio::select! {
            biased;
            fault = session.fault.wait() => return Err(fault.clone()),
            more = stream.events(&mut events, TURN_BYTES) => more,
            () = at(deadline) => return Err(Fault::Draining),
        };
        drop(stream);
        for event in events.drain(..) {
            match &event {
                Event::Stalled => return Err(Fault::Stalled(session.stall_timeout)),
                Event::Draining { deadline: left } => {
                    session.draining.store(true, Ordering::Release);
                    deadline = Some(later(*left));
                }
                Event::ScopeDone { .. } => {
                    session.open_scopes.fetch_sub(1, Ordering::AcqRel);
                }
                _ => {}
            }
            if let Some(frame) = convert::event(event) {
                append(&server_frame(frame), &mut piece)?;
            }
        }
        out.write(piece.split().freeze()).await;
        if !more {
            return Ok(());
        }
        if deadline.is_some() && session.open_scopes.load(Ordering::Acquire) == 0 {
            return Err(Fault::Draining);
        }
    }
}

fn server_frame(frame: v1::server_frame::Frame) -> v1::ServerFrame {
    v1::ServerFrame { frame: Some(frame) }
}

fn later(left: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(left).unwrap_or(now)
}

async fn at(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// However the writer ends, the reader ends with it.
struct End<'a> {
    session: &'a Session,
    reader: AbortHandle,
    /// Whether the client got a status.
    told: bool,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.reader.abort();
        if self.told {
            return;
        }
        let client = self.session.client();
        match self.session.open_scopes.load(Ordering::Acquire) {
            // How a program ends that has its verdicts.
            0 => tracing::debug!(client, "the client went away"),
            open_scopes => tracing::warn!(
                client,
                open_scopes,
                "the client went away before its scopes had ended: what was accepted settles, and nobody is told"
            ),
        }
    }
}
