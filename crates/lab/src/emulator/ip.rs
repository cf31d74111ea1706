//! What pipes read from the header of an IPv4 packet, and the mark that they leave there.

use fairwind_path::ecn::Ecn;

use crate::host::tap::words::{add, put, word};

/// The codepoint of a packet (RFC 3168, section 5).
#[inline]
pub(super) fn codepoint(packet: &[u8]) -> Ecn {
    Ecn::from_bits(packet[1])
}

/// Sets CE, and updates the header's checksum (RFC 1624, equation 3).
pub(super) fn mark(packet: &mut [u8]) {
    let before = word(packet, 0);
    packet[1] |= Ecn::Ce.bits();
    let sum = add(add(!word(packet, 10), !before), word(packet, 0));
    put(packet, 10, !sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with this second byte and a correct checksum.
    fn packet(tos: u8) -> Vec<u8> {
        let mut packet = vec![0x45, tos, 0, 40, 0, 7, 0x40, 0, 64, 6, 0, 0];
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = checksum(&packet);
        put(&mut packet, 10, !sum);
        packet
    }

    /// The sum over the header, 0xffff if its checksum is right.
    fn checksum(packet: &[u8]) -> u16 {
        (0..10).fold(0, |sum, place| add(sum, word(packet, 2 * place)))
    }

    #[test]
    fn a_mark_leaves_dscp_and_checksum_right() {
        for tos in [0x01, 0x02, 0xb9, 0xfe, 0x03] {
            let mut marked = packet(tos);
            mark(&mut marked);
            assert_eq!(codepoint(&marked), Ecn::Ce);
            assert_eq!(marked, packet(tos | 3), "{tos:#x}");
            assert_eq!(checksum(&marked), 0xffff, "{tos:#x}");
        }
    }
}
