//! Packets that a pipe holds because their order of departure is not known at arrival.
//!
//! Each class has a queue, a scheduler chooses among the classes, and CoDel optionally works at the
//! head of each queue. Each decision is made as of the end of the previous transmission, however late
//! the caller asks.

use std::collections::VecDeque;

use crate::codel::CoDel;
use crate::pie::Pie;
use crate::queue::Waiting;
use crate::red::Red;
use crate::scheduler::{Scheduler, SchedulerConfig};
use crate::units::Time;

/// The packet being sent, and the end of its transmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InService<T> {
    pub(crate) waiting: Waiting<T>,
    pub(crate) class: usize,
    pub(crate) until: Time,
}

/// The waiting packets of a class, without the one being sent.
#[derive(Clone, Debug)]
pub(crate) struct ClassQueue<T> {
    pub(crate) waiting: VecDeque<Waiting<T>>,
    pub(crate) bytes: u64,
    pub(crate) red: Option<Red>,
    pub(crate) pie: Option<Pie>,
    pub(crate) codel: Option<CoDel>,
    /// When the class last ran out of packets; meaningful only while it has none.
    pub(crate) idle_since: Time,
}

/// All classes and the packet being sent.
#[derive(Clone, Debug)]
pub(crate) struct Held<T> {
    pub(crate) classes: Vec<ClassQueue<T>>,
    pub(crate) scheduler: Scheduler,
    pub(crate) in_service: Option<InService<T>>,
    /// Packets and their bytes in all classes, including the packet being sent.
    pub(crate) packets: usize,
    pub(crate) bytes: u64,
}

impl<T: Copy> Held<T> {
    pub(crate) fn new(
        config: &SchedulerConfig,
        (red, pie): (Option<&Red>, Option<&Pie>),
        codel: Option<&CoDel>,
    ) -> Self {
        let class = ClassQueue {
            waiting: VecDeque::new(),
            bytes: 0,
            red: red.cloned(),
            pie: pie.cloned(),
            codel: codel.cloned(),
            idle_since: Time::ZERO,
        };
        Held {
            classes: vec![class; config.classes()],
            scheduler: Scheduler::new(config),
            in_service: None,
            packets: 0,
            bytes: 0,
        }
    }

    /// The index of a class's queue; classes beyond the last count as the last.
    pub(crate) fn class_index(&self, class: u16) -> usize {
        usize::from(class).min(self.classes.len() - 1)
    }

    /// Packets and bytes of a class, including the packet being sent.
    pub(crate) fn occupancy(&self, class: usize) -> (usize, u64) {
        let queue = &self.classes[class];
        let (mut packets, mut bytes) = (queue.waiting.len(), queue.bytes);
        if let Some(sending) = self
            .in_service
            .as_ref()
            .filter(|sending| sending.class == class)
        {
            packets += 1;
            bytes += u64::from(sending.waiting.size);
        }
        (packets, bytes)
    }

    /// Appends a packet to the queue of its class.
    pub(crate) fn push(&mut self, class: usize, waiting: Waiting<T>) {
        let queue = &mut self.classes[class];
        if queue.waiting.is_empty() {
            self.scheduler
                .activate(class, waiting.wire_bytes, waiting.arrived);
        }
        queue.bytes += u64::from(waiting.size);
        queue.waiting.push_back(waiting);
        self.packets += 1;
        self.bytes += u64::from(waiting.size);
    }

    /// Chooses the packet to send at `now`, when none is being sent. `transmit` returns the end of its
    /// transmission. Packets that CoDel drops first go to `dropped`, with the number of packets held
    /// before each drop.
    pub(crate) fn serve(
        &mut self,
        now: Time,
        mut transmit: impl FnMut(&Waiting<T>) -> Time,
        mut dropped: impl FnMut(Waiting<T>, usize),
    ) {
        let Held { packets, bytes, .. } = self;
        let mut forget = |packet: Waiting<T>| {
            dropped(packet, *packets);
            *packets -= 1;
            *bytes -= u64::from(packet.size);
        };
        loop {
            let waits = self.classes.iter().map(|class| !class.waiting.is_empty());
            let Some(class) = self.scheduler.choose(now, waits) else {
                return;
            };
            let queue = &mut self.classes[class];
            let waiting = match &mut queue.codel {
                Some(codel) => {
                    codel.dequeue(now, &mut queue.waiting, &mut queue.bytes, &mut forget)
                }
                None => queue.waiting.pop_front().inspect(|packet| {
                    queue.bytes -= u64::from(packet.size);
                }),
            };
            let Some(waiting) = waiting else {
                queue.idle_since = now;
                self.scheduler.abandon(class);
                continue;
            };
            if let Some(pie) = &mut queue.pie {
                pie.sends(waiting.arrived, now, !queue.waiting.is_empty());
            }
            let until = transmit(&waiting);
            let next = queue.waiting.front().map(|next| next.wire_bytes);
            self.scheduler
                .send(class, waiting.wire_bytes, next, (now, until));
            self.in_service = Some(InService {
                waiting,
                class,
                until,
            });
            return;
        }
    }

    /// Removes and returns the packet whose transmission ended by `now`.
    pub(crate) fn finish(&mut self, now: Time) -> Option<InService<T>> {
        let sent = self.in_service.take_if(|sending| sending.until <= now)?;
        let queue = &mut self.classes[sent.class];
        if queue.waiting.is_empty() {
            queue.idle_since = sent.until;
        }
        self.packets -= 1;
        self.bytes -= u64::from(sent.waiting.size);
        Some(sent)
    }
}
