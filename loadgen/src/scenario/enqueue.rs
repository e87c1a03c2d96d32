//! Many producers, each with one message in flight on a stream (and a connection) of its own, against
//! as many SQLite connections that insert one row each.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use sluicegate_client::{Client, Verdict};
use tokio::task::JoinSet;

use super::hop::quantile_us;
use super::{Measured, add_found, run_id};
use crate::body;
use crate::check::{Checker, Found, Numbers};
use crate::cli::{Options, Provider};
use crate::error::Stop;
use crate::gateway::Gateway;
use crate::progress::Progress;
use crate::report::{EnqueueRow, Rows};
use crate::sqlite::{self, Grouping, Writer};
use crate::stats::{median, rate, rounded};

/// The longest wait that the histogram can tell from others, in nanoseconds.
const LONGEST_NS: u64 = 600_000_000_000;
const DIGITS: u8 = 3;

/// A warm-up takes this part of a measurement's time.
const WARM_UP_PART: u32 = 4;

/// One of many.
enum Producer {
    Gateway(Client),
    Direct(Box<Writer>),
}

/// All runs through one thing.
struct Cell {
    via: &'static str,
    producers: Vec<Producer>,
    rates: Vec<f64>,
    latencies: Histogram<u64>,
    sent: u64,
    confirmed: u64,
    found: Option<Found>,
    /// What is read back.
    store: Option<PathBuf>,
}

/// What one producer did in a run.
struct Produced {
    producer: Producer,
    sent: u64,
    confirmed: Vec<u64>,
    latencies: Histogram<u64>,
}

pub(super) async fn run(options: &Options, gateway: &Gateway) -> Result<Measured, Stop> {
    let provider = options.provider()?;
    let mut cells = vec![Cell {
        via: "gateway",
        producers: Vec::new(),
        rates: Vec::new(),
        latencies: histogram()?,
        sent: 0,
        confirmed: 0,
        found: None,
        store: match provider {
            Provider::Sqlite => gateway.store().map(PathBuf::from),
            Provider::Null => None,
        },
    }];
    let direct_path = gateway.directory().join("direct.db");
    if options.direct {
        cells.push(Cell {
            via: "direct",
            producers: Vec::new(),
            rates: Vec::new(),
            latencies: histogram()?,
            sent: 0,
            confirmed: 0,
            found: None,
            store: Some(direct_path.clone()),
        });
    }
    for cell in &mut cells {
        for _ in 0..options.producers {
            cell.producers.push(match cell.via {
                "gateway" => Producer::Gateway(gateway.client().await?),
                _ => Producer::Direct(Box::new(Writer::open(&direct_path).await?)),
            });
        }
    }

    let progress = Progress::new(cells.len() * (1 + options.runs as usize));
    for round in 0..=options.runs {
        for cell in &mut cells {
            progress.now(&format!("{} producers, {}", options.producers, cell.via));
            let warm_up = round == 0;
            let seconds = match warm_up {
                true => options.seconds() / WARM_UP_PART,
                false => options.seconds(),
            };
            cell.run(options, gateway, seconds, warm_up).await?;
            progress.step();
        }
    }

    let mut sqlite = None;
    for producer in cells.iter_mut().flat_map(|cell| cell.producers.drain(..)) {
        if let Producer::Direct(mut writer) = producer {
            if sqlite.is_none() {
                sqlite = Some(writer.version().await?);
            }
            writer.close().await?;
        }
    }
    let adds_up = cells.iter().all(|cell| {
        // Producers that share keys promise no order.
        let found = cell.found.map(|found| Found {
            out_of_order: 0,
            ..found
        });
        cell.confirmed > 0 && cell.confirmed == cell.sent && found.is_none_or(Found::is_clean)
    });
    Ok(Measured {
        rows: Rows::Enqueue(cells.iter().map(|cell| row(cell, options)).collect()),
        adds_up,
        sqlite,
    })
}

