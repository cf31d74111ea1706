//! A congestion control compiled for the host, and the list of all of them.

use std::ffi::{c_char, c_int};
use std::{fmt, ptr, slice};

use super::parameter::{Parameter, text};
use super::socket::{AckSample, RateSample, TcpSock};

include!(concat!(env!("OUT_DIR"), "/controls.rs"));

/// A congestion control: the native counterpart of `struct tcp_congestion_ops`.
///
/// The methods call the hooks. If a control lacks a hook, they do what the kernel does in that case.
#[repr(C)]
pub struct Control {
    name: *const c_char,
    description: *const c_char,
    parameters: *const Parameter,
    parameters_len: u64,
    takes_advised_start: u64,
    init: Option<unsafe extern "C" fn(*mut TcpSock)>,
    release: Option<unsafe extern "C" fn(*mut TcpSock)>,
    ssthresh: Option<unsafe extern "C" fn(*mut TcpSock) -> u32>,
    cong_avoid: Option<unsafe extern "C" fn(*mut TcpSock, u32, u32)>,
    set_state: Option<unsafe extern "C" fn(*mut TcpSock, u8)>,
    cwnd_event: Option<unsafe extern "C" fn(*mut TcpSock, u32)>,
    pkts_acked: Option<unsafe extern "C" fn(*mut TcpSock, *const AckSample)>,
    min_tso_segs: Option<unsafe extern "C" fn(*mut TcpSock) -> u32>,
    cong_control: Option<unsafe extern "C" fn(*mut TcpSock, u32, c_int, *const RateSample)>,
    undo_cwnd: Option<unsafe extern "C" fn(*mut TcpSock) -> u32>,
}

// SAFETY: a control is an immutable static whose pointers refer to other immutable statics.
unsafe impl Sync for Control {}

/// All controls, sorted by name.
pub fn all() -> &'static [&'static Control] {
    &ALL
}

/// The control of this name.
pub fn find(name: &str) -> Option<&'static Control> {
    ALL.into_iter().find(|control| control.name() == name)
}

// SAFETY of the calls below: the hooks are functions of cc/*.c, compiled against the layout that the
// tests verify to equal `TcpSock`; they keep no pointer beyond the call and access nothing but the
// connection passed to them, to which the reference gives exclusive access.
impl Control {
    /// The name, as in an experiment file; `fw_<name>` in the kernel.
    pub fn name(&self) -> &'static str {
        text(self.name)
    }

    /// A short description.
    pub fn description(&self) -> &'static str {
        text(self.description)
    }

    /// The parameters, in the order of their values.
    pub fn parameters(&self) -> &'static [Parameter] {
        // SAFETY: CC_CONTROL sets both from one static array.
        unsafe { slice::from_raw_parts(self.parameters, self.parameters_len as usize) }
    }

    /// Whether its connections start by what they are advised of their path (RFC 9959).
    pub fn takes_advised_start(&self) -> bool {
        self.takes_advised_start != 0
    }

    pub(super) fn call_init(&self, sk: &mut TcpSock) {
        if let Some(init) = self.init {
            // SAFETY: see above.
            unsafe { init(sk) }
        }
    }

    /// Detaches the control: the connection closes or switches to another control.
    pub fn release(&self, sk: &mut TcpSock) {
        if let Some(release) = self.release {
            // SAFETY: see above.
            unsafe { release(sk) }
        }
    }

    /// Returns the new ssthresh after a loss, in packets, for the caller to store.
    #[inline]
    pub fn ssthresh(&self, sk: &mut TcpSock) -> u32 {
        let ssthresh = self.ssthresh.expect("every control has ssthresh");
        // SAFETY: see above.
        unsafe { ssthresh(sk) }
    }

    /// An acknowledgement of `acked` new packets up to `ack`, outside of recovery. Not to be called for
    /// controls with [`cong_control`](Control::cong_control).
    #[inline]
    pub fn cong_avoid(&self, sk: &mut TcpSock, ack: u32, acked: u32) {
        if let Some(cong_avoid) = self.cong_avoid {
            // SAFETY: see above.
            unsafe { cong_avoid(sk, ack, acked) }
        }
    }

    /// Whether the control manages the window entirely by itself, in
    /// [`cong_control`](Control::cong_control).
    #[inline]
    pub fn has_cong_control(&self) -> bool {
        self.cong_control.is_some()
    }

    /// An acknowledgement, after losses have been marked. Replaces `cong_avoid` and proportional rate
    /// reduction.
    #[inline]
    pub fn cong_control(&self, sk: &mut TcpSock, ack: u32, flag: i32, rs: &RateSample) {
        if let Some(cong_control) = self.cong_control {
            // SAFETY: see above.
            unsafe { cong_control(sk, ack, flag, rs) }
        }
    }

    /// The congestion state is about to become `new_state`, one of
    /// [`ca_state`](super::ca_state); `icsk_ca_state` still holds the old one.
    #[inline]
    pub fn set_state(&self, sk: &mut TcpSock, new_state: u8) {
        if let Some(set_state) = self.set_state {
            // SAFETY: see above.
            unsafe { set_state(sk, new_state) }
        }
    }

    /// Reports an event, one of [`ca_event`](super::ca_event).
    #[inline]
    pub fn cwnd_event(&self, sk: &mut TcpSock, event: u32) {
        if let Some(cwnd_event) = self.cwnd_event {
            // SAFETY: see above.
            unsafe { cwnd_event(sk, event) }
        }
    }

    /// Whether the control has the hook [`pkts_acked`](Control::pkts_acked).
    #[inline]
    pub fn has_pkts_acked(&self) -> bool {
        self.pkts_acked.is_some()
    }

    /// Packets were acknowledged, in any state; to be called before `cong_avoid`.
    #[inline]
    pub fn pkts_acked(&self, sk: &mut TcpSock, sample: &AckSample) {
        if let Some(pkts_acked) = self.pkts_acked {
            // SAFETY: see above.
            unsafe { pkts_acked(sk, sample) }
        }
    }

    /// Returns the window, in packets, to restore after a spurious reduction, for the caller to store.
    pub fn undo_cwnd(&self, sk: &mut TcpSock) -> u32 {
        let undo_cwnd = self.undo_cwnd.expect("every control has undo_cwnd");
        // SAFETY: see above.
        unsafe { undo_cwnd(sk) }
    }

    /// Whether the control has a minimum of its own for bursts.
    #[inline]
    pub fn has_min_tso_segs(&self) -> bool {
        self.min_tso_segs.is_some()
    }

    /// Minimum number of packets in a burst; by default 2 (`tcp_min_tso_segs`).
    #[inline]
    pub fn min_tso_segs(&self, sk: &mut TcpSock) -> u32 {
        match self.min_tso_segs {
            // SAFETY: see above.
            Some(min_tso_segs) => unsafe { min_tso_segs(sk) },
            None => 2,
        }
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Control").field(&self.name()).finish()
    }
}

impl PartialEq for Control {
    fn eq(&self, other: &Control) -> bool {
        ptr::eq(self, other)
    }
}

impl Eq for Control {}
