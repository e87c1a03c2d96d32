//! One producer: per message, deferred, batched; through the gateway and, in turns with it, direct.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use sluicegate_client::{Client, Message, ScopeOptions, Summary};

use super::{Fresh, RUN_AT_LEAST, RUN_AT_MOST, Setup, read_back, store_beside};
use crate::body::{Bodies, key};
use crate::check::ReadBack;
use crate::cli::Provider;
use crate::direct::sqlite::{Direct, TRANSACTION_ROWS};
use crate::machine::Processors;
use crate::progress::Progress;
use crate::report::Throughput;
use crate::statistics::{Spread, median, model};

/// Messages that are made at a time: enough to fill frames, too few to fill memory.
const CHUNK: u64 = 1_000;
/// Messages of the untimed warm-up at most; one at a time, a hundredth of them.
const WARM_UP: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    PerMessage,
    Deferred,
    Batched,
}

impl Mode {
    const ALL: [Self; 3] = [Self::PerMessage, Self::Deferred, Self::Batched];

    fn name(self) -> &'static str {
        match self {
            Self::PerMessage => "per-message",
            Self::Deferred => "deferred",
            Self::Batched => "batched",
        }
    }

    fn gateway_setting(self) -> &'static str {
        match self {
            Self::PerMessage => "each publish awaited before the next",
            Self::Deferred => "scope option batching = false, awaited at the scope's end",
            Self::Batched => "scope defaults, awaited at the scope's end",
        }
    }
}

/// One measurement.
#[derive(Debug, Default)]
struct Run {
    sent: u64,
    seconds: f64,
    confirmed: u64,
    failed: u64,
    unknown: u64,
    /// Sequence numbers that are not confirmed.
    not_confirmed: HashSet<u64>,
    found: Option<ReadBack>,
    provider_requests: Option<u64>,
    cpu_us: Option<u64>,
    rss_peak_bytes: Option<u64>,
    idle: Option<f64>,
}

impl Run {
    fn rate(&self) -> f64 {
        self.sent as f64 / self.seconds
    }

    fn summary(&mut self, first: u64, summary: &Summary) {
        self.confirmed += summary.confirmed;
        self.failed += summary.failed;
        self.unknown += summary.unknown;
        let rows = summary.failures.iter().chain(&summary.unknowns);
        self.not_confirmed.extend(rows.map(|row| first + row.row));
    }
}

/// All that is kept open between runs.
struct Bench<'a> {
    setup: &'a Setup,
    client: Client,
    direct: Option<DirectStore>,
}

struct DirectStore {
    direct: Direct,
    statement_rows: usize,
    path: PathBuf,
    /// Removed when dropped.
    _directory: tempfile::TempDir,
}

