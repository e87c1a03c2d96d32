//! Decodes a `ClientFrame` without a step that costs per message more than it must.
//!
//! `Messages` frames carry nearly all bytes, so they are decoded by hand, straight into the
//! engine's messages: a body is a slice of the frame, `Extra` is boxed only where something is in
//! it, and no generated type stands between. Everything else goes through prost. **On a valid frame
//! the result is prost's** (a property test compares them), with two differences, both stricter:
//!
//! - a frame that sets several of its `oneof` is refused, where protobuf keeps the last and would
//!   lose the messages of the others without a word;
//! - a group (protobuf's long-deprecated wire types 3 and 4) outside a message is refused, not skipped.
//!
//! What a frame takes in memory is bounded while decoding, not after: a message may be two bytes on
//! the wire, and so may a header. A frame of too many messages is refused; a message of too many
//! headers becomes a row that fails ([`Extra::refused`]), and its headers are never decoded.

use bytes::Bytes;
use prost::Message as _;
use sluicegate_core::{Extra, Failure, FailureClass, Header, Message};
use sluicegate_proto::v1;

use crate::convert;
use crate::fault::Fault;

/// Room for messages before any is decoded, at most: beyond it the list grows as they come, so that
/// a short first message cannot reserve room for a frame full of its like.
const FIRST_MESSAGES: usize = 4_096;

/// Headers of one message, at most. Brokers and their clients carry tens; Kafka, the most generous,
/// has no number, and its default limit of a message's bytes ends near here.
pub(crate) const MESSAGE_HEADERS: usize = 1_000;

/// What ids and headers of one frame may take in memory beside the frame: four times the largest
/// frame of the default limit. Headers with real names and values take about twice their size, so
/// that only a frame of nearly nothing but empty headers reaches it.
pub(crate) const FRAME_EXTRA_BYTES: usize = 16 * 1024 * 1024;

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED32: u64 = 5;

/// Keys of one byte: `field << 3 | LENGTH`.
const BODY_KEY: u8 = 1 << 3 | 2;
const KEY_KEY: u8 = 2 << 3 | 2;

const HEADERS_FIELD: u64 = 3;

/// What a client wrote.
#[derive(Debug, PartialEq)]
pub(crate) enum ClientFrame<'a> {
    Hello(v1::Hello),
    OpenScope(v1::OpenScope),
    Messages(Messages<'a>),
    Flush(v1::Flush),
    CloseScope(v1::CloseScope),
    AbortScope(v1::AbortScope),
}

impl ClientFrame<'_> {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "Hello",
            Self::OpenScope(_) => "OpenScope",
            Self::Messages(_) => "Messages",
            Self::Flush(_) => "Flush",
            Self::CloseScope(_) => "CloseScope",
            Self::AbortScope(_) => "AbortScope",
        }
    }
}

/// A `Messages` frame. Bodies and keys are slices of the frame.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Messages<'a> {
    pub(crate) scope: u64,
    pub(crate) destination: &'a str,
    pub(crate) list: List,
}

/// The request of a unary publish.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Request<'a> {
    pub(crate) destination: &'a str,
    pub(crate) list: List,
    pub(crate) options: Option<v1::ScopeOptions>,
}

/// Messages of one frame.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct List {
    pub(crate) messages: Vec<Message>,
    /// What they take in memory beside the frame and their own rows.
    pub(crate) extra_bytes: usize,
}

/// Decodes one frame that holds at most `limit` messages.
pub(crate) fn client_frame(frame: &Bytes, limit: u32) -> Result<ClientFrame<'_>, Fault> {
    let mut rest: &[u8] = frame;
    let mut content = None;
    while !rest.is_empty() {
        match field(&mut rest)? {
            (1..=6, LENGTH) if content.is_some() => {
                return Err(malformed("it sets more than one of its contents"));
            }
            (number @ 1..=6, LENGTH) => content = Some((number, length_delimited(&mut rest)?)),
            (number @ 1..=6, _) => {
                return Err(malformed(format!("field {number} has a wrong type")));
            }
            (_, wire_type) => skip(&mut rest, wire_type)?,
        }
    }
    let Some((number, content)) = content else {
        return Err(Fault::EmptyFrame);
    };
    Ok(match number {
        1 => ClientFrame::Hello(generated(content)?),
        2 => ClientFrame::OpenScope(generated(content)?),
        3 => ClientFrame::Messages(messages(frame, content, limit)?),
        4 => ClientFrame::Flush(generated(content)?),
        5 => ClientFrame::CloseScope(generated(content)?),
        _ => ClientFrame::AbortScope(generated(content)?),
    })
}

