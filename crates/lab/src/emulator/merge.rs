//! Merges consecutive segments into one packet, as cards and drivers do with what arrives together
//! (GRO). The receiving kernel treats it like a packet that it has merged itself.
//!
//! | original | here |
//! |---|---|
//! | Linux merges what one poll of the card finds | what is due when the emulator looks |
//! | merges until PSH or a flow's end | the same; up to 44 segments, as many full-size ones as fit into 64 kB |

use crate::host::tap::vnet::{self, Header};
use crate::host::tap::words::{add, put, word};

/// Most segments in one packet.
pub(super) const MAX_SEGMENTS: usize = 44;

const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
const IP: usize = vnet::LEN;

/// Consecutive segments of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Offsets of the TCP header and of the payload in each segment.
    tcp: usize,
    payload: usize,
    /// Payload bytes of each segment but the last.
    size: usize,
    total: usize,
    next_seq: u32,
    open: bool,
}

impl Run {
    /// A run of one segment, if the packet after its [`vnet`] headers is a plain IPv4 TCP segment
    /// whose checksum is still to be computed.
    pub(super) fn new(packet: &[u8]) -> Option<Run> {
        let header = Header::read(packet);
        let tcp = IP + 20;
        let plain = header.flags == vnet::NEEDS_CSUM
            && header.csum_start == 20
            && packet.len() > tcp + 20
            && packet[IP] == 0x45
            && packet[IP + 9] == 6;
        if !plain || packet[tcp + 13] & !PSH != ACK {
            return None;
        }
        let payload = tcp + usize::from(packet[tcp + 12] >> 4) * 4;
        let size = packet.len().checked_sub(payload).filter(|&size| size > 0)?;
        Some(Run {
            tcp,
            payload,
            size,
            total: size,
            next_seq: seq(packet, tcp).wrapping_add(size as u32),
            open: packet[tcp + 13] & PSH == 0,
        })
    }

    /// Appends `next` if it continues the run, whose first segment is `first`.
    pub(super) fn extend(&mut self, first: &[u8], next: &[u8]) -> bool {
        let Some(run) = Run::new(next).filter(|_| self.open) else {
            return false;
        };
        let (tcp, payload) = (self.tcp, self.payload);
        let fits = run.payload == payload && run.size <= self.size;
        // These may differ: length, id and checksum of IP; sequence number, PSH and checksum of
        // TCP.
        let same = fits
            && next[IP..IP + 2] == first[IP..IP + 2]
            && next[IP + 6..IP + 10] == first[IP + 6..IP + 10]
            && next[IP + 12..tcp + 4] == first[IP + 12..tcp + 4]
            && next[tcp + 8..tcp + 13] == first[tcp + 8..tcp + 13]
            && next[tcp + 14..tcp + 16] == first[tcp + 14..tcp + 16]
            && next[tcp + 18..payload] == first[tcp + 18..payload];
        if !same || seq(next, tcp) != self.next_seq {
            return false;
        }
        self.total += run.size;
        self.next_seq = run.next_seq;
        self.open = run.open && run.size == self.size;
        true
    }

    /// Offset of the payload in each segment.
    pub(super) fn payload(&self) -> usize {
        self.payload
    }

    /// Turns the first segment into the head of the merged packet; the payloads of the others
    /// follow it.
    pub(super) fn make_head(&self, first: &mut [u8]) {
        let header = Header {
            gso_type: vnet::GSO_TCPV4,
            hdr_len: (self.payload - IP) as u16,
            gso_size: self.size as u16,
            ..Header::read(first)
        };
        header.write(first);
        let added = (self.total - self.size) as u16;
        // The IP checksum and the sum of TCP's pseudo-header both include the length.
        let len = word(first, IP + 2).wrapping_add(added);
        let sum = !word(first, IP + 10);
        put(first, IP + 2, len);
        put(first, IP + 10, !add(sum, added));
        let sum = word(first, self.tcp + 16);
        put(first, self.tcp + 16, add(sum, added));
        if !self.open {
            first[self.tcp + 13] |= PSH;
        }
    }
}

fn seq(packet: &[u8], tcp: usize) -> u32 {
    u32::from_be_bytes([
        packet[tcp + 4],
        packet[tcp + 5],
        packet[tcp + 6],
        packet[tcp + 7],
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::segment::Segments;

    /// A packet of three full segments and a rest as a host sends it, and the segments that it is
    /// cut into.
    fn whole_and_segments() -> (Vec<u8>, Vec<Vec<u8>>) {
        let header = Header {
            flags: vnet::NEEDS_CSUM,
            gso_type: vnet::GSO_TCPV4,
            hdr_len: 40,
            gso_size: 100,
            csum_start: 20,
            csum_offset: 16,
        };
        let mut whole = vec![0; IP + 40 + 310];
        header.write(&mut whole);
        let packet = &mut whole[IP..];
        packet[..10].copy_from_slice(&[0x45, 0, 1, 94, 0, 9, 0x40, 0, 64, 6]);
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet[32] = 0x50;
        packet[33] = ACK | PSH;
        let sum = [0x4500u16, 350, 9, 0x4000, 0x4006, 0x0a00, 1, 0x0a00, 2];
        put(packet, 10, !sum.into_iter().fold(0, add));
        let pseudo = [0x0a00u16, 1, 0x0a00, 2, 6, 330];
        put(packet, 36, pseudo.into_iter().fold(0, add));
        let packet = whole[IP..].to_vec();
        let mut segments = Segments::new(header, &packet).unwrap();
        let mut cut = Vec::new();
        while let Some(len) = segments.next_len() {
            let mut segment = vec![0; len];
            segments.write_next(&mut segment);
            cut.push(segment);
        }
        (whole, cut)
    }

    #[test]
    fn what_was_cut_is_put_together_again() {
        let (whole, cut) = whole_and_segments();
        let mut run = Run::new(&cut[0]).unwrap();
        for next in &cut[1..] {
            assert!(run.extend(&cut[0], next));
        }
        let mut merged = cut[0].clone();
        run.make_head(&mut merged);
        for next in &cut[1..] {
            merged.extend(&next[run.payload()..]);
        }
        assert_eq!(merged, whole);
    }

    #[test]
    fn what_does_not_follow_is_left() {
        let (_, cut) = whole_and_segments();
        let mut run = Run::new(&cut[0]).unwrap();
        assert!(!run.extend(&cut[0], &cut[2]), "a gap");
        let mut other = cut[1].clone();
        other[IP + 40 - 17] ^= 1;
        assert!(!run.extend(&cut[0], &other), "another port");
        let mut fin = cut[1].clone();
        fin[IP + 33] |= 1;
        assert!(!run.extend(&cut[0], &fin), "FIN");
        assert!(run.extend(&cut[0], &cut[1]));
    }

    #[test]
    fn a_push_or_a_short_segment_ends_a_run() {
        let (_, cut) = whole_and_segments();
        let mut run = Run::new(&cut[3]).unwrap();
        let mut next = cut[0].clone();
        next[IP + 24..IP + 28].copy_from_slice(&310u32.to_be_bytes());
        assert!(!run.extend(&cut[3], &next));
    }
}
