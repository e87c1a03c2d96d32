//! Opening a destination: its table is created or looked at, and what it lacks is said.

use std::fmt::Write as _;

use sluicegate_adapter::sql::{Answer, Statement, Value};
use sluicegate_adapter::{
    Capabilities, Destination, Failure, FailureClass, Limits, OpenedDestination, Strength,
};

use crate::address::Address;
use crate::policy::{self, Database, Meaning};
use crate::table::{RECEIPT_COLUMN, Table, quoted};

/// Rows of one batch, which is one transaction: enough for a commit's wait for the disk to be a small part
/// of it, and as many as fit one statement with a key, an id and headers each.
const BATCH_MESSAGES: u32 = 8_000;

/// Bodies of one batch. SQLite's client copies them twice, so this is also a bound on memory; at some hundred
/// megabytes a second it is some ten milliseconds of work for one commit.
const BATCH_BYTES: u64 = 8 << 20;

/// One body. SQLite itself takes up to 10⁹ bytes, which nobody wants to read back from a row.
const BODY_BYTES: u64 = 64 << 20;

/// The statements of `open`, in their order.
#[derive(Clone, Copy)]
enum Ask {
    Create,
    Columns,
    Kind,
    Keys,
    Triggers,
    Synchronous,
    Journal,
    Version,
    Write,
}

const ASKED: [Ask; 9] = [
    Ask::Create,
    Ask::Columns,
    Ask::Kind,
    Ask::Keys,
    Ask::Triggers,
    Ask::Synchronous,
    Ask::Journal,
    Ask::Version,
    Ask::Write,
];

pub(crate) fn statements(table: &Table) -> Vec<Statement> {
    ASKED.iter().map(|ask| statement(*ask, table)).collect()
}

fn statement(ask: Ask, table: &Table) -> Statement {
    let named = |text: &str| Statement {
        text: text.to_owned(),
        parameters: vec![Value::Text(table.name.clone())],
    };
    let plain = |text: String| Statement {
        text,
        parameters: vec![],
    };
    match ask {
        Ask::Create if table.create => plain(table.creation()),
        // Whether the database can be read at all.
        Ask::Create => plain("SELECT count(*) FROM sqlite_schema".to_owned()),
        Ask::Columns => {
            named("SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_info(?)")
        }
        Ask::Kind => named(
            "SELECT l.type, l.wr, s.sql FROM pragma_table_list AS l LEFT JOIN sqlite_schema AS s \
             ON s.name = l.name WHERE l.schema = 'main' AND l.name = ? COLLATE NOCASE",
        ),
        // An INTEGER PRIMARY KEY that is the row's id has no index of its own.
        Ask::Keys => named("SELECT count(*) FROM pragma_index_list(?) WHERE origin = 'pk'"),
        Ask::Triggers => named(
            "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE",
        ),
        Ask::Synchronous => plain("PRAGMA synchronous".to_owned()),
        Ask::Journal => plain("PRAGMA journal_mode".to_owned()),
        Ask::Version => plain("SELECT sqlite_version()".to_owned()),
        // Changes nothing, and fails if the database may only be read.
        Ask::Write => {
            let (name, body) = (quoted(&table.name), quoted(&table.body));
            plain(format!("UPDATE {name} SET {body} = {body} WHERE 0"))
        }
    }
}

/// A column as the database has it.
#[derive(Debug)]
struct Column<'a> {
    name: &'a str,
    kind: &'a str,
    not_null: bool,
    has_default: bool,
    primary: bool,
}

pub(crate) fn opened(
    database: &Database,
    destination: &Destination,
    table: &Table,
    answers: &[Answer],
) -> Result<OpenedDestination, Failure> {
    let refuse = |error| refusal(destination, policy::meaning(database, &table.name, error));
    let answer = |wanted: Ask| answers.get(wanted as usize);

    if let Some(Err(error)) = answer(Ask::Create) {
        return Err(refuse(error));
    }
    let columns = match answer(Ask::Columns) {
        Some(Ok(rows)) => rows.iter().filter_map(|row| column(row)).collect(),
        Some(Err(error)) => return Err(refuse(error)),
        None => Vec::new(),
    };
    check(database, destination, table, &columns)?;
    if let Some(Err(error)) = answer(Ask::Write) {
        // A lock passes, and whoever comes to send waits for it; what does not pass is better said now.
        let failure = refuse(error);
        if !failure.retryable {
            return Err(failure);
        }
    }

    let kind = first_row(answer(Ask::Kind));
    let is_table = text(kind, 0) == Some("table");
    let has_row_ids = is_table && integer(kind, 1) == Some(0);
    let autoincrement = text(kind, 2).is_some_and(|sql| {
        sql.to_ascii_uppercase()
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| word == "AUTOINCREMENT")
    });
    let triggers = integer(first_row(answer(Ask::Triggers)), 0) != Some(0);
    let own_key = integer(first_row(answer(Ask::Keys)), 0) != Some(0);
    let receipts = has_row_ids
        && !triggers
        && !own_key
        && table
            .receipt
            .as_deref()
            .is_some_and(|name| is_row_id(&columns, name));
    let null_body = columns
        .iter()
        .any(|column| column.name.eq_ignore_ascii_case(&table.body) && !column.not_null);
    // 2 is FULL, 3 EXTRA.
    let synchronous = integer(first_row(answer(Ask::Synchronous)), 0);
    let strength = if synchronous.is_some_and(|level| level >= 2) {
        Strength::Fsynced
    } else {
        Strength::Written
    };

    let mut facts = vec![
        ("database".to_owned(), database.path().to_owned()),
        ("table".to_owned(), table.name.clone()),
    ];
    if table.queue_column.is_some() {
        facts.push(("queue".to_owned(), table.queue.clone()));
    }
    facts.push((
        "receipts".to_owned(),
        match (&table.receipt, receipts) {
            (None, _) => "none: `receipt_column` is empty".to_owned(),
            (Some(name), true) if autoincrement => format!("{name}, never used twice"),
            (Some(name), true) => {
                format!("{name}; without AUTOINCREMENT, ids of the newest rows are used again once those are deleted")
            }
            (Some(name), false) => {
                format!("none: {name} is not the id of a row in a table without triggers")
            }
        },
    ));
    for (name, ask) in [("journal", Ask::Journal), ("sqlite", Ask::Version)] {
        if let Some(value) = text(first_row(answer(ask)), 0) {
            facts.push((name.to_owned(), value.to_owned()));
        }
    }

    Ok(OpenedDestination {
        address: Address::of(table, receipts).encode(),
        limits: Limits {
            batch_messages: BATCH_MESSAGES,
            batch_bytes: BATCH_BYTES,
            body_bytes: BODY_BYTES,
        },
        capabilities: Capabilities {
            key: table.key.is_some(),
            headers: table.headers.is_some(),
            id: table.id.is_some(),
            null_body,
            receipts,
            ..Capabilities::NONE
        },
        strength,
        facts,
    })
}

