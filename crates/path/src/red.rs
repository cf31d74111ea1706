//! RED: random early drops or marks, governed by the average queue length.
//!
//! Source: S. Floyd and V. Jacobson, "Random early detection gateways for congestion avoidance",
//! 1993; the gentle variant as recommended by Floyd in 2000.
//!
//! | original | here |
//! |---|---|
//! | Dummynet: average in 16-bit fixed point, decay over idle time from a table of 256 entries | floating point, exact decay |
//! | Dummynet and ns: an idle queue decays by (1 - w_q)^(m + 1) for the m small packets that fit in the idle time | the same |
//! | small packets are 512 bytes in Dummynet, 500 in ns | `mean_packet`, 500 by default |
//! | the paper: above max_th the count of packets since a drop restarts at 0 | as in Dummynet: at -1, as below min_th |
//! | the paper drops a packet when count reaches R / p_b, with R drawn at each drop | the same, as in Dummynet: gaps are uniform between 1 and 1 / p_b |
//! | with thresholds in bytes, Dummynet: p_b times size / 1500; ns: times size / mean size | as in Dummynet and the paper |
//! | Linux and ns average the packets behind the one being sent | the packet being sent counts, as in Dummynet before 2010 |
//! | the paper and Dummynet mark all ECN-capable packets, Linux too without `harddrop`; RFC 7567, section 4.2.1: drop when marks do not help | with `ecn`, marked where the drop would be random, and dropped where it is certain, as by Linux with `harddrop` |
//! | ns can wait between drops, adapt max_p | not here |

use crate::pipe::Offer;
use crate::random::Random;
use crate::units::{Bytes, Duration};

/// Largest packet in bytes, to which drop probabilities are scaled with thresholds in bytes.
const MAX_PACKET: f64 = 1500.0;

/// The parameters of RED. Thresholds are in bytes if the queue's capacity is, otherwise in packets.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct RedConfig {
    /// Weight of the newest queue length in the average, above 0 to 1.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<f64>", extend("default" = RedConfig::default().w_q))
    )]
    pub w_q: f64,
    /// Average length below which nothing is dropped, 0 or more.
    pub min_th: f64,
    /// Average length from which everything is dropped, above `min_th`.
    pub max_th: f64,
    /// Drop probability just below `max_th`, above 0 to 1.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<f64>", extend("default" = RedConfig::default().max_p))
    )]
    pub max_p: f64,
    /// From `max_th` to twice `max_th` the probability rises from `max_p` to 1, instead of jumping
    /// to 1.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<bool>", extend("default" = RedConfig::default().gentle))
    )]
    pub gentle: bool,
    /// Packet size for which the average decays one step while the link is idle.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<Bytes>", extend("default" = RedConfig::default().mean_packet.to_string()))
    )]
    pub mean_packet: Bytes,
    /// ECN-capable packets are marked instead of dropped, except where all packets are dropped.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<bool>", extend("default" = RedConfig::default().ecn))
    )]
    pub ecn: bool,
}

impl Default for RedConfig {
    /// As in the examples of the paper and ns: 0.002, 5, 15, 0.1, not gentle, 500 bytes,
    /// without ECN.
    fn default() -> RedConfig {
        RedConfig {
            w_q: 0.002,
            min_th: 5.0,
            max_th: 15.0,
            max_p: 0.1,
            gentle: false,
            mean_packet: Bytes(500),
            ecn: false,
        }
    }
}

/// What is to be done with an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Pass,
    /// It leaves with CE.
    Mark,
    /// It is lost.
    Drop,
}

/// The state of RED on one queue.
#[derive(Clone, Debug)]
pub(crate) struct Red {
    config: RedConfig,
    /// Time to send a packet of the mean size.
    step: Duration,
    by_bytes: bool,
    average: f64,
    /// Packets since the last drop or mark; -1 while no packet may be dropped.
    count: i64,
    /// R, in [0, 1): the next packet is dropped when count times p_b exceeds it.
    threshold: f64,
}

impl Red {
    pub(crate) fn new(config: &RedConfig, by_bytes: bool, step: Duration) -> Red {
        let config = config.clone();
        Red {
            config,
            step,
            by_bytes,
            average: 0.0,
            count: -1,
            threshold: 0.0,
        }
    }

