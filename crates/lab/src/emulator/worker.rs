//! One thread of the emulator: reads packets from hosts, moves them from pipe to pipe, and writes
//! them to hosts when they are due.
//!
//! Every packet has a logical time: first that of its reading, and from then on the times that the
//! pipes compute. A packet handled late reaches its host late, but the pipes after it do not see
//! the delay.

mod reading;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::PipeReader;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use fairwind_path::ecn::Ecn;
use fairwind_path::pipe::{Arrival, Offer, PipeStatistics};
use fairwind_path::units::Time;

use super::EmulatorOptions;
use super::arena::{Arena, PacketId};
use super::capture::Recorder;
use super::classifier::{self, Classifier, Tag, datagram_payload};
use super::delivery::Delivery;
use super::ip;
use super::lateness::Lateness;
use super::milestones::Milestones;
use super::pause::{Outlook, Pauses};
use super::ring::Ring;
use super::statistics::{FlowCounts, LabLosses, NamedPipe, PipeSample};
use super::transit::Transit;
use crate::clock::Clock;
use crate::host::tap::Tap;
use crate::host::tap::uplink::{Reader, Uplink};
use crate::host::tap::vnet;
use crate::network::{Network, Routes};

/// The largest packet that a device can deliver.
const MAX_PACKET: usize = vnet::LEN + 65_536;
/// Packets of up to this many IP bytes fit in a slot, whatever the MTU.
const SLOT: usize = 2048 - vnet::LEN;
/// Memory for packets in flight in one part of a network: 1.7 s of 1500-byte packets at 1 Gbit/s.
const ARENA_BYTES: usize = 512 << 20;
/// The thread of one part of a network.
pub(super) struct Worker {
    clock: Clock,
    arena: Arena,
    large: Box<[u8]>,
    routes: Arc<Routes>,
    inputs: Vec<Input>,
    delivery: Delivery,
    /// Reads and writes packets in batches, where the kernel supports it: the inputs' devices, then
    /// the outputs'.
    ring: Option<Ring>,
    outputs: Vec<Arc<Tap>>,
    transits: Vec<Transit>,
    /// Index among `transits`, by the pipe's index in the network.
    local: Vec<usize>,
    /// Times at which transits have work. An entry whose time is no longer the transit's `armed` is
    /// ignored.
    agenda: BinaryHeap<Reverse<(Time, usize)>>,
    milestones: Milestones,
    /// The totals, once the time for them has ended.
    totals: Option<Totals>,
    last_destination: (Ipv4Addr, usize),
    classifier: Option<Classifier>,
    flows: Vec<FlowCounts>,
    mishaps: LabLosses,
}

/// What all parts of a network share.
pub(super) struct Common<'a> {
    pub network: &'a Network,
    pub routes: Arc<Routes>,
    /// Devices of the hosts, by node.
    pub taps: HashMap<usize, Arc<Tap>>,
    /// The largest packet that a host sends, IP bytes.
    pub largest: usize,
    pub clock: Clock,
    pub options: &'a EmulatorOptions,
    /// Channel for the samples of pipes.
    pub samples: SyncSender<PipeSample>,
}

/// Results of a part of the network.
#[derive(Debug)]
pub(super) struct Report {
    /// The pipes, with their index in the network.
    pub pipes: Vec<(usize, NamedPipe)>,
    /// All flows, as far as this part saw them.
    pub flows: Vec<FlowCounts>,
    /// By index of the pipe: packets in its file, and packets missed.
    pub captures: Vec<(usize, (u64, u64))>,
    pub samples_lost: u64,
    pub lateness: Lateness,
    pub mishaps: LabLosses,
}

/// Statistics of the pipes, in the order of the transits, and of the flows.
type Totals = (Vec<PipeStatistics>, Vec<FlowCounts>);

/// A host that sends into this part.
struct Input {
    node: usize,
    tap: Arc<Tap>,
    reader: Option<Reader>,
    /// Number of packets to ask for at the next read.
    expected: usize,
}