fn generated<T: prost::Message + Default>(content: &[u8]) -> Result<T, Fault> {
    T::decode(content).map_err(|error| malformed(error.to_string()))
}

fn messages<'a>(frame: &Bytes, content: &'a [u8], limit: u32) -> Result<Messages<'a>, Fault> {
    let mut decoded = Messages::default();
    let mut rest = content;
    while !rest.is_empty() {
        match field(&mut rest)? {
            (3, LENGTH) => {
                let encoded = length_delimited(&mut rest)?;
                decoded.list.push(frame, encoded, rest, 3, limit)?;
            }
            (1, VARINT) => decoded.scope = varint(&mut rest)?,
            (2, LENGTH) => decoded.destination = destination(&mut rest)?,
            (number @ 1..=3, _) => {
                return Err(malformed(format!(
                    "field {number} of Messages has a wrong type"
                )));
            }
            (_, wire_type) => skip(&mut rest, wire_type)?,
        }
    }
    Ok(decoded)
}

/// Decodes the request of a unary publish, of at most `limit` messages, as frames are.
pub(crate) fn publish_request(frame: &Bytes, limit: u32) -> Result<Request<'_>, Fault> {
    request(frame, limit).map_err(|fault| match fault {
        // What is shared with frames of a stream speaks of those.
        Fault::Malformed { reason, .. } => Fault::Malformed {
            expected: "PublishRequest",
            reason,
        },
        other => other,
    })
}

fn request(frame: &Bytes, limit: u32) -> Result<Request<'_>, Fault> {
    let mut decoded = Request::default();
    let mut rest: &[u8] = frame;
    while !rest.is_empty() {
        match field(&mut rest)? {
            (2, LENGTH) => {
                let encoded = length_delimited(&mut rest)?;
                decoded.list.push(frame, encoded, rest, 2, limit)?;
            }
            (1, LENGTH) => decoded.destination = destination(&mut rest)?,
            (3, LENGTH) => decoded.options = Some(generated(length_delimited(&mut rest)?)?),
            (number @ 1..=3, _) => {
                return Err(malformed(format!(
                    "field {number} of PublishRequest has a wrong type"
                )));
            }
            (_, wire_type) => skip(&mut rest, wire_type)?,
        }
    }
    Ok(decoded)
}

fn destination<'a>(rest: &mut &'a [u8]) -> Result<&'a str, Fault> {
    std::str::from_utf8(length_delimited(rest)?)
        .map_err(|_| malformed("the destination is not UTF-8"))
}

impl List {
    /// Decodes one more message; `rest` follows it, in which `number` is the field of messages.
    #[inline]
    fn push(
        &mut self,
        frame: &Bytes,
        encoded: &[u8],
        rest: &[u8],
        number: u64,
        limit: u32,
    ) -> Result<(), Fault> {
        if self.messages.is_empty() {
            // Messages of a frame are alike: the first tells how many there will be. Exactly so
            // many: a frame of one message must not hold room for four.
            let alike = rest.len() / (encoded.len() + 2) + 1;
            self.messages = Vec::with_capacity(alike.min(FIRST_MESSAGES));
        }
        let limit_messages = usize::try_from(limit).unwrap_or(usize::MAX);
        if self.messages.len() == limit_messages {
            return Err(Fault::TooManyMessages {
                messages: limit_messages + 1 + remaining_messages(rest, number),
                limit,
            });
        }
        let message = message(frame, encoded, &mut self.extra_bytes)?;
        self.messages.push(message);
        Ok(())
    }
}

/// How many messages follow, for the sentence that refuses them.
fn remaining_messages(mut rest: &[u8], number: u64) -> usize {
    count_fields(&mut rest, number).unwrap_or_else(|(so_far, _)| so_far)
}

/// How often a field is there; with an error, how often before it.
fn count_fields(rest: &mut &[u8], number: u64) -> Result<usize, (usize, Fault)> {
    let mut count = 0;
    while !rest.is_empty() {
        let (found, wire_type) = field(rest).map_err(|fault| (count, fault))?;
        skip(rest, wire_type).map_err(|fault| (count, fault))?;
        count += usize::from(found == number);
    }
    Ok(count)
}

/// One message: a body, and perhaps a key, by hand; one that has more by prost. `extra_bytes` is what
/// the frame's messages take so far beside it.
#[inline]
fn message(frame: &Bytes, encoded: &[u8], extra_bytes: &mut usize) -> Result<Message, Fault> {
    let mut decoded = Message::default();
    let mut rest = encoded;
    while let Some((key, after)) = rest.split_first() {
        rest = after;
        match *key {
            BODY_KEY => decoded.body = Some(frame.slice_ref(length_delimited(&mut rest)?)),
            KEY_KEY => decoded.key = Some(frame.slice_ref(length_delimited(&mut rest)?)),
            _ => return message_with_extra(frame, encoded, extra_bytes),
        }
    }
    Ok(decoded)
}

