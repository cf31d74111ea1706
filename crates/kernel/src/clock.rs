//! The kernel's clocks, and the length of its jiffies.

/// `CLOCK_MONOTONIC`, the clock of eBPF programs and traces, in nanoseconds.
#[inline]
pub fn monotonic_ns() -> u64 {
    now_ns(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME`, in nanoseconds since 1970.
#[inline]
pub fn unix_ns() -> u64 {
    now_ns(libc::CLOCK_REALTIME)
}

#[inline]
fn now_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec that is written.
    let failed = unsafe { libc::clock_gettime(clock, &mut now) };
    assert_eq!(failed, 0, "Linux has the clock");
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Jiffies per second of the running kernel.
pub fn hz() -> u32 {
    // The coarse clock advances once a jiffy, which is its resolution.
    let mut resolution = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a timespec that is written.
    let failed = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut resolution) };
    assert_eq!(failed, 0, "Linux has a coarse clock");
    hz_from_resolution(resolution.tv_nsec)
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
    fn resolution_of_the_coarse_clock_gives_hz() {
        assert_eq!(hz_from_resolution(4_000_000), 250);
        assert_eq!(hz_from_resolution(1_000_000), 1000);
        assert_eq!(hz_from_resolution(3_333_333), 300);
    }
}
