//! The kernel's tick clock, and when timers that count in jiffies expire (`kernel/time/timer.c`).
//!
//! | Linux 6.x | here |
//! |---|---|
//! | a timer set in the middle of a jiffy waits for one more, so that it is never early | the same |
//! | distant timers are coarser: from 63 jiffies on they expire at a multiple of 8, from 504 on of 64, and so on (`calc_wheel_index`) | the same |
//! | ticks fall on multiples of a jiffy of the monotonic clock | the same |

use fairwind_path::units::{Duration, Time};

use super::UPTIME_NS;

/// `LVL_CLK_SHIFT`: each level of the wheel is 8 times coarser than the one before.
const LEVEL_SHIFT: u32 = 3;
/// `LVL_START(1)`: timeouts of this many jiffies or more use the second level.
const SECOND_LEVEL: u64 = 63;
/// Shift of the coarsest level.
const COARSEST: u32 = 8 * LEVEL_SHIFT;

/// Up to this many nanoseconds the reciprocal is exact: 2^64 / 10^7, as jiffies are at most 10 ms.
const EXACT_NS: u64 = 1 << 40;

/// The tick clock of one host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jiffies {
    tick_ns: u64,
    /// 2^64 / `tick_ns`, rounded up, as multiplication is faster than division.
    reciprocal: u64,
    has_wheel: bool,
    now: u64,
    /// When the current jiffy began, nanoseconds of the host's clock.
    began_ns: u64,
}

impl Jiffies {
    /// A clock of `hz` jiffies per second, with the kernel's timer wheel.
    pub(crate) fn new(hz: u32) -> Self {
        let tick_ns = u64::from(1_000_000_000 / hz);
        Jiffies {
            tick_ns,
            reciprocal: (u64::MAX / tick_ns).wrapping_add(1),
            has_wheel: true,
            now: 0,
            began_ns: 0,
        }
    }

    /// A clock of `hz` jiffies per second whose timers run from the moment they are set.
    pub(crate) fn without_wheel(hz: u32) -> Self {
        Jiffies {
            has_wheel: false,
            ..Jiffies::new(hz)
        }
    }

    /// Advances the clock to the host's time `ns`, nanoseconds.
    #[inline]
    pub(crate) fn advance(&mut self, ns: u64) {
        let passed_ns = ns.wrapping_sub(self.began_ns);
        if passed_ns >= self.tick_ns {
            self.now += self.whole(passed_ns);
            self.began_ns = self.now * self.tick_ns;
        }
    }

    /// The duration of `count` jiffies.
    #[inline]
    pub(crate) fn time(&self, count: u64) -> Duration {
        Duration::from_nanos(count * self.tick_ns)
    }

    /// Number of whole jiffies in `ns` nanoseconds.
    #[inline]
    fn whole(&self, ns: u64) -> u64 {
        if ns > EXACT_NS || self.tick_ns == 1 {
            return ns / self.tick_ns;
        }
        ((u128::from(ns) * u128::from(self.reciprocal)) >> 64) as u64
    }

    /// `jiffies`, without the wrap.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// A duration as a number of jiffies, rounded up (`usecs_to_jiffies`).
    #[inline]
    pub(crate) fn count(&self, time: Duration) -> u64 {
        self.whole(time.as_nanos() + self.tick_ns - 1)
    }

    /// A duration in microseconds as timers keep it: rounded up to a whole jiffy.
    #[inline]
    pub(crate) fn round_up_us(&self, us: u64) -> Duration {
        self.time(self.count(Duration::from_micros(us)))
    }

    /// When a timer expires that is set at `now` with a timeout of `after` jiffies.
    #[inline]
    pub(crate) fn expiry(&self, now: Time, after: u64) -> Time {
        if !self.has_wheel {
            return now + self.time(after);
        }
        if after >= SECOND_LEVEL {
            return self.far_expiry(after);
        }
        Time::from_nanos(self.began_ns + (after + 1) * self.tick_ns - UPTIME_NS)
    }

    fn far_expiry(&self, after: u64) -> Time {
        let mut shift = LEVEL_SHIFT;
        while after >= SECOND_LEVEL << shift && shift < COARSEST {
            shift += LEVEL_SHIFT;
        }
        let jiffy = (self.now + after + (1 << shift)) >> shift << shift;
        Time::from_nanos(jiffy * self.tick_ns - UPTIME_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When a timer of `after` jiffies expires that is set `set_us` after the start; microseconds.
    fn expiry_us(hz: u32, set_us: u64, after: u64) -> u64 {
        let set = Time::from_micros(set_us);
        let mut jiffies = Jiffies::new(hz);
        jiffies.advance(crate::tcp::clock_ns(set));
        jiffies.expiry(set, after).as_micros()
    }

    #[test]
    fn a_timer_is_at_most_a_jiffy_late_and_never_early() {
        assert_eq!(expiry_us(250, 0, 10), 44_000);
        assert_eq!(expiry_us(250, 3999, 10), 44_000);
        assert_eq!(expiry_us(250, 4000, 10), 48_000);
        assert_eq!(expiry_us(1000, 4500, 40), 45_000);
    }

    #[test]
    fn far_timers_are_coarser() {
        // 62 jiffies are on the first level; 63 wait for a multiple of 8, 504 for one of 64. The
        // clock begins at jiffy 250: 250 + 63 -> 320, 250 + 504 -> 768.
        assert_eq!(expiry_us(250, 0, 62), 63 * 4000);
        assert_eq!(expiry_us(250, 0, 63), 70 * 4000);
        assert_eq!(expiry_us(250, 0, 504), 518 * 4000);
    }

    #[test]
    fn whole_jiffies_are_counted_exactly() {
        for hz in [100, 250, 1000, 1_000_000_000] {
            let jiffies = Jiffies::new(hz);
            for ns in [0, 1, EXACT_NS, EXACT_NS + 1, u64::MAX] {
                assert_eq!(jiffies.whole(ns), ns / jiffies.tick_ns);
            }
            for count in (1..EXACT_NS / jiffies.tick_ns).step_by(997).take(100_000) {
                let ns = count * jiffies.tick_ns;
                assert_eq!(jiffies.whole(ns), count);
                assert_eq!(jiffies.whole(ns - 1), count - 1);
            }
        }
    }

    #[test]
    fn times_are_rounded_up_to_jiffies() {
        let jiffies = Jiffies::new(250);
        assert_eq!(jiffies.round_up_us(4000), Duration::from_millis(4));
        assert_eq!(jiffies.round_up_us(4001), Duration::from_millis(8));
        assert_eq!(jiffies.count(Duration::from_millis(40)), 10);
        assert_eq!(jiffies.count(Duration::from_millis(41)), 11);
    }
}
