//! Pipes joined to routes, and the packets between them.
//!
//! A pipe that knows a packet's departure when the packet arrives needs no event for it: the packet
//! goes straight into the lane at the pipe's far end, with the time at which it gets there. Where a
//! pipe is the only one that feeds the next, the arrival there needs no event either, and the
//! packet passes through both in one step. So a packet costs one event where routes merge and one
//! where it arrives.
//!
//! Pipes with the same feeder, the same next pipe and the same delay share a lane: their packets
//! come out in nearly the same order, and the agenda has one source for all of them.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use fairwind_path::delay::Delay;
use fairwind_path::pipe::{Arrival, Pipe, PipeStatistics};
use fairwind_path::units::Time;
use fairwind_workload::seed_for;

use crate::agenda::{Agenda, NEVER, Source};
use crate::outcome::PipeSample;
use crate::packet::{Packet, SackPool};
use crate::scenario::{FlowConfig, Hop, Scenario};

/// Marks the end of a route in the list of hops.
const END: Hop = Hop {
    pipe: u32::MAX,
    class: 0,
};

/// Packets at the far end of a pipe, ordered by the time at which they get there.
#[derive(Debug)]
enum Lane {
    /// For pipes that keep the order. Packets due at the same time come in the order of their pipes.
    Ordered(VecDeque<OrderedEntry>),
    /// For a pipe that reorders. Packets due at the same time come in the order in which they were sent.
    Unordered(BinaryHeap<Late>, u64),
}

/// An entry of an ordered lane.
#[derive(Clone, Copy, Debug)]
struct OrderedEntry {
    time: Time,
    pipe: u32,
    packet: Packet,
}

impl OrderedEntry {
    #[inline]
    fn order(&self) -> (Time, u32) {
        (self.time, self.pipe)
    }
}

