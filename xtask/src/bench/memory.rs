//! What the gateway holds: idle, and when a store takes nothing while clients push.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use super::bars::Bar;
use crate::command::Cmd;
use crate::gateway::Gateway;
use crate::workspace::Workspace;

const MIB: f64 = 1024.0 * 1024.0;
/// What is pushed at the stalled store.
const MESSAGES: u64 = 5_000_000;
const BODY_BYTES: usize = 256;
/// One stream may hold only its own credit: enough of them use up the budget of all.
const PUBLISHERS: u64 = 8;
/// The gateway's default, in MiB.
const BUDGET_MIB: f64 = 64.0;
/// What it may need beside the budget, in MiB.
const REST_MIB: f64 = 40.0;
/// Pushing is over when nothing more was taken for so long.
const QUIET: Duration = Duration::from_secs(3);
/// Before idle memory is read: the start's own garbage has been given back by then.
const SETTLE: Duration = Duration::from_secs(1);

/// A configuration with one SQLite store in `directory`.
pub(super) fn sqlite_config(directory: &Path) -> anyhow::Result<PathBuf> {
    let store = Value::String(directory.join("store.db").display().to_string());
    write(
        directory,
        &format!(
            "listen = \"127.0.0.1:0\"\n[connections.main]\nadapter = \"sql\"\npath = {store}\n\
             [destinations.\"*\"]\nconnection = \"main\"\n"
        ),
    )
}

fn write(directory: &Path, text: &str) -> anyhow::Result<PathBuf> {
    let path = directory.join("sluicegate.toml");
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

#[allow(
    clippy::cast_precision_loss,
    reason = "memory in MiB is far below 2^52"
)]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB
}

/// One adapter, a warm cache, no client.
pub(super) fn idle(workspace: &Workspace) -> anyhow::Result<Vec<Bar>> {
    let directory = tempfile::tempdir()?;
    let config = sqlite_config(directory.path())?;
    drop(Gateway::start(workspace, &config)?);
    let gateway = Gateway::start(workspace, &config)?;
    std::thread::sleep(SETTLE);
    Ok(vec![Bar::at_most(
        "memory, idle",
        mib(gateway.memory_bytes("VmRSS")?),
        REST_MIB,
        "MiB",
    )])
}

/// Publishers push far more than the budget at a store that never settles.
pub(super) fn stalled(workspace: &Workspace) -> anyhow::Result<Vec<Bar>> {
    let directory = tempfile::tempdir()?;
    let config = write(
        directory.path(),
        "listen = \"127.0.0.1:0\"\n[connections.stalled]\nadapter = \"null\"\nstall = true\n\
         [destinations.\"*\"]\nconnection = \"stalled\"\n",
    )?;
    let gateway = Gateway::start(workspace, &config)?;

    let taken = Arc::new(AtomicU64::new(0));
    let mut publishers = Vec::new();
    for number in 0..PUBLISHERS {
        publishers.push(publisher(workspace, &gateway, number, &taken)?);
    }
    let mut before = u64::MAX;
    loop {
        std::thread::sleep(QUIET);
        let now = taken.load(Ordering::Relaxed);
        if now == before {
            break;
        }
        before = now;
    }
    let peak = mib(gateway.memory_bytes("VmHWM")?);
    for mut publisher in publishers {
        let _ = publisher.kill();
        let _ = publisher.wait();
    }
    eprintln!(
        "{before} of {MESSAGES} messages were taken from the publishers' input before the streams waited"
    );
    #[allow(clippy::cast_precision_loss, reason = "five million is far below 2^52")]
    let part = before as f64 / MESSAGES as f64;
    Ok(vec![
        Bar::at_most("memory, stalled store", peak, BUDGET_MIB + REST_MIB, "MiB"),
        Bar::at_most(
            "stalled store: part taken before the streams wait",
            part,
            0.5,
            "",
        ),
    ])
}

/// A `sluicegate publish` that is fed lines until it takes no more.
fn publisher(
    workspace: &Workspace,
    gateway: &Gateway,
    number: u64,
    taken: &Arc<AtomicU64>,
) -> anyhow::Result<Child> {
    let command = Cmd::new(workspace.binary("sluicegate"))
        .args(["publish", &format!("stalled-{number}"), "-"])
        .args(["--address", gateway.address()]);
    let mut child = command
        .command()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run `{command}`"))?;
    let mut input = child.stdin.take().context("the publisher has no stdin")?;
    let taken = Arc::clone(taken);
    std::thread::spawn(move || {
        let mut line = vec![b'x'; BODY_BYTES];
        line.push(b'\n');
        for _ in 0..MESSAGES / PUBLISHERS {
            // The pipe breaks when the publisher is ended.
            if input.write_all(&line).is_err() {
                return;
            }
            taken.fetch_add(1, Ordering::Relaxed);
        }
    });
    Ok(child)
}
