//! Encodes messages by hand into the frame that carries them.
//!
//! **A body is copied once: into the frame.** The generated code would want a `Vec` of generated
//! messages first and would compute each length twice. The result decodes as what prost would have
//! written (a property test compares them); it differs in that a frame's own length is a varint of
//! fixed width, so that messages can be added to a frame whose end is not known yet.

use bytes::{BufMut, BytesMut};
use prost::Message as _;

use crate::message::Message;

/// Compression flag and length, before each gRPC message.
pub(crate) const PREFIX_BYTES: usize = 5;

/// A varint padded to this width holds 28 bits.
const FIXED_VARINT_BYTES: usize = 4;

/// The largest frame that the fixed-width length can say.
pub(crate) const MAX_FRAME_BYTES: usize = (1 << 28) - 64;

/// Keys of one byte: `field << 3 | wire type`.
const FRAME_MESSAGES: u8 = 3 << 3 | 2;
const MESSAGES_SCOPE: u8 = 1 << 3;
const MESSAGES_DESTINATION: u8 = 2 << 3 | 2;
const MESSAGES_MESSAGE: u8 = 3 << 3 | 2;
const MESSAGE_BODY: u8 = 1 << 3 | 2;
const MESSAGE_KEY: u8 = 2 << 3 | 2;

/// Where the parts of a frame stand whose length is not known yet.
const LENGTH_OFFSET: usize = PREFIX_BYTES + 1;
const CONTENT_OFFSET: usize = LENGTH_OFFSET + FIXED_VARINT_BYTES;

#[inline]
pub(crate) fn varint_bytes(value: u64) -> usize {
    // 7 bits a byte; 0 takes one.
    let bits = u64::BITS - (value | 1).leading_zeros();
    (bits as usize).div_ceil(7)
}

#[inline]
fn put_varint(buffer: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        buffer.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    buffer.put_u8((value & 0x7f) as u8);
}

#[inline]
fn field_bytes(bytes: usize) -> usize {
    1 + varint_bytes(bytes as u64) + bytes
}

/// Encoded length of a message, without its own key and length.
#[inline]
pub(crate) fn message_bytes(message: &Message) -> usize {
    let mut bytes = 0;
    if let Some(body) = &message.body {
        bytes += field_bytes(body.len());
    }
    if let Some(key) = &message.key {
        bytes += field_bytes(key.len());
    }
    if let Some(extra) = &message.extra {
        bytes += extra.encoded_len();
    }
    bytes
}

/// What a message of `message_bytes` takes in a frame.
#[inline]
pub(crate) fn entry_bytes(message_bytes: usize) -> usize {
    field_bytes(message_bytes)
}

/// Appends a message. The buffer must have room for `entry_bytes(bytes)`.
#[inline]
pub(crate) fn put_message(buffer: &mut BytesMut, message: &Message, bytes: usize) {
    buffer.put_u8(MESSAGES_MESSAGE);
    put_varint(buffer, bytes as u64);
    if let Some(body) = &message.body {
        buffer.put_u8(MESSAGE_BODY);
        put_varint(buffer, body.len() as u64);
        buffer.extend_from_slice(body);
    }
    if let Some(key) = &message.key {
        buffer.put_u8(MESSAGE_KEY);
        put_varint(buffer, key.len() as u64);
        buffer.extend_from_slice(key);
    }
    if let Some(extra) = &message.extra {
        extra.encode_raw(buffer);
    }
}

/// Bytes of a frame before its first message, its gRPC prefix included.
pub(crate) fn frame_start_bytes(scope: u64, destination: &str) -> usize {
    CONTENT_OFFSET + 1 + varint_bytes(scope) + field_bytes(destination.len())
}

/// Begins a frame of messages.
pub(crate) fn put_frame_start(buffer: &mut BytesMut, scope: u64, destination: &str) {
    buffer.put_bytes(0, PREFIX_BYTES);
    buffer.put_u8(FRAME_MESSAGES);
    buffer.put_bytes(0, FIXED_VARINT_BYTES);
    buffer.put_u8(MESSAGES_SCOPE);
    put_varint(buffer, scope);
    buffer.put_u8(MESSAGES_DESTINATION);
    put_varint(buffer, destination.len() as u64);
    buffer.extend_from_slice(destination.as_bytes());
}

