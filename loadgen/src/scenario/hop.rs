//! What the gateway itself costs: its null adapter against a bare tonic server of the same protocol,
//! with the same client, by turns.
//!
//! Messages are a body and no key. A scope is closed while the next one is already being published,
//! so that the rate is that of a stream and not of its pauses.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use sluicegate_client::{Client, Message, Scope};
use tokio::process::Command;

use super::{Measured, run_id};
use crate::body;
use crate::cli::Options;
use crate::error::Stop;
use crate::gateway::{Gateway, Process, beside};
use crate::progress::Progress;
use crate::report::{HopRow, Rows};
use crate::stats::{median, rate, rounded};

/// Round trips are measured for this part of a measurement's time: thousands of them.
const ROUND_TRIPS_PART: u32 = 4;

/// The longest round trip that the histogram can tell from others, in nanoseconds.
const LONGEST_NS: u64 = 60_000_000_000;

/// Three digits of a latency.
const DIGITS: u8 = 3;

/// One frame size through one server.
struct Cell {
    frame_messages: usize,
    via: &'static str,
    client: Client,
    destination: String,
    rates: Vec<f64>,
    round_trips: Histogram<u64>,
}

pub(super) async fn run(options: &Options, gateway: &Gateway) -> Result<Measured, Stop> {
    let destination = gateway
        .null_destination(&format!("hop-{:08x}", run_id()))
        .ok_or_else(|| {
            Stop::Unreachable(
                "the gateway serves no destination \"null.*\", whose cost this scenario measures: add one on a connection with the adapter \"null\", or leave --gateway out".to_owned(),
            )
        })?;
    let own = beside("loadgen")?;
    let mut command = Command::new(&own);
    command.arg("bare-server");
    // Ends when it goes out of scope.
    let (_bare, address) = Process::start(command, &own).await?;
    let bare = format!("http://{address}");

    let mut cells = Vec::new();
    for &frame_messages in &options.frames {
        let builder = || {
            Client::builder()
                .frame_messages(frame_messages)
                .frame_bytes(usize::MAX)
        };
        for via in ["gateway", "bare"] {
            let client = match via {
                "gateway" => gateway.client_with(builder()).await?,
                _ => builder().connect(&bare).await?,
            };
            let round_trips = Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
                .map_err(|error| Stop::Usage(error.to_string()))?;
            cells.push(Cell {
                frame_messages,
                via,
                client,
                destination: destination.clone(),
                rates: Vec::new(),
                round_trips,
            });
        }
    }

    let run = run_id();
    let messages: Vec<Message> = (0..options.messages)
        .map(|number| Message::new(body::one(run, number, options.size)))
        .collect();
    let progress = Progress::new(cells.len() * (1 + options.runs as usize));
    let mut adds_up = true;
    for round in 0..=options.runs {
        let warm_up = round == 0;
        for cell in &mut cells {
            progress.now(&format!(
                "{} messages a frame, {}",
                cell.frame_messages, cell.via
            ));
            let seconds = if warm_up {
                Duration::ZERO
            } else {
                options.seconds()
            };
            let (rate, clean) = stream(cell, &messages, seconds).await?;
            adds_up &= clean;
            let clean = lock_step(cell, &messages, seconds / ROUND_TRIPS_PART).await?;
            adds_up &= clean;
            if warm_up {
                cell.round_trips.reset();
            } else {
                cell.rates.push(rate);
            }
            progress.step();
        }
    }
    Ok(Measured {
        rows: Rows::Hop(rows(&cells)),
        adds_up,
        sqlite: None,
    })
}

/// The rate of scopes one after the other, and whether all was confirmed.
async fn stream(cell: &Cell, messages: &[Message], seconds: Duration) -> Result<(f64, bool), Stop> {
    let (mut sent, mut confirmed) = (0, 0);
    let begun = Instant::now();
    let mut closing: Option<Scope> = None;
    loop {
        let scope = cell.client.scope().await?;
        scope.publish_many(&cell.destination, messages).await?;
        scope.finish();
        sent += messages.len() as u64;
        if let Some(previous) = closing.replace(scope) {
            confirmed += previous.close().await?.confirmed;
        }
        if begun.elapsed() >= seconds {
            break;
        }
    }
    if let Some(last) = closing {
        confirmed += last.close().await?.confirmed;
    }
    Ok((rate(sent, begun.elapsed().as_secs_f64()), sent == confirmed))
}

/// Sends a frame, waits for all its verdicts, sends the next.
async fn lock_step(cell: &mut Cell, messages: &[Message], seconds: Duration) -> Result<bool, Stop> {
    let scope = cell.client.scope().await?;
    let mut frame = Vec::with_capacity(cell.frame_messages);
    frame.extend(messages.iter().cycle().take(cell.frame_messages).cloned());
    let mut sent = 0;
    let begun = Instant::now();
    loop {
        let start = Instant::now();
        scope.publish_many(&cell.destination, &frame).await?;
        sent += frame.len() as u64;
        let mut settled = 0;
        while settled < frame.len() as u64 {
            match scope.next_verdicts().await {
                Some(verdicts) => settled += verdicts.rows(),
                None => return Ok(false),
            }
        }
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(LONGEST_NS);
        cell.round_trips.saturating_record(nanoseconds);
        if begun.elapsed() >= seconds {
            break;
        }
    }
    Ok(scope.close().await?.confirmed == sent)
}

fn rows(cells: &[Cell]) -> Vec<HopRow> {
    cells
        .iter()
        .map(|cell| {
            let rate = median(&cell.rates).unwrap_or(0.0);
            let bare = cells
                .iter()
                .find(|other| other.frame_messages == cell.frame_messages && other.via == "bare")
                .and_then(|bare| median(&bare.rates));
            HopRow {
                frame_messages: cell.frame_messages,
                via: cell.via,
                msgs_per_s: rounded(rate),
                ratio: bare
                    .filter(|bare| cell.via == "gateway" && *bare > 0.0)
                    .map(|bare| rounded(rate / bare)),
                p50_us: quantile_us(&cell.round_trips, 0.5),
                p99_us: quantile_us(&cell.round_trips, 0.99),
            }
        })
        .collect()
}

/// Of a histogram of nanoseconds.
#[allow(
    clippy::cast_precision_loss,
    reason = "nanoseconds of a minute are far below 2^52"
)]
pub(super) fn quantile_us(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    rounded(histogram.value_at_quantile(quantile) as f64 / 1_000.0)
}
