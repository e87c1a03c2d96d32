//! A response body that is written by a future.
//!
//! HTTP/2 asks the body for its next piece when it can send one, and that poll runs the future: no
//! task and no channel stand between an engine's event and the socket, and what is not asked for is
//! not made. The future hands pieces to [`Out`] one at a time, and what it returns becomes the
//! call's status.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame};
use prost::Message;
use tonic::Status;

use crate::fault::Fault;

/// Compression flag and length, before each message.
const HEADER_BYTES: usize = 5;

/// Appends a gRPC message to what will be written.
pub(crate) fn append(message: &impl Message, buffer: &mut BytesMut) -> Result<(), Fault> {
    let bytes = message.encoded_len();
    let length = u32::try_from(bytes).map_err(|_| Fault::AnswerTooLarge(bytes))?;
    buffer.reserve(HEADER_BYTES + bytes);
    buffer.put_u8(0);
    buffer.put_u32(length);
    message
        .encode(buffer)
        .map_err(|_| Fault::AnswerTooLarge(bytes))
}

/// Where the future puts what it has written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Out {
    piece: Arc<Mutex<Bytes>>,
}

impl Out {
    /// Hands over a piece; goes on when HTTP/2 asks for the next one.
    pub(crate) async fn write(&self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        *self.lock() = piece;
        // The body's poll that runs this takes the piece when it sees `Pending`, and polls again
        // when the piece has been taken over: nobody needs to be woken.
        let mut written = false;
        poll_fn(|_| {
            if written {
                return Poll::Ready(());
            }
            written = true;
            Poll::Pending
        })
        .await;
    }

    fn take(&self) -> Bytes {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Bytes> {
        self.piece.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Writer = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send>>;

/// The body.
pub(crate) struct Answer {
    writer: Option<Writer>,
    out: Out,
    trailers: Option<HeaderMap>,
}

impl Answer {
    pub(crate) fn new<F>(writer: impl FnOnce(Out) -> F) -> Self
    where
        F: Future<Output = Result<(), Fault>> + Send + 'static,
    {
        let out = Out::default();
        Self {
            writer: Some(Box::pin(writer(out.clone()))),
            out,
            trailers: None,
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(writer) = &mut self.writer else {
            return Poll::Ready(self.trailers.take().map(|map| Ok(Frame::trailers(map))));
        };
        if let Poll::Ready(ended) = writer.as_mut().poll(cx) {
            self.writer = None;
            self.trailers = Some(trailers(ended));
        }
        let piece = self.out.take();
        if !piece.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        match self.trailers.take() {
            Some(map) => Poll::Ready(Some(Ok(Frame::trailers(map)))),
            None => Poll::Pending,
        }
    }
}

fn trailers(ended: Result<(), Fault>) -> HeaderMap {
    let status = match ended {
        Ok(()) => Status::ok(""),
        Err(fault) => fault.into(),
    };
    let mut map = HeaderMap::with_capacity(2);
    if let Err(unprintable) = status.add_header(&mut map) {
        map.insert("grpc-status", (unprintable.code() as i32).into());
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut answer: Answer) -> (Vec<Bytes>, HeaderMap) {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut pieces = Vec::new();
        loop {
            match Pin::new(&mut answer).poll_frame(&mut cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(piece) => pieces.push(piece),
                    Err(frame) => return (pieces, frame.into_trailers().unwrap()),
                },
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn pieces_come_out_in_order_and_the_status_comes_last() {
        let answer = Answer::new(|out| async move {
            out.write("one".into()).await;
            out.write(Bytes::new()).await;
            out.write("two".into()).await;
            Err(Fault::Draining)
        });
        let (pieces, trailers) = read(answer);
        assert_eq!(pieces, ["one", "two"]);
        assert_eq!(trailers["grpc-status"], "14");
    }

    #[test]
    fn an_answer_without_fault_ends_with_ok() {
        let (pieces, trailers) = read(Answer::new(|_| async { Ok(()) }));
        assert!(pieces.is_empty());
        assert_eq!(trailers["grpc-status"], "0");
    }
}
