//! A call of a congestion control's hook: what the hook could read, and what it did.

use fairwind_cc::native::AckSample;

/// Which hook, its arguments, and what the kernel's returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// The connection takes the control.
    Init,
    /// An ACK acknowledged packets. The kernel's reno has no such hook; the call is recorded all the
    /// same, as it marks the ACK, but without a round-trip time.
    PktsAcked(AckSample),
    /// An ACK may raise the window.
    CongAvoid {
        /// What is acknowledged.
        ack: u32,
        /// Packets newly acknowledged.
        acked: u32,
    },
    /// The threshold after a loss.
    Ssthresh {
        /// Packets, by the kernel.
        returned: u32,
    },
    /// The window after a loss that was none.
    UndoCwnd {
        /// Packets, by the kernel.
        returned: u32,
    },
    /// The congestion state becomes another; one of `fairwind_cc::native::ca_state`.
    SetState(u8),
    /// One of `fairwind_cc::native::ca_event`.
    CwndEvent(u32),
}

/// What a control decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// `snd_cwnd`, packets.
    pub cwnd: u32,
    /// `snd_cwnd_cnt`, packets acknowledged since the window grew.
    pub cwnd_cnt: u32,
    /// `snd_ssthresh`, packets.
    pub ssthresh: u32,
}

/// A call. Fields of the connection have the kernel's names and units, see
/// `fairwind_cc::native::TcpSock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which hook.
    pub hook: Hook,
    /// Before the call.
    pub before: Window,
    /// When the kernel's function had returned.
    pub after: Window,
    /// The clock of the connection, microseconds.
    pub tcp_mstamp: u64,
    /// The clock just before the call, jiffies.
    pub jiffies: u32,
    /// Jiffies that passed during the call; the kernel's function may have seen either.
    pub ticks: u32,
    /// Bytes a second in slow start; 0 outside of it, where nobody reads it.
    pub sk_pacing_rate: u64,
    /// `sk_pacing_status`.
    pub sk_pacing_status: u32,
    /// Bytes in the largest burst.
    pub sk_gso_max_size: u32,
    /// The congestion state.
    pub icsk_ca_state: u8,
    /// 0 or 1.
    pub is_cwnd_limited: u32,
    /// Packets.
    pub snd_cwnd_clamp: u32,
    /// Packets.
    pub prior_cwnd: u32,
    /// Packets.
    pub max_packets_out: u32,
    /// Sequence number.
    pub snd_una: u32,
    /// Sequence number.
    pub snd_nxt: u32,
    /// Sequence number.
    pub high_seq: u32,
    /// Jiffies.
    pub lsndtime: u32,
    /// Packets sent again and not acknowledged.
    pub retrans_out: u32,
    /// Packets taken for lost since the start.
    pub lost: u32,
}

impl Hook {
    /// The hook of this number in the recorder, with these arguments or this returned value; none if
    /// there is none.
    pub(crate) fn from_numbers(number: u32, arguments: [u32; 3], returned: u32) -> Option<Hook> {
        let [first, second, third] = arguments;
        Some(match number {
            0 => Hook::Init,
            1 => Hook::PktsAcked(AckSample {
                pkts_acked: first,
                rtt_us: second as i32,
                in_flight: third,
            }),
            2 => Hook::CongAvoid {
                ack: first,
                acked: second,
            },
            3 => Hook::Ssthresh { returned },
            4 => Hook::UndoCwnd { returned },
            5 => Hook::SetState(u8::try_from(first).ok()?),
            6 => Hook::CwndEvent(first),
            _ => return None,
        })
    }
}
