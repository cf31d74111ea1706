//! The cost of a run: processor time, wall-clock time, memory.

use std::time::Instant;

use fairwind_kernel::{process_cpu_ns, thread_cpu_ns};

use crate::result::{Machine, Performance};

/// Measures the cost of a run from its creation on.
#[derive(Debug)]
pub struct Stopwatch {
    wall: Instant,
    /// Reads the processor time, nanoseconds.
    cpu_clock: fn() -> u64,
    cpu_ns: u64,
}

impl Stopwatch {
    /// Starts now, for a run that is entirely in the calling thread.
    pub fn of_thread() -> Stopwatch {
        Stopwatch::start(thread_cpu_ns)
    }

    /// Starts now, for a run that is all the process does.
    pub fn of_process() -> Stopwatch {
        Stopwatch::start(process_cpu_ns)
    }

    fn start(cpu_clock: fn() -> u64) -> Stopwatch {
        Stopwatch {
            wall: Instant::now(),
            cpu_clock,
            cpu_ns: cpu_clock(),
        }
    }

    /// The cost since the start. For a run in a thread, processor time is that of the thread, so
    /// that parallel runs do not count for each other; memory is always the peak of the whole
    /// process.
    pub fn performance(&self, data_packets: u64, events: u64) -> Performance {
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
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB"))
        .and_then(|kib| kib.trim().parse::<f64>().ok())
        .map_or(0.0, |kib| kib * 1024.0 / 1e6)
}
