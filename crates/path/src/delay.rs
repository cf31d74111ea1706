//! Delay after the transmitter, with optional jitter and reordering.
//!
//! | original | here |
//! |---|---|
//! | netem and NIST Net mix each random number with the one before it, which narrows the distribution | a normal process with the given correlation is mapped to the distribution, whose shape is kept |
//! | netem's and NIST Net's Pareto lies around the base, with standard deviation `amount` | above the base, with mean `amount`: the base is the propagation delay |
//! | jitter reorders packets in netem | in order unless it may `overtake` |
//! | netem's reordered packets skip the delay, every n-th for certain with `gap` | they skip it or are delayed further, always at random |

use std::f64::consts::FRAC_1_SQRT_2;
use std::sync::Arc;

use crate::random::Random;
use crate::trace::{Cursor, Steps};
use crate::units::{Duration, Time};

/// The delay of a pipe.
#[derive(Clone, Debug, PartialEq)]
pub struct DelayConfig {
    /// The delay without jitter.
    pub base: Delay,
    /// Random variation. Without it, a packet with a smaller delay does not overtake the one before it, but
    /// arrives together with it.
    pub jitter: Option<Jitter>,
}

impl Default for DelayConfig {
    /// No delay.
    fn default() -> DelayConfig {
        DelayConfig {
            base: Delay::Constant(Duration::ZERO),
            jitter: None,
        }
    }
}

/// A delay that may change over time.
#[derive(Clone, Debug, PartialEq)]
pub enum Delay {
    /// Always the same.
    Constant(Duration),
    /// As recorded; a packet has the delay that applies when its transmission ends.
    Steps(Arc<Steps<Duration>>),
}

impl Delay {
    /// The delay at the start of the run.
    pub fn at_start(&self) -> Duration {
        match self {
            Delay::Constant(delay) => *delay,
            Delay::Steps(steps) => steps.at(Time::ZERO),
        }
    }
}

/// Random changes of the delay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(deny_unknown_fields)
)]
pub struct Jitter {
    /// How much the delay changes.
    pub amount: Duration,
    /// How the changes are spread.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<JitterDistribution>", extend("default" = "uniform"))
    )]
    pub distribution: JitterDistribution,
    /// Correlation of a packet's change with that of the packet before, below 1.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::schema::Probability>", extend("default" = 0))
    )]
    pub correlation: f64,
    /// Whether a packet with a shorter delay overtakes others; otherwise each packet waits for the one
    /// before.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<bool>", extend("default" = false))
    )]
    pub overtake: bool,
}

/// How random delays are spread about their mean.
// A negative delay counts as zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "Distribution", rename_all = "kebab-case")
)]
pub enum JitterDistribution {
    /// Evenly from -amount to +amount.
    #[default]
    Uniform,
    /// The amount is the standard deviation.
    Normal,
    /// Never below the delay, of shape 3 and mean amount.
    Pareto,
}

/// Packets that overtake others.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "Reorder", deny_unknown_fields)
)]
pub struct ReorderConfig {
    /// Probability that a packet leaves its place.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Probability"))]
    pub probability: f64,
    /// How much later the packet arrives, above 0, overtaken by those behind it. Default: the packet
    /// skips the link's delay and overtakes those before it, as in netem.
    #[cfg_attr(
        feature = "schema",
        schemars(rename = "delay", with = "Option<Duration>")
    )]
    pub displacement: Displacement,
}

/// How a packet is displaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Displacement {
    /// It has no delay and overtakes the packets in flight, as in netem.
    SkipsDelay,
    /// It is delayed by this much more, and later packets overtake it.
    Late(Duration),
}

/// The way from the transmitter to the far end.
#[derive(Clone, Debug)]
pub(crate) struct DelayLine {
    base: Base,
    jitter: Option<JitterProcess>,
    /// A packet with a smaller delay does not overtake the one before it.
    keep_order: bool,
    reorder: Option<ReorderConfig>,
    /// The far-end time of the last packet that was not displaced.
    last: Time,
}

#[derive(Clone, Debug)]
enum Base {
    Constant(Duration),
    Steps(Arc<Steps<Duration>>, Cursor),
}

impl DelayLine {
    pub(crate) fn new(config: &DelayConfig, reorder: Option<ReorderConfig>) -> DelayLine {
        DelayLine {
            base: match &config.base {
                Delay::Constant(delay) => Base::Constant(*delay),
                Delay::Steps(steps) => Base::Steps(steps.clone(), Cursor::default()),
            },
            jitter: config.jitter.map(|jitter| JitterProcess {
                jitter,
                state: None,
            }),
            keep_order: config.jitter.is_none_or(|jitter| !jitter.overtake),
            reorder: reorder.filter(|reorder| reorder.probability > 0.0),
            last: Time::ZERO,
        }
    }

