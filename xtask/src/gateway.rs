//! A gateway of one's own: a `sluicegate serve` that ends with the value that started it.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::command::Cmd;
use crate::workspace::Workspace;

/// A start compiles adapters when the cache is cold, which takes seconds on a slow machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running `sluicegate serve`.
#[derive(Debug)]
pub(crate) struct Gateway {
    child: Child,
    address: String,
    started_in: Duration,
}

impl Gateway {
    /// Starts one and waits until it listens.
    pub(crate) fn start(workspace: &Workspace, config: &Path) -> anyhow::Result<Self> {
        let command = Cmd::new(workspace.binary("sluicegate"))
            .args(["serve", "--config"])
            .args([config])
            .env("NO_COLOR", "1");
        let begun = Instant::now();
        let mut child = command
            .command()
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run `{command}`; has `cargo xtask build` run?"))?;
        let stderr = child.stderr.take().context("the gateway has no stderr")?;
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            // Read to its end: a gateway whose stderr is full would stop.
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });

        let mut seen = Vec::new();
        loop {
            match lines.recv_timeout(START_TIMEOUT.saturating_sub(begun.elapsed())) {
                Ok(line) => {
                    if let Some(address) = listening(&line) {
                        return Ok(Self {
                            started_in: begun.elapsed(),
                            address: address.to_owned(),
                            child,
                        });
                    }
                    seen.push(line);
                }
                Err(_) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    bail!("the gateway did not start:\n{}", seen.join("\n"));
                }
            }
        }
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// From its start to the line that says that it listens.
    pub(crate) fn started_in(&self) -> Duration {
        self.started_in
    }

    /// Resident memory now (`VmRSS`) or at its highest (`VmHWM`), in bytes. Linux only.
    pub(crate) fn memory_bytes(&self, field: &str) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        text.lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
            .map(|kib| kib * 1024)
            .with_context(|| format!("{path} has no {field}"))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listening(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("listening on ")?;
    let end = rest
        .find(|c: char| c.is_whitespace() || c == '"')
        .unwrap_or(rest.len());
    let address = rest.get(..end)?;
    address
        .parse::<std::net::SocketAddr>()
        .is_ok()
        .then_some(address)
}

#[cfg(test)]
mod tests {
    use super::listening;

    #[test]
    fn the_address_is_found_in_plain_and_in_json_logs() {
        let plain = "2026-01-01T00:00:00Z  INFO sluicegate: listening on 127.0.0.1:7077";
        assert_eq!(listening(plain), Some("127.0.0.1:7077"));
        let json = r#"{"level":"INFO","fields":{"message":"listening on 127.0.0.1:7077"}}"#;
        assert_eq!(listening(json), Some("127.0.0.1:7077"));
    }

    #[test]
    fn a_unix_socket_is_no_address_to_connect_to() {
        assert_eq!(
            listening("INFO listening on unix:/run/sluicegate.sock"),
            None
        );
        assert_eq!(listening("INFO connecting"), None);
    }
}
