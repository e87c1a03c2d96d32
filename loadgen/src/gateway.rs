//! The gateway that is measured: one of our own in a process of its own, or one that runs already.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::process::Usage;

/// The prefix of destinations that settle at once.
pub(crate) const NULL_PREFIX: &str = "null.";
/// A start compiles adapters when the cache is cold, which takes seconds on a slow machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// A gateway that was told to stop has nothing left to settle.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A gateway that answers.
#[derive(Debug)]
pub(crate) struct Gateway {
    address: String,
    /// Our own, with its store.
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    child: Child,
    /// Removed when dropped.
    directory: tempfile::TempDir,
}

impl Gateway {
    /// One that runs already: `HOST:PORT` or `unix:PATH`.
    pub(crate) fn running(address: &str) -> Self {
        let address = if address.contains("://") || address.starts_with("unix:") {
            address.to_owned()
        } else {
            format!("http://{address}")
        };
        Self { address, own: None }
    }

    /// Starts one on a free port with a store of its own: one configuration for every mode.
    ///
    /// # Errors
    ///
    /// The program is not there, or did not come to listen; with what it wrote.
    pub(crate) async fn start(program: Option<&Path>) -> Result<Self> {
        let program = match program {
            Some(program) => program.to_owned(),
            None => beside_us("sluicegate")?,
        };
        let directory = tempfile::Builder::new().prefix("loadgen-").tempdir()?;
        let config = directory.path().join("sluicegate.toml");
        std::fs::write(&config, configuration(&store_in(directory.path())))?;
        let mut child = Command::new(&program)
            .arg("serve")
            .arg("--config")
            .arg(&config)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| {
                format!(
                    "cannot start {}: build it with `cargo xtask build`, or name one with --sluicegate or --gateway",
                    program.display()
                )
            })?;
        let stderr = child.stderr.take().context("the gateway has no stderr")?;
        let mut lines = BufReader::new(stderr).lines();
        let mut said = Vec::new();
        let listening = tokio::time::timeout(START_TIMEOUT, async {
            while let Some(line) = lines.next_line().await? {
                if let Some(address) = listening(&line) {
                    return Ok::<_, anyhow::Error>(Some(address.to_owned()));
                }
                said.push(line);
            }
            Ok(None)
        })
        .await;
        let Ok(Ok(Some(address))) = listening else {
            bail!(
                "the gateway {} did not come to listen; it said:\n{}",
                program.display(),
                said.join("\n")
            );
        };
        // Read to its end: a gateway whose stderr is full would stop.
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if line.contains("WARN") || line.contains("ERROR") {
                    eprintln!("gateway: {line}");
                }
            }
        });
        Ok(Self {
            address: format!("http://{address}"),
            own: Some(Own { child, directory }),
        })
    }

    /// What a client connects to.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Its process, when it is our own.
    pub(crate) fn usage(&self) -> Option<Usage> {
        self.own.as_ref()?.child.id().map(Usage::of)
    }

    /// The store's file, when the gateway is our own.
    pub(crate) fn store(&self) -> Option<PathBuf> {
        Some(store_in(self.own.as_ref()?.directory.path()))
    }

    /// Stops it, if it is our own.
    ///
    /// # Errors
    ///
    /// It did not end by itself, or not well.
    pub(crate) async fn stop(self) -> Result<()> {
        let Some(mut own) = self.own else {
            return Ok(());
        };
        if let Some(id) = own.child.id().and_then(|id| i32::try_from(id).ok())
            && let Some(id) = rustix::process::Pid::from_raw(id)
        {
            rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        }
        let status = tokio::time::timeout(STOP_TIMEOUT, own.child.wait())
            .await
            .context("the gateway did not end within 10 s of SIGTERM")??;
        if !status.success() {
            bail!("the gateway ended with {status}");
        }
        Ok(())
    }
}

/// A program in the directory of this one.
fn beside_us(name: &str) -> Result<PathBuf> {
    let us = std::env::current_exe().context("cannot tell where this program is")?;
    Ok(us.with_file_name(name))
}

fn store_in(directory: &Path) -> PathBuf {
    directory.join("store.db")
}

fn configuration(store: &Path) -> String {
    // A basic string of TOML is one of JSON.
    let store = serde_json::Value::from(store.display().to_string());
    format!(
        r#"listen = "127.0.0.1:0"

[connections.main]
adapter = "sql"
path = {store}

[connections.null]
adapter = "null"

[destinations."*"]
connection = "main"

[destinations."{NULL_PREFIX}*"]
connection = "null"
"#
    )
}

fn listening(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("listening on ")?;
    let address = rest.split([' ', '"']).next()?;
    address
        .parse::<std::net::SocketAddr>()
        .is_ok()
        .then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_plain_and_in_json_logs() {
        assert_eq!(
            listening("2026-01-01 INFO listening on 127.0.0.1:7077"),
            Some("127.0.0.1:7077")
        );
        assert_eq!(
            listening(r#"{"message":"listening on 127.0.0.1:7077"}"#),
            Some("127.0.0.1:7077")
        );
        assert_eq!(listening("listening on unix:/run/x"), None);
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named_with_the_remedy() {
        let error = Gateway::start(Some(Path::new("/nowhere/sluicegate")))
            .await
            .unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.contains("/nowhere/sluicegate") && text.contains("cargo xtask build"),
            "{text}"
        );
    }

    #[test]
    fn an_address_without_a_scheme_is_completed() {
        assert_eq!(
            Gateway::running("127.0.0.1:1").address(),
            "http://127.0.0.1:1"
        );
        assert_eq!(Gateway::running("unix:/s").address(), "unix:/s");
    }
}
