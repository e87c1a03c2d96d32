//! Drives the real binary with the real adapters beside it.

#![allow(
    dead_code,
    reason = "each test file is a crate of its own and uses a part of this"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};

/// Longer than anything here takes, short enough that a hang is noticed: compiling adapters with a
/// cold cache on a busy machine is the slowest.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The binary, once it is known that its adapters are there.
pub(crate) fn binary() -> &'static Path {
    let binary = Path::new(env!("CARGO_BIN_EXE_sluicegate"));
    let adapters = binary.parent().unwrap().join("adapters");
    for adapter in ["sql.wasm", "null.wasm"] {
        assert!(
            adapters.join(adapter).exists(),
            "{} is missing: run `cargo xtask build` first",
            adapters.join(adapter).display()
        );
    }
    binary
}

/// A directory of its own, in which the binary runs.
pub(crate) struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The binary with nothing of this process's own configuration.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SLUICEGATE_") {
                command.env_remove(name);
            }
        }
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.command(arguments).output().unwrap())
    }

    /// Runs it to its end with this on stdin.
    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        Ran::from(child.wait_with_output().unwrap())
    }

    /// Starts `serve` and waits until it listens.
    pub(crate) fn serve(&self, environment: &[(&str, &str)]) -> Gateway {
        let mut command = self.command(&["serve"]);
        command.envs(environment.iter().copied());
        Gateway::start(command)
    }

    /// A store in this directory, opened by somebody else than the gateway.
    pub(crate) async fn connect(&self, store: &str) -> SqliteConnection {
        SqliteConnectOptions::new()
            .filename(self.path(store))
            .connect()
            .await
            .unwrap()
    }

    /// Rows of a store in this directory.
    pub(crate) fn rows(&self, store: &str, query: &'static str) -> Vec<(String, Option<Vec<u8>>)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut connection = self.connect(store).await;
            let rows = sqlx::query_as(query)
                .fetch_all(&mut connection)
                .await
                .unwrap();
            connection.close().await.unwrap();
            rows
        })
    }
}

/// What a run left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A running gateway; ends with this value.
pub(crate) struct Gateway {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
    pub(crate) address: String,
}

impl Gateway {
    fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = child.stderr.take().unwrap();
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        let mut gateway = Self {
            child,
            lines,
            seen: Vec::new(),
            address: String::new(),
        };
        let line = gateway.wait_for("listening on ");
        let (_, address) = line.split_once("listening on ").unwrap();
        gateway.address = address
            .split(['"', ' '])
            .next()
            .unwrap_or_default()
            .to_owned();
        gateway
    }

    /// The next log line that contains this.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let begun = Instant::now();
        loop {
            let Ok(line) = self
                .lines
                .recv_timeout(PATIENCE.saturating_sub(begun.elapsed()))
            else {
                panic!(
                    "no line with {text:?}; there were:\n{}",
                    self.seen.join("\n")
                );
            };
            self.seen.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// All lines so far, when it has ended.
    pub(crate) fn log(&mut self) -> String {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.seen.push(line);
        }
        self.seen.join("\n")
    }

    pub(crate) fn terminate(&self) {
        let pid = i32::try_from(self.child.id()).unwrap();
        #[allow(unsafe_code, reason = "std cannot send another signal than SIGKILL")]
        // SAFETY: kill reads two integers; the child has not been waited for, so the id is its own.
        let result = unsafe { libc::kill(pid, libc::SIGTERM) };
        assert_eq!(result, 0);
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "the gateway does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
