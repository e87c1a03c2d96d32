//! Frames on their way to the transport.
//!
//! **A frame ends when it is full, when something else must follow it, or when the transport takes
//! it.** So an idle client sends each message at once, and a busy one sends what came together
//! while the transport was writing: full frames under load, no delay without it, and no timer.

use std::collections::VecDeque;
use std::task::Waker;

use bytes::{Bytes, BytesMut};
use sluicegate_proto::v1;

use crate::encode;
use crate::message::Message;

/// The first buffer of a stream. Small, since many streams only ever carry a message at a time.
const FIRST_CHUNK_BYTES: usize = 4 * 1024;

/// What buffers grow to under load, unless frames are larger. Below malloc's threshold for mapping
/// memory anew, so that a buffer is memory that was touched before.
const CHUNK_BYTES: usize = 64 * 1024;

/// Buffers kept for when the transport has let go of them: memory that was touched before. As many as
/// hold what may be buffered here and in HTTP/2; a stream that has nothing to send keeps a few.
const SPENT_CHUNKS: usize = 32;
const IDLE_CHUNKS: usize = 4;

/// Where a frame is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameLimits {
    /// Messages of one frame.
    pub(crate) messages: usize,
    /// Encoded bytes of one frame; a single larger message makes a frame of its own.
    pub(crate) bytes: usize,
}

/// What is encoded and not yet taken by the transport.
#[derive(Debug)]
pub(crate) struct Outgoing {
    limits: FrameLimits,
    /// Whole frames, oldest first.
    ready: VecDeque<Bytes>,
    ready_bytes: usize,
    /// Whole frames, and perhaps an open one at the end.
    chunk: BytesMut,
    open: Option<Open>,
    /// Buffers that are full, oldest first; the transport may still hold what was in them.
    spent: VecDeque<BytesMut>,
    next_chunk_bytes: usize,
    last_frame_bytes: usize,
    ended: bool,
    /// The transport, when it waits.
    waker: Option<Waker>,
}

/// The frame that messages are being added to.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Where it begins in the chunk.
    start: usize,
    scope: u64,
    destination: usize,
    messages: usize,
}

impl Outgoing {
    pub(crate) fn new(limits: FrameLimits) -> Self {
        Self {
            limits,
            ready: VecDeque::new(),
            ready_bytes: 0,
            chunk: BytesMut::new(),
            open: None,
            spent: VecDeque::new(),
            next_chunk_bytes: FIRST_CHUNK_BYTES,
            last_frame_bytes: 0,
            ended: false,
            waker: None,
        }
    }

    pub(crate) fn set_limits(&mut self, limits: FrameLimits) {
        self.limits = limits;
    }

