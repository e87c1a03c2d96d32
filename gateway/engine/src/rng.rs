//! Jitter that can be repeated.
//!
//! **The state machine is deterministic**: its only randomness is this generator (SplitMix64 of
//! Steele, Lea and Flood, 2014), seeded by whoever makes it.

use std::time::Duration;

use crate::config::Backoff;

#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly from 0 to before `bound`; 0 when there is nothing to choose from.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }
}

/// How long to wait before the attempt after the `attempts`-th: doubled each time, capped, and
/// somewhere in its upper half. `jitter` is any number: rows that share one stay together, so that
/// a batch which failed is a batch again, and does not meet all the other gateways' at the broker.
pub(crate) fn backoff(backoff: Backoff, attempts: u32, jitter: u64) -> Duration {
    let factor = 1_u32
        .checked_shl(attempts.saturating_sub(1))
        .unwrap_or(u32::MAX);
    let whole = backoff.initial.saturating_mul(factor).min(backoff.max);
    let half = whole / 2;
    let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
    half + Duration::from_nanos(jitter.checked_rem(nanos.saturating_add(1)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_cap_and_keeps_within_its_upper_half() {
        let mut rng = Rng::new(1);
        let policy = Backoff {
            initial: Duration::from_millis(100),
            max: Duration::from_secs(1),
        };
        for (attempts, whole) in [
            (1, 100),
            (2, 200),
            (3, 400),
            (4, 800),
            (5, 1_000),
            (99, 1_000),
        ] {
            for _ in 0..100 {
                let wait = backoff(policy, attempts, rng.next());
                let whole = Duration::from_millis(whole);
                assert!(wait >= whole / 2 && wait <= whole, "{attempts}: {wait:?}");
            }
        }
    }
}