fn message_with_extra(
    frame: &Bytes,
    encoded: &[u8],
    extra_bytes: &mut usize,
) -> Result<Message, Fault> {
    let headers = headers(encoded);
    let least = headers * size_of::<Header>() + encoded.len();
    let decoded = if headers > MESSAGE_HEADERS {
        refused(format!(
            "it has {headers} headers, and the limit is {MESSAGE_HEADERS}; send fewer, or put them into the body"
        ))
    } else if *extra_bytes + least > FRAME_EXTRA_BYTES {
        refused(format!(
            "with it the ids and headers of its frame take more than {FRAME_EXTRA_BYTES} bytes in memory; send fewer messages in a frame"
        ))
    } else {
        v1::Message::decode(frame.slice_ref(encoded))
            .map(convert::message)
            .map_err(|error| malformed(error.to_string()))?
    };
    *extra_bytes += decoded.extra.as_deref().map_or(0, Extra::memory);
    Ok(decoded)
}

/// How many headers an encoded message has. What is wrong with it is for prost to say.
fn headers(mut encoded: &[u8]) -> usize {
    count_fields(&mut encoded, HEADERS_FIELD).unwrap_or_else(|(so_far, _)| so_far)
}

/// A message that only its failure is kept of.
#[cold]
fn refused(reason: String) -> Message {
    Message {
        extra: Some(Box::new(Extra {
            refused: Some(Box::new(Failure::fatal(FailureClass::TooLarge, reason))),
            ..Extra::default()
        })),
        ..Message::default()
    }
}

/// Number and wire type of the next field.
fn field(rest: &mut &[u8]) -> Result<(u64, u64), Fault> {
    let key = varint(rest)?;
    let (number, wire_type) = (key >> 3, key & 7);
    if number == 0 || key > u64::from(u32::MAX) {
        return Err(malformed(format!("{number} is no field number")));
    }
    Ok((number, wire_type))
}

fn skip(rest: &mut &[u8], wire_type: u64) -> Result<(), Fault> {
    match wire_type {
        VARINT => varint(rest).map(drop),
        FIXED64 => take(rest, 8).map(drop),
        LENGTH => length_delimited(rest).map(drop),
        FIXED32 => take(rest, 4).map(drop),
        other => Err(malformed(format!("wire type {other} is not supported"))),
    }
}

/// A length and as many bytes. Called for each message and each body, so lengths of one and two bytes
/// (up to 16 KiB) are read in place.
#[inline]
fn length_delimited<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Fault> {
    let split = match **rest {
        [one, ..] if one < 0x80 => rest.get(1..).map(|after| (usize::from(one), after)),
        [low, high, ..] if high < 0x80 => rest
            .get(2..)
            .map(|after| (usize::from(high) << 7 | usize::from(low & 0x7f), after)),
        _ => return long_length_delimited(rest),
    };
    if let Some((bytes, after)) = split
        && let Some((taken, after)) = after.split_at_checked(bytes)
    {
        *rest = after;
        return Ok(taken);
    }
    Err(overrun(rest.len()))
}

fn long_length_delimited<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Fault> {
    let bytes = varint(rest)?;
    take(rest, usize::try_from(bytes).unwrap_or(usize::MAX))
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Result<&'a [u8], Fault> {
    let Some((taken, after)) = rest.split_at_checked(bytes) else {
        return Err(overrun(rest.len()));
    };
    *rest = after;
    Ok(taken)
}

#[inline]
fn varint(rest: &mut &[u8]) -> Result<u64, Fault> {
    match rest.split_first() {
        Some((byte, after)) if *byte < 0x80 => {
            *rest = after;
            Ok(u64::from(*byte))
        }
        _ => long_varint(rest),
    }
}

fn long_varint(rest: &mut &[u8]) -> Result<u64, Fault> {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        let Some((byte, after)) = rest.split_first() else {
            return Err(malformed("it ends inside a number"));
        };
        *rest = after;
        if shift == 63 && *byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Ok(value);
        }
    }
    Err(malformed("a number of more than 64 bits"))
}

#[cold]
fn overrun(left: usize) -> Fault {
    malformed(format!(
        "a field reaches beyond the {left} bytes that are left"
    ))
}

#[cold]
fn malformed(reason: impl Into<String>) -> Fault {
    Fault::Malformed {
        expected: "ClientFrame",
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests;
