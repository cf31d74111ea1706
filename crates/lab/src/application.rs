//! Applications: the traffic of [`fairwind_workload`] over real sockets in the hosts, and real programs.
//!
//! A few threads drive all sockets: some open connections and write to them, some accept connections and
//! read, so that the two ends of a flow can use two processors; one sends datagrams. A socket belongs to the
//! network namespace of the thread that creates it, and stays there.
//!
//! | the simulator | here |
//! |---|---|
//! | `from` opens the connection; data leaves with the last packet of the handshake | the same; data leaves once the thread learns of the handshake |
//! | an object or a transfer is complete when its last byte is delivered; then the connection is gone | the connection is closed, without a packet, when its last byte is acknowledged ([`socket::close_silently`]) |
//! | at the end of an on period nothing more is sent | the kernel sends what it holds, up to about 48 kB (`TCP_NOTSENT_LOWAT`) |
//! | datagrams leave when they are due | immediately if late, and not at all if very late ([`datagrams`]) |
//! | at most `send_buffer` bytes are unacknowledged | the same by the kernel's count, which includes overhead per packet |

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use fairwind_kernel::sysctl;
use fairwind_path::units::{Duration, Time};
use fairwind_workload::{Application, Driver};

use crate::LabError;
use crate::clock::Clock;
use crate::host::Host;

mod counts;
mod datagrams;
mod event_loop;
mod message_queue;
mod outcome;
mod plan;
mod preparation;
mod programs;
mod receiver;
mod sender;
mod shared;
mod slots;
mod socket;
mod timers;
mod wakeup;

pub use outcome::{Failure, FlowOutcome};
pub use plan::{Command, FlowPlan, SocketOptions, Switch, Work};

use datagrams::{Datagrams, SentDatagrams, Stream};
use event_loop::EventLoop;
use message_queue::MessageQueue;
use programs::RunningPrograms;
use receiver::{Receiver, ReceiverReport};
use sender::{FromReceiver, Release, Sender, SenderReport};
use shared::Shared;

/// The running applications of a run. They stop when this is dropped.
#[derive(Debug)]
pub struct Applications {
    shared: Arc<Shared>,
    plans: Vec<FlowPlan>,
    programs: RunningPrograms,
    pairs: Vec<Pair>,
    datagrams: Option<JoinHandle<Vec<SentDatagrams>>>,
}

/// The applications of a run, ready to start: whatever takes time is done.
#[derive(Debug)]
pub struct Prepared {
    plans: Vec<FlowPlan>,
    opened: Vec<Result<Open, String>>,
}

/// A sending and a receiving thread for the same flows.
#[derive(Debug)]
struct Pair {
    sender: Option<JoinHandle<SenderReport>>,
    receiver: Option<JoinHandle<ReceiverReport>>,
    to_sender: Arc<MessageQueue<FromReceiver>>,
    to_receiver: Arc<MessageQueue<Release>>,
}

/// The flows of a pair, each with its index among all.
#[derive(Default)]
struct Share {
    /// With a driver for each of their connections.
    sending: Vec<(usize, Vec<Driver>, FlowPlan)>,
    receiving: Vec<(usize, FlowPlan, OwnedFd)>,
}

impl Applications {
    /// Prepares the hosts for these flows, and opens the receiving sockets.
    ///
    /// # Errors
    /// Fails if the kernel refuses a setting of a host, or enough descriptors. What goes wrong with a single
    /// flow is a [`Failure`] of the run.
    pub fn prepare(plans: Vec<FlowPlan>) -> Result<Prepared, LabError> {
        preparation::prepare(&plans)?;
        let mut connections = 0;
        let mut opened = Vec::new();
        for (index, plan) in plans.iter().enumerate() {
            opened.push(open(index, plan, plan.drivers(connections)));
            connections += plan.work.connections();
        }
        Ok(Prepared { plans, opened })
    }

    /// Prepares and starts; see [`Applications::prepare`] and [`Prepared::start`].
    ///
    /// # Errors
    /// Fails like these two.
    pub fn start(
        plans: Vec<FlowPlan>,
        epoch_ns: u64,
        warmup: Duration,
        duration: Duration,
    ) -> Result<Applications, LabError> {
        Applications::prepare(plans)?.start(epoch_ns, warmup, duration)
    }