    /// Whether to drop or mark the arriving packet. `idle` is how long the queue has been empty, if it is.
    pub(crate) fn judge(
        &mut self,
        (packets, bytes): (usize, u64),
        idle: Option<Duration>,
        offer: Offer,
        random: &mut Random,
    ) -> Verdict {
        let queue = if self.by_bytes {
            bytes as f64
        } else {
            packets as f64
        };
        self.update_average(queue, idle);
        let RedConfig {
            min_th,
            max_th,
            gentle,
            ..
        } = self.config;
        let certain = if gentle { 2.0 * max_th } else { max_th };
        if self.average < min_th {
            self.count = -1;
            return Verdict::Pass;
        }
        if self.average >= certain {
            self.count = -1;
            return Verdict::Drop;
        }
        self.count += 1;
        if self.count == 0 {
            self.threshold = random.uniform();
            return Verdict::Pass;
        }
        let mut probability = self.probability(self.average);
        if self.by_bytes {
            probability *= f64::from(offer.size) / MAX_PACKET;
        }
        if self.count as f64 * probability <= self.threshold {
            return Verdict::Pass;
        }
        self.count = 0;
        self.threshold = random.uniform();
        if self.config.ecn && offer.ecn.is_capable() {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }

    fn update_average(&mut self, queue: f64, idle: Option<Duration>) {
        let w_q = self.config.w_q;
        match idle {
            None => self.average += w_q * (queue - self.average),
            Some(_) if self.average == 0.0 => {}
            Some(idle) => {
                let missed = idle.as_nanos() / self.step.as_nanos().max(1);
                self.average *= libm::pow(1.0 - w_q, missed as f64 + 1.0);
            }
        }
    }

    /// p_b, the drop probability before gaps are made uniform, for an average of at least `min_th`.
    fn probability(&self, average: f64) -> f64 {
        let RedConfig {
            min_th,
            max_th,
            max_p,
            ..
        } = self.config;
        if average < max_th {
            max_p * (average - min_th) / (max_th - min_th)
        } else {
            max_p + (1.0 - max_p) * (average - max_th) / max_th
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ecn::Ecn;

    fn red(config: RedConfig) -> Red {
        Red::new(&config, false, Duration::from_millis(1))
    }

    /// Gaps between drops at a constant queue, which with w_q = 1 is also the average.
    fn gaps(queue: usize, config: RedConfig, packets: usize) -> Vec<usize> {
        let mut red = red(RedConfig { w_q: 1.0, ..config });
        let mut random = Random::new(11);
        let offer = Offer::of(1500);
        let mut drops = || red.judge((queue, 0), None, offer, &mut random) == Verdict::Drop;
        let dropped = (0..packets).filter(|_| drops());
        let dropped: Vec<usize> = dropped.collect();
        dropped.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    #[test]
    fn the_average_is_an_exponential_one() {
        let mut red = red(RedConfig {
            w_q: 0.25,
            min_th: 50.0,
            ..RedConfig::default()
        });
        let averages = [4, 8, 0].map(|queue| {
            red.update_average(queue as f64, None);
            red.average
        });
        // 0.25 * 4; 1 + 0.25 * (8 - 1); 2.75 - 0.25 * 2.75
        assert_eq!(averages, [1.0, 2.75, 2.0625]);
    }

    #[test]
    fn an_idle_queue_decays_by_each_packet_that_could_have_been_sent_and_one_more() {
        let mut red = red(RedConfig {
            w_q: 0.5,
            ..RedConfig::default()
        });
        red.average = 16.0;
        red.update_average(0.0, Some(Duration::from_micros(2_900)));
        // Two packets of 1 ms fit into 2.9 ms.
        assert_eq!(red.average, 2.0);
    }

    #[test]
    fn nothing_is_dropped_below_min_th_and_all_above_max_th() {
        let config = RedConfig::default();
        assert!(gaps(4, config.clone(), 10_000).is_empty());
        assert_eq!(gaps(15, config, 100), [1; 99]);
    }

    #[test]
    fn gaps_between_drops_are_evenly_spread_from_1_to_1_of_p() {
        // p_b = 0.1 * (10 - 5) / (15 - 5) = 0.05: gaps 1 to 20, 10.5 in the mean.
        let gaps = gaps(10, RedConfig::default(), 1_000_000);
        assert_eq!(gaps.iter().min(), Some(&1));
        assert_eq!(gaps.iter().max(), Some(&20));
        let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
        // Standard deviation sqrt((20^2 - 1) / 12) = 5.77; four of them over sqrt(95,000) = 0.075.
        assert!((mean - 10.5).abs() < 0.075, "{mean}");
        for gap in 1..=20 {
            let share = gaps.iter().filter(|&&g| g == gap).count() as f64 / gaps.len() as f64;
            assert!((share - 0.05).abs() < 0.003, "{gap}: {share}");
        }
    }

    #[test]
    fn drop_rate_follows_its_closed_form_between_the_thresholds() {
        for queue in 6..15 {
            let p_b = 0.1 * (queue as f64 - 5.0) / 10.0;
            // A gap is the smallest n with n p_b > R: its mean is the sum over n of P(gap > n),
            // 1 + (1 - p_b) + (1 - 2 p_b) + ... down to 0.
            let mean_gap: f64 = (0..)
                .map(|n| 1.0 - n as f64 * p_b)
                .take_while(|&p| p > 0.0)
                .sum();
            let gaps = gaps(queue, RedConfig::default(), 500_000);
            let rate = gaps.len() as f64 / gaps.iter().sum::<usize>() as f64;
            assert!(
                (rate * mean_gap - 1.0).abs() < 0.02,
                "{queue}: {rate}, {mean_gap}"
            );
        }
    }

    #[test]
    fn gentle_red_rises_from_max_p_to_1_at_twice_max_th() {
        let gentle = red(RedConfig {
            gentle: true,
            ..RedConfig::default()
        });
        let probabilities = [5.0, 10.0, 15.0, 22.5, 30.0].map(|avg| gentle.probability(avg));
        let expected = [0.0, 0.05, 0.1, 0.55, 1.0];
        for (probability, expected) in probabilities.iter().zip(expected) {
            assert!(
                (probability - expected).abs() < 1e-12,
                "{probability}, {expected}"
            );
        }
        let gentle = RedConfig {
            gentle: true,
            ..RedConfig::default()
        };
        assert!(gaps(20, gentle.clone(), 1_000).iter().any(|&gap| gap > 1));
        assert_eq!(gaps(30, gentle, 100), [1; 99]);
    }

    #[test]
    fn ecn_capable_packets_are_marked_where_others_would_be_dropped_at_random() {
        let verdicts = |queue, ecn, codepoint| -> Vec<Verdict> {
            let mut red = red(RedConfig {
                w_q: 1.0,
                ecn,
                ..RedConfig::default()
            });
            let mut random = Random::new(11);
            let offer = Offer {
                ecn: codepoint,
                ..Offer::of(1500)
            };
            let judge = || red.judge((queue, 0), None, offer, &mut random);
            std::iter::repeat_with(judge).take(1_000).collect()
        };
        let dropped = verdicts(10, true, Ecn::NotEct);
        assert!(dropped.contains(&Verdict::Drop) && !dropped.contains(&Verdict::Mark));
        let marked = |verdict: &Verdict| match verdict {
            Verdict::Drop => Verdict::Mark,
            &other => other,
        };
        let marked: Vec<Verdict> = dropped.iter().map(marked).collect();
        for capable in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            assert_eq!(verdicts(10, true, capable), marked);
            assert_eq!(verdicts(10, false, capable), dropped);
            assert_eq!(verdicts(15, true, capable), [Verdict::Drop; 1_000]);
        }
    }

    #[test]
    fn with_thresholds_in_bytes_small_packets_are_dropped_less() {
        let config = RedConfig {
            w_q: 1.0,
            min_th: 5_000.0,
            max_th: 15_000.0,
            ..RedConfig::default()
        };
        let drops = |size| {
            let mut red = Red::new(&config, true, Duration::from_millis(1));
            let mut random = Random::new(2);
            let mut judge = || red.judge((0, 10_000), None, Offer::of(size), &mut random);
            let drops = (0..200_000).filter(|_| judge() == Verdict::Drop);
            drops.count() as f64 / 2e5
        };
        // p_b = 0.05 and 0.005: mean gaps 10.5 and 100.5.
        assert!((drops(1500) - 1.0 / 10.5).abs() < 0.002);
        assert!((drops(150) - 1.0 / 100.5).abs() < 0.0004);
    }
}
