//! What a transfer observes of its path while it runs.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::bounds::Observed;

/// The shortest interval in which a rate is measured: a burst says nothing about a path.
const WINDOW: Duration = Duration::from_millis(100);
/// A new rate counts if it is at least this percentage of the known one.
const SIGNIFICANT_PERCENT: u64 = 150;
/// How long the observations of one transfer are valid for later ones to the same host.
const VALIDITY: Duration = Duration::from_secs(15 * 60);
/// Most hosts remembered.
const HOSTS: usize = 256;

/// Measures the rate at which bytes arrive.
#[derive(Debug)]
pub(super) struct PathObserver {
    /// What has been observed of the path.
    pub(super) observed: Observed,
    /// When the current interval began, and how many bytes had arrived by then.
    window: Option<(Instant, u64)>,
}

impl PathObserver {
    /// For a transfer on whose path earlier ones have measured `rate`, bytes a second.
    pub(super) fn beginning_with(rate: Option<u64>) -> Self {
        Self {
            observed: Observed {
                rate,
                round_trip: None,
            },
            window: None,
        }
    }

    /// Takes the bytes that have `arrived` by `now`, and the shortest round-trip time; returns whether
    /// that changes what is known.
    pub(super) fn measure(
        &mut self,
        now: Instant,
        arrived: u64,
        round_trip: Option<Duration>,
    ) -> bool {
        let first = self.observed.round_trip.is_none() && round_trip.is_some();
        self.observed.round_trip = round_trip.or(self.observed.round_trip);
        let Some((begun, before)) = self.window else {
            self.window = Some((now, arrived));
            return first;
        };
        let time = now.saturating_duration_since(begun);
        if time < WINDOW.max(self.observed.round_trip.unwrap_or_default()) {
            return first;
        }
        self.window = Some((now, arrived));
        let rate = (arrived.saturating_sub(before) as f64 / time.as_secs_f64()) as u64;
        let known = self.observed.rate.unwrap_or(0);
        let significant =
            rate > 0 && rate.saturating_mul(100) >= known.saturating_mul(SIGNIFICANT_PERCENT);
        if significant {
            self.observed.rate = Some(rate);
        }
        first || significant
    }
}

/// What was recently observed of the paths to other hosts.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Vec<(IpAddr, u64, Instant)>>);

impl Memory {
    /// The rate measured on the path to a host, bytes a second.
    pub(super) fn of(&self, host: IpAddr, now: Instant) -> Option<u64> {
        let mut known = self.0.lock();
        known.retain(|(.., seen)| now.saturating_duration_since(*seen) < VALIDITY);
        let of_host = known.iter().filter(|(other, ..)| *other == host);
        of_host.map(|(_, rate, _)| *rate).max()
    }

    /// Remembers a rate; the oldest one makes room.
    pub(super) fn keep(&self, host: IpAddr, rate: u64, now: Instant) {
        let mut known = self.0.lock();
        known.retain(|(.., seen)| now.saturating_duration_since(*seen) < VALIDITY);
        // A smaller rate does not replace a larger one that is still valid.
        if known
            .iter()
            .any(|(other, larger, _)| *other == host && *larger > rate)
        {
            return;
        }
        known.retain(|(other, ..)| *other != host);
        if known.len() >= HOSTS {
            known.remove(0);
        }
        known.push((host, rate, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_rate_is_that_of_a_window_of_a_tenth_of_a_second() {
        let (mut observer, begin) = (PathObserver::beginning_with(None), Instant::now());
        assert!(observer.measure(begin, 0, Some(40 * MS)), "the round trip");
        assert!(!observer.measure(begin + 50 * MS, 900_000, Some(40 * MS)));
        assert!(observer.measure(begin + 100 * MS, 1_000_000, Some(40 * MS)));
        let observed = observer.observed;
        assert_eq!(
            (observed.rate, observed.round_trip),
            (Some(10_000_000), Some(40 * MS))
        );
    }

    #[test]
    fn only_half_as_much_again_is_news() {
        let (mut observer, begin) = (
            PathObserver::beginning_with(Some(10_000_000)),
            Instant::now(),
        );
        observer.measure(begin, 0, None);
        assert!(!observer.measure(begin + 100 * MS, 1_400_000, None));
        assert!(observer.measure(begin + 200 * MS, 2_900_000, None));
        assert_eq!(observer.observed.rate, Some(15_000_000));
    }

    #[test]
    fn a_slower_time_takes_nothing_back_and_on_a_long_path_a_window_is_a_round_trip() {
        let (mut observer, begin) = (PathObserver::beginning_with(Some(1_000)), Instant::now());
        observer.measure(begin, 0, Some(600 * MS));
        assert!(!observer.measure(begin + 300 * MS, 10_000_000, Some(600 * MS)));
        assert!(!observer.measure(begin + 600 * MS, 60, Some(600 * MS)));
        assert_eq!(observer.observed.rate, Some(1_000));
    }

    #[test]
    fn hosts_are_remembered_for_a_while_and_not_without_number() {
        let (memory, begin) = (Memory::default(), Instant::now());
        let host = |number: u32| IpAddr::from(number.to_be_bytes());
        memory.keep(host(1), 500, begin);
        memory.keep(host(1), 400, begin);
        assert_eq!(memory.of(host(1), begin), Some(500));
        assert_eq!(memory.of(host(2), begin), None);
        for number in 2..1_000 {
            memory.keep(host(number), 1, begin);
        }
        assert_eq!(memory.of(host(1), begin), None);
        assert_eq!(memory.of(host(999), begin), Some(1));
        // An expired rate does not keep a fresh one out.
        memory.keep(host(998), 9, begin);
        memory.keep(host(998), 5, begin + VALIDITY);
        assert_eq!(memory.of(host(998), begin + VALIDITY), Some(5));
        assert_eq!(memory.of(host(999), begin + VALIDITY), None);
    }
}
