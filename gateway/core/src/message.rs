//! A message, as the application published it.

use bytes::Bytes;

use crate::Failure;

/// What an allocator keeps beside each small allocation, and what it rounds up by, generously.
const ALLOCATION_BYTES: usize = 32;

/// What an application publishes.
///
/// `body` and `key` are slices of the frame that carried them: cloning one copies no bytes, and
/// keeping one keeps its whole frame alive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// `None` is a null body (a tombstone on a compacted topic), which is not an empty one.
    pub body: Option<Bytes>,
    /// `None` is no key, which is not an empty one.
    pub key: Option<Bytes>,
    /// What most messages lack; boxed so that a row stays small.
    pub extra: Option<Box<Extra>>,
}

impl Message {
    /// A message that is a body and nothing else.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self {
            body: Some(body.into()),
            key: None,
            extra: None,
        }
    }

    /// Length of the body in bytes; a null body has none.
    #[inline]
    pub fn body_bytes(&self) -> usize {
        self.body.as_ref().map_or(0, Bytes::len)
    }

    /// Length in bytes of all that the message carries.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.body_bytes()
            + self.key.as_ref().map_or(0, Bytes::len)
            + self.extra.as_deref().map_or(0, Extra::bytes)
    }

    /// The headers, in the order in which the application gave them.
    pub fn headers(&self) -> &[Header] {
        self.extra.as_deref().map_or(&[], |extra| &extra.headers)
    }

    /// The application's own id for the message.
    #[inline]
    pub fn id(&self) -> Option<&str> {
        self.extra.as_deref()?.id.as_deref()
    }

    /// Milliseconds after acceptance before a consumer may see the message.
    pub fn delay_ms(&self) -> Option<u64> {
        self.extra.as_deref()?.delay_ms
    }

    /// Milliseconds after acceptance at which the message loses its worth.
    pub fn ttl_ms(&self) -> Option<u64> {
        self.extra.as_deref()?.ttl_ms
    }
}

/// The parts of a message that most messages lack.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extra {
    /// A name may repeat; order is kept.
    pub headers: Vec<Header>,
    /// The application's own id.
    pub id: Option<String>,
    /// Counts from acceptance.
    pub delay_ms: Option<u64>,
    /// Counts from acceptance.
    pub ttl_ms: Option<u64>,
    /// Why the message can go nowhere, found while it was decoded: its row fails with it. What was
    /// wrong with it is not kept.
    pub refused: Option<Box<Failure>>,
}

impl Extra {
    /// The memory that it takes, beside the frame that it came in: a header of two bytes on the wire
    /// is some fifty here, so that the frame's size says little.
    pub fn memory(&self) -> usize {
        let allocated = |bytes: usize| {
            if bytes == 0 {
                0
            } else {
                bytes + ALLOCATION_BYTES
            }
        };
        let texts = |header: &Header| {
            allocated(header.name.capacity())
                + match &header.value {
                    HeaderValue::String(text) => allocated(text.capacity()),
                    // Bytes are slices of the frame.
                    _ => 0,
                }
        };
        allocated(size_of::<Self>())
            + allocated(self.headers.capacity() * size_of::<Header>())
            + self.headers.iter().map(texts).sum::<usize>()
            + self.id.as_ref().map_or(0, |id| allocated(id.capacity()))
            + self
                .refused
                .as_ref()
                .map_or(0, |why| allocated(size_of::<Failure>() + why.bytes()))
    }

    fn bytes(&self) -> usize {
        self.headers.iter().map(Header::bytes).sum::<usize>()
            + self.id.as_ref().map_or(0, String::len)
    }
}

/// A named, typed value beside the body.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Not empty.
    pub name: String,
    /// Typed, since brokers are.
    pub value: HeaderValue,
}

impl Header {
    fn bytes(&self) -> usize {
        self.name.len()
            + match &self.value {
                HeaderValue::Null | HeaderValue::Bool(_) => 1,
                HeaderValue::Int(_) | HeaderValue::Double(_) => 8,
                HeaderValue::String(text) => text.len(),
                HeaderValue::Bytes(bytes) => bytes.len(),
            }
    }
}

/// The value of a header.
#[derive(Clone, Debug, PartialEq)]
pub enum HeaderValue {
    /// Present, without a value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed 64-bit integer.
    Int(i64),
    /// A 64-bit float.
    Double(f64),
    /// UTF-8 text.
    String(String),
    /// Any bytes.
    Bytes(Bytes),
}
