//! `cargo xtask demo`: the shortest way from a clone to rows in a real store.

use std::path::Path;

use anyhow::Context as _;

use crate::build;
use crate::command::Cmd;
use crate::gateway::Gateway;
use crate::workspace::Workspace;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Messages of one scope. Small enough that the one-at-a-time run ends soon, large enough that
    /// batches fill.
    #[arg(long, default_value_t = 2_000)]
    messages: u32,
    /// Measurements of each mode.
    #[arg(long, default_value_t = 1)]
    runs: u32,
}

/// Builds, publishes, shows.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    build::all(workspace)?;

    let directory = workspace.target().join("demo");
    // Each demo begins with an empty store, so that what is in it afterwards is what was just sent.
    if directory.exists() {
        std::fs::remove_dir_all(&directory)
            .with_context(|| format!("cannot empty {}", directory.display()))?;
    }
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let store = directory.join("sluicegate.db");
    let config = directory.join("sluicegate.toml");
    std::fs::write(&config, configuration(&store))
        .with_context(|| format!("cannot write {}", config.display()))?;

    let gateway = Gateway::start(workspace, &config)?;
    eprintln!(
        "a gateway listens on {} and stores into {}",
        gateway.address(),
        store.display()
    );
    Cmd::new(workspace.binary("loadgen"))
        .args(["--provider", "sqlite", "--scenario", "throughput"])
        .args(["--messages", &options.messages.to_string()])
        .args(["--runs", &options.runs.to_string()])
        .args(["--gateway", gateway.address()])
        .args([Path::new("--broker-url"), &store])
        .run()?;
    drop(gateway);

    println!("\nThe rows are in {}. To look at them:\n", store.display());
    println!("  {}\n", look(&store));
    println!(
        "To serve without any configuration (SQLite at ./sluicegate.db, port 7077), and to publish a line:\n"
    );
    println!("  {} serve", workspace.binary("sluicegate").display());
    println!(
        "  echo hello | {} publish greetings",
        workspace.binary("sluicegate").display()
    );
    Ok(())
}

fn configuration(store: &Path) -> String {
    // TOML's basic strings are JSON's, which quotes any path.
    let store = serde_json::Value::String(store.display().to_string());
    format!(
        r#"listen = "127.0.0.1:0"

[connections.main]
adapter = "sql"
path = {store}

[connections.null]
adapter = "null"

[destinations."*"]
connection = "main"

[destinations."null.*"]
connection = "null"
"#
    )
}

/// A line that can be pasted, with what is installed.
fn look(store: &Path) -> String {
    const QUERY: &str = "SELECT queue, count(*), min(id), max(id) FROM messages GROUP BY queue";
    let store = store.display();
    if Cmd::new("sqlite3").args(["--version"]).works() {
        format!("sqlite3 -header -column '{store}' \"{QUERY}\"")
    } else {
        format!(
            "python3 -c 'import sqlite3; print(*sqlite3.connect(\"{store}\").execute(\"{QUERY}\"), sep=\"\\n\")'"
        )
    }
}
