//! Binding a batch's rows to a statement.
//!
//! sqlx takes ownership of every value, so each body is copied once here (and once more by SQLite, for
//! which sqlx marks it as transient); nothing is copied before.

use sluicegate_core::Row;
use sqlx::Arguments as _;
use sqlx::sqlite::SqliteArguments;

use crate::error::SqlError;
use crate::insert::{Insert, Slot, Source, Value};

/// Binds `rows`, of which the first is row `first` of its batch.
pub(super) fn arguments(
    rows: &[Row],
    first: u32,
    insert: &Insert,
    slots: &[Slot],
    many: bool,
) -> Result<SqliteArguments, SqlError> {
    let mut bound = SqliteArguments::default();
    let columns = || insert.columns.iter().zip(slots);
    if !many {
        for (column, slot) in columns() {
            if let (Slot::Constant | Slot::PerRow, Some(row)) = (slot, rows.first()) {
                bind(&mut bound, &column.source, row, first)?;
            }
        }
        return Ok(bound);
    }
    let per_row = slots.iter().filter(|slot| **slot == Slot::PerRow).count();
    bound.reserve(1 + slots.len() + rows.len() * per_row, 0);
    let count = i64::try_from(rows.len()).unwrap_or(i64::MAX);
    add(&mut bound, count)?;
    for (column, slot) in columns() {
        if let (Slot::Constant, Some(row)) = (slot, rows.first()) {
            bind(&mut bound, &column.source, row, first)?;
        }
    }
    for (number, row) in (first..).zip(rows) {
        for (column, slot) in columns() {
            if *slot == Slot::PerRow {
                bind(&mut bound, &column.source, row, number)?;
            }
        }
    }
    Ok(bound)
}

/// Binds values, for a statement of the adapter's own.
pub(super) fn values(values: Vec<Value>) -> Result<SqliteArguments, SqlError> {
    let mut bound = SqliteArguments::default();
    for value in values {
        match value {
            Value::Null => add(&mut bound, None::<i64>),
            Value::Integer(value) => add(&mut bound, value),
            Value::Real(value) => add(&mut bound, value),
            Value::Text(value) => add(&mut bound, value),
            Value::Blob(value) => add(&mut bound, value),
        }?;
    }
    Ok(bound)
}

fn bind(
    bound: &mut SqliteArguments,
    source: &Source,
    row: &Row,
    number: u32,
) -> Result<(), SqlError> {
    match source {
        Source::Body => add(bound, row.message.body.as_deref()),
        Source::Key => add(bound, row.message.key.as_deref()),
        Source::Id => add(bound, row.message.id()),
        Source::Texts(texts) => add(bound, texts.get(number)),
        Source::Constant(Value::Null) => add(bound, None::<i64>),
        Source::Constant(Value::Integer(value)) => add(bound, *value),
        Source::Constant(Value::Real(value)) => add(bound, *value),
        Source::Constant(Value::Text(value)) => add(bound, value.as_str()),
        Source::Constant(Value::Blob(value)) => add(bound, value.as_slice()),
    }
}

fn add<'a, T>(bound: &mut SqliteArguments, value: T) -> Result<(), SqlError>
where
    T: sqlx::Encode<'a, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    sqlx::Arguments::add(bound, value).map_err(|error| SqlError::connection(error.to_string()))
}
