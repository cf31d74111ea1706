//! What the connections of a flow are advised of their path.

use fairwind_cc::native;
use fairwind_path::units::{Bandwidth, Duration};
use schemars::JsonSchema;

use super::Control;
use crate::file::decode::{self, Fields, Findings, positive_duration};
use crate::file::value::Node;

/// A forecast of the path, by which connections start (Careful Resume, RFC 9959).
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AdvisedStart {
    /// The rate that is promised, packets' headers included: 8bit/s to 8Tbit/s.
    pub rate: Bandwidth,
    /// The minimum round-trip time of the path, 2us to 10s.
    pub rtt: Duration,
    /// When the forecast ceases to hold, from the start of the run. Default: never.
    #[schemars(with = "Option<Duration>")]
    pub until: Option<Duration>,
}

impl AdvisedStart {
    /// For congestion controls when the run starts at `epoch_ns` of their clock, nanoseconds. None: it is out of range.
    pub fn for_control(&self, epoch_ns: u64) -> Option<fairwind_cc::AdvisedStart> {
        let until = |until: Duration| epoch_ns.saturating_add(until.as_nanos());
        let (rate, rtt_us) = (self.rate.as_bps() / 8, self.rtt.as_micros());
        fairwind_cc::AdvisedStart::new(rate, rtt_us, self.until.map_or(u64::MAX, until)).ok()
    }
}

/// Reads `advised_start` of a flow under this congestion control.
pub(super) fn read(fields: &mut Fields<'_, '_>, control: &Control) -> Option<AdvisedStart> {
    let node = fields.node("advised_start")?;
    let start = table(node, fields.findings);
    let taken = match control {
        Control::Own(parameters) => parameters.control().takes_advised_start(),
        Control::Kernel(name) => name.is_empty(),
    };
    if !taken {
        let all = native::all().iter().filter(|own| own.takes_advised_start());
        let names: Vec<&str> = all.map(|own| own.name()).collect();
        let help = format!("leave it out, or choose one of {}", names.join(", "));
        let message = "`advised_start` with a congestion control that takes none";
        fields.refuse(node.span, message, help);
    }
    fields.needed(start)
}

fn table(node: &Node, findings: &mut Findings) -> Option<AdvisedStart> {
    let example = "{ rate = \"100Mbit/s\", rtt = \"50ms\" }";
    let mut fields = Fields::of("advised_start", node, findings, example)?;
    let start = AdvisedStart {
        rate: fields.required("rate", "\"100Mbit/s\"", decode::bandwidth),
        rtt: fields.required("rtt", "\"50ms\"", positive_duration),
        until: fields.optional("until", decode::duration),
    };
    if fields.is_complete() && start.for_control(0).is_none() {
        let help = "write a rate from 8bit/s to 8Tbit/s and an rtt from 2us to 10s";
        fields.refuse(node.span, "no path is like this", help);
    }
    fields.finish(start)
}
