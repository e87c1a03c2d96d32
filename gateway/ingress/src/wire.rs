//! Cuts the body of a request into gRPC messages.
//!
//! **A message is one allocation of exactly its own size**, so what the engine charges for a kept
//! slice (the whole message) is what it costs: bodies cut straight out of HTTP/2's read buffer
//! would keep that buffer, and its spare room, alive for as long as the slowest row. The price is
//! one copy of each frame, the one that tonic makes as well.
//!
//! Nothing is read ahead: HTTP/2 flow control holds back a client whose frames are not asked for. A
//! message's length is read by itself, so that memory is found for the message before it is read.

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
        /// Without room until the message is asked for.
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

    /// The length of the next message, or `None` when the client has ended its side.
    pub(crate) async fn length(&mut self) -> Result<Option<usize>, Fault> {
        poll_fn(|cx| self.poll_length(cx)).await
    }

    /// The message whose length was told. What has come of it is kept when this is dropped.
    pub(crate) async fn message(&mut self) -> Result<Bytes, Fault> {
        poll_fn(|cx| self.poll_message(cx)).await
    }

    /// How much has come of the message that is being read.
    pub(crate) fn come(&self) -> usize {
        match &self.state {
            State::Header { have, .. } => *have,
            State::Payload { bytes, .. } => bytes.len(),
        }
    }

    fn poll_length(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<usize>, Fault>> {
        loop {
            match &mut self.state {
                State::Payload { want, .. } => return Poll::Ready(Ok(Some(*want))),
                State::Header { bytes, have } => {
                    for (place, byte) in bytes.iter_mut().skip(*have).zip(self.chunk.iter()) {
                        *place = *byte;
                    }
                    let taken = (HEADER_BYTES - *have).min(self.chunk.len());
                    self.chunk.advance(taken);
                    *have += taken;
                    if *have == HEADER_BYTES {
                        self.state = State::Payload {
                            bytes: Vec::new(),
                            want: payload_bytes(*bytes, self.limit)?,
                        };
                        continue;
                    }
                    let have = *have;
                    if !ready!(self.poll_chunk(cx))? {
                        return Poll::Ready(match have {
                            0 => Ok(None),
                            have => Err(Fault::Truncated {
                                have,
                                want: HEADER_BYTES,
                            }),
                        });
                    }
                }
            }
        }
    }

    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Fault>> {
        if ready!(self.poll_length(cx))?.is_none() {
            return Poll::Ready(Err(Fault::NoRequest));
        }
        loop {
            let State::Payload { bytes, want } = &mut self.state else {
                return Poll::Ready(Err(Fault::NoRequest));
            };
            let want = *want;
            bytes.reserve_exact(want - bytes.len());
            let taken = (want - bytes.len()).min(self.chunk.len());
            bytes.extend_from_slice(self.chunk.get(..taken).unwrap_or_default());
            self.chunk.advance(taken);
            if bytes.len() == want {
                let message = Bytes::from(std::mem::take(bytes));
                self.state = State::START;
                return Poll::Ready(Ok(message));
            }
            let have = bytes.len();
            if !ready!(self.poll_chunk(cx))? {
                return Poll::Ready(Err(Fault::Truncated { have, want }));
            }
        }
    }

    /// Another chunk, when the one before is used up; false at the end.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Fault>> {
        loop {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.chunk = data;
                        return Poll::Ready(Ok(true));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Err(Fault::Lost(error.to_string()))),
                None => return Poll::Ready(Ok(false)),
            }
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
            match messages.poll_length(&mut cx) {
                Poll::Ready(Ok(Some(length))) => match messages.poll_message(&mut cx) {
                    Poll::Ready(Ok(message)) => {
                        assert_eq!(message.len(), length);
                        got.push(message);
                    }
                    Poll::Ready(Err(fault)) => return (got, Some(fault)),
                    Poll::Pending => panic!("the body is never pending"),
                },
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
