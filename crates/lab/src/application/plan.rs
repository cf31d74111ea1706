//! What the applications of a run are to do: its flows.

use std::ffi::OsString;
use std::path::PathBuf;

use fairwind_path::units::{Duration, Time};
use fairwind_workload::{Application, Driver};

use crate::host::Host;

/// A flow: what one host sends to another.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Its name, for messages.
    pub name: String,
    /// Where the data comes from; this side opens the connections.
    pub from: Host,
    /// Where the data goes.
    pub to: Host,
    /// The port at `to`; no other flow has it there. With [`Work::Command`], where the programs
    /// choose their ports, 0.
    pub port: u16,
    /// When the flow starts, from the start of the run.
    pub start: Duration,
    /// What is sent. A datagram of [`Application::ConstantRate`] has 28 bytes to the MTU of `from`.
    pub work: Work,
    /// How it is sent; not used by [`Application::ConstantRate`] and [`Work::Command`].
    pub socket: SocketOptions,
    /// Changes of the congestion control, in the order of time.
    pub switches: Vec<Switch>,
    /// The run's seed, the same in each flow. The flows then draw what they draw in the simulator.
    pub seed: u64,
}

impl FlowPlan {
    /// The drivers of its traffic, whose connections are numbers `first`, `first + 1`, … of the run.
    pub(super) fn drivers(&self, first: usize) -> Vec<Driver> {
        match &self.work {
            Work::Traffic(application) => {
                let start = Time::ZERO + self.start;
                Driver::of_flow(application, start, self.seed, first).collect()
            }
            Work::Command(_) => Vec::new(),
        }
    }
}

/// What a flow's ends do.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// They send and receive as the simulator's do.
    Traffic(Application),
    /// They run programs.
    Command(Command),
}

/// Programs at the two ends of a flow. `{to}` and `{from}` in the command lines stand for the hosts'
/// addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// A command line for the shell, in the host `from`.
    pub client: OsString,
    /// One for the shell in the host `to`; the client starts when this one listens.
    pub server: Option<OsString>,
    /// The folder for `client.out`, `client.err`, `server.out` and `server.err`; it is made if it is
    /// not there.
    pub output: PathBuf,
}

/// The options of a flow's sockets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SocketOptions {
    /// The congestion control by the kernel's name; none: the host's.
    pub congestion_control: Option<String>,
    /// Payload of a full segment, bytes; none: what the MTU leaves.
    pub mss: Option<u32>,
    /// Most payload that is written and not yet acknowledged, bytes: the kernel's `sk_sndbuf`; none:
    /// autotuned.
    pub send_buffer: Option<u64>,
    /// Largest window, bytes: what `SO_RCVBUF` with this value gives on packets that take twice their
    /// payload; none: autotuned.
    pub receive_buffer: Option<u64>,
    /// Paced by `sk_pacing_rate` even if the control does not ask for it.
    pub pacing: bool,
}

/// A change of the congestion control while the flow runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// When, from the start of the run.
    pub at: Duration,
    /// To which, by the kernel's name.
    pub congestion_control: String,
}

impl Work {
    /// How many connections or streams of datagrams it has at a time; programs count as one.
    pub(super) fn connections(&self) -> usize {
        match self {
            Work::Traffic(application) => application.connections(),
            Work::Command(_) => 1,
        }
    }
}

impl From<Application> for Work {
    fn from(application: Application) -> Work {
        Work::Traffic(application)
    }
}

impl From<Command> for Work {
    fn from(command: Command) -> Work {
        Work::Command(command)
    }
}
