//! One thread of the emulator: reads packets from hosts, moves them from pipe to pipe, writes them to
//! hosts when their time has come.
//!
//! Every packet has a logical time, at which it is where it is: that of its reading, and from then
//! on what the pipes answer. A packet that is handled late is late for its host; the pipes behind do
//! not see it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::{self, IoSlice, PipeReader};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::Arc;

use fairwind_path::pipe::{Arrival, Pipe};
use fairwind_path::units::{Duration, Time};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::arena::{Arena, PacketId};
use crate::clock::Clock;
use crate::departures::Departures;
use crate::lateness::Lateness;
use crate::merge::{self, Run};
use crate::network::{Network, Routes};
use crate::segment::Segments;
use crate::statistics::{Mishaps, NamedPipe};
use crate::tun::{Offload, Tun};
use crate::vnet::{self, Header};

/// The largest packet that a device hands over.
const LARGEST: usize = vnet::LEN + 65_536;
/// Packets of up to so many IP bytes fit a slot.
const SLOT: usize = 2048 - vnet::LEN;
/// Memory for packets in flight; a gigabit per second for four seconds.
const ARENA_BYTES: usize = 512 << 20;
/// Packets read from one host before the others get their turn.
const BATCH: usize = 32;
/// Timers wake a sleeper late; so much time before a departure is spent awake. It is time that the
/// hosts on this machine do not get.
const AWAKE: Duration = Duration::from_micros(25);
/// Where there is something to do all the time, a thread looks only so often, as a network card
/// under load interrupts only so often: going to sleep and waking up costs more than a packet.
const MODERATION: Duration = Duration::from_micros(20);

/// Who works so long without a pause makes one of this length. It is the share that the kernel sees to
/// it that others get; left to it, it is taken once a second, at one go.
const BUSY: Duration = Duration::from_millis(4);
const BREATH: Duration = Duration::from_micros(220);

/// A part of a network.
pub struct Worker {
    clock: Clock,
    /// When it last had nothing to do.
    paused: Time,
    /// The departure that it waited for then.
    awaited: Option<Time>,
    arena: Arena,
    large: Box<[u8]>,
    routes: Arc<Routes>,
    inputs: Vec<Input>,
    outputs: HashMap<usize, Output>,
    transits: Vec<Transit>,
    /// By the pipe's index in the network.
    local: Vec<usize>,
    /// When the transits have something to do; an entry that is not `armed` any more means nothing.
    agenda: BinaryHeap<Reverse<(Time, usize)>>,
    last_destination: (Ipv4Addr, usize),
    lateness: Lateness,
    mishaps: Mishaps,
}

/// What a part of the network did.
#[derive(Debug)]
pub struct Report {
    /// With their index in the network.
    pub pipes: Vec<(usize, NamedPipe)>,
    pub lateness: Lateness,
    pub mishaps: Mishaps,
}

/// A host that sends into this part.
struct Input {
    node: usize,
    tun: Arc<Tun>,
}

/// A host that receives from this part.
struct Output {
    tun: Arc<Tun>,
    /// Its number in the routes.
    host: usize,
    /// Takes segments that follow each other as one packet.
    merges: bool,
}

/// A pipe and the packets behind its transmitter.
struct Transit {
    index: usize,
    name: String,
    pipe: Pipe<PacketId>,
    departures: Departures,
    to: usize,
    armed: Option<Time>,
}

