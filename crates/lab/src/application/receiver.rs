//! The thread that accepts connections and discards what arrives.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use fairwind_path::units::{Duration, Time};
use fairwind_workload::{Application, Meter};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::event_loop::{Event, EventLoop};
use super::plan::{FlowPlan, Work};
use super::sender::{FromReceiver, Release};
use super::shared::{PendingConnection, Shared};
use super::socket;
use super::wakeup::Wakeup;
use crate::clock::minimise_timer_slack;

/// Flag of the epoll tokens of flows' sockets, as opposed to those of connections.
const OF_FLOW: u64 = 1 << 63;
/// Most bytes read at once. Nothing is ever written there, so it takes no memory.
const READ_SIZE: usize = 4 << 20;
/// Most datagrams read at once.
const DATAGRAM_BATCH: usize = 256;
/// The longest wait while complete connections are to be released.
const RELEASE_INTERVAL: Duration = Duration::from_millis(10);
/// The longest wait for anything.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// State of the thread.
pub(super) struct Receiver {
    shared: Arc<Shared>,
    flows: Vec<Flow>,
    /// By number.
    connections: BTreeMap<u64, Incoming>,
    /// Connections accepted so far.
    accepted: u64,
    /// Connections complete and not yet released.
    complete: usize,
    /// Exchanges messages with the sender.
    events: EventLoop<Release, FromReceiver>,
    buffer: Vec<u8>,
}

struct Flow {
    index: usize,
    plan: FlowPlan,
    socket: OwnedFd,
    meter: Meter,
    object_times: Vec<Duration>,
    /// When the last byte of a bulk transfer arrived.
    complete_at: Option<Time>,
    /// Datagrams dropped by the socket by the end of the warm-up.
    unread_before: Option<u64>,
}

struct Incoming {
    flow: usize,
    socket: OwnedFd,
    pending: PendingConnection,
    received: u64,
}

impl Receiver {
    /// A receiver for these flows, each with its index among all and its listening socket.
    pub(super) fn new(
        shared: Arc<Shared>,
        plans: Vec<(usize, FlowPlan, OwnedFd)>,
        events: EventLoop<Release, FromReceiver>,
    ) -> io::Result<Receiver> {
        let mut flows = Vec::new();
        for (index, plan, socket) in plans {
            events.add(&socket, OF_FLOW | flows.len() as u64, EventFlags::IN)?;
            flows.push(Flow {
                index,
                meter: shared.meter(&plan),
                plan,
                socket,
                object_times: Vec::new(),
                complete_at: None,
                unread_before: None,
            });
        }
        Ok(Receiver {
            shared,
            flows,
            connections: BTreeMap::new(),
            accepted: 0,
            complete: 0,
            events,
            buffer: vec![0; READ_SIZE],
        })
    }

    /// Wakes the thread.
    pub(super) fn wakeup(&self) -> Arc<Wakeup> {
        self.events.wakeup()
    }

    /// Runs until the end of the run, or until asked to stop. Returns the sockets still open then.
    pub(super) fn run(mut self) -> Vec<OwnedFd> {
        minimise_timer_slack();
        let mut events = Vec::new();
        while !self.shared.is_stopped() {
            let now = self.shared.clock.now();
            if now > self.shared.end {
                break;
            }
            let longest = if self.complete > 0 {
                RELEASE_INTERVAL
            } else {
                POLL_INTERVAL
            };
            let left = self.shared.end - now + Duration::from_micros(1);
            if self.events.wait(left.min(longest), &mut events).is_err() {
                break;
            }
            let complete_before = self.complete;
            for event in &events {
                self.on_event(*event);
            }
            if self.complete > complete_before {
                self.events.wake_other();
            }
            for release in self.events.messages() {
                self.release(release);
            }
        }
        self.report()
    }

    fn on_event(&mut self, event: Event) {
        if event.token & OF_FLOW == 0 {
            return self.read(event.token);
        }
        let flow = (event.token & !OF_FLOW) as usize;
        match self.flows[flow].plan.work {
            Work::Traffic(Application::ConstantRate { .. }) => self.read_datagrams(flow),
            _ => self.accept(flow),
        }
    }

