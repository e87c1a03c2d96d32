//! What several measurements of the same thing say together.

/// The middle one; of an even number, the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some((sorted.get(middle.checked_sub(1)?)? + upper) / 2.0)
}

/// The rate of two things done one after the other on the same cores.
pub(crate) fn serial(first: f64, second: f64) -> Option<f64> {
    (first > 0.0 && second > 0.0).then(|| 1.0 / (1.0 / first + 1.0 / second))
}

/// A rate; nothing in no time is none.
#[allow(
    clippy::cast_precision_loss,
    reason = "counts of messages are far below 2^52"
)]
pub(crate) fn rate(messages: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        messages as f64 / seconds
    } else {
        0.0
    }
}

/// Four digits: what is measured here is not known any better.
pub(crate) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let magnitude = value.abs().log10().floor();
    let factor = 10_f64.powf(3.0 - magnitude);
    (value * factor).round() / factor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_no_mean_of_outliers() {
        assert_eq!(median(&[3.0, 1_000.0, 1.0]), Some(3.0));
        assert_eq!(median(&[1.0, 2.0, 3.0, 10.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn serial_work_adds_times_and_not_rates() {
        assert_eq!(serial(100.0, 100.0), Some(50.0));
        let slow = serial(100.0, 1e9).unwrap();
        assert!((slow - 100.0).abs() < 0.001);
        assert_eq!(serial(0.0, 1.0), None);
    }

    #[test]
    fn nothing_in_no_time_is_no_rate() {
        assert_eq!(rate(0, 0.0), 0.0);
        assert_eq!(rate(10, 2.0), 5.0);
    }

    #[test]
    fn figures_keep_four_digits() {
        assert_eq!(rounded(1_234_567.0), 1_235_000.0);
        assert_eq!(rounded(0.123_456), 0.123_5);
        assert_eq!(rounded(0.0), 0.0);
    }
}
