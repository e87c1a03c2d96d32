//! A gateway without a front: engine, adapter and database, published to by hand.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sluicegate_core::{Failure, Message, Order, Window, WindowUnit};
use sluicegate_driver_sql::SqlConnection;
use sluicegate_engine::{
    Backoff, ClientLimits, Config, ConnectionConfig, ConnectionId, Engine, Event, Policy, Route,
    ScopeOptions, Stream,
};
use sluicegate_host::{Adapter, Host, Options};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, SqliteConnection};
use tempfile::TempDir;
use wit_component::ComponentEncoder;

/// A gateway with one connection, `main`, to `store.db` in a directory of its own, on which every
/// destination is served.
pub struct Gateway {
    pub engine: Engine,
    pub directory: TempDir,
    _host: Host,
}

/// What became of a scope.
#[derive(Debug, Default)]
pub struct Outcome {
    pub confirmed: Vec<Range<u64>>,
    pub failed: Vec<(u64, Failure)>,
    pub unknown: Vec<(u64, Failure)>,
    pub receipts: BTreeMap<u64, i64>,
}

/// How a gateway differs from the default one.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Settings of the connection; `path` is set.
    pub connection: &'static [(&'static str, &'static str)],
    /// Settings of every destination.
    pub destination: &'static [(&'static str, &'static str)],
    /// How often a row is sent at most; 0 is once.
    pub attempts: u32,
    /// The database's file, if not `store.db`.
    pub file: Option<&'static str>,
}

impl Gateway {
    pub async fn new(setup: Setup) -> Self {
        Self::prepared(setup, |_| ()).await
    }

    /// A gateway on a store that was prepared before.
    pub async fn prepared(setup: Setup, prepare: impl FnOnce(&Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(setup.file.unwrap_or("store.db"));
        prepare(&path);
        let host = Host::new(&Options::default()).unwrap();
        let adapter = adapter(&host).await;
        let mut settings = texts(setup.connection);
        settings.insert("path".to_owned(), path.to_str().unwrap().to_owned());
        let connection = SqlConnection::connect(&adapter, "main", &settings)
            .await
            .unwrap();
        let engine = Engine::new(config(&setup)).unwrap();
        engine.attach(ConnectionId(0), connection);
        Self {
            engine,
            directory,
            _host: host,
        }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("store.db")
    }

    /// Another process's connection to the store.
    pub async fn other(&self) -> SqliteConnection {
        sqlx::sqlite::SqliteConnectOptions::new()
            .filename(self.path())
            .connect()
            .await
            .unwrap()
    }

    /// Publishes a scope, which is settled by itself meanwhile.
    pub fn publish(&self, destination: &str, messages: Vec<Message>) -> Publishing {
        let stream = self.engine.open_stream().unwrap();
        let options = ScopeOptions {
            receipts: true,
            ..ScopeOptions::default()
        };
        self.publish_on(stream, destination, messages, options)
    }

    /// The same without receipts.
    pub fn publish_plain(&self, destination: &str, messages: Vec<Message>) -> Publishing {
        let stream = self.engine.open_stream().unwrap();
        self.publish_on(stream, destination, messages, ScopeOptions::default())
    }

    /// The same with a confirmation timeout.
    pub fn publish_within(
        &self,
        timeout: Duration,
        destination: &str,
        messages: Vec<Message>,
    ) -> Publishing {
        let stream = self.engine.open_stream().unwrap();
        let options = ScopeOptions {
            confirmation_timeout: Some(timeout),
            ..ScopeOptions::default()
        };
        self.publish_on(stream, destination, messages, options)
    }

    fn publish_on(
        &self,
        stream: Stream,
        destination: &str,
        messages: Vec<Message>,
        options: ScopeOptions,
    ) -> Publishing {
        let sent = messages.len() as u64;
        let bytes: usize = messages.iter().map(Message::bytes).sum();
        stream.open_scope(1, options).unwrap();
        stream.publish(1, destination, messages, bytes).unwrap();
        stream.close_scope(1).unwrap();
        stream.finish();
        Publishing { stream, sent }
    }
}

/// A scope that was published.
pub struct Publishing {
    stream: Stream,
    sent: u64,
}

impl Publishing {
    /// Waits for every verdict. Each row has exactly one, or this panics.
    pub async fn outcome(self) -> Outcome {
        let mut outcome = Outcome::default();
        let mut events = Vec::new();
        let mut more = true;
        while more {
            more = self.stream.events(&mut events, 1 << 20).await;
            for event in events.drain(..) {
                if let Event::Results(results) = event {
                    outcome.confirmed.extend(results.confirmed);
                    outcome.failed.extend(results.failed);
                    outcome.unknown.extend(results.unknown);
                    outcome
                        .receipts
                        .extend(results.receipts.iter().map(|(row, receipt)| {
                            let text = std::str::from_utf8(receipt).unwrap();
                            (*row, text.parse().unwrap())
                        }));
                }
            }
        }
        let mut seen: Vec<u64> = outcome
            .confirmed
            .iter()
            .cloned()
            .flatten()
            .chain(outcome.failed.iter().map(|(row, _)| *row))
            .chain(outcome.unknown.iter().map(|(row, _)| *row))
            .collect();
        seen.sort_unstable();
        let wrong = seen.iter().zip(0..).find(|(row, place)| **row != *place);
        assert_eq!(wrong, None, "the first row with two verdicts, or none");
        assert_eq!(seen.len() as u64, self.sent);
        outcome
    }
}

impl Outcome {
    pub fn confirmed(&self) -> Vec<u64> {
        let mut rows: Vec<u64> = self.confirmed.iter().cloned().flatten().collect();
        rows.sort_unstable();
        rows
    }

