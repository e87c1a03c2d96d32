//! `cargo xtask bench`: every figure that the project promises beside what this machine gives.
//!
//! Bars are ratios against a baseline of the same run wherever that can be, since absolute figures
//! say more about the machine than about the gateway. It reports and never fails a build: a
//! benchmark on a shared machine is no test.

mod bars;
mod memory;

use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use crate::build;
use crate::command::{Cmd, cargo};
use crate::workspace::Workspace;
use bars::Bar;

/// What the bars are stated for.
const SIZE: &str = "256";
/// Starts that are measured, after one that warms the component cache; the middle one counts.
const STARTS: usize = 5;

/// Load below which nothing else worth mentioning runs: part of one core.
const IDLE_LOAD: f64 = 0.5;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these: hop, throughput, enqueue, memory, start, boundary. Default: all.
    #[arg(value_parser = ["hop", "throughput", "enqueue", "memory", "start", "boundary"])]
    only: Vec<String>,
    /// Measurements of each row.
    #[arg(long, default_value_t = 3)]
    runs: u32,
}

/// Measures and prints the table.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> anyhow::Result<()> {
    // Before the build, whose own load would be taken for somebody else's.
    let others = load();
    build::all(workspace)?;
    let runs = options.runs.to_string();
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|o| o == name);
    let mut bars: Vec<Bar> = Vec::new();
    // A measurement that breaks takes its own bars with it and no other's.
    let mut measure = |name: &str, result: anyhow::Result<Vec<Bar>>| match result {
        Ok(measured) => bars.extend(measured),
        Err(error) => bars.push(Bar::broken(name, &format!("{error:#}"))),
    };

    if wanted("start") {
        measure("start", start(workspace));
    }
    if wanted("memory") {
        measure("memory idle", memory::idle(workspace));
        measure("memory stalled", memory::stalled(workspace));
    }
    if wanted("boundary") {
        measure("adapter boundary", boundary());
    }
    if wanted("hop") {
        let report = loadgen(
            workspace,
            &["--provider", "null", "--scenario", "hop", "--runs", &runs],
        );
        measure("hop", report.and_then(|report| bars::hop(&report)));
    }
    if wanted("throughput") {
        let report = loadgen(
            workspace,
            &[
                "--provider",
                "sqlite",
                "--scenario",
                "throughput",
                "--direct",
                "--runs",
                &runs,
            ],
        );
        measure(
            "throughput",
            report.and_then(|report| bars::throughput(&report)),
        );
    }
    if wanted("enqueue") {
        let report = loadgen(
            workspace,
            &[
                "--provider",
                "sqlite",
                "--scenario",
                "enqueue",
                "--direct",
                "--runs",
                &runs,
            ],
        );
        measure("enqueue", report.and_then(|report| bars::enqueue(&report)));
    }

    println!("{}", bars::table(&bars));
    println!("{} run(s) of each row. {}", options.runs, company(others));
    Ok(())
}

/// What else ran on the machine when the measuring began. Figures of a shared machine say little,
/// and a lucky one says as little as an unlucky one.
fn company(load: Option<f64>) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match load {
        None => "How busy the machine was is unknown.".to_owned(),
        Some(load) if load < IDLE_LOAD => {
            format!("The machine was idle before (load {load:.1} on {cores} cores).")
        }
        Some(load) => format!(
            "THE MACHINE WAS BUSY before (load {load:.1} on {cores} cores): measure again when it is idle."
        ),
    }
}

/// The last minute's load average. Linux only.
fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// One scenario's report. Its exit code is kept out of it: 1 says that verdicts do not add up, and
/// then the report says so too.
fn loadgen(workspace: &Workspace, arguments: &[&str]) -> anyhow::Result<Value> {
    let command = Cmd::new(workspace.binary("loadgen"))
        .args(arguments)
        .args(["--size", SIZE, "--format", "json"]);
    eprintln!("$ {command}");
    let (text, added_up) = command.read_any()?;
    let report = serde_json::from_str(&text)
        .with_context(|| format!("`{command}` printed something else than one JSON object"))?;
    if !added_up {
        eprintln!("`{command}` says that its verdicts do not add up:\n{text}");
    }
    Ok(report)
}

/// A start with a warm component cache.
fn start(workspace: &Workspace) -> anyhow::Result<Vec<Bar>> {
    let directory = tempfile::tempdir()?;
    let config = memory::sqlite_config(directory.path())?;
    let once = |config: &Path| -> anyhow::Result<f64> {
        let gateway = crate::gateway::Gateway::start(workspace, config)?;
        Ok(gateway.started_in().as_secs_f64() * 1_000.0)
    };
    once(&config)?;
    let mut times = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        times.push(once(&config)?);
    }
    times.sort_by(f64::total_cmp);
    let median = times
        .get(STARTS / 2)
        .copied()
        .context("nothing was measured")?;
    Ok(vec![Bar::at_most(
        "start, warm component cache",
        median,
        200.0,
        "ms",
    )])
}

/// The host crate's own benchmark measures it.
fn boundary() -> anyhow::Result<Vec<Bar>> {
    let command = cargo(["bench", "--quiet", "-p", "sluicegate-host"]);
    eprintln!("$ {command}");
    let text = command.read()?;
    eprint!("{text}");
    bars::boundary(&text)
}
