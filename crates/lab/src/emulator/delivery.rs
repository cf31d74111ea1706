//! Delivers packets to their destination hosts, and counts how late.

use std::io::IoSlice;
use std::sync::Arc;

use fairwind_path::units::{Duration, Time};

use super::arena::{Arena, PacketId};
use super::departures::Departures;
use super::lateness::Lateness;
use super::merge::{self, Run};
use super::ring::Ring;
use crate::clock::Clock;
use crate::host::tap::{MAX_BATCH, Offload, Tap, vnet};

/// The outputs of a part of the network.
pub(super) struct Delivery {
    clock: Clock,
    /// By node; `None` where no packet leaves the network.
    outputs: Vec<Option<Output>>,
    /// Packets to be written to their hosts' devices, in order.
    due: Vec<Due>,
    pub lateness: Lateness,
    /// Packets that hosts' devices refused.
    pub undelivered: u64,
}

/// A host that receives from this part.
struct Output {
    tap: Arc<Tap>,
    /// The host's number in the routes.
    host: usize,
    /// Position of its device in the ring.
    device: usize,
    /// Whether it takes consecutive segments as one packet.
    merges: bool,
}

struct Due {
    node: usize,
    id: PacketId,
    time: Time,
}

impl Delivery {
    pub(super) fn new(clock: Clock) -> Delivery {
        Delivery {
            clock,
            outputs: Vec::new(),
            due: Vec::with_capacity(MAX_BATCH),
            lateness: Lateness::default(),
            undelivered: 0,
        }
    }

    /// Adds the host with number `host` in the routes, at `node`; `device` is the position of its
    /// device in the ring.
    pub(super) fn add(&mut self, node: usize, host: usize, device: usize, tap: &Arc<Tap>) {
        let output = Output {
            tap: Arc::clone(tap),
            host,
            device,
            merges: tap.offload() == Offload::Both,
        };
        if self.outputs.len() <= node {
            self.outputs.resize_with(node + 1, || None);
        }
        self.outputs[node] = Some(output);
    }

    /// True if packets for this host end at this node.
    #[inline]
    pub(super) fn ends_at(&self, node: usize, host: Option<usize>) -> bool {
        let output = self.outputs.get(node).and_then(Option::as_ref);
        output.is_some_and(|output| Some(output.host) == host)
    }

    /// Takes a packet that reached its host's node at `time`. Those that follow it in `departures`
    /// may be merged into it.
    #[inline]
    pub(super) fn take(
        &mut self,
        node: usize,
        (id, time): (PacketId, Time),
        departures: &mut Departures,
        (arena, ring): (&mut Arena, Option<&mut Ring>),
    ) {
        let merges = output(&self.outputs, node).merges;
        if merges && self.merge(node, (id, time), departures, arena) {
            return;
        }
        self.due.push(Due { node, id, time });
        if self.due.len() == MAX_BATCH {
            self.flush(arena, ring);
        }
    }

    /// Writes the packets that are due.
    #[inline]
    pub(super) fn flush(&mut self, arena: &mut Arena, ring: Option<&mut Ring>) {
        match ring {
            _ if self.due.is_empty() => {}
            Some(ring) => self.write_together(arena, ring),
            None => self.write_each(arena),
        }
    }

    fn write_together(&mut self, arena: &mut Arena, ring: &mut Ring) {
        let start = self.clock.now();
        let frames = self.due.iter().map(|due| {
            let device = output(&self.outputs, due.node).device;
            (device, frame(arena, due.id))
        });
        let results = ring.write(frames);
        // They are written in sequence, each taking about the same time.
        let each = match self.due.len() {
            1 => Duration::ZERO,
            several => (self.clock.now() - start) / several as u64,
        };
        let mut now = start;
        for (due, result) in self.due.drain(..).zip(results) {
            debug_assert!(start >= due.time);
            if result >= 0 {
                self.lateness.add(now - due.time);
            } else {
                self.undelivered += 1;
            }
            arena.put(due.id);
            now += each;
        }
    }

    fn write_each(&mut self, arena: &mut Arena) {
        for Due { node, id, time } in self.due.drain(..) {
            let now = self.clock.now();
            debug_assert!(now >= time);
            match output(&self.outputs, node).tap.write(frame(arena, id)) {
                Ok(()) => self.lateness.add(now - time),
                Err(_) => self.undelivered += 1,
            }
            arena.put(id);
        }
    }

    /// Writes the packet and those due that continue it as one packet. False if none continues it.
    fn merge(
        &mut self,
        node: usize,
        (first, time): (PacketId, Time),
        departures: &mut Departures,
        arena: &mut Arena,
    ) -> bool {
        let Some(mut run) = Run::new(arena.packet(first)) else {
            return false;
        };
        let now = self.clock.now();
        let mut ids = [first; merge::MAX_SEGMENTS];
        let mut count = 1;
        while count < merge::MAX_SEGMENTS
            && let Some((due, next)) = departures.peek()
            && due <= now
            && run.extend(arena.packet(first), arena.packet(next))
        {
            departures.pop();
            ids[count] = next;
            count += 1;
        }
        if count == 1 {
            return false;
        }
        // Earlier packets must not be overtaken.
        self.write_each(arena);
        run.make_head(arena.slot(first));
        let mut parts = [IoSlice::new(&[]); merge::MAX_SEGMENTS];
        parts[0] = IoSlice::new(arena.packet(first));
        for (part, &id) in parts.iter_mut().zip(&ids[..count]).skip(1) {
            *part = IoSlice::new(&arena.packet(id)[run.payload()..]);
        }
        let written = output(&self.outputs, node).tap.write_parts(&parts[..count]);
        // The first has waited longest; the others are counted as equally late.
        for &id in &ids[..count] {
            match written {
                Ok(()) => self.lateness.add(now - time),
                Err(_) => self.undelivered += 1,
            }
            arena.put(id);
        }
        true
    }
}

/// The bytes to write for a packet, including padding.
#[inline]
fn frame(arena: &Arena, id: PacketId) -> &[u8] {
    arena.filled(id, vnet::padded(arena.packet(id).len()))
}

/// The output at a node where packets leave the network.
#[inline]
fn output(outputs: &[Option<Output>], node: usize) -> &Output {
    outputs[node]
        .as_ref()
        .expect("packets are handed over at hosts only")
}
