//! Round-trip time and retransmission timeout: RFC 6298 as in `tcp_rtt_estimator`, which applies
//! the floor of 200 ms to the variance, and the windowed minimum of `lib/minmax.c`.

use fairwind_cc::native::TcpSock;
use fairwind_path::units::Duration;

use crate::tcp::constants::RTO_MIN;
use crate::tcp::jiffies::Jiffies;

/// `TCP_RTO_MIN`, microseconds.
const RTO_MIN_US: u32 = RTO_MIN.as_micros() as u32;
/// `TCP_RTO_MAX`.
const RTO_MAX: Duration = Duration::from_secs(120);
/// `tcp_min_rtt_wlen`, microseconds.
const MIN_WINDOW_US: u64 = 300_000_000;
/// The largest round-trip time that the kernel's `srtt_us` can hold, which counts eighths in 32 bits:
/// 537 s. Longer ones count as that. They change no timeout, which is [`RTO_MAX`] well before.
const SRTT_MAX_US: u64 = (u32::MAX >> 3) as u64;

/// The estimator. The values that a congestion control may read are kept in the [`TcpSock`].
#[derive(Debug, Default)]
pub(crate) struct RttEstimator {
    mdev_max_us: u32,
    /// Sequence number that ends the round trip over which the maximum deviation is taken.
    round_end: u64,
    minimum: WindowedMin,
    rto: Duration,
    sample_us: u64,
    least_us: u64,
    samples: u64,
    sum_us: u64,
}

impl RttEstimator {
    /// An estimator without samples; `rto` is the timeout until the first one.
    pub(crate) fn new(rto: Duration) -> Self {
        RttEstimator {
            rto,
            least_us: u64::MAX,
            ..RttEstimator::default()
        }
    }

    /// Retransmission timeout, back-off included.
    #[inline]
    pub(crate) fn rto(&self) -> Duration {
        self.rto
    }

    /// Latest sample, microseconds; 0 before the first.
    pub(crate) fn sample_us(&self) -> u64 {
        self.sample_us
    }

    /// Smallest sample of the whole connection, microseconds, if there is any.
    pub(crate) fn least_us(&self) -> Option<u64> {
        (self.least_us < u64::MAX).then_some(self.least_us)
    }

    /// Number of samples since the statistics were last reset.
    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    /// Sum of those samples, microseconds.
    pub(crate) fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// Resets the number and the sum of the samples.
    pub(crate) fn reset_statistics(&mut self) {
        self.samples = 0;
        self.sum_us = 0;
    }

    /// Adds a sample (`tcp_rtt_estimator`, `tcp_set_rto`). `una` and `nxt` are `snd_una` and
    /// `snd_nxt`.
    #[inline]
    pub(crate) fn update(
        &mut self,
        tp: &mut TcpSock,
        jiffies: &Jiffies,
        sample_us: u64,
        una: u64,
        nxt: u64,
    ) {
        self.sample_us = sample_us;
        self.least_us = self.least_us.min(sample_us);
        self.samples += 1;
        self.sum_us += sample_us;
        let sample_us = sample_us.min(SRTT_MAX_US) as u32;
        if tp.srtt_us == 0 {
            tp.srtt_us = (sample_us << 3).max(1);
            tp.mdev_us = sample_us << 1;
            tp.rttvar_us = tp.mdev_us.max(RTO_MIN_US);
            self.mdev_max_us = tp.rttvar_us;
            self.round_end = nxt;
        } else {
            self.smooth(tp, sample_us);
            if una > self.round_end {
                if self.mdev_max_us < tp.rttvar_us {
                    tp.rttvar_us -= (tp.rttvar_us - self.mdev_max_us) >> 2;
                }
                self.round_end = nxt;
                self.mdev_max_us = RTO_MIN_US;
            }
        }
        self.reset_rto(tp, jiffies);
    }

    /// Sets the timeout from the estimate and ends any back-off.
    #[inline]
    fn reset_rto(&mut self, tp: &TcpSock, jiffies: &Jiffies) {
        if tp.srtt_us != 0 {
            let rto = jiffies.round_up_us(u64::from(tp.srtt_us >> 3) + u64::from(tp.rttvar_us));
            self.rto = rto.min(RTO_MAX);
        }
    }

    /// Doubles the timeout, up to [`RTO_MAX`].
    pub(crate) fn back_off(&mut self) {
        self.rto = (self.rto + self.rto).min(RTO_MAX);
    }

    /// Adds a sample to the windowed minimum (`tcp_update_rtt_min`).
    #[inline]
    pub(crate) fn update_min(&mut self, tp: &mut TcpSock, rtt_us: u64) {
        let rtt_us = rtt_us.clamp(1, SRTT_MAX_US) as u32;
        tp.rtt_min_us = self.minimum.update(tp.tcp_mstamp, rtt_us, MIN_WINDOW_US);
    }

