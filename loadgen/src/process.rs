//! What a process used, as the kernel counts it.

use crate::machine::kilobytes;

/// A process, by its id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage(u32);

impl Usage {
    /// Of a process that is running.
    pub(crate) fn of(process: u32) -> Self {
        Self(process)
    }

    /// Processor time since it started, in microseconds; `None` once it is gone.
    pub(crate) fn cpu_us(self) -> Option<u64> {
        // utime and stime are fields 14 and 15; the name before them may hold spaces, but ends with the
        // last parenthesis.
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        let (_, fields) = text.rsplit_once(')')?;
        let mut fields = fields.split_whitespace().skip(11);
        let user: u64 = fields.next()?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        Some((user + system) * TICK_US)
    }

    /// Starts the peak anew, where the kernel allows it.
    pub(crate) fn reset_peak(self) {
        let _ = std::fs::write(format!("/proc/{}/clear_refs", self.0), "5");
    }

    /// The most memory that it had resident since the last [`Usage::reset_peak`].
    pub(crate) fn rss_peak_bytes(self) -> Option<u64> {
        self.status("VmHWM:")
    }

    /// The memory that it has resident.
    pub(crate) fn rss_bytes(self) -> Option<u64> {
        self.status("VmRSS:")
    }

    fn status(self, field: &str) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.0)).ok()?;
        Some(kilobytes(&text, field) * 1_024)
    }
}

/// The kernel counts processor time in hundredths of a second on every common build (USER_HZ).
const TICK_US: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_gets_processor_time() {
        let usage = Usage::of(std::process::id());
        let mut waste = 0u64;
        while usage.cpu_us().unwrap() == 0 {
            waste = (0..1_000_000).fold(waste, u64::wrapping_add);
        }
        assert!(usage.rss_bytes().unwrap() > 0);
        assert!(usage.rss_peak_bytes().unwrap() >= usage.rss_bytes().unwrap() / 2);
    }

    #[test]
    fn a_process_that_is_not_there_has_nothing() {
        assert_eq!(Usage::of(u32::MAX).cpu_us(), None);
    }
}
