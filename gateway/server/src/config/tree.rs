//! The configuration before anyone knows what it means: tables of values, each with its origin.
//!
//! Files and environment variables end up in the same tree, so that every later check has one input
//! and its errors can say where each value came from.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::error::{Origin, Problem};

/// A table, by key.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) origin: Origin,
    pub(crate) entries: BTreeMap<String, Node>,
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) origin: Origin,
    pub(crate) value: Value,
}

/// What TOML knows, as far as the configuration uses it.
#[derive(Clone)]
pub(crate) enum Value {
    Text(String),
    /// From an environment variable: it is what the setting that reads it wants it to be.
    Raw(String),
    Integer(i128),
    Boolean(bool),
    /// As it was written.
    Float(String),
    Array,
    Table(Table),
}

// Values may be secrets that someone wrote inline: they are never shown.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(table) => table.fmt(f),
            other => f.write_str(other.kind()),
        }
    }
}

impl Value {
    /// What it is, for errors.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) | Self::Raw(_) => "a text",
            Self::Integer(_) => "an integer",
            Self::Boolean(_) => "true or false",
            Self::Float(_) => "a number with a fraction",
            Self::Array => "a list",
            Self::Table(_) => "a table",
        }
    }
}

impl Table {
    /// An empty one.
    pub(crate) fn new(origin: Origin) -> Self {
        Self {
            origin,
            entries: BTreeMap::new(),
        }
    }

    /// Takes a value out: what is left in the end is unknown.
    pub(crate) fn take(&mut self, key: &str) -> Option<Node> {
        self.entries.remove(key)
    }

    /// Parses a file's text.
    pub(crate) fn parse(text: &str, file: &Arc<Path>) -> Result<Self, Problem> {
        let lines = Lines { text, file };
        match DeTable::parse(text) {
            Ok(table) => Ok(lines.table(table.get_ref(), lines.origin(0))),
            Err(error) => Err(lines.problem(&error)),
        }
    }
}

struct Lines<'a> {
    text: &'a str,
    file: &'a Arc<Path>,
}

impl Lines<'_> {
    fn origin(&self, offset: usize) -> Origin {
        let before = self.text.as_bytes().get(..offset).unwrap_or_default();
        Origin::File {
            file: Arc::clone(self.file),
            line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
        }
    }

    fn table(&self, table: &DeTable<'_>, origin: Origin) -> Table {
        Table {
            origin,
            entries: table
                .iter()
                .map(|(key, value)| {
                    // The key's own line: a table's value begins at its first entry.
                    let origin = self.origin(key.span().start);
                    let value = self.value(value.get_ref(), &origin);
                    (key.get_ref().to_string(), Node { origin, value })
                })
                .collect(),
        }
    }

    fn value(&self, value: &DeValue<'_>, origin: &Origin) -> Value {
        match value {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(integer) => {
                match i128::from_str_radix(integer.as_str(), integer.radix()) {
                    Ok(integer) => Value::Integer(integer),
                    // Beyond any number that a setting takes: refused as what it is.
                    Err(_) => Value::Float(integer.as_str().to_owned()),
                }
            }
            DeValue::Float(float) => Value::Float(float.as_str().to_owned()),
            DeValue::Boolean(boolean) => Value::Boolean(*boolean),
            DeValue::Datetime(datetime) => Value::Text(datetime.to_string()),
            DeValue::Array(_) => Value::Array,
            DeValue::Table(table) => Value::Table(self.table(table, origin.clone())),
        }
    }

    /// A key with the tables that it is in, of which the parser names only the last part.
    fn whole_key(&self, span: Range<usize>) -> String {
        let last = self.text.get(span.clone()).unwrap_or("a key").trim();
        let before = self.text.get(..span.end).unwrap_or_default();
        let (above, line) = before.rsplit_once('\n').unwrap_or(("", before));
        if let Some(header) = line.trim_start().strip_prefix('[') {
            return header.trim_start_matches('[').trim().to_owned();
        }
        // Within an inline table: the line has other keys too.
        if line.contains('=') {
            return last.to_owned();
        }
        let header = above
            .lines()
            .rev()
            .find_map(|line| line.trim_start().strip_prefix('[')?.split_once(']'));
        match header {
            Some((header, _)) => format!("{header}.{}", line.trim()),
            None => line.trim().to_owned(),
        }
    }

    fn problem(&self, error: &toml::de::Error) -> Problem {
        let span = error.span().unwrap_or(0..0);
        let origin = self.origin(span.start);
        let message = error.message().trim().replace('\n', ", ");
        if message.starts_with("duplicate key") {
            let key = self.whole_key(span);
            return Problem::new(
                &origin,
                key,
                "it is given twice",
                "keep one of the two, or give them different names",
            );
        }
        Problem::new(
            &origin,
            "syntax",
            message,
            "write TOML, as `sluicegate config` prints it",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Table, Problem> {
        Table::parse(text, &Path::new("f.toml").into())
    }

    fn line(node: &Node) -> usize {
        match node.origin {
            Origin::File { line, .. } => line,
            _ => 0,
        }
    }

    #[test]
    fn each_value_knows_its_line() {
        let table = parse("a = 1\n\n[b]\nc = \"x\"\nd.e = true\n").unwrap();
        assert_eq!(line(&table.entries["a"]), 1);
        let Value::Table(b) = &table.entries["b"].value else {
            panic!()
        };
        assert_eq!(line(&table.entries["b"]), 3);
        assert_eq!(line(&b.entries["c"]), 4);
        assert_eq!(line(&b.entries["d"]), 5);
    }

    #[test]
    fn a_key_given_twice_is_named_with_the_line_of_the_second() {
        for (text, key) in [
            (
                "[destinations.a]\nx = 1\n[destinations.a]\nx = 2\n",
                "f.toml:3: destinations.a: ",
            ),
            ("[d.\"a*\"]\n  [d.\"a*\"] # again\n", "f.toml:2: d.\"a*\": "),
            ("[d.a]\nx = 1\nx = 2\n", "f.toml:3: d.a.x: "),
            ("x = 1\nx = 2\n", "f.toml:2: x: "),
            ("x = { a = 1, a = 2 }\n", "f.toml:1: a: "),
        ] {
            let problem = parse(text).unwrap_err().to_string();
            let rest = "it is given twice; keep one of the two, or give them different names";
            assert_eq!(problem, format!("{key}{rest}"));
        }
    }

    #[test]
    fn a_syntax_error_shows_its_line_and_not_the_text_of_it() {
        let problem = parse("a = 1\npassword = hunter2\n")
            .unwrap_err()
            .to_string();
        assert!(problem.starts_with("f.toml:2: syntax: "), "{problem}");
        assert!(!problem.contains("hunter2"), "{problem}");
    }

    #[test]
    fn a_value_is_never_shown_by_debug() {
        let table = parse("password = \"hunter2\"").unwrap();
        assert!(!format!("{table:?}").contains("hunter2"));
    }
}