/// Writes the lengths of a frame that begins where `frame` does and ends where it ends.
pub(crate) fn finish_frame(frame: &mut [u8]) {
    let total = frame.len();
    if let Some(prefix) = frame.get_mut(1..PREFIX_BYTES) {
        let length = u32::try_from(total - PREFIX_BYTES).unwrap_or(u32::MAX);
        prefix.copy_from_slice(&length.to_be_bytes());
    }
    if let Some(place) = frame.get_mut(LENGTH_OFFSET..CONTENT_OFFSET) {
        let mut length = (total - CONTENT_OFFSET) as u64;
        let last = place.len() - 1;
        for (index, byte) in place.iter_mut().enumerate() {
            let more = if index < last { 0x80 } else { 0 };
            *byte = (length & 0x7f) as u8 | more;
            length >>= 7;
        }
    }
}

/// Appends a frame that the generated code encodes.
pub(crate) fn put_control(buffer: &mut BytesMut, frame: &sluicegate_proto::v1::ClientFrame) {
    let bytes = frame.encoded_len();
    buffer.reserve(PREFIX_BYTES + bytes);
    buffer.put_u8(0);
    buffer.put_u32(u32::try_from(bytes).unwrap_or(u32::MAX));
    frame.encode_raw(buffer);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluicegate_proto::v1;

    use super::*;

    fn encoded(scope: u64, destination: &str, messages: &[Message]) -> BytesMut {
        let mut buffer = BytesMut::new();
        put_frame_start(&mut buffer, scope, destination);
        assert_eq!(buffer.len(), frame_start_bytes(scope, destination));
        for message in messages {
            let (before, bytes) = (buffer.len(), message_bytes(message));
            put_message(&mut buffer, message, bytes);
            assert_eq!(buffer.len() - before, entry_bytes(bytes));
        }
        finish_frame(&mut buffer);
        buffer
    }

    fn generated(message: &Message) -> v1::Message {
        let mut generated = message.extra.as_deref().cloned().unwrap_or_default();
        generated.body = message.body.clone();
        generated.key = message.key.clone();
        generated
    }

    fn messages() -> impl Strategy<Value = Vec<Message>> {
        let bytes = || prop::option::of(prop::collection::vec(any::<u8>(), 0..300));
        let message = (bytes(), bytes(), any::<bool>(), any::<i64>(), ".{0,20}").prop_map(
            |(body, key, extra, number, text)| {
                let mut message = Message {
                    body: body.map(Into::into),
                    key: key.map(Into::into),
                    extra: None,
                };
                if extra {
                    message = message
                        .header("number", number)
                        .header(text.clone(), text.as_str())
                        .header("none", crate::HeaderValue::Null)
                        .id(text)
                        .ttl(std::time::Duration::from_millis(number.unsigned_abs()));
                }
                message
            },
        );
        prop::collection::vec(message, 0..20)
    }

    proptest! {
        #[test]
        fn a_frame_decodes_as_what_the_generated_code_would_have_written(
            scope in any::<u64>(), destination in ".{0,200}", messages in messages()
        ) {
            let frame = encoded(scope, &destination, &messages).freeze();
            let length = u32::from_be_bytes([frame[1], frame[2], frame[3], frame[4]]);
            prop_assert_eq!(length as usize, frame.len() - PREFIX_BYTES);
            let decoded = v1::ClientFrame::decode(frame.slice(PREFIX_BYTES..)).unwrap();
            let expected = v1::client_frame::Frame::Messages(v1::Messages {
                scope,
                destination,
                messages: messages.iter().map(generated).collect(),
            });
            prop_assert_eq!(decoded.frame, Some(expected));
        }

        #[test]
        fn the_length_of_a_varint_is_known_before_it_is_written(value in any::<u64>()) {
            let mut buffer = BytesMut::new();
            put_varint(&mut buffer, value);
            prop_assert_eq!(buffer.len(), varint_bytes(value));
        }
    }
}
