//! The input of a run: pipes, flows over routes of pipes, and what is recorded.

use fairwind_cc::AdvisedStart;
use fairwind_cc::native::Parameters;
use fairwind_path::pipe::PipeConfig;
use fairwind_path::units::{Bytes, Duration, Time};
use fairwind_workload::Application;

/// One run. The same scenario always gives the same [`Outcome`](crate::outcome::Outcome).
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seed of every random choice in the run.
    pub seed: u64,
    /// The run ends at this time.
    pub duration: Duration,
    /// Totals leave out what happens before this time.
    pub warmup: Duration,
    /// One-way pipes; a link of the experiment file becomes two of them.
    pub pipes: Vec<PipeConfig>,
    /// Flows: a sender, a receiver and the two routes between them.
    pub flows: Vec<FlowConfig>,
    /// What the observer is shown.
    pub sampling: Sampling,
}

/// When the observer sees instruments and pipe states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Never: only the outcome is needed.
    Off,
    /// At multiples of the interval.
    Every(Duration),
    /// Flows after each acknowledgement that their sender processes, pipes at multiples of the interval.
    EveryAck(Duration),
}

/// A pipe on a route, and the scheduler class of the flow's packets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index into [`Scenario::pipes`].
    pub pipe: u32,
    /// Scheduler class in that pipe; 0 where the scheduler has only one.
    pub class: u16,
}

/// A sender, a receiver, their routes and their traffic.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// Numbers of the sending and of the receiving host: connections between the same two share what their
    /// congestion control lets them.
    pub hosts: [u32; 2],
    /// When the sender opens its connection or sends its first datagram.
    pub start: Time,
    /// What is sent.
    pub application: Application,
    /// TCP settings; not used by [`Application::ConstantRate`].
    pub tcp: TcpConfig,
    /// From sender to receiver, in order.
    pub forward: Vec<Hop>,
    /// From receiver to sender, in order.
    pub backward: Vec<Hop>,
}

/// The TCP behaviour of a flow.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// The TCP implementation to model.
    pub stack: Stack,
    /// Jiffies per second of the kernel's clock (`CONFIG_HZ`), for `Stack::Linux` only. `None`:
    /// 1000, and timers that are never late.
    pub hz: Option<u32>,
    /// Parameters of the congestion control; they identify the algorithm.
    pub parameters: Parameters,
    /// Later changes of congestion control, in order of time.
    pub switches: Vec<Switch>,
    /// What its connections are advised of the path between the hosts, in virtual time.
    pub advised_start: Option<AdvisedStart>,
    /// Payload of a full segment, bytes; 1448 leaves 52 bytes of headers in a 1500-byte packet.
    pub mss: u32,
    /// Receive buffer in bytes, as `SO_RCVBUF` doubles it. `None`: autotuned (`Stack::Linux`) or
    /// 174,760 bytes (`Stack::Classic2005`).
    pub receive_buffer: Option<Bytes>,
    /// Send buffer in bytes. `None`: autotuned up to `tcp_wmem[2]`.
    pub send_buffer: Option<Bytes>,
    /// `tcp_rmem`: minimum, default and maximum receive buffer in bytes.
    pub tcp_rmem: [u64; 3],
    /// `tcp_wmem`: minimum, default and maximum send buffer in bytes.
    pub tcp_wmem: [u64; 3],
    /// `tcp_tso_win_divisor`: this part of the window leaves at once, though a larger burst would leave with
    /// the next acknowledgement; at least 1.
    pub tso_win_divisor: u32,
    /// Pace by `sk_pacing_rate` even if the congestion control does not ask for it, as the `fq` qdisc does.
    pub pacing: bool,
    /// Ask for explicit congestion notification (RFC 3168; `net.ipv4.tcp_ecn`).
    pub ecn: bool,
}

impl TcpConfig {
    /// Under this congestion control, with Linux's defaults, and timers that are never late.
    pub fn new(parameters: Parameters) -> TcpConfig {
        TcpConfig {
            stack: Stack::Linux,
            hz: None,
            parameters,
            switches: Vec::new(),
            advised_start: None,
            mss: 1448,
            receive_buffer: None,
            send_buffer: None,
            tcp_rmem: [4096, 131_072, 6_291_456],
            tcp_wmem: [4096, 16_384, 4_194_304],
            tso_win_divisor: 3,
            pacing: false,
            ecn: false,
        }
    }

    /// Parameters of the congestion control that a connection opened at `now` starts with.
    pub fn parameters_at(&self, now: Time) -> &Parameters {
        let earlier = self.switches.iter().take_while(|switch| switch.at <= now);
        earlier
            .last()
            .map_or(&self.parameters, |switch| &switch.parameters)
    }
}

/// A change of congestion control during the run.
#[derive(Clone, Debug)]
pub struct Switch {
    /// When, from the start of the run.
    pub at: Time,
    /// Parameters of the new congestion control; they identify the algorithm.
    pub parameters: Parameters,
}

/// A TCP implementation that an endpoint models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// Linux 6.x.
    Linux,
    /// Linux 2.4, the stack at the time of the papers: initial window 2, three duplicate ACKs,
    /// SACK, no pacing, RACK, PRR or autotuning.
    Classic2005,
}
