//! The headers of each packet of a TAP device: virtio's, which lists the offloads still to be done, and an
//! Ethernet header, which is the same for all.
//!
//! Source: virtio 1.2, 5.1.6; `struct virtio_net_hdr` in linux/virtio_net.h.

use super::words::{fold, word};

/// Length of both headers, bytes.
pub(crate) const LEN: usize = VIRTIO + ETHERNET;

const VIRTIO: usize = 10;
const ETHERNET: usize = 14;

/// The Ethernet address of every device. Nobody resolves it, and no frame leaves its path.
pub(crate) const ADDRESS: [u8; 6] = [0x02, 0, 0, 0, 0, 1];

/// The Ethernet header of an IPv4 frame between two devices.
const FRAME: [u8; ETHERNET] = [0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 1, 0x08, 0];

/// The checksum of the bytes from `csum_start` on is still to be computed.
pub(crate) const NEEDS_CSUM: u8 = 1;
/// The packet is one segment.
pub(crate) const GSO_NONE: u8 = 0;
/// To be cut into TCP segments over IPv4.
pub(crate) const GSO_TCPV4: u8 = 1;
/// To be cut into TCP segments over IPv6.
pub(crate) const GSO_TCPV6: u8 = 4;
/// CWR is set and goes with the first segment only.
pub(crate) const GSO_ECN: u8 = 0x80;

/// Length with which a packet of `len` bytes, headers included, is written. It is padded so that it takes as
/// much of the receiver's socket buffer (`truesize`) as behind a network card: 2304 bytes for a packet of
/// 1500; a TAP device alone would count 2176. IP drops the bytes beyond its total length.
#[inline]
pub(crate) fn padded(len: usize) -> usize {
    const HEADROOM: usize = 64;
    const SHARED_INFO: usize = 320;
    const SMALL_HEAD: usize = 704;
    const PAGE: usize = 4096;
    let room = (len - VIRTIO + HEADROOM).next_multiple_of(64) + SHARED_INFO;
    if room > PAGE {
        return len;
    }
    let head = if room > SMALL_HEAD {
        room.next_power_of_two()
    } else {
        SMALL_HEAD
    };
    VIRTIO + head - SHARED_INFO - HEADROOM
}

/// The offloads still to be done to a packet. Offsets count from the first byte of the IP header; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub flags: u8,
    pub gso_type: u8,
    pub hdr_len: u16,
    pub gso_size: u16,
    pub csum_start: u16,
    pub csum_offset: u16,
}

impl Header {
    /// Reads the virtio header at the start of `bytes`, which holds at least [`LEN`].
    #[inline]
    pub(crate) fn read(bytes: &[u8]) -> Header {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Header {
            flags: bytes[0],
            gso_type: bytes[1],
            hdr_len: word(2).saturating_sub(ETHERNET as u16),
            gso_size: word(4),
            csum_start: word(6).saturating_sub(ETHERNET as u16),
            csum_offset: word(8),
        }
    }

    /// The header of a packet of which only `gso_size` is known. A checksum that is still to be computed
    /// shows in the packet: the field then holds the sum of the pseudo-header.
    #[inline]
    pub(crate) fn of(packet: &[u8], gso_size: u16) -> Header {
        let Some((start, offset)) = partial_checksum(packet) else {
            return Header::default();
        };
        let gso_type = match gso_size {
            0 => GSO_NONE,
            _ => GSO_TCPV4,
        };
        Header {
            flags: NEEDS_CSUM,
            gso_type,
            hdr_len: 0,
            gso_size,
            csum_start: start as u16,
            csum_offset: offset as u16,
        }
    }

    /// Writes both headers to the start of `bytes`, which holds at least [`LEN`].
    #[inline]
    pub(crate) fn write(self, bytes: &mut [u8]) {
        let in_frame = |offset| match offset {
            0 => 0,
            offset => offset + ETHERNET as u16,
        };
        bytes[0] = self.flags;
        bytes[1] = self.gso_type;
        bytes[2..4].copy_from_slice(&in_frame(self.hdr_len).to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.gso_size.to_ne_bytes());
        bytes[6..8].copy_from_slice(&in_frame(self.csum_start).to_ne_bytes());
        bytes[8..10].copy_from_slice(&self.csum_offset.to_ne_bytes());
        bytes[VIRTIO..LEN].copy_from_slice(&FRAME);
    }

    /// True if the packet is to be cut into segments.
    #[inline]
    pub(crate) fn is_segmented(self) -> bool {
        self.gso_type != GSO_NONE
    }
}

