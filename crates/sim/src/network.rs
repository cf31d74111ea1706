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

use std::collections::{BTreeMap, VecDeque};

use fairwind_path::delay::Delay;
use fairwind_path::pipe::{Arrival, Offer, Pipe, PipeStatistics};
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
    /// The number counts them.
    Unordered(BTreeMap<(Time, u64), Packet>, u64),
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

impl Lane {
    fn new(ordered: bool) -> Self {
        if ordered {
            Lane::Ordered(VecDeque::new())
        } else {
            Lane::Unordered(BTreeMap::new(), 0)
        }
    }

    /// Adds a packet. Returns whether it is the first now.
    #[inline]
    fn push(&mut self, time: Time, pipe: u32, packet: &Packet) -> bool {
        let packet = *packet;
        match self {
            Lane::Ordered(queue) => {
                let landed = OrderedEntry { time, pipe, packet };
                match queue.back() {
                    Some(last) if last.order() > landed.order() => {
                        let at = queue.partition_point(|l| l.order() <= landed.order());
                        queue.insert(at, landed);
                        at == 0
                    }
                    last => {
                        let is_first = last.is_none();
                        queue.push_back(landed);
                        is_first
                    }
                }
            }
            Lane::Unordered(packets, number) => {
                *number += 1;
                packets.insert((time, *number), packet);
                packets.first_key_value().map(|(first, _)| first.1) == Some(*number)
            }
        }
    }

    #[inline]
    fn next_time(&self) -> Time {
        match self {
            Lane::Ordered(queue) => queue.front().map_or(NEVER, |first| first.time),
            Lane::Unordered(packets, _) => {
                packets.first_key_value().map_or(NEVER, |(key, _)| key.0)
            }
        }
    }

    /// Takes the first packet of a lane that has one.
    // Not an `Option`: its tag would be inside the packet, and the processor stalls on the copies that go around it.
    #[inline]
    fn take_first(&mut self) -> Packet {
        match self {
            Lane::Ordered(queue) => {
                let packet = queue[0].packet;
                queue.pop_front();
                packet
            }
            Lane::Unordered(packets, _) => packets.pop_first().expect("a lane with packets").1,
        }
    }
}

/// A pipe, and where its packets go from its far end.
#[derive(Debug)]
struct Link {
    pipe: Pipe<Packet>,
    /// Index of its lane.
    lane: Source,
    /// The source that wakes it, if it holds packets.
    service: Source,
    /// Up to this time packets pass straight on into the next pipe, so that this one can be sampled
    /// then. `None` if anything else feeds the next pipe.
    passes_until: Option<Time>,
}

/// The pipes, the lanes at their far ends, and the agenda of the whole run.
#[derive(Debug)]
pub(crate) struct Network {
    links: Vec<Link>,
    /// The first ones are sources on the agenda. The others are those of pipes that pass packets
    /// straight on: what waits there is never due before [`Network::set_barrier`] takes it.
    lanes: Vec<Lane>,
    /// The number of lanes on the agenda; the sources of pipes that hold packets follow.
    due_lanes: Source,
    /// The pipes that hold packets, in the order of their sources.
    served: Vec<u32>,
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
}

