//! The cost of a run: processor time, wall-clock time, memory.

use std::time::Instant;

use fairwind_result::{Machine, Performance};

/// Measures the cost of a run from its creation on.
#[derive(Debug)]
pub struct Stopwatch {
    wall: Instant,
    clock: libc::clockid_t,
    cpu_s: f64,
}

impl Stopwatch {
    /// Starts now, for a run that is entirely in the calling thread.
    pub fn of_thread() -> Stopwatch {
        Stopwatch::start(libc::CLOCK_THREAD_CPUTIME_ID)
    }

    /// Starts now, for a run that is all the process does.
    pub fn of_process() -> Stopwatch {
        Stopwatch::start(libc::CLOCK_PROCESS_CPUTIME_ID)
    }

    fn start(clock: libc::clockid_t) -> Stopwatch {
        Stopwatch {
            wall: Instant::now(),
            clock,
            cpu_s: cpu_seconds(clock),
        }
    }

    /// The cost since the start. For a run in a thread, processor time is that of the thread, so
    /// that parallel runs do not count for each other; memory is always the peak of the whole
    /// process.
    pub fn performance(&self, data_packets: u64, events: u64) -> Performance {
        Performance {
            data_packets,
            events,
            cpu_s: cpu_seconds(self.clock) - self.cpu_s,
            wall_s: self.wall.elapsed().as_secs_f64(),
            peak_rss_mb: peak_rss_mb(),
            machine: Some(Machine::here()),
        }
    }
}

/// Processor time by this clock, seconds; 0 if it cannot be read.
fn cpu_seconds(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local timespec, which the call fills.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) } != 0;
    if failed {
        return 0.0;
    }
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
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
