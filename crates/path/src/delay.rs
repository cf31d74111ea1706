//! Delay behind the transmitter, with jitter, reordering and duplication.

use std::sync::Arc;

use crate::trace::Steps;
use crate::units::Duration;

/// The delay of a pipe.
#[derive(Clone, Debug, PartialEq)]
pub struct DelayConfig {
    /// The delay without jitter.
    pub base: Delay,
    /// Random variation.
    pub jitter: Option<Jitter>,
    /// No packet overtakes another because its delay is smaller: it waits for the one before it.
    pub keep_order: bool,
}

impl Default for DelayConfig {
    /// None, in order.
    fn default() -> DelayConfig {
        DelayConfig {
            base: Delay::Constant(Duration::ZERO),
            jitter: None,
            keep_order: true,
        }
    }
}

/// A delay that may change over time.
#[derive(Clone, Debug, PartialEq)]
pub enum Delay {
    /// Always the same.
    Constant(Duration),
    /// As recorded; a packet has the delay that holds when its transmission ends.
    Steps(Arc<Steps<Duration>>),
}

/// Random variation of the delay from packet to packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// How much; what it means depends on the distribution.
    pub amount: Duration,
    /// The distribution.
    pub distribution: JitterDistribution,
    /// Correlation of one packet's variation with the next one's, 0 to below 1.
    pub correlation: f64,
}

/// Distribution of the jitter. A delay below zero counts as zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JitterDistribution {
    /// Even between base - amount and base + amount.
    #[default]
    Uniform,
    /// Normal around the base with standard deviation amount.
    Normal,
    /// Never below the base, with a long tail above it: Pareto of shape 3 and mean amount.
    Pareto,
}

/// Packets taken out of their order on purpose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReorderConfig {
    /// Probability that a packet is, 0 to 1.
    pub probability: f64,
    /// How it is displaced.
    pub displacement: Displacement,
}

/// How a packet leaves its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Displacement {
    /// It has no delay and so overtakes those that are on their way, as in netem.
    SkipsDelay,
    /// It is so much later, and those behind it overtake it.
    Late(Duration),
}
