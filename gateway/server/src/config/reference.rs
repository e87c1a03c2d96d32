//! The whole commented default, as `sluicegate config` prints it.
//!
//! It is made of the declarations that the configuration is read by, and of the adapters' manifests:
//! nothing in it is written twice, and reading it back gives the built-in configuration.

use super::section::{Key, Section, join};
use super::sections::{Adapters, ConnectionKeys, DestinationKeys, Limits, Log, Shutdown, Top};
use super::setting::quoted;
use super::{DEFAULT_ADAPTER, DEFAULT_CONNECTION, EVERY_NAME, KnownSetting};

/// What an adapter's manifest says that can be set.
#[derive(Clone, Debug)]
pub(crate) struct AdapterReference {
    pub(crate) name: String,
    pub(crate) summary: String,
    pub(crate) connection: Vec<KnownSetting>,
    pub(crate) destination: Vec<KnownSetting>,
}

const PREFACE: &str = "\
# The whole configuration of sluicegate, with its defaults. What is commented out is not set by default.
#
# A file is named by --config or SLUICEGATE_CONFIG; otherwise ./sluicegate.toml is read if it is there.
#
# Environment variables win over it: SLUICEGATE_ and the key in capitals, two underscores between
# tables, other marks as one: SLUICEGATE_LISTEN, SLUICEGATE_CONNECTIONS__MAIN__PATH.
#
# Secrets never stand here: write { file = \"/run/secrets/x\" } or { env = \"NAME\" }.
";

/// Prints it.
pub(crate) fn reference(adapters: &[AdapterReference]) -> String {
    let mut out = PREFACE.to_owned();
    out.push('\n');
    comment(&mut out, "", Top::DOC);
    keys(&mut out, "", Top::KEYS, &Top::default().show());
    section::<Adapters>(&mut out, "adapters");
    section::<Limits>(&mut out, "limits");
    section::<Log>(&mut out, "log");
    section::<Shutdown>(&mut out, "shutdown");

    // What is served by default.
    comment(&mut out, "", ConnectionKeys::DOC);
    header(&mut out, "", &join("connections", DEFAULT_CONNECTION));
    let own = ConnectionKeys {
        adapter: Some(DEFAULT_ADAPTER.to_owned()),
        ..ConnectionKeys::default()
    };
    keys(&mut out, "", ConnectionKeys::KEYS, &own.show());
    let default = adapters
        .iter()
        .find(|adapter| adapter.name == DEFAULT_ADAPTER);
    if let Some(adapter) = default {
        settings(&mut out, "", &adapter.name, &adapter.connection);
    }
    comment(&mut out, "", DestinationKeys::DOC);
    header(&mut out, "", &join("destinations", EVERY_NAME));
    let own = DestinationKeys {
        connection: Some(DEFAULT_CONNECTION.to_owned()),
        ..DestinationKeys::default()
    };
    keys(&mut out, "", DestinationKeys::KEYS, &own.show());
    if let Some(adapter) = default {
        settings(&mut out, "", &adapter.name, &adapter.destination);
    }

    // What could be.
    for adapter in adapters
        .iter()
        .filter(|adapter| adapter.name != DEFAULT_ADAPTER)
    {
        out.push_str(&format!(
            "# The adapter {}: {}\n",
            adapter.name, adapter.summary
        ));
        header(
            &mut out,
            "# ",
            &join("connections", &format!("my-{}", adapter.name)),
        );
        out.push_str(&format!("# adapter = {}\n", quoted(&adapter.name)));
        settings(&mut out, "# ", &adapter.name, &adapter.connection);
        header(
            &mut out,
            "# ",
            &join("destinations", &format!("{}.*", adapter.name)),
        );
        out.push_str(&format!(
            "# connection = {}\n",
            quoted(&format!("my-{}", adapter.name))
        ));
        settings(&mut out, "# ", &adapter.name, &adapter.destination);
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn section<S: Section>(out: &mut String, name: &str) {
    comment(out, "", S::DOC);
    header(out, "", name);
    keys(out, "", S::KEYS, &S::default().show());
}

fn header(out: &mut String, mark: &str, path: &str) {
    out.push_str(&format!("{mark}[{path}]\n"));
}

fn comment(out: &mut String, mark: &str, doc: &[&str]) {
    for line in doc {
        out.push_str(format!("{mark}# {}", line.trim()).trim_end());
        out.push('\n');
    }
}

fn keys(out: &mut String, mark: &str, keys: &[Key], values: &[Option<String>]) {
    for (key, value) in keys.iter().zip(values) {
        comment(out, mark, key.doc);
        match value {
            Some(value) => out.push_str(&format!("{mark}{} = {value}\n", key.name)),
            None => {
                let example = key.example.unwrap_or("…");
                out.push_str(&format!("{mark}# {} = {example}\n", key.name));
            }
        }
    }
    out.push('\n');
}

fn settings(out: &mut String, mark: &str, adapter: &str, settings: &[KnownSetting]) {
    // The paragraph of the gateway's own keys goes on.
    out.truncate(out.trim_end().len());
    out.push('\n');
    for setting in settings {
        let required = if setting.required { " Required." } else { "" };
        let summary = format!("({adapter}) {}{required}", setting.summary.trim());
        for line in wrapped(&summary) {
            out.push_str(&format!("{mark}# {line}\n"));
        }
        match &setting.default {
            _ if setting.secret => {
                out.push_str(&format!(
                    "{mark}# {} = {{ file = \"/run/secrets/{}\" }}\n",
                    setting.key, setting.key
                ));
            }
            Some(default) => {
                out.push_str(&format!("{mark}{} = {}\n", setting.key, literal(default)));
            }
            None => out.push_str(&format!("{mark}# {} = \"…\"\n", setting.key)),
        }
    }
    out.push('\n');
}

/// Lines of words, no wider than the reference's other comments.
fn wrapped(text: &str) -> Vec<String> {
    const WIDTH: usize = 100;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A setting's default as one would write it: numbers and truth values without quotes.
fn literal(default: &str) -> String {
    let plain = default == "true"
        || default == "false"
        || default
            .parse::<i64>()
            .is_ok_and(|n| n.to_string() == default);
    if plain {
        default.to_owned()
    } else {
        quoted(default)
    }
}
