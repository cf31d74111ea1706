//! A link: two directions, each with a bandwidth, a delay, a queue and impairments.

pub(super) mod read;

use fairwind_path::accounting::Accounting;
use fairwind_path::trace::Steps;
use fairwind_path::units::{Bandwidth, Bytes, Duration};
use schemars::JsonSchema;

use super::schema::{
    AccountingWord, BytesText, DelayValue, DurationText, JitterValue, LossValue, Probability,
    QueueText, RateValue, SchedulerTable,
};
use super::trace::{RateTrace, Recording};
use crate::diagnostic::Located;
use crate::units_text::Amount;

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
    /// Length of the queue, including the packet in transmission; with a scheduler, of each class's
    /// queue. Default: `"50pkt"` with a bandwidth, as in Dummynet; unlimited without.
    #[schemars(with = "Option<QueueText>")]
    pub queue: Option<Queue>,
    /// Active queue management. Default: `{ kind = "drop-tail" }`.
    #[schemars(with = "Option<Aqm>")]
    pub aqm: Aqm,
    /// Which packet is sent next. Default: `{ kind = "fifo" }`.
    #[schemars(with = "Option<SchedulerTable>")]
    pub scheduler: Scheduler,
    /// Random loss before the queue.
    #[schemars(with = "Option<LossValue>", extend("default" = 0))]
    pub loss: Loss,
    /// Share of packets that arrive twice.
    #[schemars(with = "Option<Probability>", extend("default" = 0))]
    pub duplicate: f64,
    /// Packets that leave their place in the order. Default: none.
    #[schemars(with = "Option<Reorder>")]
    pub reorder: Option<Reorder>,
    /// Which bytes the bandwidth counts. Default: the file's.
    #[schemars(with = "Option<AccountingWord>")]
    pub accounting: Accounting,
}

/// Dummynet's default.
const DEFAULT_QUEUE: Queue = Queue::Limited(Amount::Packets(50));

/// The bandwidth of a direction.
#[derive(Clone, Debug, PartialEq)]
pub enum Rate {
    /// Packets take no time to send.
    Unlimited,
    /// Always the same.
    Constant(Bandwidth),
    /// Follows a bandwidth trace.
    Trace(RateTrace),
}

/// The propagation delay of a direction.
#[derive(Clone, Debug, PartialEq)]
pub enum Delay {
    /// Always the same.
    Constant(Duration),
    /// Follows a recording.
    Trace(Recording<Steps<Duration>>),
}

/// The limit of a queue's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// No limit.
    Unlimited,
    /// At most this number of packets or bytes.
    Limited(Amount),
}

impl Direction {
    /// Whether its bandwidth, delay or loss follows a recording.
    pub fn follows_traces(&self) -> bool {
        matches!(self.bandwidth, Rate::Trace(_))
            || matches!(self.delay, Delay::Trace(_))
            || matches!(self.loss, Loss::Trace(_))
    }

    /// The file's queue, or the default if the file has none.
    pub fn queue_or_default(&self) -> Queue {
        match (self.queue, &self.bandwidth) {
            (Some(queue), _) => queue,
            (None, Rate::Unlimited) => Queue::Unlimited,
            (None, _) => DEFAULT_QUEUE,
        }
    }
}

/// Random changes of the delay.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Jitter {
    /// How much the delay changes.
    #[schemars(with = "DurationText")]
    pub amount: Duration,
    /// How the changes are spread.
    #[schemars(with = "Option<Distribution>", extend("default" = "uniform"))]
    pub distribution: Distribution,
    /// Correlation of a packet's change with that of the packet before, below 1.
    #[schemars(with = "Option<Probability>", extend("default" = 0))]
    pub correlation: f64,
    /// Whether a packet with a shorter delay overtakes others; otherwise each packet waits for the one
    /// before.
    #[schemars(with = "Option<bool>", extend("default" = false))]
    pub overtake: bool,
}

