//! Memory for the packets in flight: slots of one size, taken and returned without allocation.

use super::classifier::Tag;

/// Identifies a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PacketId(u32);

/// Slots allocated at a time.
const CHUNK: usize = 256;

/// Grows when more packets are in flight than ever before, up to its limit.
pub(super) struct Arena {
    slot: usize,
    limit: usize,
    chunks: Vec<Box<[u8]>>,
    lengths: Vec<u32>,
    tags: Vec<Tag>,
    free: Vec<PacketId>,
}

impl Arena {
    /// An arena of packets of up to `slot` bytes that takes at most `limit_bytes`, or one chunk if
    /// that is more.
    pub(super) fn new(slot: usize, limit_bytes: usize) -> Arena {
        Arena {
            slot,
            limit: (limit_bytes / (slot * CHUNK)).max(1),
            chunks: Vec::new(),
            lengths: Vec::new(),
            tags: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Takes a slot of undefined content; `None` if the limit is reached.
    #[inline]
    pub(super) fn take(&mut self) -> Option<PacketId> {
        if let Some(id) = self.free.pop() {
            return Some(id);
        }
        self.grow();
        self.free.pop()
    }

    #[cold]
    fn grow(&mut self) {
        if self.chunks.len() == self.limit {
            return;
        }
        let first = self.lengths.len();
        self.chunks
            .push(vec![0; self.slot * CHUNK].into_boxed_slice());
        self.lengths.resize(first + CHUNK, 0);
        self.tags.resize(first + CHUNK, Tag::NONE);
        self.free
            .extend((first..first + CHUNK).rev().map(|n| PacketId(n as u32)));
    }

    /// Returns a slot.
    #[inline]
    pub(super) fn put(&mut self, id: PacketId) {
        self.free.push(id);
    }

    /// The whole slot.
    #[inline]
    pub(super) fn slot(&mut self, id: PacketId) -> &mut [u8] {
        let at = id.0 as usize % CHUNK * self.slot;
        &mut self.chunks[id.0 as usize / CHUNK][at..at + self.slot]
    }

    /// Sets the length of the packet in the slot.
    #[inline]
    pub(super) fn set_len(&mut self, id: PacketId, len: usize) {
        debug_assert!(len <= self.slot);
        self.lengths[id.0 as usize] = len as u32;
    }

    /// The packet.
    #[inline]
    pub(super) fn packet(&self, id: PacketId) -> &[u8] {
        let at = id.0 as usize % CHUNK * self.slot;
        let len = self.lengths[id.0 as usize] as usize;
        &self.chunks[id.0 as usize / CHUNK][at..at + len]
    }

    /// The first `len` bytes of the slot: the packet, followed by undefined bytes.
    #[inline]
    pub(super) fn filled(&self, id: PacketId, len: usize) -> &[u8] {
        let at = id.0 as usize % CHUNK * self.slot;
        &self.chunks[id.0 as usize / CHUNK][at..at + len]
    }

    /// Sets the flow that the packet belongs to.
    #[inline]
    pub(super) fn set_tag(&mut self, id: PacketId, tag: Tag) {
        self.tags[id.0 as usize] = tag;
    }

    /// The flow that the packet belongs to: what was last set for its slot.
    #[inline]
    pub(super) fn tag(&self, id: PacketId) -> Tag {
        self.tags[id.0 as usize]
    }

    /// Copies a packet; `None` if the limit is reached.
    pub(super) fn copy(&mut self, id: PacketId) -> Option<PacketId> {
        let copy = self.take()?;
        let packet = self.packet(id).to_vec();
        self.slot(copy)[..packet.len()].copy_from_slice(&packet);
        self.set_len(copy, packet.len());
        self.set_tag(copy, self.tag(id));
        Some(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_given_back_is_taken_again() {
        let mut arena = Arena::new(64, 64 * CHUNK);
        let ids: Vec<PacketId> = (0..CHUNK).map(|_| arena.take().unwrap()).collect();
        assert_eq!(arena.take(), None);
        arena.put(ids[7]);
        assert_eq!(arena.take(), Some(ids[7]));
    }

    #[test]
    fn packets_do_not_touch_each_other() {
        let mut arena = Arena::new(4, 1 << 20);
        let ids: Vec<PacketId> = (0..CHUNK * 2).map(|_| arena.take().unwrap()).collect();
        for (n, &id) in ids.iter().enumerate() {
            arena.slot(id).fill(n as u8);
            arena.set_len(id, 1 + n % 4);
        }
        for (n, &id) in ids.iter().enumerate() {
            assert_eq!(arena.packet(id), vec![n as u8; 1 + n % 4]);
        }
    }

    #[test]
    fn a_copy_is_a_packet_of_its_own() {
        let mut arena = Arena::new(4, 1 << 20);
        let original = arena.take().unwrap();
        arena.slot(original)[..3].copy_from_slice(b"abc");
        arena.set_len(original, 3);
        let copy = arena.copy(original).unwrap();
        arena.slot(original).fill(0);
        assert_eq!(arena.packet(copy), b"abc");
    }
}
