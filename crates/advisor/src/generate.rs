//! A seeded generator of available bandwidth: weeks of a daily and weekly curve with noise, for
//! demonstrations and tests.
//!
//! Traffic follows the working day: least at four in the morning, most at three in the afternoon, less
//! at the weekend. On it lies noise that keeps some of itself from sample to sample (AR(1)), as router
//! traffic does.

use std::f64::consts::TAU;

use fairwind_advice::Sample;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What is generated.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// First sample.
    pub start: Timestamp,
    /// How long; the last sample lies before its end.
    pub length: SignedDuration,
    /// From sample to sample.
    pub interval: SignedDuration,
    /// Bandwidth of the link, Mbit/s.
    pub capacity_mbps: f64,
    /// Traffic at four in the morning of a working day, Mbit/s.
    pub quiet_mbps: f64,
    /// Traffic at three in the afternoon of a working day, Mbit/s.
    pub busy_mbps: f64,
    /// Share of a working day's traffic that there is at the weekend.
    pub weekend: f64,
    /// Standard deviation of the noise, Mbit/s.
    pub noise_mbps: f64,
    /// How much of the noise is left after five minutes, 0 to below 1.
    pub memory: f64,
    /// Where the day is.
    pub time_zone: TimeZone,
    /// Equal seeds give equal samples.
    pub seed: u64,
}

impl Curve {
    /// The samples, ascending.
    pub fn samples(&self) -> Vec<Sample> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let steps = self.interval.as_secs_f64() / 300.0;
        let kept = self.memory.powf(steps);
        let fresh = (1.0 - kept * kept).sqrt();
        let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
        let mut noise = normal();
        let mut samples = Vec::new();
        let mut time = self.start;
        let end = self
            .start
            .checked_add(self.length)
            .unwrap_or(Timestamp::MAX);
        while time < end {
            let used = self.traffic_mbps(time) + self.noise_mbps * noise;
            samples.push(Sample {
                time,
                available_mbps: (self.capacity_mbps - used).clamp(0.0, self.capacity_mbps),
            });
            noise = kept * noise + fresh * normal();
            match time.checked_add(self.interval) {
                Ok(next) if next > time => time = next,
                _ => break,
            }
        }
        samples
    }

    /// Traffic without noise, Mbit/s.
    pub fn traffic_mbps(&self, time: Timestamp) -> f64 {
        let local = time.to_zoned(self.time_zone.clone());
        let hour = f64::from(local.hour())
            + f64::from(local.minute()) / 60.0
            + f64::from(local.second()) / 3_600.0;
        let share = day(hour);
        let traffic = self.quiet_mbps + (self.busy_mbps - self.quiet_mbps) * share;
        match local.weekday() {
            jiff::civil::Weekday::Saturday | jiff::civil::Weekday::Sunday => traffic * self.weekend,
            _ => traffic,
        }
    }
}

/// From 0 at four in the morning over 1 at three in the afternoon to 0 again: half a cosine up in
/// eleven hours, half a cosine down in thirteen.
fn day(hour: f64) -> f64 {
    let since_four = (hour - 4.0).rem_euclid(24.0);
    let part = match since_four < 11.0 {
        true => since_four / 11.0 * 0.5,
        false => 0.5 + (since_four - 11.0) / 13.0 * 0.5,
    };
    0.5 - 0.5 * (TAU * part).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(noise_mbps: f64) -> Curve {
        Curve {
            start: "2026-03-02T00:00:00Z".parse().unwrap(),
            length: SignedDuration::from_hours(24 * 7),
            interval: SignedDuration::from_mins(5),
            capacity_mbps: 100.0,
            quiet_mbps: 20.0,
            busy_mbps: 70.0,
            weekend: 0.5,
            noise_mbps,
            memory: 0.9,
            time_zone: TimeZone::UTC,
            seed: 7,
        }
    }

    fn available(samples: &[Sample], time: &str) -> f64 {
        let time: Timestamp = time.parse().unwrap();
        let at = samples.iter().find(|sample| sample.time == time);
        (at.unwrap().available_mbps * 1e6).round() / 1e6
    }

    #[test]
    fn the_curve_is_that_of_the_working_day() {
        let samples = curve(0.0).samples();
        assert_eq!(samples.len(), 7 * 288);
        assert_eq!(available(&samples, "2026-03-02T04:00:00Z"), 80.0);
        assert_eq!(available(&samples, "2026-03-02T15:00:00Z"), 30.0);
        assert_eq!(available(&samples, "2026-03-02T21:30:00Z"), 55.0);
        assert_eq!(available(&samples, "2026-03-07T15:00:00Z"), 65.0);
    }

    #[test]
    fn equal_seeds_give_equal_samples() {
        let (a, b) = (
            curve(2.0),
            Curve {
                seed: 8,
                ..curve(2.0)
            },
        );
        assert_eq!(a.samples(), a.samples());
        assert_ne!(a.samples(), b.samples());
    }

    #[test]
    fn noise_has_its_deviation_and_memory() {
        let (smooth, noisy) = (curve(0.0).samples(), curve(2.0).samples());
        let noise: Vec<f64> = noisy
            .iter()
            .zip(&smooth)
            .map(|(noisy, smooth)| noisy.available_mbps - smooth.available_mbps)
            .collect();
        let mean_of =
            |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / noise.len() as f64;
        let variance = mean_of(&mut noise.iter().map(|x| x * x));
        let covariance = mean_of(&mut noise.windows(2).map(|pair| pair[0] * pair[1]));
        assert!((variance.sqrt() - 2.0).abs() < 0.5, "{variance}");
        assert!(
            (covariance / variance - 0.9).abs() < 0.05,
            "{covariance} of {variance}"
        );
    }
}
