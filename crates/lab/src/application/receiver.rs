//! The thread that accepts connections and discards what arrives.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::errno::Errno;

use fairwind_path::units::{Duration, Time};
use fairwind_workload::{Application, Meter};

use super::epoll::{Epoll, Event, Interest};
use super::plan::{FlowPlan, Work};
use super::sender::{FromReceiver, Release};
use super::shared::{Announced, Mailbox, Shared};
use super::slots::Slots;
use super::{MAILBOX_TOKEN, socket};

/// Flag of the epoll tokens of flows' sockets, as opposed to those of connections.
const OF_FLOW: u64 = 1 << 63;
/// Most bytes read at once. Nothing is ever written there, so it takes no memory.
const READ: usize = 4 << 20;
/// Most datagrams read at once.
const DATAGRAMS: usize = 256;
/// How long a complete connection may wait to be released.
const RELEASE_WITHIN: Duration = Duration::from_millis(10);
/// The longest wait for anything.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Results of a receiving thread.
#[derive(Debug, Default)]
pub struct ReceiverReport {
    pub flows: Vec<ReceivedFlow>,
    /// Sockets still open at the end.
    pub sockets: Vec<OwnedFd>,
}

/// What one flow received.
#[derive(Debug)]
pub struct ReceivedFlow {
    pub index: usize,
    pub meter: Meter,
    pub objects: u64,
    /// When the last byte of a bulk transfer arrived.
    pub complete_at: Option<Time>,
    pub datagrams_unread: u64,
}

/// State of the thread.
pub struct Receiver {
    shared: Arc<Shared>,
    flows: Vec<Flow>,
    connections: Slots<Incoming>,
    /// Connections complete and not yet released.
    complete: usize,
    epoll: Epoll,
    releases: Arc<Mailbox<Release>>,
    sender: Arc<Mailbox<FromReceiver>>,
    room: Vec<u8>,
}

struct Flow {
    received: ReceivedFlow,
    plan: FlowPlan,
    socket: OwnedFd,
    /// Datagrams dropped by the socket by the end of the warm-up.
    unread_before: Option<u64>,
}

struct Incoming {
    flow: usize,
    socket: OwnedFd,
    announced: Announced,
    received: u64,
}

impl Receiver {
    /// A receiver for these flows, each with its index among all and its listening socket.
    pub fn new(
        shared: Arc<Shared>,
        plans: Vec<(usize, FlowPlan, OwnedFd)>,
        releases: Arc<Mailbox<Release>>,
        sender: Arc<Mailbox<FromReceiver>>,
    ) -> io::Result<Receiver> {
        let epoll = Epoll::new()?;
        epoll.add(releases.bell(), MAILBOX_TOKEN, Interest::Read)?;
        let mut flows = Vec::new();
        for (index, plan, socket) in plans {
            epoll.add(&socket, OF_FLOW | flows.len() as u64, Interest::Read)?;
            let start = (Time::ZERO + plan.start).max(shared.warmup);
            flows.push(Flow {
                received: ReceivedFlow {
                    index,
                    meter: Meter::new(start, shared.end),
                    objects: 0,
                    complete_at: None,
                    datagrams_unread: 0,
                },
                plan,
                socket,
                unread_before: None,
            });
        }
        Ok(Receiver {
            shared,
            flows,
            connections: Slots::default(),
            complete: 0,
            epoll,
            releases,
            sender,
            room: vec![0; READ],
        })
    }

    /// Runs until the end of the run, or until asked to stop.
    pub fn run(mut self) -> ReceiverReport {
        super::wake_in_time();
        let mut events = Vec::new();
        while !self.shared.is_stopped() {
            let now = self.shared.clock.now();
            if now > self.shared.end {
                break;
            }
            let longest = if self.complete > 0 {
                RELEASE_WITHIN
            } else {
                LONGEST_WAIT
            };
            let left = self.shared.end - now + Duration::from_micros(1);
            if self.epoll.wait(left.min(longest), &mut events).is_err() {
                break;
            }
            let complete_before = self.complete;
            for event in &events {
                self.on_event(*event);
            }
            if self.complete > complete_before {
                self.sender.ring();
            }
            for release in self.releases.take() {
                self.release(release);
            }
        }
        self.report()
    }

    fn on_event(&mut self, event: Event) {
        match event.token {
            MAILBOX_TOKEN => {}
            token if token & OF_FLOW == 0 => self.read(token),
            token => {
                let flow = (token & !OF_FLOW) as usize;
                match self.flows[flow].plan.work {
                    Work::Traffic(Application::ConstantRate { .. }) => self.read_datagrams(flow),
                    _ => self.accept(flow),
                }
            }
        }
    }

