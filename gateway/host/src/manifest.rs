//! What an adapter is, in plain Rust: printable, comparable, checked.
//!
//! Invariant: a manifest that was accepted makes sense: it has names that configuration can spell, a window
//! that lets something through, and settings that do not contradict themselves.

use std::collections::HashSet;
use std::fmt;

use sluicegate_core::{Capabilities, Deduplication, Window, WindowUnit};

use crate::convert;
use crate::wit::types::{self, Columns};

/// What an adapter says about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// As configuration spells it.
    pub name: String,
    /// The adapter's own version.
    pub version: String,
    /// The driver that it pairs with.
    pub driver: String,
    /// One sentence for people.
    pub summary: String,
    /// The columns that its `plan` reads.
    pub reads: Reads,
    /// What a connection may have in flight, where configuration says nothing else.
    pub window: Window,
    /// The most that any destination can do.
    pub capabilities: Capabilities,
    /// What a connection may set.
    pub connection_settings: Vec<Setting>,
    /// What a destination may set.
    pub destination_settings: Vec<Setting>,
}

/// A key of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// As it is written.
    pub key: String,
    /// One sentence.
    pub summary: String,
    /// Its value where configuration does not give one.
    pub default: Option<String>,
    /// It must be there.
    pub required: bool,
    /// Its value comes from a file or the environment, and never reaches the adapter.
    pub secret: bool,
}

/// The columns of a batch that an adapter reads; the others are never made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Lengths of bodies.
    pub body_lengths: bool,
    /// The bodies themselves.
    pub bodies: bool,
    /// Keys.
    pub keys: bool,
    /// Message ids.
    pub ids: bool,
    /// Headers.
    pub headers: bool,
    /// Delays.
    pub delays: bool,
    /// Times to live.
    pub ttls: bool,
    /// Which bodies are not UTF-8.
    pub body_utf8: bool,
}

impl Reads {
    fn names(self) -> Vec<&'static str> {
        [
            (self.body_lengths, "body lengths"),
            (self.bodies, "bodies"),
            (self.keys, "keys"),
            (self.ids, "ids"),
            (self.headers, "headers"),
            (self.delays, "delays"),
            (self.ttls, "times to live"),
            (self.body_utf8, "whether bodies are UTF-8"),
        ]
        .into_iter()
        .filter_map(|(reads, name)| reads.then_some(name))
        .collect()
    }
}

impl From<Columns> for Reads {
    fn from(columns: Columns) -> Self {
        Self {
            body_lengths: columns.contains(Columns::BODY_LENGTHS),
            bodies: columns.contains(Columns::BODIES),
            keys: columns.contains(Columns::KEYS),
            ids: columns.contains(Columns::IDS),
            headers: columns.contains(Columns::HEADERS),
            delays: columns.contains(Columns::DELAYS),
            ttls: columns.contains(Columns::TTLS),
            body_utf8: columns.contains(Columns::BODY_UTF8),
        }
    }
}

impl fmt::Display for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names();
        if names.is_empty() {
            return f.write_str("row numbers only");
        }
        f.write_str(&names.join(", "))
    }
}

impl TryFrom<types::Manifest> for Manifest {
    /// What is wrong with it.
    type Error = String;

    fn try_from(manifest: types::Manifest) -> Result<Self, String> {
        word("name", &manifest.name)?;
        word("driver", &manifest.driver)?;
        if manifest.version.trim().is_empty() {
            return Err("`version` is empty".into());
        }
        if manifest.window.size == 0 {
            return Err("`window.size` is 0, which would let nothing through".into());
        }
        Ok(Self {
            name: manifest.name,
            version: manifest.version,
            driver: manifest.driver,
            summary: manifest.summary,
            reads: manifest.reads.into(),
            window: convert::window(manifest.window),
            capabilities: convert::capabilities(manifest.capabilities),
            connection_settings: settings("connection-settings", manifest.connection_settings)?,
            destination_settings: settings("destination-settings", manifest.destination_settings)?,
        })
    }
}

/// A name that configuration, metrics and file names can all spell.
fn word(what: &str, name: &str) -> Result<(), String> {
    let spelled = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(spelled) {
        return Err(format!(
            "`{what}` is {name:?}; it must be 1 to 64 of a-z, 0-9, `-` and `_`"
        ));
    }
    Ok(())
}

fn settings(what: &str, settings: Vec<types::Setting>) -> Result<Vec<Setting>, String> {
    let mut keys = HashSet::new();
    settings
        .into_iter()
        .map(|setting| {
            word(&format!("{what}: a key"), &setting.key)?;
            if !keys.insert(setting.key.clone()) {
                return Err(format!("`{what}` lists the key `{}` twice", setting.key));
            }
            if setting.required && setting.default.is_some() {
                return Err(format!(
                    "`{what}`: the key `{}` is required and has a default",
                    setting.key
                ));
            }
            if setting.secret && setting.default.is_some() {
                return Err(format!(
                    "`{what}`: the key `{}` is a secret and has a default",
                    setting.key
                ));
            }
            Ok(Setting {
                key: setting.key,
                summary: setting.summary,
                default: setting.default,
                required: setting.required,
                secret: setting.secret,
            })
        })
        .collect()
}

