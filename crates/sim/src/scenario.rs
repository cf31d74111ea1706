//! What is simulated: pipes, flows over routes of pipes, and what is recorded.

use fairwind_cc::native::Parameters;
use fairwind_path::pipe::PipeConfig;
use fairwind_path::units::{Bytes, Duration, Time};
use fairwind_workload::Application;

/// One run. The same scenario gives the same [`Outcome`](crate::outcome::Outcome), always.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Seed of every random choice in the run.
    pub seed: u64,
    /// The run ends at this time.
    pub duration: Duration,
    /// Summaries leave out what happens before this time.
    pub warmup: Duration,
    /// One-way pipes; a link of the experiment file is two of them.
    pub pipes: Vec<PipeConfig>,
    /// Flows, each one a sender, a receiver and the routes between them.
    pub flows: Vec<FlowConfig>,
    /// What the observer is shown.
    pub sampling: Sampling,
}

/// When the observer sees instruments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// Never: only the outcome is wanted.
    Off,
    /// At multiples of the interval.
    Every(Duration),
    /// Flows after each acknowledgement they process, pipes at multiples of the interval.
    EveryAck(Duration),
}

/// A pipe on a route, and the scheduler class that the flow's packets have there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Index into [`Scenario::pipes`].
    pub pipe: u32,
    /// Scheduler class in that pipe; 0 where the scheduler has only one.
    pub class: u16,
}

/// A sender, a receiver and what they say to each other.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// When the sender opens its connection or sends its first datagram.
    pub start: Time,
    /// What is sent.
    pub application: Application,
    /// How it is sent; not used by [`Application::ConstantRate`].
    pub tcp: TcpConfig,
    /// From sender to receiver, in order.
    pub forward: Vec<Hop>,
    /// From receiver to sender, in order.
    pub backward: Vec<Hop>,
}

/// The behaviour of the TCP of a flow.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Which days' TCP.
    pub stack: Stack,
    /// Jiffies a second of the kernel's clock, or nothing: 1000, and timers that are never late.
    /// `Stack::Linux` only.
    pub hz: Option<u32>,
    /// The parameters of the congestion control, which know their control.
    pub parameters: Parameters,
    /// Controls that take its place later, in the order of their times.
    pub switches: Vec<Switch>,
    /// Payload of a full segment, bytes; 1448 leaves 52 bytes of headers in a 1500-byte packet.
    pub mss: u32,
    /// Receive buffer, bytes as `SO_RCVBUF` doubles them, or nothing: autotuned (`Stack::Linux`),
    /// 174,760 (`Stack::Classic2005`).
    pub receive_buffer: Option<Bytes>,
    /// Send buffer in bytes, or nothing: autotuned up to `tcp_wmem[2]`.
    pub send_buffer: Option<Bytes>,
    /// `tcp_rmem`: least, default and greatest receive buffer in bytes.
    pub tcp_rmem: [u64; 3],
    /// `tcp_wmem`: least, default and greatest send buffer in bytes.
    pub tcp_wmem: [u64; 3],
    /// Pace by `sk_pacing_rate` even if the control does not ask for it, as the `fq` qdisc does.
    pub pacing: bool,
}

impl TcpConfig {
    /// The parameters of the control that a connection begins with at `now`.
    pub fn parameters_at(&self, now: Time) -> &Parameters {
        let earlier = self.switches.iter().take_while(|switch| switch.at <= now);
        earlier
            .last()
            .map_or(&self.parameters, |switch| &switch.parameters)
    }
}

/// Another congestion control from a time on.
#[derive(Clone, Debug)]
pub struct Switch {
    /// When, from the start of the run.
    pub at: Time,
    /// The control's parameters, which know their control.
    pub parameters: Parameters,
}

/// Which days' TCP an endpoint behaves as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// Linux 6.x.
    Linux,
    /// Linux 2.4, the papers' days: initial window 2, three duplicate ACKs, SACK, no pacing, RACK,
    /// PRR or autotuning.
    Classic2005,
}
