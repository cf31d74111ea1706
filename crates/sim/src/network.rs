//! Pipes joined to routes, and the packets between them.
//!
//! A pipe whose departures are known at arrival needs no event of its own: the packet is put down
//! at its far end with the time at which it gets there. Where one pipe is all that feeds the next,
//! even the arrival there needs none, and the packet passes through both at once. So a packet costs
//! an event where flows come together and one where it arrives.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use fairwind_path::pipe::{Arrival, Pipe, PipeStatistics};
use fairwind_path::units::Time;

use crate::agenda::{Agenda, Source, NEVER};
use crate::outcome::PipeSample;
use crate::packet::{Packet, SackPool};
use crate::random::seed_for;
use crate::scenario::{FlowConfig, Hop, Scenario};

/// A flow's ways there and back, as ranges of [`Network::hops`].
#[derive(Clone, Copy, Debug)]
struct Route {
    first: u32,
    len: u8,
}

/// Packets at the far end of a pipe, by the time they get there.
#[derive(Debug)]
enum Lane {
    /// The pipe keeps their order.
    Ordered(VecDeque<(Time, Packet)>),
    /// It does not; packets of the same time come in the order in which they were sent.
    Unordered(BinaryHeap<Late>, u64),
}

/// An entry of an unordered lane; the earliest is the greatest.
#[derive(Debug)]
struct Late {
    time: Time,
    number: u64,
    packet: Packet,
}

impl PartialEq for Late {
    fn eq(&self, other: &Late) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Late {}

impl PartialOrd for Late {
    fn partial_cmp(&self, other: &Late) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Late {
    fn cmp(&self, other: &Late) -> Ordering {
        (other.time, other.number).cmp(&(self.time, self.number))
    }
}

impl Lane {
    fn new(ordered: bool) -> Self {
        if ordered {
            Lane::Ordered(VecDeque::new())
        } else {
            Lane::Unordered(BinaryHeap::new(), 0)
        }
    }

    #[inline]
    fn push(&mut self, time: Time, packet: Packet) {
        match self {
            Lane::Ordered(queue) => {
                debug_assert!(queue.back().is_none_or(|&(last, _)| last <= time));
                queue.push_back((time, packet));
            }
            Lane::Unordered(heap, number) => {
                *number += 1;
                let number = *number;
                heap.push(Late {
                    time,
                    number,
                    packet,
                });
            }
        }
    }

