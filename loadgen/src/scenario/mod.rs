//! The scenarios: each a module that measures and returns its rows.

pub(crate) mod enqueue;
pub(crate) mod hop;
pub(crate) mod throughput;

use std::collections::BTreeMap;

use crate::check::Found;
use crate::cli::{Options, Scenario};
use crate::error::Stop;
use crate::gateway::Gateway;
use crate::machine::Machine;
use crate::report::{Report, Rows};

/// A report, and whether all adds up in it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) report: Report,
    pub(crate) adds_up: bool,
}

/// What a scenario found.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) rows: Rows,
    pub(crate) adds_up: bool,
    pub(crate) sqlite: Option<String>,
}

/// Measures what the options ask for.
pub(crate) async fn run(options: Options) -> Result<Outcome, Stop> {
    options.check()?;
    let (provider, scenario) = (options.provider()?, options.scenario()?);
    let gateway = Gateway::open(&options).await?;
    let measured = match scenario {
        Scenario::Throughput => throughput::run(&options, &gateway).await?,
        Scenario::Hop => hop::run(&options, &gateway).await?,
        Scenario::Enqueue => enqueue::run(&options, &gateway).await?,
    };
    let mut versions = BTreeMap::from([
        ("gateway", gateway.version.clone()),
        ("loadgen", env!("CARGO_PKG_VERSION").to_owned()),
    ]);
    versions.extend(measured.sqlite.map(|version| ("sqlite", version)));
    Ok(Outcome {
        report: Report {
            scenario: scenario.name(),
            provider: provider.name(),
            messages: options.messages,
            size: options.size,
            runs: options.runs,
            versions,
            machine: Machine::read(),
            rows: measured.rows,
        },
        adds_up: measured.adds_up,
    })
}

/// A number that no other run has, most likely: the seed of the standard library's hasher.
fn run_id() -> u32 {
    use std::hash::{BuildHasher as _, Hasher as _};
    let seed = std::hash::RandomState::new().build_hasher().finish();
    u32::try_from(seed >> 32).unwrap_or(0)
}

/// Adds what a run's read-back found to the others'.
fn add_found(all: &mut Option<Found>, found: Option<Found>) {
    if let Some(found) = found {
        all.get_or_insert_default().add(found);
    }
}
