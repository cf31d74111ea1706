//! The one clock of a run: CLOCK_MONOTONIC since its start, as the pipes' [`Time`].

use fairwind_path::units::Time;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

/// Starts at zero when it is made. Copies show the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_nanos: u64,
    wall_start_nanos: u64,
}

impl Clock {
    pub fn start() -> Clock {
        Clock {
            start_nanos: nanos(ClockId::CLOCK_MONOTONIC),
            wall_start_nanos: nanos(ClockId::CLOCK_REALTIME),
        }
    }

    /// CLOCK_MONOTONIC at zero.
    pub fn start_nanos(self) -> u64 {
        self.start_nanos
    }

    /// The time since 1970 at `time`, as the machine's clock had it at the start.
    pub fn wall_nanos(self, time: Time) -> u64 {
        self.wall_start_nanos + time.as_nanos()
    }

    #[inline]
    pub fn now(self) -> Time {
        Time::from_nanos(nanos(ClockId::CLOCK_MONOTONIC) - self.start_nanos)
    }
}

#[inline]
fn nanos(clock: ClockId) -> u64 {
    // The clocks exist on every Linux, and the call fails for nothing else.
    let now = clock_gettime(clock).unwrap_or(TimeSpec::new(0, 0));
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}
