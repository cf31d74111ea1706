//! The flows of a run.

use std::ffi::OsString;
use std::path::PathBuf;

use fairwind_path::units::{Duration, Time};
use fairwind_workload::{Application, Driver};

use crate::host::Host;

/// A flow: the data that one host sends to another.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// The sending host, which opens the connections.
    pub from: Host,
    /// The receiving host.
    pub to: Host,
    /// The port at `to`, unique there; 0 with [`Work::Command`], whose programs choose their ports.
    pub port: u16,
    /// When the flow starts, since the start of the run.
    pub start: Duration,
    /// What is sent. Datagrams of [`Application::ConstantRate`] have from 28 bytes to the MTU of
    /// `from`.
    pub work: Work,
    /// Options of its TCP sockets; not used by [`Application::ConstantRate`] and [`Work::Command`].
    pub socket: SocketOptions,
    /// Changes of the congestion control, in the order of time.
    pub switches: Vec<Switch>,
    /// The run's seed, the same in each flow. With it the flows make the same random choices as in
    /// the simulator.
    pub seed: u64,
}

impl FlowPlan {
    /// Its connections, for messages.
    pub(super) fn connection(&self) -> String {
        let (from, to) = (self.from.address(), self.to.address());
        format!("the connection from {from} to {to}:{}", self.port)
    }

    /// The drivers of its traffic, one per connection; the connections have the numbers `first`,
    /// `first + 1`, … of the run.
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

/// What the two ends of a flow do.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Send and receive like those of the simulator.
    Traffic(Application),
    /// Run programs.
    Command(Command),
}

/// Programs at the two ends of a flow. In the command lines, `{to}` and `{from}` are replaced by
/// the hosts' addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// The client's command line, for the shell in the host `from`.
    pub client: OsString,
    /// The server's, for the shell in the host `to`; the client starts once the server listens.
    pub server: Option<OsString>,
    /// The folder for `client.out`, `client.err`, `server.out` and `server.err`; created if
    /// missing.
    pub output: PathBuf,
}

/// The options of a flow's sockets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SocketOptions {
    /// The congestion control, by the kernel's name; `None`: the host's.
    pub congestion_control: Option<String>,
    /// Payload of a full segment, bytes; `None`: what the MTU leaves.
    pub mss: Option<u32>,
    /// Most payload written and not yet acknowledged, bytes: the kernel's `sk_sndbuf`; `None`:
    /// autotuned.
    pub send_buffer: Option<u64>,
    /// Largest receive window, bytes: what `SO_RCVBUF` with this value yields for packets that take
    /// twice their payload in memory; `None`: autotuned.
    pub receive_buffer: Option<u64>,
    /// Pace by `sk_pacing_rate` even if the congestion control does not request it.
    pub pacing: bool,
}

/// A change of the congestion control while the flow runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Switch {
    /// The time since the start of the run.
    pub at: Duration,
    /// The new congestion control, by the kernel's name.
    pub congestion_control: String,
}

impl Work {
    /// Number of simultaneous connections or datagram streams; programs count as one.
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
