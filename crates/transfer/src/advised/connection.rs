//! A live data connection that follows orders.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use fairwind_advice::wire::Limited;
use fairwind_cc::kernel;
use fairwind_kernel::TcpInfo;
use fairwind_kernel::sockopt::set_max_pacing_rate;
use rustix::net::sockopt::tcp_congestion;

use super::buffer::{Buffer, Role};
use super::congestion_control::{self, Refusal};
use super::limited::Sent;
use super::orders::{Orders, in_mbps};
use super::record::{Event, EventLog, Setting};
use super::starts::{InWords, Starts};
use crate::Direction;

/// The copy of a data socket that advice is applied to, and what has been changed on it.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    direction: Direction,
    /// The congestion control that it began with.
    initial: String,
    control: String,
    /// Bytes a second.
    pacing: Option<u64>,
    send: Buffer,
    receive: Buffer,
    starts: Arc<Starts>,
    /// What it does with its first window has been decided.
    has_started: bool,
}

/// Whether congestion control may be off on the path to a peer.
pub(super) struct Permit {
    pub peer: IpAddr,
    pub granted: bool,
}

impl Connection {
    /// Duplicates the socket; the copy lives as long as this value.
    pub(super) fn new(
        socket: BorrowedFd<'_>,
        direction: Direction,
        starts: Arc<Starts>,
    ) -> io::Result<Self> {
        let initial = tcp_congestion(socket)?;
        Ok(Self {
            socket: socket.try_clone_to_owned()?,
            direction,
            control: initial.clone(),
            initial,
            pacing: None,
            send: Buffer::of(Direction::Send),
            receive: Buffer::of(Direction::Receive),
            starts,
            has_started: false,
        })
    }

    /// Carries out the orders, as far as that is possible and permitted; returns what was done.
    pub(super) fn follow(&mut self, orders: &Orders, permit: &Permit) -> Vec<Event> {
        let mut log = EventLog::because(&orders.reason);
        match self.direction {
            Direction::Send => self.follow_sending(orders, permit, &mut log),
            // A receiver sends only acknowledgements: nothing but its window matters.
            Direction::Receive => {
                let (socket, bytes) = (self.socket.as_fd(), orders.receive_buffer);
                self.receive
                    .follow(socket, bytes, Role::FollowsWindow, &mut log);
            }
        }
        log.events
    }

    fn follow_sending(&mut self, orders: &Orders, permit: &Permit, log: &mut EventLog<'_>) {
        let permitted = !orders.off || permit.granted;
        if !permitted {
            log.events.push(not_own(orders, permit.peer));
        }
        let wanted = match &orders.control {
            Some(name) if permitted => {
                // The kernel may not list them.
                let available = kernel::available().unwrap_or_default();
                congestion_control::kernel_name(name, &available)
            }
            _ => self.initial.clone(),
        };
        // The rate first: some congestion controls read it when they start.
        self.pace(orders.pacing.filter(|_| permitted), log);
        let taken = self.set_control(&wanted, log);
        if !taken {
            // Rather the initial congestion control than one that is no longer advised.
            self.set_control(&self.initial.clone(), log);
            self.pace(orders.pacing.filter(|_| !orders.off), log);
        }
        self.advise_start(orders, log);
        let role = if orders.off && permitted && taken {
            Role::BoundsFlight
        } else {
            Role::FollowsWindow
        };
        let socket = self.socket.as_fd();
        self.send.follow(socket, orders.send_buffer, role, log);
    }

    /// Returns to the kernel's defaults.
    pub(super) fn restore(&mut self, reason: &str) -> Vec<Event> {
        let mut log = EventLog::because(reason);
        self.set_control(&self.initial.clone(), &mut log);
        self.pace(None, &mut log);
        let socket = self.socket.as_fd();
        self.send
            .follow(socket, None, Role::FollowsWindow, &mut log);
        self.receive
            .follow(socket, None, Role::FollowsWindow, &mut log);
        log.events
    }

    /// The kernel's counters.
    pub(super) fn counters(&self) -> Option<TcpInfo> {
        TcpInfo::of(&self.socket).ok()
    }

    /// What limited its rate, as far as the sender knows: the receiver does not.
    pub(super) fn limited(&self, bytes: u64, time: Duration) -> Option<Limited> {
        if self.direction == Direction::Receive {
            return None;
        }
        let counters = self.counters()?;
        let sent = Sent {
            busy_us: counters.tcpi_busy_time,
            receiver_us: counters.tcpi_rwnd_limited,
            buffer_us: counters.tcpi_sndbuf_limited,
            application: counters.application_limited(),
            pacing: self.pacing,
            bytes,
            seconds: time.as_secs_f64(),
        };
        Some(sent.limited())
    }

    /// Its congestion control looks that up when the first window has been acknowledged.
    fn advise_start(&mut self, orders: &Orders, log: &mut EventLog<'_>) {
        let is_first = !std::mem::replace(&mut self.has_started, true);
        if !is_first || !self.starts.are_taken_by(&self.control) {
            return;
        }
        let Some(start) = &orders.start else { return };
        let wanted = InWords(*start).to_string();
        match self.starts.advise(&self.socket, &self.control, start) {
            Ok(()) => log.change(Setting::Start, "plain".into(), wanted),
            Err(Refusal { reason, fix }) => log.events.push(Event::Refused {
                what: Setting::Start,
                wanted,
                reason,
                fix,
            }),
        }
    }

    /// Limits the rate, and makes sure that the congestion control knows.
    fn pace(&mut self, wanted: Option<u64>, log: &mut EventLog<'_>) {
        if self.pacing == wanted || set_max_pacing_rate(&self.socket, wanted).is_err() {
            return;
        }
        let before = std::mem::replace(&mut self.pacing, wanted);
        log.change(Setting::Pacing, in_mbps(before), in_mbps(wanted));
        let faster = before.is_some_and(|before| wanted.is_none_or(|now| now > before));
        if faster && kernel::is_nocc(&self.control) {
            self.restart_control();
        }
    }

    /// Restarts the congestion control: nocc reads the limit of the rate then and never again.
    fn restart_control(&mut self) {
        if congestion_control::set(&self.socket, &self.initial).is_ok()
            && congestion_control::set(&self.socket, &self.control).is_err()
        {
            self.control = self.initial.clone();
        }
    }

    /// True if the connection has the congestion control now.
    fn set_control(&mut self, wanted: &str, log: &mut EventLog<'_>) -> bool {
        if self.control == wanted {
            return true;
        }
        match congestion_control::set(&self.socket, wanted) {
            Ok(()) => {
                let from = std::mem::replace(&mut self.control, wanted.to_owned());
                log.change(Setting::CongestionControl, from, wanted.to_owned());
                true
            }
            Err(Refusal { reason, fix }) => {
                log.events.push(Event::Refused {
                    what: Setting::CongestionControl,
                    wanted: wanted.to_owned(),
                    reason,
                    fix,
                });
                false
            }
        }
    }
}

fn not_own(orders: &Orders, peer: IpAddr) -> Event {
    Event::Refused {
        what: Setting::CongestionControl,
        wanted: orders.control.clone().unwrap_or_default(),
        reason: format!("the path to {peer} is not declared as own here"),
        fix: format!(
            "--allow-nocc {peer}/{}",
            if peer.is_ipv4() { 32 } else { 128 }
        ),
    }
}
