//! How the modelled stacks differ: a question for each difference.

use fairwind_cc::native::TCP_INIT_CWND;
use fairwind_path::units::Duration;

use super::constants::RTO_INITIAL;
use crate::scenario::Stack;

/// Initial retransmission timeout at the time of the papers (RFC 2988, section 2.1).
const CLASSIC_RTO_INITIAL: Duration = Duration::from_secs(3);
/// Initial window at the time of the papers, segments (RFC 2581).
const CLASSIC_INITIAL_CWND: u32 = 2;
/// `tcp_syn_linear_timeouts`: the number of SYN timeouts without back-off.
const SYN_LINEAR_TIMEOUTS: u8 = 4;

/// What both ends do.
impl Stack {
    /// Jiffies per second of the kernel whose timer wheel is modelled, from the configured `hz`;
    /// `None` if timers are never late.
    pub(super) fn wheel_hz(self, hz: Option<u32>) -> Option<u32> {
        hz.filter(|_| self.is_linux_6())
    }

    #[inline]
    fn is_linux_6(self) -> bool {
        self == Stack::Linux
    }
}

/// What senders do.
impl Stack {
    /// Initial window, segments.
    pub(super) fn initial_cwnd(self) -> u32 {
        match self {
            Stack::Linux => TCP_INIT_CWND,
            Stack::Classic2005 => CLASSIC_INITIAL_CWND,
        }
    }

    /// Retransmission timeout before the first measurement.
    pub(super) fn rto_initial(self) -> Duration {
        match self {
            Stack::Linux => RTO_INITIAL,
            Stack::Classic2005 => CLASSIC_RTO_INITIAL,
        }
    }

    /// How many SYN timeouts do not back off.
    pub(super) fn linear_syn_timeouts(self) -> u8 {
        match self {
            Stack::Linux => SYN_LINEAR_TIMEOUTS,
            Stack::Classic2005 => 0,
        }
    }

    /// Whether segmentation is left to the device, which sets PSH on the last segment of a burst
    /// (TSO).
    #[inline]
    pub(super) fn offloads_segmentation(self) -> bool {
        self.is_linux_6()
    }

    /// Whether the congestion control adapts the window only after losses have been marked
    /// (`tcp_cong_control`). Linux 2.4 adapts it before.
    #[inline]
    pub(super) fn marks_losses_first(self) -> bool {
        self.is_linux_6()
    }

    /// Whether losses are found by time (RACK, RFC 8985). Linux 2.4 counts the segments delivered
    /// beyond a hole (forward acknowledgement).
    #[inline]
    pub(super) fn detects_losses_by_time(self) -> bool {
        self.is_linux_6()
    }

    /// Whether tail loss probes are sent (RFC 8985, section 7).
    #[inline]
    pub(super) fn probes_tail_losses(self) -> bool {
        self.is_linux_6()
    }

    /// Whether new data is sent after a timeout to find out whether it was spurious (F-RTO, RFC
    /// 5682).
    pub(super) fn has_frto(self) -> bool {
        self.is_linux_6()
    }

    /// Whether the window is reduced in proportion to what is delivered (PRR, RFC 6937). Linux 2.4
    /// takes one segment off it with every second acknowledgement (rate halving).
    pub(super) fn reduces_proportionally(self) -> bool {
        self.is_linux_6()
    }

    /// Whether the window is bound to what is in flight while data is out of order
    /// (`tcp_moderate_cwnd`).
    pub(super) fn moderates_cwnd(self) -> bool {
        !self.is_linux_6()
    }

    /// The window after a retransmission timeout, segments, when what is lost has been marked.
    pub(super) fn cwnd_after_timeout(self, in_flight: u32) -> u32 {
        match self {
            Stack::Linux => in_flight + 1,
            Stack::Classic2005 => 1,
        }
    }
}

/// What receivers do.
impl Stack {
    /// Whether the window follows from the memory that full segments take (`tcp_measure_rcv_mss`).
    pub(super) fn measures_overhead(self) -> bool {
        self.is_linux_6()
    }

    /// Whether a segment with PSH is acknowledged at once.
    #[inline]
    pub(super) fn heeds_push(self) -> bool {
        self.is_linux_6()
    }

    /// Whether an acknowledgement that fills a hole leaves out the space of data not read yet.
    pub(super) fn withholds_unread_space(self) -> bool {
        self.is_linux_6()
    }

    /// Whether selective acknowledgements are compressed: several are held back for one.
    pub(super) fn compresses_acks(self) -> bool {
        self.is_linux_6()
    }
}
