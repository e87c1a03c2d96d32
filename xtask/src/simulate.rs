//! `simulate`: histories of the engine, as many as wanted.
//!
//! **A seed that breaks a rule is named, and breaks it again**: run it alone with `--from SEED --seeds 1`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{anyhow, bail};
use sluicegate_engine::sim::{self, Report};

/// Seeds that a thread takes at a time: some milliseconds of work.
const CHUNK: u64 = 64;

/// Runs `seeds` histories, the first with the seed `from`.
pub(crate) fn run(seeds: u64, from: u64) -> anyhow::Result<()> {
    let start = Instant::now();
    let end = from.saturating_add(seeds);
    let next = AtomicU64::new(from);
    let work = || -> Result<Report, String> {
        let mut total = Report::default();
        loop {
            let first = next.fetch_add(CHUNK, Ordering::Relaxed);
            if first >= end {
                return Ok(total);
            }
            for seed in first..first.saturating_add(CHUNK).min(end) {
                match sim::run(seed) {
                    Ok(report) => total.add(&report),
                    Err(broken) => {
                        // The others need not go on.
                        next.store(end, Ordering::Relaxed);
                        return Err(broken);
                    }
                }
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
    let mut total = Report::default();
    let outcomes = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a history panicked")))
            .collect::<Vec<_>>()
    });
    for outcome in outcomes {
        match outcome? {
            Ok(report) => total.add(&report),
            Err(broken) => bail!("{broken}"),
        }
    }
    println!(
        "{seeds} histories from seed {from} in {:.1} s, and every one kept the rules",
        start.elapsed().as_secs_f64()
    );
    for (what, count) in [
        ("messages", total.accepted),
        ("confirmed", total.confirmed),
        ("failed", total.failed),
        ("  of these out of order", total.out_of_order),
        ("unknown", total.unknown),
        ("resent", total.retries),
        ("batches", total.batches),
        ("isolations", total.isolated),
        ("streams lost", total.lost_streams),
        ("streams that did not read", total.stalled_streams),
        ("adapters that talked nonsense", total.adapter_faults),
    ] {
        println!("{what:<30} {count:>12}");
    }
    Ok(())
}