    /// The delay, if it is constant and no packet is displaced.
    pub(crate) fn constant(&self) -> Option<Duration> {
        match self.base {
            Base::Constant(delay) if self.jitter.is_none() && self.reorder.is_none() => Some(delay),
            _ => None,
        }
    }

    /// Whether no far-end time is earlier than the one before it.
    pub(crate) fn keeps_order(&self) -> bool {
        self.reorder.is_none() && (self.keep_order || self.constant().is_some())
    }

    /// The far-end time of a packet whose transmission ended at `sent`, and whether it was displaced.
    pub(crate) fn pass(&mut self, sent: Time, random: &mut Random) -> (Time, bool) {
        if sent == Time::MAX {
            return (sent, false);
        }
        if let Some(reorder) = self.reorder
            && random.chance(reorder.probability)
        {
            let displaced = match reorder.displacement {
                Displacement::SkipsDelay => sent,
                Displacement::Late(by) => sent + self.delay(sent, random) + by,
            };
            return (displaced, true);
        }
        (self.pass_in_order(sent, random), false)
    }

    /// As `pass`, for a packet that is not displaced.
    pub(crate) fn pass_in_order(&mut self, sent: Time, random: &mut Random) -> Time {
        let mut far_end = sent + self.delay(sent, random);
        if self.keep_order && far_end < self.last {
            far_end = self.last;
        }
        self.last = far_end;
        far_end
    }

    fn delay(&mut self, sent: Time, random: &mut Random) -> Duration {
        let base = match &mut self.base {
            Base::Constant(delay) => *delay,
            Base::Steps(steps, cursor) => cursor.seek(steps, sent.as_nanos()).0,
        };
        match &mut self.jitter {
            None => base,
            Some(process) => {
                let nanos = base.as_nanos() as f64 + process.next(random);
                Duration::from_nanos(nanos.round() as u64)
            }
        }
    }
}

/// A Gaussian autoregressive process of order 1, mapped to the distribution of the jitter.
#[derive(Clone, Debug)]
struct JitterProcess {
    jitter: Jitter,
    state: Option<f64>,
}

impl JitterProcess {
    /// The next variation in nanoseconds.
    fn next(&mut self, random: &mut Random) -> f64 {
        let amount = self.jitter.amount.as_nanos() as f64;
        amount
            * match self.jitter.distribution {
                JitterDistribution::Uniform => 2.0 * self.next_uniform(random) - 1.0,
                JitterDistribution::Normal => self.next_normal(random),
                // Lomax of shape 3 and scale 2 has mean 2 / (3 - 1) = 1.
                JitterDistribution::Pareto => {
                    2.0 * (1.0 / libm::cbrt(1.0 - self.next_uniform(random)) - 1.0)
                }
            }
    }

    fn next_normal(&mut self, random: &mut Random) -> f64 {
        let correlation = self.jitter.correlation;
        let fresh = random.normal();
        let next = match self.state {
            None => fresh,
            Some(state) => correlation * state + (1.0 - correlation * correlation).sqrt() * fresh,
        };
        self.state = Some(next);
        next
    }

