//! The clock of a run: CLOCK_MONOTONIC since the start of the run, as the pipes' [`Time`].

use fairwind_kernel::{monotonic_ns, unix_ns};
use fairwind_path::units::{Duration, Time};

/// Copies agree.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_nanos: u64,
    wall_start_nanos: u64,
}

impl Clock {
    /// A clock that starts counting after `lead` and reads zero until then.
    pub fn starting_in(lead: Duration) -> Clock {
        Clock {
            start_nanos: monotonic_ns() + lead.as_nanos(),
            wall_start_nanos: unix_ns() + lead.as_nanos(),
        }
    }

    /// Time left until the clock starts counting.
    pub fn until_start(self) -> Duration {
        Duration::from_nanos(self.start_nanos.saturating_sub(monotonic_ns()))
    }

    /// CLOCK_MONOTONIC at the start, in nanoseconds.
    pub fn start_nanos(self) -> u64 {
        self.start_nanos
    }

    /// Nanoseconds since 1970 at `time`. Follows the machine's wall clock as it was at the start;
    /// later adjustments do not show.
    pub fn wall_nanos(self, time: Time) -> u64 {
        self.wall_start_nanos + time.as_nanos()
    }

    #[inline]
    pub fn now(self) -> Time {
        Time::from_nanos(monotonic_ns().saturating_sub(self.start_nanos))
    }
}
