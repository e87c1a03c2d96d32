//! Batches in columns.
//!
//! Invariant: an adapter sees only the columns that its manifest reads, row numbers ascend in each of them,
//! and what is dense has one entry a row. One pass over the rows fills them all, into buffers that are kept
//! from batch to batch: a batch costs no allocation once its like has been seen.

use sluicegate_core::{Batch, HeaderValue, Row};

use crate::manifest::Reads;
use crate::wit::types::{self, BytesColumn, HeaderColumns, HeaderKind, SparseBytes, SparseNumbers};

/// A batch in columns, made anew for each batch in the same buffers.
#[derive(Debug)]
pub struct Lowering {
    reads: Reads,
    columns: types::Batch,
}

impl Lowering {
    /// For an adapter that reads these columns.
    #[must_use]
    pub fn new(reads: Reads) -> Self {
        Self {
            reads,
            columns: types::Batch {
                destination: String::new(),
                address: Vec::new(),
                count: 0,
                receipts: false,
                now_ms: 0,
                body_lengths: Vec::new(),
                bodies: bytes_column(),
                null_bodies: Vec::new(),
                keys: sparse_bytes(),
                ids: sparse_bytes(),
                headers: HeaderColumns {
                    rows: Vec::new(),
                    names: bytes_column(),
                    kinds: Vec::new(),
                    values: bytes_column(),
                },
                delays: sparse_numbers(),
                ttls: sparse_numbers(),
                not_utf8: Vec::new(),
            },
        }
    }

    /// The batch in columns. `address` is what the adapter noted about the destination, `now_ms` the time.
    pub fn lower(&mut self, batch: &Batch, address: &[u8], now_ms: u64) -> &types::Batch {
        let columns = &mut self.columns;
        clear(columns);
        columns.destination.push_str(&batch.destination);
        columns.address.extend_from_slice(address);
        columns.count = u32::try_from(batch.rows.len()).unwrap_or(u32::MAX);
        columns.receipts = batch.receipts;
        columns.now_ms = now_ms;
        for (number, row) in (0..columns.count).zip(&batch.rows) {
            lower_row(columns, self.reads, number, row);
        }
        columns
    }
}

fn lower_row(columns: &mut types::Batch, reads: Reads, number: u32, row: &Row) {
    let message = &row.message;
    match &message.body {
        None => columns.null_bodies.push(number),
        Some(body) => {
            if reads.body_utf8 && std::str::from_utf8(body).is_err() {
                columns.not_utf8.push(number);
            }
        }
    }
    if reads.body_lengths {
        columns
            .body_lengths
            .push(u32::try_from(message.body_bytes()).unwrap_or(u32::MAX));
    }
    if reads.bodies {
        push(&mut columns.bodies, message.body.as_deref().unwrap_or(&[]));
    }
    if reads.keys
        && let Some(key) = &message.key
    {
        push_sparse(&mut columns.keys, number, key);
    }
    let Some(extra) = message.extra.as_deref() else {
        return;
    };
    if reads.ids
        && let Some(id) = &extra.id
    {
        push_sparse(&mut columns.ids, number, id.as_bytes());
    }
    if reads.delays
        && let Some(delay) = extra.delay_ms
    {
        columns.delays.rows.push(number);
        columns.delays.values.push(delay);
    }
    if reads.ttls
        && let Some(ttl) = extra.ttl_ms
    {
        columns.ttls.rows.push(number);
        columns.ttls.values.push(ttl);
    }
    if reads.headers {
        for header in &extra.headers {
            columns.headers.rows.push(number);
            push(&mut columns.headers.names, header.name.as_bytes());
            let kind = push_value(&mut columns.headers.values, &header.value);
            columns.headers.kinds.push(kind);
        }
    }
}

fn push_value(column: &mut BytesColumn, value: &HeaderValue) -> HeaderKind {
    match value {
        HeaderValue::Null => {
            push(column, &[]);
            HeaderKind::Null
        }
        HeaderValue::Bool(value) => {
            push(column, &[u8::from(*value)]);
            HeaderKind::Boolean
        }
        HeaderValue::Int(value) => {
            push(column, &value.to_le_bytes());
            HeaderKind::Int
        }
        HeaderValue::Double(value) => {
            push(column, &value.to_le_bytes());
            HeaderKind::Double
        }
        HeaderValue::String(value) => {
            push(column, value.as_bytes());
            HeaderKind::Text
        }
        HeaderValue::Bytes(value) => {
            push(column, value);
            HeaderKind::Bytes
        }
    }
}

/// A column ends at 4 GiB, which is past the memory of any guest: a longer one traps there, not here.
fn push(column: &mut BytesColumn, value: &[u8]) {
    column.data.extend_from_slice(value);
    column
        .ends
        .push(u32::try_from(column.data.len()).unwrap_or(u32::MAX));
}

fn push_sparse(column: &mut SparseBytes, row: u32, value: &[u8]) {
    column.rows.push(row);
    push(&mut column.values, value);
}

