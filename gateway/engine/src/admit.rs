//! Whether a row may be sent: the one place where a message meets what its destination can do.
//!
//! **A fault of a row harms that row only**, and what a destination lacks is refused with a sentence,
//! never imitated.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{Capabilities, Failure, FailureClass, Message, Opened};

use crate::config::Policy;

/// How much of a name that a client chose is repeated in texts.
pub(crate) const NAME_CHARS: usize = 200;

/// What a destination takes, with the configuration's own bounds.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) opened: Arc<Opened>,
    pub(crate) batch_messages: usize,
    pub(crate) batch_bytes: usize,
    pub(crate) body_bytes: usize,
}

impl Terms {
    pub(crate) fn new(opened: Opened, policy: &Policy) -> Self {
        let limits = opened.limits;
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let messages = policy
            .max_batch_messages
            .unwrap_or(u32::MAX)
            .min(limits.batch_messages);
        let body = policy
            .max_body_bytes
            .unwrap_or(u64::MAX)
            .min(limits.body_bytes)
            .min(limits.batch_bytes);
        Self {
            batch_messages: usize::try_from(messages).unwrap_or(usize::MAX).max(1),
            batch_bytes: size(limits.batch_bytes),
            body_bytes: size(body),
            opened: Arc::new(opened),
        }
    }

    fn can(&self) -> &Capabilities {
        &self.opened.capabilities
    }

    /// Whether a message asks for nothing that has to be looked at.
    #[inline]
    pub(crate) fn takes_plainly(&self, message: &Message) -> bool {
        message.extra.is_none()
            && message.key.is_none()
            && message
                .body
                .as_ref()
                .is_some_and(|body| body.len() <= self.body_bytes)
    }

    /// Why the destination cannot take the message, after it has waited so long.
    pub(crate) fn refusal(
        &self,
        message: &Message,
        row: u64,
        destination: &str,
        waited: Duration,
    ) -> Option<Failure> {
        let invalid = |what: &str, remedy: &str| {
            Some(Failure::fatal(
                FailureClass::Invalid,
                format!("row {row} for {destination:?}: {what}; {remedy}"),
            ))
        };
        let extra = message.extra.as_deref();
        if let Some(why) = extra.and_then(|extra| extra.refused.as_deref()) {
            return Some(Failure {
                reason: format!("row {row} for {destination:?}: {}", why.reason),
                ..why.clone()
            });
        }
        let can = self.can();
        let body_bytes = message.body_bytes();
        if body_bytes > self.body_bytes {
            return Some(Failure::fatal(
                FailureClass::TooLarge,
                format!(
                    "row {row} for {destination:?}: its body has {body_bytes} bytes, and the destination takes {}; send less, or put the body elsewhere and publish a reference",
                    self.body_bytes
                ),
            ));
        }
        if message.body.is_none() && !can.null_body {
            return invalid(
                "the destination has no null bodies",
                "publish an empty body, or use a destination that has tombstones",
            );
        }
        if message.key.is_some() && !can.key {
            return invalid(
                "the destination has no keys",
                "leave the key out, or use a destination that orders by key",
            );
        }
        let extra = extra?;
        if !extra.headers.is_empty() && !can.headers {
            return invalid(
                "the destination cannot carry headers",
                "leave the headers out, or put them into the body",
            );
        }
        if extra.headers.iter().any(|header| header.name.is_empty()) {
            return invalid("a header has no name", "name it, or leave it out");
        }
        if extra.id.is_some() && !can.id {
            return invalid(
                "the destination cannot carry message ids",
                "leave the id out, or put it into the body",
            );
        }
        if extra.delay_ms.is_some() && !can.delay {
            return invalid(
                "the destination cannot delay messages",
                "leave the delay out, or use a destination that can",
            );
        }
        if extra.ttl_ms.is_some() && !can.ttl {
            return invalid(
                "the destination has no time-to-live",
                "leave it out, or use a destination that has one",
            );
        }
        let ttl = extra.ttl_ms.map(Duration::from_millis);
        if let Some(ttl) = ttl.filter(|ttl| waited >= *ttl) {
            return Some(Failure::fatal(
                FailureClass::Expired,
                format!(
                    "row {row} for {destination:?}: its time-to-live of {} ms passed before it could be sent; allow more, or ask why the destination is slow",
                    ttl.as_millis()
                ),
            ));
        }
        None
    }

    /// Why a scope that wants receipts cannot publish here.
    pub(crate) fn no_receipts(&self, row: u64, destination: &str) -> Failure {
        Failure::fatal(
            FailureClass::Invalid,
            format!(
                "row {row} for {destination:?}: the scope wants receipts and the destination gives none; open the scope without receipts"
            ),
        )
    }

    pub(crate) fn gives_receipts(&self) -> bool {
        self.can().receipts
    }
}

/// A name in a text: a client may have chosen a long one.
pub(crate) fn clipped(name: &str) -> &str {
    name.char_indices()
        .nth(NAME_CHARS)
        .and_then(|(end, _)| name.get(..end))
        .unwrap_or(name)
}

