//! The thread that opens connections and writes to them.

mod ending;
mod opening;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use fairwind_path::units::{Duration, Time};
use fairwind_workload::{Application, Driver, Step};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::net::sockopt::set_tcp_congestion;

use super::counts::Counts;
use super::event_loop::{ERRORS, Event, EventLoop};
use super::plan::{FlowPlan, Work};
use super::shared::Shared;
use super::timers::Timers;
use super::wakeup::Wakeup;
use super::{NamespaceSwitcher, socket};
use crate::clock::minimise_timer_slack;

/// Most bytes in one write, and to one connection before others get their turn.
const WRITE_SIZE: usize = 256 << 10;
/// The same for senders that write only a little ahead of what is sent.
const ON_OFF_WRITE_SIZE: usize = 16 << 10;
/// Ratio of a send buffer to the largest write, at least.
const WRITES_PER_BUFFER: u64 = 16;
/// The first and the longest wait for the last acknowledgement of a complete connection.
const DRAIN_INTERVAL_MIN: Duration = Duration::from_millis(5);
const DRAIN_INTERVAL_MAX: Duration = Duration::from_millis(200);
/// Least time until a web session whose connection failed continues.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The longest wait for anything.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Messages from receivers to senders.
#[derive(Clone, Copy, Debug)]
pub(super) enum FromReceiver {
    /// All bytes of the connection have arrived. `incoming` is the receiver's number of the
    /// connection.
    Complete {
        connection: u64,
        incoming: u64,
        at: Time,
    },
    /// The receiver's end of the connection is gone.
    Released { connection: u64 },
}

/// Message from senders to receivers: the receiver's end of the connection, with number `incoming`,
/// can be released, and then the sender's, with number `connection`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Release {
    pub incoming: u64,
    pub connection: u64,
}

/// State of the thread.
pub(super) struct Sender {
    shared: Arc<Shared>,
    flows: Vec<Flow>,
    sessions: Vec<Session>,
    /// By number.
    connections: BTreeMap<u64, Connection>,
    /// Connections opened so far.
    opened: u64,
    timers: Timers<Due>,
    /// Exchanges messages with the receiver.
    events: EventLoop<FromReceiver, Release>,
    namespaces: NamespaceSwitcher,
    zeros: Vec<u8>,
}

struct Flow {
    index: usize,
    plan: FlowPlan,
    timestamps: bool,
    /// Largest write, bytes.
    write_size: usize,
    counts: Counts,
    switched: Vec<(Duration, String)>,
}

/// A sequence of connections. Only web flows have more than one session, or more than one
/// connection in a session.
struct Session {
    flow: usize,
    driver: Driver,
    connection: Option<u64>,
}

struct Connection {
    session: usize,
    socket: OwnedFd,
    state: State,
    port: u16,
    /// Bytes left to write; `None`: unlimited.
    left: Option<u64>,
    /// The application has data.
    writing: bool,
    /// The connection's counts at the end of the warm-up.
    before: Counts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    Open,
    /// Complete; waits for the last acknowledgement, then for the receiver to release its end.
    Draining {
        incoming: u64,
        wait: Duration,
    },
}

enum Due {
    Application(usize),
    Drain(u64),
    Switch(usize, usize),
    Warmup,
    End,
}

impl Sender {
    /// A sender for these flows, each with its index among all and a driver per connection.
    pub(super) fn new(
        shared: Arc<Shared>,
        plans: Vec<(usize, Vec<Driver>, FlowPlan)>,
        events: EventLoop<FromReceiver, Release>,
    ) -> Sender {
        let mut sender = Sender {
            shared,
            flows: Vec::new(),
            sessions: Vec::new(),
            connections: BTreeMap::new(),
            opened: 0,
            timers: Timers::new(),
            events,
            namespaces: NamespaceSwitcher::default(),
            zeros: vec![0; WRITE_SIZE],
        };
        // Set first, so that it precedes everything else at the same time.
        if sender.shared.warmup > Time::ZERO {
            sender.timers.set(sender.shared.warmup, Due::Warmup);
        }
        for (index, drivers, plan) in plans {
            sender.add(index, drivers, plan);
        }
        sender.timers.set(sender.shared.end, Due::End);
        sender
    }

    fn add(&mut self, index: usize, drivers: Vec<Driver>, plan: FlowPlan) {
        for mut driver in drivers {
            let begins = Due::Application(self.sessions.len());
            self.timers.set(driver.first(), begins);
            self.sessions.push(Session {
                flow: self.flows.len(),
                driver,
                connection: None,
            });
        }
        for (number, switch) in plan.switches.iter().enumerate() {
            let due = Due::Switch(self.flows.len(), number);
            self.timers.set(Time::ZERO + switch.at, due);
        }
        self.flows.push(Flow {
            index,
            timestamps: plan
                .from
                .within(|| Ok(super::uses_timestamps()))
                .unwrap_or(true),
            write_size: write_size(&plan),
            plan,
            counts: Counts::default(),
            switched: Vec::new(),
        });
    }

    /// Wakes the thread.
    pub(super) fn wakeup(&self) -> Arc<Wakeup> {
        self.events.wakeup()
    }

