//! What a transfer of our own found out about its path.

use serde::{Deserialize, Serialize};

/// Which way the data went, seen from the host beside the advisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To the other host.
    Sent,
    /// From the other host.
    Received,
}

/// What kept a transfer from going faster, and for how long: what RFC 4898 counts as SndLimTimeCwnd,
/// SndLimTimeRwin and SndLimTimeSnd, and Linux in `TCP_INFO`. Only the sender knows it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limited {
    /// The network: the congestion window was full, or losses were sent again; seconds.
    pub network_s: f64,
    /// The receiver's window, seconds.
    pub receiver_s: f64,
    /// The sender: its buffer, its application, or a rate that it was told to keep; seconds.
    pub sender_s: f64,
}

/// The result of a transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Address or name of the other host.
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
    /// What kept it from going faster, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<Limited>,
    /// Which way the data went.
    pub direction: Direction,
}
