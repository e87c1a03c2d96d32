//! Tens of thousands of histories; see `sluicegate_engine::sim`.

use sluicegate_engine::sim::{self, Report};

/// Enough that each rare meeting of faults is there many times, few enough for half a minute.
const SEEDS: u64 = 20_000;

#[test]
fn every_history_keeps_the_rules_and_the_histories_are_eventful() {
    let halves = [0..SEEDS / 2, SEEDS / 2..SEEDS].map(|seeds| {
        std::thread::spawn(move || {
            let mut total = Report::default();
            for seed in seeds {
                total.add(&sim::run(seed).unwrap());
            }
            total
        })
    });
    let mut total = Report::default();
    for half in halves {
        total.add(&half.join().unwrap());
    }
    println!("{total:?}");
    for (what, count) in [
        ("confirmed", total.confirmed),
        ("failed", total.failed),
        ("unknown", total.unknown),
        ("retries", total.retries),
        ("out of order", total.out_of_order),
        ("isolated", total.isolated),
        ("lost streams", total.lost_streams),
        ("stalled streams", total.stalled_streams),
        ("adapter faults", total.adapter_faults),
    ] {
        assert!(count > 100, "{what}: {count}, of {total:?}");
    }
}

#[test]
fn a_seed_has_one_history() {
    for seed in 0..50 {
        assert_eq!(sim::run(seed), sim::run(seed));
    }
}
