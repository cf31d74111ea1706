//! The one clock of a run: CLOCK_MONOTONIC since its start, as the pipes' [`Time`].

use fairwind_kernel::{monotonic_ns, unix_ns};
use fairwind_path::units::{Duration, Time};

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
            start_nanos: monotonic_ns() + lead.as_nanos(),
            wall_start_nanos: unix_ns() + lead.as_nanos(),
        }
    }

    /// How long it will still be at zero.
    pub fn until_start(self) -> Duration {
        Duration::from_nanos(self.start_nanos.saturating_sub(monotonic_ns()))
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
        Time::from_nanos(monotonic_ns().saturating_sub(self.start_nanos))
    }
}
