//! Reading columns, and making them.
//!
//! Invariant of every sparse column: row numbers ascend, and `rows` and `values` have one length. The
//! gateway keeps it; the iterators here stop at the shorter one rather than fail.

use std::iter::Peekable;

use crate::{BytesColumn, HeaderColumns, HeaderKind, SparseBytes, SparseNumbers};

// === impl BytesColumn ===

impl BytesColumn {
    /// A column without entries.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            data: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Adds an entry. A column holds at most 4 GiB.
    pub fn push(&mut self, value: &[u8]) {
        self.data.extend_from_slice(value);
        self.ends
            .push(u32::try_from(self.data.len()).unwrap_or(u32::MAX));
    }

    /// The entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let end = end as usize;
            let value = self.data.get(start..end).unwrap_or_default();
            start = end;
            value
        })
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for BytesColumn {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut column = Self::empty();
        for value in values {
            column.push(value.as_ref());
        }
        column
    }
}

// === impl SparseBytes ===

impl SparseBytes {
    /// A column without entries.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            rows: Vec::new(),
            values: BytesColumn::empty(),
        }
    }

    /// Adds an entry; rows ascend.
    pub fn push(&mut self, row: u32, value: &[u8]) {
        self.rows.push(row);
        self.values.push(value);
    }

    /// Rows that have a value, ascending, with it.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.rows.iter().copied().zip(self.values.iter())
    }
}

// === impl SparseNumbers ===

impl SparseNumbers {
    /// A column without entries.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            rows: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Rows that have a value, ascending, with it.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        self.rows.iter().copied().zip(self.values.iter().copied())
    }
}

// === impl HeaderColumns ===

/// A header of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Header<'a> {
    /// Not empty.
    pub name: &'a str,
    /// Its typed value.
    pub value: HeaderValue<'a>,
}

/// The value of a header.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HeaderValue<'a> {
    /// Present, without a value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed 64-bit integer.
    Int(i64),
    /// A 64-bit float.
    Double(f64),
    /// UTF-8 text.
    Text(&'a str),
    /// Any bytes.
    Bytes(&'a [u8]),
}

/// The headers of one row, in the application's order.
#[derive(Clone, Debug, PartialEq)]
pub struct Headers<'a> {
    /// Whose they are.
    pub row: u32,
    /// At least one.
    pub headers: Vec<Header<'a>>,
}

impl HeaderColumns {
    /// Columns without entries.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            rows: Vec::new(),
            names: BytesColumn::empty(),
            kinds: Vec::new(),
            values: BytesColumn::empty(),
        }
    }

    /// Adds a header; rows ascend. For tests: an adapter only reads headers.
    pub fn push(&mut self, row: u32, name: &str, value: HeaderValue<'_>) {
        self.rows.push(row);
        self.names.push(name.as_bytes());
        let kind = match value {
            HeaderValue::Null => {
                self.values.push(&[]);
                HeaderKind::Null
            }
            HeaderValue::Bool(value) => {
                self.values.push(&[u8::from(value)]);
                HeaderKind::Boolean
            }
            HeaderValue::Int(value) => {
                self.values.push(&value.to_le_bytes());
                HeaderKind::Int
            }
            HeaderValue::Double(value) => {
                self.values.push(&value.to_le_bytes());
                HeaderKind::Double
            }
            HeaderValue::Text(value) => {
                self.values.push(value.as_bytes());
                HeaderKind::Text
            }
            HeaderValue::Bytes(value) => {
                self.values.push(value);
                HeaderKind::Bytes
            }
        };
        self.kinds.push(kind);
    }

    /// Every header with its row, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Header<'_>)> {
        self.rows
            .iter()
            .zip(self.names.iter())
            .zip(self.kinds.iter().zip(self.values.iter()))
            .map(|((&row, name), (&kind, value))| (row, header(name, kind, value)))
    }

    /// The rows that have headers, ascending, each with all of its own.
    pub fn by_row(&self) -> impl Iterator<Item = Headers<'_>> {
        ByRow(self.iter().peekable())
    }
}

