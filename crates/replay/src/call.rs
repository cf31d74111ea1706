//! A call of a congestion control's hook: what the hook could read, and what it did.

use fairwind_cc::native::AckSample;
use zerocopy::FromBytes;

/// The hook, its arguments, and what the kernel's function returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// The connection starts to use the congestion control.
    Init,
    /// An ACK acknowledged packets. The kernel's reno has no such hook; the call is recorded
    /// nevertheless, as it marks the ACK, but without a round-trip time.
    PktsAcked(AckSample),
    /// An ACK may increase the window.
    CongAvoid {
        /// The acknowledged sequence number.
        ack: u32,
        /// Packets newly acknowledged.
        acked: u32,
    },
    /// The congestion control chooses the threshold after a loss.
    Ssthresh {
        /// The kernel's threshold, packets.
        returned: u32,
    },
    /// The congestion control restores the window after a spurious loss.
    UndoCwnd {
        /// The kernel's window, packets.
        returned: u32,
    },
    /// The congestion state changes to this one of `fairwind_cc::native::ca_state`.
    SetState(u8),
    /// An event: one of `fairwind_cc::native::ca_event`.
    CwndEvent(u32),
}

/// What a congestion control decides, in the layout of `struct window` of `bpf/recorder.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes)]
pub struct Window {
    /// `snd_cwnd`, packets.
    pub cwnd: u32,
    /// `snd_cwnd_cnt`, packets acknowledged since the window grew.
    pub cwnd_cnt: u32,
    /// `snd_ssthresh`, packets.
    pub ssthresh: u32,
}

/// A call of a hook. Fields of the connection have the kernel's names and units; see
/// `fairwind_cc::native::TcpSock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The hook, with its arguments.
    pub hook: Hook,
    /// The window before the call.
    pub before: Window,
    /// The window after the kernel's function returned.
    pub after: Window,
    /// The connection's clock, microseconds.
    pub tcp_mstamp: u64,
    /// The jiffies clock just before the call.
    pub jiffies: u32,
    /// Jiffies that passed during the call; the kernel's function may have seen either value.
    pub ticks: u32,
    /// Bytes per second in slow start; 0 otherwise, when nothing reads it.
    pub sk_pacing_rate: u64,
    /// What else the hook could read.
    pub inputs: Inputs,
}

/// What a hook can read and does not decide, in the layout of `struct inputs` of `bpf/recorder.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes)]
pub struct Inputs {
    /// Packets.
    pub snd_cwnd_clamp: u32,
    /// Packets.
    pub prior_cwnd: u32,
    /// Packets.
    pub max_packets_out: u32,
    /// 0 or 1.
    pub is_cwnd_limited: u32,
    /// Sequence number.
    pub snd_una: u32,
    /// Sequence number.
    pub snd_nxt: u32,
    /// Jiffies.
    pub lsndtime: u32,
    /// `sk_pacing_status`.
    pub sk_pacing_status: u32,
    /// Size of the largest burst, bytes.
    pub sk_gso_max_size: u32,
    /// The congestion state, which fits a byte.
    pub icsk_ca_state: u32,
    /// Sequence number.
    pub high_seq: u32,
    /// Packets retransmitted and not yet acknowledged.
    pub retrans_out: u32,
    /// Packets considered lost since the start of the connection.
    pub lost: u32,
}

impl Hook {
    /// The hook with this number in the recorder, with these arguments; a value that the kernel's
    /// function returned counts as one. `None` if there is no such hook.
    pub(crate) fn from_numbers(number: u32, arguments: [u32; 3]) -> Option<Hook> {
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
            3 => Hook::Ssthresh { returned: first },
            4 => Hook::UndoCwnd { returned: first },
            5 => Hook::SetState(u8::try_from(first).ok()?),
            6 => Hook::CwndEvent(first),
            _ => return None,
        })
    }
}
