//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::body::MIN_BODY_BYTES;

/// Measures what a gateway gives, and reads the store back to prove it.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Progress and notes go to stderr; stdout carries the table, or exactly one JSON object.\n\
                  Exit: 0 fine; 1 a verdict or the read-back does not add up; 2 usage, or something\n\
                  unreachable; 64 configuration."
)]
pub(crate) struct Cli {
    /// What stores the messages.
    #[arg(long, value_enum, default_value_t = Provider::Sqlite)]
    pub(crate) provider: Provider,
    /// What is measured.
    #[arg(long, value_enum, default_value_t = Scenario::Throughput)]
    pub(crate) scenario: Scenario,
    /// Messages of one scope.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) messages: u64,
    /// Bytes of one body.
    #[arg(long, default_value_t = 55, value_parser = body_size)]
    pub(crate) size: usize,
    /// Measurements of each row; rates come from their median.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) runs: u32,
    /// Measures the client library without a gateway as well, in turns with it.
    #[arg(long)]
    pub(crate) direct: bool,
    /// A gateway that runs already: HOST:PORT or unix:PATH. Default: one of our own on a free port.
    #[arg(long, value_name = "ADDR")]
    pub(crate) gateway: Option<String>,
    /// Where that gateway stores: for sqlite the database file. Without it nothing is read back.
    #[arg(long, value_name = "URL")]
    pub(crate) broker_url: Option<String>,
    /// A table for people, or one JSON object.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// hop: messages of one frame, several with commas between.
    #[arg(long, value_delimiter = ',', default_values_t = [1u32, 10, 100, 1_000],
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) frame_messages: Vec<u32>,
    /// enqueue: producers, each with one message in flight.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) producers: u32,
    /// The gateway to start; default: `sluicegate` beside this program.
    #[arg(long, value_name = "FILE")]
    pub(crate) sluicegate: Option<PathBuf>,
}

/// What stores the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Provider {
    /// The embedded store, one transaction a batch, fsynced.
    Sqlite,
    /// Settles at once: the gateway's own cost.
    Null,
}

impl Provider {
    /// Its name in reports and destinations.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Null => "null",
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// One producer: per message, deferred, batched.
    Throughput,
    /// The gateway's own cost against a bare gRPC stream.
    Hop,
    /// Many producers with one message in flight each.
    Enqueue,
}

impl Scenario {
    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Hop => "hop",
            Self::Enqueue => "enqueue",
        }
    }
}

/// How the report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}

fn body_size(text: &str) -> Result<usize, String> {
    let size: usize = text
        .parse()
        .map_err(|_| format!("{text} is no number of bytes"))?;
    if size < MIN_BODY_BYTES {
        return Err(format!(
            "a body of {size} bytes cannot carry its run, number and checksum: use {MIN_BODY_BYTES} or more"
        ));
    }
    // Under the gateway's default frame limit of 4 MiB, with its envelope.
    if size > 4_000_000 {
        return Err(format!(
            "a body of {size} bytes is over what one frame may carry: use 4000000 or less"
        ));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_that_scripts_rely_on() {
        let cli = Cli::try_parse_from(["loadgen"]).unwrap();
        assert_eq!((cli.messages, cli.size, cli.runs), (10_000, 55, 3));
        assert_eq!(cli.scenario, Scenario::Throughput);
        assert_eq!(cli.producers, 50);
        assert_eq!(cli.frame_messages, [1, 10, 100, 1_000]);
    }

    #[test]
    fn a_body_too_small_for_its_header_names_the_smallest() {
        let error = Cli::try_parse_from(["loadgen", "--size", "10"]).unwrap_err();
        assert!(error.to_string().contains("use 39 or more"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn an_unknown_provider_is_a_usage_error_that_lists_the_known_ones() {
        let error = Cli::try_parse_from(["loadgen", "--provider", "kafak"]).unwrap_err();
        assert!(error.to_string().contains("sqlite"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}
