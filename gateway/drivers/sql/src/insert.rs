//! What a command says, in no dialect.
//!
//! A column names where its values come from and never holds a message's bytes: bodies and keys
//! are read from the batch itself when a statement is bound, so nothing is copied before the
//! client library copies it.

use sluicegate_core::{Message, Row};

/// One value of a statement or of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// A signed 64-bit integer.
    Integer(i64),
    /// A 64-bit float.
    Real(f64),
    /// UTF-8 text.
    Text(String),
    /// Any bytes.
    Blob(Vec<u8>),
}

/// Rows to be inserted in one transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// The table's name, unquoted, outermost part first.
    pub table: Vec<String>,
    /// The columns that are filled; the others get their default.
    pub columns: Vec<Column>,
}

/// A column, and what it is filled with.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Unquoted.
    pub name: String,
    /// Where its values come from.
    pub source: Source,
}

/// What a column is filled with.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The message's body, or NULL.
    Body,
    /// The message's key, or NULL.
    Key,
    /// The message's id, or NULL.
    Id,
    /// The same for every row.
    Constant(Value),
    /// Text for some of the rows, NULL for the others.
    Texts(SparseTexts),
}

/// Text for some of the rows of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparseTexts {
    /// Row numbers of the batch, ascending.
    pub rows: Vec<u32>,
    /// One entry for each of `rows`.
    pub values: Vec<String>,
}

impl SparseTexts {
    /// The text of a row.
    pub fn get(&self, row: u32) -> Option<&str> {
        let place = self.rows.binary_search(&row).ok()?;
        self.values.get(place).map(String::as_str)
    }

    /// Whether any row of the range has a text.
    fn any(&self, first: u32, count: usize) -> bool {
        let from = self.rows.partition_point(|row| *row < first);
        self.rows
            .get(from)
            .is_some_and(|row| ((row - first) as usize) < count)
    }
}

/// How a column is written into a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// Bound once a statement.
    Constant,
    /// Bound once a row.
    PerRow,
    /// Not bound: no row of the command has a value.
    Null,
}

impl Source {
    /// How the column is written for these rows, of which the first is row `first` of its batch.
    ///
    /// Most messages have no key, no id and no headers: a literal NULL in the statement is
    /// cheaper than a NULL bound for each row.
    pub fn slot(&self, rows: &[Row], first: u32) -> Slot {
        let present = match self {
            Self::Constant(_) => return Slot::Constant,
            Self::Body => rows.iter().any(|row| row.message.body.is_some()),
            Self::Key => rows.iter().any(|row| row.message.key.is_some()),
            Self::Id => rows.iter().any(|row| has_id(&row.message)),
            Self::Texts(texts) => texts.any(first, rows.len()),
        };
        if present { Slot::PerRow } else { Slot::Null }
    }
}

fn has_id(message: &Message) -> bool {
    message.id().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(message: Message) -> Row {
        Row {
            message,
            origin: sluicegate_core::Origin::default(),
            accepted_at: sluicegate_core::Time::ZERO,
            attempts: 0,
        }
    }

    #[test]
    fn a_column_that_no_row_fills_is_not_bound() {
        let rows = [row(Message::new("a")), row(Message::new("b"))];
        assert_eq!(Source::Key.slot(&rows, 0), Slot::Null);
        assert_eq!(Source::Id.slot(&rows, 0), Slot::Null);
        assert_eq!(Source::Body.slot(&rows, 0), Slot::PerRow);
        assert_eq!(Source::Constant(Value::Null).slot(&rows, 0), Slot::Constant);
    }

    #[test]
    fn texts_count_only_within_the_rows_of_the_command() {
        let texts = SparseTexts {
            rows: vec![3, 9],
            values: vec!["three".into(), "nine".into()],
        };
        assert!(texts.any(0, 4));
        assert!(!texts.any(4, 5));
        assert!(texts.any(4, 6));
        assert_eq!(texts.get(9), Some("nine"));
        assert_eq!(texts.get(4), None);
    }
}
