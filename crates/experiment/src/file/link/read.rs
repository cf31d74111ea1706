//! Decodes a `[[link]]` table into a [`Link`].

use fairwind_path::accounting::Accounting;
use fairwind_path::units::{Bytes, Duration};

use super::{
    Aqm, Delay, Direction, Distribution, Jitter, Link, Loss, LossModel, Queue, Rate, Reorder,
    Scheduler,
};
use crate::diagnostic::Located;
use crate::file::decode::{self, Fields, Findings};
use crate::file::trace::{self, Recordings};
use crate::file::value::{Node, Value};

/// The words of `accounting`.
pub const ACCOUNTING: &[(&str, Accounting)] = &[
    ("ip", Accounting::Ip),
    ("ethernet", Accounting::Ethernet),
    ("ethernet-wire", Accounting::EthernetWire),
];

const DISTRIBUTION: &[(&str, Distribution)] = &[
    ("uniform", Distribution::Uniform),
    ("normal", Distribution::Normal),
    ("pareto", Distribution::Pareto),
];

/// Reads a link. `accounting` is the file's, `recordings` says where traces are looked up.
pub fn link(
    node: &Node,
    accounting: Accounting,
    recordings: Recordings<'_>,
    findings: &mut Findings,
) -> Option<Link> {
    let example = "[[link]] with between = [\"a\", \"b\"]";
    let table = decode::table(node, findings, example)?;
    let mut fields = Fields::new("link", table, node.span);
    let name = fields.optional(findings, "name", decode::name);
    let between = fields.required(findings, "between", "[\"a\", \"b\"]", between);
    let plain = Direction::plain(accounting);
    let forward = direction(&mut fields, &plain, recordings, findings);
    let capture = fields.optional(findings, "capture", decode::boolean);
    let reverse_node = fields.node("reverse");
    let reverse = match reverse_node {
        Some(node) => {
            let example = "{ bandwidth = \"384kbit/s\" }";
            let table = decode::table(node, findings, example)?;
            let mut fields = Fields::new("reverse", table, node.span);
            let reverse = direction(&mut fields, &forward, recordings, findings);
            fields.finish(findings);
            reverse
        }
        None => forward.clone(),
    };
    fields.finish(findings);
    let between = between?;
    let name = name.unwrap_or_else(|| Located {
        value: format!("{}-{}", between[0].value, between[1].value),
        span: between[0].span,
    });
    Some(Link {
        name,
        between,
        forward,
        reverse,
        capture: capture.unwrap_or(false),
        reverse_written: reverse_node.is_some(),
    })
}

fn between(node: &Node, findings: &mut Findings) -> Option<[Located<String>; 2]> {
    let example = "[\"a\", \"b\"]";
    let items = decode::list(node, findings, example)?;
    let [from, to] = items else {
        findings.add(
            node.span,
            format!("a link has two ends, not {}", items.len()),
            format!("write between = {example}"),
        );
        return None;
    };
    let ends = [decode::name(from, findings)?, decode::name(to, findings)?];
    if ends[0].value == ends[1].value {
        findings.add(
            node.span,
            format!("a link from `{}` to itself", ends[0].value),
            format!("write two different nodes: between = {example}"),
        );
        return None;
    }
    Some(ends)
}

impl Direction {
    /// Unlimited, without delay or loss.
    pub fn plain(accounting: Accounting) -> Direction {
        Direction {
            bandwidth: Rate::Unlimited,
            delay: Delay::Constant(Duration::ZERO),
            jitter: None,
            queue: None,
            aqm: Aqm::DropTail,
            scheduler: Scheduler::Fifo,
            loss: Loss::None,
            duplicate: 0.0,
            reorder: None,
            accounting,
        }
    }
}

/// Reads the fields that a direction sets itself; the others are taken from `base`.
fn direction(
    fields: &mut Fields<'_>,
    base: &Direction,
    recordings: Recordings<'_>,
    findings: &mut Findings,
) -> Direction {
    Direction {
        bandwidth: fields
            .optional(findings, "bandwidth", |node, f| rate(node, recordings, f))
            .unwrap_or_else(|| base.bandwidth.clone()),
        delay: fields
            .optional(findings, "delay", |node, f| delay(node, recordings, f))
            .unwrap_or_else(|| base.delay.clone()),
        jitter: fields
            .optional(findings, "jitter", jitter)
            .or_else(|| base.jitter.clone()),
        queue: fields.optional(findings, "queue", queue).or(base.queue),
        aqm: fields
            .optional(findings, "aqm", aqm)
            .unwrap_or_else(|| base.aqm.clone()),
        scheduler: fields
            .optional(findings, "scheduler", scheduler)
            .unwrap_or_else(|| base.scheduler.clone()),
        loss: fields
            .optional(findings, "loss", |node, f| loss(node, recordings, f))
            .unwrap_or_else(|| base.loss.clone()),
        duplicate: fields
            .optional(findings, "duplicate", decode::probability)
            .unwrap_or(base.duplicate),
        reorder: fields
            .optional(findings, "reorder", reorder)
            .or_else(|| base.reorder.clone()),
        accounting: fields
            .optional(findings, "accounting", decode::choice(ACCOUNTING))
            .unwrap_or(base.accounting),
    }
}