impl Cell {
    async fn run(
        &mut self,
        options: &Options,
        gateway: &Gateway,
        seconds: Duration,
        warm_up: bool,
    ) -> Result<(), Stop> {
        let run = run_id();
        let queue = format!("loadgen-{run:08x}");
        let destination = match (options.provider()?, self.via) {
            (Provider::Null, "gateway") => gateway.null_destination(&queue).ok_or_else(|| {
                Stop::Unreachable(
                    "the gateway serves no destination \"null.*\": leave --gateway out".to_owned(),
                )
            })?,
            _ => queue,
        };
        let count = self.producers.len() as u64;
        let size = options.size;
        let begun = Instant::now();
        let until = begun + seconds;
        let mut tasks = JoinSet::new();
        for (place, producer) in (0..).zip(self.producers.drain(..)) {
            let destination = destination.clone();
            tasks.spawn(async move {
                let numbers = (place..).step_by(usize::try_from(count).unwrap_or(1));
                produce(producer, &destination, run, numbers, size, until).await
            });
        }
        let mut confirmed = Numbers::default();
        let (mut sent, mut all_confirmed) = (0, 0);
        while let Some(joined) = tasks.join_next().await {
            let produced = joined
                .map_err(|error| Stop::Unreachable(format!("a producer broke: {error}")))??;
            sent += produced.sent;
            all_confirmed += produced.confirmed.len() as u64;
            for number in produced.confirmed {
                confirmed.insert(number);
            }
            if !warm_up {
                self.latencies
                    .add(produced.latencies)
                    .map_err(|error| Stop::Usage(error.to_string()))?;
            }
            self.producers.push(produced.producer);
        }
        let seconds = begun.elapsed().as_secs_f64();
        let found = match &self.store {
            None => None,
            Some(path) => {
                // Producers stop at different numbers, so that any of the run may be there.
                let checker = Checker::new(run, size, u64::MAX, confirmed);
                Some(sqlite::read_back(path, &destination, checker).await?)
            }
        };
        self.sent += sent;
        self.confirmed += all_confirmed;
        add_found(&mut self.found, found);
        if !warm_up {
            self.rates.push(rate(sent, seconds));
        }
        Ok(())
    }
}

async fn produce(
    mut producer: Producer,
    destination: &str,
    run: u32,
    numbers: impl Iterator<Item = u64>,
    size: usize,
    until: Instant,
) -> Result<Produced, Stop> {
    let mut latencies = histogram()?;
    let mut confirmed = Vec::new();
    let mut sent = 0;
    for number in numbers {
        let mut messages = sqlite::keyed(number, body::messages(run, number, 1, size));
        let begun = Instant::now();
        let verdict = match &mut producer {
            Producer::Gateway(client) => {
                let Some((message, _)) = messages.pop() else {
                    break;
                };
                client.publish_confirmed(destination, message).await?
            }
            Producer::Direct(writer) => {
                writer
                    .insert(destination, &messages, Grouping::SINGLE)
                    .await?;
                Verdict::Confirmed
            }
        };
        let nanoseconds = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(LONGEST_NS);
        latencies.saturating_record(nanoseconds);
        sent += 1;
        if verdict.is_confirmed() {
            confirmed.push(number);
        }
        if Instant::now() >= until {
            break;
        }
    }
    Ok(Produced {
        producer,
        sent,
        confirmed,
        latencies,
    })
}

fn histogram() -> Result<Histogram<u64>, Stop> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
        .map_err(|error| Stop::Usage(error.to_string()))
}

fn row(cell: &Cell, options: &Options) -> EnqueueRow {
    EnqueueRow {
        via: cell.via,
        producers: options.producers,
        msgs_per_s: rounded(median(&cell.rates).unwrap_or(0.0)),
        p50_us: quantile_us(&cell.latencies, 0.5),
        p99_us: quantile_us(&cell.latencies, 0.99),
        p999_us: quantile_us(&cell.latencies, 0.999),
        missing: cell.found.map(|found| found.missing),
        duplicates: cell.found.map(|found| found.duplicates),
    }
}
