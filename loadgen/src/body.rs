//! Bodies that can prove that they arrived whole.
//!
//! `RRRRRRRR-NNNNNNNNNNNN-CCCCCCCCCCCCCCCC....`: run, number and checksum in hexadecimal digits, then
//! padding. Text, so that a row can be read by people and goes into stores that take only text.

use bytes::{Bytes, BytesMut};
use sluicegate_client::Message;

/// Keys that messages are spread over: order is checked within each.
pub(crate) const KEYS: u64 = 16;

const RUN_DIGITS: usize = 8;
const NUMBER_DIGITS: usize = 12;
const SUM_DIGITS: usize = 16;

/// Run, number, checksum and what stands between them.
pub(crate) const SMALLEST: usize = RUN_DIGITS + 1 + NUMBER_DIGITS + 1 + SUM_DIGITS;

const _: () = assert!(SMALLEST <= 55, "the default size must fit");

const PADDING: u8 = b'.';

/// The key of a message.
pub(crate) fn key(number: u64) -> [u8; 2] {
    let digit = |value: u64| char::from_digit(u32::try_from(value).unwrap_or(0), 10);
    let place = number % KEYS;
    // Two digits, since there are 16.
    [place / 10, place % 10].map(|value| digit(value).map_or(b'?', |digit| digit as u8))
}

/// Appends a body of exactly `size` bytes.
fn put(buffer: &mut BytesMut, run: u32, number: u64, size: usize) {
    let start = buffer.len();
    put_hex(buffer, u64::from(run), RUN_DIGITS);
    buffer.extend_from_slice(b"-");
    put_hex(buffer, number, NUMBER_DIGITS);
    buffer.extend_from_slice(b"-");
    let sum = checksum(buffer.get(start..).unwrap_or_default(), size);
    put_hex(buffer, sum, SUM_DIGITS);
    buffer.resize(start + size, PADDING);
}

fn put_hex(buffer: &mut BytesMut, value: u64, digits: usize) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for place in (0..digits).rev() {
        let digit = usize::try_from(value >> (4 * place) & 0xf).unwrap_or(0);
        buffer.extend_from_slice(HEX.get(digit..=digit).unwrap_or_default());
    }
}

/// FNV-1a over the head and the size. The padding is compared byte by byte instead.
fn checksum(head: &[u8], size: usize) -> u64 {
    let size = (size as u64).to_le_bytes();
    head.iter()
        .chain(&size)
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

/// The number of a body of this run that arrived whole; `None` if it is not one.
pub(crate) fn verify(body: &[u8], run: u32, size: usize) -> Option<u64> {
    if body.len() != size {
        return None;
    }
    let digits = body.get(RUN_DIGITS + 1..RUN_DIGITS + 1 + NUMBER_DIGITS)?;
    let number = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    let mut expected = BytesMut::with_capacity(size);
    put(&mut expected, run, number, size);
    (expected == body).then_some(number)
}

/// Messages `first..first + count` of a run: bodies and keys are slices of one allocation.
pub(crate) fn messages(run: u32, first: u64, count: u64, size: usize) -> Vec<Message> {
    let length = usize::try_from(count).unwrap_or(0);
    let mut buffer = BytesMut::with_capacity(length * size);
    for number in first..first + count {
        put(&mut buffer, run, number, size);
    }
    let bodies = buffer.freeze();
    let mut all_keys = BytesMut::new();
    for place in 0..KEYS {
        all_keys.extend_from_slice(&key(place));
    }
    let all_keys = all_keys.freeze();
    (0..length)
        .zip(first..)
        .map(|(index, number)| {
            let place = usize::try_from(number % KEYS).unwrap_or(0) * 2;
            Message::new(bodies.slice(index * size..(index + 1) * size))
                .key(all_keys.slice(place..place + 2))
        })
        .collect()
}

/// One message's body.
pub(crate) fn one(run: u32, number: u64, size: usize) -> Bytes {
    let mut buffer = BytesMut::with_capacity(size);
    put(&mut buffer, run, number, size);
    buffer.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_exactly_its_size_and_says_its_number() {
        for size in [SMALLEST, 55, 256] {
            let body = one(7, 0xabcdef, size);
            assert_eq!(body.len(), size);
            assert_eq!(verify(&body, 7, size), Some(0xabcdef));
        }
    }

    #[test]
    fn any_single_byte_that_changes_is_noticed() {
        let body = one(7, 42, 55);
        for place in 0..55 {
            let mut altered = body.to_vec();
            altered[place] ^= 1;
            assert_eq!(verify(&altered, 7, 55), None, "byte {place}");
        }
    }

    #[test]
    fn a_body_of_another_run_or_size_is_not_this_runs() {
        let body = one(7, 42, 55);
        assert_eq!(verify(&body, 8, 55), None);
        assert_eq!(verify(&body[..54], 7, 55), None);
        assert_eq!(verify(&body[..54], 7, 54), None);
    }

    #[test]
    fn messages_are_what_one_by_one_makes() {
        let many = messages(3, 100, 40, 60);
        for (message, number) in many.iter().zip(100..) {
            assert_eq!(message.body().unwrap(), &one(3, number, 60)[..]);
            let expected = Message::new(one(3, number, 60)).key(key(number).to_vec());
            assert_eq!(*message, expected);
        }
    }

    #[test]
    fn there_are_sixteen_keys() {
        let keys: std::collections::BTreeSet<_> = (0..100).map(key).collect();
        assert_eq!(keys.len(), 16);
    }
}
