//! Results of the applications.

use std::fmt;

use fairwind_path::units::{Duration, Time};
use fairwind_workload::Meter;

use super::counts::Counts;

/// The totals of a flow after the warm-up, as the simulator counts them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowOutcome {
    /// Payload bytes delivered in order to the receiving application after the warm-up; for
    /// programs, over the TCP connections between their two hosts, in both directions.
    pub bytes: u64,
    /// The same for each whole second after the warm-up (or the flow's start, if later) until its
    /// completion or the end of the run.
    pub bytes_per_second: Vec<u64>,
    /// The time in which `bytes` were delivered: from the later of warm-up and start to completion
    /// or the end of the run.
    pub active: Duration,
    /// From start to the delivery of the last byte, if the flow has a last byte and it arrived; for
    /// programs, to the successful exit of the client.
    pub completion: Option<Duration>,
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Retransmission timeouts; 0 where the kernel does not count them (before Linux 6.7).
    pub timeouts: u64,
    /// Segments delivered while the receiver echoed a mark (ECN).
    pub ecn_signals: u64,
    /// Smallest round-trip time, if any was measured.
    pub rtt_min: Option<Duration>,
    /// Datagrams or data segments sent.
    pub packets_sent: u64,
    /// How long each web object that was delivered took, from the opening of its connection to the delivery of its
    /// last byte; a finished transfer counts as one.
    pub object_times: Vec<Duration>,
    /// Datagrams skipped because this machine was late, instead of sending them in a burst; not
    /// included in `packets_sent`.
    pub datagrams_skipped: u64,
    /// Datagrams dropped on arrival because this machine was too late to read the socket.
    pub datagrams_unread: u64,
    /// The first failure, if any.
    pub failure: Option<String>,
    /// Changes of the congestion control that took place: the time since the start of the run, and
    /// the new name.
    pub switched: Vec<(Duration, String)>,
}

impl FlowOutcome {
    /// Sets what the sender knows.
    pub(super) fn set_sent(&mut self, counts: Counts, switched: Vec<(Duration, String)>) {
        self.retransmits = counts.retransmits;
        self.timeouts = counts.timeouts;
        self.ecn_signals = counts.ecn_signals;
        self.packets_sent = counts.packets;
        self.rtt_min = counts.rtt_min;
        self.switched = switched;
    }

    /// Sets what the receiver knows of a flow that began after `start` and was complete at
    /// `complete_at`, if at all; the run was over at `over`.
    pub(super) fn set_delivered(
        &mut self,
        meter: Meter,
        start: Duration,
        complete_at: Option<Time>,
        over: Time,
    ) {
        let delivered = meter.finish(complete_at.unwrap_or(over));
        (self.bytes, self.bytes_per_second, self.active) = delivered;
        self.completion = complete_at.map(|at| at - (Time::ZERO + start));
    }
}

/// Something that went wrong in a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Index of the flow among the plans.
    pub flow: usize,
    /// A sentence that names the flow's host, port or program.
    pub text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
