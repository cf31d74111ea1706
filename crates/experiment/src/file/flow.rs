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
    /// Name in results, in `--set flow.NAME.…` and in schedulers, unique. Default: `flow-N`, N the
    /// position in the file from 1. Copies are called `NAME-1`, `NAME-2`, …
    #[schemars(with = "Option<String>")]
    pub name: Located<String>,
    /// The host that sends the data.
    #[schemars(with = "String")]
    pub from: Located<String>,
    /// The host that receives it.
    #[schemars(with = "String")]
    pub to: Located<String>,
    /// Congestion control of the sender; `fairwind cc list` prints them. One that only the kernel
    /// may have, such as `bbr` or, for any name, `kernel:NAME`, runs only in the lab. Default:
    /// `cubic`, and `reno` with the 2005 stack.
    #[schemars(with = "Option<String>")]
    pub congestion_control: Located<String>,
    /// Parameters of the congestion control: a number in the parameter's own unit, or a quantity
    /// such as "50ms" for those that are times.
    #[schemars(
        rename = "parameters",
        with = "Option<BTreeMap<String, ParameterValue>>"
    )]
    pub control: Control,
    /// Other congestion controls from given times on, in the order of the times. Default: none.
    #[schemars(with = "Option<Vec<Switch>>")]
    pub switch: Vec<Switch>,
    /// What the sender has to send. Default: bulk, as much as the connection takes.
    #[schemars(with = "Option<Application>")]
    pub application: Application,
    /// Payload to send, for the bulk application. Default: without end.
    #[schemars(with = "Option<BytesText>")]
    pub bytes: Option<Bytes>,
    /// When the flow starts, from the start of the run. Default: 0.
    #[schemars(with = "Option<DurationText>", extend("default" = "0s"))]
    pub start: Duration,
    /// Receive buffer as the kernel counts it (half of it or more is the window). Default:
    /// autotuned up to `tcp_rmem`; 174760 B with the 2005 stack.
    #[schemars(with = "Option<BytesText>")]
    pub receive_buffer: Option<Bytes>,
    /// Send buffer. Default: autotuned up to `tcp_wmem`.
    #[schemars(with = "Option<BytesText>")]
    pub send_buffer: Option<Bytes>,
    /// Copies of the flow, 1 to 100000. Default: 1.
    #[schemars(with = "Option<u32>", range(min = 1, max = 100_000), extend("default" = 1))]
    pub count: u32,
    /// Time between the starts of two copies. Default: 0.
    #[schemars(with = "Option<DurationText>", extend("default" = "0s"))]
    pub every: Duration,
    /// Whose TCP the two ends have. Default: the file's `stack`.
    #[schemars(with = "Option<Stack>")]
    pub stack: Stack,
    /// Payload of a full segment in bytes, 48 to 65483. Default: the file's `mss`.
    #[schemars(with = "Option<u32>", range(min = 48, max = 65_483))]
    pub mss: u32,
    /// Spread packets over the round-trip time even if the control does not ask for it, as the `fq`
    /// queueing discipline does. Default: false.
    #[schemars(with = "Option<bool>", extend("default" = false))]
    pub pacing: bool,
}

/// What a sender has to send.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Application {
    /// As much as the connection takes, or the flow's `bytes`.
    Bulk,
    /// Sessions that fetch objects one after the other, each over a connection of its own.
    Web {
        /// Sessions at the same time, 1 to 100000. Default: 1.
        #[schemars(with = "Option<u32>", range(min = 1, max = 100_000), extend("default" = 1))]
        sessions: u32,
        /// Mean size of an object; sizes follow a Pareto distribution. Default: `12kB`.
        #[schemars(with = "Option<BytesText>", extend("default" = "12kB"))]
        object_mean: Bytes,
        /// Shape of the Pareto distribution, above 1 to 100; the smaller, the heavier the tail.
        /// Default: 1.2.
        #[schemars(with = "Option<f64>", extend("default" = 1.2))]
        object_shape: f64,
        /// Mean think time between two objects, exponential. Default: `1s`.
        #[schemars(with = "Option<DurationText>", extend("default" = "1s"))]
        think_mean: Duration,
    },
    /// Datagrams at even intervals without acknowledgements, as UDP.
    Constant {
        /// Rate in IP bytes.
        #[schemars(with = "BandwidthText")]
        rate: Bandwidth,
        /// Size of a datagram with its IP header, 28 B to 65535 B. Default: `1500B`.
        #[schemars(with = "Option<BytesText>", extend("default" = "1500B"))]
        packet: u32,
    },
    /// A TCP connection that has data for a while and none for a while, in turns.
    OnOff {
        /// Mean length of an on period.
        #[schemars(with = "DurationText")]
        on: Duration,
        /// Mean length of an off period.
        #[schemars(with = "DurationText")]
        off: Duration,
        /// Exponential lengths; otherwise all are the same. Default: true.
        #[schemars(with = "Option<bool>", extend("default" = true))]
        random: bool,
    },
    /// Any program in the lab; the simulator has no programs. Everything that the programs of the
    /// two hosts send to each other and no other flow claims is the flow's.
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
