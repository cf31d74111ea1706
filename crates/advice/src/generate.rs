//! Synthetic histories: available bandwidth with a daily and weekly shape and noise. The same
//! [`Curve`] gives the same samples on every machine.
//!
//! The thesis does not publish its series; its text describes one day (section 5.5.1.1): the least
//! bandwidth at midnight, the most at about 07:30, changes between its other test times, and nearly
//! always close to its threshold of 42 of 55 Mbit/s. [`Curve::default`] follows that description. Its
//! noise has the size and the memory of the residuals of a weekday and weekend profile of a backbone
//! node, recorded for a fortnight (standard deviation 1.2 Mbit/s, of which 0.7 are shifts of whole
//! days; correlation 0.9 after five minutes, 0.6 after an hour).

use std::f64::consts::PI;
use std::time::Duration;

use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::calendar::signed;
use crate::sample::Sample;

/// The daily and weekly shape of available bandwidth, and its noise.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Seed of the noise.
    pub seed: u64,
    /// Time between samples; more than 0.
    pub step: Duration,
    /// Time zone of days and hours.
    pub time_zone: TimeZone,
    /// Samples are clamped to the range from 0 to this, in Mbit/s.
    pub capacity_mbps: f64,
    /// Hour of a weekday, ascending from 0 to below 24, and the available bandwidth then, in Mbit/s.
    /// Between two hours, and from the last to the first, it changes as half a cosine.
    pub day: Vec<(f64, f64)>,
    /// Additional bandwidth on Saturdays and Sundays, Mbit/s.
    pub weekend_mbps: f64,
    /// Standard deviation of the offset of whole days, Mbit/s.
    pub days_mbps: f64,
    /// Standard deviation of the slow noise, which changes within hours, Mbit/s.
    pub slow_mbps: f64,
    /// The time in which the correlation of the slow noise falls to 1/e; more than 0.
    pub slow_memory: Duration,
    /// Standard deviation of the independent noise of each sample, Mbit/s.
    pub fast_mbps: f64,
}

impl Default for Curve {
    fn default() -> Self {
        Self {
            seed: 1,
            step: Duration::from_secs(300),
            time_zone: TimeZone::UTC,
            capacity_mbps: 55.0,
            day: vec![
                (0.0, 40.5),
                (3.0, 41.0),
                (5.0, 44.5),
                (7.5, 47.5),
                (11.0, 45.0),
                (14.0, 42.5),
                (15.0, 41.5),
                (16.5, 43.0),
                (19.0, 44.5),
                (21.0, 43.0),
                (22.5, 41.5),
            ],
            weekend_mbps: 2.5,
            days_mbps: 0.7,
            slow_mbps: 0.8,
            slow_memory: Duration::from_secs(3600),
            fast_mbps: 0.4,
        }
    }
}

impl Curve {
    /// The samples from `from`, inclusive, to `to`, exclusive, one for each step.
    pub fn samples(&self, from: Timestamp, to: Timestamp) -> Vec<Sample> {
        let mut random = Random(self.seed);
        let keep = libm::exp(-self.step.as_secs_f64() / self.slow_memory.as_secs_f64());
        let renew = (1.0 - keep * keep).sqrt();
        let mut slow = random.normal();
        let mut today = None;
        let mut of_today = 0.0;
        let mut samples = Vec::new();
        let step = signed(self.step).max(SignedDuration::from_micros(1));
        let each = std::iter::successors(Some(from), |time| time.checked_add(step).ok());
        for time in each.take_while(|time| *time < to) {
            let local = self.time_zone.to_datetime(time);
            if today != Some(local.date()) {
                today = Some(local.date());
                of_today = random.normal();
            }
            let noise = self.days_mbps * of_today
                + self.slow_mbps * slow
                + self.fast_mbps * random.normal();
            let mbps = self.usual_mbps(local.weekday(), local.time()) + noise;
            samples.push(Sample {
                time,
                available_mbps: mbps.clamp(0.0, self.capacity_mbps),
            });
            slow = keep * slow + renew * random.normal();
        }
        samples
    }

    /// The available bandwidth at a time of the week, without noise, in Mbit/s.
    pub fn usual_mbps(&self, day: Weekday, time: Time) -> f64 {
        let hour = time.duration_since(Time::midnight()).as_secs_f64() / 3600.0;
        let weekend = matches!(day, Weekday::Saturday | Weekday::Sunday);
        self.weekday_mbps(hour) + if weekend { self.weekend_mbps } else { 0.0 }
    }

    fn weekday_mbps(&self, hour: f64) -> f64 {
        let (Some(&first), Some(&last)) = (self.day.first(), self.day.last()) else {
            return 0.0;
        };
        let next = self.day.partition_point(|&(knot, _)| knot <= hour);
        let before = match next {
            0 => (last.0 - 24.0, last.1),
            _ => self.day[next - 1],
        };
        let after = match self.day.get(next) {
            Some(&knot) => knot,
            None => (first.0 + 24.0, first.1),
        };
        let share = (hour - before.0) / (after.0 - before.0);
        let risen = (1.0 - libm::cos(PI * share)) / 2.0;
        before.1 + (after.1 - before.1) * risen
    }
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in (0, 1].
    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Standard normal (Box and Muller, 1958).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * libm::log(self.uniform())).sqrt();
        radius * libm::cos(2.0 * PI * self.uniform())
    }
}
