//! What a message of a run carries, so that the store can be asked what became of it.
//!
//! A body is printable ASCII, since some brokers carry nothing else:
//!
//! ```text
//! RRRRRRRRRRRRRRRR:SSSSSSSSSSSS:CCCCCCCC:padding…
//! run id            sequence     CRC-32 of all the rest
//! ```
//!
//! all in hexadecimal. A message that is lost, stored twice, altered or reordered can be told from
//! its body alone.

use bytes::{BufMut, Bytes, BytesMut};

/// The shortest body: everything but padding.
pub(crate) const MIN_BODY_BYTES: usize = CHECKSUM_END + 1;
/// Keys of a run; order is checked within each.
pub(crate) const KEYS: u64 = 16;

const RUN_END: usize = 16;
const SEQUENCE_END: usize = RUN_END + 1 + 12;
const CHECKSUM_END: usize = SEQUENCE_END + 1 + 8;
/// Padding: no two neighbouring bytes alike, so that a shift shows.
const PADDING: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const HEX: &[u8; 16] = b"0123456789abcdef";

/// The bodies of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bodies {
    run: u64,
    size: usize,
}

/// What a body said, and whether it is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// It is the run's, and unaltered.
    Whole {
        /// Its sequence number in the run.
        sequence: u64,
    },
    /// It is not what was sent.
    Altered,
}

impl Bodies {
    /// Bodies of `size` bytes; `None` if that is less than [`MIN_BODY_BYTES`].
    pub(crate) fn new(run: u64, size: usize) -> Option<Self> {
        (size >= MIN_BODY_BYTES).then_some(Self { run, size })
    }

    /// The bodies of the sequence numbers from `first`, slices of one buffer.
    pub(crate) fn range(&self, first: u64, count: usize) -> Vec<Bytes> {
        let mut buffer = BytesMut::with_capacity(self.size * count);
        for sequence in first..first + count as u64 {
            self.write(sequence, &mut buffer);
        }
        let buffer = buffer.freeze();
        (0..count)
            .map(|place| buffer.slice(place * self.size..(place + 1) * self.size))
            .collect()
    }

    /// One body.
    pub(crate) fn one(&self, sequence: u64) -> Bytes {
        let mut buffer = BytesMut::with_capacity(self.size);
        self.write(sequence, &mut buffer);
        buffer.freeze()
    }

    fn write(&self, sequence: u64, buffer: &mut BytesMut) {
        let head = head(self.run, sequence);
        let padding = padding(sequence, self.size - MIN_BODY_BYTES);
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&head);
        padding.clone().for_each(|part| checksum.update(part));
        buffer.put_slice(&head);
        buffer.put_slice(&hex::<8>(u64::from(checksum.finalize())));
        buffer.put_u8(b':');
        padding.for_each(|part| buffer.put_slice(part));
    }

    /// Reads a body back.
    pub(crate) fn parse(&self, body: &[u8]) -> Parsed {
        let sequence = body
            .get(RUN_END + 1..SEQUENCE_END)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u64::from_str_radix(digits, 16).ok());
        match sequence {
            // A body is a function of its sequence number: what differs from it was altered.
            Some(sequence) if self.one(sequence) == body => Parsed::Whole { sequence },
            _ => Parsed::Altered,
        }
    }
}

/// The key of a sequence number.
pub(crate) fn key(sequence: u64) -> Bytes {
    const NAMES: [&[u8]; KEYS as usize] = [
        b"key-00", b"key-01", b"key-02", b"key-03", b"key-04", b"key-05", b"key-06", b"key-07",
        b"key-08", b"key-09", b"key-10", b"key-11", b"key-12", b"key-13", b"key-14", b"key-15",
    ];
    let place = usize::try_from(sequence % KEYS).unwrap_or_default();
    Bytes::from_static(NAMES.get(place).copied().unwrap_or_default())
}

fn head(run: u64, sequence: u64) -> [u8; SEQUENCE_END + 1] {
    let mut head = [b':'; SEQUENCE_END + 1];
    let run = hex::<RUN_END>(run);
    let sequence = hex::<12>(sequence);
    for (to, from) in head.iter_mut().zip(run) {
        *to = from;
    }
    for (to, from) in head.iter_mut().skip(RUN_END + 1).zip(sequence) {
        *to = from;
    }
    head
}

fn padding(sequence: u64, bytes: usize) -> impl Iterator<Item = &'static [u8]> + Clone {
    // Starts at a place of its own, so that two bodies differ in more than their numbers.
    let start = usize::try_from(sequence % PADDING.len() as u64).unwrap_or_default();
    let (before, after) = PADDING.split_at(start);
    let mut left = bytes;
    [after, before]
        .into_iter()
        .cycle()
        .take_while(move |_| bytes > 0)
        .map_while(move |part| {
            let part = part.get(..part.len().min(left))?;
            let done = left == 0;
            left -= part.len();
            (!done).then_some(part)
        })
}

fn hex<const N: usize>(mut value: u64) -> [u8; N] {
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        *digit = HEX.get(usize::try_from(value & 15).unwrap_or(0)).copied().unwrap_or(b'0');
        value >>= 4;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies(size: usize) -> Bodies {
        Bodies::new(0x0123_4567_89ab_cdef, size).unwrap()
    }

    #[test]
    fn a_body_has_the_size_that_was_asked_for_and_says_its_number() {
        for size in [MIN_BODY_BYTES, 55, 62, 256, 1_024] {
            for sequence in [0, 1, 61, 62, 99_999, (1 << 48) - 1] {
                let body = bodies(size).one(sequence);
                assert_eq!(body.len(), size);
                assert!(body.is_ascii());
                assert_eq!(bodies(size).parse(&body), Parsed::Whole { sequence });
            }
        }
    }

    #[test]
    fn a_range_is_the_same_bodies_one_by_one() {
        let all = bodies(256).range(7, 3);
        assert_eq!(
            all,
            [7, 8, 9].map(|sequence| bodies(256).one(sequence)).to_vec()
        );
    }

    #[test]
    fn a_size_that_holds_no_header_is_refused() {
        assert!(Bodies::new(1, MIN_BODY_BYTES - 1).is_none());
    }

    #[test]
    fn any_changed_byte_is_an_altered_body() {
        let body = bodies(80).one(5);
        for place in 0..body.len() {
            let mut changed = body.to_vec();
            changed[place] ^= 1;
            assert_eq!(bodies(80).parse(&changed), Parsed::Altered, "byte {place}");
        }
    }

    #[test]
    fn a_cut_body_and_one_of_another_run_are_altered() {
        let body = bodies(80).one(5);
        assert_eq!(bodies(80).parse(&body[..79]), Parsed::Altered);
        assert_eq!(
            bodies(80).parse(&Bodies::new(2, 80).unwrap().one(5)),
            Parsed::Altered
        );
        assert_eq!(bodies(80).parse(b""), Parsed::Altered);
    }

    #[test]
    fn keys_repeat_every_sixteen() {
        assert_eq!(key(3), key(19));
        assert_ne!(key(3), key(4));
    }
}
