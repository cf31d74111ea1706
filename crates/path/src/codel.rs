//! CoDel (RFC 8289): parameters and decision.

use crate::units::Duration;

/// The parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelConfig {
    /// Acceptable standing queueing delay.
    pub target: Duration,
    /// Time for which the delay must stay above target before packets are dropped.
    pub interval: Duration,
}

impl Default for CoDelConfig {
    /// 5 ms and 100 ms, RFC 8289 sections 4.3 and 4.4.
    fn default() -> CoDelConfig {
        CoDelConfig {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
        }
    }
}
