//! The gateway that is measured: one of loadgen's own, or one that runs already.
//!
//! One configuration serves all scenarios and modes: SQLite for every destination, and the null
//! adapter for `null.*`, so that the gateway's own cost is measured in the same process.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

use sluicegate_client::{Client, ClientBuilder};

use crate::cli::Options;
use crate::error::Stop;

/// A start compiles adapters when the cache is cold, which takes seconds on a slow machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The exit code of a bad configuration.
const BAD_CONFIGURATION: i32 = 64;

/// Destinations of the null adapter begin so.
const NULL_PREFIX: &str = "null.";
const NULL_PATTERN: &str = "null.*";

/// A gateway.
#[derive(Debug)]
pub(crate) struct Gateway {
    address: String,
    child: Option<Process>,
    /// Where its store is, if that is known.
    store: Option<PathBuf>,
    /// Where direct runs may put theirs: on the same disk.
    directory: TempDir,
    /// Name and version.
    pub(crate) version: String,
    has_null: bool,
}

impl Gateway {
    /// Starts one, or finds the one that was named.
    pub(crate) async fn open(options: &Options) -> Result<Self, Stop> {
        let mut gateway = match &options.gateway {
            Some(address) => Self::existing(address, options.broker_url.as_deref())?,
            None if options.broker_url.is_some() => {
                return Err(Stop::Usage(
                    "--broker-url names the store behind --gateway: a gateway that loadgen starts has a store of its own, so name both or neither".to_owned(),
                ));
            }
            None => Self::start().await?,
        };
        let welcome = gateway.client().await?.welcome();
        gateway.version = welcome.gateway;
        gateway.has_null = welcome
            .destinations
            .iter()
            .any(|destination| destination.name == NULL_PATTERN);
        Ok(gateway)
    }

    fn existing(address: &str, store: Option<&str>) -> Result<Self, Stop> {
        let address = if address.contains("://") || address.starts_with("unix:") {
            address.to_owned()
        } else {
            format!("http://{address}")
        };
        let store = store.map(|url| {
            let path = url.strip_prefix("sqlite:").unwrap_or(url);
            PathBuf::from(path.strip_prefix("//").unwrap_or(path))
        });
        let beside = store.as_deref().and_then(Path::parent);
        let directory = match beside.filter(|path| !path.as_os_str().is_empty()) {
            // The file itself may not be there yet: the gateway's first message makes it.
            Some(path) if !path.is_dir() => {
                return Err(Stop::Unreachable(format!(
                    "--broker-url: there is no directory {}: name the file that the gateway's connection has as its path",
                    path.display()
                )));
            }
            Some(path) => tempfile::tempdir_in(path),
            None => tempfile::tempdir(),
        };
        Ok(Self {
            address,
            child: None,
            store,
            directory: directory.map_err(|error| no_directory(&error))?,
            version: String::new(),
            has_null: false,
        })
    }

    async fn start() -> Result<Self, Stop> {
        let directory = tempfile::tempdir().map_err(|error| no_directory(&error))?;
        let store = directory.path().join("store.db");
        let config = directory.path().join("sluicegate.toml");
        std::fs::write(&config, configuration(&store)).map_err(|error| no_directory(&error))?;
        let executable = beside("sluicegate")?;
        let mut command = Command::new(&executable);
        command.arg("serve").arg("--config").arg(&config);
        let (child, address) = Process::start(command, &executable).await?;
        Ok(Self {
            address: format!("http://{address}"),
            child: Some(child),
            store: Some(store),
            directory,
            version: String::new(),
            has_null: false,
        })
    }

    /// A client with the defaults.
    pub(crate) async fn client(&self) -> Result<Client, Stop> {
        self.client_with(Client::builder()).await
    }

    pub(crate) async fn client_with(&self, builder: ClientBuilder) -> Result<Client, Stop> {
        let name = concat!("loadgen ", env!("CARGO_PKG_VERSION"));
        Ok(builder.name(name).connect(&self.address).await?)
    }

