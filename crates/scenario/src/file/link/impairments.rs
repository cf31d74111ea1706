//! Jitter, loss and reordering of a direction.

use fairwind_path::delay::{Displacement, Jitter, JitterDistribution, ReorderConfig};
use fairwind_path::loss::LossConfig;

use crate::file::decode::{self, Fields, Findings};
use crate::file::trace::{self, Recordings};
use crate::file::value::{Node, Value};

const DISTRIBUTION: &[(&str, JitterDistribution)] = &[
    ("uniform", JitterDistribution::Uniform),
    ("normal", JitterDistribution::Normal),
    ("pareto", JitterDistribution::Pareto),
];

/// Reads a jitter: its amount, or a table.
pub fn jitter(node: &Node, findings: &mut Findings) -> Option<Jitter> {
    let Value::Table(table) = &node.value else {
        let amount = decode::duration(node, findings)?;
        return Some(Jitter {
            amount,
            ..Jitter::default()
        });
    };
    let mut fields = Fields::new("jitter", table, node.span);
    let amount = fields.required(findings, "amount", "\"2ms\"", decode::duration);
    let distribution = fields.optional(findings, "distribution", decode::choice(DISTRIBUTION));
    let correlation = fields.optional(findings, "correlation", correlation);
    let overtake = fields.optional(findings, "overtake", decode::boolean);
    fields.finish(findings);
    Some(Jitter {
        amount: amount?,
        distribution: distribution.unwrap_or_default(),
        correlation: correlation.unwrap_or_default(),
        overtake: overtake.unwrap_or_default(),
    })
}

fn correlation(node: &Node, findings: &mut Findings) -> Option<f64> {
    let correlation = decode::probability(node, findings)?;
    if correlation < 1.0 {
        return Some(correlation);
    }
    findings.add(
        node.span,
        "with a correlation of 1 the delay would never change",
        "write a number from 0 to below 1",
    );
    None
}

/// Reads a loss: a probability, a recording of one, or a model.
pub fn loss(
    node: &Node,
    recordings: Recordings<'_>,
    findings: &mut Findings,
) -> Option<LossConfig> {
    let Value::Table(table) = &node.value else {
        let probability = decode::probability(node, findings)?;
        return Some(if probability == 0.0 {
            LossConfig::None
        } else {
            LossConfig::Bernoulli(probability)
        });
    };
    if table.get("trace").is_some() {
        let steps = trace::steps(node, table, recordings, "probability", findings);
        return steps.map(LossConfig::Steps);
    }
    let mut fields = Fields::new("loss of kind gilbert-elliott", table, node.span);
    let kind = decode::choice(&[("gilbert-elliott", ())]);
    fields.required(findings, "kind", "\"gilbert-elliott\"", kind)?;
    let p = fields.required(findings, "p", "0.01", decode::probability);
    let r = fields.required(findings, "r", "0.2", decode::probability);
    let h = fields.optional(findings, "h", decode::probability);
    let k = fields.optional(findings, "k", decode::probability);
    fields.finish(findings);
    Some(LossConfig::GilbertElliott {
        p: p?,
        r: r?,
        h: h.unwrap_or(0.0),
        k: k.unwrap_or(1.0),
    })
}

/// Reads a reordering.
pub fn reorder(node: &Node, findings: &mut Findings) -> Option<ReorderConfig> {
    let example = "{ probability = 0.01, delay = \"10ms\" }";
    let mut fields = Fields::of("reorder", node, findings, example)?;
    let probability = fields.required(findings, "probability", "0.01", decode::probability);
    let delay = fields.optional(findings, "delay", decode::positive_duration);
    fields.finish(findings);
    Some(ReorderConfig {
        probability: probability?,
        displacement: delay.map_or(Displacement::SkipsDelay, Displacement::Late),
    })
}
