//! Between the contract's types and the driver's own.

use crate::bindings::exports::sluicegate::adapter::sql_driver as wit;
use crate::error::{SqlError, Stage};
use crate::insert::{Column, Insert, Source, SparseTexts, Value};

impl From<wit::Insert> for Insert {
    fn from(insert: wit::Insert) -> Self {
        Self {
            table: insert.table,
            columns: insert.columns.into_iter().map(Column::from).collect(),
        }
    }
}

impl From<wit::Column> for Column {
    fn from(column: wit::Column) -> Self {
        Self {
            name: column.name,
            source: match column.source {
                wit::Source::Body => Source::Body,
                wit::Source::Key => Source::Key,
                wit::Source::Id => Source::Id,
                wit::Source::Constant(value) => Source::Constant(value.into()),
                wit::Source::Texts(texts) => Source::Texts(SparseTexts {
                    rows: texts.rows,
                    values: texts.values,
                }),
            },
        }
    }
}

impl From<wit::Value> for Value {
    fn from(value: wit::Value) -> Self {
        match value {
            wit::Value::Null => Self::Null,
            wit::Value::Integer(value) => Self::Integer(value),
            wit::Value::Real(value) => Self::Real(value),
            wit::Value::Text(value) => Self::Text(value),
            wit::Value::Blob(value) => Self::Blob(value),
        }
    }
}

impl From<Value> for wit::Value {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(value) => Self::Integer(value),
            Value::Real(value) => Self::Real(value),
            Value::Text(value) => Self::Text(value),
            Value::Blob(value) => Self::Blob(value),
        }
    }
}

impl From<SqlError> for wit::SqlError {
    fn from(error: SqlError) -> Self {
        Self {
            code: error.code,
            primary_code: error.primary,
            message: error.message,
            stage: match error.stage {
                Stage::NotStored => wit::Stage::NotStored,
                Stage::Committing => wit::Stage::Committing,
            },
        }
    }
}

/// What a statement of `open` gave.
pub(crate) fn answer(result: Result<Vec<Vec<Value>>, SqlError>) -> wit::Answer {
    match result {
        Ok(rows) => Ok(rows
            .into_iter()
            .map(|row| row.into_iter().map(wit::Value::from).collect())
            .collect()),
        Err(error) => Err(error.into()),
    }
}
