//! What an engine records while it runs: the instruments of every flow and the state of every link.
//!
//! [`series::ParquetRecorder`](crate::series::ParquetRecorder) writes it to files; [`NoRecorder`]
//! is for runs of which only the totals matter.

/// Receives samples. Times never decrease within a flow or a link.
pub trait Recorder {
    /// Whether samples are kept at all; if not, an engine need not take any.
    fn records(&self) -> bool {
        true
    }

    /// Whether a sample could not be written, which makes the run useless, so that it may stop.
    fn failed(&self) -> bool {
        false
    }

    /// Records the instruments of one connection of the flow with this index in the result.
    fn flow(&mut self, flow: usize, sample: &FlowSample);

    /// Records the state of the link (one direction) with this index in the result.
    fn link(&mut self, link: usize, sample: &LinkSample);
}

/// Discards all samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRecorder;

impl Recorder for NoRecorder {
    fn records(&self) -> bool {
        false
    }

    fn flow(&mut self, _flow: usize, _sample: &FlowSample) {}

    fn link(&mut self, _link: usize, _sample: &LinkSample) {}
}

/// Congestion state of a sender, numbered like the kernel's `tcpi_ca_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum CongestionState {
    /// No sign of congestion.
    #[default]
    Open = 0,
    /// Duplicate ACKs or SACKs, but no loss yet.
    Disorder = 1,
    /// The window was reduced for a reason other than loss.
    Cwr = 2,
    /// Fast recovery.
    Recovery = 3,
    /// After a retransmission timeout.
    Loss = 4,
}

/// A connection's instruments at one moment, under their RFC 4898 names in snake case. `None` means
/// not yet measured, or unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowSample {
    /// Time since the start of the run, nanoseconds.
    pub time_ns: u64,
    /// Number of the connection in the flow, from 0.
    pub connection: u32,
    /// Congestion window, bytes.
    pub cur_cwnd: u64,
    /// Slow-start threshold, bytes; `None` before the first reduction.
    pub cur_ssthresh: Option<u64>,
    /// Smoothed round-trip time, microseconds.
    pub smoothed_rtt_us: Option<u32>,
    /// Retransmission timeout, microseconds.
    pub cur_rto_us: u32,
    /// Latest round-trip time, microseconds.
    pub sample_rtt_us: Option<u32>,
    /// Smallest round-trip time, microseconds.
    pub min_rtt_us: Option<u32>,
    /// Mean deviation of the round-trip time as used for the retransmission timeout, microseconds.
    pub rtt_var_us: u32,
    /// Data in flight, bytes.
    pub pipe_size: u64,
    /// Receiver's window, bytes.
    pub cur_rwin_rcvd: u64,
    /// Payload acknowledged, bytes.
    pub hc_thru_octets_acked: u64,
    /// Retransmitted segments.
    pub segs_retrans: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Reductions of the congestion window.
    pub cong_signals: u64,
    /// Receive buffer, bytes.
    pub cur_receive_buffer: u64,
    /// Time limited by the receiver's window, microseconds.
    pub snd_lim_time_rwin_us: u64,
    /// Time limited by the congestion window, microseconds.
    pub snd_lim_time_cwnd_us: u64,
    /// Time limited by the sender, microseconds.
    pub snd_lim_time_snd_us: u64,
    /// Pacing rate, bytes per second; `None` without pacing.
    pub pacing_rate: Option<u64>,
    /// Delivery rate, bytes per second.
    pub delivery_rate: u64,
    /// Congestion state.
    pub congestion_state: CongestionState,
    /// Payload delivered in order to the receiving application, bytes.
    pub bytes_received: u64,
}

/// The state of one direction of a link at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSample {
    /// Time since the start of the run, nanoseconds.
    pub time_ns: u64,
    /// Packets waiting or being transmitted.
    pub queue_packets: u64,
    /// Their bytes.
    pub queue_bytes: u64,
    /// Packets dropped or lost since the start.
    pub drops: u64,
    /// Bytes that have left since the start.
    pub bytes: u64,
}
