//! The contract's words in the gateway's, and the other way round.

use sluicegate_core::{
    Capabilities, Deduplication, Failure, FailureClass, Limits, Strength, Window, WindowUnit,
};

use crate::state::cut;
use crate::wit::types;

/// Length of a failure's sentence. Failures travel one by one to the application and are charged to its
/// stream; a provider's page of explanation is of no more use than its beginning.
const REASON_BYTES: usize = 1_024;

/// Length of a provider's code: SQLSTATE has five characters, AWS's longest names some sixty.
const CODE_BYTES: usize = 128;

pub(crate) fn failure(failure: types::Failure) -> Failure {
    Failure {
        class: class(failure.class),
        retryable: failure.retryable,
        attempts: 0,
        code: shortened(failure.code, CODE_BYTES),
        reason: shortened(failure.reason, REASON_BYTES),
    }
}

fn shortened(mut text: String, bytes: usize) -> String {
    let length = cut(&text, bytes).len();
    text.truncate(length);
    text
}

fn class(class: types::FailureClass) -> FailureClass {
    match class {
        types::FailureClass::Invalid => FailureClass::Invalid,
        types::FailureClass::TooLarge => FailureClass::TooLarge,
        types::FailureClass::Unauthorized => FailureClass::Unauthorized,
        types::FailureClass::NotFound => FailureClass::NotFound,
        types::FailureClass::Unroutable => FailureClass::Unroutable,
        types::FailureClass::Rejected => FailureClass::Rejected,
        types::FailureClass::Throttled => FailureClass::Throttled,
        types::FailureClass::Unavailable => FailureClass::Unavailable,
        types::FailureClass::Timeout => FailureClass::Timeout,
        types::FailureClass::Expired => FailureClass::Expired,
        types::FailureClass::Aborted => FailureClass::Aborted,
        types::FailureClass::OutOfOrder => FailureClass::OutOfOrder,
        types::FailureClass::AdapterFault => FailureClass::AdapterFault,
    }
}

pub(crate) fn window(window: types::Window) -> Window {
    Window {
        unit: match window.unit {
            types::WindowUnit::Requests => WindowUnit::Requests,
            types::WindowUnit::Messages => WindowUnit::Messages,
        },
        size: window.size,
    }
}

pub(crate) fn capabilities(capabilities: types::Capabilities) -> Capabilities {
    Capabilities {
        key: capabilities.key,
        headers: capabilities.headers,
        id: capabilities.id,
        delay: capabilities.delay,
        ttl: capabilities.ttl,
        null_body: capabilities.null_body,
        receipts: capabilities.receipts,
        per_message_failure: capabilities.per_message_failure,
        deduplication: if capabilities.deduplication {
            Deduplication::MessageId
        } else {
            Deduplication::None
        },
    }
}

pub(crate) fn limits(limits: types::Limits) -> Limits {
    Limits {
        batch_messages: limits.batch_messages,
        batch_bytes: limits.batch_bytes,
        body_bytes: limits.body_bytes,
    }
}

pub(crate) fn strength(strength: types::Strength) -> Strength {
    match strength {
        types::Strength::Replicated => Strength::Replicated,
        types::Strength::Fsynced => Strength::Fsynced,
        types::Strength::Written => Strength::Written,
        types::Strength::Accepted => Strength::Accepted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_explanation_is_cut() {
        let long = failure(types::Failure {
            class: types::FailureClass::Rejected,
            retryable: true,
            code: "c".repeat(10_000),
            reason: "é".repeat(10_000),
        });
        assert_eq!(long.code.len(), CODE_BYTES);
        assert_eq!(long.reason.len(), REASON_BYTES);
        assert!(long.retryable);
        assert_eq!(long.class, FailureClass::Rejected);
    }
}
