//! Translates links into pipes of `fairwind-path`, and flows into the scheduler classes of their packets.

use fairwind_path::codel::CoDelConfig;
use fairwind_path::delay::{self, DelayConfig, Displacement, JitterDistribution, ReorderConfig};
use fairwind_path::loss::LossConfig;
use fairwind_path::pipe::{self, PipeConfig};
use fairwind_path::queue::Capacity;
use fairwind_path::rate;
use fairwind_path::red::RedConfig;
use fairwind_path::scheduler::SchedulerConfig;

use crate::file::Flow;
use crate::file::link::{
    Aqm, Delay, Direction, Distribution, Loss, LossModel, Queue, Rate, Scheduler,
};
use crate::file::trace::RateTrace;
use crate::units_text::Amount;

/// One direction of a link as a pipe.
pub fn pipe(direction: &Direction) -> PipeConfig {
    PipeConfig {
        bandwidth: match &direction.bandwidth {
            Rate::Unlimited => rate::Rate::Unlimited,
            Rate::Constant(bandwidth) => rate::Rate::Constant(*bandwidth),
            Rate::Trace(RateTrace::Steps(trace)) => rate::Rate::Steps(trace.values.clone()),
            Rate::Trace(RateTrace::Opportunities(trace)) => {
                rate::Rate::Opportunities(trace.values.clone())
            }
        },
        accounting: direction.accounting,
        delay: delay(direction),
        capacity: match direction.queue_or_default() {
            Queue::Unlimited => Capacity::Unlimited,
            Queue::Limited(Amount::Packets(packets)) => {
                Capacity::Packets(u32::try_from(packets).unwrap_or(u32::MAX))
            }
            Queue::Limited(Amount::Bytes(bytes)) => Capacity::Bytes(bytes),
        },
        aqm: aqm(&direction.aqm),
        scheduler: match &direction.scheduler {
            Scheduler::Fifo => SchedulerConfig::Fifo,
            Scheduler::Priority { order } => SchedulerConfig::StrictPriority {
                classes: class_at(order.len()) + 1,
            },
            Scheduler::Wf2q { weights } => SchedulerConfig::Wf2q {
                weights: weights
                    .iter()
                    .map(|(_, weight)| *weight)
                    .chain([OTHERS_WEIGHT])
                    .collect(),
            },
        },
        loss: match &direction.loss {
            Loss::None => LossConfig::None,
            Loss::Bernoulli(probability) => LossConfig::Bernoulli(*probability),
            Loss::Model(LossModel::GilbertElliott { p, r, h, k }) => LossConfig::GilbertElliott {
                p: *p,
                r: *r,
                h: *h,
                k: *k,
            },
            Loss::Trace(trace) => LossConfig::Steps(trace.values.clone()),
        },
        duplicate: direction.duplicate,
        reorder: direction.reorder.as_ref().map(|reorder| ReorderConfig {
            probability: reorder.probability,
            displacement: match reorder.delay {
                Some(delay) => Displacement::Late(delay),
                None => Displacement::SkipsDelay,
            },
        }),
    }
}

fn delay(direction: &Direction) -> DelayConfig {
    let jitter = direction.jitter.as_ref();
    DelayConfig {
        base: match &direction.delay {
            Delay::Constant(delay) => delay::Delay::Constant(*delay),
            Delay::Trace(trace) => delay::Delay::Steps(trace.values.clone()),
        },
        jitter: jitter.map(|jitter| delay::Jitter {
            amount: jitter.amount,
            distribution: match jitter.distribution {
                Distribution::Uniform => JitterDistribution::Uniform,
                Distribution::Normal => JitterDistribution::Normal,
                Distribution::Pareto => JitterDistribution::Pareto,
            },
            correlation: jitter.correlation,
        }),
        keep_order: jitter.is_none_or(|jitter| !jitter.overtake),
    }
}

fn aqm(aqm: &Aqm) -> pipe::Aqm {
    match *aqm {
        Aqm::DropTail => pipe::Aqm::DropTail,
        Aqm::Red {
            w_q,
            min_th,
            max_th,
            max_p,
            gentle,
            mean_packet,
        } => pipe::Aqm::Red(RedConfig {
            w_q,
            min_th,
            max_th,
            max_p,
            gentle,
            mean_packet,
        }),
        Aqm::CoDel { target, interval } => pipe::Aqm::CoDel(CoDelConfig { target, interval }),
    }
}

/// Weight of the class shared by all packets that a WF2Q+ scheduler does not name.
const OTHERS_WEIGHT: u32 = 1;

/// The class after the named ones.
fn class_at(named: usize) -> u16 {
    u16::try_from(named).unwrap_or(u16::MAX - 1)
}

/// The class of a flow's packets: the flow's own, otherwise that of the host that sent the packet, otherwise
/// that of the host it goes to, otherwise the last one. `acknowledgements` go from the flow's receiver to its
/// sender.
pub fn class(direction: &Direction, flow: &Flow, acknowledgements: bool) -> u16 {
    if direction.scheduler == Scheduler::Fifo {
        return 0;
    }
    let names = direction.scheduler.names();
    let (source, destination) = if acknowledgements {
        (&flow.to, &flow.from)
    } else {
        (&flow.from, &flow.to)
    };
    [&flow.name, source, destination]
        .iter()
        .find_map(|wanted| names.iter().position(|name| name.value == wanted.value))
        .map_or(class_at(names.len()), class_at)
}

/// The class of packets that belong to no flow of the file: the last one.
pub fn default_class(direction: &Direction) -> u16 {
    match direction.scheduler {
        Scheduler::Fifo => 0,
        _ => class_at(direction.scheduler.names().len()),
    }
}
