//! What it costs to ask an adapter: plan and settle together, per message.
//!
//! Bar: at most 20 ns a message in batches of 1,000 and more. The baseline, from the same run, is the bare
//! call: the same component and the same columns, called synchronously by wasmtime, without preemption,
//! checks or conversions. What lies above it is what the host adds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a benchmark may stop where it stands"
)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use sluicegate_core::Batch;
use sluicegate_host::wasmtime::component::{Component, HasSelf, Linker};
use sluicegate_host::wasmtime::{Config, Engine, Store};
use sluicegate_host::wit::{log, types};
use sluicegate_host::{Guest, Host, Lowering, Options, Reads};
use support::null::{Null0, open, send};

/// The bar of the adapter boundary.
const BAR_NS: f64 = 20.0;

/// From how many rows on it holds.
const BAR_ROWS: usize = 1_000;

/// How long each figure is measured; the best of `ROUNDS` rounds counts, since everything else on the
/// machine only adds.
const ROUND: Duration = Duration::from_millis(150);
const ROUNDS: usize = 5;

mod bare {
    sluicegate_host::wasmtime::component::bindgen!({
        path: "../../proto/wit",
        world: "sluicegate:adapter/null",
        with: {
            "sluicegate:adapter/types": sluicegate_host::wit::types,
            "sluicegate:adapter/log": sluicegate_host::wit::log,
        },
        wasmtime_crate: sluicegate_host::wasmtime,
    });
}

fn main() {
    let path = support::component("sluicegate-adapter-null");
    let size = std::fs::metadata(&path).unwrap().len();
    println!("null.wasm: {size} bytes");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    start_up(&runtime, &path);

    let host = Host::new(&Options::default()).unwrap();
    let mut guest: Guest<Null0> = runtime.block_on(async {
        let adapter = host.load(&path).await.unwrap();
        let mut guest = Guest::connect(&adapter, "bench", &BTreeMap::new())
            .await
            .unwrap();
        open(&mut guest).await.unwrap();
        guest
    });
    let mut bare = Bare::new(&path);
    let empty = best(|| bare.settle(1));
    println!("empty call, bare: {empty:.0} ns");

    println!("plan and settle together:");
    println!("    rows  bare ns/message  host ns/message  ratio");
    let mut met = true;
    for rows in [1, 100, 1_000, 10_000] {
        let batch = support::batch(rows);
        let bare_ns = best(|| bare.send(&batch)) / rows as f64;
        let host_ns = best(|| {
            black_box(runtime.block_on(send(&mut guest, &batch)));
        }) / rows as f64;
        println!(
            "{rows:>8}  {bare_ns:>15.2}  {host_ns:>15.2}  {:>5.2}",
            host_ns / bare_ns
        );
        met &= rows < BAR_ROWS || host_ns <= BAR_NS;
    }
    println!(
        "bar: at most {BAR_NS} ns a message from {BAR_ROWS} rows on: {}",
        if met { "met" } else { "MISSED" }
    );
}

/// Nanoseconds of one call.
fn best(mut call: impl FnMut()) -> f64 {
    call();
    (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            let mut calls = 0_u32;
            while start.elapsed() < ROUND {
                for _ in 0..16 {
                    call();
                }
                calls += 16;
            }
            start.elapsed().as_nanos() as f64 / f64::from(calls)
        })
        .fold(f64::INFINITY, f64::min)
}

fn start_up(runtime: &tokio::runtime::Runtime, path: &Path) {
    let cache = tempfile::tempdir().unwrap();
    let options = Options {
        cache: Some(cache.path().join("adapters")),
        ..Options::default()
    };
    for what in ["cold", "warm"] {
        let start = Instant::now();
        let host = Host::new(&options).unwrap();
        let adapter = runtime.block_on(host.load(path)).unwrap();
        let guest = runtime.block_on(Guest::<Null0>::connect(&adapter, "b", &BTreeMap::new()));
        println!("start with a {what} cache: {:.1?}", start.elapsed());
        drop(guest.unwrap());
    }
}

/// The component without the host.
struct Bare {
    store: Store<Quiet>,
    world: bare::Null,
    lowering: Lowering,
}

struct Quiet;

impl types::Host for Quiet {}

impl log::Host for Quiet {
    fn log(&mut self, _level: log::Level, _message: String) {}
}

impl Bare {
    fn new(path: &Path) -> Self {
        let mut config = Config::new();
        config.concurrency_support(false);
        let engine = Engine::new(&config).unwrap();
        let component = Component::from_file(&engine, path).unwrap();
        let mut linker = Linker::new(&engine);
        log::add_to_linker::<Quiet, HasSelf<Quiet>>(&mut linker, |quiet| quiet).unwrap();
        let mut store = Store::new(&engine, Quiet);
        let world = bare::Null::instantiate(&mut store, &component, &linker).unwrap();
        world
            .sluicegate_adapter_adapter()
            .call_configure(&mut store, &Vec::new())
            .unwrap()
            .unwrap();
        Self {
            store,
            world,
            lowering: Lowering::new(Reads::default()),
        }
    }

    fn send(&mut self, batch: &Batch) {
        let columns = self.lowering.lower(batch, &[], 0);
        let driver = self.world.sluicegate_adapter_null_driver();
        black_box(driver.call_plan(&mut self.store, columns).unwrap());
        self.settle(columns_count(batch));
    }

    fn settle(&mut self, count: u32) {
        let driver = self.world.sluicegate_adapter_null_driver();
        let rows = types::Rows { first: 0, count };
        let reply = bare::exports::sluicegate::adapter::null_driver::Reply { rows };
        black_box(driver.call_settle(&mut self.store, &[], reply).unwrap());
    }
}

fn columns_count(batch: &Batch) -> u32 {
    batch.rows.len() as u32
}