// === impl Display ===

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {} (driver {})", self.name, self.version, self.driver)?;
        writeln!(f, "  {}", self.summary)?;
        let unit = match self.window.unit {
            WindowUnit::Requests => "batches",
            WindowUnit::Messages => "messages",
        };
        writeln!(f, "  window: {} {unit} in flight", self.window.size)?;
        writeln!(f, "  reads: {}", self.reads)?;
        writeln!(f, "  capabilities: {}", can(&self.capabilities))?;
        list(f, "connection settings", &self.connection_settings)?;
        list(f, "destination settings", &self.destination_settings)
    }
}

fn list(f: &mut fmt::Formatter<'_>, title: &str, settings: &[Setting]) -> fmt::Result {
    if settings.is_empty() {
        return Ok(());
    }
    writeln!(f, "  {title}:")?;
    for setting in settings {
        write!(f, "    {}", setting.key)?;
        if let Some(default) = &setting.default {
            write!(f, " = {default:?}")?;
        }
        if setting.required {
            write!(f, " (required)")?;
        }
        if setting.secret {
            write!(f, " (secret)")?;
        }
        writeln!(f, ": {}", setting.summary)?;
    }
    Ok(())
}

fn can(capabilities: &Capabilities) -> String {
    let names: Vec<&str> = [
        (capabilities.key, "key"),
        (capabilities.headers, "headers"),
        (capabilities.id, "id"),
        (capabilities.delay, "delay"),
        (capabilities.ttl, "time to live"),
        (capabilities.null_body, "null body"),
        (capabilities.receipts, "receipts"),
        (capabilities.per_message_failure, "failure by message"),
        (
            capabilities.deduplication != Deduplication::None,
            "deduplication",
        ),
    ]
    .into_iter()
    .filter_map(|(has, name)| has.then_some(name))
    .collect();
    if names.is_empty() {
        return "a body, nothing else".into();
    }
    names.join(", ")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn given() -> types::Manifest {
        types::Manifest {
            name: "sample".into(),
            version: "1.2.3".into(),
            driver: "null".into(),
            summary: "For tests.".into(),
            reads: Columns::KEYS | Columns::HEADERS,
            window: types::Window {
                unit: types::WindowUnit::Messages,
                size: 8,
            },
            capabilities: types::Capabilities {
                key: true,
                headers: true,
                id: false,
                delay: false,
                ttl: false,
                null_body: false,
                receipts: false,
                per_message_failure: false,
                deduplication: false,
            },
            connection_settings: vec![setting("path", Some("./a"), false, false)],
            destination_settings: vec![
                setting("table", None, true, false),
                setting("password", None, false, true),
            ],
        }
    }

    fn setting(key: &str, default: Option<&str>, required: bool, secret: bool) -> types::Setting {
        types::Setting {
            key: key.into(),
            summary: format!("The {key}."),
            default: default.map(Into::into),
            required,
            secret,
        }
    }

    #[test]
    fn a_manifest_prints_all_that_an_operator_must_know() {
        let manifest = Manifest::try_from(given()).unwrap();
        assert_eq!(
            manifest.to_string(),
            "sample 1.2.3 (driver null)\n  \
             For tests.\n  \
             window: 8 messages in flight\n  \
             reads: keys, headers\n  \
             capabilities: key, headers\n  \
             connection settings:\n    \
             path = \"./a\": The path.\n  \
             destination settings:\n    \
             table (required): The table.\n    \
             password (secret): The password.\n"
        );
    }

    #[test]
    fn a_manifest_that_contradicts_itself_is_refused_by_what_is_wrong() {
        type Spoil = fn(&mut types::Manifest);
        let cases: [(Spoil, &str); 8] = [
            (|m| m.name = String::new(), "`name`"),
            (|m| m.name = "Hello World".into(), "`name`"),
            (|m| m.driver = String::new(), "`driver`"),
            (|m| m.version = " ".into(), "`version`"),
            (|m| m.window.size = 0, "`window.size`"),
            (
                |m| {
                    m.connection_settings
                        .push(setting("path", None, false, false));
                },
                "`path` twice",
            ),
            (
                |m| m.connection_settings = vec![setting("a", Some("b"), true, false)],
                "required and has a default",
            ),
            (
                |m| m.connection_settings = vec![setting("a", Some("b"), false, true)],
                "secret and has a default",
            ),
        ];
        for (spoil, part) in cases {
            let mut manifest = given();
            spoil(&mut manifest);
            let error = Manifest::try_from(manifest).unwrap_err();
            assert!(error.contains(part), "{error:?} does not name {part:?}");
        }
    }
}
