//! The service's clock: the system's, or one that the lab starts at another time and runs faster.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

/// The service's source of time.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The system's time of day.
    System,
    /// A clock started at a given time, running at a given rate.
    Driven {
        /// Its time at `origin`.
        start: Timestamp,
        /// Seconds of this clock per real second; positive.
        rate: f64,
        /// When it was started.
        origin: Instant,
    },
}

impl Clock {
    /// The clock for these options: the system's if neither changes anything.
    pub fn new(start: Option<Timestamp>, rate: f64) -> Clock {
        if start.is_none() && rate == 1.0 {
            return Clock::System;
        }
        Clock::Driven {
            start: start.unwrap_or_else(Timestamp::now),
            rate,
            origin: Instant::now(),
        }
    }

    /// The current time of this clock.
    pub fn now(&self) -> Timestamp {
        match *self {
            Clock::System => Timestamp::now(),
            Clock::Driven {
                start,
                rate,
                origin,
            } => after(start, origin.elapsed(), rate),
        }
    }

    /// The time of this clock after `real` has passed.
    pub fn after(&self, real: Duration) -> Timestamp {
        after(self.now(), real, self.rate())
    }

    /// The real time in which the clock advances by `duration`; zero if that is negative.
    pub fn real(&self, duration: SignedDuration) -> Duration {
        let seconds = duration.as_secs_f64().max(0.0) / self.rate();
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    fn rate(&self) -> f64 {
        match *self {
            Clock::System => 1.0,
            Clock::Driven { rate, .. } => rate,
        }
    }
}

fn after(start: Timestamp, elapsed: Duration, rate: f64) -> Timestamp {
    let passed = SignedDuration::try_from_secs_f64(elapsed.as_secs_f64() * rate).ok();
    let time = passed.and_then(|passed| start.checked_add(passed).ok());
    time.unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driven_clock_runs_at_its_rate() {
        let start: Timestamp = "2026-03-02T14:00:00Z".parse().unwrap();
        let minute: Timestamp = "2026-03-02T14:01:00Z".parse().unwrap();
        assert_eq!(after(start, Duration::from_secs(1), 60.0), minute);
        let clock = Clock::new(Some(start), 60.0);
        assert_eq!(
            clock.real(SignedDuration::from_mins(5)),
            Duration::from_secs(5)
        );
        assert_eq!(clock.real(SignedDuration::from_mins(-5)), Duration::ZERO);
        assert!(clock.now() >= start);
    }

    #[test]
    fn the_end_of_time_is_no_panic() {
        assert_eq!(
            after(Timestamp::MAX, Duration::from_secs(1), 60.0),
            Timestamp::MAX
        );
    }
}