/// Measures every mode.
pub(crate) async fn run(setup: &Setup) -> Result<Vec<Throughput>> {
    let cli = &setup.cli;
    let client = Client::builder()
        .name("loadgen")
        .connect(setup.gateway.address())
        .await?;
    let direct = match (cli.direct, cli.provider) {
        (true, Provider::Sqlite) => Some(DirectStore::open(setup).await?),
        _ => None,
    };
    let mut bench = Bench {
        setup,
        client,
        direct,
    };

    let vias = if bench.direct.is_some() { 3 } else { 1 };
    let progress = Progress::new(u64::from(cli.runs + 1) * Mode::ALL.len() as u64 * vias);
    for mode in Mode::ALL {
        progress.step(&format!("{}: warm-up", mode.name()));
        bench.warm_up(mode).await?;
    }
    // In turns, so that what else the machine does falls on all alike.
    let mut runs: Vec<(Mode, &'static str, Run)> = Vec::new();
    for number in 0..cli.runs {
        for mode in Mode::ALL {
            let fresh = setup.fresh(mode.name(), number)?;
            progress.step(&format!("{} through the gateway", mode.name()));
            runs.push((mode, "gateway", bench.gateway(mode, &fresh).await?));
            if bench.direct.is_some() {
                progress.step(&format!("{} direct", mode.name()));
                runs.push((mode, "direct", bench.direct(mode, &fresh).await?));
                // What the gateway costs by itself, for the model.
                progress.step(&format!("{} without a store", mode.name()));
                let fresh = setup.fresh_on(Provider::Null, mode.name(), number)?;
                let hop = bench
                    .published(mode, &fresh, cli.messages, RUN_AT_LEAST)
                    .await?;
                runs.push((mode, "hop", hop));
            }
        }
    }
    progress.finish();

    let statement_rows = bench.direct.as_ref().map_or(0, |d| d.statement_rows);
    if let Some(store) = bench.direct {
        store.direct.close().await?;
    }
    Ok(rows(setup, statement_rows, &runs))
}

impl DirectStore {
    async fn open(setup: &Setup) -> Result<Self> {
        let directory = store_beside(setup.store.as_deref())?;
        let path = directory.path().join("direct.db");
        let mut direct = Direct::open(&path, "").await?;
        let tuning = Bodies::new(0, setup.cli.size).context("the size is too small")?;
        let statement_rows = direct.tune(tuning).await?;
        Ok(Self {
            direct,
            statement_rows,
            path,
            _directory: directory,
        })
    }
}

impl Bench<'_> {
    async fn warm_up(&mut self, mode: Mode) -> Result<()> {
        let messages = match mode {
            Mode::PerMessage | Mode::Deferred => WARM_UP / 100,
            Mode::Batched => WARM_UP,
        }
        .min(self.setup.cli.messages);
        // Runs are numbered from 0; a warm-up is none of them.
        let fresh = self.setup.fresh("warm-up", u32::MAX)?;
        let run = self
            .published(mode, &fresh, messages, Duration::ZERO)
            .await?;
        let verdicts = run.confirmed + run.failed + run.unknown;
        anyhow::ensure!(
            verdicts == run.sent,
            "{} messages were published and {verdicts} have a verdict",
            run.sent
        );
        if let Some(store) = &mut self.direct {
            store.direct.set_queue("warm-up");
            direct_scope(&mut store.direct, mode, fresh.bodies, 0, messages, None).await?;
        }
        Ok(())
    }

    /// Through the gateway, with what it used and what the store says.
    async fn gateway(&mut self, mode: Mode, fresh: &Fresh) -> Result<Run> {
        let usage = self.setup.gateway.usage();
        if let Some(usage) = usage {
            usage.reset_peak();
        }
        let cpu = usage.and_then(crate::process::Usage::cpu_us);
        let before = self.client.stats().await?.provider_requests;
        let messages = self.setup.cli.messages;
        let mut run = self
            .published(mode, fresh, messages, RUN_AT_LEAST)
            .await?;
        let after = self.client.stats().await?.provider_requests;
        run.provider_requests = Some(after.saturating_sub(before));
        run.cpu_us = usage
            .and_then(crate::process::Usage::cpu_us)
            .zip(cpu)
            .map(|(after, before)| after - before);
        run.rss_peak_bytes = usage.and_then(crate::process::Usage::rss_peak_bytes);
        run.found = self
            .setup
            .read_back(fresh, run.sent, |sequence| {
                !run.not_confirmed.contains(&sequence)
            })
            .await?;
        Ok(run)
    }

    /// Scopes of `messages`, again until `at_least` has passed.
    async fn published(
        &self,
        mode: Mode,
        fresh: &Fresh,
        messages: u64,
        at_least: Duration,
    ) -> Result<Run> {
        let mut run = Run::default();
        let start = Instant::now();
        loop {
            if mode == Mode::PerMessage {
                self.one_by_one(fresh, messages, start, &mut run).await?;
            } else {
                let options = ScopeOptions::new().batching(mode == Mode::Batched);
                let scope = self.client.scope_with(&options).await?;
                let first = run.sent;
                while run.sent < first + messages {
                    let count = CHUNK.min(first + messages - run.sent);
                    let chunk = made(fresh.bodies, run.sent, count);
                    scope.publish_many(&fresh.destination, &chunk).await?;
                    run.sent += count;
                }
                run.summary(first, &scope.close().await?);
            }
            let elapsed = start.elapsed();
            if elapsed >= at_least || elapsed >= RUN_AT_MOST {
                run.seconds = elapsed.as_secs_f64();
                return Ok(run);
            }
        }
    }

    async fn one_by_one(
        &self,
        fresh: &Fresh,
        messages: u64,
        start: Instant,
        run: &mut Run,
    ) -> Result<()> {
        for _ in 0..messages {
            let message = Message::new(fresh.bodies.one(run.sent)).key(key(run.sent));
            let verdict = self
                .client
                .publish_confirmed(&fresh.destination, message)
                .await?;
            match verdict {
                sluicegate_client::Verdict::Confirmed => run.confirmed += 1,
                sluicegate_client::Verdict::Failed(_) => run.failed += 1,
                sluicegate_client::Verdict::Unknown(_) => run.unknown += 1,
            }
            if !verdict.is_confirmed() {
                run.not_confirmed.insert(run.sent);
            }
            run.sent += 1;
            if start.elapsed() >= RUN_AT_MOST {
                break;
            }
        }
        Ok(())
    }

    /// The client library alone.
    async fn direct(&mut self, mode: Mode, fresh: &Fresh) -> Result<Run> {
        let Some(store) = &mut self.direct else {
            return Ok(Run::default());
        };
        store.direct.set_queue(&fresh.destination);
        let mut run = Run::default();
        let processors = Processors::read();
        let start = Instant::now();
        loop {
            run.sent = direct_scope(
                &mut store.direct,
                mode,
                fresh.bodies,
                run.sent,
                self.setup.cli.messages,
                Some(start),
            )
            .await?;
            let elapsed = start.elapsed();
            if elapsed >= RUN_AT_LEAST {
                run.seconds = elapsed.as_secs_f64();
                break;
            }
        }
        run.idle = Processors::read()
            .zip(processors)
            .and_then(|(after, before)| after.idle_since(before));
        run.confirmed = run.sent;
        run.found = Some(read_back(&store.path, fresh, run.sent, |_| true).await?);
        Ok(run)
    }
}

