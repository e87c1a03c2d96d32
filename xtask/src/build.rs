//! `cargo xtask build`: guests first, since the tests of everything else load them.
//!
//! A guest is an ordinary crate built for `wasm32-unknown-unknown`, a target without any system
//! interface: what an adapter cannot import it cannot call. The core module that cargo makes carries
//! the description of its world; wrapping it into a component is done here, so that building an
//! adapter needs no tool beyond cargo.

use std::path::Path;

use anyhow::Context as _;
use wit_component::ComponentEncoder;

use crate::command::{Cmd, cargo};
use crate::workspace::Workspace;

const GUEST_TARGET: &str = "wasm32-unknown-unknown";

/// Guest crates and the component that each becomes.
const GUESTS: [(&str, &str); 2] = [
    ("sluicegate-adapter-null", "null"),
    ("sluicegate-adapter-sql", "sql"),
];

/// Adapters, `sluicegate` and `loadgen` into target/release.
pub(crate) fn all(workspace: &Workspace) -> anyhow::Result<()> {
    adapters(workspace)?;
    cargo(["build", "--release", "-p", "sluicegate", "-p", "loadgen"]).run()?;
    eprintln!(
        "built {} and {}",
        workspace.binary("sluicegate").display(),
        workspace.binary("loadgen").display()
    );
    Ok(())
}

/// Adapters alone.
pub(crate) fn adapters(workspace: &Workspace) -> anyhow::Result<()> {
    guest_target()?;
    let mut build = cargo(["build", "--profile", "guest", "--target", GUEST_TARGET]);
    for (package, _) in GUESTS {
        build = build.args(["-p", package]);
    }
    build.run()?;

    let directory = workspace.adapters();
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    for (package, name) in GUESTS {
        let module = workspace
            .target()
            .join(GUEST_TARGET)
            .join("guest")
            .join(format!("{}.wasm", package.replace('-', "_")));
        let component = directory.join(format!("{name}.wasm"));
        let bytes = componentize(&module)?;
        // An unchanged component keeps its time, and a gateway that is just reading it sees the old
        // file or the new one, never half of one.
        if std::fs::read(&component).is_ok_and(|old| old == bytes) {
            continue;
        }
        let temporary = directory.join(format!("{name}.wasm.{}", std::process::id()));
        std::fs::write(&temporary, &bytes)
            .and_then(|()| std::fs::rename(&temporary, &component))
            .with_context(|| format!("cannot write {}", component.display()))?;
        eprintln!("wrote {} ({} bytes)", component.display(), bytes.len());
    }
    Ok(())
}

fn componentize(module: &Path) -> anyhow::Result<Vec<u8>> {
    let bytes =
        std::fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
    let encode = || -> anyhow::Result<Vec<u8>> {
        ComponentEncoder::default()
            .validate(true)
            .module(&bytes)?
            .encode()
    };
    encode().with_context(|| {
        format!(
            "{} cannot be wrapped into a component: a guest must export the world of its driver \
             through the adapter SDK's macro and import nothing but `log`",
            module.display()
        )
    })
}

fn guest_target() -> anyhow::Result<()> {
    let rustup = Cmd::new("rustup");
    if !rustup.args(["--version"]).works() {
        // A toolchain without rustup brings its targets by itself; cargo says so if it does not.
        return Ok(());
    }
    let installed = Cmd::new("rustup")
        .args(["target", "list", "--installed"])
        .read()?;
    if installed.lines().any(|line| line.trim() == GUEST_TARGET) {
        return Ok(());
    }
    Cmd::new("rustup")
        .args(["target", "add", GUEST_TARGET])
        .run()
}
