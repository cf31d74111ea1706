//! A live data connection that follows orders.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::buffer::{Buffer, Plan, plan};
use super::control::{self, Refusal};
use super::option::{self, Counters};
use super::orders::{Orders, is_nocc};
use super::record::{Event, Setting};
use crate::data::Direction;

/// The copy of a data socket that advice is applied to, and what has been changed on it.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    direction: Direction,
    /// The control that it began with.
    initial: String,
    control: String,
    /// Bytes a second.
    pacing: Option<u64>,
    send: Buffer,
    receive: Buffer,
}

/// Whether congestion control may be off on the path to an address, and why not.
pub(super) struct Permit {
    pub peer: IpAddr,
    pub granted: bool,
}

impl Connection {
    /// Over a copy of the socket, which lives as long as this.
    pub(super) fn new(socket: BorrowedFd<'_>, direction: Direction) -> io::Result<Self> {
        let initial = control::current(socket)?;
        Ok(Self {
            socket: socket.try_clone_to_owned()?,
            direction,
            control: initial.clone(),
            initial,
            pacing: None,
            send: Buffer::send(),
            receive: Buffer::receive(),
        })
    }

    /// Does what is ordered, as far as it is possible and permitted.
    pub(super) fn follow(&mut self, orders: &Orders, permit: &Permit) -> Vec<Event> {
        let mut events = Vec::new();
        if self.direction == Direction::Receive {
            // What a receiver sends are acknowledgements: only its window matters.
            self.follow_receive_buffer(orders, &mut events);
            return events;
        }
        let permitted = !orders.off || permit.granted;
        if !permitted {
            events.push(not_own(orders, permit.peer));
        }
        let wanted = match &orders.control {
            Some(name) if permitted => control::kernel_name(name, &control::available()),
            _ => self.initial.clone(),
        };
        // First the rate: some controls look at it when they begin.
        self.pace(
            orders.pacing.filter(|_| permitted),
            &orders.reason,
            &mut events,
        );
        let taken = self.set_control(&wanted, &orders.reason, &mut events);
        if !taken {
            // Rather what the connection began with than what is no longer advised.
            let initial = self.initial.clone();
            self.set_control(&initial, &orders.reason, &mut events);
            self.pace(
                orders.pacing.filter(|_| !orders.off),
                &orders.reason,
                &mut events,
            );
        }
        let bounds = orders.off && permitted && taken;
        self.follow_send_buffer(orders, bounds, &mut events);
        events
    }

    /// Back to the kernel's defaults.
    pub(super) fn restore(&mut self, reason: &str) -> Vec<Event> {
        let mut events = Vec::new();
        let initial = self.initial.clone();
        self.set_pacing(None, reason, &mut events);
        self.set_control(&initial, reason, &mut events);
        self.release(Setting::SendBuffer, reason, &mut events);
        self.release(Setting::ReceiveBuffer, reason, &mut events);
        events
    }

    /// What the kernel has counted.
    pub(super) fn counters(&self) -> Option<Counters> {
        Counters::of(&self.socket)
    }

    /// Limits the rate, and sees to it that the control knows.
    fn pace(&mut self, wanted: Option<u64>, reason: &str, events: &mut Vec<Event>) {
        let faster = self
            .pacing
            .is_some_and(|now| wanted.is_none_or(|then| then > now));
        if self.set_pacing(wanted, reason, events) && faster && is_nocc(&self.control) {
            self.retake();
        }
    }

    /// Has the control begin anew: nocc looks at the limit of the rate then and never again.
    fn retake(&mut self) {
        if control::take(&self.socket, &self.initial).is_ok()
            && control::take(&self.socket, &self.control).is_err()
        {
            self.control = self.initial.clone();
        }
    }

