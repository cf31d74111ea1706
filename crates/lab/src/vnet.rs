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
