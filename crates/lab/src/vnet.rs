//! The header that a TUN device puts before each packet: what is left to do to it.
//!
//! Source: virtio 1.2, 5.1.6; `struct virtio_net_hdr` in linux/virtio_net.h.

/// Its length in bytes.
pub const LEN: usize = 10;

/// The checksum covers what follows `csum_start` and is yet to be made.
pub const NEEDS_CSUM: u8 = 1;
/// The packet is a segment of its own.
pub const GSO_NONE: u8 = 0;
/// To be cut into TCP segments.
pub const GSO_TCPV4: u8 = 1;
/// To be cut into TCP segments.
pub const GSO_TCPV6: u8 = 4;
/// CWR is set and belongs to the first segment alone.
pub const GSO_ECN: u8 = 0x80;

/// The header; offsets count from the first byte of the IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    pub flags: u8,
    pub gso_type: u8,
    pub hdr_len: u16,
    pub gso_size: u16,
    pub csum_start: u16,
    pub csum_offset: u16,
}

impl Header {
    /// Reads the header at the start of `bytes`, of which there are at least [`LEN`].
    #[inline]
    pub fn read(bytes: &[u8]) -> Header {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Header {
            flags: bytes[0],
            gso_type: bytes[1],
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    /// That of a packet of which nothing but its length and `gso_size` is known: whether its checksum is
    /// yet to be made shows in the packet, which then has the sum of the pseudo-header in its place.
    #[inline]
    pub fn of(packet: &[u8], gso_size: u16) -> Header {
        let Some((start, offset)) = unmade_checksum(packet) else {
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

    /// Writes the header to the start of `bytes`, of which there are at least [`LEN`].
    #[inline]
    pub fn write(self, bytes: &mut [u8]) {
        bytes[0] = self.flags;
        bytes[1] = self.gso_type;
        bytes[2..4].copy_from_slice(&self.hdr_len.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.gso_size.to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.csum_start.to_ne_bytes());
        bytes[8..10].copy_from_slice(&self.csum_offset.to_ne_bytes());
    }

    /// True if the packet stands for several segments.
    #[inline]
    pub fn is_segmented(self) -> bool {
        self.gso_type != GSO_NONE
    }
}

/// Where the transport header begins whose checksum is yet to be made, and where in it the checksum is.
#[inline]
fn unmade_checksum(packet: &[u8]) -> Option<(usize, usize)> {
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    let word = |at: usize| u32::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
    // Of fragments, the kernel has made all checksums.
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
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    (word(start + offset) == sum).then_some((start, offset))
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
