//! A connection as its congestion control sees it: the structures of `cc/include/fairwind/native.h` in
//! Rust.
//!
//! Names and units are the kernel's. [`TcpSock`] is flat where C nests `struct sock` in
//! `struct inet_connection_sock` in `struct tcp_sock`; the layout in memory is the same.

use super::advised::AdvisedPath;
use super::shared::SharedState;

/// Congestion states, the kernel's `enum tcp_ca_state`.
pub mod ca_state {
    /// Normal operation.
    pub const OPEN: u8 = 0;
    /// Duplicate or selective acknowledgements, but no loss yet.
    pub const DISORDER: u8 = 1;
    /// The window is being reduced for a reason other than loss.
    pub const CWR: u8 = 2;
    /// Fast recovery.
    pub const RECOVERY: u8 = 3;
    /// After a retransmission timeout.
    pub const LOSS: u8 = 4;
}

/// Events, the kernel's `enum tcp_ca_event`.
pub mod ca_event {
    /// First transmission with no packet in flight.
    pub const TX_START: u32 = 0;
    /// The window was reset after an idle time.
    pub const CWND_RESTART: u32 = 1;
    /// A reduction of the window has ended.
    pub const COMPLETE_CWR: u32 = 2;
    /// Retransmission timeout.
    pub const LOSS: u32 = 3;
    /// A packet without a CE mark arrived.
    pub const ECN_NO_CE: u32 = 4;
    /// A packet with a CE mark arrived.
    pub const ECN_IS_CE: u32 = 5;
}

/// `snd_ssthresh` before the first reduction.
pub const TCP_INFINITE_SSTHRESH: u32 = 0x7fff_ffff;
/// Initial window, packets (RFC 6928).
pub const TCP_INIT_CWND: u32 = 10;
/// `sk_pacing_status`: no pacing.
pub const PACING_NONE: u32 = 0;
/// `sk_pacing_status`: TCP paces.
pub const PACING_NEEDED: u32 = 1;
/// `sk_pacing_status`: the `fq` queueing discipline paces.
pub const PACING_FQ: u32 = 2;
/// `sk_gso_max_size` of an IPv4 connection over Ethernet: 65,536 without room for the headers.
pub const GSO_MAX_SIZE: u32 = 65_536 - 321;
/// Maximum number of parameters of a control.
pub const PARAMETERS_MAX: usize = 8;
/// Size of a control's state for each connection, in words of 8 bytes.
pub const CA_PRIV_WORDS: usize = 13;

/// A connection as its congestion control sees it.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpSock {
    /// Pacing rate, bytes per second; `u64::MAX`: none. Written by controls.
    pub sk_pacing_rate: u64,
    /// `SO_MAX_PACING_RATE`, bytes per second; `u64::MAX`: none.
    pub sk_max_pacing_rate: u64,
    /// [`PACING_NONE`], [`PACING_NEEDED`] or [`PACING_FQ`]. Written by controls.
    pub sk_pacing_status: u32,
    /// Jiffies per second.
    pub hz: u32,
    /// The clock, nanoseconds (`bpf_ktime_get_ns`).
    pub now_ns: u64,
    /// The clock in units of 1/`hz` seconds (`tcp_jiffies32`); wraps.
    pub jiffies: u32,
    /// The control's parameters, set by [`Control::init`](super::Control::init).
    pub parameters: [u32; PARAMETERS_MAX],
    /// Size of the largest burst handed to the network at once, bytes.
    pub sk_gso_max_size: u32,
    /// What the control shares with its other connections between the same two hosts.
    pub cc_shared: SharedState,
    /// What the connection is advised of its path.
    pub cc_advised: AdvisedPath,

    /// One of [`ca_state`].
    pub icsk_ca_state: u8,
    /// Consecutive retransmission timeouts.
    pub icsk_retransmits: u8,
    /// The control's state, zero at `init`. Written by controls.
    pub icsk_ca_priv: [u64; CA_PRIV_WORDS],

    /// Congestion window, packets. Written by controls.
    pub snd_cwnd: u32,
    /// Packets acknowledged since the window grew. Written by controls.
    pub snd_cwnd_cnt: u32,
    /// When the window was last changed or found fully used, jiffies. Written by controls.
    pub snd_cwnd_stamp: u32,
    /// Slow-start threshold, packets. Written by controls.
    pub snd_ssthresh: u32,
    /// Upper limit of the window, packets.
    pub snd_cwnd_clamp: u32,
    /// Maximum number of packets in flight since the window was validated.
    pub snd_cwnd_used: u32,
    /// Window before the latest reduction, packets.
    pub prior_cwnd: u32,
    /// Packets delivered since the latest reduction began.
    pub prr_delivered: u32,
    /// Packets sent since the latest reduction began.
    pub prr_out: u32,
    /// Maximum number of packets in flight in the latest window.
    pub max_packets_out: u32,
    /// `snd_nxt` at which `max_packets_out` and `is_cwnd_limited` are restarted.
    pub cwnd_usage_seq: u32,
    /// Packets sent and not yet cumulatively acknowledged.
    pub packets_out: u32,
    /// Packets acknowledged selectively.
    pub sacked_out: u32,
    /// Packets marked lost.
    pub lost_out: u32,
    /// Packets retransmitted and not yet acknowledged.
    pub retrans_out: u32,
    /// Eight times the smoothed round-trip time, microseconds; 0: none yet.
    pub srtt_us: u32,
    /// Four times the mean deviation of the round-trip time, microseconds.
    pub mdev_us: u32,
    /// Four times the smoothed maximum deviation, microseconds.
    pub rttvar_us: u32,
    /// Minimum round-trip time of the last five minutes, microseconds; `u32::MAX`: none.
    pub rtt_min_us: u32,
    /// Packets delivered since the start.
    pub delivered: u32,
    /// Packets delivered with a CE mark since the start.
    pub delivered_ce: u32,
    /// Packets marked lost since the start.
    pub lost: u32,
    /// `delivered` at which the connection is no longer limited by the application; 0: not limited.
    pub app_limited: u32,
    /// First unacknowledged sequence number.
    pub snd_una: u32,
    /// Next sequence number to send.
    pub snd_nxt: u32,
    /// One past the last byte in the send buffer, a sequence number.
    pub write_seq: u32,
    /// `snd_nxt` when the latest reduction began.
    pub high_seq: u32,
    /// Payload of a full packet, bytes.
    pub mss_cache: u32,
    /// The receiver's window, bytes.
    pub snd_wnd: u32,
    /// When the latest data packet was sent, jiffies.
    pub lsndtime: u32,
    /// 1 if the congestion window limited sending in the latest window, else 0.
    pub is_cwnd_limited: u32,
    /// The peer's clock in its latest timestamp option (`rx_opt.rcv_tsval`), milliseconds; 0: none.
    pub rcv_tsval: u32,
    /// How often packets have overtaken others.
    pub reord_seen: u32,
    /// Payload acknowledged since the start, bytes.
    pub bytes_acked: u64,
    /// The clock at the latest packet received or sent, microseconds.
    pub tcp_mstamp: u64,
    /// When the first packet of the latest rate sample was sent, microseconds.
    pub first_tx_mstamp: u64,
    /// When `delivered` last grew, microseconds.
    pub delivered_mstamp: u64,
    /// Packets delivered in `rate_interval_us`: the latest delivery rate not limited by the application, or a
    /// higher one that was.
    pub rate_delivered: u32,
    /// As above, microseconds; 0: none yet.
    pub rate_interval_us: u32,
}