    fn start_pair(&mut self, share: Share) -> Result<(), LabError> {
        let failed = |error| LabError::system("starting the applications", error);
        let to_sender = Arc::new(MessageQueue::new().map_err(failed)?);
        let to_receiver = Arc::new(MessageQueue::new().map_err(failed)?);
        let queues = || (Arc::clone(&to_sender), Arc::clone(&to_receiver));
        let (outbox, inbox) = queues();
        let events = EventLoop::new(inbox, outbox).map_err(failed)?;
        let shared = Arc::clone(&self.shared);
        let receiver = Receiver::new(shared, share.receiving, events).map_err(failed)?;
        let (inbox, outbox) = queues();
        let events = EventLoop::new(inbox, outbox).map_err(failed)?;
        let sender = Sender::new(Arc::clone(&self.shared), share.sending, events);
        self.pairs.push(Pair {
            sender: None,
            receiver: None,
            to_sender,
            to_receiver,
        });
        // Added to `pairs` before, so that what has been started is stopped if something fails.
        if let Some(pair) = self.pairs.last_mut() {
            pair.receiver = Some(spawn("fw-receiver", move || receiver.run())?);
            pair.sender = Some(spawn("fw-sender", move || sender.run())?);
        }
        Ok(())
    }

    /// Payload delivered to a flow's receiving application so far, bytes, including the warm-up.
    pub fn received(&self, flow: usize) -> u64 {
        self.shared.received(flow)
    }

    /// Failures so far, in the order of occurrence.
    pub fn failures(&self) -> Vec<Failure> {
        self.shared.failures()
    }

    /// Stops everything that still runs. Returns what each flow did until the end of the run, or until now if
    /// that is earlier.
    pub fn finish(mut self) -> Vec<FlowOutcome> {
        let now = self.shared.clock.now().min(self.shared.end);
        self.shared.stop();
        let mut outcomes = vec![FlowOutcome::default(); self.plans.len()];
        let mut sockets = Vec::new();
        for mut pair in std::mem::take(&mut self.pairs) {
            let (sent, received) = pair.join();
            for flow in sent.flows {
                let outcome = &mut outcomes[flow.index];
                outcome.retransmits = flow.counts.retransmits;
                outcome.timeouts = flow.counts.timeouts;
                outcome.packets_sent = flow.counts.packets;
                outcome.rtt_min = flow.counts.rtt_min;
                outcome.switched = flow.switched;
            }
            for flow in received.flows {
                let start = Time::ZERO + self.plans[flow.index].start;
                let outcome = &mut outcomes[flow.index];
                let over = flow.complete_at.unwrap_or(now);
                (outcome.bytes, outcome.bytes_per_second, outcome.active) = flow.meter.finish(over);
                outcome.completion = flow.complete_at.map(|at| at - start);
                outcome.objects = flow.objects;
                outcome.datagrams_unread = flow.datagrams_unread;
            }
            sockets.extend(sent.sockets);
            sockets.extend(received.sockets);
        }
        if let Some(datagrams) = self.datagrams.take() {
            for flow in join(datagrams) {
                outcomes[flow.index].packets_sent = flow.sent;
                outcomes[flow.index].datagrams_skipped = flow.skipped;
            }
        }
        sockets.into_iter().for_each(socket::close_silently);
        self.finish_programs(now, &mut outcomes);
        for failure in self.shared.failures().into_iter().rev() {
            outcomes[failure.flow].failure = Some(failure.text);
        }
        outcomes
    }

    fn finish_programs(&mut self, now: Time, outcomes: &mut [FlowOutcome]) {
        for (flow, watched) in self.programs.flows.clone().iter().zip(self.programs.stop()) {
            let outcome = &mut outcomes[watched.index];
            let over = flow.complete_at().unwrap_or(now);
            (outcome.bytes, outcome.bytes_per_second, outcome.active) = watched.meter.finish(over);
            outcome.completion = flow
                .complete_at()
                .map(|at| at - (Time::ZERO + flow.plan.start));
            outcome.retransmits = watched.counts.retransmits;
            outcome.timeouts = watched.counts.timeouts;
            outcome.packets_sent = watched.counts.packets;
            outcome.rtt_min = watched.counts.rtt_min;
            outcome.switched = watched.switched;
        }
    }
}

