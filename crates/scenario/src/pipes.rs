//! Translates links into pipes of `fairwind-path`, and flows into the scheduler classes of their packets.

use fairwind_path::delay::DelayConfig;
use fairwind_path::pipe::PipeConfig;
use fairwind_path::scheduler::SchedulerConfig;

use crate::file::Flow;
use crate::file::link::{Direction, Scheduler};

/// One direction of a link as a pipe.
pub fn pipe(direction: &Direction) -> PipeConfig {
    PipeConfig {
        bandwidth: direction.bandwidth.clone(),
        accounting: direction.accounting,
        delay: DelayConfig {
            base: direction.delay.clone(),
            jitter: direction.jitter,
        },
        policer: direction.policer,
        aggregation: direction.aggregation,
        capacity: direction.queue_or_default(),
        aqm: direction.aqm.clone(),
        scheduler: scheduler(&direction.scheduler),
        loss: direction.loss.clone(),
        duplicate: direction.duplicate,
        reorder: direction.reorder,
    }
}

/// A scheduler with a class for each name, and one for all other packets.
fn scheduler(scheduler: &Scheduler) -> SchedulerConfig {
    match scheduler {
        Scheduler::Fifo => SchedulerConfig::Fifo,
        Scheduler::Priority { order } => SchedulerConfig::StrictPriority {
            classes: class_at(order.len()) + 1,
        },
        Scheduler::Wf2q { weights } => {
            let weights = weights.iter().map(|(_, weight)| *weight);
            SchedulerConfig::Wf2q {
                weights: weights.chain([OTHERS_WEIGHT]).collect(),
            }
        }
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
