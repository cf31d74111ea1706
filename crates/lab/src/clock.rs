//! The clock of a run: CLOCK_MONOTONIC since the start of the run, as the pipes' [`Time`].

use std::num::NonZeroU64;

use fairwind_kernel::monotonic_ns;
use fairwind_path::units::{Duration, Time};
use rustix::io::Errno;
use rustix::thread::{
    ClockId, Nsecs, Secs, Timespec, clock_nanosleep_absolute, set_current_timer_slack,
};

/// Copies agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start_ns: u64,
}

impl Clock {
    /// A clock that starts counting at this time of CLOCK_MONOTONIC and reads zero until then.
    pub(crate) fn since(start_ns: u64) -> Clock {
        Clock { start_ns }
    }

    /// A clock that starts counting after `lead`.
    pub(crate) fn starting_in(lead: Duration) -> Clock {
        Clock::since(monotonic_ns() + lead.as_nanos())
    }

    /// CLOCK_MONOTONIC at the start, in nanoseconds.
    pub(crate) fn start_ns(self) -> u64 {
        self.start_ns
    }

    #[inline]
    pub(crate) fn now(self) -> Time {
        Time::from_nanos(monotonic_ns().saturating_sub(self.start_ns))
    }

    /// Time left until the clock starts counting.
    pub(crate) fn until_start(self) -> Duration {
        Duration::from_nanos(self.start_ns.saturating_sub(monotonic_ns()))
    }

    /// Waits until the clock starts counting.
    pub(crate) fn await_start(self) {
        let start = timespec(self.start_ns);
        while clock_nanosleep_absolute(ClockId::Monotonic, &start) == Err(Errno::INTR) {}
    }

    /// Converts a time of the run to CLOCK_MONOTONIC, nanoseconds.
    pub(crate) fn monotonic_ns(self, time: Time) -> u64 {
        self.start_ns.saturating_add(time.as_nanos())
    }
}

/// Makes the kernel wake the calling thread when requested. By default its timers may be 50 us late, to
/// coincide with others.
pub(crate) fn minimise_timer_slack() {
    // Never fails.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

/// Nanoseconds as system calls take them.
pub(crate) fn timespec(nanos: u64) -> Timespec {
    Timespec {
        tv_sec: (nanos / 1_000_000_000) as Secs,
        tv_nsec: (nanos % 1_000_000_000) as Nsecs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_run_count_from_its_start() {
        let clock = Clock::since(7_500_000_000);
        assert_eq!(clock.monotonic_ns(Time::from_millis(600)), 8_100_000_000);
        assert_eq!(Clock::since(u64::MAX).now(), Time::ZERO);
    }

    #[test]
    fn nanoseconds_are_seconds_and_the_rest() {
        let expected = Timespec {
            tv_sec: 8,
            tv_nsec: 100_000_000,
        };
        assert_eq!(timespec(8_100_000_000), expected);
    }
}
