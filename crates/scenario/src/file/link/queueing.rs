//! Queue, active queue management and scheduler of a direction.

use std::collections::BTreeMap;

use fairwind_path::codel::CoDelConfig;
use fairwind_path::dualpi2::DualPi2Config;
use fairwind_path::fq_codel::FqCoDelConfig;
use fairwind_path::pie::{MIN_UPDATE, PieConfig};
use fairwind_path::pipe::Aqm;
use fairwind_path::policer::PolicerConfig;
use fairwind_path::queue::Capacity;
use fairwind_path::red::RedConfig;
use fairwind_path::units::Duration;
use schemars::JsonSchema;

use crate::diagnostic::Located;
use crate::file::decode::{self, Fields, FieldsReader, Findings, positive_duration, probability};
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
            ("fifo", |_| Scheduler::Fifo),
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
        ("drop-tail", |_| Aqm::DropTail),
        ("red", red),
        ("codel", codel),
        ("pie", pie),
        ("fq-codel", fq_codel),
        ("dualpi2", dualpi2),
    ];
    let examples = ["\"red\"", "{ kind = \"red\", min_th = 5, max_th = 15 }"];
    decode::by_kind(node, findings, "aqm", examples, KINDS)
}

/// Reads a policer, or that there is none.
pub(super) fn policer(node: &Node, findings: &mut Findings) -> Option<Option<PolicerConfig>> {
    if node.is_text("none") {
        return Some(None);
    }
    let example = "{ rate = \"20Mbit/s\", burst = \"64kB\" }";
    let mut fields = Fields::of("policer", node, findings, example)?;
    let policer = PolicerConfig {
        rate: fields.required("rate", "\"20Mbit/s\"", decode::bandwidth),
        burst: fields.required("burst", "\"64kB\"", decode::bytes),
    };
    fields.finish(Some(policer))
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

fn red(fields: &mut Fields<'_, '_>) -> Aqm {
    let default = RedConfig::default();
    // A weight or probability of 0 would silently disable RED.
    let share = decode::number(f64::MIN_POSITIVE, 1.0);
    let length = decode::number(0.0, 1e12);
    let red = RedConfig {
        w_q: fields.get_or("w_q", default.w_q, &share),
        min_th: fields.required("min_th", "5", &length),
        max_th: fields.required("max_th", "15", &length),
        max_p: fields.get_or("max_p", default.max_p, &share),
        mean_packet: fields.get_or("mean_packet", default.mean_packet, decode::bytes),
        gentle: fields.get_or("gentle", default.gentle, decode::boolean),
        ecn: fields.get_or("ecn", default.ecn, decode::boolean),
    };
    let (min_th, max_th) = (red.min_th, red.max_th);
    if let Some(node) = fields.peek("max_th")
        && fields.is_complete()
        && max_th <= min_th
    {
        let message = format!("max_th {max_th} is not above min_th {min_th}");
        fields.refuse(
            node.span,
            message,
            format!("write max_th = {}", min_th * 3.0),
        );
    }
    Aqm::Red(red)
}

fn codel(fields: &mut Fields<'_, '_>) -> Aqm {
    let default = CoDelConfig::default();
    let target = fields.get_or("target", default.target, positive_duration);
    let interval = fields.get_or("interval", default.interval, positive_duration);
    let ecn = fields.get_or("ecn", default.ecn, decode::boolean);
    let aqm = Aqm::CoDel(CoDelConfig {
        target,
        interval,
        ecn,
    });
    interval_above_target(&aqm, (target, interval), fields);
    aqm
}

fn fq_codel(fields: &mut Fields<'_, '_>) -> Aqm {
    let default = FqCoDelConfig::default();
    let fq_codel = FqCoDelConfig {
        flows: fields.get_or("flows", default.flows, decode::whole(1, 65_536)),
        quantum: fields.get_or("quantum", default.quantum, decode::bytes),
        target: fields.get_or("target", default.target, positive_duration),
        interval: fields.get_or("interval", default.interval, positive_duration),
        ecn: fields.get_or("ecn", default.ecn, decode::boolean),
    };
    let aqm = Aqm::FqCoDel(fq_codel);
    interval_above_target(&aqm, (fq_codel.target, fq_codel.interval), fields);
    aqm
}

/// Refuses what the check of a CoDel's times refuses.
fn interval_above_target(
    aqm: &Aqm,
    (target, interval): (Duration, Duration),
    fields: &mut Fields<'_, '_>,
) {
    if let Some(node) = fields.peek("interval").or(fields.peek("target"))
        && aqm.check().is_err()
    {
        let message = format!("interval {interval} is not above target {target}");
        // The ratio of the defaults.
        let help = format!("write interval = \"{}\"", target * 20);
        fields.refuse(node.span, message, help);
    }
}

/// What a gain of a controller may be; 0 would silently disable its part.
fn gain(node: &Node, findings: &mut Findings) -> Option<f64> {
    decode::number(f64::MIN_POSITIVE, 1e6)(node, findings)
}

fn pie(fields: &mut Fields<'_, '_>) -> Aqm {
    let default = PieConfig::default();
    let pie = PieConfig {
        target: fields.get_or("target", default.target, positive_duration),
        tupdate: fields.get_or("tupdate", default.tupdate, time_between_updates),
        alpha: fields.get_or("alpha", default.alpha, gain),
        beta: fields.get_or("beta", default.beta, gain),
        max_burst: fields.get_or("max_burst", default.max_burst, decode::duration),
        ecn: fields.get_or("ecn", default.ecn, decode::boolean),
        mark_ecnth: fields.get_or("mark_ecnth", default.mark_ecnth, probability),
    };
    Aqm::Pie(pie)
}

fn dualpi2(fields: &mut Fields<'_, '_>) -> Aqm {
    let default = DualPi2Config::default();
    let dualpi2 = DualPi2Config {
        target: fields.get_or("target", default.target, positive_duration),
        tupdate: fields.get_or("tupdate", default.tupdate, time_between_updates),
        alpha: fields.get_or("alpha", default.alpha, gain),
        beta: fields.get_or("beta", default.beta, gain),
        coupling: fields.get_or("coupling", default.coupling, gain),
        step: fields.get_or("step", default.step, decode::duration),
    };
    Aqm::DualPi2(dualpi2)
}

fn time_between_updates(node: &Node, findings: &mut Findings) -> Option<Duration> {
    let tupdate = decode::duration(node, findings)?;
    if tupdate >= MIN_UPDATE {
        return Some(tupdate);
    }
    let help = format!("write at least tupdate = \"{MIN_UPDATE}\"");
    findings.refuse(node.span, format!("{tupdate} is too short"), help)
}

fn priority(fields: &mut Fields<'_, '_>) -> Scheduler {
    let example = "[\"voice\", \"video\"]";
    let order = fields.required("order", example, decode::each(example, decode::name));
    Scheduler::Priority { order }
}

fn wf2q(fields: &mut Fields<'_, '_>) -> Scheduler {
    let example = "{ host = 40 }";
    let weights = |node: &Node, findings: &mut Findings| {
        let weights = decode::table(node, findings, example)?.entries.iter();
        let weight = decode::whole(WEIGHTS.0, WEIGHTS.1);
        let named =
            weights.filter_map(|(name, node)| Some((name.clone(), weight(node, findings)?)));
        Some(named.collect())
    };
    let weights = fields.required("weights", example, weights);
    Scheduler::Wf2q { weights }
}