    fn accept(&mut self, flow: usize) {
        loop {
            let of = &self.flows[flow];
            match socket::accept(&of.socket) {
                Ok(Some((socket, port))) => {
                    let pending = self.shared.pending(of.index).remove(&port);
                    // Other connections are dropped: nothing else in the lab has a reason to
                    // connect to the port.
                    let Some(pending) = pending else { continue };
                    let incoming = Incoming {
                        flow,
                        socket,
                        pending,
                        received: 0,
                    };
                    self.watch(incoming);
                }
                Ok(None) => return,
                Err(error) => {
                    let port = of.plan.port;
                    let host = of.plan.to.address();
                    let text = format!("accepting connections to {host}:{port}: {error}");
                    self.shared.fail(of.index, text);
                    return self.events.remove(&of.socket);
                }
            }
        }
    }

    fn watch(&mut self, incoming: Incoming) {
        self.accepted += 1;
        let added = self
            .events
            .add(&incoming.socket, self.accepted, EventFlags::IN);
        if let Err(error) = added {
            let index = self.flows[incoming.flow].index;
            self.shared
                .fail(index, format!("waiting for data: {error}"));
        }
        self.connections.insert(self.accepted, incoming);
    }

    fn read(&mut self, number: u64) {
        let Some(incoming) = self.connections.get_mut(&number) else {
            return;
        };
        let flow = &mut self.flows[incoming.flow];
        match socket::discard(&incoming.socket, &mut self.buffer) {
            Ok(0) => self.on_end(number, None),
            Ok(got) => {
                let now = self.shared.clock.now();
                flow.meter.add(now, got as u64);
                self.shared.add_received(flow.index, got as u64);
                incoming.received += got as u64;
                if incoming
                    .pending
                    .bytes
                    .is_some_and(|all| incoming.received >= all)
                {
                    self.on_complete(now, number);
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => self.on_end(number, Some(error)),
        }
    }

    fn on_complete(&mut self, now: Time, number: u64) {
        let Some(incoming) = self.connections.get_mut(&number) else {
            return;
        };
        let flow = &mut self.flows[incoming.flow];
        if now >= self.shared.warmup && now <= self.shared.end {
            flow.object_times.push(now - incoming.pending.opened);
        }
        if let Work::Traffic(Application::Bulk { .. }) = flow.plan.work {
            flow.complete_at = Some(now);
        }
        self.events.remove(&incoming.socket);
        self.complete += 1;
        self.events.send(FromReceiver::Complete {
            connection: incoming.pending.connection,
            incoming: number,
            at: now,
        });
    }

    /// Reports a connection that ended early.
    fn on_end(&mut self, number: u64, error: Option<Errno>) {
        let Some(incoming) = self.connections.remove(&number) else {
            return;
        };
        let flow = &self.flows[incoming.flow];
        let connection = flow.plan.connection();
        let how = error.map_or("its sender closed it".to_owned(), |error| {
            io::Error::from(error).to_string()
        });
        let received = incoming.received;
        let text = format!("{connection} ended after {received} bytes: {how}");
        self.shared.fail(flow.index, text);
    }

    fn release(&mut self, release: Release) {
        if let Some(incoming) = self.connections.remove(&release.incoming) {
            self.complete -= 1;
            socket::close_silently(incoming.socket);
        }
        let connection = release.connection;
        self.events.send(FromReceiver::Released { connection });
    }

    fn read_datagrams(&mut self, flow: usize) {
        let flow = &mut self.flows[flow];
        let now = self.shared.clock.now();
        if flow.unread_before.is_none() && now >= self.shared.warmup {
            flow.unread_before = Some(socket::drops(&flow.socket));
        }
        // One byte suffices to learn the length.
        let buffer = &mut self.buffer[..1];
        for _ in 0..DATAGRAM_BATCH {
            match socket::discard(&flow.socket, buffer) {
                Ok(len) => {
                    flow.meter.add(now, len as u64);
                    self.shared.add_received(flow.index, len as u64);
                }
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    fn report(self) -> Vec<OwnedFd> {
        let connections = self.connections.into_values();
        let mut sockets: Vec<OwnedFd> = connections.map(|incoming| incoming.socket).collect();
        let over = self.shared.over();
        let mut outcomes = self.shared.outcomes();
        for flow in self.flows {
            let outcome = &mut outcomes[flow.index];
            outcome.set_delivered(flow.meter, flow.plan.start, flow.complete_at, over);
            outcome.object_times = flow.object_times;
            if let Work::Traffic(Application::ConstantRate { .. }) = flow.plan.work {
                let before = flow.unread_before.unwrap_or(0);
                outcome.datagrams_unread = socket::drops(&flow.socket) - before;
            }
            sockets.push(flow.socket);
        }
        sockets
    }
}
