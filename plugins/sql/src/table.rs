//! The table of a destination, as it is configured.
//!
//! Invariant: a name that is used in a statement is quoted, and two settings never name one column.

use sluicegate_adapter::{Destination, Failure, FailureClass};

pub(crate) const TABLE: &str = "table";
pub(crate) const RECEIPT_COLUMN: &str = "receipt_column";
pub(crate) const QUEUE_COLUMN: &str = "queue_column";
pub(crate) const ID_COLUMN: &str = "id_column";
pub(crate) const KEY_COLUMN: &str = "key_column";
pub(crate) const HEADERS_COLUMN: &str = "headers_column";
pub(crate) const BODY_COLUMN: &str = "body_column";
pub(crate) const CREATED_AT_COLUMN: &str = "created_at_column";

/// What the names of SQLite's own tables begin with; no other may.
const RESERVED: &str = "sqlite_";

fn has_prefix(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// The table of a destination. A column that is `None` is switched off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) name: String,
    /// What the queue column holds.
    pub(crate) queue: String,
    pub(crate) create: bool,
    pub(crate) receipt: Option<String>,
    pub(crate) queue_column: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) headers: Option<String>,
    pub(crate) body: String,
    pub(crate) created_at: Option<String>,
}

impl Table {
    /// Reads a destination's settings.
    pub(crate) fn configured(destination: &Destination) -> Result<Self, Failure> {
        let name = |key: &str, default: &str| -> Result<Option<String>, Failure> {
            let value = destination.setting(key).unwrap_or(default);
            if value.contains('\0') {
                return Err(refused(destination, key, "a name holds no NUL character"));
            }
            Ok((!value.is_empty()).then(|| value.to_owned()))
        };
        let create = match destination.setting("create_table").unwrap_or("true") {
            "true" => true,
            "false" => false,
            _ => return Err(refused(destination, "create_table", "write true or false")),
        };
        let queue = destination.setting("queue").unwrap_or(&destination.name);
        if queue.contains('\0') {
            return Err(refused(
                destination,
                "queue",
                "a queue's name holds no NUL character",
            ));
        }
        let table_name = name(TABLE, "messages")?
            .ok_or_else(|| refused(destination, TABLE, "write the name of a table"))?;
        if has_prefix(&table_name, RESERVED) {
            let remedy = "names that begin with sqlite_ are SQLite's own tables; write another";
            return Err(refused(destination, TABLE, remedy));
        }
        let table = Self {
            name: table_name,
            queue: queue.to_owned(),
            create,
            receipt: name(RECEIPT_COLUMN, "id")?,
            queue_column: name(QUEUE_COLUMN, "queue")?,
            id: name(ID_COLUMN, "message_id")?,
            key: name(KEY_COLUMN, "key")?,
            headers: name(HEADERS_COLUMN, "headers")?,
            body: name(BODY_COLUMN, "body")?.ok_or_else(|| {
                refused(
                    destination,
                    BODY_COLUMN,
                    "bodies have to be stored somewhere: write the name of a column",
                )
            })?,
            created_at: name(CREATED_AT_COLUMN, "created_at_ms")?,
        };
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for (key, column) in table.columns() {
            if let Some((other, _)) = seen
                .iter()
                .find(|(_, name)| name.eq_ignore_ascii_case(column))
            {
                let remedy = format!("`{other}` names the same column; each needs its own");
                return Err(refused(destination, key, &remedy));
            }
            seen.push((key, column));
        }
        Ok(table)
    }

