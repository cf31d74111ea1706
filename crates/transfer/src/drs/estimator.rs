//! The receiver's side of dynamic right-sizing, without sockets or clocks: computes the size of the
//! buffers from the bytes that arrive and the messages that come back.
//!
//! drsFTP, section 3: the bandwidth is what arrives in an interval, the round-trip time is that of a
//! message and its echo, and the buffer is twice their product, because the sender may be in slow start
//! and double its data in flight with every round trip. The paper leaves the interval to further work.
//! Here it is the round trip itself, and slides: in slow start packets arrive in one burst per round
//! trip, and such an interval contains exactly one burst, wherever it begins. A window that is offered
//! now is used one round trip later, so the next round trip is predicted: it is assumed to grow over the
//! current one by the same factor as the current one over the last, up to two. The kernel's autotuning
//! looks as far ahead (`tcp_rcv_space_adjust`). No congestion control sends more than twice as much from
//! one round trip to the next: what arrives beyond that had waited behind a lost packet, and is not
//! counted.
//!
//! Times are relative to the opening of the data connection.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// How buffers are sized.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Smallest buffer, bytes: 64 KiB, a usual one without right-sizing.
    pub floor: u64,
    /// Largest buffer, bytes.
    pub ceiling: u64,
    /// A buffer that has been too large for this time shrinks.
    pub hold: Duration,
    /// Shortest round-trip time assumed: the echo is sent and the file read by programs, which may have
    /// to wait that long for a processor.
    pub shortest_round_trip: Duration,
    /// Longest round-trip time believed: an echo that took longer is false, or the path is broken.
    pub longest_round_trip: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            floor: 64 << 10,
            // The window scale for this size lets windows grow to 64 MiB.
            ceiling: 32 << 20,
            hold: Duration::from_secs(5),
            shortest_round_trip: Duration::from_millis(4),
            longest_round_trip: Duration::from_secs(30),
        }
    }
}

/// What the receiver knows about the path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// What arrived in the last round trip, bit/s.
    pub bandwidth_bps: f64,
    /// Smoothed as in TCP (RFC 6298 section 2.3: a gain of 1/8).
    pub round_trip: Duration,
    /// Their product, bytes.
    pub product: u64,
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mbps, ms) = (
            self.bandwidth_bps / 1e6,
            self.round_trip.as_secs_f64() * 1e3,
        );
        write!(f, "{mbps:.3} Mbit/s in a round trip of {ms:.1} ms")
    }
}

/// Sizes the buffer of one transfer.
#[derive(Debug, Clone)]
pub(super) struct Estimator {
    settings: Settings,
    /// Samples: a time, and the bytes that had arrived by then. The last two round trips, and one before
    /// them.
    arrivals: VecDeque<(Duration, u64)>,
    /// Smoothed, once there is one.
    pub(super) round_trip: Option<Duration>,
    /// Predicted products within [`Settings::hold`], only those that no later one exceeds: the first is
    /// the largest.
    products: VecDeque<(Duration, u64)>,
    /// The size that the buffer should have now, bytes.
    pub(super) buffer: u64,
    changed: Duration,
}

/// A larger buffer is requested only if it is larger by a sixteenth: each change costs system calls and a
/// message.
const GROWTH_STEP: u64 = 16;

impl Estimator {
    /// `buffer` is the initial size, bytes.
    pub(super) fn new(settings: Settings, buffer: u64) -> Self {
        Self {
            settings,
            arrivals: VecDeque::from([(Duration::ZERO, 0)]),
            round_trip: None,
            products: VecDeque::new(),
            buffer,
            changed: Duration::ZERO,
        }
    }

    /// Takes the echo of a message that was sent at `sent`; returns its round-trip time. None if no
    /// message can have been sent at that time.
    pub(super) fn echoed(&mut self, now: Duration, sent: Duration) -> Option<Duration> {
        let took = now
            .checked_sub(sent)
            .filter(|took| *took <= self.settings.longest_round_trip)?;
        self.round_trip = Some(match self.round_trip {
            None => took,
            Some(smoothed) => (smoothed * 7 + took) / 8,
        });
        Some(took)
    }

    /// Takes the total of bytes that have arrived by `now`; returns an estimate of the path, none before
    /// the first echo.
    pub(super) fn arrived(&mut self, now: Duration, total: u64) -> Option<Estimate> {
        self.arrivals.push_back((now, total));
        let span = self
            .round_trip?
            .max(self.settings.shortest_round_trip)
            .min(now);
        let begin = now - span;
        let before = begin.checked_sub(span);
        let oldest = before.unwrap_or_default();
        while self.arrivals.get(1).is_some_and(|(at, _)| *at <= oldest) {
            self.arrivals.pop_front();
        }
        let at_begin = self.total_at(begin);
        let bytes = total.saturating_sub(at_begin);
        let estimate = Estimate {
            bandwidth_bps: bytes as f64 * 8.0 / span.as_secs_f64().max(1e-6),
            round_trip: self.round_trip?,
            product: bytes,
        };
        let last = before.map_or(bytes, |before| {
            at_begin.saturating_sub(self.total_at(before))
        });
        self.keep(now, ahead(bytes, last, self.buffer));
        Some(estimate)
    }

