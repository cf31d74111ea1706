//! Feeds recorded calls to the native build of a congestion control and compares with the kernel's.
//!
//! The window, the threshold and the private state carry over from call to call and are those of
//! our congestion control; what it reads of the connection comes from the recording. TCP itself
//! sets the window and the threshold too (proportional rate reduction, end of recovery, timeout,
//! idle time): where the kernel's value before a call differs from what the previous call left, it
//! replaces ours.

use fairwind_cc::native::{Parameters, TcpSock};

use crate::call::{Call, Hook, Window};
use crate::recording::Recording;

/// How far a congestion control agrees with the kernel's. An ACK agrees if every call from it to
/// the next ACK does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// ACKs of new data, cumulative or selective.
    pub acks: u64,
    /// ACKs with an equal `snd_cwnd`.
    pub cwnd: u64,
    /// ACKs with an equal `snd_ssthresh`.
    pub ssthresh: u64,
    /// Calls of `ssthresh` (losses) and `undo_cwnd` (spurious losses).
    pub decisions: u64,
    /// Those of them that returned the same.
    pub decisions_equal: u64,
    /// Calls before which TCP itself had set the window or the threshold.
    pub set_by_tcp: u64,
    /// Calls during which the clock ticked, so that the kernel may have seen either time.
    pub ticks: u64,
    /// The first difference, if any.
    pub first_difference: Option<Difference>,
}

/// A call after which our congestion control and the kernel's differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Index of the call, from 0.
    pub index: usize,
    /// The recorded call.
    pub call: Call,
    /// The window that the kernel's left.
    pub kernel: Window,
    /// The window that ours left.
    pub ours: Window,
}

impl Agreement {
    /// The smaller of the shares, 0 to 1, of ACKs with an equal window and with an equal threshold.
    pub fn share(&self) -> f64 {
        self.cwnd.min(self.ssthresh) as f64 / self.acks.max(1) as f64
    }

    /// Adds the numbers of another agreement.
    pub fn add(&mut self, other: &Agreement) {
        self.acks += other.acks;
        self.cwnd += other.cwnd;
        self.ssthresh += other.ssthresh;
        self.decisions += other.decisions;
        self.decisions_equal += other.decisions_equal;
        self.set_by_tcp += other.set_by_tcp;
        self.ticks += other.ticks;
        self.first_difference = self.first_difference.or(other.first_difference);
    }

    fn count(&mut self, ack: Equal) {
        self.acks += 1;
        self.cwnd += u64::from(ack.cwnd);
        self.ssthresh += u64::from(ack.ssthresh);
    }
}

/// Replays a recording into the congestion control of `parameters`.
pub fn replay(recording: &Recording, parameters: &Parameters) -> Agreement {
    let mut agreement = Agreement::default();
    let mut connection = Connection::new(parameters, recording);
    // Which values have been equal after all calls since the latest ACK.
    let mut ack: Option<Equal> = None;
    for (index, call) in recording.calls.iter().enumerate() {
        if let Hook::PktsAcked(_) = call.hook
            && let Some(before) = ack.replace(Equal {
                cwnd: true,
                ssthresh: true,
            })
        {
            agreement.count(before);
        }
        agreement.set_by_tcp += u64::from(connection.take_over(call));
        agreement.ticks += u64::from(call.ticks > 0);
        let returned = connection.step(call);
        if let Hook::Ssthresh { returned: kernel } | Hook::UndoCwnd { returned: kernel } = call.hook
        {
            agreement.decisions += 1;
            agreement.decisions_equal += u64::from(returned == Some(kernel));
        }
        let (kernel, ours) = (connection.kernel, connection.ours());
        if kernel != ours && agreement.first_difference.is_none() {
            agreement.first_difference = Some(Difference {
                index,
                call: *call,
                kernel,
                ours,
            });
        }
        if let Some(ack) = &mut ack {
            ack.cwnd &= kernel.cwnd == ours.cwnd;
            ack.ssthresh &= kernel.ssthresh == ours.ssthresh;
        }
    }
    if let Some(ack) = ack {
        agreement.count(ack);
    }
    agreement
}

/// Our congestion control's connection, and the window that the kernel's left.
struct Connection<'a> {
    parameters: &'a Parameters,
    sk: TcpSock,
    kernel: Window,
}

