//! Loss at random.

use std::sync::Arc;

use crate::trace::Steps;

/// Random loss of arriving packets, before they reach the queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LossConfig {
    /// None.
    #[default]
    None,
    /// Each packet with this probability, 0 to 1, whatever happened to the others.
    Bernoulli(f64),
    /// Bursts: a chain that moves between a good and a bad state with each packet.
    GilbertElliott {
        /// Probability of going from good to bad.
        p: f64,
        /// Probability of going from bad to good.
        r: f64,
        /// Probability that a packet survives in the bad state; 0 in Gilbert's simple model.
        h: f64,
        /// Probability that a packet survives in the good state; 1 in Gilbert's simple model.
        k: f64,
    },
    /// As `Bernoulli`, with a probability that follows a trace.
    Steps(Arc<Steps<f64>>),
}
