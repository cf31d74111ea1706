//! Quantities with their unit in the type: time, duration, bandwidth, bytes.
//!
//! All are integers, so that a run gives the same result on every machine. Additions saturate:
//! [`Time::MAX`] means "never" and absorbs additions.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// A point in time, in nanoseconds since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

/// A rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(u64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than any other time: never.
    pub const MAX: Time = Time(u64::MAX);

    /// The moment this many nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// The moment this many microseconds after the start; saturates.
    pub const fn from_micros(micros: u64) -> Time {
        Time(micros.saturating_mul(1_000))
    }

    /// The moment this many milliseconds after the start; saturates.
    pub const fn from_millis(millis: u64) -> Time {
        Time(millis.saturating_mul(1_000_000))
    }

    /// The moment this many seconds after the start; saturates.
    pub const fn from_secs(secs: u64) -> Time {
        Time(secs.saturating_mul(NANOS_PER_SEC))
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds since the start.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds since the start.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Seconds since the start.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }

    /// The first of this time and those whole steps later that is not before `end`. `step` must be above 0.
    pub(crate) fn in_steps_to(self, step: Duration, end: Time) -> Time {
        self + step * (end - self).as_nanos().div_ceil(step.as_nanos())
    }
}

impl Duration {
    /// The empty duration.
    pub const ZERO: Duration = Duration(0);
    /// Longer than any other duration: for ever.
    pub const MAX: Duration = Duration(u64::MAX);

    /// This many nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Duration {
        Duration(nanos)
    }

    /// This many microseconds; saturates.
    pub const fn from_micros(micros: u64) -> Duration {
        Duration(micros.saturating_mul(1_000))
    }

    /// This many milliseconds; saturates.
    pub const fn from_millis(millis: u64) -> Duration {
        Duration(millis.saturating_mul(1_000_000))
    }

    /// This many seconds; saturates.
    pub const fn from_secs(secs: u64) -> Duration {
        Duration(secs.saturating_mul(NANOS_PER_SEC))
    }

    /// This many seconds, to the nearest nanosecond; zero if negative or NaN, saturates.
    pub fn from_secs_f64(secs: f64) -> Duration {
        Duration((secs * NANOS_PER_SEC as f64).round() as u64)
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }
}

impl Bandwidth {
    /// This many bits per second.
    pub const fn from_bps(bps: u64) -> Bandwidth {
        Bandwidth(bps)
    }

    /// This many megabits (10^6 bits) per second; saturates.
    pub const fn from_mbps(mbps: u64) -> Bandwidth {
        Bandwidth(mbps.saturating_mul(1_000_000))
    }

    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// The time to send `bytes`, rounded up to a nanosecond; at 0 bit/s [`Duration::MAX`], or zero for no
    /// bytes.
    pub fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return if bytes == 0 {
                Duration::ZERO
            } else {
                Duration::MAX
            };
        }
        let nanos = (u128::from(bytes) * 8 * u128::from(NANOS_PER_SEC)).div_ceil(self.0.into());
        Duration(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl Bytes {
    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, length: Duration) -> Time {
        Time(self.0.saturating_add(length.0))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, length: Duration) {
        *self = *self + length;
    }
}

/// The time since `earlier`; zero if that is later.
impl Sub for Time {
    type Output = Duration;
    fn sub(self, earlier: Time) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

/// The point in time `length` earlier, but not before the start.
impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, length: Duration) -> Time {
        Time(self.0.saturating_sub(length.0))
    }
}

impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
}

