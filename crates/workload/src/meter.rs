//! Counts what a flow's application receives, in total and for each second.

use fairwind_path::units::{Duration, Time};

const SECOND: Duration = Duration::from_secs(1);

/// Counts the bytes delivered between two times.
#[derive(Debug)]
pub struct Meter {
    start: Time,
    end: Time,
    /// End of the current second.
    second_end: Time,
    in_second: u64,
    bytes: u64,
    seconds: Vec<u64>,
}

impl Meter {
    /// A meter that ignores deliveries before `start` and after `end`.
    pub fn new(start: Time, end: Time) -> Self {
        Meter {
            start,
            end,
            second_end: start + SECOND,
            in_second: 0,
            bytes: 0,
            seconds: Vec::new(),
        }
    }

    /// Counts `bytes` delivered at `now`, which must not decrease from call to call.
    #[inline]
    pub fn add(&mut self, now: Time, bytes: u64) {
        if now < self.start || now > self.end {
            return;
        }
        while now >= self.second_end {
            self.close_second();
        }
        self.in_second += bytes;
        self.bytes += bytes;
    }

    /// Returns the bytes, the bytes in each whole second, and the duration from the start to `over`.
    pub fn finish(mut self, over: Time) -> (u64, Vec<u64>, Duration) {
        while over >= self.second_end {
            self.close_second();
        }
        (self.bytes, self.seconds, over - self.start)
    }

    fn close_second(&mut self) {
        self.seconds.push(self.in_second);
        self.in_second = 0;
        self.second_end += SECOND;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_seconds_between_start_and_end_are_listed() {
        let mut meter = Meter::new(Time::from_secs(2), Time::from_millis(4500));
        meter.add(Time::from_millis(1999), 7);
        meter.add(Time::from_millis(2000), 10);
        meter.add(Time::from_millis(2999), 5);
        meter.add(Time::from_millis(4000), 3);
        meter.add(Time::from_millis(4501), 9);
        let (bytes, seconds, length) = meter.finish(Time::from_millis(4500));
        assert_eq!(bytes, 18);
        assert_eq!(seconds, [15, 0]);
        assert_eq!(length, Duration::from_millis(2500));
    }
}
