//! The one clock of a run: CLOCK_MONOTONIC since its start, as the pipes' [`Time`].

use fairwind_path::units::{Duration, Time};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

/// Copies show the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_nanos: u64,
    wall_start_nanos: u64,
}

impl Clock {
    /// A clock that is at zero in so long a time, and until then.
    pub fn starting_in(lead: Duration) -> Clock {
        Clock {
            start_nanos: nanos(ClockId::CLOCK_MONOTONIC) + lead.as_nanos(),
            wall_start_nanos: nanos(ClockId::CLOCK_REALTIME) + lead.as_nanos(),
        }
    }

    /// How long it will still be at zero.
    pub fn until_start(self) -> Duration {
        let left = self
            .start_nanos
            .saturating_sub(nanos(ClockId::CLOCK_MONOTONIC));
        Duration::from_nanos(left)
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
        Time::from_nanos(nanos(ClockId::CLOCK_MONOTONIC).saturating_sub(self.start_nanos))
    }
}

#[inline]
fn nanos(clock: ClockId) -> u64 {
    // The clocks exist on every Linux, and the call fails for nothing else.
    let now = clock_gettime(clock).unwrap_or(TimeSpec::new(0, 0));
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}
