//! PIE (RFC 8033): early drops at arrival, with a probability that a proportional-integral controller of the
//! queueing delay updates at fixed times.
//!
//! | original | here |
//! |---|---|
//! | the RFC measures the delay by timestamps, or estimates it from the rate of departures | by timestamps: what the packet sent last had waited; 0 once nothing waits behind it |
//! | updates by a timer | at the multiples of `tupdate`, however late the pipe is called; departures of the same moment come first, arrivals last |
//! | RFC, sections 5.3 and 5.4, optional: inactive while the queue is short; drops spread evenly | always active; drops spread evenly |
//! | the RFC's queue of at most two mean packets is never touched | the same, of 1500 bytes, with the packet being sent |
//! | Linux adds 2 % to the probability while the delay is above 250 ms, and can scale it to the packet's size | as in the RFC: neither |
//! | Linux reduces the burst allowance by the time between departures | as in the RFC: by `tupdate` at each update |

use std::collections::VecDeque;

use crate::ecn::Ecn;
use crate::random::Random;
use crate::red::Verdict;
use crate::units::{Duration, Time};

/// The RFC's mean packet size in bytes; a queue of two is never touched.
const MEAN_PACKET: u64 = 1500;

/// The shortest time between two updates.
pub const MIN_UPDATE: Duration = Duration::from_micros(100);

/// The parameters of PIE.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct PieConfig {
    /// Queueing delay that is aimed at, above 0.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<Duration>", extend("default" = PieConfig::default().target.to_string()))
    )]
    pub target: Duration,
    /// Time between two updates of the drop probability, at least 100 us.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<Duration>", extend("default" = PieConfig::default().tupdate.to_string()))
    )]
    pub tupdate: Duration,
    /// Change of the probability at each update, for a second of delay above `target`; above 0.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<f64>", extend("default" = PieConfig::default().alpha))
    )]
    pub alpha: f64,
    /// Change of the probability at each update, for a second of delay more than at the last; above 0.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<f64>", extend("default" = PieConfig::default().beta))
    )]
    pub beta: f64,
    /// How long a burst after a calm may last before packets are dropped early.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<Duration>", extend("default" = PieConfig::default().max_burst.to_string()))
    )]
    pub max_burst: Duration,
    /// ECN-capable packets are marked instead of dropped, as long as the probability is at most
    /// `mark_ecnth`.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<bool>", extend("default" = PieConfig::default().ecn))
    )]
    pub ecn: bool,
    /// Drop probability up to which packets are marked, 0 to 1.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::schema::Probability>", extend("default" = PieConfig::default().mark_ecnth))
    )]
    pub mark_ecnth: f64,
}

impl Default for PieConfig {
    /// The RFC's: 15 ms, 15 ms, 0.125, 1.25, 150 ms; without ECN, otherwise up to 10 %.
    fn default() -> PieConfig {
        PieConfig {
            target: Duration::from_millis(15),
            tupdate: Duration::from_millis(15),
            alpha: 0.125,
            beta: 1.25,
            max_burst: Duration::from_millis(150),
            ecn: false,
            mark_ecnth: 0.1,
        }
    }
}

/// The state of PIE on one queue.
#[derive(Clone, Debug)]
pub(crate) struct Pie {
    config: PieConfig,
    next_update: Time,
    /// What the packet sent last had waited; 0 if nothing waited behind it.
    delay: Duration,
    /// The delay at the last update.
    old_delay: Duration,
    probability: f64,
    /// Sum of the probabilities since the last drop.
    accumulated: f64,
    burst_allowance: Duration,
    /// Arrivals and starts of transmission that are known, but not taken into account yet.
    ahead: VecDeque<(Time, Time)>,
}

impl Pie {
    pub(crate) fn new(config: &PieConfig) -> Pie {
        let tupdate = config.tupdate.max(MIN_UPDATE);
        let config = PieConfig { tupdate, ..*config };
        Pie {
            next_update: Time::ZERO + tupdate,
            delay: Duration::ZERO,
            old_delay: Duration::ZERO,
            probability: 0.0,
            accumulated: 0.0,
            burst_allowance: config.max_burst,
            ahead: VecDeque::new(),
            config,
        }
    }

    /// Reports a packet that has arrived, and the start of its transmission, of packets that are sent in
    /// this order.
    pub(crate) fn will_send(&mut self, arrived: Time, start: Time) {
        self.ahead.push_back((arrived, start));
    }

    /// Processes departures and updates up to `now`.
    pub(crate) fn advance(&mut self, now: Time) {
        while let Some(&(arrived, start)) = self.ahead.front()
            && start <= now
        {
            self.ahead.pop_front();
            let next = self.ahead.front();
            self.sends(arrived, start, next.is_some_and(|&(next, _)| next < start));
        }
        if self.next_update <= now {
            self.update_until(now + Duration::from_nanos(1));
        }
    }

