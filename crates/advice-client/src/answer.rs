//! The advisor's answer to a request for advice.

use std::time::Duration;

use fairwind_advice::Advice;
use serde::{Deserialize, Serialize};

/// Minimum time to the next request, seconds.
const SHORTEST: f64 = 0.1;
/// Maximum time to the next request, seconds.
const LONGEST: f64 = 86_400.0;

/// Advice, and when to ask again by the client's clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The advice; its times are by the advisor's clock, which may run faster than the client's.
    #[serde(flatten)]
    pub advice: Advice,
    /// The path whose history was used; None if the host is on no known path.
    #[serde(default)]
    pub path: Option<String>,
    /// Time until the next request, in seconds of real time.
    pub ask_again_after_s: f64,
}

impl Answer {
    /// How long to wait before the next request. Limited to between 100 ms and a day, whatever the advisor
    /// sent.
    pub fn ask_again_after(&self) -> Duration {
        let seconds = match self.ask_again_after_s.is_nan() {
            true => LONGEST,
            false => self.ask_again_after_s.clamp(SHORTEST, LONGEST),
        };
        Duration::from_secs_f64(seconds)
    }
}
