//! Times of plans.

use serde::Deserialize;

/// A time that is a number of seconds, or of round trips if those are longer.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Span {
    pub seconds: f64,
    pub round_trips: f64,
}

impl Span {
    /// Its length where a round trip takes this long; both in seconds.
    pub(crate) fn length(self, rtt: f64) -> f64 {
        self.seconds.max(self.round_trips * rtt)
    }
}
