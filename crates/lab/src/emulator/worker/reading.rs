//! Reads what the hosts have sent: from memory shared with the kernel or, where that is not available, from
//! their devices.

use fairwind_path::units::Time;

use super::{Input, Worker};
use crate::emulator::arena::PacketId;
use crate::emulator::segment::Segments;
use crate::host::tap::MAX_BATCH;
use crate::host::tap::uplink::Reader;
use crate::host::tap::vnet::{self, Header};

/// Packets of at most this many bytes, the length of an IPv4 header, are discarded.
const IPV4_HEADER: usize = 20;

impl Worker {
    /// Reads a limited number of packets from each host. True if there was any.
    pub(crate) fn read_all(&mut self) -> bool {
        let mut any = false;
        for input in 0..self.inputs.len() {
            any |= match self.inputs[input].reader.take() {
                Some(mut reader) => {
                    let found = self.read_uplink(self.inputs[input].node, &mut reader);
                    self.inputs[input].reader = Some(reader);
                    found
                }
                None => self.read_device(input),
            };
        }
        any
    }

    /// Reads from the rings shared with the kernel.
    fn read_uplink(&mut self, node: usize, reader: &mut Reader) -> bool {
        let batch = reader.batch();
        if batch.is_empty() {
            return false;
        }
        let now = self.clock.now();
        self.advance(now);
        for sent in batch.packets() {
            let header = Header::of(sent.bytes, sent.gso_size);
            if header.is_segmented() {
                self.send_segments(node, header, sent.bytes, now)
            } else {
                self.send_copy(node, header, sent.bytes, now)
            }
        }
        true
    }

    /// Sends a copy of a packet, which cannot stay in the ring.
    #[inline]
    fn send_copy(&mut self, node: usize, header: Header, packet: &[u8], now: Time) {
        let Some(id) = self.arena.take() else {
            self.mishaps.no_memory += 1;
            return;
        };
        let len = vnet::LEN + packet.len();
        let slot = self.arena.slot(id);
        if packet.len() <= IPV4_HEADER || len > slot.len() {
            self.mishaps.unroutable += 1;
            self.arena.put(id);
            return;
        }
        header.write(slot);
        slot[vnet::LEN..len].copy_from_slice(packet);
        self.arena.set_len(id, len);
        self.send(node, id, now);
    }

    fn read_device(&mut self, input: usize) -> bool {
        // A packet of a device that segments is as much work as many of another.
        if self.ring.is_some() && !self.inputs[input].tap.may_return_unsegmented() {
            self.read_together(input)
        } else {
            self.read_each(input)
        }
    }

    fn read_each(&mut self, input: usize) -> bool {
        let mut read = 0;
        while read < MAX_BATCH && self.read(input) {
            read += 1;
        }
        read > 0
    }

    /// Reads as many packets as expected, and adjusts the expectation: after a full read to twice as many.
    fn read_together(&mut self, input: usize) -> bool {
        let Input { node, expected, .. } = self.inputs[input];
        let mut slots = [PacketId::default(); MAX_BATCH];
        let mut asked = 0;
        while asked < expected
            && let Some(id) = self.arena.take()
        {
            slots[asked] = id;
            asked += 1;
        }
        let slots = &slots[..asked];
        let Some(ring) = self.ring.as_mut().filter(|_| asked > 0) else {
            return self.read(input);
        };
        let lengths = ring.read(input, &mut self.arena, slots);
        let now = self.clock.now();
        self.advance(now);
        let mut read = 0;
        for (&id, &len) in slots.iter().zip(&lengths) {
            if len > 0 {
                read += 1;
                self.receive(node, id, len as usize, now);
            } else {
                self.arena.put(id);
            }
        }
        self.inputs[input].expected = if read == asked {
            (2 * read).min(MAX_BATCH)
        } else {
            read + 1
        };
        read > 0
    }

    /// Reads one packet. False if there is none.
    fn read(&mut self, input: usize) -> bool {
        let Input { node, ref tap, .. } = self.inputs[input];
        let Some(id) = self.arena.take() else {
            // The host must not block on the emulator's memory: what it sends now is lost.
            let read = tap.read(&mut self.large, &mut []);
            self.mishaps.no_memory += 1;
            return matches!(read, Ok(Some(_)));
        };
        let slot = self.arena.slot(id);
        let room = slot.len();
        let Ok(Some(len)) = tap.read(slot, &mut self.large[room..]) else {
            self.arena.put(id);
            return false;
        };
        let now = self.clock.now();
        self.advance(now);
        self.receive(node, id, len, now);
        true
    }

    /// Handles `len` bytes read at `node`, in the slot and, where they did not fit, in `large`: a packet, or
    /// one to be cut into segments.
    #[inline]
    fn receive(&mut self, node: usize, id: PacketId, len: usize, now: Time) {
        let slot = self.arena.slot(id);
        let room = slot.len();
        if len <= vnet::LEN + IPV4_HEADER {
            self.mishaps.unroutable += 1;
            self.arena.put(id);
            return;
        }
        let header = Header::read(slot);
        if !header.is_segmented() && len <= room {
            self.arena.set_len(id, len);
            return self.send(node, id, now);
        }
        let first = len.min(room);
        self.large[..first].copy_from_slice(&slot[..first]);
        self.arena.put(id);
        let large = std::mem::take(&mut self.large);
        self.send_segments(node, header, &large[vnet::LEN..len], now);
        self.large = large;
    }

    /// Sends the segments of a packet that the device was to segment.
    fn send_segments(&mut self, node: usize, header: Header, packet: &[u8], now: Time) {
        match Segments::new(header, packet) {
            None => self.mishaps.unroutable += 1,
            Some(mut segments) => {
                while let Some(len) = segments.next_len() {
                    let Some(id) = self.arena.take() else {
                        self.mishaps.no_memory += 1;
                        break;
                    };
                    if len > self.arena.slot(id).len() {
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
    }
}