impl Default for TcpSock {
    /// A newly opened connection: initial window, no ssthresh, no pacing, 1448-byte packets, 1000 jiffies
    /// per second.
    fn default() -> Self {
        TcpSock {
            sk_pacing_rate: u64::MAX,
            sk_max_pacing_rate: u64::MAX,
            sk_pacing_status: PACING_NONE,
            hz: 1000,
            now_ns: 0,
            jiffies: 0,
            parameters: [0; PARAMETERS_MAX],
            sk_gso_max_size: GSO_MAX_SIZE,
            cc_shared: SharedState::default(),
            cc_advised: AdvisedPath::default(),
            icsk_ca_state: ca_state::OPEN,
            icsk_retransmits: 0,
            icsk_ca_priv: [0; CA_PRIV_WORDS],
            snd_cwnd: TCP_INIT_CWND,
            snd_cwnd_cnt: 0,
            snd_cwnd_stamp: 0,
            snd_ssthresh: TCP_INFINITE_SSTHRESH,
            snd_cwnd_clamp: u32::MAX,
            snd_cwnd_used: 0,
            prior_cwnd: 0,
            prr_delivered: 0,
            prr_out: 0,
            max_packets_out: 0,
            cwnd_usage_seq: 0,
            packets_out: 0,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            srtt_us: 0,
            mdev_us: 0,
            rttvar_us: 0,
            rtt_min_us: u32::MAX,
            delivered: 0,
            delivered_ce: 0,
            lost: 0,
            app_limited: 0,
            snd_una: 0,
            snd_nxt: 0,
            write_seq: 0,
            high_seq: 0,
            mss_cache: 1448,
            snd_wnd: 0,
            lsndtime: 0,
            is_cwnd_limited: 0,
            rcv_tsval: 0,
            reord_seen: 0,
            bytes_acked: 0,
            tcp_mstamp: 0,
            first_tx_mstamp: 0,
            delivered_mstamp: 0,
            rate_delivered: 0,
            rate_interval_us: 0,
        }
    }
}

/// A sample of the delivery rate at an acknowledgement: the kernel's `struct rate_sample`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// Start of the interval, microseconds; 0: no sample.
    pub prior_mstamp: u64,
    /// `delivered` at the start of the interval.
    pub prior_delivered: u32,
    /// `delivered_ce` at the start of the interval.
    pub prior_delivered_ce: u32,
    /// Packets delivered in the interval; negative: unknown.
    pub delivered: i32,
    /// Packets delivered with a CE mark in the interval.
    pub delivered_ce: i32,
    /// Length of the interval, microseconds; negative: unknown.
    pub interval_us: i64,
    /// Length of the interval by the times of sending, microseconds.
    pub snd_interval_us: u32,
    /// Length of the interval by the arrival of acknowledgements, microseconds.
    pub rcv_interval_us: u32,
    /// Round-trip time of the latest packet acknowledged, microseconds; negative: none.
    pub rtt_us: i64,
    /// Packets marked lost by this acknowledgement.
    pub losses: i32,
    /// Packets newly acknowledged, cumulatively or selectively.
    pub acked_sacked: u32,
    /// Packets in flight before this acknowledgement.
    pub prior_in_flight: u32,
    /// End of the latest packet acknowledged, a sequence number.
    pub last_end_seq: u32,
    /// The application limited the rate.
    pub is_app_limited: bool,
    /// The sample comes from a retransmission.
    pub is_retrans: bool,
    /// The receiver probably delayed the acknowledgement.
    pub is_ack_delayed: bool,
}

/// The argument of `pkts_acked`: the kernel's `struct ack_sample`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckSample {
    /// Packets newly acknowledged.
    pub pkts_acked: u32,
    /// Round-trip time, microseconds; negative: none.
    pub rtt_us: i32,
    /// Bytes delivered while the latest packet acknowledged was in flight.
    pub in_flight: u32,
}