/// Zero if `other` is longer.
impl Sub for Duration {
    type Output = Duration;
    fn sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Duration {
    type Output = Duration;
    fn mul(self, times: u64) -> Duration {
        Duration(self.0.saturating_mul(times))
    }
}

/// Rounded down.
impl Div<u64> for Duration {
    type Output = Duration;
    fn div(self, parts: u64) -> Duration {
        Duration(self.0 / parts)
    }
}

/// Writes seconds with as many decimals as needed.
fn write_secs(nanos: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (secs, rest) = (nanos / NANOS_PER_SEC, nanos % NANOS_PER_SEC);
    let decimals = format!("{rest:09}");
    match decimals.trim_end_matches('0') {
        "" => write!(f, "{secs}s"),
        decimals => write!(f, "{secs}.{decimals}s"),
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Time::MAX => f.write_str("never"),
            _ => write_secs(self.0, f),
        }
    }
}

/// In the largest of s, ms, us, ns that gives a whole number.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0s"),
            u64::MAX => f.write_str("for ever"),
            n if n % NANOS_PER_SEC == 0 => write!(f, "{}s", n / NANOS_PER_SEC),
            n if n % 1_000_000 == 0 => write!(f, "{}ms", n / 1_000_000),
            n if n % 1_000 == 0 => write!(f, "{}us", n / 1_000),
            n => write!(f, "{n}ns"),
        }
    }
}

/// In the largest of Gbit/s, Mbit/s, kbit/s, bit/s that gives a whole number.
impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0bit/s"),
            n if n % 1_000_000_000 == 0 => write!(f, "{}Gbit/s", n / 1_000_000_000),
            n if n % 1_000_000 == 0 => write!(f, "{}Mbit/s", n / 1_000_000),
            n if n % 1_000 == 0 => write!(f, "{}kbit/s", n / 1_000),
            n => write!(f, "{n}bit/s"),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_1500_byte_packet_takes_120_microseconds_at_100_mbps() {
        assert_eq!(
            Bandwidth::from_mbps(100).time_for(1500),
            Duration::from_micros(120)
        );
    }

    #[test]
    fn transmission_times_round_up() {
        // 12,000 bit / 7 bit/s = 1714.2857142857... s
        assert_eq!(
            Bandwidth::from_bps(7).time_for(1500),
            Duration::from_nanos(1_714_285_714_286)
        );
    }

    #[test]
    fn nothing_passes_at_zero_bandwidth() {
        assert_eq!(Bandwidth::from_bps(0).time_for(1), Duration::MAX);
        assert_eq!(Bandwidth::from_bps(0).time_for(0), Duration::ZERO);
    }

    #[test]
    fn never_stays_never() {
        assert_eq!(Time::MAX + Duration::from_secs(1), Time::MAX);
    }

    #[test]
    fn steps_end_at_or_after_a_time() {
        let from = |ms, end| {
            let step = Duration::from_millis(10);
            Time::from_millis(ms).in_steps_to(step, Time::from_millis(end))
        };
        assert_eq!(from(3, 25), Time::from_millis(33));
        assert_eq!(from(3, 23), Time::from_millis(23));
        assert_eq!(from(3, 3), Time::from_millis(3));
        assert_eq!(from(30, 3), Time::from_millis(30));
    }

    #[test]
    fn an_earlier_time_less_a_later_one_is_zero() {
        assert_eq!(Time::from_secs(1) - Time::from_secs(2), Duration::ZERO);
    }

    #[test]
    fn fractions_of_seconds_round_to_the_nearest_nanosecond() {
        assert_eq!(Duration::from_secs_f64(0.1), Duration::from_millis(100));
        assert_eq!(Duration::from_secs_f64(1.6e-9), Duration::from_nanos(2));
        assert_eq!(Duration::from_secs_f64(-1.0), Duration::ZERO);
        assert_eq!(Duration::from_secs_f64(f64::NAN), Duration::ZERO);
    }

    #[test]
    fn quantities_read_with_their_units() {
        assert_eq!(Time::from_millis(1_250).to_string(), "1.25s");
        assert_eq!(Duration::from_micros(1_500).to_string(), "1500us");
        assert_eq!(Bandwidth::from_bps(384_000).to_string(), "384kbit/s");
        assert_eq!(Bytes(75_000).to_string(), "75000B");
    }
}
