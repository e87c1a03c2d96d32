//! A deterministic simulation of the engine.
//!
//! **One seed is one history**: clients that publish, flush, abort, vanish, never read and ignore their
//! credit, and brokers that answer in parts, late, twice or never, are driven by one generator against
//! the engine's state machine, in virtual time. A seed that breaks a rule breaks it every time.
//!
//! What every history must keep:
//!
//! - each accepted row has exactly one verdict, and the counts of scopes and of the engine add up;
//! - `confirmed` is in the store, `failed` is not, and no row is stored twice;
//! - rows of one key and one stream are in the store in the order of their publishing, where the
//!   destination keeps order;
//! - `Flushed` and `ScopeDone` come after the verdicts they speak of;
//! - credit that was taken comes back; nobody waits for something that has happened;
//! - at the end nothing is queued, charged, open, held or in flight.
//!
//! `cargo xtask simulate --seeds N` runs any number of them.

mod broker;
mod client;
mod setting;
mod world;

use world::World;

/// What happened in one history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub accepted: u64,
    pub confirmed: u64,
    pub failed: u64,
    pub unknown: u64,
    pub retries: u64,
    pub batches: u64,
    pub out_of_order: u64,
    pub isolated: u64,
    pub lost_streams: u64,
    pub stalled_streams: u64,
    /// Verdicts that adapters should not have given.
    pub adapter_faults: u64,
}

impl Report {
    /// Adds what happened in another history.
    pub fn add(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.confirmed += other.confirmed;
        self.failed += other.failed;
        self.unknown += other.unknown;
        self.retries += other.retries;
        self.batches += other.batches;
        self.out_of_order += other.out_of_order;
        self.isolated += other.isolated;
        self.lost_streams += other.lost_streams;
        self.stalled_streams += other.stalled_streams;
        self.adapter_faults += other.adapter_faults;
    }
}

/// Runs the history of a seed.
///
/// # Errors
///
/// The rule that it broke, when, and for which row.
pub fn run(seed: u64) -> Result<Report, String> {
    World::new(seed)?
        .run()
        .map_err(|broken| format!("seed {seed}: {broken}"))
}