/// Its scope was aborted.
pub(crate) fn aborted(row: u64, destination: &str) -> Failure {
    Failure::fatal(
        FailureClass::Aborted,
        format!("row {row} for {destination:?}: the scope was aborted before the row was sent"),
    )
}

/// Its confirmation timeout passed, and nothing of it is in the broker.
pub(crate) fn timed_out(
    row: u64,
    destination: &str,
    timeout: Duration,
    why: Option<&str>,
) -> Failure {
    let (colon, why) = match why {
        Some(why) => (": ", why),
        None => (
            "; ",
            "allow more time, publish less, or ask why the destination is slow",
        ),
    };
    Failure::retryable(
        FailureClass::Timeout,
        format!("row {row} for {destination:?}: not sent within {timeout:?}{colon}{why}"),
    )
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use sluicegate_core::{Extra, Header, HeaderValue, Order, Strength};

    use super::*;
    use crate::Backoff;

    fn terms(capabilities: Capabilities) -> Terms {
        let opened = Opened {
            address: 0,
            limits: sluicegate_core::Limits {
                batch_messages: 10,
                batch_bytes: 100,
                body_bytes: 1_000,
            },
            capabilities,
            strength: Strength::Accepted,
            facts: Vec::new(),
        };
        let policy = Policy {
            order: Order::Key,
            linger: Duration::ZERO,
            attempts: 1,
            backoff: Backoff {
                initial: Duration::ZERO,
                max: Duration::ZERO,
            },
            max_body_bytes: Some(50),
            max_batch_messages: Some(5),
            idle_eviction: Duration::ZERO,
        };
        Terms::new(opened, &policy)
    }

    fn with(extra: Extra) -> Message {
        Message {
            extra: Some(Box::new(extra)),
            ..Message::new("body")
        }
    }

    #[test]
    fn the_narrower_of_configuration_and_destination_decides() {
        let terms = terms(Capabilities::default());
        assert_eq!(
            (terms.batch_messages, terms.batch_bytes, terms.body_bytes),
            (5, 100, 50)
        );
    }

    #[test]
    fn what_a_destination_lacks_is_refused_with_what_it_lacks_and_a_remedy() {
        let header = |name: &str| Header {
            name: name.into(),
            value: HeaderValue::Null,
        };
        let some = |headers| Capabilities {
            headers,
            ..Capabilities::default()
        };
        let none = some(false);
        let cases = [
            (
                Message::new(vec![0; 51]),
                none,
                FailureClass::TooLarge,
                "51 bytes",
            ),
            (
                Message::default(),
                none,
                FailureClass::Invalid,
                "null bodies",
            ),
            (
                Message {
                    key: Some(Bytes::new()),
                    ..Message::new("")
                },
                none,
                FailureClass::Invalid,
                "no keys",
            ),
            (
                with(Extra {
                    headers: vec![header("a")],
                    ..Extra::default()
                }),
                none,
                FailureClass::Invalid,
                "headers",
            ),
            (
                with(Extra {
                    headers: vec![header("")],
                    ..Extra::default()
                }),
                some(true),
                FailureClass::Invalid,
                "no name",
            ),
            (
                with(Extra {
                    id: Some("1".into()),
                    ..Extra::default()
                }),
                none,
                FailureClass::Invalid,
                "message ids",
            ),
            (
                with(Extra {
                    delay_ms: Some(1),
                    ..Extra::default()
                }),
                none,
                FailureClass::Invalid,
                "delay",
            ),
            (
                with(Extra {
                    ttl_ms: Some(9_000),
                    ..Extra::default()
                }),
                none,
                FailureClass::Invalid,
                "time-to-live",
            ),
        ];
        for (message, can, class, words) in cases {
            let terms = terms(can);
            let failure = terms
                .refusal(&message, 3, "orders", Duration::ZERO)
                .unwrap_or_else(|| panic!("{words} must be refused"));
            assert_eq!(failure.class, class, "{failure}");
            assert!(failure.reason.contains(words), "{failure}");
            assert!(failure.reason.contains("row 3 for \"orders\""), "{failure}");
            assert!(!failure.retryable);
            assert!(!terms.takes_plainly(&message));
        }
    }

    #[test]
    fn a_message_expires_when_its_time_to_live_has_passed_and_not_before() {
        let terms = terms(Capabilities {
            ttl: true,
            ..Capabilities::default()
        });
        let message = with(Extra {
            ttl_ms: Some(5),
            ..Extra::default()
        });
        let after = |ms| terms.refusal(&message, 0, "d", Duration::from_millis(ms));
        assert_eq!(after(4), None);
        assert_eq!(after(5).map(|f| f.class), Some(FailureClass::Expired));
    }

    #[test]
    fn a_long_name_is_clipped_between_characters() {
        assert_eq!(clipped("é"), "é");
        assert_eq!(clipped(&"é".repeat(300)).chars().count(), NAME_CHARS);
    }
}
