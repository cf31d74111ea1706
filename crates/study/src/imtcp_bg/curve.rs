//! What a connection has received, over time.

/// Bytes received by the end of each interval.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    interval_s: f64,
    ends: Vec<u64>,
}

impl Curve {
    /// Nothing yet, in intervals of so many seconds.
    pub(super) fn new(interval_s: f64) -> Curve {
        Curve {
            interval_s,
            ends: Vec::new(),
        }
    }

    /// So many bytes have been received by this time.
    pub(super) fn add(&mut self, time_ns: u64, bytes: u64) {
        let at = (time_ns as f64 / 1e9 / self.interval_s - 1e-6).max(0.0) as usize;
        let before = self.ends.last().copied().unwrap_or(0);
        if self.ends.len() <= at {
            self.ends.resize(at + 1, before);
        }
        self.ends[at] = bytes;
    }

    /// The rate in each interval, Mbit/s; each byte stands for `wire` of them.
    pub(super) fn mbps(&self, wire: f64) -> Vec<f64> {
        let mut before = 0;
        let rate = |&bytes: &u64| {
            let new = bytes.saturating_sub(before);
            before = before.max(bytes);
            new as f64 * wire * 8e-6 / self.interval_s
        };
        self.ends.iter().map(rate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_what_came_in_each_interval() {
        let mut curve = Curve::new(2.0);
        // A sample at the end of an interval belongs to it; the second interval has none.
        for (seconds, bytes) in [(1, 250_000), (2, 500_000), (5, 1_500_000)] {
            curve.add(seconds * 1_000_000_000, bytes);
        }
        assert_eq!(curve.mbps(1.0), [2.0, 0.0, 4.0]);
        assert_eq!(curve.mbps(1.5), [3.0, 0.0, 6.0]);
    }
}