struct ByRow<I: Iterator>(Peekable<I>);

impl<'a, I: Iterator<Item = (u32, Header<'a>)>> Iterator for ByRow<I> {
    type Item = Headers<'a>;

    fn next(&mut self) -> Option<Headers<'a>> {
        let (row, first) = self.0.next()?;
        let mut headers = vec![first];
        while let Some((_, header)) = self.0.next_if(|(next, _)| *next == row) {
            headers.push(header);
        }
        Some(Headers { row, headers })
    }
}

/// The gateway writes names and texts as UTF-8 and numbers in eight bytes; anything else is read as what
/// comes nearest, since a panic here would blame the row.
fn header<'a>(name: &'a [u8], kind: HeaderKind, value: &'a [u8]) -> Header<'a> {
    let number = || <[u8; 8]>::try_from(value).unwrap_or_default();
    Header {
        name: std::str::from_utf8(name).unwrap_or_default(),
        value: match kind {
            HeaderKind::Null => HeaderValue::Null,
            HeaderKind::Boolean => HeaderValue::Bool(value.first().is_some_and(|byte| *byte != 0)),
            HeaderKind::Int => HeaderValue::Int(i64::from_le_bytes(number())),
            HeaderKind::Double => HeaderValue::Double(f64::from_le_bytes(number())),
            HeaderKind::Text => {
                std::str::from_utf8(value).map_or(HeaderValue::Bytes(value), HeaderValue::Text)
            }
            HeaderKind::Bytes => HeaderValue::Bytes(value),
        },
    }
}

// === impl Batch ===

impl crate::Batch {
    /// A batch of `count` rows with no column filled. For tests: the gateway makes an adapter's batches.
    #[must_use]
    pub fn of(count: u32) -> Self {
        Self {
            destination: String::new(),
            address: Vec::new(),
            count,
            receipts: false,
            now_ms: 0,
            body_lengths: Vec::new(),
            bodies: BytesColumn::empty(),
            null_bodies: Vec::new(),
            keys: SparseBytes::empty(),
            ids: SparseBytes::empty(),
            headers: HeaderColumns::empty(),
            delays: SparseNumbers::empty(),
            ttls: SparseNumbers::empty(),
            not_utf8: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bytes_column_gives_back_what_was_pushed() {
        let column: BytesColumn = ["a", "", "ccc"].into_iter().collect();
        let values: Vec<&[u8]> = column.iter().collect();
        assert_eq!(values, [&b"a"[..], b"", b"ccc"]);
    }

    #[test]
    fn a_sparse_column_pairs_values_with_their_rows() {
        let mut column = SparseBytes::empty();
        column.push(3, b"x");
        column.push(9, b"yz");
        let entries: Vec<_> = column.iter().collect();
        assert_eq!(entries, [(3, &b"x"[..]), (9, b"yz")]);
    }

    #[test]
    fn headers_come_back_by_row_in_order_and_typed() {
        let given = [
            (2, "n", HeaderValue::Null),
            (2, "n", HeaderValue::Bool(true)),
            (2, "i", HeaderValue::Int(-7)),
            (5, "d", HeaderValue::Double(0.5)),
            (5, "t", HeaderValue::Text("é")),
            (8, "b", HeaderValue::Bytes(&[0, 255])),
        ];
        let mut columns = HeaderColumns::empty();
        for (row, name, value) in given {
            columns.push(row, name, value);
        }

        let rows: Vec<Headers<'_>> = columns.by_row().collect();
        let numbers: Vec<(u32, usize)> = rows
            .iter()
            .map(|row| (row.row, row.headers.len()))
            .collect();
        assert_eq!(numbers, [(2, 3), (5, 2), (8, 1)]);

        let flat: Vec<_> = columns
            .iter()
            .map(|(row, header)| (row, header.name, header.value))
            .collect();
        assert_eq!(flat, given);
    }
}
