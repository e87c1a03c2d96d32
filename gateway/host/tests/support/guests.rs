//! Guests built from source, for tests of this crate and of the drivers.

use std::path::{Path, PathBuf};
use std::process::Command;

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