    /// Encoded and not yet taken.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.ready_bytes + self.chunk.len()
    }

    /// Adds a message of `bytes` encoded bytes, to the open frame if it fits. Returns by how much
    /// the frames grew, without gRPC's prefixes: what the gateway charges.
    #[inline]
    pub(crate) fn message(
        &mut self,
        scope: u64,
        (destination, name): (usize, &str),
        message: &Message,
        bytes: usize,
    ) -> usize {
        let entry = encode::entry_bytes(bytes);
        let fits = self.open.is_some_and(|open| {
            open.scope == scope
                && open.destination == destination
                && open.messages < self.limits.messages
                && self.chunk.len() - open.start + entry <= self.limits.bytes
        });
        let mut charged = entry;
        if !fits {
            charged += self.begin(scope, (destination, name), entry) - encode::PREFIX_BYTES;
        }
        if self.chunk.capacity() - self.chunk.len() < entry {
            self.make_room(entry);
        }
        encode::put_message(&mut self.chunk, message, bytes);
        if let Some(open) = &mut self.open {
            open.messages += 1;
        }
        charged
    }

    /// Whether the next message of the same kind begins a frame.
    pub(crate) fn at_frame_boundary(&self) -> bool {
        self.open
            .is_none_or(|open| open.messages >= self.limits.messages)
    }

    /// Adds a frame that carries no messages.
    pub(crate) fn control(&mut self, frame: v1::client_frame::Frame) {
        self.finish_frame();
        encode::put_control(&mut self.chunk, &v1::ClientFrame { frame: Some(frame) });
    }

    /// Nothing will follow: the transport ends the request once it has taken what is here.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// The stream is lost: what is here will never be sent.
    pub(crate) fn clear(&mut self) {
        self.ready.clear();
        self.ready_bytes = 0;
        self.chunk = BytesMut::new();
        self.open = None;
        self.spent.clear();
        self.ended = true;
    }

    /// What the transport is to write next.
    pub(crate) fn take(&mut self) -> Taken {
        if let Some(bytes) = self.ready.pop_front() {
            self.ready_bytes -= bytes.len();
            return Taken::Bytes(bytes);
        }
        self.finish_frame();
        if !self.chunk.is_empty() {
            return Taken::Bytes(self.chunk.split().freeze());
        }
        self.spent.truncate(IDLE_CHUNKS);
        if self.ended { Taken::End } else { Taken::Wait }
    }

    pub(crate) fn wait(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(own) => own.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// The transport, to be woken once the lock is released.
    pub(crate) fn take_waker(&mut self) -> Option<Waker> {
        self.waker.take()
    }

    fn finish_frame(&mut self) {
        if let Some(open) = self.open.take()
            && let Some(frame) = self.chunk.get_mut(open.start..)
        {
            self.last_frame_bytes = frame.len();
            encode::finish_frame(frame);
        }
    }

    /// Begins a frame whose first entry is of `entry` bytes.
    fn begin(&mut self, scope: u64, (destination, name): (usize, &str), entry: usize) -> usize {
        self.finish_frame();
        let start_bytes = encode::frame_start_bytes(scope, name);
        // Frames are alike: room for one like the last, so that it need not be moved.
        let wanted = start_bytes + entry.max(self.last_frame_bytes.min(self.limits.bytes));
        if self.chunk.capacity() - self.chunk.len() < wanted {
            self.new_chunk(wanted);
        }
        self.open = Some(Open {
            start: self.chunk.len(),
            scope,
            destination,
            messages: 0,
        });
        encode::put_frame_start(&mut self.chunk, scope, name);
        start_bytes
    }

    /// Puts the chunk, which ends with a whole frame, among those that are ready.
    fn new_chunk(&mut self, wanted: usize) {
        // The transport has taken all of it and let go: it can be used again from its beginning.
        if self.chunk.is_empty() && self.chunk.try_reclaim(wanted) {
            return;
        }
        let free = self
            .spent
            .front_mut()
            .is_some_and(|oldest| oldest.try_reclaim(wanted));
        let reclaimed = if free { self.spent.pop_front() } else { None };
        let fresh =
            reclaimed.unwrap_or_else(|| BytesMut::with_capacity(self.next_chunk_bytes.max(wanted)));
        // Buffers of a stream's beginning are too small to be of use again.
        let keep = self.next_chunk_bytes >= CHUNK_BYTES;
        self.next_chunk_bytes = (self.next_chunk_bytes * 2).min(CHUNK_BYTES);
        let mut full = std::mem::replace(&mut self.chunk, fresh);
        self.push_ready(full.split());
        if keep {
            if self.spent.len() == SPENT_CHUNKS {
                self.spent.pop_front();
            }
            self.spent.push_back(full);
        }
    }

    fn push_ready(&mut self, full: BytesMut) {
        if !full.is_empty() {
            self.ready_bytes += full.len();
            self.ready.push_back(full.freeze());
        }
    }

    /// Room for a message in the open frame, which is longer than the one before it.
    #[cold]
    fn make_room(&mut self, entry: usize) {
        if let Some(open) = &mut self.open
            && open.start > 0
        {
            let whole = self.chunk.split_to(open.start);
            open.start = 0;
            self.push_ready(whole);
        }
        self.chunk.reserve(entry.max(self.chunk.len()));
    }
}

/// What [`Outgoing::take`] found.
#[derive(Debug, PartialEq)]
pub(crate) enum Taken {
    Bytes(Bytes),
    Wait,
    End,
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    /// What was taken, cut into frames: (destination, messages) or nothing for a control frame.
    fn frames(outgoing: &mut Outgoing) -> Vec<Option<(String, usize)>> {
        let mut bytes = Vec::new();
        while let Taken::Bytes(taken) = outgoing.take() {
            bytes.extend_from_slice(&taken);
        }
        let mut rest = &bytes[..];
        let mut frames = Vec::new();
        while !rest.is_empty() {
            let length = u32::from_be_bytes(rest[1..5].try_into().unwrap()) as usize;
            let frame = v1::ClientFrame::decode(&rest[5..5 + length]).unwrap();
            frames.push(match frame.frame {
                Some(v1::client_frame::Frame::Messages(messages)) => {
                    Some((messages.destination, messages.messages.len()))
                }
                _ => None,
            });
            rest = &rest[5 + length..];
        }
        frames
    }