impl Worker {
    pub(super) fn new(
        common: &Common<'_>,
        part: &[usize],
        recorders: &mut HashMap<usize, Recorder>,
    ) -> Worker {
        let Common { network, taps, .. } = common;
        let flows = network.flows();
        let mut local = vec![usize::MAX; network.pipes().len()];
        let mut transits = Vec::new();
        let mut inputs: Vec<Input> = Vec::new();
        let mut outputs: Vec<(usize, usize, Arc<Tap>)> = Vec::new();
        let number = |node| network.hosts().position(|(host, _)| host == node);
        for &index in part {
            let plan = &network.pipes()[index];
            local[index] = transits.len();
            let seed = stream(common.options.seed, index);
            let mut transit = Transit::new(index, plan, flows.len(), seed);
            transit.recorder = recorders.remove(&index);
            transits.push(transit);
            if let Some(tap) = taps.get(&plan.from)
                && common.routes.enter(plan.from, index)
                && inputs.iter().all(|input| input.node != plan.from)
            {
                inputs.push(Input {
                    node: plan.from,
                    tap: Arc::clone(tap),
                    reader: tap.uplink().and_then(Uplink::reader),
                    expected: 1,
                });
            }
            if let (Some(tap), Some(host)) = (taps.get(&plan.to), number(plan.to)) {
                outputs.push((plan.to, host, Arc::clone(tap)));
            }
        }
        let mut delivery = Delivery::new(common.clock);
        for (place, (node, host, tap)) in outputs.iter().enumerate() {
            delivery.add(*node, *host, inputs.len() + place, tap);
        }
        let EmulatorOptions {
            warmup,
            end,
            sample_interval,
            ..
        } = *common.options;
        Worker {
            clock: common.clock,
            arena: Arena::new(
                vnet::padded(vnet::LEN + common.largest.max(SLOT)),
                ARENA_BYTES,
            ),
            large: vec![0; MAX_PACKET].into_boxed_slice(),
            routes: Arc::clone(&common.routes),
            inputs,
            delivery,
            ring: None,
            outputs: outputs.into_iter().map(|(_, _, tap)| tap).collect(),
            transits,
            local,
            agenda: BinaryHeap::new(),
            milestones: Milestones::new(warmup, end, sample_interval, common.samples.clone()),
            totals: None,
            last_destination: (Ipv4Addr::UNSPECIFIED, usize::MAX),
            classifier: Classifier::new(flows),
            flows: vec![FlowCounts::default(); flows.len()],
            mishaps: LabLosses::default(),
        }
    }

    /// Runs until the other end of `stopped` is closed.
    pub(super) fn run(mut self, stopped: PipeReader) -> Report {
        let inputs = self.inputs.iter().map(|input| Arc::clone(&input.tap));
        let mut pauses = Pauses::begin(self.clock, stopped, inputs.collect());
        let inputs = self.inputs.iter().map(|input| &input.tap);
        self.ring = Ring::new(inputs.chain(&self.outputs));
        if pauses.await_start() {
            return self.report();
        }
        loop {
            let busy = self.read_all();
            let now = self.clock.now();
            self.advance(now);
            let outlook = Outlook {
                busy,
                departure: self.agenda.peek().map(|&Reverse((time, _))| time),
                milestone: self.milestones.next(),
            };
            if pauses.pause(now, outlook) {
                return self.report();
            }
        }
    }

    /// Handles a packet that the host at `node` has sent.
    #[inline]
    fn send(&mut self, node: usize, id: PacketId, now: Time) {
        if let Some(classifier) = &mut self.classifier {
            let packet = &self.arena.packet(id)[vnet::LEN..];
            let tag = match packet[0] >> 4 {
                4 => classifier.classify(packet),
                _ => Tag::NONE,
            };
            self.arena.set_tag(id, tag);
            if let Some(flow) = tag.carries_data_of() {
                self.flows[flow].packets += 1;
            }
        }
        self.send_on(node, id, now);
    }

    /// Sends a packet from `node` into the next pipe on its route.
    #[inline]
    fn send_on(&mut self, node: usize, id: PacketId, now: Time) {
        let host = self.destination(id);
        let next = host.and_then(|host| self.routes.next(node, host));
        match next {
            Some(pipe) => self.enter(self.local[pipe], id, now),
            None => {
                self.mishaps.unroutable += 1;
                self.arena.put(id);
            }
        }
    }

    /// The number of the packet's destination host.
    #[inline]
    fn destination(&mut self, id: PacketId) -> Option<usize> {
        let packet = &self.arena.packet(id)[vnet::LEN..];
        if packet[0] >> 4 != 4 {
            return None;
        }
        let address = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
        if self.last_destination.0 != address {
            self.last_destination = (address, self.routes.host(address)?);
        }
        Some(self.last_destination.1)
    }

    fn enter(&mut self, transit: usize, id: PacketId, now: Time) {
        let packet = &self.arena.packet(id)[vnet::LEN..];
        let size = packet.len() as u32;
        let entered = &mut self.transits[transit];
        let class = entered.class(self.arena.tag(id));
        let flow = match entered.pipe.tells_flows_apart() {
            true => classifier::flow(packet),
            false => 0,
        };
        let offer = Offer {
            class,
            flow,
            ecn: ip::codepoint(packet),
            ..Offer::of(size)
        };
        let outcome = entered.pipe.arrive(now, offer, id);
        self.settle(transit, id, now, outcome);
        self.arm(transit);
    }