impl Network {
    /// The network of a scenario. `timers` is the number of timers on the agenda after the
    /// network's own sources; `flows` gives the flow of each connection.
    pub(crate) fn new(scenario: &Scenario, flows: &[u32], timers: usize) -> Self {
        let pipes: Vec<Pipe<Packet>> = scenario
            .pipes
            .iter()
            .enumerate()
            .map(|(index, config)| Pipe::new(config, seed_for(scenario.seed, "pipe", index)))
            .collect();
        let layout = Layout::new(pipes.len(), &scenario.flows);
        let places: Vec<Place> = pipes
            .iter()
            .zip(&layout.passes_on)
            .map(|(pipe, &passes_on)| match pipe.keeps_order() {
                true if passes_on && pipe.is_immediate() => Place::Chained,
                true => Place::Shared,
                false => Place::Own,
            })
            .collect();
        let (lane_of, firsts) = layout.lanes(scenario, &places);
        let lanes: Vec<Lane> = firsts
            .iter()
            .map(|&pipe| Lane::new(pipes[pipe].keeps_order()))
            .collect();
        let chained = places.iter().filter(|&&place| place == Place::Chained);
        let due_lanes = (lanes.len() - chained.count()) as Source;
        let mut served = Vec::new();
        let mut links = Vec::new();
        for (index, pipe) in pipes.into_iter().enumerate() {
            let service = due_lanes + served.len() as Source;
            if !pipe.is_immediate() {
                served.push(index as u32);
            }
            links.push(Link {
                pipe,
                lane: lane_of[index],
                service,
                passes_until: (places[index] == Place::Chained).then_some(Time::ZERO),
            });
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
        let agenda = Agenda::new(due_lanes as usize + served.len(), timers);
        Network {
            links,
            lanes,
            due_lanes,
            served,
            hops,
            routes,
            lost: vec![0; flows.len()],
            sacks: SackPool::default(),
            agenda,
        }
    }

    /// The number of sources that belong to the network.
    pub(crate) fn sources(&self) -> Source {
        self.due_lanes + self.served.len() as Source
    }

    /// Sends a packet on its way at `now`.
    #[inline]
    pub(crate) fn send(&mut self, now: Time, packet: &mut Packet) {
        packet.hop = self.routes[packet.connection as usize][usize::from(packet.is_forward())];
        self.transmit(now, packet);
    }

    /// Sends a packet into its next pipe at `now`, and on through every chained pipe.
    pub(crate) fn transmit(&mut self, mut now: Time, packet: &mut Packet) {
        loop {
            let hop = self.hops[packet.hop as usize];
            let link = &mut self.links[hop.pipe as usize];
            packet.hop += 1;
            let offer = Offer {
                size: u32::from(packet.size),
                class: hop.class,
                ecn: packet.ecn,
                flow: packet.flow(),
            };
            match link.pipe.arrive(now, offer, *packet) {
                Arrival::Leaves(at, ecn) => {
                    packet.ecn = ecn;
                    if link.passes_until.is_some_and(|until| at <= until) {
                        now = at;
                        continue;
                    }
                    self.push_to_lane(hop.pipe, at, packet);
                }
                Arrival::Duplicated(first, second, ecn) => {
                    packet.ecn = ecn;
                    self.put_down_twice(hop.pipe, first, second, *packet)
                }
                Arrival::Held => self.arm_service(hop.pipe),
                Arrival::Lost(_) => self.discard(packet),
            }
            return;
        }
    }

    /// Whether a source is a lane, from which [`Network::take`] takes packets when it is due.
    #[inline]
    pub(crate) fn is_lane(&self, source: Source) -> bool {
        source < self.due_lanes
    }

    /// Takes the packet that is due from a lane.
    #[inline]
    pub(crate) fn take(&mut self, source: Source) -> Packet {
        let lane = &mut self.lanes[source as usize];
        let packet = lane.take_first();
        self.agenda.set(source, lane.next_time());
        packet
    }

    /// Whether a packet has reached the end of its route.
    #[inline]
    pub(crate) fn has_arrived(&self, packet: &Packet) -> bool {
        self.hops[packet.hop as usize].pipe == END.pipe
    }

    /// Lets packets pass from pipe to pipe up to `barrier`, the next time at which the pipes are sampled.
    pub(crate) fn set_barrier(&mut self, barrier: Time) {
        for pipe in 0..self.links.len() {
            let Link {
                lane, passes_until, ..
            } = self.links[pipe];
            if passes_until.is_none() {
                continue;
            }
            loop {
                let lane = &mut self.lanes[lane as usize];
                let time = lane.next_time();
                if time > barrier {
                    break;
                }
                let mut packet = lane.take_first();
                self.transmit(time, &mut packet);
            }
            self.links[pipe].passes_until = Some(barrier);
        }
    }

    /// Ends the warm-up of the pipes' statistics.
    pub(crate) fn reset_statistics(&mut self, now: Time) {
        for link in &mut self.links {
            link.pipe.reset_statistics(now);
        }
    }

    /// The pipes' statistics up to `end`.
    pub(crate) fn statistics(&mut self, end: Time) -> Vec<PipeStatistics> {
        self.links
            .iter_mut()
            .map(|link| link.pipe.statistics(end))
            .collect()
    }

    /// The state of the pipes at `now`, which must not be after the barrier.
    pub(crate) fn samples(&mut self, now: Time) -> impl Iterator<Item = PipeSample> + '_ {
        self.links.iter_mut().map(move |Link { pipe, .. }| {
            let queue = pipe.queue(now);
            PipeSample {
                queue_packets: queue.packets,
                queue_bytes: queue.bytes,
                drops: pipe.losses(),
                bytes: pipe.bytes_out(now),
            }
        })
    }

