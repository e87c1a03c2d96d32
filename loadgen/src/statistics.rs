//! Figures from several runs.

use serde::Serialize;

/// Seconds that the runs of a row took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// The fastest.
    pub(crate) min: f64,
    /// Half were faster.
    pub(crate) median: f64,
    /// The slowest.
    pub(crate) max: f64,
}

impl Spread {
    /// `None` when there was no run.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        Some(Self {
            min: *values.first()?,
            median: median_of_sorted(&values)?,
            max: *values.last()?,
        })
    }
}

/// The median; `None` of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    median_of_sorted(&values)
}

fn median_of_sorted(values: &[f64]) -> Option<f64> {
    let upper = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *values.get((values.len() / 2).checked_sub(1)?)?;
    Some((lower + upper) / 2.0)
}

/// The rate of serial work: what two stages reach that share the same cores.
pub(crate) fn model(direct: f64, hop: f64) -> f64 {
    1.0 / (1.0 / direct + 1.0 / hop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_or_between_the_middles() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn a_spread_is_ordered() {
        let spread = Spread::of(vec![2.0, 9.0, 1.0]).unwrap();
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.0, 9.0));
    }

    #[test]
    fn two_equal_stages_share_the_cores() {
        assert!((model(100.0, 100.0) - 50.0).abs() < 1e-9);
    }
}