    #[inline]
    fn next_time(&self) -> Time {
        match self {
            Lane::Ordered(queue) => queue.front().map_or(NEVER, |&(time, _)| time),
            Lane::Unordered(heap, _) => heap.peek().map_or(NEVER, |late| late.time),
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<Packet> {
        match self {
            Lane::Ordered(queue) => queue.pop_front().map(|(_, packet)| packet),
            Lane::Unordered(heap, _) => heap.pop().map(|late| late.packet),
        }
    }

    fn is_empty(&self) -> bool {
        self.next_time() == NEVER
    }
}

/// The pipes, their far ends, and the agenda of the whole run.
#[derive(Debug)]
pub struct Network {
    pipes: Vec<Pipe<Packet>>,
    lanes: Vec<Lane>,
    /// Whether every packet goes on from this pipe into one that nothing else feeds.
    chained: Vec<bool>,
    hops: Vec<Hop>,
    /// A flow's forward route, then its backward route.
    routes: Vec<[Route; 2]>,
    /// The flow of each connection.
    flows: Vec<u32>,
    /// SACK blocks of the acknowledgements on their way.
    pub sacks: SackPool,
    /// What is due next.
    pub agenda: Agenda,
    /// Packets are not passed on beyond this time, so that pipes can be looked at then.
    barrier: Time,
}

impl Network {
    /// The network of a scenario, with `sources` further sources on the agenda after the
    /// network's own, which are `0..2 * pipes`. `flows` gives the flow of each connection.
    pub fn new(scenario: &Scenario, flows: Vec<u32>, sources: usize) -> Self {
        let pipes: Vec<Pipe<Packet>> = scenario
            .pipes
            .iter()
            .enumerate()
            .map(|(index, config)| Pipe::new(config, seed_for(scenario.seed, "pipe", index)))
            .collect();
        let lanes = pipes
            .iter()
            .map(|pipe| Lane::new(pipe.keeps_order()))
            .collect();
        let chained = chained(&pipes, &scenario.flows);
        let mut hops = Vec::new();
        let mut route = |way: &[Hop]| {
            let first = hops.len() as u32;
            hops.extend_from_slice(way);
            Route {
                first,
                len: way.len() as u8,
            }
        };
        let routes = scenario
            .flows
            .iter()
            .map(|flow| [route(&flow.forward), route(&flow.backward)])
            .collect();
        let agenda = Agenda::new(2 * pipes.len() + sources);
        Network {
            pipes,
            lanes,
            chained,
            hops,
            routes,
            flows,
            sacks: SackPool::default(),
            agenda,
            barrier: Time::ZERO,
        }
    }

    /// The number of sources that belong to the network.
    pub fn sources(&self) -> Source {
        2 * self.pipes.len() as Source
    }

    /// Sends a packet over the next hop of its route, at `now`.
    #[inline]
    pub fn transmit(&mut self, now: Time, mut packet: Packet) {
        let route = self.route(&packet);
        let mut time = now;
        loop {
            let hop = self.hops[(route.first + u32::from(packet.hop)) as usize];
            let pipe = hop.pipe as usize;
            packet.hop += 1;
            match self.pipes[pipe].arrive(time, u32::from(packet.size), hop.class, packet) {
                Arrival::Leaves(at) => {
                    if self.chained[pipe] && at <= self.barrier && self.lanes[pipe].is_empty() {
                        time = at;
                        continue;
                    }
                    self.put_down(pipe, at, packet);
                }
                Arrival::Duplicated(first, second) => {
                    self.put_down_twice(pipe, first, second, packet)
                }
                Arrival::Held => self.arm_service(pipe),
                Arrival::Lost(_) => self.discard(packet),
            }
            return;
        }
    }

    /// Handles one of the network's own sources, which is first on the agenda. Returns a packet
    /// that has come to the end of its route.
    #[inline]
    pub fn on_event(&mut self, now: Time, source: Source) -> Option<Packet> {
        let pipes = self.pipes.len();
        if source as usize >= pipes {
            self.serve(now, source as usize - pipes);
            return None;
        }
        let lane = &mut self.lanes[source as usize];
        if lane.next_time() > now {
            self.agenda.rearm_first(lane.next_time());
            return None;
        }
        let packet = lane.pop();
        self.agenda.rearm_first(lane.next_time());
        let packet = packet?;
        if packet.hop < self.route(&packet).len {
            self.transmit(now, packet);
            return None;
        }
        Some(packet)
    }

    /// Lets packets pass from pipe to pipe up to `barrier`, when the pipes will be looked at next.
    pub fn set_barrier(&mut self, barrier: Time) {
        self.barrier = barrier;
        for pipe in 0..self.pipes.len() {
            while self.chained[pipe] && self.lanes[pipe].next_time() <= barrier {
                let time = self.lanes[pipe].next_time();
                if let Some(packet) = self.lanes[pipe].pop() {
                    self.transmit(time, packet);
                }
            }
        }
    }

    /// Ends the warm-up of the pipes' statistics.
    pub fn reset_statistics(&mut self, now: Time) {
        for pipe in &mut self.pipes {
            pipe.reset_statistics(now);
        }
    }

    /// The pipes' statistics up to `end`.
    pub fn statistics(&mut self, end: Time) -> Vec<PipeStatistics> {
        self.pipes
            .iter_mut()
            .map(|pipe| pipe.statistics(end))
            .collect()
    }

    /// The pipes at `now`, which is not after the barrier.
    pub fn samples(&mut self, now: Time) -> impl Iterator<Item = PipeSample> + '_ {
        self.pipes.iter_mut().map(move |pipe| {
            let queue = pipe.queue(now);
            PipeSample {
                queue_packets: queue.packets,
                queue_bytes: queue.bytes,
                drops: pipe.drops() + pipe.random_losses(),
                bytes: pipe.bytes_out(now),
            }
        })
    }

    #[inline]
    fn route(&self, packet: &Packet) -> Route {
        let flow = self.flows[packet.connection as usize];
        self.routes[flow as usize][usize::from(!packet.is_forward())]
    }

    #[inline]
    fn put_down(&mut self, pipe: usize, at: Time, packet: Packet) {
        if at == NEVER {
            self.discard(packet);
            return;
        }
        self.lanes[pipe].push(at, packet);
        self.agenda.arm(pipe as Source, at);
    }

    fn put_down_twice(&mut self, pipe: usize, first: Time, second: Time, packet: Packet) {
        let copy = Packet {
            sack: self.sacks.duplicate(packet.sack),
            ..packet
        };
        self.put_down(pipe, first, packet);
        self.put_down(pipe, second, copy);
    }

    fn arm_service(&mut self, pipe: usize) {
        if let Some(time) = self.pipes[pipe].next_departure() {
            self.agenda.arm((self.pipes.len() + pipe) as Source, time);
        }
    }

    fn serve(&mut self, now: Time, pipe: usize) {
        self.agenda.rearm_first(NEVER);
        while let Some(departure) = self.pipes[pipe].depart(now) {
            match departure.outcome {
                Arrival::Leaves(at) => self.put_down(pipe, at, departure.packet),
                Arrival::Duplicated(first, second) => {
                    self.put_down_twice(pipe, first, second, departure.packet)
                }
                Arrival::Held | Arrival::Lost(_) => self.discard(departure.packet),
            }
        }
        self.arm_service(pipe);
    }

    fn discard(&mut self, packet: Packet) {
        self.sacks.take(packet.sack);
    }
}

/// For each pipe, whether packets may pass from it straight into the next: every packet goes on,
/// nothing else feeds the pipes it goes into, and it keeps the order and knows departures at once.
fn chained(pipes: &[Pipe<Packet>], flows: &[FlowConfig]) -> Vec<bool> {
    const OUTSIDE: u32 = u32::MAX;
    let ways = || flows.iter().flat_map(|flow| [&flow.forward, &flow.backward]);
    let mut feeder: Vec<Option<u32>> = vec![None; pipes.len()];
    let mut shared = vec![false; pipes.len()];
    for way in ways() {
        let mut from = OUTSIDE;
        for hop in way {
            let known = *feeder[hop.pipe as usize].get_or_insert(from);
            shared[hop.pipe as usize] |= known != from || from == OUTSIDE;
            from = hop.pipe;
        }
    }
    let mut chained: Vec<bool> = pipes
        .iter()
        .map(|pipe| pipe.is_immediate() && pipe.keeps_order())
        .collect();
    for way in ways() {
        for (at, hop) in way.iter().enumerate() {
            let next = way.get(at + 1);
            if next.is_none_or(|next| shared[next.pipe as usize]) {
                chained[hop.pipe as usize] = false;
            }
        }
    }
    chained
}
