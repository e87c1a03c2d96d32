//! Between the protocol's types and the engine's words, both ways and nothing else.

use std::time::Duration;

use sluicegate_core::{
    Capabilities, Deduplication, Extra, Failure, FailureClass, Header, HeaderValue, Message,
    Opened, Strength,
};
use sluicegate_engine::{ClientLimits, DestinationInfo, Event, Results, ScopeOptions, Stats};
use sluicegate_proto::v1::{self, server_frame::Frame};

use crate::fault::Fault;
use crate::options::{MAX_CONFIRMATION_TIMEOUT, Options};

// === from the client ===

pub(crate) fn message(message: v1::Message) -> Message {
    let extra = Extra {
        headers: message.headers.into_iter().map(header).collect(),
        id: message.id,
        delay_ms: message.delay_ms,
        ttl_ms: message.ttl_ms,
        refused: None,
    };
    Message {
        body: message.body,
        key: message.key,
        extra: (extra != Extra::default()).then(|| Box::new(extra)),
    }
}

fn header(header: v1::Header) -> Header {
    use v1::header::Value;
    Header {
        name: header.name,
        value: match header.value {
            None => HeaderValue::Null,
            Some(Value::StringValue(text)) => HeaderValue::String(text),
            Some(Value::BytesValue(bytes)) => HeaderValue::Bytes(bytes),
            Some(Value::IntValue(number)) => HeaderValue::Int(number),
            Some(Value::DoubleValue(number)) => HeaderValue::Double(number),
            Some(Value::BoolValue(truth)) => HeaderValue::Bool(truth),
        },
    }
}

pub(crate) fn scope_options(options: Option<v1::ScopeOptions>) -> Result<ScopeOptions, Fault> {
    let options = options.unwrap_or_default();
    if let Some(destination) = options.error_channel {
        return Err(Fault::ErrorChannel(destination));
    }
    let defaults = ScopeOptions::default();
    Ok(ScopeOptions {
        batching: options.batching.unwrap_or(defaults.batching),
        deferred_confirmation: options
            .deferred_confirmation
            .unwrap_or(defaults.deferred_confirmation),
        confirmation_timeout: options
            .confirmation_timeout_ms
            .map(confirmation_timeout)
            .transpose()?,
        error_channel: None,
        receipts: options.receipts.unwrap_or(defaults.receipts),
    })
}

fn confirmation_timeout(ms: u64) -> Result<Duration, Fault> {
    let timeout = Duration::from_millis(ms);
    if timeout.is_zero() || timeout > MAX_CONFIRMATION_TIMEOUT {
        return Err(Fault::ConfirmationTimeout {
            ms,
            max_ms: millis(MAX_CONFIRMATION_TIMEOUT),
        });
    }
    Ok(timeout)
}

// === to the client ===

pub(crate) fn welcome(
    gateway: &str,
    options: &Options,
    limits: &ClientLimits,
    destinations: Vec<DestinationInfo>,
) -> Frame {
    Frame::Welcome(v1::Welcome {
        gateway: gateway.to_owned(),
        limits: Some(v1::Limits {
            frame_bytes: options.frame_bytes.into(),
            open_scopes: limits.stream_scopes,
            unread_result_bytes: limits.unread_result_bytes,
            unread_results_timeout_ms: millis(limits.unread_results_timeout),
            confirmation_timeout_ms: millis(limits.confirmation_timeout),
            frame_messages: options.frame_messages,
            max_confirmation_timeout_ms: millis(MAX_CONFIRMATION_TIMEOUT),
        }),
        credit: Some(v1::Credit {
            messages: limits.stream_messages.into(),
            bytes: limits.stream_bytes,
        }),
        destinations: destinations.into_iter().map(destination).collect(),
    })
}

fn destination(info: DestinationInfo) -> v1::Destination {
    v1::Destination {
        name: info.name,
        connection: info.connection.to_string(),
        state: info.opened.as_ref().map(destination_state),
        refusal: info.refusal.map(failure),
    }
}

fn destination_state(opened: &Opened) -> v1::DestinationState {
    v1::DestinationState {
        body_bytes: opened.limits.body_bytes,
        batch_messages: opened.limits.batch_messages,
        batch_bytes: opened.limits.batch_bytes,
        capabilities: Some(capabilities(opened.capabilities)),
        strength: strength(opened.strength).into(),
    }
}

fn capabilities(capabilities: Capabilities) -> v1::Capabilities {
    v1::Capabilities {
        key: capabilities.key,
        headers: capabilities.headers,
        id: capabilities.id,
        delay: capabilities.delay,
        ttl: capabilities.ttl,
        null_body: capabilities.null_body,
        receipts: capabilities.receipts,
        per_message_failure: capabilities.per_message_failure,
        deduplication: capabilities.deduplication != Deduplication::None,
    }
}

fn strength(strength: Strength) -> v1::Strength {
    match strength {
        Strength::Replicated => v1::Strength::Replicated,
        Strength::Fsynced => v1::Strength::Fsynced,
        Strength::Written => v1::Strength::Written,
        Strength::Accepted => v1::Strength::Accepted,
    }
}