    /// Carries out what a pipe decided at `now` about a packet.
    fn settle(&mut self, transit: usize, id: PacketId, now: Time, outcome: Arrival) {
        if let Arrival::Leaves(_, Ecn::Ce) | Arrival::Duplicated(.., Ecn::Ce) = outcome {
            ip::mark(&mut self.arena.slot(id)[vnet::LEN..]);
        }
        let departures = &mut self.transits[transit].departures;
        match outcome {
            Arrival::Leaves(time, _) if time < Time::MAX => departures.push(time, id),
            Arrival::Duplicated(first, second, _) if second < Time::MAX => {
                departures.push(first, id);
                match self.arena.copy(id) {
                    Some(copy) => departures.push(second, copy),
                    None => self.mishaps.no_memory += 1,
                }
            }
            Arrival::Held => {}
            Arrival::Leaves(..) | Arrival::Duplicated(..) => self.arena.put(id),
            Arrival::Lost(cause) => {
                if let Some(recorder) = &mut self.transits[transit].recorder {
                    recorder.lost(now, &self.arena.packet(id)[vnet::LEN..], cause);
                }
                if let Some(flow) = self.arena.tag(id).carries_data_of() {
                    self.flows[flow].lost += 1;
                }
                self.arena.put(id);
            }
        }
    }

    #[inline]
    fn arm(&mut self, transit: usize) {
        let Transit { armed, .. } = self.transits[transit];
        let Some(next) = self.transits[transit].next() else {
            return;
        };
        if armed.is_none_or(|armed| next < armed) {
            self.transits[transit].armed = Some(next);
            self.agenda.push(Reverse((next, transit)));
        }
    }

    /// Does everything due by `now`, in the order of logical time.
    #[inline]
    fn advance(&mut self, now: Time) {
        while let Some(&Reverse((time, transit))) = self.agenda.peek()
            && time <= now
        {
            self.pass_milestones(time);
            self.agenda.pop();
            if self.transits[transit].armed == Some(time) {
                self.transits[transit].armed = None;
                self.work(transit, time);
                self.arm(transit);
            }
        }
        self.pass_milestones(now);
        self.delivery.flush(&mut self.arena, self.ring.as_mut());
    }

    /// Processes the milestones before `time`.
    #[inline]
    fn pass_milestones(&mut self, time: Time) {
        while self.milestones.next() < time {
            self.pass_milestone();
        }
    }

    #[cold]
    fn pass_milestone(&mut self) {
        let milestone = self.milestones.take();
        if milestone.warmup_ends {
            self.flows.fill(FlowCounts::default());
            for transit in &mut self.transits {
                transit.pipe.reset_statistics(milestone.time);
            }
        }
        if milestone.sample {
            for transit in &mut self.transits {
                self.milestones.send_sample(transit.sample(milestone.time));
            }
        }
        if milestone.ends {
            self.totals = Some(self.count(milestone.time));
        }
    }

    /// The totals up to `end`.
    fn count(&mut self, end: Time) -> Totals {
        let pipes = self.transits.iter_mut();
        let pipes = pipes.map(|transit| transit.pipe.statistics(end));
        (pipes.collect(), self.flows.clone())
    }

    /// Processes a pipe's events at `time`.
    fn work(&mut self, transit: usize, time: Time) {
        while let Some(departure) = self.transits[transit].pipe.depart(time) {
            self.settle(transit, departure.packet, departure.time, departure.outcome);
        }
        if self.transits[transit].departures.next() == Some(time)
            && let Some((time, id)) = self.transits[transit].departures.pop()
        {
            self.arrive(transit, id, time);
        }
    }

    /// Handles a packet that arrived at the far end of a pipe.
    fn arrive(&mut self, transit: usize, id: PacketId, time: Time) {
        if let Some(recorder) = &mut self.transits[transit].recorder {
            recorder.reached(time, &self.arena.packet(id)[vnet::LEN..]);
        }
        let node = self.transits[transit].to;
        let host = self.destination(id);
        if !self.delivery.ends_at(node, host) {
            return self.send_on(node, id, time);
        }
        if let Some(flow) = self.arena.tag(id).flow() {
            let packet = &self.arena.packet(id)[vnet::LEN..];
            self.flows[flow].datagram_bytes += datagram_payload(packet);
        }
        let departures = &mut self.transits[transit].departures;
        let with = (&mut self.arena, self.ring.as_mut());
        self.delivery.take(node, (id, time), departures, with);
    }

    fn report(mut self) -> Report {
        let now = self.clock.now();
        self.advance(now);
        let totals = self.totals.take();
        let (counted, flows) = totals.unwrap_or_else(|| self.count(now));
        let mut captures = Vec::new();
        let mut pipes = Vec::new();
        for (transit, statistics) in self.transits.into_iter().zip(counted) {
            let Transit {
                index,
                name,
                recorder,
                ..
            } = transit;
            pipes.push((index, NamedPipe { name, statistics }));
            captures.extend(recorder.map(|recorder| (index, recorder.finish(now))));
        }
        Report {
            pipes,
            flows,
            captures,
            samples_lost: self.milestones.lost(),
            lateness: self.delivery.lateness,
            mishaps: LabLosses {
                undelivered: self.delivery.undelivered,
                ..self.mishaps
            },
        }
    }
}

/// The seed of a pipe's random numbers.
fn stream(seed: u64, pipe: usize) -> u64 {
    // Multiples of the golden ratio: no two pipes of a run have the same seed.
    seed.wrapping_add((pipe as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
