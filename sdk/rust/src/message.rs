//! What an application publishes.

use std::time::Duration;

use bytes::Bytes;
use sluicegate_proto::v1;

/// A message: a body, and what may stand beside it.
///
/// ```
/// use sluicegate_client::Message;
///
/// let message = Message::new("{\"order\": 17}")
///     .key("customer-4")
///     .header("content-type", "application/json")
///     .id("order-17");
/// assert_eq!(message.body(), Some(&b"{\"order\": 17}"[..]));
/// ```
///
/// Bodies and keys are [`Bytes`]: a clone of a message copies neither.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    pub(crate) body: Option<Bytes>,
    pub(crate) key: Option<Bytes>,
    /// What most messages lack, as the protocol has it; its own body and key stay unset.
    pub(crate) extra: Option<Box<v1::Message>>,
}

impl Message {
    /// A message with this body, which may be empty.
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self {
            body: Some(body.into()),
            key: None,
            extra: None,
        }
    }

    /// A message without a body (a null body, which is not an empty one), as compacted topics use it.
    pub fn tombstone(key: impl Into<Bytes>) -> Self {
        Self {
            body: None,
            key: Some(key.into()),
            extra: None,
        }
    }

    /// Orders messages, and on partitioned brokers places them.
    #[must_use]
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds a header. A name may repeat; order is kept.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<HeaderValue>) -> Self {
        let header = v1::Header {
            name: name.into(),
            value: value.into().into_protocol(),
        };
        self.extra_mut().headers.push(header);
        self
    }

    /// The application's own id of the message.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.extra_mut().id = Some(id.into());
        self
    }

    /// How long after its acceptance a consumer may see it first. Refused where the provider cannot.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.extra_mut().delay_ms = Some(millis(delay));
        self
    }

    /// How long after its acceptance it loses its worth. Refused where the provider cannot.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.extra_mut().ttl_ms = Some(millis(ttl));
        self
    }

    /// The body; `None` is a null body.
    pub fn body(&self) -> Option<&[u8]> {
        self.body.as_deref()
    }

    fn extra_mut(&mut self) -> &mut v1::Message {
        self.extra.get_or_insert_with(Box::default)
    }
}

/// Rounds up: a message is never seen early.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl From<&'static str> for Message {
    fn from(body: &'static str) -> Self {
        Self::new(body)
    }
}

impl From<&'static [u8]> for Message {
    fn from(body: &'static [u8]) -> Self {
        Self::new(body)
    }
}

impl From<String> for Message {
    fn from(body: String) -> Self {
        Self::new(body)
    }
}

impl From<Vec<u8>> for Message {
    fn from(body: Vec<u8>) -> Self {
        Self::new(body)
    }
}

impl From<Bytes> for Message {
    fn from(body: Bytes) -> Self {
        Self::new(body)
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
    /// Text.
    String(String),
    /// Any bytes.
    Bytes(Bytes),
}

impl HeaderValue {
    fn into_protocol(self) -> Option<v1::header::Value> {
        use v1::header::Value;
        Some(match self {
            Self::Null => return None,
            Self::Bool(value) => Value::BoolValue(value),
            Self::Int(value) => Value::IntValue(value),
            Self::Double(value) => Value::DoubleValue(value),
            Self::String(value) => Value::StringValue(value),
            Self::Bytes(value) => Value::BytesValue(value),
        })
    }
}

impl From<&str> for HeaderValue {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

impl From<String> for HeaderValue {
    fn from(value: String) -> Self {
        Self::String(value)
    }
}

impl From<bool> for HeaderValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for HeaderValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for HeaderValue {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

impl From<Bytes> for HeaderValue {
    fn from(value: Bytes) -> Self {
        Self::Bytes(value)
    }
}

impl From<Vec<u8>> for HeaderValue {
    fn from(value: Vec<u8>) -> Self {
        Self::Bytes(value.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_rounded_up_to_the_millisecond() {
        let message = Message::new("x").delay(Duration::from_micros(1_001));
        assert_eq!(message.extra.unwrap().delay_ms, Some(2));
    }

    #[test]
    fn a_message_that_is_only_a_body_carries_no_box() {
        assert!(Message::new("x").key("k").extra.is_none());
    }
}
