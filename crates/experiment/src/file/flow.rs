//! A flow: which host sends what to which other host, from when on, and with which TCP.

use fairwind_path::units::{Bandwidth, Bytes, Duration};
use schemars::JsonSchema;
use std::collections::BTreeMap;

use super::schema::{BandwidthText, BytesText, DurationText, ParameterValue};
use super::stack::Stack;
use crate::diagnostic::Located;

mod parameters;

pub mod control;
pub(super) mod read;

pub use control::{Control, Switch};

/// Traffic from one host to another, over TCP unless the application says otherwise.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Flow {
    /// Name in results, in `--set` and in schedulers, unique. Default: `flow-N`, its position from 1.
    #[schemars(with = "Option<String>")]
    pub name: Located<String>,
    /// The host that sends the data.
    #[schemars(with = "String")]
    pub from: Located<String>,
    /// The host that receives it.
    #[schemars(with = "String")]
    pub to: Located<String>,
    /// Congestion control of the sender: one of `fairwind cc list` or, in the lab, one of the kernel,
    /// such as `bbr` or `kernel:NAME`. Default: `"cubic"`; `"reno"` with the 2005 stack.
    #[schemars(with = "Option<String>")]
    pub congestion_control: Located<String>,
    /// Parameters of the congestion control, such as `{ tau = "50ms" }`. Default: its own.
    #[schemars(
        rename = "parameters",
        with = "Option<BTreeMap<String, ParameterValue>>"
    )]
    pub control: Control,
    /// Other congestion controls from given times on, in the order of the times. Default: none.
    #[schemars(with = "Option<Vec<Switch>>")]
    pub switch: Vec<Switch>,
    /// What the flow sends, and when. Default: `{ kind = "bulk" }`.
    #[schemars(with = "Option<Application>")]
    pub application: Application,
    /// Payload to send, above 0, for bulk. Default: without end.
    #[schemars(with = "Option<BytesText>")]
    pub bytes: Option<Bytes>,
    /// When the flow starts, from the start of the run.
    #[schemars(with = "Option<DurationText>", extend("default" = "0s"))]
    pub start: Duration,
    /// As `SO_RCVBUF`, in the kernel's own count, above 0. Default: autotuned up to `tcp_rmem`; 174760
    /// B with the 2005 stack.
    #[schemars(with = "Option<BytesText>")]
    pub receive_buffer: Option<Bytes>,
    /// As `SO_SNDBUF`, in the kernel's own count, above 0. Default: autotuned up to `tcp_wmem`.
    #[schemars(with = "Option<BytesText>")]
    pub send_buffer: Option<Bytes>,
    /// Number of copies, named `NAME-1`, `NAME-2`, ….
    #[schemars(with = "Option<u32>", range(min = 1, max = 100_000), extend("default" = 1))]
    pub count: u32,
    /// Time between the starts of two copies.
    #[schemars(with = "Option<DurationText>", extend("default" = "0s"))]
    pub every: Duration,
    /// TCP of both hosts. Default: the file's.
    #[schemars(with = "Option<Stack>")]
    pub stack: Stack,
    /// Payload of a full segment, bytes. Default: the file's.
    #[schemars(with = "Option<u32>", range(min = 48, max = 65_483))]
    pub mss: u32,
    /// Whether packets are spread over the round-trip time even if the congestion control does not ask
    /// for it, as with the `fq` queueing discipline.
    #[schemars(with = "Option<bool>", extend("default" = false))]
    pub pacing: bool,
}

/// What a sender has to send.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Application {
    /// As much as the connection takes, or the flow's `bytes`.
    Bulk,
    /// Sessions that fetch objects one after another, each over a new connection.
    Web {
        /// Number of sessions at the same time.
        #[schemars(with = "Option<u32>", range(min = 1, max = 100_000), extend("default" = 1))]
        sessions: u32,
        /// Mean size of an object, above 0; sizes follow a Pareto distribution.
        #[schemars(with = "Option<BytesText>", extend("default" = "12kB"))]
        object_mean: Bytes,
        /// Shape of that distribution, 1.001 to 100; the smaller, the heavier the tail.
        #[schemars(with = "Option<f64>", extend("default" = 1.2))]
        object_shape: f64,
        /// Mean time between two objects, exponentially distributed.
        #[schemars(with = "Option<DurationText>", extend("default" = "1s"))]
        think_mean: Duration,
    },
    /// UDP datagrams at even intervals, without acknowledgements. Fields for TCP are refused.
    Constant {
        /// Sending rate in IP bytes, above 0.
        #[schemars(with = "BandwidthText")]
        rate: Bandwidth,
        /// Size of a datagram with its IP header, 28 B to 65535 B.
        #[schemars(with = "Option<BytesText>", extend("default" = "1500B"))]
        packet: u32,
    },
    /// A TCP connection that alternately has data to send and has none.
    OnOff {
        /// Mean length of a period with data, above 0.
        #[schemars(with = "DurationText")]
        on: Duration,
        /// Mean length of a period without data, above 0.
        #[schemars(with = "DurationText")]
        off: Duration,
        /// Whether lengths are exponentially distributed; otherwise all are the same.
        #[schemars(with = "Option<bool>", extend("default" = true))]
        random: bool,
    },
    /// Any program, in the lab; the simulator refuses it. Everything that the programs of the two hosts
    /// send to each other and no other flow claims is the flow's.
    Command {
        /// Command line at `from`, run by the shell; `{from}` and `{to}` stand for the hosts'
        /// addresses. The flow is over when it ends.
        client: String,
        /// Command line at `to`, started before the client and ended after it. Default: none.
        #[schemars(with = "Option<String>")]
        server: Option<String>,
    },
}

impl Application {
    /// Its name in files and results.
    pub fn kind(&self) -> &'static str {
        match self {
            Application::Bulk => "bulk",
            Application::Web { .. } => "web",
            Application::Constant { .. } => "constant",
            Application::OnOff { .. } => "on-off",
            Application::Command { .. } => "command",
        }
    }

    /// Whether it runs over TCP.
    pub fn uses_tcp(&self) -> bool {
        !matches!(self, Application::Constant { .. })
    }
}

impl Flow {
    /// Why the simulator cannot run it; none if it can.
    pub fn only_in_lab(&self) -> Option<String> {
        if matches!(self.application, Application::Command { .. }) {
            return Some("the simulator has no programs".to_owned());
        }
        let later = self.switch.iter().map(|switch| &switch.control);
        let mut controls = std::iter::once(&self.control).chain(later);
        controls.find_map(|control| match control {
            Control::Own(_) => None,
            Control::Kernel(name) => {
                Some(format!("the simulator has no congestion control `{name}`"))
            }
        })
    }

    /// Name and start of each copy.
    pub fn copies(&self) -> impl Iterator<Item = (String, Duration)> + '_ {
        (0..self.count).map(|copy| {
            let name = match self.count {
                1 => self.name.value.clone(),
                _ => format!("{}-{}", self.name.value, copy + 1),
            };
            (name, self.start + self.every * u64::from(copy))
        })
    }
}
