//! Packets that a pipe holds because their order of departure is not known at arrival.
//!
//! Each class has a queue, a scheduler chooses among the classes, and CoDel optionally works at the
//! head of each queue; or an AQM has queues of its own. Each decision is made as of the end of the previous
//! transmission, however late the caller asks.

use std::collections::VecDeque;

use crate::codel::CoDel;
use crate::config::{Aqm, PipeConfig};
use crate::dualpi2::DualPi2;
use crate::fq_codel::FqCoDel;
use crate::pie::Pie;
use crate::pipe::{LossCause, Offer};
use crate::queue::{Capacity, Waiting};
use crate::random::Random;
use crate::rate::Rate;
use crate::red::{Red, Verdict};
use crate::scheduler::{Scheduler, SchedulerConfig};
use crate::units::Time;

/// The packet being sent, and the end of its transmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InService<T> {
    pub(crate) waiting: Waiting<T>,
    class: usize,
    pub(crate) until: Time,
}

/// The waiting packets of a class, without the one being sent.
#[derive(Clone, Debug)]
struct ClassQueue<T> {
    waiting: VecDeque<Waiting<T>>,
    bytes: u64,
    red: Option<Red>,
    pie: Option<Box<Pie>>,
    codel: Option<CoDel>,
    /// When the class last ran out of packets; meaningful only while it has none.
    idle_since: Time,
}

/// Where packets wait.
#[derive(Clone, Debug)]
enum Queues<T> {
    Classes(Vec<ClassQueue<T>>, Scheduler),
    Flows(FqCoDel<T>),
    Dual(DualPi2<T>),
}

/// All queues and the packet being sent.
#[derive(Clone, Debug)]
pub(crate) struct Held<T> {
    queues: Queues<T>,
    pub(crate) in_service: Option<InService<T>>,
    /// Packets and their bytes in all queues, including the packet being sent.
    pub(crate) packets: usize,
    pub(crate) bytes: u64,
}

impl<T: Copy> Held<T> {
    /// The queues of a pipe, unless it can do without; `red` and `pie` are those of its AQM.
    pub(crate) fn new(
        config: &PipeConfig,
        (red, pie): (Option<&Red>, Option<&Pie>),
        seed: u64,
    ) -> Option<Self> {
        let queues = match &config.aqm {
            // At unlimited bandwidth nothing ever waits, so there is nothing to schedule.
            _ if config.bandwidth == Rate::Unlimited => return None,
            Aqm::FqCoDel(config) => Queues::Flows(FqCoDel::new(config, seed)),
            Aqm::DualPi2(config) => Queues::Dual(DualPi2::new(config)),
            Aqm::CoDel(_) | Aqm::DropTail | Aqm::Red(_) | Aqm::Pie(_) => {
                let codel = match &config.aqm {
                    Aqm::CoDel(codel) => Some(CoDel::new(codel)),
                    _ => None,
                };
                if config.scheduler == SchedulerConfig::Fifo && codel.is_none() {
                    return None;
                }
                let class = ClassQueue {
                    waiting: VecDeque::new(),
                    bytes: 0,
                    red: red.cloned(),
                    pie: pie.cloned().map(Box::new),
                    codel,
                    idle_since: Time::ZERO,
                };
                let classes = vec![class; config.scheduler.classes()];
                Queues::Classes(classes, Scheduler::new(&config.scheduler))
            }
        };
        Some(Held {
            queues,
            in_service: None,
            packets: 0,
            bytes: 0,
        })
    }

    pub(crate) fn tells_flows_apart(&self) -> bool {
        matches!(self.queues, Queues::Flows(_))
    }

    /// Why packets are dropped at the head of a queue.
    pub(crate) fn cause(&self) -> LossCause {
        match self.queues {
            Queues::Classes(..) | Queues::Flows(_) => LossCause::CoDel,
            Queues::Dual(_) => LossCause::DualPi2,
        }
    }

    /// Whether an arriving packet is queued with a mark or without, or why it is not queued.
    #[inline]
    pub(crate) fn judge(
        &mut self,
        now: Time,
        offer: Offer,
        capacity: Capacity,
        random: &mut Random,
    ) -> Result<bool, LossCause> {
        let classes = match &mut self.queues {
            Queues::Classes(classes, _) => classes,
            Queues::Flows(_) => return Ok(false),
            Queues::Dual(_) => {
                let admitted = capacity.admits(self.packets, || self.bytes, offer.size);
                return admitted.then_some(false).ok_or(LossCause::QueueFull);
            }
        };
        let class = class_index(classes, offer.class);
        let queue = &mut classes[class];
        let (mut packets, mut bytes) = (queue.waiting.len(), queue.bytes);
        let sending = self.in_service.as_ref();
        if let Some(sending) = sending.filter(|sending| sending.class == class) {
            packets += 1;
            bytes += u64::from(sending.waiting.size);
        }
        let mut marked = false;
        if let Some(red) = &mut queue.red {
            let idle = (packets == 0).then(|| now - queue.idle_since);
            match red.judge((packets, bytes), idle, offer, random) {
                Verdict::Pass => {}
                Verdict::Mark => marked = true,
                Verdict::Drop => return Err(LossCause::Red),
            }
        }
        let admitted = capacity.admits(packets, || bytes, offer.size);
        if let Some(pie) = &mut queue.pie {
            pie.advance(now);
            if !admitted {
                pie.overflows();
                return Err(LossCause::QueueFull);
            }
            match pie.judge(bytes, offer.ecn, random) {
                Verdict::Pass => {}
                Verdict::Mark => marked = true,
                Verdict::Drop => return Err(LossCause::Pie),
            }
        }
        match admitted {
            true => Ok(marked),
            false => Err(LossCause::QueueFull),
        }
    }

