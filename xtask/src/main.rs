//! Every chore of the project is a command of `cargo xtask`; none needs more than cargo, rustup,
//! git and python3.

#![forbid(unsafe_code)]

mod bench;
mod build;
mod check;
mod command;
mod demo;
mod docs;
mod gateway;
#[cfg(feature = "simulate")]
mod simulate;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Every chore of the project", version)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Builds adapters, `sluicegate` and `loadgen` into target/release.
    Build,
    /// Builds, then publishes to SQLite through a real gateway and shows the table.
    Demo(demo::Options),
    /// All that CI runs: lint, build, every test, dependency check.
    Test,
    /// Formatting, clippy, and licences, bans and sources of dependencies.
    Lint,
    /// Runs random histories of the engine, with faults, and checks every rule that it must keep.
    Simulate(Simulation),
    /// Writes the pages of docs/ that are made of what the program prints.
    Docs,
    /// Measures every figure that the project promises, and prints each beside its bar.
    Bench(bench::Options),
}

#[derive(Debug, clap::Args)]
struct Simulation {
    /// How many histories.
    #[arg(long, default_value_t = 100_000)]
    seeds: u64,
    /// The seed of the first.
    #[arg(long, default_value_t = 0)]
    from: u64,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let workspace = workspace::Workspace::find()?;
    match Cli::parse().chore {
        Chore::Build => build::all(&workspace),
        Chore::Demo(options) => demo::run(&workspace, &options),
        Chore::Test => check::test(&workspace),
        Chore::Lint => check::lint(&workspace),
        Chore::Simulate(simulation) => simulate(&simulation),
        Chore::Docs => docs::write(&workspace),
        Chore::Bench(options) => bench::run(&workspace, &options),
    }
}

#[cfg(feature = "simulate")]
fn simulate(simulation: &Simulation) -> anyhow::Result<()> {
    simulate::run(simulation.seeds, simulation.from)
}

/// Builds this program with the engine in it, and runs that.
#[cfg(not(feature = "simulate"))]
fn simulate(simulation: &Simulation) -> anyhow::Result<()> {
    command::cargo(["run", "--quiet", "--release", "--package", "xtask"])
        .args(["--features", "simulate", "--", "simulate"])
        .args(["--seeds", &simulation.seeds.to_string()])
        .args(["--from", &simulation.from.to_string()])
        .run()
}
