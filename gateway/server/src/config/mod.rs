//! The whole configuration is read and checked before a port is bound or a file of a store opened:
//! a gateway that starts has understood every key that it was given.
//!
//! First the file becomes a tree of values with their lines, then environment variables are written
//! over it, then sections take what they know, and what nobody took is an error. Adapters' own
//! settings are checked later, against the manifest of the adapter, with the same lines.

mod environment;
mod error;
mod given;
mod reference;
mod section;
mod sections;
mod setting;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use error::{BadConfiguration, Origin, Problem, suggestion};
pub(crate) use given::{Given, KnownSetting, Settled, settle};
pub(crate) use reference::{AdapterReference, reference};
pub(crate) use section::join;
pub(crate) use sections::{Adapters, DestinationKeys, Limits, Log, Shutdown, Top};
pub(crate) use setting::LogFormat;

use section::{Section, nothing_left};
use sections::ConnectionKeys;
use tree::{Node, Table, Value};

/// Used when it is there and no other file is named.
pub(crate) const DEFAULT_FILE: &str = "sluicegate.toml";

/// What is served when nothing is configured: every name is a queue in one table of a SQLite file.
const DEFAULT_CONNECTION: &str = "main";
const DEFAULT_ADAPTER: &str = "sql";
const EVERY_NAME: &str = "*";

/// The gateway's own keys of a connection and of a destination, for whoever misspells one.
pub(crate) fn own_keys() -> (Vec<&'static str>, Vec<&'static str>) {
    (
        section::names::<ConnectionKeys>(),
        section::names::<DestinationKeys>(),
    )
}

/// The tables at the top.
const TABLES: [&str; 6] = [
    "adapters",
    "limits",
    "log",
    "shutdown",
    "connections",
    "destinations",
];

/// A configuration that makes sense, as far as one can tell without its adapters.
#[derive(Debug)]
pub(crate) struct Config {
    /// The file, if there was one.
    pub(crate) file: Option<Arc<Path>>,
    pub(crate) top: Top,
    pub(crate) adapters: Adapters,
    /// Of `adapters.cache`: whether it can be used is found out later.
    pub(crate) cache_origin: Origin,
    pub(crate) limits: Limits,
    pub(crate) log: Log,
    pub(crate) shutdown: Shutdown,
    pub(crate) connections: Vec<Connection>,
    pub(crate) destinations: Vec<Destination>,
}

/// A configured broker or store.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) name: String,
    pub(crate) origin: Origin,
    /// The adapter's name, or a path to it.
    pub(crate) adapter: String,
    pub(crate) adapter_origin: Origin,
    pub(crate) window: Option<std::num::NonZeroU32>,
    pub(crate) window_origin: Origin,
    /// Settings for the adapter, not yet checked.
    pub(crate) settings: Vec<Given>,
}

/// A configured destination or pattern.
#[derive(Debug)]
pub(crate) struct Destination {
    pub(crate) pattern: String,
    pub(crate) origin: Origin,
    /// Place in `Config::connections`.
    pub(crate) connection: usize,
    pub(crate) keys: DestinationKeys,
    /// Settings for the adapter, not yet checked.
    pub(crate) settings: Vec<Given>,
}

impl Destination {
    /// Whether it stands for more than one name.
    pub(crate) fn is_pattern(&self) -> bool {
        self.pattern.contains('*')
    }
}

/// Reads the named file, or `./sluicegate.toml` if it is there, or nothing; then the environment.
pub(crate) fn load(named: Option<&Path>) -> Result<Config, BadConfiguration> {
    let file = match named {
        Some(file) => Some(file.to_path_buf()),
        None => Some(PathBuf::from(DEFAULT_FILE)).filter(|file| file.exists()),
    };
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let text = match &file {
        Some(file) => Some(read(file)?),
        None => None,
    };
    parse(file.as_deref().zip(text.as_deref()), variables)
}

fn read(file: &Path) -> Result<String, Problem> {
    std::fs::read_to_string(file).map_err(|error| Problem {
        origin: Origin::File {
            file: file.into(),
            line: 1,
        },
        key: "the file".to_owned(),
        problem: format!("it cannot be read: {error}"),
        remedy: "name a readable file with --config, or write one with `sluicegate config`"
            .to_owned(),
    })
}