/// How random delays are spread about their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "kebab-case")]
pub enum Distribution {
    /// Evenly from -amount to +amount.
    Uniform,
    /// The amount is the standard deviation.
    Normal,
    /// Never below the delay, of shape 3 and mean amount.
    Pareto,
}

/// Active queue management.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Aqm {
    /// What does not fit is dropped.
    DropTail,
    /// Random Early Detection (Floyd and Jacobson, 1993). Thresholds are in packets, or in bytes if the
    /// queue is in bytes.
    Red {
        /// Weight of the newest queue length in the average, above 0 to 1.
        #[schemars(with = "Option<f64>", extend("default" = 0.002))]
        w_q: f64,
        /// Average length below which nothing is dropped, 0 or more.
        min_th: f64,
        /// Average length from which everything is dropped, above `min_th`.
        max_th: f64,
        /// Drop probability just below `max_th`, above 0 to 1.
        #[schemars(with = "Option<f64>", extend("default" = 0.1))]
        max_p: f64,
        /// From `max_th` to twice `max_th` the probability rises from `max_p` to 1, instead of jumping
        /// to 1.
        #[schemars(with = "Option<bool>", extend("default" = false))]
        gentle: bool,
        /// Packet size for which the average decays one step while the link is idle.
        #[schemars(with = "Option<BytesText>", extend("default" = "500B"))]
        mean_packet: Bytes,
    },
    /// CoDel (RFC 8289).
    #[schemars(rename = "codel")]
    CoDel {
        /// Time in the queue that is tolerated, above 0.
        #[schemars(with = "Option<DurationText>", extend("default" = "5ms"))]
        target: Duration,
        /// How long `target` must be exceeded before packets are dropped, above 0.
        #[schemars(with = "Option<DurationText>", extend("default" = "100ms"))]
        interval: Duration,
    },
}

/// Scheduler. A packet belongs to the class of its flow if the scheduler names the flow, otherwise to that of
/// the host that sent it, otherwise to that of the host it goes to; all other packets share one last class.
/// An acknowledgement belongs to the flow that it acknowledges, and is sent by the flow's receiver.
#[derive(Clone, Debug, PartialEq)]
pub enum Scheduler {
    /// First in, first out.
    Fifo,
    /// Strict priority: the first name goes before the second, and so on.
    Priority {
        /// Flows or hosts, the most important first.
        order: Vec<Located<String>>,
    },
    /// WF2Q+ (Bennett and Zhang 1997): shares by weight.
    Wf2q {
        /// Flows or hosts and their weights.
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

/// Random loss.
#[derive(Clone, Debug, PartialEq)]
pub enum Loss {
    /// Nothing is lost.
    None,
    /// Each packet independently, with this probability.
    Bernoulli(f64),
    /// Correlated losses.
    Model(LossModel),
    /// Each packet independently, with the recorded probability.
    Trace(Recording<Steps<f64>>),
}

/// Loss with memory.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum LossModel {
    /// A good and a bad state (Gilbert, 1960; Elliott, 1963), in netem's letters. The state may change
    /// before each packet.
    GilbertElliott {
        /// Probability of a change from good to bad.
        #[schemars(with = "Probability")]
        p: f64,
        /// Probability of a change from bad to good.
        #[schemars(with = "Probability")]
        r: f64,
        /// Probability that a packet passes in the bad state.
        #[schemars(with = "Option<Probability>", extend("default" = 0))]
        h: f64,
        /// Probability that a packet passes in the good state.
        #[schemars(with = "Option<Probability>", extend("default" = 1))]
        k: f64,
    },
}

/// Packets that overtake others.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Reorder {
    /// Probability that a packet leaves its place.
    #[schemars(with = "Probability")]
    pub probability: f64,
    /// How much later the packet arrives, above 0, overtaken by those behind it. Default: the packet
    /// skips the link's delay and overtakes those before it, as in netem.
    #[schemars(with = "Option<DurationText>")]
    pub delay: Option<Duration>,
}
