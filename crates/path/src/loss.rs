//! Random loss: independent, in bursts, or as recorded.
//!
//! Sources: E. N. Gilbert, "Capacity of a burst-noise channel", 1960; E. O. Elliott, "Estimates of
//! error rates for codes on burst-noise channels", 1963.
//!
//! | original | here |
//! |---|---|
//! | netem takes 1-h and 1-k, the probabilities of loss | h and k, as in Gilbert and Elliott: the probabilities of survival |
//! | netem can correlate independent losses | bursts only by the Gilbert-Elliott chain |
//! | netem and Dummynet lose packets before the queue | the same |
//!
//! The Gilbert-Elliott chain starts in the good state. In the long run p / (p + r) of the packets meet the bad
//! state, 1 / r at a time. Gilbert's simple model has h = 0 and k = 1.

use std::sync::Arc;

use crate::random::Random;
use crate::trace::{Cursor, Steps};
use crate::units::Time;

/// Random loss of arriving packets, before they reach the queue.
// The schema is that of the table of a model.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(
        rename = "LossModel",
        description = "Loss with memory.",
        tag = "kind",
        rename_all = "kebab-case",
        deny_unknown_fields
    )
)]
pub enum LossConfig {
    /// No packet is lost.
    #[default]
    #[cfg_attr(feature = "schema", schemars(skip))]
    None,
    /// Each packet with this probability, 0 to 1, independently of the others.
    #[cfg_attr(feature = "schema", schemars(skip))]
    Bernoulli(f64),
    /// A good and a bad state (Gilbert, 1960; Elliott, 1963), in netem's letters. The state may change
    /// before each packet.
    GilbertElliott {
        /// Probability of a change from good to bad.
        #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Probability"))]
        p: f64,
        /// Probability of a change from bad to good.
        #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Probability"))]
        r: f64,
        /// Probability that a packet passes in the bad state.
        #[cfg_attr(
            feature = "schema",
            schemars(with = "Option<crate::schema::Probability>", extend("default" = 0))
        )]
        h: f64,
        /// Probability that a packet passes in the good state.
        #[cfg_attr(
            feature = "schema",
            schemars(with = "Option<crate::schema::Probability>", extend("default" = 1))
        )]
        k: f64,
    },
    /// As `Bernoulli`, with a probability that changes over time as recorded.
    #[cfg_attr(feature = "schema", schemars(skip))]
    Steps(Arc<Steps<f64>>),
}

/// The state of a loss process, consulted once for each packet.
#[derive(Clone, Debug)]
pub(crate) enum Loss {
    None,
    Bernoulli(f64),
    GilbertElliott(Chain),
    Steps(Arc<Steps<f64>>, Cursor),
}

impl Loss {
    pub(crate) fn new(config: &LossConfig) -> Loss {
        match *config {
            LossConfig::None => Loss::None,
            LossConfig::Bernoulli(probability) => Loss::Bernoulli(probability),
            LossConfig::GilbertElliott { p, r, h, k } => Loss::GilbertElliott(Chain {
                p,
                r,
                h,
                k,
                bad: false,
            }),
            LossConfig::Steps(ref steps) => Loss::Steps(steps.clone(), Cursor::default()),
        }
    }

    /// Whether the packet that arrives at `now` is lost.
    #[inline]
    pub(crate) fn takes(&mut self, now: Time, random: &mut Random) -> bool {
        match self {
            Loss::None => false,
            Loss::Bernoulli(probability) => random.chance(*probability),
            Loss::GilbertElliott(chain) => chain.loses(random),
            Loss::Steps(steps, cursor) => {
                let (probability, _) = cursor.seek(steps, now.as_nanos());
                random.chance(probability)
            }
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Chain {
    p: f64,
    r: f64,
    h: f64,
    k: f64,
    bad: bool,
}

impl Chain {
    fn loses(&mut self, random: &mut Random) -> bool {
        if random.chance(if self.bad { self.r } else { self.p }) {
            self.bad = !self.bad;
        }
        random.chance(1.0 - if self.bad { self.h } else { self.k })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(config: LossConfig, packets: usize) -> Vec<bool> {
        let (mut loss, mut random) = (Loss::new(&config), Random::new(5));
        (0..packets)
            .map(|_| loss.takes(Time::ZERO, &mut random))
            .collect()
    }

    fn rate(lost: &[bool]) -> f64 {
        lost.iter().filter(|&&lost| lost).count() as f64 / lost.len() as f64
    }

    /// Lengths of the runs of losses.
    fn bursts(lost: &[bool]) -> Vec<usize> {
        let runs = lost.chunk_by(|a, b| a == b);
        runs.filter(|run| run[0]).map(<[bool]>::len).collect()
    }

    #[test]
    fn bernoulli_loses_its_share_in_bursts_of_the_geometric_distribution() {
        let lost = losses(LossConfig::Bernoulli(0.2), 200_000);
        // Four standard deviations: 4 sqrt(0.2 * 0.8 / 200,000) = 0.0036.
        assert!((rate(&lost) - 0.2).abs() < 0.0036, "{}", rate(&lost));
        let bursts = bursts(&lost);
        let mean = bursts.iter().sum::<usize>() as f64 / bursts.len() as f64;
        // 1 / (1 - 0.2) = 1.25; four standard deviations: 4 sqrt(0.2) / 0.8 / sqrt(32,000) = 0.0125.
        assert!((mean - 1.25).abs() < 0.0125, "{mean}");
    }

    #[test]
    fn gilbert_loses_p_of_p_and_r_in_bursts_of_1_of_r() {
        let gilbert = LossConfig::GilbertElliott {
            p: 0.01,
            r: 0.25,
            h: 0.0,
            k: 1.0,
        };
        let lost = losses(gilbert, 2_000_000);
        // 0.01 / 0.26 = 0.03846. Its variance is that of independent losses times
        // (1 + 0.74) / (1 - 0.74) = 6.69; four standard deviations are 0.0014.
        assert!((rate(&lost) - 0.03846).abs() < 0.0014, "{}", rate(&lost));
        let bursts = bursts(&lost);
        let mean = bursts.iter().sum::<usize>() as f64 / bursts.len() as f64;
        // 1 / 0.25 = 4; four standard deviations: 4 sqrt(0.75) / 0.25 / sqrt(19,230) = 0.1.
        assert!((mean - 4.0).abs() < 0.1, "{mean}");
    }

    #[test]
    fn elliott_loses_in_both_states() {
        let elliott = LossConfig::GilbertElliott {
            p: 0.1,
            r: 0.3,
            h: 0.5,
            k: 0.98,
        };
        // 0.75 * 0.02 + 0.25 * 0.5 = 0.14
        let rate = rate(&losses(elliott, 1_000_000));
        assert!((rate - 0.14).abs() < 0.003, "{rate}");
    }

    #[test]
    fn a_trace_decides_by_the_time_of_arrival() {
        let steps = Steps::new([(Time::ZERO, 0.0), (Time::from_secs(1), 1.0)]).unwrap();
        let mut loss = Loss::new(&LossConfig::Steps(Arc::new(steps)));
        let mut random = Random::new(1);
        assert!(!loss.takes(Time::from_millis(999), &mut random));
        assert!(loss.takes(Time::from_millis(1_000), &mut random));
    }
}