/// Inserts one scope and returns the sequence number after it.
async fn direct_scope(
    direct: &mut Direct,
    mode: Mode,
    bodies: Bodies,
    first: u64,
    messages: u64,
    start: Option<Instant>,
) -> Result<u64> {
    let end = first + messages;
    let mut next = first;
    while next < end {
        if mode == Mode::Batched {
            let count = (TRANSACTION_ROWS as u64).min(end - next);
            let chunk = bodies.range(next, usize::try_from(count)?);
            direct.insert_all(next, &chunk).await?;
            next += count;
        } else {
            direct.insert_one(next, &bodies.one(next)).await?;
            next += 1;
            if start.is_some_and(|start| start.elapsed() >= RUN_AT_MOST) {
                break;
            }
        }
    }
    Ok(next)
}

fn made(bodies: Bodies, first: u64, count: u64) -> Vec<Message> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    (first..)
        .zip(bodies.range(first, count))
        .map(|(sequence, body)| Message::new(body).key(key(sequence)))
        .collect()
}

/// One row of the report for each mode and way.
fn rows(
    setup: &Setup,
    statement_rows: usize,
    runs: &[(Mode, &'static str, Run)],
) -> Vec<Throughput> {
    let rate = |mode: Mode, via: &str| {
        median(of(runs, mode, via).map(Run::rate).collect::<Vec<_>>())
    };
    let mut rows = Vec::new();
    for mode in Mode::ALL {
        for via in ["gateway", "direct"] {
            let Some(msgs_per_s) = rate(mode, via) else {
                continue;
            };
            let mine = || of(runs, mode, via);
            let sum = |field: fn(&Run) -> u64| mine().map(field).sum::<u64>();
            let seconds = mine().map(|run| run.seconds * setup.cli.messages as f64 / run.sent as f64);
            let mut row = Throughput {
                mode: mode.name(),
                via,
                setting: match via {
                    "gateway" => mode.gateway_setting().to_owned(),
                    _ => direct_setting(mode, statement_rows),
                },
                seconds: Spread::of(seconds.collect()),
                msgs_per_s,
                speedup: rate(Mode::PerMessage, via).map(|base| msgs_per_s / base),
                model: match via {
                    "gateway" => rate(mode, "direct")
                        .zip(rate(mode, "hop"))
                        .map(|(direct, hop)| model(direct, hop)),
                    _ => None,
                },
                idle: median(of(runs, mode, "direct").filter_map(|run| run.idle).collect()),
                confirmed: sum(|run| run.confirmed),
                failed: sum(|run| run.failed),
                unknown: sum(|run| run.unknown),
                read_back: None,
                missing: None,
                duplicates: None,
                altered: None,
                out_of_order: None,
                provider_requests: mine().map(|run| run.provider_requests).sum(),
                gateway_cpu_us_per_msg: mine()
                    .map(|run| run.cpu_us)
                    .sum::<Option<u64>>()
                    .map(|us| us as f64 / sum(|run| run.sent) as f64),
                gateway_rss_peak_bytes: mine().map(|run| run.rss_peak_bytes).max().flatten(),
                note: note(setup, mode, via),
            };
            row.found(
                mine()
                    .map(|run| run.found)
                    .collect::<Option<Vec<_>>>()
                    .and_then(|found| {
                        found.into_iter().reduce(|mut all, found| {
                            all.add(found);
                            all
                        })
                    }),
            );
            rows.push(row);
        }
    }
    rows
}

fn of<'a>(
    runs: &'a [(Mode, &'static str, Run)],
    mode: Mode,
    via: &'a str,
) -> impl Iterator<Item = &'a Run> {
    runs.iter()
        .filter(move |(m, v, _)| *m == mode && *v == via)
        .map(|(_, _, run)| run)
}

fn direct_setting(mode: Mode, statement_rows: usize) -> String {
    match mode {
        Mode::PerMessage | Mode::Deferred => {
            "sqlx, WAL, synchronous=FULL, one prepared INSERT a transaction".to_owned()
        }
        Mode::Batched => format!(
            "sqlx, WAL, synchronous=FULL, {statement_rows} rows a statement, {TRANSACTION_ROWS} a transaction"
        ),
    }
}

fn note(setup: &Setup, mode: Mode, via: &str) -> Option<String> {
    let sqlite = setup.cli.provider == Provider::Sqlite;
    match (mode, via) {
        (Mode::Deferred, "direct") if sqlite => {
            Some("sqlx cannot pipeline one connection: the same as per-message".to_owned())
        }
        (Mode::Deferred, "gateway") if sqlite => {
            Some("SQLite commits one transaction at a time: no two are under way".to_owned())
        }
        _ => None,
    }
}