    #[inline]
    fn push_to_lane(&mut self, pipe: u32, at: Time, packet: &Packet) {
        if at == NEVER {
            self.discard(packet);
            return;
        }
        let lane = self.links[pipe as usize].lane;
        let is_first = self.lanes[lane as usize].push(at, pipe, packet);
        if is_first && lane < self.due_lanes {
            self.agenda.set(lane, at);
        }
    }

    fn put_down_twice(&mut self, pipe: u32, first: Time, second: Time, mut packet: Packet) {
        let mut copy = Packet {
            sack: self.sacks.duplicate(packet.sack),
            ..packet
        };
        self.leave(pipe, first, &mut packet);
        self.leave(pipe, second, &mut copy);
    }

    /// Passes a packet that comes out of a pipe at `at` straight on, if the pipe does that, or puts it into a lane.
    fn leave(&mut self, pipe: u32, at: Time, packet: &mut Packet) {
        let passes_until = self.links[pipe as usize].passes_until;
        if passes_until.is_some_and(|until| at <= until) {
            self.transmit(at, packet);
        } else {
            self.push_to_lane(pipe, at, packet);
        }
    }

    fn arm_service(&mut self, pipe: u32) {
        let link = &self.links[pipe as usize];
        let next = link.pipe.next_departure().unwrap_or(NEVER);
        self.agenda.set(link.service, next);
    }

    /// Handles a source of the network that is not a lane: a pipe that holds packets.
    pub(crate) fn serve(&mut self, now: Time, source: Source) {
        let pipe = self.served[(source - self.due_lanes) as usize];
        while let Some(departure) = self.links[pipe as usize].pipe.depart(now) {
            let mut packet = departure.packet;
            match departure.outcome {
                Arrival::Leaves(at, ecn) => {
                    packet.ecn = ecn;
                    self.push_to_lane(pipe, at, &packet);
                }
                Arrival::Duplicated(first, second, ecn) => {
                    packet.ecn = ecn;
                    self.put_down_twice(pipe, first, second, packet);
                }
                Arrival::Held | Arrival::Lost(_) => self.discard(&packet),
            }
        }
        self.arm_service(pipe);
    }

    #[cold]
    #[inline(never)]
    fn discard(&mut self, packet: &Packet) {
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

/// Where the packets of a pipe wait to be due.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a lane that other pipes may share.
    Shared,
    /// In a lane of its own, as it reorders.
    Own,
    /// Nearly nowhere: every packet leaves this pipe for one that nothing else feeds.
    Chained,
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
    /// the same constant delay share a lane if they may; those of chained pipes come last.
    fn lanes(&self, scenario: &Scenario, places: &[Place]) -> (Vec<Source>, Vec<usize>) {
        let mut shared = BTreeMap::new();
        let mut firsts = Vec::new();
        let mut lane_of = vec![0; places.len()];
        let mut pipes: Vec<usize> = (0..places.len()).collect();
        pipes.sort_by_key(|&pipe| places[pipe] == Place::Chained);
        for pipe in pipes {
            let fresh = firsts.len() as Source;
            lane_of[pipe] = match scenario.pipes[pipe].delay.base {
                Delay::Constant(delay) if places[pipe] == Place::Shared => {
                    let place = (self.before[pipe], self.after[pipe], delay);
                    *shared.entry(place).or_insert(fresh)
                }
                _ => fresh,
            };
            if lane_of[pipe] == fresh {
                firsts.push(pipe);
            }
        }
        (lane_of, firsts)
    }
}
