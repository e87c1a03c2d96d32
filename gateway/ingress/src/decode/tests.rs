//! The hand-written decoder against prost.

use bytes::{BufMut, BytesMut};
use proptest::prelude::*;
use v1::client_frame::Frame;
use v1::header::Value;

use super::*;

const LIMIT: u32 = 1_000;

fn bytes() -> impl Strategy<Value = Bytes> {
    prop::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from)
}

fn value() -> impl Strategy<Value = Option<Value>> {
    prop::option::of(prop_oneof![
        ".{0,20}".prop_map(Value::StringValue),
        bytes().prop_map(Value::BytesValue),
        any::<i64>().prop_map(Value::IntValue),
        (-1e9..1e9).prop_map(Value::DoubleValue),
        any::<bool>().prop_map(Value::BoolValue),
    ])
}

fn message() -> impl Strategy<Value = v1::Message> {
    let headers = prop::collection::vec(
        (".{0,20}", value()).prop_map(|(name, value)| v1::Header { name, value }),
        0..3,
    );
    (
        prop::option::of(bytes()),
        prop::option::of(bytes()),
        headers,
        prop::option::of(".{0,20}"),
        prop::option::of(any::<u64>()),
        prop::option::of(any::<u64>()),
    )
        .prop_map(|(body, key, headers, id, delay_ms, ttl_ms)| v1::Message {
            body,
            key,
            headers,
            id,
            delay_ms,
            ttl_ms,
        })
}

fn frame() -> impl Strategy<Value = Frame> {
    let messages = (
        any::<u64>(),
        ".{0,30}",
        prop::collection::vec(
            prop_oneof![
                3 => bytes().prop_map(|body| v1::Message { body: Some(body), ..Default::default() }),
                1 => message(),
            ],
            0..20,
        ),
    )
        .prop_map(|(scope, destination, messages)| v1::Messages {
            scope,
            destination,
            messages,
        });
    prop_oneof![
        8 => messages.prop_map(Frame::Messages),
        1 => ".{0,30}".prop_map(|client| Frame::Hello(v1::Hello { client })),
        1 => any::<u64>().prop_map(|scope| Frame::OpenScope(v1::OpenScope {
            scope,
            options: Some(v1::ScopeOptions { receipts: Some(true), ..Default::default() }),
        })),
        1 => any::<(u64, u64)>().prop_map(|(scope, token)| Frame::Flush(v1::Flush { scope, token })),
        1 => any::<u64>().prop_map(|scope| Frame::CloseScope(v1::CloseScope { scope })),
        1 => any::<u64>().prop_map(|scope| Frame::AbortScope(v1::AbortScope { scope })),
    ]
}

/// A field that no contract has yet, of each wire type that there is.
fn unknown_field() -> impl Strategy<Value = Vec<u8>> {
    let key = |number: u64, wire_type: u64| {
        let mut buf = BytesMut::new();
        put_varint(&mut buf, number << 3 | wire_type);
        buf.to_vec()
    };
    (7..5_000_u64, 0..4_usize, any::<u64>(), bytes()).prop_map(
        move |(number, kind, value, bytes)| {
            let mut buf = BytesMut::new();
            match kind {
                0 => {
                    buf.put_slice(&key(number, VARINT));
                    put_varint(&mut buf, value);
                }
                1 => {
                    buf.put_slice(&key(number, FIXED64));
                    buf.put_u64(value);
                }
                2 => {
                    buf.put_slice(&key(number, LENGTH));
                    put_varint(&mut buf, bytes.len() as u64);
                    buf.put_slice(&bytes);
                }
                _ => {
                    buf.put_slice(&key(number, FIXED32));
                    buf.put_slice(&value.to_be_bytes()[..4]);
                }
            }
            buf.to_vec()
        },
    )
}