    fn outgoing(messages: usize, bytes: usize) -> Outgoing {
        Outgoing::new(FrameLimits { messages, bytes })
    }

    fn publish(outgoing: &mut Outgoing, destination: (usize, &str), body: usize) -> usize {
        let message = Message::new(vec![b'x'; body]);
        let bytes = encode::message_bytes(&message);
        outgoing.message(7, destination, &message, bytes)
    }

    fn counted(destination: &str, messages: usize) -> Option<(String, usize)> {
        Some((destination.to_owned(), messages))
    }

    #[test]
    fn messages_that_wait_together_share_a_frame() {
        let mut outgoing = outgoing(100, 1 << 20);
        for _ in 0..3 {
            publish(&mut outgoing, (0, "a"), 10);
        }
        assert_eq!(frames(&mut outgoing), [counted("a", 3)]);
        publish(&mut outgoing, (0, "a"), 10);
        assert_eq!(frames(&mut outgoing), [counted("a", 1)]);
    }

    #[test]
    fn a_frame_is_cut_at_its_messages_and_at_its_bytes() {
        let mut by_messages = outgoing(2, 1 << 20);
        for _ in 0..5 {
            publish(&mut by_messages, (0, "a"), 10);
        }
        assert_eq!(
            frames(&mut by_messages),
            [counted("a", 2), counted("a", 2), counted("a", 1)]
        );
        let mut by_bytes = outgoing(100, 300);
        for _ in 0..3 {
            publish(&mut by_bytes, (0, "a"), 120);
        }
        assert_eq!(frames(&mut by_bytes), [counted("a", 2), counted("a", 1)]);
    }

    #[test]
    fn a_control_frame_follows_the_messages_before_it() {
        let mut outgoing = outgoing(100, 1 << 20);
        publish(&mut outgoing, (0, "a"), 10);
        outgoing.control(v1::client_frame::Frame::CloseScope(v1::CloseScope {
            scope: 7,
        }));
        assert_eq!(frames(&mut outgoing), [counted("a", 1), None]);
    }

    #[test]
    fn another_destination_takes_another_frame() {
        let mut outgoing = outgoing(100, 1 << 20);
        publish(&mut outgoing, (0, "a"), 10);
        publish(&mut outgoing, (1, "b"), 10);
        publish(&mut outgoing, (0, "a"), 10);
        let expected = [counted("a", 1), counted("b", 1), counted("a", 1)];
        assert_eq!(frames(&mut outgoing), expected);
    }

    #[test]
    fn frames_larger_than_any_buffer_so_far_come_out_whole() {
        let mut outgoing = outgoing(1_000, 1 << 20);
        for body in [10, 5_000, 100_000, 30, 200_000] {
            publish(&mut outgoing, (0, "a"), body);
        }
        assert_eq!(frames(&mut outgoing), [counted("a", 5)]);
    }

    #[test]
    fn what_is_charged_is_what_is_sent_without_prefixes() {
        let mut outgoing = outgoing(3, 1 << 20);
        let charged: usize = (0..10)
            .map(|body| publish(&mut outgoing, (0, "a"), body * 40))
            .sum();
        // Ten messages make four frames.
        assert_eq!(
            outgoing.buffered_bytes(),
            charged + 4 * encode::PREFIX_BYTES
        );
    }

    #[test]
    fn buffers_that_the_transport_let_go_of_are_used_again_and_change_nothing_that_it_holds() {
        let mut outgoing = outgoing(10, 1 << 20);
        let (mut addresses, mut kept, mut taken) = (std::collections::BTreeSet::new(), None, 0);
        for _ in 0..200 {
            for _ in 0..50 {
                publish(&mut outgoing, (0, "a"), 200);
            }
            while let Taken::Bytes(bytes) = outgoing.take() {
                taken += 1;
                addresses.insert(bytes.as_ptr() as usize >> 17);
                // One is never let go of: what is in it must stay.
                kept.get_or_insert_with(|| (bytes.to_vec(), bytes));
            }
        }
        let (copy, held) = kept.unwrap();
        assert_eq!(held, copy);
        assert!(taken >= 200);
        assert!(addresses.len() < 20, "{} places in memory", addresses.len());
    }

    #[test]
    fn the_end_comes_after_everything_else() {
        let mut outgoing = outgoing(3, 1 << 20);
        assert_eq!(outgoing.take(), Taken::Wait);
        publish(&mut outgoing, (0, "a"), 10);
        outgoing.end();
        assert!(matches!(outgoing.take(), Taken::Bytes(_)));
        assert_eq!(outgoing.take(), Taken::End);
    }
}