    /// True if the connection has the control now.
    fn set_control(&mut self, wanted: &str, reason: &str, events: &mut Vec<Event>) -> bool {
        if self.control == wanted {
            return true;
        }
        let what = Setting::CongestionControl;
        match control::take(&self.socket, wanted) {
            Ok(()) => {
                let from = std::mem::replace(&mut self.control, wanted.to_owned());
                events.push(change(what, from, wanted.to_owned(), reason));
                true
            }
            Err(Refusal { reason, mend }) => {
                events.push(Event::Refused {
                    what,
                    wanted: wanted.to_owned(),
                    reason,
                    mend,
                });
                false
            }
        }
    }

    /// True if the rate has been changed.
    fn set_pacing(&mut self, wanted: Option<u64>, reason: &str, events: &mut Vec<Event>) -> bool {
        if self.pacing == wanted || option::set_pacing(&self.socket, wanted).is_err() {
            return false;
        }
        let from = std::mem::replace(&mut self.pacing, wanted);
        events.push(change(Setting::Pacing, rate(from), rate(wanted), reason));
        true
    }

    fn follow_send_buffer(&mut self, orders: &Orders, bounds: bool, events: &mut Vec<Event>) {
        let socket = self.socket.as_fd();
        follow_buffer(
            &mut self.send,
            socket,
            orders.send_buffer,
            bounds,
            &orders.reason,
            events,
        );
    }

    fn follow_receive_buffer(&mut self, orders: &Orders, events: &mut Vec<Event>) {
        let (socket, advised) = (self.socket.as_fd(), orders.receive_buffer);
        follow_buffer(
            &mut self.receive,
            socket,
            advised,
            false,
            &orders.reason,
            events,
        );
    }

    fn release(&mut self, which: Setting, reason: &str, events: &mut Vec<Event>) {
        let buffer = match which {
            Setting::ReceiveBuffer => &mut self.receive,
            _ => &mut self.send,
        };
        let socket = self.socket.as_fd();
        if !buffer.is(None) && !buffer.is_foreign(socket) {
            set_buffer(buffer, socket, None, reason, events);
        }
    }
}

fn follow_buffer(
    buffer: &mut Buffer,
    socket: BorrowedFd<'_>,
    advised: Option<u32>,
    bounds: bool,
    reason: &str,
    events: &mut Vec<Event>,
) {
    if buffer.is_foreign(socket) {
        return;
    }
    let limits = buffer.limits();
    let plan = plan(advised, bounds, limits);
    if let (Plan::Cut(_) | Plan::Limited, Some(advised)) = (plan, advised) {
        events.push(Event::Refused {
            what: buffer.which(),
            wanted: advised.to_string(),
            reason: format!("the kernel grants {} bytes", limits.granted),
            mend: buffer.mend(advised),
        });
    }
    let wanted = match plan {
        Plan::Set(bytes) | Plan::Cut(bytes) => Some(bytes),
        Plan::Autotuned | Plan::Limited => None,
    };
    set_buffer(buffer, socket, wanted, reason, events);
}

fn set_buffer(
    buffer: &mut Buffer,
    socket: BorrowedFd<'_>,
    wanted: Option<u32>,
    reason: &str,
    events: &mut Vec<Event>,
) {
    if buffer.is(wanted) {
        return;
    }
    let from = buffer.words();
    let done = match wanted {
        Some(bytes) => buffer.set(socket, bytes),
        None => buffer.release(socket),
    };
    if done.is_ok() {
        events.push(change(buffer.which(), from, buffer.words(), reason));
    }
}

fn change(what: Setting, from: String, to: String, reason: &str) -> Event {
    Event::Change {
        what,
        from,
        to,
        reason: reason.to_owned(),
    }
}

fn not_own(orders: &Orders, peer: IpAddr) -> Event {
    Event::Refused {
        what: Setting::CongestionControl,
        wanted: orders.control.clone().unwrap_or_default(),
        reason: format!("the path to {peer} is not declared as own here"),
        mend: format!(
            "--allow-nocc {peer}/{}",
            if peer.is_ipv4() { 32 } else { 128 }
        ),
    }
}

/// A rate in Mbit/s.
fn rate(bytes_per_second: Option<u64>) -> String {
    match bytes_per_second {
        None => "unlimited".into(),
        Some(rate) => format!("{}", rate as f64 * 8.0 / 1e6),
    }
}