    /// A transmission starts, of a packet with or without others that wait behind it.
    pub(crate) fn sends(&mut self, arrived: Time, start: Time, more: bool) {
        self.update_until(start);
        self.delay = if more {
            start - arrived
        } else {
            Duration::ZERO
        };
    }

    /// Reports that the arriving packet found the queue full.
    pub(crate) fn overflows(&mut self) {
        self.accumulated = 0.0;
    }

    /// What to do with an arriving packet; the queue holds `bytes`. RFC 8033, sections 4.1, 4.4, 5.1 and 5.4.
    pub(crate) fn judge(&mut self, bytes: u64, ecn: Ecn, random: &mut Random) -> Verdict {
        if !self.drops(bytes, random) {
            Verdict::Pass
        } else if self.config.ecn && ecn.is_capable() && self.probability <= self.config.mark_ecnth
        {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }

    /// Whether it is an arriving packet's turn to be dropped.
    fn drops(&mut self, bytes: u64, random: &mut Random) -> bool {
        let short = self.old_delay < self.config.target / 2 && self.probability < 0.2;
        if self.burst_allowance > Duration::ZERO || short || bytes <= 2 * MEAN_PACKET {
            return false;
        }
        if self.probability == 0.0 {
            self.accumulated = 0.0;
        }
        self.accumulated += self.probability;
        if self.accumulated < 0.85 {
            return false;
        }
        if self.accumulated < 8.5 && !random.chance(self.probability) {
            return false;
        }
        self.accumulated = 0.0;
        true
    }

    /// The updates before `end`.
    fn update_until(&mut self, end: Time) {
        while self.next_update < end {
            let before = (self.probability, self.old_delay, self.burst_allowance);
            self.update();
            if before == (self.probability, self.old_delay, self.burst_allowance) {
                // All further updates change nothing either.
                self.next_update = self.next_update.in_steps_to(self.config.tupdate, end);
            }
        }
    }

    /// RFC 8033, sections 4.2, 4.4 and 5.5.
    fn update(&mut self) {
        let PieConfig {
            target,
            tupdate,
            alpha,
            beta,
            max_burst,
            ..
        } = self.config;
        let delay = self.delay.as_secs_f64();
        let above = delay - target.as_secs_f64();
        let growth = delay - self.old_delay.as_secs_f64();
        let mut change = (alpha * above + beta * growth) / scale(self.probability);
        if self.probability >= 0.1 {
            change = change.min(0.02);
        }
        self.probability += change;
        let idle = self.delay == Duration::ZERO && self.old_delay == Duration::ZERO;
        if idle {
            self.probability *= 0.98;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.burst_allowance = self.burst_allowance - tupdate;
        let calm = self.delay < target / 2 && self.old_delay < target / 2;
        if calm && self.probability == 0.0 {
            self.burst_allowance = max_burst;
        }
        self.old_delay = self.delay;
        self.next_update += tupdate;
    }
}

/// By what a change of the probability is divided: the smaller it is, the smaller are its changes.
fn scale(probability: f64) -> f64 {
    match probability {
        p if p < 0.000_001 => 2048.0,
        p if p < 0.000_01 => 512.0,
        p if p < 0.000_1 => 128.0,
        p if p < 0.001 => 32.0,
        p if p < 0.01 => 8.0,
        p if p < 0.1 => 2.0,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pie() -> Pie {
        Pie::new(&PieConfig::default())
    }

    /// A packet with others behind it is sent, having waited for `waited` milliseconds.
    fn sent(pie: &mut Pie, at: u64, waited: u64) {
        let start = Time::from_millis(at);
        pie.sends(Time::from_millis(at - waited), start, true);
    }

    #[track_caller]
    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found}, {expected}");
    }

    #[test]
    fn the_smaller_the_probability_the_smaller_its_changes() {
        // 0.125 * (0.035 - 0.015) + 1.25 * (0.035 - 0.035) = 0.0025 at full scale.
        let cases = [
            (0.0, 2048.0),
            (0.000_002, 512.0),
            (0.000_02, 128.0),
            (0.000_2, 32.0),
            (0.002, 8.0),
            (0.02, 2.0),
            (0.2, 1.0),
        ];
        for (before, scale) in cases {
            let mut pie = pie();
            pie.delay = Duration::from_millis(35);
            pie.old_delay = pie.delay;
            pie.probability = before;
            pie.update();
            close(pie.probability, before + 0.0025 / scale);
        }
    }

    #[test]
    fn a_growing_delay_counts_by_beta_and_a_shrinking_one_against_it() {
        let mut pie = pie();
        pie.probability = 0.5;
        pie.old_delay = Duration::from_millis(25);
        pie.delay = Duration::from_millis(31);
        pie.update();
        // 0.125 * 0.016 + 1.25 * 0.006
        close(pie.probability, 0.5 + 0.0095);
        pie.delay = Duration::from_millis(15);
        pie.update();
        // 0.125 * 0 - 1.25 * 0.016
        close(pie.probability, 0.5095 - 0.02);
    }

    #[test]
    fn from_10_percent_on_the_probability_rises_by_at_most_2_percent_an_update() {
        let mut pie = pie();
        pie.probability = 0.1;
        pie.delay = Duration::from_millis(500);
        pie.update();
        close(pie.probability, 0.12);
        pie.probability = 0.99;
        pie.update();
        assert_eq!(pie.probability, 1.0);
    }

    #[test]
    fn without_a_queue_the_probability_decays_exponentially_too() {
        let mut pie = pie();
        pie.probability = 0.5;
        pie.update();
        // 0.125 * -0.015, then 2 % less.
        close(pie.probability, (0.5 - 0.001_875) * 0.98);
    }

    #[test]
    fn a_burst_is_allowed_for_150_ms_and_again_only_after_a_calm() {
        let mut pie = pie();
        for at in 1..=10 {
            assert!(pie.burst_allowance > Duration::ZERO, "{at}");
            sent(&mut pie, 15 * at, 10);
            pie.advance(Time::from_millis(15 * at));
        }
        // At 150 ms, ten updates of 15 ms have used it up.
        assert_eq!(pie.burst_allowance, Duration::ZERO);
        // Two updates with less than half the target.
        sent(&mut pie, 151, 7);
        pie.advance(Time::from_millis(165));
        assert_eq!(pie.burst_allowance, Duration::ZERO);
        pie.advance(Time::from_millis(180));
        assert_eq!(pie.probability, 0.0);
        assert_eq!(pie.burst_allowance, Duration::from_millis(150));
    }

    #[test]
    fn late_updates_see_what_there_was_at_their_time() {
        let (mut exact, mut late) = (pie(), pie());
        for millis in 1..2_000 {
            let (arrived, start) = (Time::from_millis(millis), Time::from_millis(millis * 2));
            exact.will_send(arrived, start);
            late.will_send(arrived, start);
        }
        for millis in 0..3_900 {
            exact.advance(Time::from_millis(millis));
        }
        late.advance(Time::from_millis(3_899));
        assert!(exact.probability > 0.0);
        assert_eq!(exact.probability, late.probability);
        assert_eq!(exact.next_update, late.next_update);
        let year = Time::from_secs(365 * 24 * 3_600);
        late.advance(year);
        assert_eq!(late.probability, 0.0);
        assert!(late.next_update > year && late.next_update <= year + late.config.tupdate);
    }

    #[test]
    fn drops_are_spread_evenly() {
        let mut pie = pie();
        (pie.probability, pie.burst_allowance) = (0.1, Duration::ZERO);
        pie.old_delay = Duration::from_millis(15);
        let mut random = Random::new(5);
        let dropped = (0..200_000).filter(|_| pie.drops(100_000, &mut random));
        let dropped: Vec<usize> = dropped.collect();
        let gaps: Vec<usize> = dropped.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // The sum reaches 0.85 at the ninth packet and 8.5 at the 85th, give or take a rounding.
        assert!(*gaps.iter().min().unwrap() >= 9, "{:?}", gaps.iter().min());
        assert!(*gaps.iter().max().unwrap() <= 86, "{:?}", gaps.iter().max());
        // Then each packet with 0.1: 8 + 10 in the mean.
        let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
        assert!((mean - 18.0).abs() < 0.4, "{mean}");
    }

    #[test]
    fn capable_packets_are_marked_up_to_a_probability_of_10_percent() {
        let mut random = Random::new(5);
        let mut verdicts = |ecn, codepoint, probability| {
            let mut pie = Pie::new(&PieConfig {
                ecn,
                ..PieConfig::default()
            });
            (pie.probability, pie.burst_allowance) = (probability, Duration::ZERO);
            pie.old_delay = Duration::from_millis(15);
            let verdicts = (0..10_000).map(|_| pie.judge(100_000, codepoint, &mut random));
            let verdicts: Vec<Verdict> = verdicts.collect();
            [Verdict::Mark, Verdict::Drop].map(|verdict| verdicts.contains(&verdict))
        };
        assert_eq!(verdicts(true, Ecn::Ect0, 0.1), [true, false]);
        assert_eq!(verdicts(true, Ecn::Ect0, 0.11), [false, true]);
        assert_eq!(verdicts(true, Ecn::NotEct, 0.1), [false, true]);
        assert_eq!(verdicts(false, Ecn::Ect0, 0.1), [false, true]);
    }

    #[test]
    fn short_queues_and_short_delays_are_left_alone() {
        let mut random = Random::new(5);
        let mut dropping = |probability, old_delay, bytes| {
            let mut pie = pie();
            pie.burst_allowance = Duration::ZERO;
            pie.probability = probability;
            pie.old_delay = Duration::from_millis(old_delay);
            (0..1_000).any(|_| pie.drops(bytes, &mut random))
        };
        assert!(!dropping(0.9, 30, 3_000));
        assert!(dropping(0.9, 30, 3_001));
        assert!(!dropping(0.19, 7, 30_000));
        assert!(dropping(0.19, 8, 30_000));
        assert!(dropping(0.2, 7, 30_000));
    }
}
