//! The result of a transfer, reported to the advisor as a measurement of its path.

use serde::{Deserialize, Serialize};

/// The direction of the data, as seen from the reporting host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To the peer.
    Sent,
    /// From the peer.
    Received,
}

/// What limited a transfer, and for how long: SndLimTimeCwnd, SndLimTimeRwin and SndLimTimeSnd of RFC
/// 4898, which Linux reports in `TCP_INFO`. Known only to the sender.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
pub struct Transfer {
    /// Address or name of the peer.
    pub host: String,
    /// Payload delivered, bytes.
    pub bytes: u64,
    /// Duration, seconds.
    pub seconds: f64,
    /// Number of retransmitted segments, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Minimum round-trip time of the connection, milliseconds, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// What limited the transfer, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<Limited>,
    /// The direction of the data.
    pub direction: Direction,
}
