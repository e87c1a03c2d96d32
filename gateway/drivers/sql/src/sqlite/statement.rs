//! The text of an INSERT in SQLite's dialect.
//!
//! Two shapes. One row is `INSERT … VALUES (?, …)`. Many rows are
//!
//! ```sql
//! WITH k(n, c1) AS (SELECT ?, ?)
//! INSERT INTO "t" ("queue", "body", "key") SELECT (SELECT c1 FROM k), column1, NULL
//! FROM (VALUES (?), (?), …) LIMIT (SELECT n FROM k)
//! ```
//!
//! so that what is the same for every row is bound once, and one prepared statement of a few sizes
//! serves any number of rows: SQLite runs VALUES as a coroutine and never reaches the places beyond
//! LIMIT. A batch is therefore one statement, hence one trip to the client library's thread (about
//! 90 µs here) and no BEGIN or COMMIT. `examples/insert_rate.rs` prints the rates of the
//! alternatives.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use crate::insert::{Insert, Slot};

/// How many rows a statement has room for. A step costs one preparation and its memory (0.5 µs and
/// about 150 bytes a row), and resetting a statement costs a few ns for each place, used or not.
const STEPS: [usize; 6] = [1, 8, 64, 512, 2_048, 8_000];

/// SQLite's own limit on parameters of one statement, as it is compiled by default.
const MAX_PARAMETERS: usize = 32_766;

/// Texts kept, one for each shape and step; beyond them all are forgotten, which costs only building
/// them again. A destination has at most eight shapes (with and without keys, ids and headers).
const MAX_TEXTS: usize = 64;

/// What a statement depends on besides its number of rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    table: Vec<String>,
    columns: Vec<(String, Slot)>,
}

impl Shape {
    pub(crate) fn new(insert: &Insert, slots: &[Slot]) -> Self {
        Self {
            table: insert.table.clone(),
            columns: insert
                .columns
                .iter()
                .zip(slots)
                .map(|(column, slot)| (column.name.clone(), *slot))
                .collect(),
        }
    }

    fn count(&self, wanted: Slot) -> usize {
        self.columns
            .iter()
            .filter(|(_, slot)| *slot == wanted)
            .count()
    }

    /// The most rows that one statement of this shape can take.
    pub(crate) fn max_rows(&self) -> usize {
        let room = MAX_PARAMETERS.saturating_sub(1 + self.count(Slot::Constant));
        let largest = STEPS.into_iter().max().unwrap_or(1);
        (room / self.count(Slot::PerRow).max(1)).clamp(1, largest)
    }

    /// How many rows the statement for `rows` rows has room for.
    fn step(&self, rows: usize) -> usize {
        STEPS
            .into_iter()
            .find(|step| *step >= rows)
            .unwrap_or(rows)
            .min(self.max_rows())
    }

    fn text(&self, step: usize) -> String {
        let mut text = String::with_capacity(256 + step * 4 * self.count(Slot::PerRow).max(1));
        if step > 1 {
            text.push_str("WITH k(n");
            for number in 1..=self.count(Slot::Constant) {
                let _ = write!(text, ", c{number}");
            }
            text.push_str(") AS (SELECT ?");
            for _ in 0..self.count(Slot::Constant) {
                text.push_str(", ?");
            }
            text.push_str(") ");
        }
        text.push_str("INSERT INTO ");
        push_list(&mut text, ".", self.table.iter().map(|part| quoted(part)));
        text.push_str(" (");
        push_list(
            &mut text,
            ", ",
            self.columns.iter().map(|(name, _)| quoted(name)),
        );
        text.push(')');
        if step == 1 {
            text.push_str(" VALUES (");
            push_list(
                &mut text,
                ", ",
                self.columns.iter().map(|(_, slot)| match slot {
                    Slot::Null => "NULL".to_owned(),
                    Slot::Constant | Slot::PerRow => "?".to_owned(),
                }),
            );
            text.push(')');
            return text;
        }
        text.push_str(" SELECT ");
        let (mut constant, mut per_row) = (0, 0);
        push_list(
            &mut text,
            ", ",
            self.columns.iter().map(|(_, slot)| match slot {
                Slot::Null => "NULL".to_owned(),
                Slot::Constant => {
                    constant += 1;
                    format!("(SELECT c{constant} FROM k)")
                }
                Slot::PerRow => {
                    per_row += 1;
                    format!("column{per_row}")
                }
            }),
        );
        text.push_str(" FROM (VALUES ");
        // A command that fills nothing by row still inserts its rows.
        let places = match per_row {
            0 => "(0)".to_owned(),
            n => format!("({})", vec!["?"; n].join(",")),
        };
        push_list(&mut text, ",", std::iter::repeat_n(places, step));
        text.push_str(") LIMIT (SELECT n FROM k)");
        text
    }
}

