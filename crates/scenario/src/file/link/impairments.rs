//! Jitter, loss, reordering and aggregation of a direction.

use fairwind_path::aggregation::AggregationConfig;
use fairwind_path::delay::{Displacement, Jitter, JitterDistribution, ReorderConfig};
use fairwind_path::loss::LossConfig;

use crate::file::decode::{self, Fields, Findings, probability};
use crate::file::trace::{self, Recordings};
use crate::file::value::{Node, Value};

const DISTRIBUTION: &[(&str, JitterDistribution)] = &[
    ("uniform", JitterDistribution::Uniform),
    ("normal", JitterDistribution::Normal),
    ("pareto", JitterDistribution::Pareto),
];

/// Reads a jitter: its amount, or a table.
pub(super) fn jitter(node: &Node, findings: &mut Findings) -> Option<Jitter> {
    let Value::Table(table) = &node.value else {
        return Some(Jitter {
            amount: decode::duration(node, findings)?,
            ..Jitter::default()
        });
    };
    let mut fields = Fields::new("jitter", table, node.span, findings);
    let jitter = Jitter {
        amount: fields.required("amount", "\"2ms\"", decode::duration),
        distribution: fields.or_default("distribution", decode::choice(DISTRIBUTION)),
        correlation: fields.or_default("correlation", correlation),
        overtake: fields.or_default("overtake", decode::boolean),
    };
    fields.finish(jitter)
}

fn correlation(node: &Node, findings: &mut Findings) -> Option<f64> {
    let correlation = probability(node, findings)?;
    if correlation < 1.0 {
        return Some(correlation);
    }
    let message = "with a correlation of 1 the delay would never change";
    findings.refuse(node.span, message, "write a number from 0 to below 1")
}

/// Reads a loss: a probability, a recording of one, or a model.
pub(super) fn loss(
    node: &Node,
    recordings: Recordings<'_>,
    findings: &mut Findings,
) -> Option<LossConfig> {
    let Value::Table(table) = &node.value else {
        return Some(match probability(node, findings)? {
            0.0 => LossConfig::None,
            probability => LossConfig::Bernoulli(probability),
        });
    };
    if table.get("trace").is_some() {
        let steps = trace::steps(node, table, recordings, "probability", findings);
        return steps.map(LossConfig::Steps);
    }
    let mut fields = Fields::new("loss of kind gilbert-elliott", table, node.span, findings);
    let kind = decode::choice(&[("gilbert-elliott", Some(()))]);
    fields.required("kind", "\"gilbert-elliott\"", kind)?;
    let loss = LossConfig::GilbertElliott {
        p: fields.required("p", "0.01", probability),
        r: fields.required("r", "0.2", probability),
        h: fields.or_default("h", probability),
        k: fields.get_or("k", 1.0, probability),
    };
    fields.finish(loss)
}

/// Reads a reordering.
pub(super) fn reorder(node: &Node, findings: &mut Findings) -> Option<ReorderConfig> {
    let example = "{ probability = 0.01, delay = \"10ms\" }";
    let mut fields = Fields::of("reorder", node, findings, example)?;
    let probability = fields.required("probability", "0.01", probability);
    let delay = fields.optional("delay", decode::positive_duration);
    fields.finish(ReorderConfig {
        probability,
        displacement: delay.map_or(Displacement::SkipsDelay, Displacement::Late),
    })
}

/// Reads an aggregation, or that there is none.
pub(super) fn aggregation(
    node: &Node,
    findings: &mut Findings,
) -> Option<Option<AggregationConfig>> {
    if node.is_text("none") {
        return Some(None);
    }
    let example = "{ interval = \"4ms\" }";
    let mut fields = Fields::of("aggregation", node, findings, example)?;
    let interval = fields.required("interval", "\"4ms\"", decode::positive_duration);
    let packets = fields.optional("packets", decode::whole(1, u32::MAX));
    fields.finish(Some(AggregationConfig { interval, packets }))
}