    /// Bytes that had arrived at `time`, interpolated linearly between two samples.
    fn total_at(&self, time: Duration) -> u64 {
        let after = self.arrivals.partition_point(|(at, _)| *at <= time);
        let Some(&(t0, b0)) = after.checked_sub(1).and_then(|at| self.arrivals.get(at)) else {
            return self.arrivals.front().map_or(0, |sample| sample.1);
        };
        let Some(&(t1, b1)) = self.arrivals.get(after) else {
            return b0;
        };
        let share = (time - t0).as_secs_f64() / (t1 - t0).as_secs_f64();
        b0 + (b1.saturating_sub(b0) as f64 * share) as u64
    }

    fn keep(&mut self, now: Duration, product: u64) {
        while self
            .products
            .back()
            .is_some_and(|(_, last)| *last <= product)
        {
            self.products.pop_back();
        }
        self.products.push_back((now, product));
        let oldest = now.saturating_sub(self.settings.hold);
        while self.products.front().is_some_and(|(at, _)| *at < oldest) {
            self.products.pop_front();
        }
    }

    /// Takes a larger size that autotuning has reached.
    pub(super) fn raise(&mut self, buffer: u64) {
        self.buffer = self.buffer.max(buffer);
    }

    /// The buffer's new size, if it should change. It grows at once and shrinks by halves, and only when
    /// it has not been needed for [`Settings::hold`]: a buffer that shrank with every pause of the path
    /// would have to be regained after each.
    pub(super) fn resize(&mut self, now: Duration) -> Option<u64> {
        let product = self.products.front()?.1;
        let wanted = product
            .saturating_mul(2)
            .clamp(self.settings.floor, self.settings.ceiling);
        let grows = wanted >= self.buffer + (self.buffer / GROWTH_STEP).max(1);
        let shrinks = wanted <= self.buffer / 2 && now >= self.changed + self.settings.hold;
        if !grows && !shrinks {
            return None;
        }
        self.buffer = wanted.max(self.buffer / 2);
        self.changed = now;
        Some(self.buffer)
    }
}

