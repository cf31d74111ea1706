//! Schedulers: which class of packets is served next.

use crate::units::Time;
use crate::wf2q::Wf2q;

/// The scheduler of a pipe. Classes are numbered from 0; an index beyond the last counts as the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SchedulerConfig {
    /// In order of arrival; classes do not matter.
    #[default]
    Fifo,
    /// The backlogged class with the smallest index first. A transmission is not interrupted.
    StrictPriority {
        /// Number of classes; at least 1.
        classes: u16,
    },
    /// Worst-case fair weighted fair queueing, WF2Q+: each class has its weight's share of the
    /// bandwidth while it has packets.
    Wf2q {
        /// The weight of each class; each at least 1.
        weights: Vec<u32>,
    },
}

impl SchedulerConfig {
    /// Number of classes, at least 1.
    pub fn classes(&self) -> usize {
        match self {
            SchedulerConfig::Fifo => 1,
            SchedulerConfig::StrictPriority { classes } => usize::from(*classes).max(1),
            SchedulerConfig::Wf2q { weights } => weights.len().max(1),
        }
    }
}

/// The state of a scheduler: which classes have packets. The packets themselves are elsewhere.
#[derive(Clone, Debug)]
pub(crate) enum Scheduler {
    LowestIndex,
    Wf2q(Wf2q),
}

impl Scheduler {
    pub(crate) fn new(config: &SchedulerConfig) -> Scheduler {
        match config {
            SchedulerConfig::Wf2q { weights } if !weights.is_empty() => {
                Scheduler::Wf2q(Wf2q::new(weights))
            }
            _ => Scheduler::LowestIndex,
        }
    }

    /// Reports the arrival of a packet of `wire_bytes` in an empty class.
    pub(crate) fn activate(&mut self, class: usize, wire_bytes: u64, now: Time) {
        if let Scheduler::Wf2q(wf2q) = self {
            wf2q.activate(class, wire_bytes, now);
        }
    }

    /// The class to serve at `now`; `None` if no packet waits. `waits` says of each class whether one does.
    pub(crate) fn choose(
        &mut self,
        now: Time,
        mut waits: impl Iterator<Item = bool>,
    ) -> Option<usize> {
        match self {
            Scheduler::LowestIndex => waits.position(|waits| waits),
            Scheduler::Wf2q(wf2q) => wf2q.choose(now),
        }
    }

    /// Reports that the chosen class sends a packet during `span`; `next` is the size of the one behind it.
    pub(crate) fn send(
        &mut self,
        class: usize,
        wire_bytes: u64,
        next: Option<u64>,
        span: (Time, Time),
    ) {
        if let Scheduler::Wf2q(wf2q) = self {
            wf2q.send(class, wire_bytes, next, span);
        }
    }

    /// Reports that the chosen class has nothing to send after all: CoDel dropped its packets.
    pub(crate) fn abandon(&mut self, class: usize) {
        if let Scheduler::Wf2q(wf2q) = self {
            wf2q.abandon(class);
        }
    }
}
