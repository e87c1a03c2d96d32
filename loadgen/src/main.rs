//! The load generator: every figure that the gateway claims.
//!
//! **A rate counts only if what was published can be found again**: after each run the store is read
//! back, and what is missing, duplicated, altered or out of order is part of the report and of the
//! exit code. Gateway and store alone are measured by turns, in the same run.
//!
//! Exit codes: 0 fine; 1 a verdict or the read-back does not add up; 2 usage, or something that cannot
//! be reached; 64 the gateway refuses its configuration.

#![forbid(unsafe_code)]

mod bare;
mod body;
mod check;
mod cli;
mod error;
mod gateway;
mod machine;
mod progress;
mod report;
mod scenario;
mod sqlite;
mod stats;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command, Format, Options};
use crate::error::Stop;
use crate::scenario::Outcome;

/// A verdict or the read-back does not add up.
const DOES_NOT_ADD_UP: u8 = 1;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("loadgen: cannot start: {error}");
            return ExitCode::from(2);
        }
    };
    let result = runtime.block_on(async {
        match cli.command {
            Some(Command::BareServer) => bare::serve().await.map(|()| true),
            None => measure(cli.options).await,
        }
    });
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("loadgen: verdicts and what is in the store do not add up: see the report");
            ExitCode::from(DOES_NOT_ADD_UP)
        }
        Err(stop) => {
            eprintln!("loadgen: {stop}");
            ExitCode::from(stop.exit_code())
        }
    }
}

/// Prints the report; returns whether all adds up.
async fn measure(options: Options) -> Result<bool, Stop> {
    let format = options.format;
    // On a thread of the runtime's own, as an application's would be.
    let mut running = tokio::spawn(scenario::run(options));
    let outcome = tokio::select! {
        outcome = &mut running => outcome,
        () = interrupted() => {
            // Ends the gateway with it.
            running.abort();
            let _ = running.await;
            return Err(Stop::Interrupted);
        }
    };
    let Outcome { report, adds_up } =
        outcome.map_err(|error| Stop::Unreachable(format!("broken: {error}")))??;
    let text = match format {
        Format::Table => report.table(),
        Format::Json => serde_json::to_string(&report)
            .map_err(|error| Stop::Unreachable(format!("the report: {error}")))?,
    };
    println!("{text}");
    Ok(adds_up)
}

/// SIGINT or SIGTERM.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
