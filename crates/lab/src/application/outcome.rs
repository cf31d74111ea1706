//! What the applications have done.

use std::fmt;

use fairwind_path::units::Duration;

/// The totals of a flow after the warm-up, as the simulator counts them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowOutcome {
    /// Payload bytes delivered in order to the receiving application after the warm-up; of programs,
    /// over their TCP connections between the two hosts, in both directions.
    pub bytes: u64,
    /// The same in each whole second after the warm-up (or the flow's start, if later) until its
    /// completion or the end of the run.
    pub bytes_per_second: Vec<u64>,
    /// The time in which `bytes` were delivered: from the later of warm-up and start to completion
    /// or the end of the run.
    pub active: Duration,
    /// From start to the delivery of the last byte, if the flow has a last byte and it arrived; of
    /// programs, to the end of a client that succeeded.
    pub completion: Option<Duration>,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts; 0 where the kernel does not count them (before Linux 6.7).
    pub timeouts: u64,
    /// Smallest round-trip time, if any was measured.
    pub rtt_min: Option<Duration>,
    /// Datagrams or segments of data sent.
    pub packets_sent: u64,
    /// Web objects delivered whole.
    pub objects: u64,
    /// Datagrams that this machine was too late to send and did not, rather than send them in a
    /// burst; they are not among `packets_sent`.
    pub datagrams_skipped: u64,
    /// Datagrams that arrived and found no room, because this machine was too late to read them.
    pub datagrams_unread: u64,
    /// What went wrong first, if anything did.
    pub failure: Option<String>,
    /// Changes of the congestion control that took place: when, from the start of the run, and to
    /// which.
    pub switched: Vec<(Duration, String)>,
}

/// Something that went wrong in a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Index of the flow among the plans.
    pub flow: usize,
    /// What happened, in a sentence that names the flow's host, port or program.
    pub text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