/// Predicts the bytes of the next round trip from those of the current one, `bytes`, and of the one
/// before, `last`; the buffer is already sized for half of `buffer`.
fn ahead(bytes: u64, last: u64, buffer: u64) -> u64 {
    // Twice as many, and a quarter of that for bursts that are not evenly spaced.
    let credible = last.saturating_mul(5) / 2;
    if bytes > credible {
        return bytes.min(credible.max(buffer / 2));
    }
    let most = bytes.saturating_mul(2);
    let growing = u128::from(bytes) * u128::from(bytes) / u128::from(last.max(1));
    u64::try_from(growing).unwrap_or(most).clamp(bytes, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn estimator(buffer: u64) -> Estimator {
        Estimator::new(Settings::default(), buffer)
    }

    #[test]
    fn the_round_trip_is_smoothed_as_tcps_is() {
        let mut estimator = estimator(65_536);
        assert_eq!(estimator.echoed(ms(150), ms(50)), Some(ms(100)));
        assert_eq!(estimator.round_trip, Some(ms(100)));
        // (7 x 100 + 180) / 8
        assert_eq!(estimator.echoed(ms(240), ms(60)), Some(ms(180)));
        assert_eq!(estimator.round_trip, Some(ms(110)));
    }

    #[test]
    fn any_number_of_messages_may_be_under_way_and_come_back_in_any_order() {
        let mut estimator = estimator(65_536);
        assert_eq!(estimator.echoed(ms(130), ms(30)), Some(ms(100)));
        assert_eq!(estimator.echoed(ms(131), ms(10)), Some(ms(121)));
        assert_eq!(estimator.echoed(ms(131), ms(10)), Some(ms(121)));
    }

    #[test]
    fn an_echo_from_the_future_or_from_long_ago_is_none() {
        let mut estimator = estimator(65_536);
        assert_eq!(estimator.echoed(ms(100), ms(101)), None);
        assert_eq!(estimator.echoed(ms(40_000), ms(0)), None);
        assert_eq!(estimator.echoed(ms(40_000), Duration::MAX), None);
        assert_eq!(estimator.round_trip, None);
    }

    /// 95 Mbit/s, 100 ms: 1,187,500 bytes (section 5.1: about 1.2 MB).
    #[test]
    fn the_buffer_is_twice_bandwidth_times_round_trip() {
        let mut estimator = estimator(65_536);
        estimator.echoed(ms(100), ms(0));
        let mut last = None;
        for n in 1..=20 {
            last = estimator.arrived(ms(10 * n), 118_750 * n);
        }
        let estimate = last.unwrap();
        assert_eq!(estimate.product, 1_187_500);
        assert!((estimate.bandwidth_bps - 95e6).abs() < 1.0);
        assert_eq!(estimator.resize(ms(200)), Some(2_375_000));
        assert_eq!(estimator.resize(ms(200)), None);
    }

    #[test]
    fn nothing_is_said_before_the_first_echo() {
        let mut estimator = estimator(65_536);
        assert_eq!(estimator.arrived(ms(50), 100_000), None);
        assert_eq!(estimator.resize(ms(50)), None);
    }

    /// Bursts that double with every round trip of 100 ms, each within 5 ms, sampled every 5 ms.
    #[test]
    fn in_slow_start_the_buffer_is_ahead_of_the_next_burst() {
        let mut estimator = estimator(16_384);
        estimator.echoed(ms(100), ms(0));
        let (mut total, mut burst) = (0, 14_480);
        for step in 1..=120 {
            if step % 20 == 0 {
                total += burst;
                burst *= 2;
            }
            estimator.arrived(ms(5 * step), total);
            estimator.resize(ms(5 * step));
            if step % 20 == 0 {
                assert!(estimator.buffer >= burst, "{burst} bytes come next");
            }
        }
        // The sixth burst was 32 x 14,480 bytes, and a round trip that ends with it contains no other. As
        // it was twice the fifth, the seventh is predicted to be twice as large: the buffer is twice
        // that.
        assert_eq!(estimator.buffer, 1_853_440);
    }

    #[test]
    fn what_grows_is_taken_to_grow_on_but_no_more_than_twice() {
        assert_eq!(ahead(1_500, 1_000, 0), 2_250);
        assert_eq!(ahead(2_500, 1_000, 0), 5_000);
        assert_eq!(ahead(1_000, 1_000, 0), 1_000);
        assert_eq!(ahead(500, 1_000, 0), 500);
    }

    #[test]
    fn what_had_waited_behind_a_lost_packet_is_not_counted() {
        assert_eq!(ahead(3_000, 1_000, 0), 2_500);
        assert_eq!(ahead(3_000, 1_000, 5_400), 2_700);
        assert_eq!(ahead(3_000, 0, 9_000), 3_000);
        assert_eq!(ahead(3_000, 0, 0), 0);
        assert_eq!(ahead(u64::MAX, 1, 65_536), 32_768);
    }

    #[test]
    fn what_the_kernel_has_found_by_itself_is_where_it_begins() {
        let mut estimator = estimator(65_536);
        estimator.raise(300_000);
        estimator.raise(200_000);
        assert_eq!(estimator.buffer, 300_000);
    }

    #[test]
    fn the_interval_slides_between_samples() {
        let mut estimator = estimator(65_536);
        estimator.echoed(ms(100), ms(0));
        estimator.arrived(ms(60), 600_000);
        // 100 ms back is 40 % of the way from 60 ms to 210 ms, where 600,000 became 2,100,000.
        estimator.arrived(ms(210), 2_100_000);
        let estimate = estimator.arrived(ms(220), 2_200_000).unwrap();
        assert_eq!(estimate.product, 1_000_000);
    }

    #[test]
    fn the_buffer_grows_at_once_and_not_for_little() {
        let mut estimator = estimator(160_000);
        estimator.echoed(ms(100), ms(0));
        estimator.arrived(ms(100), 84_999);
        assert_eq!(estimator.resize(ms(100)), None, "a sixteenth is 10,000");
        estimator.arrived(ms(100), 85_000);
        assert_eq!(estimator.resize(ms(100)), Some(170_000));
    }

    #[test]
    fn the_buffer_shrinks_by_half_after_five_seconds_without_need() {
        let mut estimator = estimator(65_536);
        estimator.echoed(ms(100), ms(0));
        estimator.arrived(ms(100), 4_000_000);
        assert_eq!(estimator.resize(ms(100)), Some(8_000_000));
        // 1,000,000 bytes in every round trip from now on.
        let mut sizes = Vec::new();
        for n in 2..=170 {
            estimator.arrived(ms(100 * n), 4_000_000 + 1_000_000 * (n - 1));
            sizes.extend(estimator.resize(ms(100 * n)).map(|size| (n, size)));
        }
        assert_eq!(sizes, [(52, 4_000_000), (102, 2_000_000)]);
    }

    #[test]
    fn the_buffer_stays_between_its_bounds() {
        let mut estimator = estimator(8 << 20);
        estimator.echoed(ms(100), ms(0));
        for n in 1..=900 {
            estimator.arrived(ms(100 * n), 0);
            estimator.resize(ms(100 * n));
        }
        assert_eq!(estimator.buffer, 65_536);
        let mut estimator = self::estimator(65_536);
        estimator.echoed(ms(100), ms(0));
        estimator.arrived(ms(100), u64::MAX);
        assert_eq!(estimator.resize(ms(100)), Some(32 << 20));
    }

    #[test]
    fn a_round_trip_of_nothing_counts_as_that_of_programs() {
        let mut estimator = estimator(65_536);
        estimator.echoed(ms(100), ms(100));
        estimator.arrived(ms(100), 1_000_000);
        let estimate = estimator.arrived(ms(104), 1_400_000).unwrap();
        assert_eq!(estimate.product, 400_000);
    }
}
