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

/// The copy of a data socket that advice is applied to.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    direction: Direction,
    settings: Settings,
}

/// What advice has changed on a connection.
#[derive(Debug)]
pub(super) struct Settings {
    /// The congestion control that it began with.
    initial: String,
    control: String,
    /// Its program has chosen that, and keeps it.
    is_own: bool,
    /// Whatever is advised, bytes a second.
    limit: Option<u64>,
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
    /// The option that would grant it.
    pub option: String,
}

impl Connection {
    /// Duplicates the socket; the copy lives as long as this value.
    pub(super) fn new(
        socket: BorrowedFd<'_>,
        direction: Direction,
        starts: Arc<Starts>,
    ) -> io::Result<Self> {
        Ok(Self {
            settings: Settings::of(socket, None, starts)?,
            socket: socket.try_clone_to_owned()?,
            direction,
        })
    }

    /// Carries out the orders, as far as that is possible and permitted; returns what was done.
    pub(super) fn follow(&mut self, orders: &Orders, permit: &Permit) -> Vec<Event> {
        let mut log = EventLog::because(&orders.reason);
        let socket = self.socket.as_fd();
        match self.direction {
            Direction::Send => self.settings.send(socket, orders, permit, &mut log),
            // A receiver sends only acknowledgements: nothing but its window matters.
            Direction::Receive => self.settings.receive(socket, orders, &mut log),
        }
        log.events
    }

    /// Returns to the kernel's defaults.
    pub(super) fn restore(&mut self, reason: &str) -> Vec<Event> {
        let mut log = EventLog::because(reason);
        self.settings.restore(self.socket.as_fd(), &mut log);
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
            pacing: self.settings.pacing,
            bytes,
            seconds: time.as_secs_f64(),
        };
        Some(sent.limited())
    }
}

impl Settings {
    /// Those of a connection that has this limit of its rate, bytes a second.
    pub(super) fn of(
        socket: BorrowedFd<'_>,
        limit: Option<u64>,
        starts: Arc<Starts>,
    ) -> io::Result<Self> {
        let initial = tcp_congestion(socket)?;
        Ok(Self {
            control: initial.clone(),
            initial,
            is_own: false,
            limit,
            pacing: limit,
            send: Buffer::of(Direction::Send),
            receive: Buffer::of(Direction::Receive),
            starts,
            has_started: false,
        })
    }

    /// Its congestion control is its program's from now on.
    pub(super) fn leave_control(&mut self, socket: BorrowedFd<'_>) {
        self.is_own = true;
        self.control = tcp_congestion(socket).unwrap_or_default();
    }

    /// Its congestion control, by the kernel's name.
    pub(super) fn control(&self) -> &str {
        &self.control
    }

    /// Carries out what concerns the bytes that it sends.
    pub(super) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        orders: &Orders,
        permit: &Permit,
        log: &mut EventLog<'_>,
    ) {
        let permitted = !orders.off || permit.granted;
        if !permitted {
            log.events.push(not_own(orders, permit));
        }
        let taken = match self.is_own {
            false => self.follow_control(socket, orders, permitted, log),
            true => {
                self.pace(socket, orders.pacing.filter(|_| !orders.off), log);
                false
            }
        };
        self.advise_start(socket, orders, log);
        let role = if orders.off && permitted && taken {
            Role::BoundsFlight
        } else {
            Role::FollowsWindow
        };
        self.send.follow(socket, orders.send_buffer, role, log);
    }

    /// Carries out what concerns the bytes that it receives.
    pub(super) fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        orders: &Orders,
        log: &mut EventLog<'_>,
    ) {
        let bytes = orders.receive_buffer;
        self.receive.follow(socket, bytes, Role::FollowsWindow, log);
    }

    /// True if it has the congestion control of the orders.
    fn follow_control(
        &mut self,
        socket: BorrowedFd<'_>,
        orders: &Orders,
        permitted: bool,
        log: &mut EventLog<'_>,
    ) -> bool {
        let wanted = match &orders.control {
            Some(name) if permitted => {
                // The kernel may not list them.
                let available = kernel::available().unwrap_or_default();
                congestion_control::kernel_name(name, &available)
            }
            _ => self.initial.clone(),
        };
        // The rate first: some congestion controls read it when they start.
        self.pace(socket, orders.pacing.filter(|_| permitted), log);
        let taken = self.set_control(socket, &wanted, log);
        if !taken {
            // Rather the initial congestion control than one that is no longer advised.
            self.set_control(socket, &self.initial.clone(), log);
            self.pace(socket, orders.pacing.filter(|_| !orders.off), log);
        }
        taken
    }

    /// Returns to the kernel's defaults.
    fn restore(&mut self, socket: BorrowedFd<'_>, log: &mut EventLog<'_>) {
        self.set_control(socket, &self.initial.clone(), log);
        self.pace(socket, None, log);
        self.send.follow(socket, None, Role::FollowsWindow, log);
        self.receive.follow(socket, None, Role::FollowsWindow, log);
    }

    /// Its congestion control looks that up when the first window has been acknowledged.
    fn advise_start(&mut self, socket: BorrowedFd<'_>, orders: &Orders, log: &mut EventLog<'_>) {
        let is_first = !std::mem::replace(&mut self.has_started, true);
        if !is_first || !self.starts.are_taken_by(&self.control) {
            return;
        }
        let Some(start) = &orders.start else { return };
        let wanted = InWords(*start).to_string();
        match self.starts.advise(socket, &self.control, start) {
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
    fn pace(&mut self, socket: BorrowedFd<'_>, wanted: Option<u64>, log: &mut EventLog<'_>) {
        let wanted = wanted.into_iter().chain(self.limit).min();
        if self.pacing == wanted || set_max_pacing_rate(socket, wanted).is_err() {
            return;
        }
        let before = std::mem::replace(&mut self.pacing, wanted);
        log.change(Setting::Pacing, in_mbps(before), in_mbps(wanted));
        let faster = before.is_some_and(|before| wanted.is_none_or(|now| now > before));
        if faster && kernel::is_nocc(&self.control) {
            self.restart_control(socket);
        }
    }

    /// Restarts the congestion control: nocc reads the limit of the rate then and never again.
    fn restart_control(&mut self, socket: BorrowedFd<'_>) {
        if congestion_control::set(socket, &self.initial).is_ok()
            && congestion_control::set(socket, &self.control).is_err()
        {
            self.control = self.initial.clone();
        }
    }

    /// True if the connection has the congestion control now.
    fn set_control(
        &mut self,
        socket: BorrowedFd<'_>,
        wanted: &str,
        log: &mut EventLog<'_>,
    ) -> bool {
        if self.control == wanted {
            return true;
        }
        match congestion_control::set(socket, wanted) {
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

fn not_own(orders: &Orders, permit: &Permit) -> Event {
    Event::Refused {
        what: Setting::CongestionControl,
        wanted: orders.control.clone().unwrap_or_default(),
        reason: format!("the path to {} is not declared as own here", permit.peer),
        fix: permit.option.clone(),
    }
}