    /// Appends a packet to its queue.
    #[inline]
    pub(crate) fn push(&mut self, offer: Offer, waiting: Waiting<T>) {
        match &mut self.queues {
            Queues::Classes(classes, scheduler) => {
                let class = class_index(classes, offer.class);
                let queue = &mut classes[class];
                if queue.waiting.is_empty() {
                    scheduler.activate(class, waiting.wire_bytes, waiting.arrived);
                }
                queue.bytes += u64::from(waiting.size);
                queue.waiting.push_back(waiting);
            }
            Queues::Flows(flows) => flows.push(offer.flow, waiting),
            Queues::Dual(dual) => dual.push(waiting),
        }
        self.packets += 1;
        self.bytes += u64::from(waiting.size);
    }

    /// Drops packets until those held do not exceed `capacity`. They go to `dropped`, with the number of
    /// packets held before each drop.
    #[inline]
    pub(crate) fn shed(&mut self, capacity: Capacity, mut dropped: impl FnMut(Waiting<T>, usize)) {
        let Queues::Flows(flows) = &mut self.queues else {
            return;
        };
        while self.packets > 0 && !capacity.holds(self.packets, self.bytes) {
            flows.shed(|packet| {
                dropped(packet, self.packets);
                self.packets -= 1;
                self.bytes -= u64::from(packet.size);
            });
        }
    }

    /// Chooses the packet to send at `now`, when none is being sent. `transmit` returns the end of its
    /// transmission. Packets that are dropped first go to `dropped`, with the number of packets held
    /// before each drop.
    #[inline(always)]
    pub(crate) fn serve(
        &mut self,
        now: Time,
        transmit: impl FnMut(&Waiting<T>) -> Time,
        random: &mut Random,
        dropped: impl FnMut(Waiting<T>, usize),
    ) {
        match self.queues {
            Queues::Classes(..) => self.serve_class(now, transmit, dropped),
            Queues::Flows(_) | Queues::Dual(_) => self.serve_own(now, transmit, random, dropped),
        }
    }

    /// As `serve`, from the queues of an AQM.
    #[inline(never)]
    fn serve_own(
        &mut self,
        now: Time,
        mut transmit: impl FnMut(&Waiting<T>) -> Time,
        random: &mut Random,
        mut dropped: impl FnMut(Waiting<T>, usize),
    ) {
        let forget = |packet: Waiting<T>| {
            dropped(packet, self.packets);
            self.packets -= 1;
            self.bytes -= u64::from(packet.size);
        };
        let waiting = match &mut self.queues {
            Queues::Classes(..) => None,
            Queues::Flows(flows) => flows.next(now, forget),
            Queues::Dual(dual) => dual.next(now, random, forget),
        };
        self.in_service = waiting.map(|waiting| InService {
            until: transmit(&waiting),
            waiting,
            class: 0,
        });
    }

    /// As `serve`, from the queues of the scheduler's classes.
    #[inline(always)]
    fn serve_class(
        &mut self,
        now: Time,
        mut transmit: impl FnMut(&Waiting<T>) -> Time,
        mut dropped: impl FnMut(Waiting<T>, usize),
    ) {
        let Held {
            queues,
            packets,
            bytes,
            ..
        } = self;
        let Queues::Classes(classes, scheduler) = queues else {
            return;
        };
        let mut forget = |packet: Waiting<T>| {
            dropped(packet, *packets);
            *packets -= 1;
            *bytes -= u64::from(packet.size);
        };
        loop {
            let waits = classes.iter().map(|class| !class.waiting.is_empty());
            let Some(class) = scheduler.choose(now, waits) else {
                return;
            };
            let queue = &mut classes[class];
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
                scheduler.abandon(class);
                continue;
            };
            if let Some(pie) = &mut queue.pie {
                pie.sends(waiting.arrived, now, !queue.waiting.is_empty());
            }
            let until = transmit(&waiting);
            let next = queue.waiting.front().map(|next| next.wire_bytes);
            scheduler.send(class, waiting.wire_bytes, next, (now, until));
            self.in_service = Some(InService {
                waiting,
                class,
                until,
            });
            return;
        }
    }

    /// Removes and returns the packet whose transmission ended by `now`.
    #[inline]
    pub(crate) fn finish(&mut self, now: Time) -> Option<InService<T>> {
        let sent = self.in_service.take_if(|sending| sending.until <= now)?;
        if let Queues::Classes(classes, _) = &mut self.queues {
            let queue = &mut classes[sent.class];
            if queue.waiting.is_empty() {
                queue.idle_since = sent.until;
            }
        }
        self.packets -= 1;
        self.bytes -= u64::from(sent.waiting.size);
        Some(sent)
    }
}

/// The index of a class's queue; classes beyond the last count as the last.
fn class_index<T>(classes: &[ClassQueue<T>], class: u16) -> usize {
    usize::from(class).min(classes.len() - 1)
}
