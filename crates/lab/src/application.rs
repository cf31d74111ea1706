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

use std::net::SocketAddrV4;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use fairwind_kernel::sysctl;
use fairwind_path::units::{Duration, Time};
use fairwind_workload::{Application, Driver};

use crate::clock::Clock;
use crate::error::{During, LabError, joined};
use crate::host::{Host, Namespace};

mod counts;
mod datagrams;
mod event_loop;
mod outcome;
mod plan;
mod preparation;
mod programs;
mod receiver;
mod sender;
mod shared;
mod socket;
mod timers;
mod wakeup;

pub use outcome::{Failure, FlowOutcome};
pub use plan::{Command, FlowPlan, SocketOptions, Switch, Work};

use datagrams::{Datagrams, Stream};
use programs::RunningPrograms;
use receiver::Receiver;
use sender::Sender;
use shared::Shared;
use wakeup::Wakeup;

/// What fails if a thread cannot be started.
const STARTING: &str = "starting the applications";

/// The running applications of a run. They stop when this is dropped.
#[derive(Debug)]
pub struct Applications {
    shared: Arc<Shared>,
    programs: RunningPrograms,
    /// The threads return the sockets that are open at the end.
    threads: Vec<JoinHandle<Vec<OwnedFd>>>,
    /// What the threads wait for.
    wakeups: Vec<Arc<Wakeup>>,
}

/// The applications of a run, ready to start: whatever takes time is done.
#[derive(Debug)]
pub struct Prepared {
    plans: Vec<FlowPlan>,
    opened: Vec<Result<Open, String>>,
}

/// The flows of a sending and a receiving thread, each with its index among all.
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

    fn start_share(&mut self, share: Share) -> Result<(), LabError> {
        let shared = || Arc::clone(&self.shared);
        let (at_sender, at_receiver) = event_loop::pair().during(STARTING)?;
        let sender = Sender::new(shared(), share.sending, at_sender);
        let receiver = Receiver::new(shared(), share.receiving, at_receiver).during(STARTING)?;
        self.wakeups.extend([sender.wakeup(), receiver.wakeup()]);
        self.threads
            .push(spawn("fw-receiver", move || receiver.run())?);
        self.threads.push(spawn("fw-sender", move || sender.run())?);
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
        self.stop();
        let mut outcomes = std::mem::take(&mut *self.shared.outcomes());
        for failure in self.shared.failures().into_iter().rev() {
            outcomes[failure.flow].failure = Some(failure.text);
        }
        outcomes
    }

    fn stop(&mut self) {
        self.shared.stop();
        self.wakeups.iter().for_each(|wakeup| wakeup.notify());
        let threads = self.threads.drain(..);
        let sockets: Vec<_> = threads.map(|thread| joined(thread.join())).collect();
        sockets
            .into_iter()
            .flatten()
            .for_each(socket::close_silently);
        self.programs.stop(&self.shared);
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
            threads: Vec::new(),
            wakeups: Vec::new(),
        };
        let mut shares = Vec::new();
        shares.resize_with(pairs_for(&self.plans), Share::default);
        let mut streams = Vec::new();
        let flows = self.plans.into_iter().zip(self.opened);
        for (index, (plan, opened)) in flows.enumerate() {
            let number = index % shares.len();
            match opened {
                Ok(Open::Nothing) => {}
                Ok(Open::Listener(socket, drivers)) => {
                    shares[number].sending.push((index, drivers, plan.clone()));
                    shares[number].receiving.push((index, plan, socket));
                }
                Ok(Open::Datagrams(socket, stream)) => {
                    shares[number].receiving.push((index, plan, socket));
                    streams.push(stream);
                }
                Err(error) => shared.fail(index, error),
            }
        }
        for share in shares {
            applications.start_share(share)?;
        }
        if !streams.is_empty() {
            let datagrams = Datagrams::new(shared, streams);
            let run = move || datagrams.run();
            applications.threads.push(spawn("fw-datagrams", run)?);
        }
        Ok(applications)
    }
}

impl Drop for Applications {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, LabError> {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(work).during(STARTING)
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
    let to = SocketAddrV4::new(plan.to.address(), plan.port);
    let refused = |socket::Refused { what, error }| {
        LabError::Failed(format!("{what} of host {}: {error}", to.ip()))
    };
    let opened = match &plan.work {
        Work::Command(_) => Ok(Open::Nothing),
        Work::Traffic(Application::ConstantRate { .. }) => {
            let receive = || socket::datagram_receiver(plan.port).map_err(refused);
            let send = || socket::datagram_sender(to).map_err(refused);
            plan.to.within(receive).and_then(|receiver| {
                let sender = plan.from.within(send)?;
                let driver = drivers.pop().expect("a stream of datagrams has a driver");
                let stream = Stream::new(index, to, sender, driver);
                Ok(Open::Datagrams(receiver, stream))
            })
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
    inside: Option<Namespace>,
}

impl NamespaceSwitcher {
    fn enter(&mut self, host: &Host) -> Result<(), LabError> {
        if self.inside.as_ref() != Some(host.namespace()) {
            host.namespace().enter()?;
            self.inside = Some(host.namespace().clone());
        }
        Ok(())
    }
}

/// True if TCP in the thread's network namespace uses the time stamp option.
fn uses_timestamps() -> bool {
    sysctl("net.ipv4.tcp_timestamps").is_some_and(|value| value != "0")
}
