//! What the advisor answers.

use std::time::Duration;

use fairwind_advice::Advice;
use serde::{Deserialize, Serialize};

/// The shortest time to the next request, whatever the answer says.
const SHORTEST: f64 = 0.1;
/// The longest, seconds.
const LONGEST: f64 = 86_400.0;

/// Advice, and when to ask again on the asker's own clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The advice; its times are of the advisor's clock, which may run faster than ours.
    #[serde(flatten)]
    pub advice: Advice,
    /// The path whose history it comes from; none if the host is on no known path.
    #[serde(default)]
    pub path: Option<String>,
    /// Seconds of real time until the next advice.
    pub ask_again_after_s: f64,
}

impl Answer {
    /// How long to wait before the next request: at least 100 ms and at most a day, whatever the
    /// advisor said.
    pub fn ask_again_after(&self) -> Duration {
        let seconds = match self.ask_again_after_s.is_nan() {
            true => LONGEST,
            false => self.ask_again_after_s.clamp(SHORTEST, LONGEST),
        };
        Duration::from_secs_f64(seconds)
    }
}