    fn accept(&mut self, flow: usize) {
        loop {
            let of = &self.flows[flow];
            match socket::accept(&of.socket) {
                Ok(Some((socket, port))) => {
                    let announced = self.shared.announced(of.received.index).remove(&port);
                    // Unannounced connections are dropped: nothing else in the lab has a reason to
                    // connect to the port.
                    let Some(announced) = announced else { continue };
                    let number = self.connections.insert(Incoming {
                        flow,
                        socket,
                        announced,
                        received: 0,
                    });
                    self.watch(number);
                }
                Ok(None) => return,
                Err(error) => {
                    let port = of.plan.port;
                    let host = of.plan.to.config().address;
                    let text = format!("accepting connections to {host}:{port}: {error}");
                    self.shared.fail(of.received.index, text);
                    return self.epoll.remove(&of.socket);
                }
            }
        }
    }

    fn watch(&mut self, number: u64) {
        if let Some(incoming) = self.connections.get_mut(number)
            && let Err(error) = self.epoll.add(&incoming.socket, number, Interest::Read)
        {
            let index = self.flows[incoming.flow].received.index;
            self.shared
                .fail(index, format!("waiting for data: {error}"));
        }
    }

    fn read(&mut self, number: u64) {
        let Some(incoming) = self.connections.get_mut(number) else {
            return;
        };
        let flow = &mut self.flows[incoming.flow];
        match socket::discard(&incoming.socket, &mut self.room) {
            Ok(0) => self.on_end(number, None),
            Ok(got) => {
                let now = self.shared.clock.now();
                flow.received.meter.add(now, got as u64);
                self.shared.add_received(flow.received.index, got as u64);
                incoming.received += got as u64;
                if incoming
                    .announced
                    .bytes
                    .is_some_and(|all| incoming.received >= all)
                {
                    self.on_complete(now, number);
                }
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(error) => self.on_end(number, Some(error)),
        }
    }

    fn on_complete(&mut self, now: Time, number: u64) {
        let Some(incoming) = self.connections.get_mut(number) else {
            return;
        };
        let flow = &mut self.flows[incoming.flow];
        if now >= self.shared.warmup && now <= self.shared.end {
            flow.received.objects += 1;
        }
        if let Work::Traffic(Application::Bulk { .. }) = flow.plan.work {
            flow.received.complete_at = Some(now);
        }
        self.epoll.remove(&incoming.socket);
        self.complete += 1;
        self.sender.leave(FromReceiver::Complete {
            connection: incoming.announced.connection,
            incoming: number,
            at: now,
        });
    }

    /// Reports a connection that ended early.
    fn on_end(&mut self, number: u64, error: Option<Errno>) {
        let Some(incoming) = self.connections.remove(number) else {
            return;
        };
        let flow = &self.flows[incoming.flow];
        let (from, to) = (
            flow.plan.from.config().address,
            flow.plan.to.config().address,
        );
        let how = error.map_or("its sender closed it".to_owned(), |error| {
            io::Error::from(error).to_string()
        });
        let text = format!(
            "the connection from {from} to {to}:{} ended after {} bytes: {how}",
            flow.plan.port, incoming.received
        );
        self.shared.fail(flow.received.index, text);
    }

    fn release(&mut self, release: Release) {
        if let Some(incoming) = self.connections.remove(release.incoming) {
            self.complete -= 1;
            socket::vanish(incoming.socket);
        }
        let connection = release.connection;
        self.sender.leave(FromReceiver::Released { connection });
    }

    fn read_datagrams(&mut self, flow: usize) {
        let flow = &mut self.flows[flow];
        let now = self.shared.clock.now();
        if flow.unread_before.is_none() && now >= self.shared.warmup {
            flow.unread_before = Some(socket::drops(&flow.socket));
        }
        // One byte suffices to learn the length.
        let room = &mut self.room[..1];
        for _ in 0..DATAGRAMS {
            match socket::discard(&flow.socket, room) {
                Ok(len) => {
                    flow.received.meter.add(now, len as u64);
                    self.shared.add_received(flow.received.index, len as u64);
                }
                Err(Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }

    fn report(mut self) -> ReceiverReport {
        let mut report = ReceiverReport::default();
        report
            .sockets
            .extend(self.connections.drain().map(|incoming| incoming.socket));
        for mut flow in self.flows {
            if let Work::Traffic(Application::ConstantRate { .. }) = flow.plan.work {
                let before = flow.unread_before.unwrap_or(0);
                flow.received.datagrams_unread = socket::drops(&flow.socket) - before;
            }
            report.flows.push(flow.received);
            report.sockets.push(flow.socket);
        }
        report
    }
}