    /// Uniform in [0, 1): the normal process mapped through its distribution function.
    fn next_uniform(&mut self, random: &mut Random) -> f64 {
        if self.jitter.correlation == 0.0 {
            return random.uniform();
        }
        let below = 0.5 * libm::erfc(-self.next_normal(random) * FRAC_1_SQRT_2);
        below.min(1.0 - f64::EPSILON / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMOUNT_MS: u64 = 2;

    /// Far-end delays in milliseconds of packets 1 s apart, base 100 ms.
    fn delays(distribution: JitterDistribution, correlation: f64) -> Vec<f64> {
        let jitter = Jitter {
            amount: Duration::from_millis(AMOUNT_MS),
            distribution,
            correlation,
            overtake: false,
        };
        let config = DelayConfig {
            base: Delay::Constant(Duration::from_millis(100)),
            jitter: Some(jitter),
        };
        let (mut travel, mut random) = (DelayLine::new(&config, None), Random::new(3));
        let sent = (0..100_000).map(Time::from_secs);
        sent.map(|sent| (travel.pass(sent, &mut random).0 - sent).as_secs_f64() * 1e3)
            .collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    fn deviation(values: &[f64]) -> f64 {
        let mean = mean(values);
        (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
    }

    fn correlation(values: &[f64]) -> f64 {
        let (mean, variance) = (mean(values), deviation(values).powi(2));
        let products = values
            .windows(2)
            .map(|pair| (pair[0] - mean) * (pair[1] - mean));
        products.sum::<f64>() / (values.len() - 1) as f64 / variance
    }

    fn close(value: f64, expected: f64, within: f64) {
        assert!(
            (value - expected).abs() < within,
            "{value} is not {expected} +- {within}"
        );
    }

    #[test]
    fn uniform_jitter_stays_within_its_amount() {
        for correlation in [0.0, 0.9] {
            let delays = delays(JitterDistribution::Uniform, correlation);
            assert!(delays.iter().all(|delay| (98.0..=102.0).contains(delay)));
            close(mean(&delays), 100.0, 0.05);
            // 4 ms / sqrt(12)
            close(deviation(&delays), 1.1547, 0.02);
        }
    }

    #[test]
    fn normal_jitter_has_its_amount_as_standard_deviation() {
        let delays = delays(JitterDistribution::Normal, 0.0);
        close(mean(&delays), 100.0, 0.03);
        close(deviation(&delays), 2.0, 0.02);
        // 2.275 % lie two standard deviations above the mean.
        let above = delays.iter().filter(|&&delay| delay > 104.0).count();
        close(above as f64 / 1e5, 0.02275, 0.002);
    }

    #[test]
    fn pareto_jitter_is_never_below_the_base_and_has_its_amount_as_mean() {
        let delays = delays(JitterDistribution::Pareto, 0.0);
        assert!(delays.iter().all(|&delay| delay >= 100.0));
        close(mean(&delays), 102.0, 0.05);
        // P(extra > x) = (1 + x / 4 ms)^-3: an eighth is above 4 ms.
        let above = delays.iter().filter(|&&delay| delay > 104.0).count();
        close(above as f64 / 1e5, 0.125, 0.004);
    }

    #[test]
    fn correlation_is_as_asked_and_leaves_the_distribution_alone() {
        let normal = delays(JitterDistribution::Normal, 0.8);
        close(correlation(&normal), 0.8, 0.01);
        close(deviation(&normal), 2.0, 0.05);
        let uniform = delays(JitterDistribution::Uniform, 0.8);
        // 6 / pi asin(0.8 / 2) for uniform marginals
        close(correlation(&uniform), 0.786, 0.01);
        close(
            correlation(&delays(JitterDistribution::Normal, 0.0)),
            0.0,
            0.013,
        );
    }

    #[test]
    fn a_smaller_delay_waits_for_the_packet_before_it() {
        let fall = [(Time::ZERO, 50), (Time::from_millis(10), 5)];
        let fall = fall.map(|(time, millis)| (time, Duration::from_millis(millis)));
        let mut config = DelayConfig {
            base: Delay::Steps(Arc::new(Steps::new(fall).unwrap())),
            ..DelayConfig::default()
        };
        let far_ends = |config: &DelayConfig| {
            let (mut travel, mut random) = (DelayLine::new(config, None), Random::new(1));
            [9, 11, 50].map(|sent| {
                travel
                    .pass(Time::from_millis(sent), &mut random)
                    .0
                    .as_millis()
            })
        };
        assert_eq!(far_ends(&config), [59, 59, 59]);
        config.jitter = Some(Jitter {
            overtake: true,
            ..Jitter::default()
        });
        assert_eq!(far_ends(&config), [59, 16, 55]);
    }

    #[test]
    fn reordered_packets_skip_the_delay_or_come_later() {
        let config = DelayConfig {
            base: Delay::Constant(Duration::from_millis(10)),
            ..DelayConfig::default()
        };
        let pass = |displacement| {
            let reorder = ReorderConfig {
                probability: 1.0,
                displacement,
            };
            DelayLine::new(&config, Some(reorder)).pass(Time::from_millis(5), &mut Random::new(1))
        };
        assert_eq!(pass(Displacement::SkipsDelay), (Time::from_millis(5), true));
        let late = Displacement::Late(Duration::from_millis(3));
        assert_eq!(pass(late), (Time::from_millis(18), true));
    }

    #[test]
    fn a_delay_is_never_negative() {
        let jitter = Jitter {
            amount: Duration::from_millis(50),
            distribution: JitterDistribution::Normal,
            ..Jitter::default()
        };
        let config = DelayConfig {
            jitter: Some(jitter),
            ..DelayConfig::default()
        };
        let (mut travel, mut random) = (DelayLine::new(&config, None), Random::new(1));
        let sent = Time::from_secs(1);
        assert!((0..100).all(|_| travel.pass(sent, &mut random).0 >= sent));
    }
}
