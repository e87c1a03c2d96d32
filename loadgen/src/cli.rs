//! The command line.
//!
//! Scenarios and providers are words here and not clap's enums, so that a wrong one is answered with
//! what exists, in the same way whichever of the two it is.

use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::body;
use crate::error::Stop;

/// Measures the gateway, and what the store does without it.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// A bare tonic server of the same protocol: what the hop is compared with.
    #[command(hide = true)]
    BareServer,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Where messages go: sqlite, null.
    #[arg(long, default_value = "sqlite")]
    provider: String,
    /// What is measured: throughput, hop, enqueue.
    #[arg(long, default_value = "throughput")]
    scenario: String,
    /// Messages of a scope; the scope is repeated until `--seconds` have passed.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) messages: u64,
    /// Bytes of a body.
    #[arg(long, default_value_t = 55)]
    pub(crate) size: usize,
    /// Measurements of each row; rates come from the median.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) runs: u32,
    /// Measure the store without the gateway as well, by turns.
    #[arg(long)]
    pub(crate) direct: bool,
    /// A gateway that runs already; without it, one is started for the measurement.
    #[arg(long, value_name = "ADDR")]
    pub(crate) gateway: Option<String>,
    /// The store behind that gateway, to read back what was published: the file of a SQLite database.
    #[arg(long, value_name = "URL")]
    pub(crate) broker_url: Option<String>,
    /// What stdout carries.
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
    /// Seconds that each measurement takes at least.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// hop: messages of a frame.
    #[arg(long, value_delimiter = ',', default_values_t = [1_usize, 10, 100, 1_000])]
    pub(crate) frames: Vec<usize>,
    /// enqueue: producers, each with one message in flight.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) producers: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}

/// A store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    Sqlite,
    Null,
}

/// A measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    Throughput,
    Hop,
    Enqueue,
}

impl Provider {
    const ALL: [(&'static str, Self); 2] = [("sqlite", Self::Sqlite), ("null", Self::Null)];

    pub(crate) fn name(self) -> &'static str {
        name(&Self::ALL, self)
    }
}

impl Scenario {
    const ALL: [(&'static str, Self); 3] = [
        ("throughput", Self::Throughput),
        ("hop", Self::Hop),
        ("enqueue", Self::Enqueue),
    ];

    pub(crate) fn name(self) -> &'static str {
        name(&Self::ALL, self)
    }
}

fn name<T: Copy + PartialEq>(all: &[(&'static str, T)], wanted: T) -> &'static str {
    all.iter()
        .find(|(_, value)| *value == wanted)
        .map_or("", |(name, _)| name)
}

fn find<T: Copy>(what: &str, word: &str, all: &[(&'static str, T)]) -> Result<T, Stop> {
    let found = all.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        Stop::Usage(format!(
            "there is no {what} {word:?}; there are: {}",
            names.join(", ")
        ))
    })
}

impl Options {
    pub(crate) fn provider(&self) -> Result<Provider, Stop> {
        find("provider", &self.provider, &Provider::ALL)
    }

    pub(crate) fn scenario(&self) -> Result<Scenario, Stop> {
        find("scenario", &self.scenario, &Scenario::ALL)
    }

    pub(crate) fn seconds(&self) -> Duration {
        Duration::try_from_secs_f64(self.seconds).unwrap_or_default()
    }

    /// What clap cannot know.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        let provider = self.provider()?;
        let scenario = self.scenario()?;
        if self.size < body::SMALLEST {
            return Err(Stop::Usage(format!(
                "--size {}: a body carries its run, its number and a checksum, so the smallest is --size {}",
                self.size,
                body::SMALLEST
            )));
        }
        if self.direct && (provider == Provider::Null || scenario == Scenario::Hop) {
            return Err(Stop::Usage(
                "--direct measures a store without the gateway, and null is none: leave --direct out, or use --provider sqlite with the scenario throughput or enqueue".to_owned(),
            ));
        }
        if !(self.seconds.is_finite() && (0.0..=3_600.0).contains(&self.seconds)) {
            return Err(Stop::Usage(format!(
                "--seconds {}: name 0 to 3600",
                self.seconds
            )));
        }
        if self
            .frames
            .iter()
            .any(|frame| !(1..=65_536).contains(frame))
        {
            return Err(Stop::Usage(
                "--frames: a frame has 1 to 65536 messages".to_owned(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> Options {
        Cli::parse_from([&["loadgen"], arguments].concat()).options
    }

    #[test]
    fn the_defaults_are_those_that_scripts_rely_on() {
        let options = options(&[]);
        options.check().unwrap();
        assert_eq!(options.provider().unwrap(), Provider::Sqlite);
        assert_eq!(options.scenario().unwrap(), Scenario::Throughput);
        assert_eq!(
            (options.messages, options.size, options.runs),
            (10_000, 55, 3)
        );
        assert_eq!(options.format, Format::Table);
        assert_eq!(options.frames, [1, 10, 100, 1_000]);
        assert_eq!(options.producers, 50);
    }

    #[test]
    fn a_scenario_or_provider_that_is_none_is_answered_with_what_exists() {
        for (arguments, exists) in [
            (["--scenario", "soak"], "throughput, hop, enqueue"),
            (["--provider", "kafka"], "sqlite, null"),
        ] {
            let error = options(&arguments).check().unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains(exists), "{error}");
        }
    }

    #[test]
    fn a_size_too_small_is_answered_with_the_smallest() {
        let error = options(&["--size", "5"]).check().unwrap_err().to_string();
        assert!(
            error.contains(&format!("--size {}", body::SMALLEST)),
            "{error}"
        );
    }

    #[test]
    fn direct_without_a_store_is_refused() {
        assert!(
            options(&["--direct", "--provider", "null"])
                .check()
                .is_err()
        );
        assert!(options(&["--direct"]).check().is_ok());
    }
}
