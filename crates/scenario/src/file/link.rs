//! A link: two directions, each with a bandwidth, a delay, a queue and impairments.

mod impairments;
mod queueing;

use fairwind_path::accounting::Accounting;
use fairwind_path::aggregation::AggregationConfig;
use fairwind_path::delay::{Delay, Jitter, ReorderConfig};
use fairwind_path::loss::LossConfig;
use fairwind_path::pipe::Aqm;
use fairwind_path::policer::PolicerConfig;
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::schema::Probability;
use fairwind_path::units::Duration;
use schemars::JsonSchema;

use super::decode::{self, Fields, Findings, probability};
use super::schema::{
    AggregationValue, DelayValue, JitterValue, LossValue, PolicerValue, RateValue,
};
use super::trace::{self, Recordings};
use super::value::{Node, Value};
use crate::diagnostic::Located;

pub use queueing::Scheduler;

/// A link between two nodes. Hosts and routers come into being by being named here.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Link {
    /// Name in results and in `--set`, unique. Default: the two nodes, `a-b`.
    #[schemars(with = "Option<String>")]
    pub name: Located<String>,
    /// The two nodes that it joins, different from each other. Forward is from the first to the second.
    #[schemars(with = "[String; 2]")]
    pub between: [Located<String>; 2],
    /// What the link is in its forward direction, and in the other where `reverse` is silent.
    #[schemars(flatten)]
    pub forward: Direction,
    /// Fields that differ in the direction from the second node to the first. Default: symmetric.
    #[schemars(with = "Option<Direction>")]
    pub reverse: Direction,
    /// Whether the lab writes every packet that leaves the link to `NAME.pcapng` and
    /// `NAME.reverse.pcapng`; the simulator ignores it. Not allowed in `reverse`.
    #[schemars(with = "Option<bool>", extend("default" = false))]
    pub capture: bool,
    /// Whether the file describes the reverse direction.
    #[schemars(skip)]
    pub reverse_written: bool,
}

/// One direction of a link.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Direction {
    /// Sending rate, above 0. Default: unlimited.
    #[schemars(with = "Option<RateValue>")]
    pub bandwidth: Rate,
    /// Propagation delay, one way.
    #[schemars(with = "Option<DelayValue>", extend("default" = "0ms"))]
    pub delay: Delay,
    /// Random changes of the delay. Default: none.
    #[schemars(with = "Option<JitterValue>")]
    pub jitter: Option<Jitter>,
    /// What is dropped before it reaches the queue, for exceeding a rate and a burst. Default: none.
    #[schemars(with = "Option<PolicerValue>")]
    pub policer: Option<PolicerConfig>,
    /// Length of the queue, including the packet in transmission; with a scheduler, of each class's
    /// queue. Default: `"50pkt"` with a bandwidth, as in Dummynet; unlimited without.
    pub queue: Option<Capacity>,
    /// Active queue management. Default: `{ kind = "drop-tail" }`.
    #[schemars(with = "Option<Aqm>")]
    pub aqm: Aqm,
    /// Which packet is sent next. Default: `{ kind = "fifo" }`.
    #[schemars(with = "Option<Scheduler>")]
    pub scheduler: Scheduler,
    /// Random loss before the queue.
    #[schemars(with = "Option<LossValue>", extend("default" = 0))]
    pub loss: LossConfig,
    /// Share of packets that arrive twice.
    #[schemars(with = "Option<Probability>", extend("default" = 0))]
    pub duplicate: f64,
    /// Packets that leave their place in the order. Default: none.
    pub reorder: Option<ReorderConfig>,
    /// Which bytes the bandwidth counts. Default: the file's.
    #[schemars(with = "Option<Accounting>")]
    pub accounting: Accounting,
    /// Packets wait after their transmission and go on together, as over Wi-Fi or a cable modem. Default:
    /// none.
    #[schemars(with = "Option<AggregationValue>")]
    pub aggregation: Option<AggregationConfig>,
}

/// Dummynet's default.
const DEFAULT_QUEUE: Capacity = Capacity::Packets(50);

/// The words of `accounting`.
pub(super) const ACCOUNTING: &[(&str, Accounting)] = &[
    ("ip", Accounting::Ip),
    ("ethernet", Accounting::Ethernet),
    ("ethernet-wire", Accounting::EthernetWire),
];