    /// Runs until the end of the run, or until asked to stop. Returns the sockets still open then.
    pub(super) fn run(mut self) -> Vec<OwnedFd> {
        minimise_timer_slack();
        self.shared.clock.await_start();
        let mut events = Vec::new();
        while !self.shared.is_stopped() {
            let now = self.shared.clock.now();
            let next = self.timers.next().unwrap_or(self.shared.end);
            let wait = if next > now {
                next - now
            } else {
                Duration::ZERO
            };
            let wait = wait.min(POLL_INTERVAL);
            if self.events.wait(wait, &mut events).is_err() {
                break;
            }
            for &event in &events {
                self.on_event(event);
            }
            for message in self.events.messages() {
                self.on_message(message);
            }
            let now = self.shared.clock.now();
            while let Some(due) = self.timers.take_due(now) {
                match due {
                    Due::Application(session) => self.on_application(now, session),
                    Due::Drain(connection) => self.on_drain(now, connection),
                    Due::Switch(flow, number) => self.on_switch(now, flow, number),
                    Due::Warmup => self.end_warmup(),
                    Due::End => return self.report(),
                }
            }
        }
        self.report()
    }

    fn on_event(&mut self, event: Event) {
        let Some(connection) = self.connections.get_mut(&event.token) else {
            return;
        };
        if let State::Draining { .. } = connection.state {
            // Events after the last byte do not matter.
            self.events.remove(&connection.socket);
        } else if event.failed {
            let error = socket::pending_error(&connection.socket)
                .unwrap_or_else(|| io::ErrorKind::ConnectionAborted.into());
            self.on_failure(event.token, &error);
        } else {
            connection.state = State::Open;
            self.write(event.token);
        }
    }

    /// Writes as much as the kernel takes.
    fn write(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        let flow = &self.flows[self.sessions[connection.session].flow];
        let mut room = WRITE_SIZE;
        while connection.writing && room > 0 {
            let left = connection.left.unwrap_or(u64::MAX);
            let now = left.min(flow.write_size.min(room) as u64) as usize;
            let bytes = &self.zeros[..now];
            let flags = match left - now as u64 {
                _ if now == 0 => break,
                0 => SendFlags::empty(),
                _ => SendFlags::MORE,
            };
            match socket::send(&connection.socket, bytes, flags) {
                Ok(sent) => {
                    connection.left = connection.left.map(|left| left - sent as u64);
                    room -= sent.min(room);
                }
                Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => break,
                Err(error) => return self.on_failure(number, &error.into()),
            }
        }
        if !connection.writing || connection.left == Some(0) {
            let _ = self.events.change(&connection.socket, number, ERRORS);
        }
    }

    fn on_application(&mut self, now: Time, session: usize) {
        let (step, again) = self.sessions[session].driver.step(now);
        match step {
            Step::Open(bytes) => {
                if let Err(text) = self.open(session, bytes) {
                    self.shared
                        .fail(self.flows[self.sessions[session].flow].index, text);
                    self.schedule_retry(session, now);
                }
            }
            Step::Resume => self.set_writing(session, true),
            Step::Pause => self.set_writing(session, false),
            // Handled by another thread.
            Step::Datagram(_) => {}
        }
        if let Some(again) = again {
            self.timers.set(again, Due::Application(session));
        }
    }

    fn set_writing(&mut self, session: usize, writing: bool) {
        let Some(number) = self.sessions[session].connection else {
            return;
        };
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.writing = writing;
            let interest = if writing { EventFlags::OUT } else { ERRORS };
            // While connecting, only the end of the handshake matters.
            if connection.state == State::Open || writing {
                let _ = self.events.change(&connection.socket, number, interest);
            }
        }
    }

    fn on_switch(&mut self, now: Time, flow: usize, number: usize) {
        let of = &mut self.flows[flow];
        let name = of.plan.switches[number].congestion_control.clone();
        of.plan.socket.congestion_control = Some(name.clone());
        let sessions = &self.sessions;
        let concerned = self.connections.values_mut().filter(|connection| {
            sessions[connection.session].flow == flow
                && matches!(connection.state, State::Connecting | State::Open)
        });
        for connection in concerned {
            if let Err(error) = set_tcp_congestion(&connection.socket, &name) {
                let text = format!("switching to the congestion control `{name}`: {error}");
                return self.shared.fail(of.index, text);
            }
        }
        of.switched.push((now - Time::ZERO, name));
    }

    fn end_warmup(&mut self) {
        for flow in &mut self.flows {
            flow.counts.restart();
        }
        for connection in self.connections.values_mut() {
            connection.before = socket::counts(&connection.socket);
        }
    }
}

/// A flow's largest write, bytes: the kernel accepts a write as a whole if the send buffer has any
/// room.
fn write_size(plan: &FlowPlan) -> usize {
    let most = match plan.work {
        Work::Traffic(Application::OnOff { .. }) => ON_OFF_WRITE_SIZE,
        _ => WRITE_SIZE,
    };
    let of_buffer = |bytes: u64| (bytes / WRITES_PER_BUFFER).max(1) as usize;
    plan.socket
        .send_buffer
        .map_or(most, |bytes| most.min(of_buffer(bytes)))
}