/// Offset of the transport header whose checksum is still to be computed, and offset of the checksum in it.
#[inline]
fn partial_checksum(packet: &[u8]) -> Option<(usize, usize)> {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    let word = |at| u32::from(word(packet, at));
    // The kernel has computed the checksums of fragments.
    if packet.len() < 20 || packet[0] >> 4 != 4 || word(6) & 0x3fff != 0 {
        return None;
    }
    let start = usize::from(packet[0] & 15) * 4;
    let offset = match packet[9] {
        TCP => 16,
        UDP => 6,
        _ => return None,
    };
    if packet.len() < start + offset + 2 {
        return None;
    }
    let addresses = word(12) + word(14) + word(16) + word(18);
    let sum = addresses + u32::from(packet[9]) + (packet.len() - start) as u32;
    (word(start + offset) == u32::from(fold(sum))).then_some((start, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram from 10.77.0.1 to 10.77.0.2 with a payload of 2 bytes.
    const DATAGRAM: [u8; 30] = [
        0x45, 0, 0, 30, 0, 1, 0, 0, 64, 17, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2, // IP
        0x10, 0, 0x20, 0, 0, 10, 0, 0, 1, 2,
    ];

    fn with_checksum(checksum: u16) -> [u8; 30] {
        let mut packet = DATAGRAM;
        packet[26..28].copy_from_slice(&checksum.to_be_bytes());
        packet
    }

    #[test]
    fn a_checksum_is_yet_to_be_made_where_the_pseudo_headers_is() {
        // 0x0a4d + 1 + 0x0a4d + 2 + 17 + 10
        let header = Header::of(&with_checksum(0x14b8), 0);
        let unmade = Header {
            flags: NEEDS_CSUM,
            csum_start: 20,
            csum_offset: 6,
            ..Header::default()
        };
        assert_eq!(header, unmade);
        assert_eq!(Header::of(&with_checksum(0xba2b), 0), Header::default());
        assert_eq!(Header::of(&with_checksum(0), 0), Header::default());
    }

    #[test]
    fn what_is_written_counts_from_the_ethernet_header_and_is_read_as_it_was() {
        let header = Header::of(&with_checksum(0x14b8), 0);
        let mut bytes = [0xff; LEN];
        header.write(&mut bytes);
        let words = [
            [0, 0],
            0_u16.to_ne_bytes(),
            34_u16.to_ne_bytes(),
            6_u16.to_ne_bytes(),
        ];
        assert_eq!(bytes[..2], [NEEDS_CSUM, GSO_NONE]);
        assert_eq!(bytes[2..10], *words.as_flattened());
        assert_eq!(bytes[10..16], ADDRESS);
        assert_eq!(bytes[22..], [0x08, 0]);
        assert_eq!(Header::read(&bytes), header);
        Header::default().write(&mut bytes);
        assert_eq!(bytes[..10], [0; 10]);
    }

    #[test]
    fn packets_take_the_memory_that_the_kernel_takes_for_them_behind_a_card() {
        // 10 bytes of the virtio header, and 2048 - 320 - 64.
        assert_eq!(padded(LEN + 1500), 10 + 1664);
        assert_eq!(padded(LEN + 40), 10 + 320);
        assert_eq!(padded(LEN + 306), 10 + 320);
        assert_eq!(padded(LEN + 307), 10 + 640);
        assert_eq!(padded(LEN + 3698), 10 + 3712);
        assert_eq!(padded(LEN + 3699), LEN + 3699);
    }

    #[test]
    fn fragments_and_stumps_have_no_checksum_to_be_made() {
        let mut fragment = with_checksum(0x14b8);
        fragment[6] = 0x20;
        assert_eq!(Header::of(&fragment, 0), Header::default());
        let packet = with_checksum(0x14b8);
        for len in 0..28 {
            assert_eq!(Header::of(&packet[..len], 0), Header::default());
        }
    }

    #[test]
    fn a_large_packet_is_to_be_cut() {
        let mut packet = with_checksum(0);
        packet[9] = 6;
        let mut packet = [&packet[..], &[0; 30]].concat();
        // 0x0a4d + 1 + 0x0a4d + 2 + 6 + 40
        packet[36..38].copy_from_slice(&0x14cb_u16.to_be_bytes());
        let header = Header::of(&packet, 8);
        assert_eq!((header.gso_type, header.gso_size), (GSO_TCPV4, 8));
        assert_eq!((header.csum_start, header.csum_offset), (20, 16));
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, damaged};
    use proptest::prelude::*;

    use super::*;

    /// A datagram and an empty segment whose checksums are those of the pseudo-headers.
    const PACKETS: [&[u8]; 2] = [
        b"E\0\0\x1e\0\x01\0\0@\x11\0\0\x0aM\0\x01\x0aM\0\x02\x10\0 \0\0\x0a\x14\xb8\x01\x02",
        b"E\0\0(\0\x01\0\0@\x06\0\0\x0aM\0\x01\x0aM\0\x02\
          \x10\0 \0\0\0\0\0\0\0\0\0P\x10\0\0\x14\xb7\0\0",
    ];

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn a_header_that_is_read_is_written_alike(bytes: [u8; LEN]) {
            let header = Header::read(&bytes);
            let mut written = [0; LEN];
            header.write(&mut written);
            prop_assert_eq!(Header::read(&written), header);
        }

        #[test]
        fn a_checksum_that_is_to_be_made_is_in_the_packet(
            packet in damaged(&PACKETS),
            gso_size: u16,
        ) {
            let header = Header::of(&packet, gso_size);
            if header.flags == 0 {
                prop_assert_eq!(header, Header::default());
            } else {
                let field = usize::from(header.csum_start + header.csum_offset);
                prop_assert!(field + 2 <= packet.len());
                prop_assert_eq!(header.is_segmented(), gso_size > 0);
            }
        }
    }
}