impl Connection<'_> {
    fn new<'a>(parameters: &'a Parameters, recording: &Recording) -> Connection<'a> {
        let begin = recording.calls.first().map(|call| call.before);
        let mut connection = Connection {
            parameters,
            sk: TcpSock {
                hz: recording.hz,
                ..TcpSock::default()
            },
            kernel: begin.unwrap_or_default(),
        };
        connection.set(connection.kernel);
        connection
    }

    fn ours(&self) -> Window {
        Window {
            cwnd: self.sk.snd_cwnd,
            cwnd_cnt: self.sk.snd_cwnd_cnt,
            ssthresh: self.sk.snd_ssthresh,
        }
    }

    fn set(&mut self, window: Window) {
        self.sk.snd_cwnd = window.cwnd;
        self.sk.snd_cwnd_cnt = window.cwnd_cnt;
        self.sk.snd_ssthresh = window.ssthresh;
    }

    /// Takes over what TCP itself has set since the previous call. Returns false if it set nothing.
    fn take_over(&mut self, call: &Call) -> bool {
        let (before, left, mut ours) = (call.before, self.kernel, self.ours());
        if before.cwnd != left.cwnd {
            ours.cwnd = before.cwnd;
        }
        if before.cwnd_cnt != left.cwnd_cnt {
            ours.cwnd_cnt = before.cwnd_cnt;
        }
        if before.ssthresh != left.ssthresh {
            ours.ssthresh = before.ssthresh;
        }
        self.set(ours);
        before != left
    }

    /// Makes the call, and applies what it returns as TCP would at once. If the clock ticked during
    /// the call, both times are tried.
    fn step(&mut self, call: &Call) -> Option<u32> {
        self.kernel = call.after;
        match call.hook {
            Hook::Ssthresh { returned } => self.kernel.ssthresh = returned,
            Hook::UndoCwnd { returned } => self.kernel.cwnd = returned,
            _ => {}
        }
        let before = (call.ticks > 0).then(|| self.sk.clone());
        let mut returned = self.call(call, call.jiffies);
        let Some(before) = before.filter(|_| self.ours() != self.kernel) else {
            return returned;
        };
        let early = std::mem::replace(&mut self.sk, before);
        let late = self.call(call, call.jiffies.wrapping_add(call.ticks));
        if self.ours() == self.kernel {
            returned = late;
        } else {
            self.sk = early;
        }
        returned
    }

    fn call(&mut self, call: &Call, jiffies: u32) -> Option<u32> {
        let (control, sk) = (self.parameters.control(), &mut self.sk);
        set_inputs(sk, call, jiffies);
        match call.hook {
            Hook::Init => control.init(sk, self.parameters),
            Hook::PktsAcked(sample) => control.pkts_acked(sk, &sample),
            Hook::CongAvoid { ack, acked } => control.cong_avoid(sk, ack, acked),
            Hook::SetState(state) => control.set_state(sk, state),
            Hook::CwndEvent(event) => control.cwnd_event(sk, event),
            Hook::Ssthresh { .. } => sk.snd_ssthresh = control.ssthresh(sk),
            Hook::UndoCwnd { .. } => sk.snd_cwnd = control.undo_cwnd(sk),
        }
        match call.hook {
            Hook::Ssthresh { .. } => Some(sk.snd_ssthresh),
            Hook::UndoCwnd { .. } => Some(sk.snd_cwnd),
            _ => None,
        }
    }
}

/// Sets what the congestion control reads but does not decide.
fn set_inputs(sk: &mut TcpSock, call: &Call, jiffies: u32) {
    sk.jiffies = jiffies;
    sk.tcp_mstamp = call.tcp_mstamp;
    sk.now_ns = call.tcp_mstamp * 1000;
    sk.sk_pacing_rate = call.sk_pacing_rate;
    let inputs = &call.inputs;
    sk.sk_pacing_status = inputs.sk_pacing_status;
    sk.sk_gso_max_size = inputs.sk_gso_max_size;
    sk.icsk_ca_state = inputs.icsk_ca_state as u8;
    sk.is_cwnd_limited = inputs.is_cwnd_limited;
    sk.snd_cwnd_clamp = inputs.snd_cwnd_clamp;
    sk.prior_cwnd = inputs.prior_cwnd;
    sk.max_packets_out = inputs.max_packets_out;
    sk.snd_una = inputs.snd_una;
    sk.snd_nxt = inputs.snd_nxt;
    sk.high_seq = inputs.high_seq;
    sk.lsndtime = inputs.lsndtime;
    sk.retrans_out = inputs.retrans_out;
    sk.lost = inputs.lost;
}

/// Which values are equal.
#[derive(Clone, Copy)]
struct Equal {
    cwnd: bool,
    ssthresh: bool,
}