impl Prepared {
    /// Starts the applications of a run that begins at `epoch_ns` of CLOCK_MONOTONIC (now or soon), measures
    /// from `warmup` on, and ends after `duration`. Nothing begins before the run.
    ///
    /// # Errors
    /// Fails if a thread, or a descriptor that it needs, cannot be created. What goes wrong with a single
    /// flow is a [`Failure`].
    pub fn start(
        self,
        epoch_ns: u64,
        warmup: Duration,
        duration: Duration,
    ) -> Result<Applications, LabError> {
        let clock = Clock::since(epoch_ns);
        let (warmup, end) = (Time::ZERO + warmup, Time::ZERO + duration);
        let shared = Arc::new(Shared::new(self.plans.len(), clock, warmup, end));
        let mut applications = Applications {
            programs: RunningPrograms::start(&shared, &self.plans)?,
            shared: Arc::clone(&shared),
            plans: self.plans,
            pairs: Vec::new(),
            datagrams: None,
        };
        let mut shares = Vec::new();
        shares.resize_with(pairs_for(&applications.plans), Share::default);
        let mut streams = Vec::new();
        let flows = applications.plans.iter().zip(self.opened);
        for (index, (plan, opened)) in flows.enumerate() {
            let number = index % shares.len();
            match opened {
                Ok(Open::Nothing) => {}
                Ok(Open::Listener(socket, drivers)) => {
                    shares[number].sending.push((index, drivers, plan.clone()));
                    shares[number].receiving.push((index, plan.clone(), socket));
                }
                Ok(Open::Datagrams(socket, stream)) => {
                    shares[number].receiving.push((index, plan.clone(), socket));
                    streams.push(stream);
                }
                Err(error) => shared.fail(index, error),
            }
        }
        for share in shares {
            applications.start_pair(share)?;
        }
        if !streams.is_empty() {
            let datagrams = Datagrams::new(shared, streams);
            applications.datagrams = Some(spawn("fw-datagrams", move || datagrams.run())?);
        }
        Ok(applications)
    }
}

impl Drop for Applications {
    fn drop(&mut self) {
        self.shared.stop();
        for pair in &mut self.pairs {
            pair.join();
        }
        if let Some(datagrams) = self.datagrams.take() {
            join(datagrams);
        }
        self.programs.stop();
    }
}

impl Pair {
    fn join(&mut self) -> (SenderReport, ReceiverReport) {
        self.to_sender.wake();
        self.to_receiver.wake();
        (
            self.sender.take().map(join).unwrap_or_default(),
            self.receiver.take().map(join).unwrap_or_default(),
        )
    }
}

fn join<T>(thread: JoinHandle<T>) -> T {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, LabError> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|error| LabError::system("starting the applications", error))
}

/// One pair of threads per two processors, at most one per flow.
fn pairs_for(plans: &[FlowPlan]) -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).clamp(1, plans.len().max(1))
}

/// What a flow has open from the start.
#[derive(Debug)]
enum Open {
    Nothing,
    Listener(OwnedFd, Vec<Driver>),
    Datagrams(OwnedFd, Stream),
}

fn open(index: usize, plan: &FlowPlan, mut drivers: Vec<Driver>) -> Result<Open, String> {
    preparation::check(plan)?;
    let host = plan.to.config().address;
    let refused = |socket::Refused { what, error }| {
        LabError::Program(format!("{what} of host {host}: {error}"))
    };
    let opened = match &plan.work {
        Work::Command(_) => return Ok(Open::Nothing),
        Work::Traffic(Application::ConstantRate { .. }) => {
            let to = std::net::SocketAddrV4::new(host, plan.port);
            let receive = || socket::datagram_receiver(plan.port).map_err(refused);
            let send = || socket::datagram_sender(to).map_err(refused);
            let receiver = plan.to.within(receive).map_err(|error| error.to_string())?;
            let socket = plan.from.within(send).map_err(|error| error.to_string())?;
            let driver = drivers.pop().expect("a stream of datagrams has a driver");
            return Ok(Open::Datagrams(
                receiver,
                Stream::new(index, to, socket, driver),
            ));
        }
        Work::Traffic(_) => plan
            .to
            .within(|| socket::listen(plan.port, &plan.socket).map_err(refused))
            .map(|socket| Open::Listener(socket, drivers)),
    };
    opened.map_err(|error| error.to_string())
}

/// Moves the calling thread from one host's namespace to another's.
#[derive(Debug, Default)]
struct NamespaceSwitcher {
    inside: Option<u32>,
}

impl NamespaceSwitcher {
    fn enter(&mut self, host: &Host) -> Result<(), LabError> {
        let inode = host.namespace_inode();
        if self.inside != Some(inode) {
            host.namespace().enter()?;
            self.inside = Some(inode);
        }
        Ok(())
    }
}

/// True if TCP in the thread's network namespace uses the time stamp option.
fn uses_timestamps() -> bool {
    sysctl("net.ipv4.tcp_timestamps").is_some_and(|value| value != "0")
}