/// From text and variables alone.
pub(crate) fn parse(
    file: Option<(&Path, &str)>,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Config, BadConfiguration> {
    let (mut tree, file) = match file {
        Some((file, text)) => {
            let file: Arc<Path> = file.into();
            (Table::parse(text, &file)?, Some(file))
        }
        None => (Table::new(Origin::Default), None),
    };
    if !tree.entries.contains_key("connections") && !tree.entries.contains_key("destinations") {
        serve_everything(&mut tree);
    }
    environment::apply(&mut tree, variables)?;

    let mut problems = Vec::new();
    let config = take(&mut tree, file, &mut problems);
    if problems.is_empty() {
        Ok(config)
    } else {
        Err(BadConfiguration(problems))
    }
}

fn serve_everything(tree: &mut Table) {
    let table = |entries: Vec<(&str, Value)>| {
        Value::Table(Table {
            origin: Origin::Default,
            entries: entries
                .into_iter()
                .map(|(key, value)| {
                    let origin = Origin::Default;
                    (key.to_owned(), Node { origin, value })
                })
                .collect(),
        })
    };
    let adapter = Value::Text(DEFAULT_ADAPTER.to_owned());
    let connection = Value::Text(DEFAULT_CONNECTION.to_owned());
    let all = table(vec![
        (
            "connections",
            table(vec![(
                DEFAULT_CONNECTION,
                table(vec![("adapter", adapter)]),
            )]),
        ),
        (
            "destinations",
            table(vec![(EVERY_NAME, table(vec![("connection", connection)]))]),
        ),
    ]);
    if let Value::Table(all) = all {
        tree.entries.extend(all.entries);
    }
}

fn take(tree: &mut Table, file: Option<Arc<Path>>, problems: &mut Vec<Problem>) -> Config {
    let top = Top::read(tree, "", problems);
    let origin = tree.origin.clone();
    if top.listen.0.is_none() && top.unix_socket.is_none() {
        problems.push(Problem::new(
            &origin,
            "listen",
            "nobody could connect: it is empty, and there is no unix_socket",
            "set one of the two",
        ));
    }
    let cache_origin = origin_of(tree, "adapters", "cache");
    let adapters = section(tree, "adapters", problems);
    let origins = LIMITS.map(|key| origin_of(tree, "limits", key));
    let limits = section(tree, "limits", problems);
    check_limits(&limits, &origins, problems);
    let log = section(tree, "log", problems);
    let shutdown = section(tree, "shutdown", problems);
    let connections = connections(tree, problems);
    let destinations = destinations(tree, &connections, problems);
    if connections.is_empty() || destinations.is_empty() {
        let missing = if connections.is_empty() {
            "connections"
        } else {
            "destinations"
        };
        // An error in the table itself is enough.
        if problems.is_empty() {
            problems.push(Problem::new(
                &origin,
                missing,
                "there are none, so nothing would be served",
                "add [connections.main] with an adapter and [destinations.\"*\"], or leave both out \
                 to store everything in ./sluicegate.db",
            ));
        }
    }
    let mut known = section::names::<Top>();
    known.extend(TABLES);
    nothing_left(tree, "", &known, problems);
    Config {
        file,
        top,
        adapters,
        cache_origin,
        limits,
        log,
        shutdown,
        connections,
        destinations,
    }
}

/// Takes a table of this name out, or an empty one.
fn table(tree: &mut Table, path: &str, key: &str, problems: &mut Vec<Problem>) -> Option<Table> {
    let node = tree.take(key)?;
    match node.value {
        Value::Table(table) => Some(table),
        other => {
            problems.push(Problem::new(
                &node.origin,
                join(path, key),
                format!("it is {}", other.kind()),
                format!("write a table: [{}]", join(path, key)),
            ));
            None
        }
    }
}

fn section<S: Section>(tree: &mut Table, name: &str, problems: &mut Vec<Problem>) -> S {
    let Some(mut table) = table(tree, "", name, problems) else {
        return S::default();
    };
    let section = S::read(&mut table, name, problems);
    nothing_left(&table, name, &section::names::<S>(), problems);
    section
}

/// Where a key stands, or the table that it would stand in.
fn origin_of(tree: &Table, table: &str, key: &str) -> Origin {
    let Some(node) = tree.entries.get(table) else {
        return Origin::Default;
    };
    match &node.value {
        Value::Table(table) => table.entries.get(key).unwrap_or(node),
        _ => node,
    }
    .origin
    .clone()
}

/// The limits that can be too small for anything to pass.
const LIMITS: [&str; 5] = [
    "frame_bytes",
    "stream_bytes",
    "memory_bytes",
    "confirmation_timeout_ms",
    "unread_results_timeout_ms",
];

fn check_limits(limits: &Limits, origins: &[Origin; LIMITS.len()], problems: &mut Vec<Problem>) {
    /// Room for one message of ordinary size with its headers.
    const LEAST_FRAME: u64 = 1024;
    let millis =
        |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let least = [
        (limits.frame_bytes, LEAST_FRAME, "a message"),
        (
            limits.stream_bytes,
            limits.frame_bytes,
            "one frame (limits.frame_bytes)",
        ),
        (
            limits.memory_bytes,
            limits.frame_bytes,
            "one frame (limits.frame_bytes)",
        ),
        (millis(limits.confirmation_timeout_ms), 1, "anything"),
        (millis(limits.unread_results_timeout_ms), 1, "anything"),
    ];
    for ((key, origin), (value, least, what)) in LIMITS.iter().zip(origins).zip(least) {
        if value < least {
            problems.push(Problem::new(
                origin,
                join("limits", key),
                format!("{value} is too little for {what}"),
                format!("write {least} or more"),
            ));
        }
    }
}

fn connections(tree: &mut Table, problems: &mut Vec<Problem>) -> Vec<Connection> {
    const TABLE: &str = "connections";
    let Some(mut all) = table(tree, "", TABLE, problems) else {
        return Vec::new();
    };
    let names: Vec<String> = all.entries.keys().cloned().collect();
    let mut connections = Vec::new();
    for name in names {
        let path = join(TABLE, &name);
        let Some(origin) = all.entries.get(&name).map(|node| node.origin.clone()) else {
            continue;
        };
        let Some(mut table) = table(&mut all, TABLE, &name, problems) else {
            continue;
        };
        let [adapter_origin, window_origin] = ["adapter", "window"].map(|key| {
            table
                .entries
                .get(key)
                .map_or_else(|| origin.clone(), |node| node.origin.clone())
        });
        let before = problems.len();
        let keys = ConnectionKeys::read(&mut table, &path, problems);
        let adapter = keys.adapter.filter(|adapter| !adapter.is_empty());
        if adapter.is_none() && problems.len() == before {
            problems.push(Problem::new(
                &adapter_origin,
                join(&path, "adapter"),
                "it is missing",
                "name the adapter: adapter = \"sql\"; `sluicegate adapters` lists them",
            ));
        }
        connections.push(Connection {
            adapter: adapter.unwrap_or_default(),
            adapter_origin,
            window: keys.window,
            window_origin,
            settings: given::of(table),
            name,
            origin,
        });
    }
    connections
}

fn destinations(
    tree: &mut Table,
    connections: &[Connection],
    problems: &mut Vec<Problem>,
) -> Vec<Destination> {
    const TABLE: &str = "destinations";
    let Some(mut all) = table(tree, "", TABLE, problems) else {
        return Vec::new();
    };
    let names: Vec<String> = all.entries.keys().cloned().collect();
    let mut destinations: Vec<Destination> = Vec::new();
    for name in names {
        let path = join(TABLE, &name);
        let Some(origin) = all.entries.get(&name).map(|node| node.origin.clone()) else {
            continue;
        };
        let Some(mut table) = table(&mut all, TABLE, &name, problems) else {
            continue;
        };
        let connection_origin = table
            .entries
            .get("connection")
            .map_or_else(|| origin.clone(), |node| node.origin.clone());
        let keys = DestinationKeys::read(&mut table, &path, problems);
        check_destination(&name, &keys, &path, &origin, problems);
        let twin = destinations
            .iter()
            .find(|other| collapsed(&other.pattern) == collapsed(&name));
        if let Some(twin) = twin {
            problems.push(Problem::new(
                &origin,
                &path,
                format!(
                    "it matches the same names as \"{}\" ({})",
                    twin.pattern, twin.origin
                ),
                "keep one of the two",
            ));
        }
        let connection = match &keys.connection {
            Some(wanted) => connections.iter().position(|c| c.name == *wanted),
            None => (connections.len() == 1).then_some(0),
        };
        if connection.is_none() {
            let names = connections
                .iter()
                .map(|connection| connection.name.as_str());
            let (problem, remedy) = match &keys.connection {
                Some(wanted) => (
                    format!("there is no connection \"{wanted}\""),
                    suggestion(wanted, names),
                ),
                None => (
                    "it is missing, and there is not just one".to_owned(),
                    "name the destination's connection".to_owned(),
                ),
            };
            problems.push(Problem::new(
                &connection_origin,
                join(&path, "connection"),
                problem,
                remedy,
            ));
        }
        destinations.push(Destination {
            connection: connection.unwrap_or_default(),
            keys,
            settings: given::of(table),
            pattern: name,
            origin,
        });
    }
    destinations
}

fn check_destination(
    name: &str,
    keys: &DestinationKeys,
    path: &str,
    origin: &Origin,
    problems: &mut Vec<Problem>,
) {
    if name.is_empty() {
        problems.push(Problem::new(
            origin,
            path,
            "a destination's name cannot be empty",
            "name it, or write \"*\" for every name",
        ));
    }
    if keys.backoff_initial_ms > keys.backoff_max_ms {
        problems.push(Problem::new(
            origin,
            join(path, "backoff_initial_ms"),
            "it is more than backoff_max_ms",
            "raise backoff_max_ms or lower it",
        ));
    }
}

/// `a**b` matches what `a*b` matches.
fn collapsed(pattern: &str) -> String {
    let mut collapsed = String::with_capacity(pattern.len());
    for c in pattern.chars() {
        if c != '*' || !collapsed.ends_with('*') {
            collapsed.push(c);
        }
    }
    collapsed
}

#[cfg(test)]
mod tests;