    /// All rows are confirmed, or this panics and says what became of them.
    pub fn all_confirmed(&self, count: u64) {
        assert_eq!(
            (self.failed.first(), self.unknown.first()),
            (None, None),
            "what became of the others"
        );
        assert_eq!(self.confirmed().len() as u64, count);
    }
}

/// Bodies in the table, sorted: messages without a key that had to be sent again carry no promise of order.
pub async fn bodies(store: &mut SqliteConnection, table: &str) -> Vec<String> {
    sqlx::query_scalar(AssertSqlSafe(format!(
        "SELECT CAST(body AS TEXT) AS text FROM {table} ORDER BY text"
    )))
    .fetch_all(store)
    .await
    .unwrap()
}

pub async fn execute(store: &mut SqliteConnection, text: &str) {
    store.execute(AssertSqlSafe(text.to_owned())).await.unwrap();
}

pub fn messages(count: usize) -> Vec<Message> {
    (0..count)
        .map(|n| Message::new(format!("body {n}")))
        .collect()
}

/// The bodies of `messages`, sorted.
pub fn expected(count: usize) -> Vec<String> {
    let mut bodies: Vec<String> = (0..count).map(|n| format!("body {n}")).collect();
    bodies.sort();
    bodies
}

fn config(setup: &Setup) -> Config {
    Config {
        connections: vec![ConnectionConfig {
            name: "main".into(),
            window: Window {
                unit: WindowUnit::Requests,
                size: 1,
            },
        }],
        routes: vec![Route {
            pattern: "*".to_owned(),
            connection: ConnectionId(0),
            policy: Policy {
                order: Order::Key,
                linger: Duration::ZERO,
                attempts: setup.attempts.max(1),
                backoff: Backoff {
                    initial: Duration::from_millis(1),
                    max: Duration::from_millis(20),
                },
                max_body_bytes: None,
                max_batch_messages: None,
                idle_eviction: Duration::from_secs(60),
            },
            settings: Arc::new(texts(setup.destination)),
        }],
        limits: ClientLimits {
            stream_messages: 1_000_000,
            stream_bytes: 1 << 30,
            total_bytes: 1 << 30,
            stream_scopes: 1_000,
            unread_result_bytes: 1 << 26,
            unread_results_timeout: Duration::from_secs(30),
            confirmation_timeout: Duration::from_secs(30),
        },
    }
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

async fn adapter(host: &Host) -> Adapter {
    static COMPONENT: OnceLock<PathBuf> = OnceLock::new();
    host.load(COMPONENT.get_or_init(component)).await.unwrap()
}

/// Builds the adapter and wraps it into a component, as `cargo xtask build` does.
fn component() -> PathBuf {
    const PACKAGE: &str = "sluicegate-adapter-sql";
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let target = tmp.parent().expect("target/tmp lies in target");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--profile", "guest"])
        .args(["--target", "wasm32-unknown-unknown", "-p", PACKAGE])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(
        status.success(),
        "{PACKAGE} does not build; is the target there? rustup target add wasm32-unknown-unknown"
    );
    let module = target.join("wasm32-unknown-unknown/guest/sluicegate_adapter_sql.wasm");
    let bytes = std::fs::read(module).expect("cargo wrote the module");
    let component = ComponentEncoder::default()
        .validate(true)
        .module(&bytes)
        .and_then(|encoder| encoder.encode())
        .expect("the module describes its world");
    let path = tmp.join("sluicegate-driver-sql-tests.wasm");
    let fresh = tempfile::NamedTempFile::new_in(tmp).expect("target/tmp is writable");
    std::fs::write(fresh.path(), component).expect("target/tmp is writable");
    fresh.persist(&path).expect("target/tmp is writable");
    path
}