/// An entry of an unordered lane. The earliest is the greatest, as `BinaryHeap` is a max-heap.
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
    fn push(&mut self, time: Time, pipe: u32, packet: Packet) {
        match self {
            Lane::Ordered(queue) => {
                let landed = OrderedEntry { time, pipe, packet };
                match queue.back() {
                    Some(last) if last.order() > landed.order() => {
                        let at = queue.partition_point(|l| l.order() <= landed.order());
                        queue.insert(at, landed);
                    }
                    _ => queue.push_back(landed),
                }
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
            Lane::Ordered(queue) => queue.front().map_or(NEVER, |first| first.time),
            Lane::Unordered(heap, _) => heap.peek().map_or(NEVER, |late| late.time),
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<Packet> {
        match self {
            Lane::Ordered(queue) => queue.pop_front().map(|first| first.packet),
            Lane::Unordered(heap, _) => heap.pop().map(|late| late.packet),
        }
    }

    fn is_empty(&self) -> bool {
        self.next_time() == NEVER
    }
}

/// The pipes, the lanes at their far ends, and the agenda of the whole run.
#[derive(Debug)]
pub struct Network {
    pipes: Vec<Pipe<Packet>>,
    /// The lane of each pipe: an index of `lanes`, and also the lane's source on the agenda.
    lane_of: Vec<Source>,
    lanes: Vec<Lane>,
    /// The source of each pipe that holds packets; `served` is the inverse.
    service_of: Vec<Source>,
    served: Vec<u32>,
    /// Whether every packet leaves this pipe for one that nothing else feeds.
    chained: Vec<bool>,
    /// The routes, each followed by [`END`].
    hops: Vec<Hop>,
    /// Where the routes of each connection begin in `hops`: backward, forward.
    routes: Vec<[u32; 2]>,
    /// Data packets that each connection has lost on the way.
    pub lost: Vec<u64>,
    /// SACK blocks of the acknowledgements in transit.
    pub sacks: SackPool,
    /// The agenda of the whole run.
    pub agenda: Agenda,
    /// No packet is passed on beyond this time, so that the pipes can be sampled then.
    barrier: Time,
}

impl Network {
    /// The network of a scenario. `timers` is the number of timers on the agenda after the
    /// network's own sources; `flows` gives the flow of each connection.
    pub fn new(scenario: &Scenario, flows: &[u32], timers: usize) -> Self {
        let pipes: Vec<Pipe<Packet>> = scenario
            .pipes
            .iter()
            .enumerate()
            .map(|(index, config)| Pipe::new(config, seed_for(scenario.seed, "pipe", index)))
            .collect();
        let layout = Layout::new(pipes.len(), &scenario.flows);
        let chained: Vec<bool> = pipes
            .iter()
            .zip(&layout.passes_on)
            .map(|(pipe, &passes_on)| passes_on && pipe.is_immediate() && pipe.keeps_order())
            .collect();
        let own: Vec<bool> = pipes
            .iter()
            .zip(&chained)
            .map(|(pipe, &chained)| chained || !pipe.keeps_order())
            .collect();
        let (lane_of, firsts) = layout.lanes(scenario, &own);
        let lanes: Vec<Lane> = firsts
            .iter()
            .map(|&pipe| Lane::new(pipes[pipe].keeps_order()))
            .collect();
        let mut served = Vec::new();
        let mut service_of = vec![Source::MAX; pipes.len()];
        for (pipe, held) in pipes.iter().map(|pipe| !pipe.is_immediate()).enumerate() {
            if held {
                service_of[pipe] = (lanes.len() + served.len()) as Source;
                served.push(pipe as u32);
            }
        }
        let mut hops = Vec::new();
        let mut route = |way: &[Hop]| {
            let first = hops.len() as u32;
            hops.extend_from_slice(way);
            hops.push(END);
            first
        };
        let of_flows: Vec<[u32; 2]> = scenario
            .flows
            .iter()
            .map(|flow| [route(&flow.backward), route(&flow.forward)])
            .collect();
        let routes = flows.iter().map(|&flow| of_flows[flow as usize]).collect();
        let agenda = Agenda::new(lanes.len() + served.len(), timers);
        Network {
            pipes,
            lane_of,
            lanes,
            service_of,
            served,
            chained,
            hops,
            routes,
            lost: vec![0; flows.len()],
            sacks: SackPool::default(),
            agenda,
            barrier: Time::ZERO,
        }
    }

    /// The number of sources that belong to the network.
    pub fn sources(&self) -> Source {
        (self.lanes.len() + self.served.len()) as Source
    }

    /// Sends a packet on its way at `now`.
    #[inline]
    pub fn send(&mut self, now: Time, packet: Packet) {
        let hop = self.routes[packet.connection as usize][usize::from(packet.is_forward())];
        self.transmit(now, Packet { hop, ..packet });
    }

    /// Sends a packet into its next pipe at `now`, and on through every chained pipe.
    #[inline]
    fn transmit(&mut self, now: Time, mut packet: Packet) {
        let mut time = now;
        loop {
            let hop = self.hops[packet.hop as usize];
            let pipe = hop.pipe as usize;
            packet.hop += 1;
            match self.pipes[pipe].arrive(time, u32::from(packet.size), hop.class, packet) {
                Arrival::Leaves(at) => {
                    if self.chained[pipe]
                        && at <= self.barrier
                        && self.lanes[self.lane_of[pipe] as usize].is_empty()
                    {
                        time = at;
                        continue;
                    }
                    self.push_to_lane(pipe, at, packet);
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

    /// Handles one of the network's own sources, which is due. Returns a packet that has reached
    /// the end of its route.
    #[inline]
    pub fn on_event(&mut self, now: Time, source: Source) -> Option<Packet> {
        let Some(lane) = self.lanes.get_mut(source as usize) else {
            self.serve(now, source);
            return None;
        };
        let packet = lane.pop();
        self.agenda.set(source, lane.next_time());
        let packet = packet?;
        if self.hops[packet.hop as usize].pipe != END.pipe {
            self.transmit(now, packet);
            return None;
        }
        Some(packet)
    }

    /// Lets packets pass from pipe to pipe up to `barrier`, the next time at which the pipes are sampled.
    pub fn set_barrier(&mut self, barrier: Time) {
        self.barrier = barrier;
        for pipe in 0..self.pipes.len() {
            if !self.chained[pipe] {
                continue;
            }
            let lane = self.lane_of[pipe];
            while self.lanes[lane as usize].next_time() <= barrier {
                let time = self.lanes[lane as usize].next_time();
                if let Some(packet) = self.lanes[lane as usize].pop() {
                    self.transmit(time, packet);
                }
            }
            self.agenda.set(lane, self.lanes[lane as usize].next_time());
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

    /// The state of the pipes at `now`, which must not be after the barrier.
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
    fn push_to_lane(&mut self, pipe: usize, at: Time, packet: Packet) {
        if at == NEVER {
            self.discard(packet);
            return;
        }
        let source = self.lane_of[pipe];
        let lane = &mut self.lanes[source as usize];
        let first = at < lane.next_time();
        lane.push(at, pipe as u32, packet);
        if first {
            self.agenda.set(source, at);
        }
    }

    fn put_down_twice(&mut self, pipe: usize, first: Time, second: Time, packet: Packet) {
        let copy = Packet {
            sack: self.sacks.duplicate(packet.sack),
            ..packet
        };
        self.push_to_lane(pipe, first, packet);
        self.push_to_lane(pipe, second, copy);
    }

    fn arm_service(&mut self, pipe: usize) {
        let next = self.pipes[pipe].next_departure().unwrap_or(NEVER);
        self.agenda.set(self.service_of[pipe], next);
    }

    fn serve(&mut self, now: Time, source: Source) {
        let pipe = self.served[source as usize - self.lanes.len()] as usize;
        while let Some(departure) = self.pipes[pipe].depart(now) {
            match departure.outcome {
                Arrival::Leaves(at) => self.push_to_lane(pipe, at, departure.packet),
                Arrival::Duplicated(first, second) => {
                    self.put_down_twice(pipe, first, second, departure.packet)
                }
                Arrival::Held | Arrival::Lost(_) => self.discard(departure.packet),
            }
        }
        self.arm_service(pipe);
    }

    #[cold]
    fn discard(&mut self, packet: Packet) {
        if packet.len > 0 {
            self.lost[packet.connection as usize] += 1;
        }
        self.sacks.take(packet.sack);
    }
}

/// What precedes or follows a pipe on the routes that use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Neighbour {
    /// No route uses the pipe.
    #[default]
    Unused,
    /// Always a host.
    Host,
    /// Always this pipe.
    Pipe(u32),
    /// Different ones on different routes.
    Several,
}

impl Neighbour {
    fn note(&mut self, hop: Option<&Hop>) {
        let found = hop.map_or(Neighbour::Host, |hop| Neighbour::Pipe(hop.pipe));
        *self = match *self {
            Neighbour::Unused => found,
            known if known == found => known,
            _ => Neighbour::Several,
        };
    }
}

/// How the flows' routes join the pipes.
struct Layout {
    before: Vec<Neighbour>,
    after: Vec<Neighbour>,
    /// Whether every packet goes on into a pipe that nothing else feeds.
    passes_on: Vec<bool>,
}

impl Layout {
    fn new(pipes: usize, flows: &[FlowConfig]) -> Self {
        let ways = || {
            flows
                .iter()
                .flat_map(|flow| [&flow.forward, &flow.backward])
        };
        let mut before = vec![Neighbour::default(); pipes];
        let mut after = vec![Neighbour::default(); pipes];
        for way in ways() {
            for (at, hop) in way.iter().enumerate() {
                let previous = at.checked_sub(1).map(|previous| &way[previous]);
                before[hop.pipe as usize].note(previous);
                after[hop.pipe as usize].note(way.get(at + 1));
            }
        }
        let mut passes_on = vec![true; pipes];
        for way in ways() {
            for (at, hop) in way.iter().enumerate() {
                let alone = way
                    .get(at + 1)
                    .is_some_and(|next| before[next.pipe as usize] == Neighbour::Pipe(hop.pipe));
                passes_on[hop.pipe as usize] &= alone;
            }
        }
        Layout {
            before,
            after,
            passes_on,
        }
    }

    /// The lane of each pipe, and the first pipe of each lane. Pipes with the same neighbours and
    /// the same constant delay share a lane; those marked in `own` do not.
    fn lanes(&self, scenario: &Scenario, own: &[bool]) -> (Vec<Source>, Vec<usize>) {
        let mut shared = BTreeMap::new();
        let mut firsts = Vec::new();
        let mut lane_of = Vec::new();
        for (pipe, config) in scenario.pipes.iter().enumerate() {
            let fresh = firsts.len() as Source;
            let lane = match config.delay.base {
                Delay::Constant(delay) if !own[pipe] => {
                    let place = (self.before[pipe], self.after[pipe], delay);
                    *shared.entry(place).or_insert(fresh)
                }
                _ => fresh,
            };
            if lane == fresh {
                firsts.push(pipe);
            }
            lane_of.push(lane);
        }
        (lane_of, firsts)
    }
}
