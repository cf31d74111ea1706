//! The kernel's clocks, and the length of its jiffies.

use rustix::time::{ClockId, clock_getres, clock_gettime};

/// `CLOCK_MONOTONIC`, the clock of eBPF programs and traces, in nanoseconds.
#[inline]
pub fn monotonic_ns() -> u64 {
    now_ns(ClockId::Monotonic)
}

/// `CLOCK_REALTIME`, in nanoseconds since 1970.
#[inline]
pub fn unix_ns() -> u64 {
    now_ns(ClockId::Realtime)
}

/// Processor time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    now_ns(ClockId::ThreadCPUTime)
}

/// Processor time of this process, including what the kernel did while it ran, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    now_ns(ClockId::ProcessCPUTime)
}

#[inline]
fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Jiffies per second of the running kernel.
pub fn hz() -> u32 {
    // The coarse clock advances once a jiffy, which is its resolution.
    hz_from_resolution(clock_getres(ClockId::MonotonicCoarse).tv_nsec)
}

fn hz_from_resolution(nanoseconds: i64) -> u32 {
    ((1_000_000_000 + nanoseconds / 2) / nanoseconds) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_on_and_stand_where_they_should() {
        let begun = monotonic_ns();
        assert!(monotonic_ns() >= begun);
        // 2020 was 1,577,836,800 s after 1970.
        assert!(unix_ns() > 1_577_836_800_000_000_000);
    }

    #[test]
    fn processor_time_passes_with_work() {
        // The process's first: what passes until the thread's is read counts for the process too.
        let process = process_cpu_ns();
        let thread = thread_cpu_ns();
        while thread_cpu_ns() < thread + 1_000_000 {}
        assert!(process_cpu_ns() >= process + 1_000_000);
    }

    #[test]
    fn resolution_of_the_coarse_clock_gives_hz() {
        assert_eq!(hz_from_resolution(4_000_000), 250);
        assert_eq!(hz_from_resolution(1_000_000), 1000);
        assert_eq!(hz_from_resolution(3_333_333), 300);
    }
}
