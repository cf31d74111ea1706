//! Queue, active queue management and scheduler of a direction.

use std::collections::BTreeMap;

use fairwind_path::codel::CoDelConfig;
use fairwind_path::pipe::Aqm;
use fairwind_path::queue::Capacity;
use fairwind_path::red::RedConfig;
use schemars::JsonSchema;

use crate::diagnostic::Located;
use crate::file::decode::{self, Fields, Findings, Kinds};
use crate::file::value::Node;
use crate::units_text::Amount;

/// Which packet goes next.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(
    rename = "SchedulerTable",
    tag = "kind",
    rename_all = "kebab-case",
    deny_unknown_fields
)]
pub enum Scheduler {
    /// First in, first out.
    Fifo,
    /// Strict priority.
    Priority {
        /// Flows or hosts, the most important first; all others come last.
        #[schemars(with = "Vec<String>")]
        order: Vec<Located<String>>,
    },
    /// WF2Q+: shares by weight.
    #[schemars(rename = "wf2q+")]
    Wf2q {
        /// Flows or hosts and their weights, 1 to 1000000; all others share one class of weight 1.
        #[schemars(with = "BTreeMap<String, u32>")]
        weights: Vec<(Located<String>, u32)>,
    },
}

impl Scheduler {
    /// The names of flows and hosts in it, in the order of their classes.
    pub fn names(&self) -> Vec<&Located<String>> {
        match self {
            Scheduler::Fifo => Vec::new(),
            Scheduler::Priority { order } => order.iter().collect(),
            Scheduler::Wf2q { weights } => weights.iter().map(|(name, _)| name).collect(),
        }
    }
}

/// How an `aqm` is read.
pub const AQM: Kinds<Aqm> = Kinds {
    what: "aqm",
    examples: ["\"red\"", "{ kind = \"red\", min_th = 5, max_th = 15 }"],
    all: &[
        ("drop-tail", |_, _| Some(Aqm::DropTail)),
        ("red", red),
        ("codel", codel),
    ],
};

/// How a `scheduler` is read.
pub const SCHEDULER: Kinds<Scheduler> = Kinds {
    what: "scheduler",
    examples: ["\"wf2q+\"", "{ kind = \"wf2q+\", weights = { host = 40 } }"],
    all: &[
        ("fifo", |_, _| Some(Scheduler::Fifo)),
        ("priority", priority),
        ("wf2q+", wf2q),
    ],
};

/// Reads the length of a queue.
pub fn queue(node: &Node, findings: &mut Findings) -> Option<Capacity> {
    if node.is_text("unlimited") {
        return Some(Capacity::Unlimited);
    }
    Some(match decode::amount(node, findings)? {
        Amount::Packets(packets) => Capacity::Packets(u32::try_from(packets).unwrap_or(u32::MAX)),
        Amount::Bytes(bytes) => Capacity::Bytes(bytes),
    })
}

fn red(fields: &mut Fields<'_>, findings: &mut Findings) -> Option<Aqm> {
    let default = RedConfig::default();
    // A weight or probability of 0 would silently disable RED.
    let share = decode::number(f64::MIN_POSITIVE, 1.0);
    let length = decode::number(0.0, 1e12);
    let w_q = fields.optional(findings, "w_q", &share);
    let min_th = fields.required(findings, "min_th", "5", &length);
    let max_th = fields.required(findings, "max_th", "15", |node, findings| {
        Some((length(node, findings)?, node.span))
    });
    let max_p = fields.optional(findings, "max_p", &share);
    let mean_packet = fields.optional(findings, "mean_packet", decode::bytes);
    let gentle = fields.optional(findings, "gentle", decode::boolean);
    let (min_th, (max_th, span)) = (min_th?, max_th?);
    if max_th <= min_th {
        findings.add(
            span,
            format!("max_th {max_th} is not above min_th {min_th}"),
            format!("write max_th = {}", min_th * 3.0),
        );
        return None;
    }
    Some(Aqm::Red(RedConfig {
        w_q: w_q.unwrap_or(default.w_q),
        min_th,
        max_th,
        max_p: max_p.unwrap_or(default.max_p),
        gentle: gentle.unwrap_or(default.gentle),
        mean_packet: mean_packet.unwrap_or(default.mean_packet),
    }))
}

fn codel(fields: &mut Fields<'_>, findings: &mut Findings) -> Option<Aqm> {
    let default = CoDelConfig::default();
    let target = fields.optional(findings, "target", decode::positive_duration);
    let interval = fields.optional(findings, "interval", decode::positive_duration);
    Some(Aqm::CoDel(CoDelConfig {
        target: target.unwrap_or(default.target),
        interval: interval.unwrap_or(default.interval),
    }))
}

fn priority(fields: &mut Fields<'_>, findings: &mut Findings) -> Option<Scheduler> {
    let example = "[\"voice\", \"video\"]";
    let order = fields.required(findings, "order", example, |node, f| {
        let names = decode::list(node, f, example)?;
        Some(names.iter().filter_map(|n| decode::name(n, f)).collect())
    });
    Some(Scheduler::Priority { order: order? })
}

fn wf2q(fields: &mut Fields<'_>, findings: &mut Findings) -> Option<Scheduler> {
    let example = "{ host = 40 }";
    let weights = fields.required(findings, "weights", example, |node, f| {
        let table = decode::table(node, f, example)?;
        let weight = |(name, node): &(Located<String>, Node)| {
            let weight = decode::whole(1, 1_000_000)(node, f)?;
            Some((name.clone(), weight as u32))
        };
        Some(table.entries.iter().filter_map(weight).collect())
    });
    Some(Scheduler::Wf2q { weights: weights? })
}
