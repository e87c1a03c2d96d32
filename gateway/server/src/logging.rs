//! Log lines, to stderr: stdout belongs to what a command was asked to print.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::{Log, LogFormat};

/// Starts it. Must be called once.
pub(crate) fn start(log: &Log) {
    // The level was checked when the configuration was read.
    let filter = EnvFilter::builder().parse_lossy(&log.level.0);
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match log.format {
        LogFormat::Text => lines
            .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
            .init(),
        // Flat, so that `message` is where programs look for it.
        LogFormat::Json => lines.json().flatten_event(true).init(),
    }
}
