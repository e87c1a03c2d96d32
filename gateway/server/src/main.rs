//! The producer gateway: configuration, wiring, nothing else.
//!
//! What the program does is decided by `config`, `wiring` puts the crates together accordingly, and
//! each subcommand is a file. Exit codes: 0 fine; 1 something failed or cannot be reached; 2 usage;
//! 64 the configuration is bad.

#![forbid(unsafe_code)]

mod adapters;
mod catalog;
mod check;
mod cli;
mod config;
mod driver;
mod failure;
mod logging;
mod print;
mod publish;
mod serve;
mod signals;
mod wiring;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run() {
        Ok(code) => code,
        Err(failure) => {
            // One line a problem, without a prefix: each begins with the file and line to open.
            eprintln!("{failure}");
            failure.code()
        }
    }
}
