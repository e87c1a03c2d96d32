//! The real binaries, as `cargo xtask build` makes them.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Beside loadgen.
pub fn release() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_loadgen"))
        .parent()
        .unwrap()
        .to_owned()
}

/// A `sluicegate serve` with SQLite for every destination; ends with the value.
pub struct Gateway {
    child: Child,
    pub address: String,
    pub store: PathBuf,
    _directory: tempfile::TempDir,
}

impl Gateway {
    pub fn start() -> Self {
        let binary = release().join("sluicegate");
        assert!(
            binary.is_file(),
            "there is no {}: run `cargo xtask build`",
            binary.display()
        );
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("store.db");
        let config = directory.path().join("sluicegate.toml");
        let text = format!(
            "listen = \"127.0.0.1:0\"\n[connections.main]\nadapter = \"sql\"\npath = {store:?}\n\
             [connections.null]\nadapter = \"null\"\n\
             [destinations.\"*\"]\nconnection = \"main\"\n\
             [destinations.\"null.*\"]\nconnection = \"null\"\n"
        );
        std::fs::write(&config, text).unwrap();
        let mut child = Command::new(&binary)
            .arg("serve")
            .arg("--config")
            .arg(&config)
            .env("NO_COLOR", "1")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let address = loop {
            let Some(Ok(line)) = lines.next() else {
                panic!("the gateway did not start:\n{}", said.join("\n"));
            };
            if let Some((_, address)) = line.split_once("listening on ") {
                break address.trim().to_owned();
            }
            said.push(line);
        };
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            address,
            store,
            _directory: directory,
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
