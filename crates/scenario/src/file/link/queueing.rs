//! Queue, active queue management and scheduler of a direction.

use std::collections::BTreeMap;

use fairwind_path::codel::CoDelConfig;
use fairwind_path::pipe::Aqm;
use fairwind_path::queue::Capacity;
use fairwind_path::red::RedConfig;
use schemars::JsonSchema;

use crate::diagnostic::Located;
use crate::file::decode::{self, Fields, FieldsReader, Findings, positive_duration};
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
        #[schemars(with = "BTreeMap<String, Weight>")]
        weights: Vec<(Located<String>, u32)>,
    },
}

/// Range of a weight.
const WEIGHTS: (u32, u32) = (1, 1_000_000);

// A weight, for the schema, which would show a doc comment.
#[derive(JsonSchema)]
#[schemars(inline)]
struct Weight(
    #[schemars(range(min = WEIGHTS.0, max = WEIGHTS.1))]
    #[expect(dead_code)]
    u32,
);

impl Scheduler {
    /// Reads a scheduler.
    pub(super) fn read(node: &Node, findings: &mut Findings) -> Option<Scheduler> {
        const KINDS: &[(&str, FieldsReader<Scheduler>)] = &[
            ("fifo", |_, _| Some(Scheduler::Fifo)),
            ("priority", priority),
            ("wf2q+", wf2q),
        ];
        let examples = ["\"wf2q+\"", "{ kind = \"wf2q+\", weights = { host = 40 } }"];
        decode::by_kind(node, findings, "scheduler", examples, KINDS)
    }

    /// The names of flows and hosts in it, in the order of their classes.
    pub fn names(&self) -> Vec<&Located<String>> {
        match self {
            Scheduler::Fifo => Vec::new(),
            Scheduler::Priority { order } => order.iter().collect(),
            Scheduler::Wf2q { weights } => weights.iter().map(|(name, _)| name).collect(),
        }
    }
}

/// Reads an AQM.
pub(super) fn aqm(node: &Node, findings: &mut Findings) -> Option<Aqm> {
    const KINDS: &[(&str, FieldsReader<Aqm>)] = &[
        ("drop-tail", |_, _| Some(Aqm::DropTail)),
        ("red", red),
        ("codel", codel),
    ];
    let examples = ["\"red\"", "{ kind = \"red\", min_th = 5, max_th = 15 }"];
    decode::by_kind(node, findings, "aqm", examples, KINDS)
}

/// Reads the length of a queue.
pub(super) fn queue(node: &Node, findings: &mut Findings) -> Option<Capacity> {
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
    let w_q = fields.get_or(findings, "w_q", default.w_q, &share);
    let min_th = fields.required(findings, "min_th", "5", &length);
    let max_th = fields.required(findings, "max_th", "15", |node, findings| {
        Some((length(node, findings)?, node.span))
    });
    let max_p = fields.get_or(findings, "max_p", default.max_p, &share);
    let mean_packet = fields.get_or(findings, "mean_packet", default.mean_packet, decode::bytes);
    let gentle = fields.get_or(findings, "gentle", default.gentle, decode::boolean);
    let (min_th, (max_th, span)) = (min_th?, max_th?);
    if max_th <= min_th {
        let message = format!("max_th {max_th} is not above min_th {min_th}");
        return findings.refuse(span, message, format!("write max_th = {}", min_th * 3.0));
    }
    Some(Aqm::Red(RedConfig {
        w_q,
        min_th,
        max_th,
        max_p,
        gentle,
        mean_packet,
    }))
}

fn codel(fields: &mut Fields<'_>, findings: &mut Findings) -> Option<Aqm> {
    let default = CoDelConfig::default();
    let target = fields.get_or(findings, "target", default.target, positive_duration);
    let interval = fields.get_or(findings, "interval", default.interval, positive_duration);
    let aqm = Aqm::CoDel(CoDelConfig { target, interval });
    if aqm.check().is_err() {
        let span = fields.peek("interval").or(fields.peek("target"))?.span;
        let message = format!("interval {interval} is not above target {target}");
        // The ratio of the defaults.
        return findings.refuse(
            span,
            message,
            format!("write interval = \"{}\"", target * 20),
        );
    }
    Some(aqm)
}

fn priority(fields: &mut Fields<'_>, findings: &mut Findings) -> Option<Scheduler> {
    let example = "[\"voice\", \"video\"]";
    let order = fields.required(findings, "order", example, |node, findings| {
        let names = decode::list(node, findings, example)?.iter();
        Some(
            names
                .filter_map(|name| decode::name(name, findings))
                .collect(),
        )
    });
    Some(Scheduler::Priority { order: order? })
}

fn wf2q(fields: &mut Fields<'_>, findings: &mut Findings) -> Option<Scheduler> {
    let example = "{ host = 40 }";
    let weights = fields.required(findings, "weights", example, |node, findings| {
        let weights = decode::table(node, findings, example)?.entries.iter();
        let weight = decode::whole(WEIGHTS.0, WEIGHTS.1);
        let named =
            weights.filter_map(|(name, node)| Some((name.clone(), weight(node, findings)?)));
        Some(named.collect())
    });
    Some(Scheduler::Wf2q { weights: weights? })
}