fn is_text(node: &Node, word: &str) -> bool {
    matches!(&node.value, Value::String(text) if text == word)
}

fn rate(node: &Node, recordings: Recordings<'_>, findings: &mut Findings) -> Option<Rate> {
    if let Value::Table(table) = &node.value {
        return trace::rate(node, table, recordings, findings).map(Rate::Trace);
    }
    if is_text(node, "unlimited") {
        return Some(Rate::Unlimited);
    }
    decode::bandwidth(node, findings).map(Rate::Constant)
}

fn delay(node: &Node, recordings: Recordings<'_>, findings: &mut Findings) -> Option<Delay> {
    if let Value::Table(table) = &node.value {
        return trace::steps(node, table, recordings, "ms", findings).map(Delay::Trace);
    }
    decode::duration(node, findings).map(Delay::Constant)
}

fn jitter(node: &Node, findings: &mut Findings) -> Option<Jitter> {
    let Value::Table(table) = &node.value else {
        let amount = decode::duration(node, findings)?;
        return Some(Jitter {
            amount,
            distribution: Distribution::Uniform,
            correlation: 0.0,
            overtake: false,
        });
    };
    let mut fields = Fields::new("jitter", table, node.span);
    let amount = fields.required(findings, "amount", "\"2ms\"", decode::duration);
    let distribution = fields.optional(findings, "distribution", decode::choice(DISTRIBUTION));
    let correlation = fields.optional(findings, "correlation", |node, f| {
        let correlation = decode::probability(node, f)?;
        if correlation < 1.0 {
            return Some(correlation);
        }
        f.add(
            node.span,
            "with a correlation of 1 the delay would never change",
            "write a number from 0 to below 1",
        );
        None
    });
    let overtake = fields.optional(findings, "overtake", decode::boolean);
    fields.finish(findings);
    Some(Jitter {
        amount: amount?,
        distribution: distribution.unwrap_or(Distribution::Uniform),
        correlation: correlation.unwrap_or(0.0),
        overtake: overtake.unwrap_or(false),
    })
}

fn queue(node: &Node, findings: &mut Findings) -> Option<Queue> {
    if is_text(node, "unlimited") {
        return Some(Queue::Unlimited);
    }
    decode::amount(node, findings).map(Queue::Limited)
}

fn aqm(node: &Node, findings: &mut Findings) -> Option<Aqm> {
    const KINDS: &[(&str, u8)] = &[("drop-tail", 0), ("red", 1), ("codel", 2)];
    let example = "{ kind = \"red\", min_th = 5, max_th = 15 }";
    let table = decode::table(node, findings, example)?;
    let peek = &mut Fields::new("aqm", table, node.span);
    match peek.required(findings, "kind", "\"red\"", decode::choice(KINDS))? {
        0 => {
            let mut fields = Fields::new("aqm of kind drop-tail", table, node.span);
            fields.node("kind");
            fields.finish(findings);
            Some(Aqm::DropTail)
        }
        1 => red(node, table, findings),
        _ => {
            let mut fields = Fields::new("aqm of kind codel", table, node.span);
            fields.node("kind");
            let target = fields.optional(findings, "target", decode::positive_duration);
            let interval = fields.optional(findings, "interval", decode::positive_duration);
            fields.finish(findings);
            Some(Aqm::CoDel {
                target: target.unwrap_or(Duration::from_millis(5)),
                interval: interval.unwrap_or(Duration::from_millis(100)),
            })
        }
    }
}

