//! The advisor's answer to a request for advice.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Advice;

/// Minimum time to the next request, seconds.
const SHORTEST: f64 = 0.1;
/// Maximum time to the next request, seconds.
const LONGEST: f64 = 86_400.0;

/// What a transfer should do now, and when to ask again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = AdviceAnswer))]
pub struct Answer {
    /// The advice. Its times are by the advisor's clock, which may run faster than the client's.
    #[serde(flatten)]
    pub advice: Advice,
    /// Name of the path; null if the host has none.
    #[serde(default)]
    pub path: Option<String>,
    /// Seconds of real time until the next advice. Clients wait for this time, not until `next_advice`,
    /// because the service's clock may run faster than theirs.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer as the first version of the interface writes it.
    const ANSWER: &str = concat!(
        r#"{"mode":"no-congestion-control","congestion_control":"nocc","available_mbps":45.5,"#,
        r#""interval_mbps":[44.0,47.0],"rtt_ms":50.0,"send_buffer_bytes":625000,"#,
        r#""receive_buffer_bytes":625000,"pacing_mbps":null,"threshold_mbps":42.0,"#,
        r#""next_advice":"2026-03-02T14:05:00Z","model":"profile","days_used":63,"r_squared":null,"#,
        r#""reason":"because","path":null,"ask_again_after_s":5.0}"#,
    );

    #[test]
    fn an_answer_is_one_flat_object() {
        let answer: Answer = serde_json::from_str(ANSWER).unwrap();
        assert_eq!(answer.advice.interval_mbps, Some([44.0, 47.0]));
        assert_eq!(answer.path, None);
        assert_eq!(serde_json::to_string(&answer).unwrap(), ANSWER);
    }

    #[test]
    fn no_advisor_makes_its_clients_ask_all_the_time_or_never() {
        let mut answer: Answer = serde_json::from_str(ANSWER).unwrap();
        for (sent, waited) in [
            (5.0, 5.0),
            (0.0, 0.1),
            (-1.0, 0.1),
            (1e12, 86_400.0),
            (f64::NAN, 86_400.0),
        ] {
            answer.ask_again_after_s = sent;
            let expected = Duration::from_secs_f64(waited);
            assert_eq!(answer.ask_again_after(), expected, "{sent}");
        }
    }
}
