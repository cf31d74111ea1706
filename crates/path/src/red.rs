//! RED: parameters and decision.

use crate::units::Bytes;

/// The parameters of RED. Thresholds are in packets, or in bytes if the queue's capacity is.
#[derive(Clone, Debug, PartialEq)]
pub struct RedConfig {
    /// Weight of the present queue in the average; above 0, at most 1.
    pub w_q: f64,
    /// No packet is dropped while the average is below this.
    pub min_th: f64,
    /// Drop probability is `max_p` when the average reaches this.
    pub max_th: f64,
    /// Drop probability at `max_th`; above 0, at most 1.
    pub max_p: f64,
    /// Above `max_th` the probability rises to 1 at twice `max_th`, rather than at once.
    pub gentle: bool,
    /// Packet size for which the link is assumed to have been idle: the average decays by one
    /// step for each that could have been sent.
    pub mean_packet: Bytes,
}

impl Default for RedConfig {
    /// The values of ns and of Floyd's advice: 0.002, 5, 15, 0.1, not gentle, 500 bytes.
    fn default() -> RedConfig {
        RedConfig {
            w_q: 0.002,
            min_th: 5.0,
            max_th: 15.0,
            max_p: 0.1,
            gentle: false,
            mean_packet: Bytes(500),
        }
    }
}
