//! What the applications of a run are to do: the flows, as the simulator means them.

use std::ffi::OsString;
use std::path::PathBuf;

use fairwind_path::units::{Bandwidth, Bytes, Duration};

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
    /// The port at `to`; no other flow has it there. With [`Application::Command`], where the
    /// programs choose their ports, 0.
    pub port: u16,
    /// When the flow starts, from the start of the run.
    pub start: Duration,
    /// What is sent.
    pub application: Application,
    /// How it is sent; not used by [`Application::ConstantRate`] and [`Application::Command`].
    pub socket: SocketOptions,
    /// Changes of the congestion control, in the order of time.
    pub switches: Vec<Switch>,
    /// The run's seed, the same in each flow. The flows then draw what they draw in the simulator.
    pub seed: u64,
}

/// The traffic of a flow.
#[derive(Clone, Debug, PartialEq)]
pub enum Application {
    /// As much as the connection takes, or so many bytes of payload.
    Bulk {
        /// Bytes of payload, or nothing: until the run ends.
        bytes: Option<Bytes>,
    },
    /// Sessions that fetch objects one after the other, each over a connection of its own.
    Web {
        /// Sessions at the same time.
        sessions: u32,
        /// Mean size of an object, bytes of payload; sizes follow a Pareto distribution.
        object_mean: Bytes,
        /// Shape of the Pareto distribution, above 1.
        object_shape: f64,
        /// Mean think time between objects; think times are exponential.
        think_mean: Duration,
    },
    /// Datagrams at even intervals, over UDP.
    ConstantRate {
        /// Rate of IP bytes.
        rate: Bandwidth,
        /// Size of a datagram, IP bytes: 28 to the MTU of `from`.
        packet: u32,
    },
    /// A TCP connection that has data for `on` and none for `off`, in turns.
    OnOff {
        /// Mean length of an on period.
        on: Duration,
        /// Mean length of an off period.
        off: Duration,
        /// Exponential lengths rather than fixed ones.
        random: bool,
    },
    /// Programs. `{to}` and `{from}` in the command lines stand for the hosts' addresses.
    Command {
        /// A command line for the shell, in the host `from`.
        client: OsString,
        /// One for the shell in the host `to`; the client starts when this one listens.
        server: Option<OsString>,
        /// The folder for `client.out`, `client.err`, `server.out` and `server.err`; it is made if
        /// it is not there.
        output: PathBuf,
    },
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

impl Application {
    /// How many connections it has at a time, or streams of datagrams.
    pub(super) fn connections(&self) -> usize {
        match self {
            Application::Web { sessions, .. } => *sessions as usize,
            _ => 1,
        }
    }
}