fn put_varint(buf: &mut BytesMut, mut value: u64) {
    while value > 0x7f {
        buf.put_u8(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    buf.put_u8(u8::try_from(value).unwrap());
}

/// Compares with prost: same frame, or an error on both sides.
fn agrees_with_prost(encoded: &Bytes) -> Result<(), TestCaseError> {
    let ours = client_frame(encoded, LIMIT);
    let theirs = v1::ClientFrame::decode(encoded.clone());
    match (ours, theirs.map(|frame| frame.frame)) {
        (Ok(ClientFrame::Messages(ours)), Ok(Some(Frame::Messages(theirs)))) => {
            prop_assert_eq!(ours.scope, theirs.scope);
            prop_assert_eq!(ours.destination, theirs.destination);
            let theirs: Vec<_> = theirs.messages.into_iter().map(convert::message).collect();
            prop_assert_eq!(ours.list.messages, theirs);
        }
        (Ok(ClientFrame::Hello(ours)), Ok(Some(Frame::Hello(theirs)))) => {
            prop_assert_eq!(ours, theirs);
        }
        (Ok(ClientFrame::OpenScope(ours)), Ok(Some(Frame::OpenScope(theirs)))) => {
            prop_assert_eq!(ours, theirs);
        }
        (Ok(ClientFrame::Flush(ours)), Ok(Some(Frame::Flush(theirs)))) => {
            prop_assert_eq!(ours, theirs);
        }
        (Ok(ClientFrame::CloseScope(ours)), Ok(Some(Frame::CloseScope(theirs)))) => {
            prop_assert_eq!(ours, theirs);
        }
        (Ok(ClientFrame::AbortScope(ours)), Ok(Some(Frame::AbortScope(theirs)))) => {
            prop_assert_eq!(ours, theirs);
        }
        (Err(Fault::EmptyFrame), Ok(None)) | (Err(_), Err(_)) => {}
        // The two differences that the module documents.
        (Err(Fault::Malformed { reason, .. }), Ok(_))
            if reason.contains("more than one") || reason.contains("wire type") => {}
        (ours, theirs) => {
            return Err(TestCaseError::fail(format!("{ours:?} against {theirs:?}")));
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_valid_frame_decodes_as_prost_decodes_it(
        frame in frame(),
        before in prop::option::of(unknown_field()),
        after in prop::option::of(unknown_field()),
    ) {
        let mut encoded = before.unwrap_or_default();
        encoded.extend(v1::ClientFrame { frame: Some(frame) }.encode_to_vec());
        encoded.extend(after.unwrap_or_default());
        let encoded = Bytes::from(encoded);
        prop_assert!(client_frame(&encoded, LIMIT).is_ok());
        agrees_with_prost(&encoded)?;
    }

    #[test]
    fn unknown_fields_inside_messages_are_skipped(
        frame in message(),
        scope in any::<u64>(),
        inner in unknown_field(),
        outer in unknown_field(),
    ) {
        let mut message = frame.encode_to_vec();
        message.extend(inner);
        let mut messages = BytesMut::new();
        messages.put_slice(&outer);
        messages.put_u8(1 << 3);
        put_varint(&mut messages, scope);
        messages.put_u8(3 << 3 | 2);
        put_varint(&mut messages, message.len() as u64);
        messages.put_slice(&message);
        let mut encoded = BytesMut::new();
        encoded.put_u8(3 << 3 | 2);
        put_varint(&mut encoded, messages.len() as u64);
        encoded.put_slice(&messages);
        let encoded = encoded.freeze();
        prop_assert!(client_frame(&encoded, LIMIT).is_ok());
        agrees_with_prost(&encoded)?;
    }

    #[test]
    fn a_damaged_frame_is_an_error_where_prost_has_one_and_never_a_panic(
        frame in frame(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut encoded = v1::ClientFrame { frame: Some(frame) }.encode_to_vec();
        encoded.truncate(cut.index(encoded.len()) + 1);
        for (place, byte) in damage {
            let place = place.index(encoded.len());
            encoded[place] = byte;
        }
        agrees_with_prost(&Bytes::from(encoded))?;
    }

    #[test]
    fn garbage_is_an_error_or_a_frame_and_never_a_panic(
        garbage in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        agrees_with_prost(&Bytes::from(garbage))?;
    }
}

#[test]
fn a_body_is_a_slice_of_its_frame() {
    let encoded = Bytes::from(
        v1::ClientFrame {
            frame: Some(Frame::Messages(v1::Messages {
                scope: 1,
                destination: "a".to_owned(),
                messages: vec![v1::Message {
                    body: Some(Bytes::from_static(b"the body")),
                    ..Default::default()
                }],
            })),
        }
        .encode_to_vec(),
    );
    let Ok(ClientFrame::Messages(decoded)) = client_frame(&encoded, LIMIT) else {
        panic!("a Messages frame");
    };
    let body = decoded.list.messages[0].body.as_ref().expect("a body");
    assert!(encoded.as_ptr_range().contains(&body.as_ptr()));
}

#[test]
fn the_messages_of_a_frame_are_counted_before_they_are_kept() {
    let frame = |count: usize| {
        Bytes::from(
            v1::ClientFrame {
                frame: Some(Frame::Messages(v1::Messages {
                    messages: vec![v1::Message::default(); count],
                    ..Default::default()
                })),
            }
            .encode_to_vec(),
        )
    };
    assert!(client_frame(&frame(5), 5).is_ok());
    assert!(matches!(
        client_frame(&frame(8), 5),
        Err(Fault::TooManyMessages {
            messages: 8,
            limit: 5
        })
    ));
}

#[test]
fn a_frame_with_two_contents_is_refused_so_that_neither_is_lost() {
    let mut encoded = v1::ClientFrame {
        frame: Some(Frame::Flush(v1::Flush { scope: 1, token: 1 })),
    }
    .encode_to_vec();
    encoded.extend_from_within(..);
    let fault = client_frame(&Bytes::from(encoded), LIMIT).expect_err("two contents");
    assert!(fault.to_string().contains("more than one"), "{fault}");
}

#[test]
fn a_frame_without_content_is_named_so() {
    assert!(matches!(
        client_frame(&Bytes::new(), LIMIT),
        Err(Fault::EmptyFrame)
    ));
}

fn message_of_headers(count: usize) -> v1::Message {
    v1::Message {
        body: Some(Bytes::from_static(b"body")),
        headers: vec![
            v1::Header {
                name: "a".to_owned(),
                value: Some(Value::BoolValue(true)),
            };
            count
        ],
        ..Default::default()
    }
}

fn decoded(messages: Vec<v1::Message>) -> List {
    let encoded = v1::ClientFrame {
        frame: Some(Frame::Messages(v1::Messages {
            messages,
            ..Default::default()
        })),
    }
    .encode_to_vec();
    match client_frame(&Bytes::from(encoded), 100_000) {
        Ok(ClientFrame::Messages(messages)) => messages.list,
        other => panic!("a Messages frame, not {other:?}"),
    }
}

#[test]
fn headers_are_charged_what_they_take_and_not_what_they_were_on_the_wire() {
    let plain = decoded(vec![v1::Message::default(); 10]);
    assert_eq!(plain.extra_bytes, 0);
    let list = decoded(vec![message_of_headers(MESSAGE_HEADERS); 10]);
    let least = 10 * MESSAGE_HEADERS * (size_of::<Header>() + 1);
    assert!(list.extra_bytes > least, "{}", list.extra_bytes);
}

#[test]
fn a_message_of_too_many_headers_is_refused_alone_and_leaves_none_of_them_in_memory() {
    let list = decoded(vec![
        message_of_headers(MESSAGE_HEADERS),
        message_of_headers(MESSAGE_HEADERS + 1),
        message_of_headers(1),
    ]);
    let refusals: Vec<_> = list
        .messages
        .iter()
        .map(|message| message.extra.as_ref().unwrap().refused.as_ref())
        .collect();
    assert_eq!((refusals[0], refusals[2]), (None, None));
    let why = refusals[1].expect("over the limit");
    assert!(why.reason.contains("1001 headers"), "{why}");
    assert!(list.messages[1].headers().is_empty());
    assert!(list.messages[1].body.is_none(), "nor is the frame kept");
}

#[test]
fn messages_whose_headers_would_take_too_much_are_refused_before_they_are_decoded() {
    let list = decoded(vec![message_of_headers(MESSAGE_HEADERS); 500]);
    // Beyond the limit: the rest of the last message that fitted, and a sentence for each refused one.
    let beyond = MESSAGE_HEADERS * 100 + list.messages.len() * 1_024;
    assert!(
        list.extra_bytes < FRAME_EXTRA_BYTES + beyond,
        "{}",
        list.extra_bytes
    );
    let is_refused = |message: &&Message| message.extra.as_ref().unwrap().refused.is_some();
    let refusals = list.messages.iter().filter(is_refused).count();
    assert!((100..400).contains(&refusals), "{refusals}");
    assert!(!is_refused(&&list.messages[0]));
}

proptest! {
    #[test]
    fn a_unary_request_decodes_as_prost_decodes_it(
        destination in ".{0,30}",
        messages in prop::collection::vec(message(), 0..10),
        receipts in prop::option::of(any::<bool>()),
    ) {
        let request = v1::PublishRequest {
            destination,
            messages,
            options: Some(v1::ScopeOptions { receipts, ..Default::default() }),
        };
        let encoded = Bytes::from(request.encode_to_vec());
        let ours = publish_request(&encoded, LIMIT).unwrap();
        prop_assert_eq!(ours.destination, request.destination);
        prop_assert_eq!(ours.options, request.options);
        let theirs: Vec<_> = request.messages.into_iter().map(convert::message).collect();
        prop_assert_eq!(ours.list.messages, theirs);
    }
}