    #[inline]
    fn smooth(&mut self, tp: &mut TcpSock, sample_us: u32) {
        let mut error = sample_us as i32 - (tp.srtt_us >> 3) as i32;
        tp.srtt_us = tp.srtt_us.saturating_add_signed(error).max(1);
        if error < 0 {
            error = -error - (tp.mdev_us >> 2) as i32;
            // A falling round-trip time must not raise the timeout much (Eifel).
            if error > 0 {
                error >>= 3;
            }
        } else {
            error -= (tp.mdev_us >> 2) as i32;
        }
        tp.mdev_us = (tp.mdev_us as i32 + error) as u32;
        if tp.mdev_us > self.mdev_max_us {
            self.mdev_max_us = tp.mdev_us;
            tp.rttvar_us = tp.rttvar_us.max(self.mdev_max_us);
        }
    }
}

/// The minimum over a sliding window, from the best, second and third best of its parts (Kathleen
/// Nichols' algorithm).
#[derive(Debug, Default)]
struct WindowedMin {
    best: [(u64, u32); 3],
    filled: bool,
}

impl WindowedMin {
    #[inline]
    fn update(&mut self, now_us: u64, value: u32, window_us: u64) -> u32 {
        let sample = (now_us, value);
        if !self.filled || value <= self.best[0].1 || now_us - self.best[2].0 > window_us {
            self.filled = true;
            self.best = [sample; 3];
            return value;
        }
        if value <= self.best[1].1 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if value <= self.best[2].1 {
            self.best[2] = sample;
        }
        self.expire(sample, window_us)
    }

    fn expire(&mut self, sample: (u64, u32), window_us: u64) -> u32 {
        let age = sample.0 - self.best[0].0;
        if age > window_us {
            self.best = [self.best[1], self.best[2], sample];
            if sample.0 - self.best[0].0 > window_us {
                self.best = [self.best[1], self.best[2], sample];
            }
        } else if self.best[1].0 == self.best[0].0 && age > window_us / 4 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if self.best[2].0 == self.best[1].0 && age > window_us / 2 {
            self.best[2] = sample;
        }
        self.best[0].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::constants::RTO_INITIAL;

    fn milliseconds() -> Jiffies {
        Jiffies::new(1000)
    }

    #[test]
    fn the_first_sample_sets_the_estimate_and_the_floor_sets_the_timeout() {
        let mut tp = TcpSock::default();
        let mut rtt = RttEstimator::new(RTO_INITIAL);
        assert_eq!(rtt.rto, Duration::from_secs(1));
        rtt.update(&mut tp, &milliseconds(), 50_000, 0, 14_480);
        // SRTT = R; RTTVAR = max(4 * R/2, 200 ms); RTO = 50 + 200 ms.
        assert_eq!(tp.srtt_us >> 3, 50_000);
        assert_eq!(rtt.rto, Duration::from_millis(250));
    }

    #[test]
    fn a_wide_first_sample_sets_the_variance() {
        let mut tp = TcpSock::default();
        let mut rtt = RttEstimator::new(RTO_INITIAL);
        rtt.update(&mut tp, &milliseconds(), 300_000, 0, 14_480);
        // 4 * R/2 = 600 ms is above the floor; RTO = 300 + 600 ms.
        assert_eq!(rtt.rto, Duration::from_millis(900));
    }

    #[test]
    fn the_second_sample_moves_the_mean_by_an_eighth() {
        let mut tp = TcpSock::default();
        let mut rtt = RttEstimator::new(RTO_INITIAL);
        rtt.update(&mut tp, &milliseconds(), 40_000, 0, 14_480);
        rtt.update(&mut tp, &milliseconds(), 48_000, 1448, 14_480);
        assert_eq!(tp.srtt_us >> 3, 41_000);
        assert_eq!(rtt.rto, Duration::from_millis(241));
    }

    #[test]
    fn round_trips_of_minutes_and_hours_are_estimated_without_overflow() {
        let minute_us = 60_000_000;
        // 537 s is what the kernel's estimate can hold.
        for (sample_us, smoothed_us) in [
            (5 * minute_us, 300_000_000),
            (8 * minute_us, 480_000_000),
            (72 * minute_us, u32::MAX >> 3),
        ] {
            let mut tp = TcpSock::default();
            let mut rtt = RttEstimator::new(RTO_INITIAL);
            for round in 0..100 {
                rtt.update_min(&mut tp, sample_us);
                rtt.update(&mut tp, &milliseconds(), sample_us, round, round + 1);
                assert_eq!(tp.srtt_us >> 3, smoothed_us, "{sample_us}");
                assert_eq!(rtt.rto, RTO_MAX);
            }
            assert_eq!(tp.rtt_min_us, smoothed_us);
            assert_eq!(rtt.least_us, sample_us);
            assert_eq!(rtt.sum_us, 100 * sample_us);
        }
    }

    #[test]
    fn back_off_doubles_up_to_two_minutes() {
        let mut rtt = RttEstimator::new(RTO_INITIAL);
        rtt.back_off();
        assert_eq!(rtt.rto, Duration::from_secs(2));
        for _ in 0..10 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto, RTO_MAX);
    }

    #[test]
    fn the_minimum_forgets_what_is_older_than_its_window() {
        let mut minimum = WindowedMin::default();
        assert_eq!(minimum.update(0, 100, 1000), 100);
        assert_eq!(minimum.update(500, 200, 1000), 100);
        assert_eq!(minimum.update(900, 150, 1000), 100);
        assert_eq!(minimum.update(1001, 300, 1000), 150);
    }
}
