//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};

use crate::config;
use crate::failure::Failure;
use crate::{adapters, check, publish, serve};

/// A producer gateway: applications publish over one gRPC stream, every broker gets its own native
/// batch, every message gets one verdict.
#[derive(Debug, Parser)]
#[command(name = "sluicegate", version)]
struct Cli {
    /// Configuration file. Default: ./sluicegate.toml if it is there, else SQLite at ./sluicegate.db.
    #[arg(long, global = true, env = "SLUICEGATE_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves until SIGTERM or SIGINT, then settles what it has.
    Serve,
    /// Parses the configuration, connects, opens every named destination, and prints what would be
    /// served. Exits 64 if the configuration is bad, 1 if something cannot be reached.
    Check,
    /// Publishes a file's lines through a running gateway and prints their verdicts. Exits 1 unless
    /// all are confirmed.
    Publish(publish::Options),
    /// Lists the adapters that are installed. Exits 1 if one of them is broken.
    Adapters,
    /// Prints the whole commented default configuration.
    Config,
}

/// Runs what the command line says.
pub(crate) fn run() -> Result<ExitCode, Failure> {
    let cli = Cli::parse();
    // Publishing needs an address and no configuration: it may run where there is none.
    if let Command::Publish(options) = &cli.command {
        return small_runtime()?.block_on(publish::run(options));
    }
    let config = match (config::load(cli.config.as_deref()), &cli.command) {
        // Whoever asks what a configuration may be need not have a good one.
        (Err(_), Command::Config) => config::parse(None, [])?,
        (config, _) => config?,
    };
    match cli.command {
        Command::Serve => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()
                .context("the runtime cannot start")?;
            runtime.block_on(serve::run(config))
        }
        Command::Check => small_runtime()?.block_on(check::run(config)),
        Command::Adapters => small_runtime()?.block_on(adapters::list(&config)),
        Command::Config => small_runtime()?.block_on(adapters::reference(&config)),
        // Handled above.
        Command::Publish(_) => Ok(ExitCode::SUCCESS),
    }
}

fn small_runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot start")
        .map_err(Failure::from)
}
