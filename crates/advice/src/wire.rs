//! What an advisor and its clients tell each other: JSON over REST, described in
//! `docs/reference/openapi.json`.

use std::net::IpAddr;
use std::time::Duration;

use fairwind_origin::Prefix;
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
    /// Destinations for which the answer holds, such as `192.0.2.0/24`: of the path's network around the address that was
    /// asked about, the largest part in which no other path has a host. Missing: for the host alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>, example = "192.0.2.0/24"))]
    pub prefix: Option<Prefix>,
}

impl Answer {
    /// The destinations for which the answer to a question about this address holds. Where it names others, it holds for the
    /// address alone.
    pub fn holds_for(&self, address: IpAddr) -> Prefix {
        match self.prefix {
            // Nothing of IPv4, whose addresses are written as of IPv6 where they are looked up.
            Some(prefix) if prefix.contains(address) => prefix.around(address, [Prefix::IPV4]),
            _ => Prefix::host(address),
        }
    }

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

/// The direction of the data, seen from the host that reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To the other host.
    Sent,
    /// From the other host.
    Received,
}

impl Direction {
    /// `sent` or `received`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Received => "received",
        }
    }

    /// The direction of this name.
    pub fn named(name: &str) -> Option<Direction> {
        [Self::Sent, Self::Received]
            .into_iter()
            .find(|direction| direction.name() == name)
    }
}

/// What limited a transfer, and for how long: SndLimTimeCwnd, SndLimTimeRwin and SndLimTimeSnd of RFC
/// 4898, which Linux reports in `TCP_INFO`. Known only to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Limited {
    /// By the network: the congestion window was full, or losses were being retransmitted; seconds.
    pub network_s: f64,
    /// By the receiver's window; seconds.
    pub receiver_s: f64,
    /// By the sender: its buffer, its application or its pacing rate; seconds.
    pub sender_s: f64,
}

/// The result of a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TransferReport {
    /// Address or name of the other host.
    #[cfg_attr(feature = "schema", schema(example = "192.0.2.7"))]
    pub host: String,
    /// Payload that arrived, bytes.
    pub bytes: u64,
    /// How long that took, seconds.
    pub seconds: f64,
    /// Segments that were sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Least round-trip time of the connection, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// From the sender: seconds during which the network (`network_s`), the receiver's window
    /// (`receiver_s`) and the sender itself (`sender_s`) kept it from going faster. Without it the transfer
    /// is no sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<Limited>,
    /// `"sent"` or `"received"`, seen from the host that reports.
    pub direction: Direction,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;

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
    fn an_answer_holds_for_its_prefix_if_that_has_the_address() {
        let mut answer: Answer = serde_json::from_str(ANSWER).unwrap();
        let mut holds_for = |prefix: Option<&str>, address: &str| {
            answer.prefix = prefix.map(|prefix| prefix.parse().unwrap());
            answer.holds_for(address.parse().unwrap()).to_string()
        };
        assert_eq!(holds_for(None, "192.0.2.7"), "192.0.2.7/32");
        assert_eq!(
            holds_for(Some("192.0.2.0/24"), "::ffff:192.0.2.7"),
            "192.0.2.0/24"
        );
        assert_eq!(
            holds_for(Some("198.51.100.0/24"), "192.0.2.7"),
            "192.0.2.7/32"
        );
        assert_eq!(holds_for(Some("::/0"), "192.0.2.7"), "192.0.2.7/32");
        assert_eq!(holds_for(Some("::/0"), "2001:db8::7"), "2000::/3");
        assert_eq!(holds_for(Some("0.0.0.0/0"), "192.0.2.7"), "0.0.0.0/0");
        let named = ANSWER.replace(r#""path""#, r#""prefix":"192.0.2.0/24","path""#);
        let answer: Answer = serde_json::from_str(&named).unwrap();
        assert_eq!(
            serde_json::to_value(&answer).unwrap()["prefix"],
            "192.0.2.0/24"
        );
        let wrong = named.replace(".0/24", ".7/24");
        let error = serde_json::from_str::<Answer>(&wrong)
            .unwrap_err()
            .to_string();
        assert!(error.contains("which is 192.0.2.0/24"), "{error}");
    }

    #[test]
    fn a_mode_beside_the_thesis_two_is_a_field_of_its_own() {
        let mut answer: Answer = serde_json::from_str(ANSWER).unwrap();
        answer.advice.mode = Mode::Background;
        let written = serde_json::to_value(&answer).unwrap();
        assert_eq!(written["mode"], "congestion-control");
        assert_eq!(written["full_mode"], "background");
        assert_eq!(serde_json::from_value::<Answer>(written).unwrap(), answer);
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

    #[test]
    fn what_a_reporter_does_not_know_is_left_out() {
        let mut report = TransferReport {
            host: "192.0.2.7".to_owned(),
            bytes: 1_000,
            seconds: 2.0,
            retransmits: None,
            rtt_ms: None,
            limited: None,
            direction: Direction::Received,
        };
        assert_eq!(
            serde_json::to_string(&report).unwrap(),
            r#"{"host":"192.0.2.7","bytes":1000,"seconds":2.0,"direction":"received"}"#
        );
        report.retransmits = Some(3);
        report.rtt_ms = Some(50.0);
        report.limited = Some(Limited {
            network_s: 1.5,
            receiver_s: 0.25,
            sender_s: 0.25,
        });
        report.direction = Direction::Sent;
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(
            json,
            concat!(
                r#"{"host":"192.0.2.7","bytes":1000,"seconds":2.0,"retransmits":3,"rtt_ms":50.0,"#,
                r#""limited":{"network_s":1.5,"receiver_s":0.25,"sender_s":0.25},"direction":"sent"}"#,
            )
        );
        assert_eq!(
            serde_json::from_str::<TransferReport>(&json).unwrap(),
            report
        );
    }

    #[test]
    fn a_direction_is_stored_by_its_name_on_the_wire() {
        for direction in [Direction::Sent, Direction::Received] {
            assert_eq!(serde_json::json!(direction), direction.name());
            assert_eq!(Direction::named(direction.name()), Some(direction));
        }
        assert_eq!(Direction::named("lost"), None);
    }
}