fn red(node: &Node, table: &crate::file::value::Table, findings: &mut Findings) -> Option<Aqm> {
    // A weight or probability of 0 would silently disable RED.
    let share = decode::number(f64::MIN_POSITIVE, 1.0);
    let length = decode::number(0.0, 1e12);
    let mut fields = Fields::new("aqm of kind red", table, node.span);
    fields.node("kind");
    let w_q = fields.optional(findings, "w_q", &share);
    let min_th = fields.required(findings, "min_th", "5", &length);
    let max_th_node = table.get("max_th");
    let max_th = fields.required(findings, "max_th", "15", &length);
    let max_p = fields.optional(findings, "max_p", &share);
    let mean_packet = fields.optional(findings, "mean_packet", decode::bytes);
    let gentle = fields.optional(findings, "gentle", decode::boolean);
    fields.finish(findings);
    let (min_th, max_th) = (min_th?, max_th?);
    if max_th <= min_th {
        findings.add(
            max_th_node.map_or(node.span, |node| node.span),
            format!("max_th {max_th} is not above min_th {min_th}"),
            format!("write max_th = {}", min_th * 3.0),
        );
        return None;
    }
    Some(Aqm::Red {
        w_q: w_q.unwrap_or(0.002),
        min_th,
        max_th,
        max_p: max_p.unwrap_or(0.1),
        gentle: gentle.unwrap_or(false),
        mean_packet: mean_packet.unwrap_or(Bytes(500)),
    })
}

fn scheduler(node: &Node, findings: &mut Findings) -> Option<Scheduler> {
    const KINDS: &[(&str, u8)] = &[("fifo", 0), ("priority", 1), ("wf2q+", 2)];
    let example = "{ kind = \"wf2q+\", weights = { host = 40 } }";
    let table = decode::table(node, findings, example)?;
    let peek = &mut Fields::new("scheduler", table, node.span);
    match peek.required(findings, "kind", "\"wf2q+\"", decode::choice(KINDS))? {
        0 => {
            let mut fields = Fields::new("scheduler of kind fifo", table, node.span);
            fields.node("kind");
            fields.finish(findings);
            Some(Scheduler::Fifo)
        }
        1 => {
            let mut fields = Fields::new("scheduler of kind priority", table, node.span);
            fields.node("kind");
            let example = "[\"voice\", \"video\"]";
            let order = fields.required(findings, "order", example, |node, f| {
                let names = decode::list(node, f, example)?;
                Some(names.iter().filter_map(|n| decode::name(n, f)).collect())
            });
            fields.finish(findings);
            Some(Scheduler::Priority { order: order? })
        }
        _ => {
            let mut fields = Fields::new("scheduler of kind wf2q+", table, node.span);
            fields.node("kind");
            let example = "{ host = 40 }";
            let weights = fields.required(findings, "weights", example, |node, f| {
                let table = decode::table(node, f, example)?;
                let weight = |(name, node): &(Located<String>, Node)| {
                    let weight = decode::whole(1, 1_000_000)(node, f)?;
                    Some((name.clone(), weight as u32))
                };
                Some(table.entries.iter().filter_map(weight).collect())
            });
            fields.finish(findings);
            Some(Scheduler::Wf2q { weights: weights? })
        }
    }
}

fn loss(node: &Node, recordings: Recordings<'_>, findings: &mut Findings) -> Option<Loss> {
    const KINDS: &[(&str, ())] = &[("gilbert-elliott", ())];
    let Value::Table(table) = &node.value else {
        let probability = decode::probability(node, findings)?;
        return Some(if probability == 0.0 {
            Loss::None
        } else {
            Loss::Bernoulli(probability)
        });
    };
    if table.get("trace").is_some() {
        return trace::steps(node, table, recordings, "probability", findings).map(Loss::Trace);
    }
    let mut fields = Fields::new("loss of kind gilbert-elliott", table, node.span);
    fields.required(
        findings,
        "kind",
        "\"gilbert-elliott\"",
        decode::choice(KINDS),
    )?;
    let p = fields.required(findings, "p", "0.01", decode::probability);
    let r = fields.required(findings, "r", "0.2", decode::probability);
    let h = fields.optional(findings, "h", decode::probability);
    let k = fields.optional(findings, "k", decode::probability);
    fields.finish(findings);
    Some(Loss::Model(LossModel::GilbertElliott {
        p: p?,
        r: r?,
        h: h.unwrap_or(0.0),
        k: k.unwrap_or(1.0),
    }))
}

fn reorder(node: &Node, findings: &mut Findings) -> Option<Reorder> {
    let example = "{ probability = 0.01, delay = \"10ms\" }";
    let table = decode::table(node, findings, example)?;
    let mut fields = Fields::new("reorder", table, node.span);
    let probability = fields.required(findings, "probability", "0.01", decode::probability);
    let delay = fields.optional(findings, "delay", decode::positive_duration);
    fields.finish(findings);
    Some(Reorder {
        probability: probability?,
        delay,
    })
}
