//! How many messages a second, one by one, deferred and batched; through the gateway, through its
//! null adapter (for the model) and without it, by turns.
//!
//! Only publishing is timed: bodies are made before each scope and read back after each run.

mod cells;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use sluicegate_client::{Client, Message, ScopeOptions, Summary, Verdict};

use super::{Measured, run_id};

use crate::body;
use crate::check::{Checker, Numbers};
use crate::cli::{Options, Provider};
use crate::error::Stop;
use crate::gateway::Gateway;
use crate::machine;
use crate::progress::Progress;
use crate::report::Rows;
use crate::sqlite::{self, Grouping, Writer};
use cells::{Cell, Mode, Run, Sent, Via};

/// One by one, a run takes at most so many times the least that a measurement takes: 10 s of 2 s.
const LONGEST: u32 = 5;

/// Messages of a warm-up that goes one by one.
const WARM_UP_SINGLES: u64 = 100;

/// Deferred, all of a scope waits in the gateway while it is written one by one; its default of 30 s
/// would be over before the end on a slow disk.
const DEFERRED_TIMEOUT: Duration = Duration::from_secs(600);

/// How often each setting of direct batches is tried: the best of a few tells settings apart on a
/// machine whose disk is not always equally fast.
const TRIALS: usize = 3;

/// Everything that a run needs.
struct Bench<'a> {
    options: &'a Options,
    gateway: &'a Gateway,
    client: Client,
    writer: Option<Writer>,
    direct_path: PathBuf,
    grouping: Grouping,
    progress: Progress,
}

pub(super) async fn run(options: &Options, gateway: &Gateway) -> Result<Measured, Stop> {
    let provider = options.provider()?;
    let mut vias = vec![Via::Gateway];
    let has_null = gateway.null_destination("").is_some();
    if provider == Provider::Null && !has_null {
        return Err(Stop::Unreachable(
            "the gateway serves no destination \"null.*\": add one on a connection with the adapter \"null\", or leave --gateway out".to_owned(),
        ));
    }
    if provider == Provider::Sqlite && options.direct {
        if has_null {
            vias.push(Via::Hop);
        }
        vias.push(Via::Direct);
    }
    let cells: Vec<(Mode, Via)> = Mode::ALL
        .into_iter()
        .flat_map(|mode| vias.iter().map(move |via| (mode, *via)))
        .collect();
    let steps = cells.len() * (1 + options.runs as usize);
    let direct_path = gateway.directory().join("direct.db");
    let mut bench = Bench {
        options,
        gateway,
        client: gateway.client().await?,
        writer: match options.direct {
            true => Some(Writer::open(&direct_path).await?),
            false => None,
        },
        direct_path,
        grouping: Grouping::SINGLE,
        progress: Progress::new(steps),
    };
    if provider == Provider::Sqlite && gateway.store().is_none() {
        bench.progress.note(
            "note: nothing is read back: name the file of the gateway's database with --broker-url",
        );
    }
    bench.find_grouping().await?;
    let mut cells: Vec<Cell> = cells.into_iter().map(Cell::new).collect();
    for cell in &cells {
        bench.measure(cell.mode, cell.via, true).await?;
    }
    for _ in 0..options.runs {
        for cell in &mut cells {
            let run = bench.measure(cell.mode, cell.via, false).await?;
            cell.add(run);
        }
    }
    let sqlite = match &mut bench.writer {
        Some(writer) => Some(writer.version().await?),
        None => None,
    };
    if let Some(writer) = bench.writer.take() {
        writer.close().await?;
    }
    let adds_up = cells.iter().all(Cell::adds_up);
    Ok(Measured {
        rows: Rows::Throughput(cells::rows(&cells, bench.grouping)),
        adds_up,
        sqlite,
    })
}

