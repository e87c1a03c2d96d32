//! What the figures were measured on, and how busy it was.

use serde::Serialize;

/// The machine, for the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Processors that this process may use.
    pub(crate) cpus: usize,
    /// As the kernel names it.
    pub(crate) model: String,
    /// Physical memory in bytes.
    pub(crate) memory_bytes: u64,
}

impl Machine {
    /// Asks the kernel. What it does not say is empty or 0.
    pub(crate) fn read() -> Self {
        let file = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            model: file("/proc/cpuinfo")
                .lines()
                .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
                .map(|(_, model)| model.trim().to_owned())
                .unwrap_or_default(),
            memory_bytes: kilobytes(&file("/proc/meminfo"), "MemTotal:") * 1_024,
        }
    }
}

/// The number after `field` in a file of /proc, in the kilobytes that it is given in.
pub(crate) fn kilobytes(text: &str, field: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix(field))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or_default()
}

/// Processor time of the whole machine, to tell how much of it was idle between two readings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Processors {
    idle: u64,
    total: u64,
}

impl Processors {
    /// Now; `None` where the kernel does not say.
    pub(crate) fn read() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // user nice system idle iowait irq softirq steal; guest time is part of user's.
        let ticks: Vec<u64> = text
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_whitespace()
            .take(8)
            .map_while(|field| field.parse().ok())
            .collect();
        Some(Self {
            idle: ticks.get(3)? + ticks.get(4)?,
            total: ticks.iter().sum(),
        })
    }

    /// The idle part of all processors since `earlier`, from 0 to 1.
    pub(crate) fn idle_since(self, earlier: Self) -> Option<f64> {
        let total = self.total.checked_sub(earlier.total).filter(|t| *t > 0)?;
        Some(self.idle.saturating_sub(earlier.idle) as f64 / total as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_disk_is_idle() {
        let before = Processors::parse("cpu  10 0 10 100 50 0 0 0 0 0\ncpu0 1").unwrap();
        let after = Processors::parse("cpu  40 0 20 120 90 0 0 0 0 0\ncpu0 1").unwrap();
        assert_eq!(after.idle_since(before), Some(0.6));
        assert_eq!(after.idle_since(after), None);
    }

    #[test]
    fn a_machine_has_processors_and_memory() {
        let machine = Machine::read();
        assert!(machine.cpus > 0 && machine.memory_bytes > 0);
    }

    #[test]
    fn a_field_of_proc_is_found_by_its_name() {
        assert_eq!(
            kilobytes("VmPeak:  9 kB\nVmHWM:\t  1234 kB\n", "VmHWM:"),
            1_234
        );
        assert_eq!(kilobytes("", "VmHWM:"), 0);
    }
}