/// A name as SQLite reads it literally, whatever is in it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn push_list(text: &mut String, separator: &str, parts: impl Iterator<Item = String>) {
    for (place, part) in parts.enumerate() {
        if place > 0 {
            text.push_str(separator);
        }
        text.push_str(&part);
    }
}

/// Statements written so far. Their texts are shared, not copied: the client library finds its
/// prepared statement by text.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    texts: HashMap<(Shape, usize), Arc<str>>,
}

/// A statement for some rows.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) text: SqlStr,
    /// Whether it has the shape for many rows: the number of rows and the constants are bound first.
    pub(crate) many: bool,
}

impl Statements {
    pub(crate) fn get(&mut self, shape: &Shape, rows: usize) -> Statement {
        let step = shape.step(rows);
        if self.texts.len() >= MAX_TEXTS {
            self.texts.clear();
        }
        let text = self
            .texts
            .entry((shape.clone(), step))
            .or_insert_with(|| shape.text(step).into());
        Statement {
            text: AssertSqlSafe(Arc::clone(text)).into_sql_str(),
            many: step > 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(columns: &[(&str, Slot)]) -> Shape {
        Shape {
            table: vec!["messages".to_owned()],
            columns: columns
                .iter()
                .map(|(name, slot)| ((*name).to_owned(), *slot))
                .collect(),
        }
    }

    #[test]
    fn one_row_is_a_plain_insert() {
        let shape = shape(&[
            ("queue", Slot::Constant),
            ("key", Slot::Null),
            ("body", Slot::PerRow),
        ]);
        assert_eq!(
            shape.text(1),
            r#"INSERT INTO "messages" ("queue", "key", "body") VALUES (?, NULL, ?)"#
        );
    }

    #[test]
    fn many_rows_bind_constants_once_and_are_cut_by_a_limit() {
        let shape = shape(&[
            ("queue", Slot::Constant),
            ("headers", Slot::PerRow),
            ("key", Slot::Null),
            ("body", Slot::PerRow),
        ]);
        assert_eq!(
            shape.text(2),
            r#"WITH k(n, c1) AS (SELECT ?, ?) INSERT INTO "messages" ("queue", "headers", "key", "body") SELECT (SELECT c1 FROM k), column1, NULL, column2 FROM (VALUES (?,?),(?,?)) LIMIT (SELECT n FROM k)"#
        );
    }

    #[test]
    fn names_are_quoted_whatever_is_in_them() {
        assert_eq!(quoted("messages"), r#""messages""#);
        assert_eq!(
            quoted(r#"x"; DROP TABLE y; --"#),
            r#""x""; DROP TABLE y; --""#
        );
    }

    #[test]
    fn a_statement_never_has_more_parameters_than_sqlite_takes() {
        for per_row in 0..12 {
            let columns: Vec<_> = std::iter::repeat_n(("c", Slot::PerRow), per_row)
                .chain([("q", Slot::Constant), ("t", Slot::Constant)])
                .collect();
            let shape = shape(&columns);
            let most = shape.max_rows();
            assert!(most >= 1);
            assert!(3 + most * per_row <= MAX_PARAMETERS);
            assert!(shape.step(most) == most);
        }
    }

    #[test]
    fn a_statement_has_room_for_the_rows_it_is_asked_for() {
        let shape = shape(&[("body", Slot::PerRow)]);
        for rows in [1, 2, 8, 9, 64, 500, 513, 2_049, 8_000] {
            assert!(shape.step(rows) >= rows);
        }
        assert_eq!(shape.step(1), 1);
    }

    #[test]
    fn texts_are_shared_and_bounded() {
        let mut statements = Statements::default();
        for table in 0..200 {
            let shape = Shape {
                table: vec![format!("t{table}")],
                columns: vec![("body".to_owned(), Slot::PerRow)],
            };
            let first = statements.get(&shape, 5);
            assert_eq!(first.text.as_str(), statements.get(&shape, 7).text.as_str());
            assert!(statements.texts.len() <= MAX_TEXTS);
        }
    }
}