impl Bench<'_> {
    async fn measure(&mut self, mode: Mode, via: Via, warm_up: bool) -> Result<Run, Stop> {
        let words = if warm_up { " (warm-up)" } else { "" };
        self.progress
            .now(&format!("{} {}{words}", mode.name(), via.name()));
        let run = run_id();
        let queue = format!("loadgen-{run:08x}");
        let (destination, read_from) = match (via, self.options.provider()?) {
            (Via::Direct, _) => (queue, Some(self.direct_path.clone())),
            (Via::Gateway, Provider::Sqlite) => (queue, self.gateway.store().map(PathBuf::from)),
            _ => {
                let name = self.gateway.null_destination(&queue);
                (name.unwrap_or(queue), None)
            }
        };
        let process = self.gateway.process();
        let cpu = |process: &Option<String>| process.as_deref().and_then(machine::cpu_time);
        if let Some(process) = &process {
            machine::reset_peak(process);
        }
        let stats_before = match via {
            Via::Direct => None,
            _ => Some(self.client.stats().await?),
        };
        let cpu_before = cpu(&process);

        let sent = match via {
            Via::Direct => self.direct(mode, run, &destination, warm_up).await?,
            _ => self.through(mode, run, &destination, warm_up).await?,
        };

        let spent = match (cpu(&process), cpu_before) {
            (Some(after), Some(before)) if via != Via::Direct => Some(after.saturating_sub(before)),
            _ => None,
        };
        let provider_requests = match stats_before {
            None => None,
            Some(before) => {
                let after = self.client.stats().await?;
                Some(
                    after
                        .provider_requests
                        .saturating_sub(before.provider_requests),
                )
            }
        };
        let peak_bytes = match via {
            Via::Direct => None,
            _ => process.as_deref().and_then(machine::peak_bytes),
        };
        let found = match read_from {
            None => None,
            Some(path) => {
                let mut confirmed = Numbers::first(sent.messages);
                for number in &sent.unconfirmed {
                    confirmed.remove(*number);
                }
                let checker = Checker::new(run, self.options.size, sent.messages, confirmed);
                Some(sqlite::read_back(&path, &destination, checker).await?)
            }
        };
        self.progress.step();
        Ok(Run {
            sent,
            found,
            provider_requests,
            cpu: spent,
            peak_bytes,
        })
    }

    /// Repeats scopes until the time is over; a warm-up is one.
    async fn through(
        &self,
        mode: Mode,
        run: u32,
        destination: &str,
        warm_up: bool,
    ) -> Result<Sent, Stop> {
        let mut sent = Sent::default();
        loop {
            let first = sent.messages;
            let messages = self.bodies(mode, run, first, warm_up);
            let cpu_before = machine::cpu_time("self");
            let begun = Instant::now();
            match mode {
                Mode::PerMessage => {
                    let spent = Duration::from_secs_f64(sent.seconds);
                    let until = begun + self.longest().saturating_sub(spent);
                    self.one_by_one(destination, messages, until, &mut sent)
                        .await?;
                }
                Mode::Deferred => {
                    let options = ScopeOptions::new()
                        .batching(false)
                        .confirmation_timeout(DEFERRED_TIMEOUT);
                    let summary = self.scope(&options, destination, &messages).await?;
                    sent.scope(first, messages.len() as u64, &summary);
                }
                Mode::Batched => {
                    let options = ScopeOptions::new();
                    let summary = self.scope(&options, destination, &messages).await?;
                    sent.scope(first, messages.len() as u64, &summary);
                }
            }
            if self.is_over(mode, &mut sent, begun, cpu_before, warm_up) {
                return Ok(sent);
            }
        }
    }

    async fn scope(
        &self,
        options: &ScopeOptions,
        destination: &str,
        messages: &[Message],
    ) -> Result<Summary, Stop> {
        let scope = self.client.scope_with(options).await?;
        scope.publish_many(destination, messages).await?;
        Ok(scope.close().await?)
    }

    async fn one_by_one(
        &self,
        destination: &str,
        messages: Vec<Message>,
        until: Instant,
        sent: &mut Sent,
    ) -> Result<(), Stop> {
        for message in messages {
            let verdict = self.client.publish_confirmed(destination, message).await?;
            match verdict {
                Verdict::Confirmed => sent.confirmed += 1,
                Verdict::Failed(_) => sent.failed += 1,
                Verdict::Unknown(_) => sent.unknown += 1,
            }
            if !verdict.is_confirmed() {
                sent.unconfirmed.push(sent.messages);
            }
            sent.messages += 1;
            if Instant::now() >= until {
                break;
            }
        }
        Ok(())
    }

    async fn direct(
        &mut self,
        mode: Mode,
        run: u32,
        queue: &str,
        warm_up: bool,
    ) -> Result<Sent, Stop> {
        let grouping = match mode {
            Mode::Batched => self.grouping,
            _ => Grouping::SINGLE,
        };
        let mut sent = Sent::default();
        loop {
            let first = sent.messages;
            let messages = sqlite::keyed(first, self.bodies(mode, run, first, warm_up));
            let longest = self.longest().as_secs_f64();
            let Some(writer) = &mut self.writer else {
                return Ok(sent);
            };
            let cpu_before = machine::cpu_time("self");
            let begun = Instant::now();
            // The store's own errors end the program: a direct insert is confirmed or there is no
            // measurement.
            if mode == Mode::Batched {
                writer.insert(queue, &messages, grouping).await?;
                sent.messages += messages.len() as u64;
            } else {
                for message in messages.chunks(1) {
                    writer.insert(queue, message, grouping).await?;
                    sent.messages += 1;
                    if sent.seconds + begun.elapsed().as_secs_f64() >= longest {
                        break;
                    }
                }
            }
            sent.confirmed = sent.messages;
            if self.is_over(mode, &mut sent, begun, cpu_before, warm_up) {
                return Ok(sent);
            }
        }
    }

    fn bodies(&self, mode: Mode, run: u32, first: u64, warm_up: bool) -> Vec<Message> {
        let count = match mode {
            Mode::Batched => self.options.messages,
            _ if warm_up => self.options.messages.min(WARM_UP_SINGLES),
            _ => self.options.messages,
        };
        body::messages(run, first, count, self.options.size)
    }

    fn longest(&self) -> Duration {
        self.options.seconds() * LONGEST
    }

    fn is_over(
        &self,
        mode: Mode,
        sent: &mut Sent,
        begun: Instant,
        cpu_before: Option<Duration>,
        warm_up: bool,
    ) -> bool {
        sent.seconds += begun.elapsed().as_secs_f64();
        if let (Some(before), Some(after)) = (cpu_before, machine::cpu_time("self")) {
            *sent.own_cpu.get_or_insert_default() += after.saturating_sub(before);
        }
        let enough = match mode {
            // A run that was cut short at its longest is over, however few scopes that were.
            Mode::PerMessage if sent.seconds >= self.longest().as_secs_f64() => true,
            _ => sent.seconds >= self.options.seconds().as_secs_f64(),
        };
        enough || warm_up
    }

    /// Tries what may be best for direct batches, a few times each, and takes the best.
    async fn find_grouping(&mut self) -> Result<(), Stop> {
        if self.writer.is_none() {
            return Ok(());
        }
        self.progress
            .now("batched direct: finding its best setting");
        let count = self.options.messages.max(1);
        let rows = usize::try_from(count).unwrap_or(usize::MAX);
        let mut best = f64::INFINITY;
        for candidate in Grouping::candidates(rows) {
            for _ in 0..TRIALS {
                let run = run_id();
                let messages = body::messages(run, 0, count, self.options.size);
                let messages = sqlite::keyed(0, messages);
                let Some(writer) = &mut self.writer else {
                    return Ok(());
                };
                let begun = Instant::now();
                writer
                    .insert(&format!("trial-{run:08x}"), &messages, candidate)
                    .await?;
                let seconds = begun.elapsed().as_secs_f64();
                if seconds < best {
                    best = seconds;
                    self.grouping = candidate;
                }
            }
        }
        Ok(())
    }
}
