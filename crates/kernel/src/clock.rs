//! The kernel's own unit of time.

/// Jiffies a second of the running kernel.
pub fn hz() -> u32 {
    // The coarse clock advances once a jiffy, and its resolution says so.
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
    fn resolution_of_the_coarse_clock_gives_hz() {
        assert_eq!(hz_from_resolution(4_000_000), 250);
        assert_eq!(hz_from_resolution(1_000_000), 1000);
        assert_eq!(hz_from_resolution(3_333_333), 300);
    }
}
