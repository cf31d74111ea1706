//! What `fairwind get --json` and `copy --json` say of a transfer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A transfer's report, with what this program adds to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// As the command printed it.
    pub transfer: Value,
    /// Its warnings.
    pub warnings: Vec<String>,
    /// The day of the transfer.
    pub day: String,
    /// The digest of the program that made it.
    pub program: String,
}

/// A change of the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Change {
    /// When, seconds after the start.
    pub seconds: f64,
    /// To how many bytes.
    pub bytes: f64,
    /// The estimates that were the reason: of the bandwidth, Mbit/s, and of the round-trip time, milliseconds.
    pub mbps: f64,
    pub rtt_ms: f64,
}

impl Report {
    /// A number of the report.
    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        self.transfer[key].as_f64()
    }

    /// The rate, Mbit/s.
    pub(crate) fn mbps(&self) -> f64 {
        self.number("mbps").unwrap_or(f64::NAN)
    }

    /// The receive buffer as it was asked for, MB: half of what the kernel says; of right-sizing the mean.
    pub(crate) fn buffer_mb(&self) -> f64 {
        let of_kernel = || self.number("receive_buffer").map(|bytes| bytes / 2.0);
        let bytes = self.number("drs_mean_buffer_bytes").or_else(of_kernel);
        bytes.unwrap_or(f64::NAN) / 1e6
    }

    /// The changes of the receive buffer.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let changes = self.transfer["changes"].as_array();
        let changes = changes.into_iter().flatten();
        let of_buffer = changes.filter(|change| change["what"] == "receive buffer");
        let read = |change: &Value| {
            let (mbps, rtt) = change["reason"]
                .as_str()?
                .split_once(" Mbit/s in a round trip of ")?;
            Some(Change {
                seconds: change["seconds"].as_f64()?,
                bytes: match &change["to"] {
                    Value::String(text) => text.parse().ok()?,
                    number => number.as_f64()?,
                },
                mbps: mbps.parse().ok()?,
                rtt_ms: rtt.split(' ').next()?.parse().ok()?,
            })
        };
        of_buffer.filter_map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(transfer: Value) -> Report {
        Report {
            transfer,
            warnings: Vec::new(),
            day: "2026-11-22".to_owned(),
            program: String::new(),
        }
    }

    #[test]
    fn right_sizing_counts_with_its_mean_buffer_and_others_with_half_of_the_kernels() {
        let fixed = report(json!({ "mbps": 6.4, "receive_buffer": 131_072 }));
        assert_eq!(fixed.buffer_mb(), 0.065_536);
        let sized = report(json!({ "receive_buffer": 9e6, "drs_mean_buffer_bytes": 4e6 }));
        assert_eq!(sized.buffer_mb(), 4.0);
    }

    #[test]
    fn only_changes_of_the_receive_buffer_are_its_changes() {
        let report = report(json!({ "changes": [
            { "what": "congestion control", "to": "nocc", "reason": "advice", "seconds": 0.1 },
            { "what": "receive buffer", "to": "262144", "reason": "8.5 Mbit/s in a round trip of 100.4 ms", "seconds": 0.4 },
        ] }));
        let expected = Change {
            seconds: 0.4,
            bytes: 262_144.0,
            mbps: 8.5,
            rtt_ms: 100.4,
        };
        assert_eq!(report.changes(), [expected]);
    }
}
