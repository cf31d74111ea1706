//! The cost of a run: processor time, wall-clock time, memory.

use std::time::Instant;

use fairwind_result::{Machine, Performance};

/// Measures the cost of a run from its creation on.
#[derive(Debug)]
pub(super) struct Stopwatch {
    wall: Instant,
    /// Reads the processor time, nanoseconds.
    cpu_clock: fn() -> u64,
    cpu_ns: u64,
}

impl Stopwatch {
    /// Starts now. The clock is that of the thread for a run that is entirely in the calling thread, that of
    /// the process for one that is all the process does.
    pub(super) fn start(cpu_clock: fn() -> u64) -> Stopwatch {
        Stopwatch {
            wall: Instant::now(),
            cpu_clock,
            cpu_ns: cpu_clock(),
        }
    }

    /// The cost since the start. For a run in a thread, processor time is that of the thread, so
    /// that parallel runs do not count for each other; memory is always the peak of the whole
    /// process.
    pub(super) fn performance(&self, data_packets: u64, events: u64) -> Performance {
        Performance {
            data_packets,
            events,
            cpu_s: ((self.cpu_clock)() - self.cpu_ns) as f64 * 1e-9,
            wall_s: self.wall.elapsed().as_secs_f64(),
            peak_rss_mb: peak_rss_mb(),
            machine: Some(Machine::here()),
        }
    }
}

/// Largest resident memory of the process so far, 10^6 bytes; 0 if the system does not report it.
fn peak_rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kib.map_or(0.0, |kib| kib * 1024.0 / 1e6)
}