impl Link {
    /// Reads a `[[link]]` table. `accounting` is the file's, `recordings` says where traces are looked up.
    pub(super) fn read(
        node: &Node,
        accounting: Accounting,
        recordings: Recordings<'_>,
        findings: &mut Findings,
    ) -> Option<Link> {
        let example = "[[link]] with between = [\"a\", \"b\"]";
        let mut fields = Fields::of("link", node, findings, example)?;
        let own_name = fields.optional("name", decode::name);
        let between = fields.required("between", "[\"a\", \"b\"]", between);
        let plain = Direction::plain(accounting);
        let forward = Direction::read(&mut fields, &plain, recordings);
        let capture = fields.or_default("capture", decode::boolean);
        let reverse = match fields.node("reverse") {
            Some(node) => {
                let example = "{ bandwidth = \"384kbit/s\" }";
                let mut fields = Fields::of("reverse", node, fields.findings, example)?;
                let reverse = Direction::read(&mut fields, &forward, recordings);
                fields.finish(reverse)?
            }
            None => forward.clone(),
        };
        let link = Link {
            name: own_name.unwrap_or_else(|| {
                let name = format!("{}-{}", between[0].value, between[1].value);
                Located::new(name, between[0].span)
            }),
            between,
            forward,
            reverse,
            capture,
            reverse_written: fields.peek("reverse").is_some(),
        };
        fields.finish(link)
    }
}

fn between(node: &Node, findings: &mut Findings) -> Option<[Located<String>; 2]> {
    let example = "[\"a\", \"b\"]";
    let items = decode::list(node, findings, example)?;
    let [from, to] = items else {
        let message = format!("a link has two ends, not {}", items.len());
        return findings.refuse(node.span, message, format!("write between = {example}"));
    };
    let ends = [decode::name(from, findings)?, decode::name(to, findings)?];
    if ends[0].value == ends[1].value {
        let message = format!("a link from `{}` to itself", ends[0].value);
        let help = format!("write two different nodes: between = {example}");
        return findings.refuse(node.span, message, help);
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
            policer: None,
            queue: None,
            aqm: Aqm::DropTail,
            scheduler: Scheduler::Fifo,
            loss: LossConfig::None,
            duplicate: 0.0,
            reorder: None,
            accounting,
            aggregation: None,
        }
    }

    /// Reads the fields that a direction sets itself; the others are taken from `base`.
    fn read(
        fields: &mut Fields<'_, '_>,
        base: &Direction,
        recordings: Recordings<'_>,
    ) -> Direction {
        let base = base.clone();
        let rate = |node: &Node, findings: &mut Findings| rate(node, recordings, findings);
        let delay = |node: &Node, findings: &mut Findings| delay(node, recordings, findings);
        let loss =
            |node: &Node, findings: &mut Findings| impairments::loss(node, recordings, findings);
        let accounting = decode::choice(ACCOUNTING);
        let direction = Direction {
            bandwidth: fields.get_or("bandwidth", base.bandwidth, rate),
            delay: fields.get_or("delay", base.delay, delay),
            jitter: fields
                .optional("jitter", impairments::jitter)
                .or(base.jitter),
            policer: fields.get_or("policer", base.policer, queueing::policer),
            queue: fields.optional("queue", queueing::queue).or(base.queue),
            aqm: fields.get_or("aqm", base.aqm, queueing::aqm),
            scheduler: fields.get_or("scheduler", base.scheduler, Scheduler::read),
            loss: fields.get_or("loss", base.loss, loss),
            duplicate: fields.get_or("duplicate", base.duplicate, probability),
            reorder: fields
                .optional("reorder", impairments::reorder)
                .or(base.reorder),
            accounting: fields.get_or("accounting", base.accounting, accounting),
            aggregation: fields.get_or("aggregation", base.aggregation, impairments::aggregation),
        };
        if direction.aqm.schedules()
            && direction.scheduler != Scheduler::Fifo
            && let Some(node) = fields.peek("scheduler").or(fields.peek("aqm"))
        {
            let message = "this AQM decides itself which packet goes next";
            let help = "leave the scheduler out, or take another aqm";
            fields.refuse(node.span, message, help);
        }
        direction
    }

    /// Whether its bandwidth, delay or loss follows a recording.
    pub fn follows_traces(&self) -> bool {
        matches!(self.bandwidth, Rate::Steps(_) | Rate::Opportunities(_))
            || matches!(self.delay, Delay::Steps(_))
            || matches!(self.loss, LossConfig::Steps(_))
    }

    /// The file's queue, or the default if the file has none.
    pub fn queue_or_default(&self) -> Capacity {
        match (self.queue, &self.bandwidth) {
            (Some(queue), _) => queue,
            (None, Rate::Unlimited) => Capacity::Unlimited,
            (None, _) => DEFAULT_QUEUE,
        }
    }
}

fn rate(node: &Node, recordings: Recordings<'_>, findings: &mut Findings) -> Option<Rate> {
    if let Value::Table(table) = &node.value {
        return trace::rate(node, table, recordings, findings);
    }
    if node.is_text("unlimited") {
        return Some(Rate::Unlimited);
    }
    decode::bandwidth(node, findings).map(Rate::Constant)
}

fn delay(node: &Node, recordings: Recordings<'_>, findings: &mut Findings) -> Option<Delay> {
    if let Value::Table(table) = &node.value {
        return trace::steps(node, table, recordings, "ms", findings).map(Delay::Steps);
    }
    decode::duration(node, findings).map(Delay::Constant)
}