    /// The store's file.
    pub(crate) fn store(&self) -> Option<&Path> {
        self.store.as_deref()
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The process, as `/proc` has it.
    pub(crate) fn process(&self) -> Option<String> {
        self.child.as_ref()?.id()
    }

    /// A destination of the null adapter, if there are any.
    pub(crate) fn null_destination(&self, name: &str) -> Option<String> {
        self.has_null.then(|| format!("{NULL_PREFIX}{name}"))
    }
}

fn no_directory(error: &std::io::Error) -> Stop {
    Stop::Unreachable(format!(
        "cannot make a temporary directory: {error}; set TMPDIR to one that can be written"
    ))
}

/// An executable of the same build.
pub(crate) fn beside(name: &str) -> Result<PathBuf, Stop> {
    let own = std::env::current_exe()
        .map_err(|error| Stop::Unreachable(format!("cannot tell where loadgen is: {error}")))?;
    let path = own.with_file_name(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if path.is_file() {
        return Ok(path);
    }
    Err(Stop::Unreachable(format!(
        "there is no {}: run `cargo xtask build`, or name a running gateway with --gateway",
        path.display()
    )))
}

fn configuration(store: &Path) -> String {
    // TOML's basic strings are JSON's, which quotes any path.
    let store = serde_json::Value::String(store.display().to_string());
    format!(
        r#"listen = "127.0.0.1:0"

[connections.main]
adapter = "sql"
path = {store}

[connections.null]
adapter = "null"

[destinations."*"]
connection = "main"

[destinations."{NULL_PATTERN}"]
connection = "null"
"#
    )
}

/// A child that says where it listens, and ends with loadgen.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts it and waits for its address.
    pub(crate) async fn start(
        mut command: Command,
        executable: &Path,
    ) -> Result<(Self, String), Stop> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .env("NO_COLOR", "1")
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| {
                Stop::Unreachable(format!("cannot run {}: {error}", executable.display()))
            })?;
        let stderr = child
            .stderr
            .take()
            .ok_or_else(|| Stop::Unreachable(format!("{} has no stderr", executable.display())))?;
        let mut lines = BufReader::new(stderr).lines();
        let mut said = Vec::new();
        let waiting = tokio::time::timeout(START_TIMEOUT, address(&mut lines, &mut said)).await;
        let Ok(Some(address)) = waiting else {
            let status = match waiting {
                Ok(_) => child.wait().await.ok(),
                Err(_) => None,
            };
            let text = format!(
                "{} did not start:\n{}",
                executable.display(),
                said.join("\n")
            );
            return Err(match status.and_then(|status| status.code()) {
                Some(BAD_CONFIGURATION) => Stop::Configuration(text),
                _ => Stop::Unreachable(text),
            });
        };
        // Read to its end: a process whose stderr is full would stop.
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if ["WARN", "ERROR"].iter().any(|level| line.contains(level)) {
                    eprintln!("{line}");
                }
            }
        });
        Ok((Self { child }, address))
    }

    fn id(&self) -> Option<String> {
        self.child.id().map(|id| id.to_string())
    }
}

async fn address(
    lines: &mut Lines<BufReader<ChildStderr>>,
    said: &mut Vec<String>,
) -> Option<String> {
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(address) = listening(&line) {
            return Some(address.to_owned());
        }
        said.push(line);
    }
    None
}

fn listening(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("listening on ")?;
    let end = rest
        .find(|c: char| c.is_whitespace() || c == '"')
        .unwrap_or(rest.len());
    let address = rest.get(..end)?;
    let valid = address.parse::<std::net::SocketAddr>().is_ok();
    valid.then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_plain_and_in_json_logs() {
        let plain = "2026-01-01T00:00:00Z  INFO sluicegate: listening on 127.0.0.1:7077";
        assert_eq!(listening(plain), Some("127.0.0.1:7077"));
        let json = r#"{"fields":{"message":"listening on 127.0.0.1:7077"}}"#;
        assert_eq!(listening(json), Some("127.0.0.1:7077"));
        assert_eq!(listening("listening on unix:/x"), None);
    }

    #[test]
    fn a_path_with_quotes_is_quoted_in_the_configuration() {
        let text = configuration(Path::new("/tmp/a\"b"));
        assert!(text.contains(r#"path = "/tmp/a\"b""#), "{text}");
    }

    #[test]
    fn a_store_that_is_not_there_is_named() {
        let error = Gateway::existing("127.0.0.1:1", Some("/no/such/file")).unwrap_err();
        assert!(error.to_string().contains("/no/such"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}
