//! Environment variables override the file.
//!
//! `SLUICEGATE_` and the key, in capitals; two underscores stand between tables:
//! `SLUICEGATE_LISTEN`, `SLUICEGATE_LIMITS__FRAME_BYTES`, `SLUICEGATE_CONNECTIONS__MAIN__PATH`. A part
//! that names something in the file finds it whatever its capitals and marks (`My-Store` is
//! `MY_STORE`); otherwise it is a new key in small letters. A value is written as it is, without
//! quotes. A variable that names no setting is an error, as in the file.

use std::collections::BTreeMap;

use super::error::{Origin, Problem};
use super::tree::{Node, Table, Value};

const PREFIX: &str = "SLUICEGATE_";

/// Variables of the command line itself.
const OTHERS: [&str; 2] = ["CONFIG", "ADDRESS"];

/// Kubernetes gives every container `NAME_SERVICE_HOST`, `NAME_PORT_…` for each service: a service
/// named sluicegate must not be taken for settings.
const SERVICE_LINKS: [&str; 2] = ["SERVICE_", "PORT"];

/// Writes the variables into the tree.
pub(crate) fn apply(
    table: &mut Table,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<(), Problem> {
    // Sorted, so that the outcome does not hang on the order of the environment.
    let variables: BTreeMap<String, String> = variables.into_iter().collect();
    for (name, value) in variables {
        let Some(path) = name.strip_prefix(PREFIX) else {
            continue;
        };
        if OTHERS.contains(&path) || SERVICE_LINKS.iter().any(|link| path.starts_with(link)) {
            continue;
        }
        let origin = Origin::Environment(name.clone());
        let parts: Vec<&str> = path.split("__").collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(Problem::new(
                &origin,
                path.to_lowercase(),
                "it names no key",
                "write SLUICEGATE_KEY or SLUICEGATE_TABLE__KEY",
            ));
        }
        set(table, &parts, Value::Raw(value), &origin)?;
    }
    Ok(())
}

fn set(table: &mut Table, parts: &[&str], value: Value, origin: &Origin) -> Result<(), Problem> {
    let Some((part, rest)) = parts.split_first() else {
        return Ok(());
    };
    let key = table
        .entries
        .keys()
        .find(|key| spelled(key) == part.to_lowercase())
        .cloned()
        .unwrap_or_else(|| part.to_lowercase());
    if rest.is_empty() {
        let origin = origin.clone();
        table.entries.insert(key, Node { origin, value });
        return Ok(());
    }
    let node = table.entries.entry(key.clone()).or_insert_with(|| Node {
        origin: origin.clone(),
        value: Value::Table(Table::new(origin.clone())),
    });
    let Value::Table(inner) = &mut node.value else {
        return Err(Problem::new(
            origin,
            key,
            format!("it is {}, and has no keys in it", node.value.kind()),
            "name a table before each \"__\"",
        ));
    };
    set(inner, rest, value, origin)
}

/// How a key is spelled in a variable's name, in small letters.
fn spelled(key: &str) -> String {
    key.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn applied(text: &str, variables: &[(&str, &str)]) -> Result<Table, Problem> {
        let mut table = Table::parse(text, &Path::new("f.toml").into())?;
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        apply(&mut table, variables)?;
        Ok(table)
    }

    fn text(table: &Table, path: &[&str]) -> String {
        let node = &table.entries[path[0]];
        match &node.value {
            Value::Text(text) | Value::Raw(text) => text.clone(),
            Value::Table(inner) => text_of(inner, &path[1..]),
            other => other.kind().to_owned(),
        }
    }

    fn text_of(table: &Table, path: &[&str]) -> String {
        text(table, path)
    }

    #[test]
    fn a_variable_wins_over_the_file() {
        let table = applied("listen = \"a\"", &[("SLUICEGATE_LISTEN", "b")]).unwrap();
        assert_eq!(text(&table, &["listen"]), "b");
    }

    #[test]
    fn two_underscores_stand_between_tables() {
        let table = applied("", &[("SLUICEGATE_LIMITS__FRAME_BYTES", "5")]).unwrap();
        assert_eq!(text(&table, &["limits", "frame_bytes"]), "5");
    }

    #[test]
    fn a_part_finds_the_files_own_spelling() {
        let table = applied(
            "[connections.My-Store]\npath = \"a\"",
            &[("SLUICEGATE_CONNECTIONS__MY_STORE__PATH", "b")],
        )
        .unwrap();
        assert_eq!(text(&table, &["connections", "My-Store", "path"]), "b");
    }

    #[test]
    fn a_reference_to_a_secret_may_stand_in_a_variable() {
        let table = applied("", &[("SLUICEGATE_CONNECTIONS__A__PASSWORD__FILE", "/x")]).unwrap();
        assert_eq!(
            text(&table, &["connections", "a", "password", "file"]),
            "/x"
        );
    }

    #[test]
    fn kubernetes_service_links_are_no_settings() {
        let table = applied(
            "",
            &[
                ("SLUICEGATE_SERVICE_HOST", "10.0.0.1"),
                ("SLUICEGATE_PORT_7077_TCP", "tcp://10.0.0.1:7077"),
                ("SLUICEGATE_PORT", "tcp://10.0.0.1:7077"),
                ("SLUICEGATE_CONFIG", "x"),
                ("PATH", "/bin"),
            ],
        )
        .unwrap();
        assert!(table.entries.is_empty());
    }

    #[test]
    fn a_value_has_no_keys_in_it() {
        let error = applied("listen = \"a\"", &[("SLUICEGATE_LISTEN__X", "b")]).unwrap_err();
        assert!(
            error.to_string().contains("SLUICEGATE_LISTEN__X"),
            "{error}"
        );
    }
}