fn clear(columns: &mut types::Batch) {
    columns.destination.clear();
    columns.address.clear();
    columns.body_lengths.clear();
    clear_column(&mut columns.bodies);
    columns.null_bodies.clear();
    for column in [&mut columns.keys, &mut columns.ids] {
        column.rows.clear();
        clear_column(&mut column.values);
    }
    columns.headers.rows.clear();
    columns.headers.kinds.clear();
    clear_column(&mut columns.headers.names);
    clear_column(&mut columns.headers.values);
    for column in [&mut columns.delays, &mut columns.ttls] {
        column.rows.clear();
        column.values.clear();
    }
    columns.not_utf8.clear();
}

fn clear_column(column: &mut BytesColumn) {
    column.data.clear();
    column.ends.clear();
}

fn bytes_column() -> BytesColumn {
    BytesColumn {
        data: Vec::new(),
        ends: Vec::new(),
    }
}

fn sparse_bytes() -> SparseBytes {
    SparseBytes {
        rows: Vec::new(),
        values: bytes_column(),
    }
}

fn sparse_numbers() -> SparseNumbers {
    SparseNumbers {
        rows: Vec::new(),
        values: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluicegate_core::{Extra, Header, Message, Origin};

    use super::*;

    const ALL: Reads = Reads {
        body_lengths: true,
        bodies: true,
        keys: true,
        ids: true,
        headers: true,
        delays: true,
        ttls: true,
        body_utf8: true,
    };

    fn batch(messages: Vec<Message>) -> Batch {
        Batch {
            destination: "orders".into(),
            address: 0,
            body_bytes: messages.iter().map(Message::body_bytes).sum(),
            rows: messages
                .into_iter()
                .map(|message| Row {
                    message,
                    origin: Origin::default(),
                    accepted_at: Duration::ZERO,
                    attempts: 0,
                })
                .collect(),
            deadline: Duration::from_secs(30),
            receipts: true,
        }
    }

    /// A plain row, a null body with everything else, a body that is not UTF-8.
    fn mixed() -> Batch {
        let header = |name: &str, value| Header {
            name: name.into(),
            value,
        };
        let everything = Message {
            body: None,
            key: Some("k".into()),
            extra: Some(Box::new(Extra {
                headers: vec![
                    header("a", HeaderValue::Int(-1)),
                    header("a", HeaderValue::String("x".into())),
                ],
                id: Some("id-1".into()),
                delay_ms: Some(5),
                ttl_ms: Some(6),
                ..Extra::default()
            })),
        };
        batch(vec![
            Message::new("plain"),
            everything,
            Message::new(&b"\xff"[..]),
        ])
    }

    #[test]
    fn every_column_that_is_read_is_filled() {
        let mut lowering = Lowering::new(ALL);
        let columns = lowering.lower(&mixed(), b"addr", 77);
        assert_eq!(columns.destination, "orders");
        assert_eq!(columns.address, b"addr");
        assert_eq!(
            (columns.count, columns.receipts, columns.now_ms),
            (3, true, 77)
        );
        assert_eq!(columns.body_lengths, [5, 0, 1]);
        assert_eq!(columns.bodies.data, b"plain\xff");
        assert_eq!(columns.bodies.ends, [5, 5, 6]);
        assert_eq!(columns.null_bodies, [1]);
        assert_eq!(
            (&columns.keys.rows[..], &columns.keys.values.data[..]),
            (&[1][..], &b"k"[..])
        );
        assert_eq!(columns.ids.values.data, b"id-1");
        assert_eq!(columns.headers.rows, [1, 1]);
        assert_eq!(columns.headers.names.data, b"aa");
        assert_eq!(columns.headers.kinds, [HeaderKind::Int, HeaderKind::Text]);
        assert_eq!(columns.headers.values.ends, [8, 9]);
        assert_eq!(columns.delays.values, [5]);
        assert_eq!(columns.ttls.values, [6]);
        assert_eq!(columns.not_utf8, [2]);
    }

    #[test]
    fn columns_that_are_not_read_stay_empty_except_for_null_bodies() {
        let mut lowering = Lowering::new(Reads::default());
        let columns = lowering.lower(&mixed(), b"", 0);
        assert_eq!(columns.null_bodies, [1]);
        assert!(columns.body_lengths.is_empty() && columns.bodies.data.is_empty());
        assert!(columns.keys.rows.is_empty() && columns.ids.rows.is_empty());
        assert!(columns.headers.rows.is_empty() && columns.not_utf8.is_empty());
        assert!(columns.delays.rows.is_empty() && columns.ttls.rows.is_empty());
    }

    #[test]
    fn nothing_of_the_batch_before_is_left_in_the_next_one() {
        let mut lowering = Lowering::new(ALL);
        lowering.lower(&mixed(), b"addr", 1);
        let reused = lowering.lower(&batch(vec![Message::new("b")]), b"", 2);
        let mut fresh = Lowering::new(ALL);
        assert_eq!(reused, fresh.lower(&batch(vec![Message::new("b")]), b"", 2));
    }
}
