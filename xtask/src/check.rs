//! `cargo xtask test` and `cargo xtask lint`: what CI runs is what anyone runs.

use anyhow::Context as _;

use crate::build;
use crate::command::cargo;
use crate::workspace::Workspace;

/// The version that `deny.toml` is written for.
const CARGO_DENY: &str = "0.20.2";

/// All that CI runs.
pub(crate) fn test(workspace: &Workspace) -> anyhow::Result<()> {
    lint(workspace)?;
    build::all(workspace)?;
    cargo(["test", "--release", "--workspace"]).run()
}

/// Formatting, clippy, dependencies. Tests are linted too.
pub(crate) fn lint(workspace: &Workspace) -> anyhow::Result<()> {
    cargo(["fmt", "--all", "--check"])
        .run()
        .context("some file is not formatted: run `cargo fmt --all`")?;
    cargo([
        "clippy",
        "--release",
        "--workspace",
        "--all-targets",
        "--features",
        "xtask/simulate",
        "--",
        "-D",
        "warnings",
    ])
    .run()?;
    deny(workspace)
}

/// Licences, bans and sources. Advisories come from a database on the network that changes by the
/// day: a check of theirs belongs to a schedule, not to a test that must say the same tomorrow.
fn deny(workspace: &Workspace) -> anyhow::Result<()> {
    if !cargo(["deny", "--version"]).works() {
        cargo(["install", "--locked", "--version", CARGO_DENY, "cargo-deny"])
            .run()
            .context("cargo-deny is needed to check the dependencies' licences and sources")?;
    }
    cargo(["deny", "--locked", "--manifest-path"])
        .args([workspace.root().join("Cargo.toml")])
        .args(["check", "licenses", "bans", "sources"])
        .run()
}