/// `None` for what ends the stream: that is a status, no frame.
pub(crate) fn event(event: Event) -> Option<Frame> {
    Some(match event {
        Event::Results(scope_results) => Frame::Results(results(scope_results)),
        Event::Flushed { scope, token } => Frame::Flushed(v1::Flushed { scope, token }),
        Event::ScopeDone {
            scope,
            confirmed,
            failed,
            unknown,
        } => Frame::ScopeDone(v1::ScopeDone {
            scope,
            confirmed,
            failed,
            unknown,
        }),
        Event::Credit { messages, bytes } => Frame::Credit(v1::Credit { messages, bytes }),
        Event::Draining { deadline } => Frame::Draining(v1::Draining {
            deadline_ms: millis(deadline),
        }),
        Event::Stalled => return None,
    })
}

pub(crate) fn results(results: Results) -> v1::Results {
    let failed_row = |(row, reason)| v1::FailedRow {
        row,
        failure: Some(failure(reason)),
    };
    v1::Results {
        scope: results.scope,
        confirmed: results
            .confirmed
            .into_iter()
            .map(|rows| v1::Range {
                first: rows.start,
                count: rows.end.saturating_sub(rows.start),
            })
            .collect(),
        failed: results.failed.into_iter().map(failed_row).collect(),
        unknown: results.unknown.into_iter().map(failed_row).collect(),
        receipts: results
            .receipts
            .into_iter()
            .map(|(row, receipt)| v1::Receipt { row, receipt })
            .collect(),
    }
}

fn failure(failure: Failure) -> v1::Failure {
    v1::Failure {
        class: failure_class(failure.class).into(),
        retryable: failure.retryable,
        attempts: failure.attempts,
        code: failure.code,
        reason: failure.reason,
    }
}

fn failure_class(class: FailureClass) -> v1::FailureClass {
    match class {
        FailureClass::Invalid => v1::FailureClass::Invalid,
        FailureClass::TooLarge => v1::FailureClass::TooLarge,
        FailureClass::Unauthorized => v1::FailureClass::Unauthorized,
        FailureClass::NotFound => v1::FailureClass::NotFound,
        FailureClass::Unroutable => v1::FailureClass::Unroutable,
        FailureClass::Rejected => v1::FailureClass::Rejected,
        FailureClass::Throttled => v1::FailureClass::Throttled,
        FailureClass::Unavailable => v1::FailureClass::Unavailable,
        FailureClass::Timeout => v1::FailureClass::Timeout,
        FailureClass::Expired => v1::FailureClass::Expired,
        FailureClass::Aborted => v1::FailureClass::Aborted,
        FailureClass::OutOfOrder => v1::FailureClass::OutOfOrder,
        FailureClass::AdapterFault => v1::FailureClass::AdapterFault,
    }
}

pub(crate) fn stats(stats: &Stats) -> v1::StatsResponse {
    v1::StatsResponse {
        accepted: stats.accepted,
        confirmed: stats.confirmed,
        failed: stats.failed,
        unknown: stats.unknown,
        retries: stats.retries,
        batches: stats.batches,
        provider_requests: stats.provider_requests,
        queued_messages: stats.queued_messages,
        in_flight_messages: stats.in_flight_messages,
        held_bytes: stats.held_bytes,
        streams: stats.streams,
        scopes: stats.scopes,
        lanes: stats.lanes,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_class_keeps_its_name_and_its_place_in_the_protocol() {
        for (place, class) in FailureClass::ALL.into_iter().enumerate() {
            let sent = failure_class(class);
            assert_eq!(
                sent.as_str_name(),
                format!("FAILURE_CLASS_{}", class.as_str())
            );
            assert_eq!(sent as usize, place + 1);
        }
    }

    #[test]
    fn every_strength_keeps_its_name() {
        for found in [
            Strength::Replicated,
            Strength::Fsynced,
            Strength::Written,
            Strength::Accepted,
        ] {
            assert_eq!(
                strength(found).as_str_name(),
                format!("STRENGTH_{}", found.as_str().to_uppercase())
            );
        }
    }

    #[test]
    fn a_message_without_extras_has_no_box() {
        let plain = v1::Message {
            body: Some("body".into()),
            key: Some("key".into()),
            ..Default::default()
        };
        assert!(message(plain).extra.is_none());
        let delayed = v1::Message {
            delay_ms: Some(0),
            ..Default::default()
        };
        assert_eq!(message(delayed).delay_ms(), Some(0));
    }

    #[test]
    fn a_confirmation_timeout_of_zero_or_of_more_than_a_day_is_refused_with_the_range() {
        let timeout = |ms| {
            scope_options(Some(v1::ScopeOptions {
                confirmation_timeout_ms: Some(ms),
                ..Default::default()
            }))
        };
        assert!(timeout(1).is_ok());
        assert!(timeout(86_400_000).is_ok());
        for absurd in [0, 86_400_001, u64::MAX] {
            let fault = timeout(absurd).expect_err("absurd");
            assert!(fault.to_string().contains("1 to 86400000"), "{fault}");
            assert_eq!(fault.code(), tonic::Code::InvalidArgument);
        }
    }

    #[test]
    fn a_scope_that_names_an_error_channel_is_told_that_there_is_none_yet() {
        let fault = scope_options(Some(v1::ScopeOptions {
            error_channel: Some("dead".to_owned()),
            ..Default::default()
        }))
        .expect_err("not served");
        assert!(fault.to_string().contains("\"dead\""), "{fault}");
        assert_eq!(fault.code(), tonic::Code::Unimplemented);
    }
}
