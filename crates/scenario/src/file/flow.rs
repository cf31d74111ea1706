//! A flow: which host sends what to which other host, from when on, and with which TCP.

use std::collections::BTreeMap;

use fairwind_path::units::{Bytes, Duration};
use schemars::JsonSchema;

use super::decode::{self, Fields, Findings, choice, duration, name};
use super::schema::ParameterValue;
use super::stack::Stack;
use super::value::Node;
use crate::diagnostic::Located;

mod advised_start;
mod application;
mod control;
mod parameters;

pub use advised_start::AdvisedStart;
pub use application::Application;
pub use control::{Control, Switch, congestion_control};

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
    /// such as `vegas` or `kernel:NAME`. Default: `"cubic"`; `"reno"` with the 2005 stack.
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
    /// What its connections are advised of the path, as `{ rate = "100Mbit/s", rtt = "50ms" }`: where they
    /// start by Careful Resume (RFC 9959). With programs, connections from either host. Default: nothing.
    #[schemars(with = "Option<AdvisedStart>")]
    pub advised_start: Option<AdvisedStart>,
    /// What the flow sends, and when. Default: `{ kind = "bulk" }`.
    #[schemars(with = "Option<Application>")]
    pub application: Application,
    /// Payload to send, above 0, for bulk. Default: without end.
    pub bytes: Option<Bytes>,
    /// When the flow starts, from the start of the run.
    #[schemars(with = "Option<Duration>", extend("default" = "0s"))]
    pub start: Duration,
    /// As `SO_RCVBUF`, in the kernel's own count, above 0. Default: autotuned up to `tcp_rmem`; 174760
    /// B with the 2005 stack.
    pub receive_buffer: Option<Bytes>,
    /// As `SO_SNDBUF`, in the kernel's own count, above 0. Default: autotuned up to `tcp_wmem`.
    pub send_buffer: Option<Bytes>,
    /// Number of copies, named `NAME-1`, `NAME-2`, ….
    #[schemars(with = "Option<u32>", range(min = 1, max = 100_000), extend("default" = 1))]
    pub count: u32,
    /// Time between the starts of two copies.
    #[schemars(with = "Option<Duration>", extend("default" = "0s"))]
    pub every: Duration,
    /// TCP of both hosts. Default: the file's.
    #[schemars(with = "Option<Stack>")]
    pub stack: Stack,
    /// Payload of a full segment, bytes. Default: the file's.
    #[schemars(with = "Option<u32>", range(min = MSS_RANGE.0, max = MSS_RANGE.1))]
    pub mss: u32,
    /// Whether packets are spread over the round-trip time even if the congestion control does not ask
    /// for it, as with the `fq` queueing discipline.
    #[schemars(with = "Option<bool>", extend("default" = false))]
    pub pacing: bool,
    /// Whether its connections ask for explicit congestion notification (RFC 3168), so that an AQM with
    /// `ecn` marks their packets.
    #[schemars(with = "Option<bool>", extend("default" = false))]
    pub ecn: bool,
}

/// Range of a segment's payload in bytes: the kernel's minimum, and what fits into an IP packet.
pub(super) const MSS_RANGE: (u32, u32) = (48, 65_483);

impl Flow {
    /// Reads `[[flow]]` table number `position` (from 1). `stack` and `mss` are the file's, for a flow
    /// without its own.
    pub(super) fn read(
        node: &Node,
        position: usize,
        stack: Stack,
        mss: u32,
        findings: &mut Findings,
    ) -> Option<Flow> {
        let example = "[[flow]] with from = \"a\" and to = \"b\"";
        let mut fields = Fields::of("flow", node, findings, example)?;
        let own_name = fields.optional("name", name);
        let from = fields.required("from", "\"a\"", name);
        let to = fields.required("to", "\"b\"", name);
        let stack = fields.get_or("stack", stack, choice(Stack::WORDS));
        let application = fields.get_or("application", Application::Bulk, Application::read);
        let congestion_control = match fields.node("congestion_control") {
            Some(node) => decode::located_text(node, fields.findings),
            None => Some(Located::new(stack.default_control(), node.span)),
        };
        let control = control::read(&mut fields, congestion_control.as_ref());
        let advised_start = advised_start::read(&mut fields, &control);
        let flow = Flow {
            name: own_name.unwrap_or_else(|| Located::new(format!("flow-{position}"), node.span)),
            from,
            to,
            congestion_control: fields.needed(congestion_control).unwrap_or_default(),
            control,
            advised_start,
            switch: fields.or_default("switch", control::switches),
            application,
            bytes: fields.optional("bytes", decode::bytes),
            start: fields.or_default("start", duration),
            receive_buffer: fields.optional("receive_buffer", decode::bytes),
            send_buffer: fields.optional("send_buffer", decode::bytes),
            count: fields.get_or("count", 1, decode::whole(1, 100_000)),
            every: fields.or_default("every", duration),
            stack,
            mss: fields.get_or("mss", mss, segment_payload()),
            pacing: fields.or_default("pacing", decode::boolean),
            ecn: fields.or_default("ecn", decode::boolean),
        };
        flow.application.refuse_others(&mut fields);
        if fields.is_complete() && flow.from.value == flow.to.value {
            let message = format!("a flow from `{}` to itself", flow.from.value);
            fields.refuse(flow.to.span, message, "name two different hosts");
        }
        fields.finish(flow)
    }

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

/// Reads the payload of a full segment.
pub(super) fn segment_payload() -> impl Fn(&Node, &mut Findings) -> Option<u32> {
    decode::whole(MSS_RANGE.0, MSS_RANGE.1)
}
