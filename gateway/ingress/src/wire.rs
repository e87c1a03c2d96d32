//! Cuts the body of a request into gRPC messages.
//!
//! **A message is one allocation of exactly its own size**, so what the engine charges for a kept
//! slice (the whole message) is what it costs: bodies cut straight out of HTTP/2's read buffer
//! would keep that buffer, and its spare room, alive for as long as the slowest row. The price is
//! one copy of each frame, the one that tonic makes as well.
//!
//! Nothing is read ahead: HTTP/2 flow control holds back a client whose frames are not asked for.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::Body;

use crate::fault::Fault;

/// Compression flag and length, before each message.
const HEADER_BYTES: usize = 5;

/// The messages of one request.
#[derive(Debug)]
pub(crate) struct Messages<B> {
    body: B,
    limit: u32,
    /// What came and was not taken yet.
    chunk: Bytes,
    state: State,
}

#[derive(Debug)]
enum State {
    Header {
        bytes: [u8; HEADER_BYTES],
        have: usize,
    },
    Payload {
        bytes: Vec<u8>,
        want: usize,
    },
}

impl State {
    const START: Self = Self::Header {
        bytes: [0; HEADER_BYTES],
        have: 0,
    };
}

impl<B> Messages<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    pub(crate) fn new(body: B, limit: u32) -> Self {
        Self {
            body,
            limit,
            chunk: Bytes::new(),
            state: State::START,
        }
    }

    /// The next message, or `None` when the client has ended its side.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        loop {
            if let Some(message) = self.cut()? {
                return Poll::Ready(Ok(Some(message)));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.chunk = data;
                    }
                }
                Some(Err(error)) => return Poll::Ready(Err(Fault::Lost(error.to_string()))),
                None => return Poll::Ready(self.end()),
            }
        }
    }

    /// A message, if the chunk completes one; else takes all of the chunk.
    fn cut(&mut self) -> Result<Option<Bytes>, Fault> {
        if let State::Header { bytes, have } = &mut self.state {
            for (place, byte) in bytes.iter_mut().skip(*have).zip(self.chunk.iter()) {
                *place = *byte;
            }
            let taken = (HEADER_BYTES - *have).min(self.chunk.len());
            self.chunk.advance(taken);
            *have += taken;
            if *have < HEADER_BYTES {
                return Ok(None);
            }
            let want = payload_bytes(*bytes, self.limit)?;
            self.state = State::Payload {
                bytes: Vec::with_capacity(want),
                want,
            };
        }
        let State::Payload { bytes, want } = &mut self.state else {
            return Ok(None);
        };
        let taken = (*want - bytes.len()).min(self.chunk.len());
        bytes.extend_from_slice(self.chunk.get(..taken).unwrap_or_default());
        self.chunk.advance(taken);
        if bytes.len() < *want {
            return Ok(None);
        }
        let message = Bytes::from(std::mem::take(bytes));
        self.state = State::START;
        Ok(Some(message))
    }

    fn end(&self) -> Result<Option<Bytes>, Fault> {
        match &self.state {
            State::Header { have: 0, .. } => Ok(None),
            State::Header { have, .. } => Err(Fault::Truncated {
                have: *have,
                want: HEADER_BYTES,
            }),
            State::Payload { bytes, want } => Err(Fault::Truncated {
                have: bytes.len(),
                want: *want,
            }),
        }
    }
}

fn payload_bytes(header: [u8; HEADER_BYTES], limit: u32) -> Result<usize, Fault> {
    let [compressed, a, b, c, d] = header;
    if compressed != 0 {
        return Err(Fault::Compressed);
    }
    let bytes = u32::from_be_bytes([a, b, c, d]);
    match usize::try_from(bytes) {
        Ok(want) if bytes <= limit => Ok(want),
        _ => Err(Fault::FrameTooLarge { bytes, limit }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;

    use http_body::Frame;
    use proptest::prelude::*;

    use super::*;

    /// A body of chunks that are all there at once.
    struct Chunks(VecDeque<Bytes>);

    impl Body for Chunks {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(|chunk| Ok(Frame::data(chunk))))
        }
    }

    fn read(chunks: impl IntoIterator<Item = Vec<u8>>, limit: u32) -> (Vec<Bytes>, Option<Fault>) {
        let body = Chunks(chunks.into_iter().map(Bytes::from).collect());
        let mut messages = Messages::new(body, limit);
        let mut got = Vec::new();
        let mut cx = Context::from_waker(std::task::Waker::noop());
        loop {
            match messages.poll_next(&mut cx) {
                Poll::Ready(Ok(Some(message))) => got.push(message),
                Poll::Ready(Ok(None)) => return (got, None),
                Poll::Ready(Err(fault)) => return (got, Some(fault)),
                Poll::Pending => panic!("the body is never pending"),
            }
        }
    }

    fn framed(payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    proptest! {
        #[test]
        fn messages_come_out_whole_however_the_body_is_cut(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..12),
            cuts in prop::collection::vec(1..17_usize, 1..40),
        ) {
            let wire: Vec<u8> = payloads.iter().flat_map(|payload| framed(payload)).collect();
            let mut chunks = Vec::new();
            let mut rest = wire.as_slice();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, after) = rest.split_at((*cut).min(rest.len()));
                chunks.push(chunk.to_vec());
                rest = after;
            }
            let (got, fault) = read(chunks, 64);
            prop_assert!(fault.is_none());
            prop_assert_eq!(got, payloads);
        }
    }

    #[test]
    fn a_message_of_the_limit_passes_and_one_byte_more_does_not() {
        let (got, fault) = read([framed(&[7; 10]), framed(&[7; 11])], 10);
        assert_eq!(got.len(), 1);
        let fault = fault.expect("the second is too large");
        assert!(matches!(
            fault,
            Fault::FrameTooLarge {
                bytes: 11,
                limit: 10
            }
        ));
        assert!(fault.to_string().contains("11 bytes"));
    }

    #[test]
    fn a_body_that_ends_inside_a_message_is_told_how_much_came() {
        let (_, fault) = read([vec![0, 0, 0, 0, 9, 1, 2]], 10);
        assert!(matches!(fault, Some(Fault::Truncated { have: 2, want: 9 })));
        let (_, fault) = read([vec![0, 0]], 10);
        assert!(matches!(fault, Some(Fault::Truncated { have: 2, want: 5 })));
    }

    #[test]
    fn a_compressed_message_is_refused() {
        let (_, fault) = read([vec![1, 0, 0, 0, 0]], 10);
        assert!(matches!(fault, Some(Fault::Compressed)));
    }
}
