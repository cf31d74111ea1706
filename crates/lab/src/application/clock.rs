//! CLOCK_MONOTONIC since the start of the run; the same time as the emulator's.

use fairwind_kernel::monotonic_ns;
use fairwind_path::units::Time;
use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

/// Copies agree.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch_nanos: u64,
}

impl Clock {
    /// A clock that starts counting at this time of CLOCK_MONOTONIC and reads zero until then.
    pub fn since(epoch_nanos: u64) -> Clock {
        Clock { epoch_nanos }
    }

    #[inline]
    pub fn now(self) -> Time {
        Time::from_nanos(monotonic_ns().saturating_sub(self.epoch_nanos))
    }

    /// Waits until the clock starts counting.
    pub fn await_start(self) {
        let start = self.monotonic(Time::ZERO);
        let flags = ClockNanosleepFlags::TIMER_ABSTIME;
        while clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &start) == Err(Errno::EINTR) {}
    }

    /// Converts a time of the run to CLOCK_MONOTONIC.
    pub fn monotonic(self, time: Time) -> TimeSpec {
        let nanos = self.epoch_nanos.saturating_add(time.as_nanos());
        TimeSpec::new(
            (nanos / 1_000_000_000) as i64,
            (nanos % 1_000_000_000) as i64,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_run_count_from_its_epoch() {
        let clock = Clock::since(7_500_000_000);
        assert_eq!(
            clock.monotonic(Time::from_millis(600)),
            TimeSpec::new(8, 100_000_000)
        );
        assert_eq!(Clock::since(u64::MAX).now(), Time::ZERO);
    }
}
