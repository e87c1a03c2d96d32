//! The machine and what processes take of it, from `/proc`. Elsewhere these figures are unknown, and
//! the report says null.

use std::time::Duration;

use serde::Serialize;

/// `/proc` counts processor time in hundredths of a second on every Linux that there is.
const TICKS_PER_SECOND: u64 = 100;

/// What it ran on.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    cpus: usize,
    model: Option<String>,
    memory_bytes: Option<u64>,
}

impl Machine {
    pub(crate) fn read() -> Self {
        let field = |path: &str, name: &str| {
            let text = std::fs::read_to_string(path).ok()?;
            text.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == name).then(|| value.trim().to_owned())
            })
        };
        Self {
            cpus: cpus(),
            model: field("/proc/cpuinfo", "model name"),
            memory_bytes: field("/proc/meminfo", "MemTotal").and_then(|text| kib(&text)),
        }
    }
}

/// Processors that this process may use.
pub(crate) fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn kib(text: &str) -> Option<u64> {
    let number = text.strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    number.checked_mul(1024)
}

/// Processor time of a process so far; of this one with `"self"`.
pub(crate) fn cpu_time(process: &str) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    parse_cpu_time(&text)
}

fn parse_cpu_time(text: &str) -> Option<Duration> {
    // The name, in brackets, may contain spaces and brackets of its own.
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split_whitespace().skip(11);
    let user = fields.next()?.parse::<u64>().ok()?;
    let system = fields.next()?.parse::<u64>().ok()?;
    Some(Duration::from_millis(
        (user + system) * (1_000 / TICKS_PER_SECOND),
    ))
}

/// The most memory that a process has held since [`reset_peak`].
pub(crate) fn peak_bytes(process: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    text.lines()
        .find_map(|line| kib(line.strip_prefix("VmHWM:")?.trim()))
}

/// Begins a new peak. Where it cannot, the peak is that of the process's whole life.
pub(crate) fn reset_peak(process: &str) {
    let _ = std::fs::write(format!("/proc/{process}/clear_refs"), "5");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_with_spaces_and_brackets_does_not_shift_the_fields() {
        let text = "12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
        assert_eq!(parse_cpu_time(text), Some(Duration::from_secs(2)));
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(kib("  12 kB".trim()), Some(12 * 1024));
        assert_eq!(kib("12"), None);
    }
}
