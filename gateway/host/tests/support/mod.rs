//! What the tests and the benchmark of this crate share: guests built from source, a driver to call them
//! through, batches.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    reason = "shared by test binaries, each of which uses a part of it"
)]

pub mod null;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sluicegate_core::{Batch, Message, Origin, Row};
use sluicegate_host::wasmtime;
use wit_component::ComponentEncoder;

/// Builds a guest crate and wraps it into a component, as `cargo xtask build` does. Cargo sees to it that
/// test binaries that do so at once wait for each other.
pub fn component(package: &str) -> PathBuf {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let target = tmp.parent().expect("target/tmp lies in target");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--profile", "guest"])
        .args(["--target", "wasm32-unknown-unknown", "-p", package])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(
        status.success(),
        "{package} does not build; is the target there? rustup target add wasm32-unknown-unknown"
    );
    let module = target
        .join("wasm32-unknown-unknown/guest")
        .join(format!("{}.wasm", package.replace('-', "_")));
    let bytes = std::fs::read(&module).expect("cargo wrote the module");
    let component = ComponentEncoder::default()
        .validate(true)
        .module(&bytes)
        .and_then(|encoder| encoder.encode())
        .expect("the module describes its world");
    let file = tempfile::Builder::new()
        .prefix(package)
        .suffix(".wasm")
        .tempfile_in(tmp)
        .expect("target/tmp is writable");
    std::fs::write(file.path(), component).expect("target/tmp is writable");
    let path = tmp.join(format!("{package}.wasm"));
    file.persist(&path).expect("target/tmp is writable");
    path
}

/// A batch of messages of 256 bytes for the destination that has the number 0.
pub fn batch(rows: usize) -> Batch {
    batch_of((0..rows).map(|_| Message::new(vec![b'x'; 256])).collect())
}

/// A batch of these messages.
pub fn batch_of(messages: Vec<Message>) -> Batch {
    Batch {
        destination: "orders".into(),
        address: 0,
        body_bytes: messages.iter().map(Message::body_bytes).sum(),
        rows: messages
            .into_iter()
            .map(|message| Row {
                message,
                origin: Origin::default(),
                accepted_at: Duration::ZERO,
                attempts: 0,
            })
            .collect(),
        deadline: Duration::from_secs(30),
        receipts: false,
    }
}

pub type Result<T> = wasmtime::Result<T>;
