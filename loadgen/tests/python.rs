//! A client in another language, generated from the `.proto`, against the real gateway.
//!
//! The virtual environment is made once, under `target/`, and again when the pinned requirements change.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    dead_code,
    reason = "a test that cannot go on must stop; the support is shared"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::Gateway;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn run(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} ended with {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// A Python that has what the example requires, and where the generated modules are.
fn python() -> (PathBuf, PathBuf) {
    let example = root().join("sdk/examples/python");
    let venv = support::release().join("../python-example");
    let python = venv.join("bin/python");
    let requirements = std::fs::read_to_string(example.join("requirements.txt")).unwrap();
    let installed = venv.join("installed.txt");
    if std::fs::read_to_string(&installed).ok().as_deref() != Some(&requirements) {
        let _ = std::fs::remove_dir_all(&venv);
        run(Command::new("python3").arg("-m").arg("venv").arg(&venv));
        run(Command::new(&python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "-r",
            ])
            .arg(example.join("requirements.txt")));
        std::fs::write(&installed, requirements).unwrap();
    }
    let generated = venv.join("generated");
    std::fs::create_dir_all(&generated).unwrap();
    run(Command::new(&python)
        .args(["-m", "grpc_tools.protoc", "-I"])
        .arg(root().join("proto/sluicegate/v1"))
        .arg(format!("--python_out={}", generated.display()))
        .arg(format!("--grpc_python_out={}", generated.display()))
        .arg("gateway.proto"));
    (python, generated)
}

#[test]
fn a_python_client_gets_every_verdict_of_a_scope_with_three_bad_messages() {
    let (python, generated) = python();
    let gateway = Gateway::start();
    let output = run(Command::new(python)
        .arg(root().join("sdk/examples/python/client.py"))
        .arg(&gateway.address)
        .env("PYTHONPATH", generated)
        .env("PYTHONDONTWRITEBYTECODE", "1"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("997 confirmed, 3 failed, 0 unknown"),
        "{text}"
    );
    for row in ["row 100:", "row 500:", "row 900:"] {
        assert!(text.contains(row), "{text}");
    }
}
