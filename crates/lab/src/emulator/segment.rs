//! Segmentation: cuts what a host left to its network card into the segments that go on the wire.
//!
//! | original | here |
//! |---|---|
//! | a card computes the checksums | left to be computed (`NEEDS_CSUM`), as between virtual machines on one host; the pseudo-header's part is correct for each segment |
//! | Linux numbers IPv4 segments from the packet's id | the same |

use crate::host::tap::vnet::{self, Header};
use crate::host::tap::words::{fold, put, word};

/// A packet to be cut into TCP segments.
#[derive(Debug)]
pub(super) struct Segments<'a> {
    header: Header,
    /// IP and TCP headers.
    headers: &'a [u8],
    payload: &'a [u8],
    tcp: usize,
    next: usize,
}

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

impl<'a> Segments<'a> {
    /// Parses the packet after `header`. `None` if it is not TCP, or contradicts the header.
    pub(super) fn new(header: Header, packet: &'a [u8]) -> Option<Segments<'a>> {
        let kind = header.gso_type & !vnet::GSO_ECN;
        let tcp = usize::from(header.csum_start);
        let version = match kind {
            vnet::GSO_TCPV4 => 4,
            vnet::GSO_TCPV6 => 6,
            _ => return None,
        };
        let ip_header = if version == 4 { 20 } else { 40 };
        if header.gso_size == 0 || tcp < ip_header || packet.len() < tcp + 20 {
            return None;
        }
        let headers = tcp + usize::from(packet[tcp + 12] >> 4) * 4;
        if packet[0] >> 4 != version || headers < tcp + 20 || packet.len() <= headers {
            return None;
        }
        let (headers, payload) = packet.split_at(headers);
        Some(Segments {
            header,
            headers,
            payload,
            tcp,
            next: 0,
        })
    }

    /// Length of the next segment with its headers and [`vnet::LEN`]; `None` after the last.
    pub(super) fn next_len(&self) -> Option<usize> {
        let size = self.size();
        (size > 0).then_some(vnet::LEN + self.headers.len() + size)
    }

    fn size(&self) -> usize {
        let rest = self.payload.len() - self.next;
        rest.min(self.header.gso_size.into())
    }

    /// Writes the next segment to `out`, whose length must be that of [`Segments::next_len`].
    pub(super) fn write_next(&mut self, out: &mut [u8]) {
        let (first, size) = (self.next, self.size());
        self.next += size;
        let last = self.next == self.payload.len();
        let (vnet, packet) = out.split_at_mut(vnet::LEN);
        Header {
            flags: vnet::NEEDS_CSUM,
            gso_type: vnet::GSO_NONE,
            hdr_len: 0,
            gso_size: 0,
            ..self.header
        }
        .write(vnet);
        let (headers, payload) = packet.split_at_mut(self.headers.len());
        headers.copy_from_slice(self.headers);
        payload.copy_from_slice(&self.payload[first..first + size]);
        let number = first / usize::from(self.header.gso_size);
        self.number_ip(headers, size, number);
        self.number_tcp(&mut headers[self.tcp..], first, size, last);
    }

    fn number_ip(&self, headers: &mut [u8], size: usize, number: usize) {
        let len = self.headers.len() + size;
        if headers[0] >> 4 == 6 {
            put(headers, 4, (len - 40) as u16);
            return;
        }
        put(headers, 2, len as u16);
        let id = word(headers, 4).wrapping_add(number as u16);
        put(headers, 4, id);
        put(headers, 10, 0);
        let end = usize::from(headers[0] & 15) * 4;
        let sum = headers[..end.min(self.tcp)]
            .as_chunks()
            .0
            .iter()
            .map(|&pair| u32::from(u16::from_be_bytes(pair)))
            .sum();
        put(headers, 10, !fold(sum));
    }

    fn number_tcp(&self, tcp: &mut [u8], first: usize, size: usize, last: bool) {
        let seq = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add(first as u32);
        tcp[4..8].copy_from_slice(&seq.to_be_bytes());
        if !last {
            tcp[13] &= !(FIN | PSH);
        }
        if first > 0 {
            tcp[13] &= !CWR;
        }
        // The field holds the sum of the pseudo-header, in which the length is now the segment's.
        let tcp_header = self.headers.len() - self.tcp;
        let before = (tcp_header + self.payload.len()) as u16;
        let now = (tcp_header + size) as u16;
        let sum = u32::from(word(tcp, 16)) + u32::from(!before) + u32::from(now);
        put(tcp, 16, fold(sum));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet from 10.0.0.1:1 to 10.0.0.2:2 with sequence number 100.
    fn packet(flags: u8, payload: &[u8]) -> Vec<u8> {
        let len = (40 + payload.len()) as u16;
        let mut packet = vec![0x45, 0, 0, 0, 0, 7, 0x40, 0, 64, 6, 0, 0];
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        packet.extend([
            0, 1, 0, 2, 0, 0, 0, 100, 0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0,
        ]);
        packet.extend(payload);
        put(&mut packet, 2, len);
        let pseudo = 0x0a00 + 1 + 0x0a00 + 2 + 6 + u32::from(len - 20);
        put(&mut packet, 36, fold(pseudo));
        packet
    }

    fn cut(flags: u8, payload: &[u8], size: u16) -> Vec<Vec<u8>> {
        let packet = packet(flags, payload);
        let header = Header {
            flags: vnet::NEEDS_CSUM,
            gso_type: vnet::GSO_TCPV4,
            hdr_len: 40,
            gso_size: size,
            csum_start: 20,
            csum_offset: 16,
        };
        let mut segments = Segments::new(header, &packet).unwrap();
        let mut out = Vec::new();
        while let Some(len) = segments.next_len() {
            let mut segment = vec![0; len];
            segments.write_next(&mut segment);
            out.push(segment);
        }
        out
    }

    #[test]
    fn the_payload_is_cut_at_the_segment_size() {
        let segments = cut(0x10, b"abcdefgh", 3);
        let payloads: Vec<&[u8]> = segments.iter().map(|s| &s[vnet::LEN + 40..]).collect();
        assert_eq!(payloads, [&b"abc"[..], b"def", b"gh"]);
        let seq: Vec<u8> = segments.iter().map(|s| s[vnet::LEN + 27]).collect();
        assert_eq!(seq, [100, 103, 106]);
        let id: Vec<u8> = segments.iter().map(|s| s[vnet::LEN + 5]).collect();
        assert_eq!(id, [7, 8, 9]);
        let len: Vec<u8> = segments.iter().map(|s| s[vnet::LEN + 3]).collect();
        assert_eq!(len, [43, 43, 42]);
    }

    #[test]
    fn a_segment_is_the_packet_that_the_host_would_have_made_itself() {
        let segments = cut(0x10, b"abcdef", 3);
        // The second segment, written by hand: seq 103, id 8.
        let mut expected = packet(0x10, b"def");
        expected[27] = 103;
        expected[5] = 8;
        // 4500 002b 0008 4000 4006 0000 0a00 0001 0a00 0002: sum 0xd93c with the carry.
        let sum = 0x4500 + 0x2b + 8 + 0x4000 + 0x4006 + 0x0a00 + 1 + 0x0a00 + 2;
        put(&mut expected, 10, !fold(sum));
        assert_eq!(segments[1][vnet::LEN..], expected[..]);
        let header = Header::read(&segments[1]);
        assert_eq!((header.flags, header.gso_type), (vnet::NEEDS_CSUM, 0));
    }

    #[test]
    fn fin_and_psh_go_with_the_last_segment_and_cwr_with_the_first() {
        let flags: Vec<u8> = cut(0x10 | FIN | PSH | CWR, b"abcdef", 2)
            .iter()
            .map(|s| s[vnet::LEN + 33])
            .collect();
        assert_eq!(flags, [0x10 | CWR, 0x10, 0x10 | FIN | PSH]);
    }

    #[test]
    fn a_packet_that_is_not_what_its_header_says_is_not_cut() {
        let packet = packet(0x10, b"abc");
        let header = Header {
            gso_type: vnet::GSO_TCPV6,
            gso_size: 2,
            csum_start: 20,
            ..Header::default()
        };
        assert!(Segments::new(header, &packet).is_none());
        let v4 = Header {
            gso_type: vnet::GSO_TCPV4,
            ..header
        };
        assert!(Segments::new(v4, &packet[..39]).is_none());
        assert!(Segments::new(v4, &packet[..40]).is_none());
        assert!(Segments::new(v4, &packet).is_some());
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, damaged};
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// TCP of IPv4 and of IPv6, with payload.
    fn packets() -> Vec<Vec<u8>> {
        let mut v4 = vec![0x45, 0, 0, 140, 0, 7, 0x40, 0, 64, 6, 0, 0];
        v4.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        let mut v6 = vec![0x60, 0, 0, 0, 0, 120, 6, 64];
        v6.extend([0x20; 32]);
        for packet in [&mut v4, &mut v6] {
            packet.extend([0, 1, 0, 2, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 0, 0x50]);
            packet.extend([0x99, 1, 0, 0, 0, 0, 0]);
            packet.extend(0..100_u8);
        }
        vec![v4, v6]
    }

    fn sequence(tcp: &[u8]) -> u32 {
        u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]])
    }

    proptest! {
        #![proptest_config(cases(512))]

        #[test]
        fn segments_carry_the_payload_once_and_in_order(
            packet in damaged(&packets()),
            gso_type in select(vec![vnet::GSO_TCPV4, vnet::GSO_TCPV6, vnet::GSO_TCPV4 | vnet::GSO_ECN, 3]),
            gso_size in 0..300_u16,
            // An offset in a frame has 16 bits, 14 of which bytes are Ethernet's.
            csum_start in prop_oneof![Just(20_u16), Just(40), 0..=u16::MAX - 14],
        ) {
            let header = Header {
                gso_type,
                gso_size,
                csum_start,
                csum_offset: 16,
                ..Header::default()
            };
            let Some(mut segments) = Segments::new(header, &packet) else {
                return Ok(());
            };
            let (headers, payload) = packet.split_at(segments.headers.len());
            let first = sequence(&headers[usize::from(csum_start)..]);
            let mut carried: Vec<u8> = Vec::new();
            while let Some(len) = segments.next_len() {
                let mut segment = vec![0; len];
                segments.write_next(&mut segment);
                prop_assert!(!Header::read(&segment).is_segmented());
                let (head, part) = segment[vnet::LEN..].split_at(headers.len());
                let seq = sequence(&head[usize::from(csum_start)..]);
                prop_assert_eq!(seq, first.wrapping_add(carried.len() as u32));
                prop_assert!(!part.is_empty() && part.len() <= usize::from(gso_size));
                carried.extend(part);
            }
            prop_assert_eq!(carried, payload);
        }
    }
}
