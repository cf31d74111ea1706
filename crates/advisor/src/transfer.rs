//! What our own transfers tell of their paths.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which way the data went, seen from the host beside the advisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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

/// The result of a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferReport {
    /// Address or name of the other host.
    #[schema(example = "192.0.2.7")]
    pub host: String,
    /// Payload that arrived, bytes.
    pub bytes: u64,
    /// How long that took, seconds.
    pub seconds: f64,
    /// Segments that were sent again, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Smallest round-trip time that the connection saw, milliseconds, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Which way the data went.
    pub direction: Direction,
}

/// Transfers shorter than this say more about slow start than about the path, seconds.
pub const TELLING_SECONDS: f64 = 2.0;

impl TransferReport {
    /// What is wrong with the report.
    pub fn check(&self) -> Result<(), String> {
        if !(self.seconds.is_finite() && self.seconds > 0.0) {
            return Err("seconds must be a number above 0".to_owned());
        }
        if self
            .rtt_ms
            .is_some_and(|rtt| !(rtt.is_finite() && rtt > 0.0))
        {
            return Err("rtt_ms must be a number above 0".to_owned());
        }
        let control = self.host.chars().any(char::is_control);
        if self.host.is_empty() || self.host.len() > 255 || control {
            return Err("host must be an address or a name".to_owned());
        }
        Ok(())
    }

    /// Average throughput, Mbit/s.
    pub fn throughput_mbps(&self) -> f64 {
        self.bytes as f64 * 8e-6 / self.seconds
    }

    /// The bandwidth that the path had for us, Mbit/s, where the transfer was long enough to tell.
    pub fn available_mbps(&self) -> Option<f64> {
        (self.seconds >= TELLING_SECONDS).then(|| self.throughput_mbps())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(bytes: u64, seconds: f64) -> TransferReport {
        TransferReport {
            host: "192.0.2.7".to_owned(),
            bytes,
            seconds,
            retransmits: None,
            rtt_ms: None,
            direction: Direction::Sent,
        }
    }

    #[test]
    fn only_long_transfers_tell_of_the_path() {
        assert_eq!(report(100_000_000, 8.0).available_mbps(), Some(100.0));
        assert_eq!(report(100_000, 0.1).available_mbps(), None);
    }

    #[test]
    fn a_report_without_a_time_is_refused() {
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(report(1, seconds).check().is_err(), "{seconds}");
        }
        assert!(report(0, 1.0).check().is_ok());
    }
}
