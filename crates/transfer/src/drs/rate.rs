//! Rate limit for messages from the peer: an honest one sends about fifty a second.

use std::time::{Duration, Instant};

/// Lines in a burst: a buffer that grows from 64 KiB to 32 MiB in steps of a sixteenth has a hundred
/// sizes.
const BURST: f64 = 256.0;

/// Lines a second.
const LINES: f64 = 100.0;

/// A token bucket of lines.
#[derive(Debug)]
pub(super) struct Rate {
    left: f64,
    since: Instant,
}

impl Rate {
    /// Allows a full burst.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            left: BURST,
            since: now,
        }
    }

    /// Counts lines received.
    pub(super) fn count(&mut self, lines: usize, now: Instant) {
        let gained = (now - self.since).as_secs_f64() * LINES;
        self.left = (self.left + gained).min(BURST) - lines as f64;
        self.since = now;
    }

    /// How long to stop reading, so that the rate is kept; none if reading may go on.
    pub(super) fn pause(&self, now: Instant) -> Option<Duration> {
        let left = self.left + (now - self.since).as_secs_f64() * LINES;
        (left < 0.0).then(|| Duration::from_secs_f64(-left / LINES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_read_at_a_hundred_lines_a_second() {
        let begin = Instant::now();
        let mut rate = Rate::new(begin);
        rate.count(256, begin);
        assert_eq!(rate.pause(begin), None);
        rate.count(200, begin);
        assert_eq!(rate.pause(begin), Some(Duration::from_secs(2)));
        let later = begin + Duration::from_secs(1);
        assert_eq!(rate.pause(later), Some(Duration::from_secs(1)));
        assert_eq!(rate.pause(begin + Duration::from_secs(2)), None);
    }
}
