//! Headers as JSON.
//!
//! `[{"name": "trace", "type": "string", "value": "4bf9…"}, …]`, in the application's order, since a name
//! may repeat. Types are `null`, `bool`, `int`, `double`, `string` and `bytes` (in base 64), so that a
//! consumer gets back what was sent. JSON has no NaN and no infinity: a row with such a header is refused,
//! for what cannot be carried is not carried wrongly.

use std::fmt::Write as _;

use sluicegate_adapter::sql::SparseTexts;
use sluicegate_adapter::{Batch, Failure, FailureClass, Header, HeaderValue, RowFailure};

use crate::{base64, json};

/// The rows' headers, and the rows whose headers cannot be stored.
pub(crate) fn texts(batch: &Batch) -> (SparseTexts, Vec<RowFailure>) {
    let mut texts = SparseTexts {
        rows: Vec::new(),
        values: Vec::new(),
    };
    let mut failures = Vec::new();
    for headers in batch.headers.by_row() {
        match text(&headers.headers) {
            Ok(text) => {
                texts.rows.push(headers.row);
                texts.values.push(text);
            }
            Err(name) => failures.push(
                Failure::fatal(
                    FailureClass::Invalid,
                    format!(
                        "the header `{}` of a message for `{}` is not a finite number, which JSON cannot carry: \
                         send it as text",
                        name.escape_debug(),
                        batch.destination.escape_debug()
                    ),
                )
                .of(headers.row),
            ),
        }
    }
    (texts, failures)
}

/// A row's headers; the error names the header that cannot be stored.
fn text<'a>(headers: &[Header<'a>]) -> Result<String, &'a str> {
    let mut text = String::with_capacity(2 + headers.len() * 64);
    text.push('[');
    for (place, header) in headers.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        text.push_str("{\"name\":");
        json::push_string(&mut text, header.name);
        text.push_str(",\"type\":");
        match header.value {
            HeaderValue::Null => text.push_str("\"null\",\"value\":null"),
            HeaderValue::Bool(value) => {
                let _ = write!(text, "\"bool\",\"value\":{value}");
            }
            HeaderValue::Int(value) => {
                let _ = write!(text, "\"int\",\"value\":{value}");
            }
            // The shortest text that reads back as the same number.
            HeaderValue::Double(value) if value.is_finite() => {
                let _ = write!(text, "\"double\",\"value\":{value:?}");
            }
            HeaderValue::Double(_) => return Err(header.name),
            HeaderValue::Text(value) => {
                text.push_str("\"string\",\"value\":");
                json::push_string(&mut text, value);
            }
            HeaderValue::Bytes(value) => {
                text.push_str("\"bytes\",\"value\":\"");
                base64::push(&mut text, value);
                text.push('"');
            }
        }
        text.push('}');
    }
    text.push(']');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_header_has_its_place_and_names_may_repeat() {
        let mut batch = Batch::of(9);
        for (name, value) in [
            ("n", HeaderValue::Null),
            ("b", HeaderValue::Bool(true)),
            ("i", HeaderValue::Int(i64::MIN)),
            ("d", HeaderValue::Double(0.1)),
            ("d", HeaderValue::Double(1e300)),
            ("t", HeaderValue::Text("a \"b\"")),
            ("x", HeaderValue::Bytes(&[0, 255])),
        ] {
            batch.headers.push(4, name, value);
        }
        batch.headers.push(7, "é", HeaderValue::Int(1));
        let (texts, failures) = texts(&batch);
        assert_eq!(failures, []);
        assert_eq!(texts.rows, [4, 7]);
        assert_eq!(
            texts.values,
            [
                concat!(
                    r#"[{"name":"n","type":"null","value":null},"#,
                    r#"{"name":"b","type":"bool","value":true},"#,
                    r#"{"name":"i","type":"int","value":-9223372036854775808},"#,
                    r#"{"name":"d","type":"double","value":0.1},"#,
                    r#"{"name":"d","type":"double","value":1e300},"#,
                    r#"{"name":"t","type":"string","value":"a \"b\""},"#,
                    r#"{"name":"x","type":"bytes","value":"AP8="}]"#,
                ),
                r#"[{"name":"é","type":"int","value":1}]"#,
            ]
        );
    }

    #[test]
    fn a_number_that_json_cannot_carry_fails_its_own_row_alone() {
        let mut batch = Batch::of(4);
        batch.destination = "orders".into();
        batch.headers.push(0, "ok", HeaderValue::Double(-0.0));
        batch.headers.push(1, "bad", HeaderValue::Double(f64::NAN));
        batch
            .headers
            .push(3, "worse", HeaderValue::Double(f64::NEG_INFINITY));
        let (texts, failures) = texts(&batch);
        assert_eq!(texts.rows, [0]);
        let failed: Vec<_> = failures
            .iter()
            .map(|failed| (failed.rows.range(), failed.failure.class))
            .collect();
        assert_eq!(
            failed,
            [(1..2, FailureClass::Invalid), (3..4, FailureClass::Invalid)]
        );
        for (failed, name) in failures.iter().zip(["`bad`", "`worse`"]) {
            let reason = &failed.failure.reason;
            assert!(
                reason.contains(name) && reason.contains("`orders`"),
                "{reason}"
            );
        }
    }
}