impl Transit {
    fn next(&self) -> Option<Time> {
        let pair = (self.departures.next(), self.pipe.next_departure());
        match pair {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

impl Worker {
    pub fn new(
        network: &Network,
        part: &[usize],
        routes: Arc<Routes>,
        tuns: &HashMap<usize, Arc<Tun>>,
        clock: Clock,
        seed: u64,
    ) -> Worker {
        let mut local = vec![usize::MAX; network.pipes().len()];
        let mut transits = Vec::new();
        let mut inputs: Vec<Input> = Vec::new();
        let mut outputs = HashMap::new();
        let number = |node| network.hosts().position(|(host, _)| host == node);
        for &index in part {
            let plan = &network.pipes()[index];
            local[index] = transits.len();
            let pipe = Pipe::new(&plan.config, stream(seed, index));
            transits.push(Transit {
                index,
                name: plan.name.clone(),
                departures: Departures::new(pipe.keeps_order()),
                pipe,
                to: plan.to,
                armed: None,
            });
            if let Some(tun) = tuns.get(&plan.from)
                && inputs.iter().all(|input| input.node != plan.from)
            {
                inputs.push(Input {
                    node: plan.from,
                    tun: Arc::clone(tun),
                });
            }
            if let (Some(tun), Some(host)) = (tuns.get(&plan.to), number(plan.to)) {
                let output = Output {
                    tun: Arc::clone(tun),
                    host,
                    merges: tun.offload() == Offload::Both,
                };
                outputs.insert(plan.to, output);
            }
        }
        Worker {
            clock,
            paused: Time::ZERO,
            awaited: None,
            arena: Arena::new(vnet::LEN + SLOT, ARENA_BYTES),
            large: vec![0; LARGEST].into_boxed_slice(),
            routes,
            inputs,
            outputs,
            transits,
            local,
            agenda: BinaryHeap::new(),
            last_destination: (Ipv4Addr::UNSPECIFIED, usize::MAX),
            lateness: Lateness::default(),
            mishaps: Mishaps::default(),
        }
    }

    /// Works until the other end of `stopped` is closed.
    pub fn run(mut self, stopped: PipeReader) -> Report {
        // Without it the kernel may let timers of this thread wait 50 us for others.
        let _ = nix::sys::prctl::set_timerslack(1);
        ahead_of_hosts();
        let mut woken = self.clock.now();
        loop {
            let read = self.read_all();
            let now = self.clock.now();
            self.advance(now);
            let stop = match read {
                _ if now - woken > BUSY => self.wait(&stopped, 0, Some(BREATH)),
                true => continue,
                false => self.pause(&stopped),
            };
            if stop {
                return self.report();
            }
            woken = self.clock.now();
        }
    }

    /// Lets time pass, or not, until there is something to do. True if the work is to end.
    fn pause(&mut self, stopped: &PipeReader) -> bool {
        let now = self.clock.now();
        let next = self.agenda.peek().map(|&Reverse((time, _))| time);
        let rest = next.map(|time| time - now);
        let same = next.is_some() && next == self.awaited;
        self.awaited = next;
        if same && rest < Some(AWAKE) {
            return false;
        }
        let often = !same && now - self.paused < MODERATION * 2;
        self.paused = now;
        if often {
            return self.wait(stopped, 0, Some(MODERATION));
        }
        // Who sleeps long wakes late: the last part of the time is slept by itself.
        let asleep = rest.map(|rest| rest - rest / 5);
        self.wait(stopped, self.inputs.len(), asleep)
    }

    /// Sleeps until one of the first `inputs` hosts has sent something or the time is over. True if
    /// the work is to end.
    fn wait(&self, stopped: &PipeReader, inputs: usize, time: Option<Duration>) -> bool {
        let mut fds = Vec::with_capacity(1 + inputs);
        fds.push(PollFd::new(stopped.as_fd(), PollFlags::POLLIN));
        for input in &self.inputs[..inputs] {
            fds.push(PollFd::new(input.tun.as_fd(), PollFlags::POLLIN));
        }
        let time = time.map(|time| {
            let nanos = time.as_nanos();
            TimeSpec::new(
                (nanos / 1_000_000_000) as i64,
                (nanos % 1_000_000_000) as i64,
            )
        });
        // A signal only wakes early, which the caller takes for a wake-up like any other.
        let _ = ppoll(&mut fds, time, None);
        fds[0].any() == Some(true)
    }

    /// Reads what hosts have sent, not too much at once. True if there was anything.
    fn read_all(&mut self) -> bool {
        let mut any = false;
        for input in 0..self.inputs.len() {
            for _ in 0..BATCH {
                if !self.read(input) {
                    break;
                }
                any = true;
            }
        }
        any
    }

    /// Reads one packet. False if there is none.
    fn read(&mut self, input: usize) -> bool {
        let Input { node, ref tun } = self.inputs[input];
        let Some(id) = self.arena.take() else {
            // The host must not wait for memory: what it sends now is lost.
            let read = tun.read(&mut self.large, &mut []);
            self.mishaps.no_memory += 1;
            return matches!(read, Ok(Some(_)));
        };
        let slot = self.arena.slot(id);
        let room = slot.len();
        let len = match tun.read(slot, &mut self.large[room..]) {
            Ok(Some(len)) if len > vnet::LEN + 20 => len,
            Ok(None) | Err(_) => {
                self.arena.put(id);
                return false;
            }
            Ok(Some(_)) => {
                self.mishaps.unroutable += 1;
                self.arena.put(id);
                return true;
            }
        };
        let now = self.clock.now();
        self.advance(now);
        let header = Header::read(self.arena.slot(id));
        if !header.is_segmented() && len <= room {
            self.arena.set_len(id, len);
            self.send(node, id, now);
            return true;
        }
        let first = len.min(room);
        self.large[..first].copy_from_slice(&self.arena.slot(id)[..first]);
        self.arena.put(id);
        self.send_segments(node, header, len, now);
        true
    }

    /// Sends what the device was to cut into segments.
    fn send_segments(&mut self, node: usize, header: Header, len: usize, now: Time) {
        let large = std::mem::take(&mut self.large);
        match Segments::new(header, &large[vnet::LEN..len]) {
            None => self.mishaps.unroutable += 1,
            Some(mut segments) => {
                while let Some(len) = segments.next_len() {
                    let Some(id) = self.arena.take() else {
                        self.mishaps.no_memory += 1;
                        break;
                    };
                    if len > vnet::LEN + SLOT {
                        self.mishaps.unroutable += 1;
                        self.arena.put(id);
                        break;
                    }
                    segments.write_next(&mut self.arena.slot(id)[..len]);
                    self.arena.set_len(id, len);
                    self.send(node, id, now);
                }
            }
        }
        self.large = large;
    }

    /// Sends a packet on from `node` to where it is to go.
    #[inline]
    fn send(&mut self, node: usize, id: PacketId, now: Time) {
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

    /// The number of the host that a packet is for.
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
        let size = (self.arena.packet(id).len() - vnet::LEN) as u32;
        let outcome = self.transits[transit].pipe.arrive(now, size, 0, id);
        self.settle(transit, id, outcome);
        self.arm(transit);
    }

    fn settle(&mut self, transit: usize, id: PacketId, outcome: Arrival) {
        let departures = &mut self.transits[transit].departures;
        match outcome {
            Arrival::Leaves(time) if time < Time::MAX => departures.push(time, id),
            Arrival::Duplicated(first, second) if second < Time::MAX => {
                departures.push(first, id);
                match self.arena.copy(id) {
                    Some(copy) => departures.push(second, copy),
                    None => self.mishaps.no_memory += 1,
                }
            }
            Arrival::Held => {}
            Arrival::Leaves(_) | Arrival::Duplicated(..) | Arrival::Lost(_) => self.arena.put(id),
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

    /// Does what is due at `now`, in the order of logical time.
    #[inline]
    fn advance(&mut self, now: Time) {
        while let Some(&Reverse((time, transit))) = self.agenda.peek()
            && time <= now
        {
            self.agenda.pop();
            if self.transits[transit].armed == Some(time) {
                self.transits[transit].armed = None;
                self.work(transit, time);
                self.arm(transit);
            }
        }
    }

    /// Lets a pipe do what it has to do at `time`.
    fn work(&mut self, transit: usize, time: Time) {
        while let Some(departure) = self.transits[transit].pipe.depart(time) {
            self.settle(transit, departure.packet, departure.outcome);
        }
        if self.transits[transit].departures.next() == Some(time)
            && let Some((time, id)) = self.transits[transit].departures.pop()
        {
            self.reach(transit, id, time);
        }
    }

    /// A packet is at the far end of a pipe.
    fn reach(&mut self, transit: usize, id: PacketId, time: Time) {
        let node = self.transits[transit].to;
        let host = self.destination(id);
        let Some(output) = self.outputs.get(&node).filter(|o| Some(o.host) == host) else {
            return self.send(node, id, time);
        };
        let now = self.clock.now();
        debug_assert!(now >= time);
        let tun = Arc::clone(&output.tun);
        if output.merges && self.merge(&tun, transit, id, time, now) {
            return;
        }
        self.hand_over(&[id], now - time, tun.write(self.arena.packet(id)));
    }

    /// Hands over the packet and those that follow it and are due, as one. False if none does.
    fn merge(&mut self, tun: &Tun, transit: usize, first: PacketId, time: Time, now: Time) -> bool {
        let Some(mut run) = Run::new(self.arena.packet(first)) else {
            return false;
        };
        let departures = &mut self.transits[transit].departures;
        let mut ids = [first; merge::MOST];
        let mut count = 1;
        while count < merge::MOST
            && let Some((due, next)) = departures.peek()
            && due <= now
            && run.extend(self.arena.packet(first), self.arena.packet(next))
        {
            departures.pop();
            ids[count] = next;
            count += 1;
        }
        if count == 1 {
            return false;
        }
        run.make_head(self.arena.slot(first));
        let packet = |n: usize| IoSlice::new(&self.arena.packet(ids[n])[run.payload()..]);
        let mut parts = [IoSlice::new(&[]); merge::MOST];
        parts[0] = IoSlice::new(self.arena.packet(first));
        for (n, part) in parts.iter_mut().enumerate().take(count).skip(1) {
            *part = packet(n);
        }
        let written = tun.write_parts(&parts[..count]);
        // The first has waited longest; the others are told to be as late.
        self.hand_over(&ids[..count], now - time, written);
        true
    }

    /// Counts what was handed over, or not, and gives its memory back.
    fn hand_over(&mut self, ids: &[PacketId], late: Duration, written: io::Result<()>) {
        for &id in ids {
            match written {
                Ok(()) => self.lateness.add(late),
                Err(_) => self.mishaps.undelivered += 1,
            }
            self.arena.put(id);
        }
    }

    fn report(mut self) -> Report {
        let now = self.clock.now();
        self.advance(now);
        let pipes = self.transits.iter_mut().map(|transit| {
            let statistics = transit.pipe.statistics(now);
            let name = std::mem::take(&mut transit.name);
            (transit.index, NamedPipe { name, statistics })
        });
        Report {
            pipes: pipes.collect(),
            lateness: self.lateness,
            mishaps: self.mishaps,
        }
    }
}

/// Lets the calling thread run before the hosts' programs and everybody else's: a network does not
/// wait for them. What it leaves of the processors is theirs, and the kernel sees to it that it is
/// never nothing.
fn ahead_of_hosts() {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is the calling thread, and the parameters outlive the call.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &lowest) } != 0 {
        // Without the privilege packets are merely later.
        // SAFETY: the call takes numbers only.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
    }
}

/// The seed of a pipe's own random numbers.
fn stream(seed: u64, pipe: usize) -> u64 {
    // Steps of the golden ratio: no two pipes of one run have the same.
    seed.wrapping_add((pipe as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
