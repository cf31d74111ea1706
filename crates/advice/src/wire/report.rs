//! The result of a transfer, reported to the advisor.

use serde::{Deserialize, Serialize};

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