/// Whether the table has what is configured, and nothing that no message could satisfy.
fn check(
    database: &Database,
    destination: &Destination,
    table: &Table,
    columns: &[Column<'_>],
) -> Result<(), Failure> {
    let (name, path) = (&table.name, database.path());
    if columns.is_empty() {
        let reason = format!(
            "there is no table `{name}` in {path}: create it, set `create_table = true`, or name another with `table`"
        );
        return Err(about(
            destination,
            Failure::fatal(FailureClass::NotFound, reason),
        ));
    }
    for (key, wanted) in table.columns() {
        // Receipts are not written: without their column there are none.
        if key == RECEIPT_COLUMN
            || columns
                .iter()
                .any(|have| have.name.eq_ignore_ascii_case(wanted))
        {
            continue;
        }
        let mut reason = format!("the table `{name}` in {path} has no column `{wanted}` (it has ");
        for (place, have) in columns.iter().enumerate() {
            let _ = write!(
                reason,
                "{}`{}`",
                if place > 0 { ", " } else { "" },
                have.name
            );
        }
        let _ = write!(reason, "): add it, or name another with `{key}`");
        if wanted != table.body {
            let _ = write!(reason, ", or switch it off with `{key} = \"\"`");
        }
        return Err(about(
            destination,
            Failure::fatal(FailureClass::NotFound, reason),
        ));
    }
    let unfilled = columns.iter().find(|have| {
        have.not_null
            && !have.has_default
            && !have.primary
            && !table
                .columns()
                .any(|(_, filled)| filled.eq_ignore_ascii_case(have.name))
    });
    if let Some(column) = unfilled {
        let reason = format!(
            "the column `{}` of the table `{name}` in {path} is NOT NULL, has no default, and nothing fills it: give it a default, or name it in one of the destination's settings",
            column.name
        );
        return Err(about(
            destination,
            Failure::fatal(FailureClass::Invalid, reason),
        ));
    }
    Ok(())
}

/// Whether a column is the table's INTEGER PRIMARY KEY, and so its row id.
fn is_row_id(columns: &[Column<'_>], name: &str) -> bool {
    let mut keys = columns.iter().filter(|column| column.primary);
    match (keys.next(), keys.next()) {
        (Some(key), None) => {
            key.name.eq_ignore_ascii_case(name) && key.kind.eq_ignore_ascii_case("INTEGER")
        }
        _ => false,
    }
}

fn refusal(destination: &Destination, meaning: Meaning) -> Failure {
    about(destination, meaning.into_failure())
}

fn about(destination: &Destination, failure: Failure) -> Failure {
    let name = destination.name.escape_debug();
    Failure {
        reason: format!("destination `{name}`: {}", failure.reason),
        ..failure
    }
}

fn column(row: &[Value]) -> Option<Column<'_>> {
    let row = Some(row);
    Some(Column {
        name: text(row, 0)?,
        kind: text(row, 1).unwrap_or_default(),
        not_null: integer(row, 2) != Some(0),
        has_default: !matches!(row?.get(3), None | Some(Value::Null)),
        primary: integer(row, 4) != Some(0),
    })
}

fn first_row(answer: Option<&Answer>) -> Option<&[Value]> {
    answer?.as_ref().ok()?.first().map(Vec::as_slice)
}

fn text(row: Option<&[Value]>, place: usize) -> Option<&str> {
    match row?.get(place)? {
        Value::Text(value) => Some(value),
        _ => None,
    }
}

fn integer(row: Option<&[Value]>, place: usize) -> Option<i64> {
    match row?.get(place)? {
        Value::Integer(value) => Some(*value),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