    /// The columns that are not switched off, each with the setting that names it.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            (RECEIPT_COLUMN, self.receipt.as_deref()),
            (QUEUE_COLUMN, self.queue_column.as_deref()),
            (ID_COLUMN, self.id.as_deref()),
            (KEY_COLUMN, self.key.as_deref()),
            (HEADERS_COLUMN, self.headers.as_deref()),
            (BODY_COLUMN, Some(self.body.as_str())),
            (CREATED_AT_COLUMN, self.created_at.as_deref()),
        ]
        .into_iter()
        .filter_map(|(key, name)| Some((key, name?)))
    }

    /// The statement that creates the table unless it is there.
    pub(crate) fn creation(&self) -> String {
        let columns: Vec<String> = self
            .columns()
            .map(|(key, name)| {
                let kind = match key {
                    RECEIPT_COLUMN => "INTEGER PRIMARY KEY AUTOINCREMENT",
                    QUEUE_COLUMN => "TEXT NOT NULL",
                    CREATED_AT_COLUMN => "INTEGER NOT NULL",
                    ID_COLUMN | HEADERS_COLUMN => "TEXT",
                    _ => "BLOB",
                };
                format!("{} {kind}", quoted(name))
            })
            .collect();
        format!(
            "CREATE TABLE IF NOT EXISTS {} ({})",
            quoted(&self.name),
            columns.join(", ")
        )
    }
}

/// A name as SQL reads it literally, whatever is in it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn refused(destination: &Destination, key: &str, remedy: &str) -> Failure {
    let value = destination.setting(key).unwrap_or_default();
    Failure::fatal(
        FailureClass::Invalid,
        format!(
            "destination `{}`: `{key} = \"{}\"`: {remedy}",
            destination.name.escape_debug(),
            value.escape_debug()
        ),
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn destination(settings: &[(&str, &str)]) -> Destination {
        Destination {
            name: "orders".to_owned(),
            settings: settings
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn without_settings_a_destination_is_a_queue_in_the_common_table() {
        let table = Table::configured(&destination(&[])).unwrap();
        assert_eq!(table.queue, "orders");
        assert_eq!(
            table.creation(),
            r#"CREATE TABLE IF NOT EXISTS "messages" ("id" INTEGER PRIMARY KEY AUTOINCREMENT, "queue" TEXT NOT NULL, "message_id" TEXT, "key" BLOB, "headers" TEXT, "body" BLOB, "created_at_ms" INTEGER NOT NULL)"#
        );
    }

    #[test]
    fn columns_can_be_renamed_and_switched_off() {
        let table = Table::configured(&destination(&[
            ("table", "audit"),
            ("queue_column", ""),
            ("receipt_column", ""),
            ("id_column", ""),
            ("key_column", ""),
            ("headers_column", ""),
            ("created_at_column", ""),
            ("body_column", "payload"),
        ]))
        .unwrap();
        assert_eq!(
            table.creation(),
            r#"CREATE TABLE IF NOT EXISTS "audit" ("payload" BLOB)"#
        );
    }

    #[test]
    fn names_are_quoted_whatever_is_in_them() {
        let table =
            Table::configured(&destination(&[("table", r#"x" (y); DROP TABLE z; --"#)])).unwrap();
        assert!(
            table
                .creation()
                .starts_with(r#"CREATE TABLE IF NOT EXISTS "x"" (y); DROP TABLE z; --" ("#)
        );
    }

    #[test]
    fn a_setting_that_cannot_be_used_is_refused_by_name() {
        for (settings, says) in [
            (&[("table", "")][..], "`table"),
            (&[("table", "SQLite_master")], "`table"),
            (&[("key_column", "body")], "`key_column`"),
            (&[("body_column", "")], "`body_column"),
            (&[("key_column", "a\0b")], "`key_column"),
            (&[("create_table", "maybe")], "`create_table"),
            (&[("queue", "a\0b")], "`queue"),
            (&[("key_column", "x"), ("id_column", "X")], "`id_column`"),
        ] {
            let failure = Table::configured(&destination(settings)).unwrap_err();
            assert_eq!(failure.class, FailureClass::Invalid);
            assert!(!failure.retryable);
            assert!(failure.reason.contains(says), "{}", failure.reason);
            assert!(failure.reason.contains("`orders`"), "{}", failure.reason);
        }
    }

    #[test]
    fn a_queue_name_that_a_client_chose_with_a_nul_is_refused() {
        let destination = Destination {
            name: "a\0b".to_owned(),
            settings: vec![],
        };
        let failure = Table::configured(&destination).unwrap_err();
        assert_eq!(failure.class, FailureClass::Invalid);
    }
}
