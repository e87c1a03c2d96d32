//! Where things are: asked of cargo, never guessed, so that `CARGO_TARGET_DIR` and a
//! `build.target-dir` in anyone's configuration are respected.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::command;

/// The workspace's root and target directory.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// Asks cargo.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let text = command::cargo(["metadata", "--no-deps", "--format-version", "1"]).read()?;
        let metadata: serde_json::Value = serde_json::from_str(&text)
            .context("`cargo metadata` printed something else than JSON")?;
        let path = |key: &str| {
            metadata
                .get(key)
                .and_then(serde_json::Value::as_str)
                .map(PathBuf::from)
                .with_context(|| format!("`cargo metadata` names no {key}"))
        };
        Ok(Self {
            root: path("workspace_root")?,
            target: path("target_directory")?,
        })
    }

    /// The directory of the workspace's Cargo.toml.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Cargo's target directory.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Where `cargo xtask build` puts components; `sluicegate` looks there by default, since it is
    /// beside the executable.
    pub(crate) fn adapters(&self) -> PathBuf {
        self.target.join("release/adapters")
    }

    /// An executable that `cargo xtask build` made.
    pub(crate) fn binary(&self, name: &str) -> PathBuf {
        self.target
            .join("release")
            .join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
    }
}
