//! What pipes read from the header of an IPv4 packet, and the mark that they leave there.

use fairwind_path::ecn::Ecn;

use crate::host::tap::words::{add, put, word};

const TCP: u8 = 6;
const UDP: u8 = 17;

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

/// The number of a packet's flow, from addresses, protocol and ports; fragments have no ports. The
/// packet has a whole IPv4 header.
#[inline]
pub(super) fn flow(packet: &[u8]) -> u32 {
    let field = |at: usize| {
        let bytes = [packet[at], packet[at + 1], packet[at + 2], packet[at + 3]];
        u32::from_be_bytes(bytes)
    };
    let head = usize::from(packet[0] & 15) * 4;
    let is_fragment = word(packet, 6) & 0x3fff != 0;
    let has_ports = matches!(packet[9], TCP | UDP) && !is_fragment && packet.len() >= head + 4;
    let ports = if has_ports { field(head) } else { 0 };
    let addresses = u64::from(field(12)) << 32 | u64::from(field(16));
    let ends = u64::from(ports) << 8 | u64::from(packet[9]);
    // Odd constants from the golden ratio and the square root of 2 spread similar flows.
    let spread = addresses.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ ends.wrapping_mul(0x6a09_e667_f3bc_c909).rotate_left(32);
    (spread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// A packet with these addresses' last bytes, protocol and ports, and a correct checksum.
    fn packet(tos: u8, ends: [u8; 2], protocol: u8, ports: [u16; 2]) -> Vec<u8> {
        let mut packet = vec![0x45, tos, 0, 40, 0, 7, 0x40, 0, 64, protocol, 0, 0];
        packet.extend([10, 0, 0, ends[0], 10, 0, 0, ends[1]]);
        packet.resize(40, 0);
        put(&mut packet, 20, ports[0]);
        put(&mut packet, 22, ports[1]);
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
            let mut marked = packet(tos, [1, 2], TCP, [9, 80]);
            mark(&mut marked);
            assert_eq!(codepoint(&marked), Ecn::Ce);
            assert_eq!(marked, packet(tos | 3, [1, 2], TCP, [9, 80]), "{tos:#x}");
            assert_eq!(checksum(&marked), 0xffff, "{tos:#x}");
        }
    }

    #[test]
    fn flows_are_told_apart_by_addresses_protocol_and_ports() {
        let mut numbers = HashSet::new();
        for port in 1..=100 {
            for ends in [[1, 2], [2, 1], [1, 3]] {
                for protocol in [TCP, UDP] {
                    for ports in [[port, 80], [80, port]] {
                        numbers.insert(flow(&packet(0, ends, protocol, ports)));
                    }
                }
            }
        }
        // Port 80 to port 80 is the same in both orders.
        assert_eq!(numbers.len(), 100 * 3 * 2 * 2 - 3 * 2);
        let one = packet(0, [1, 2], TCP, [9, 80]);
        assert_eq!(flow(&one), flow(&packet(3, [1, 2], TCP, [9, 80])));
    }

    #[test]
    fn all_fragments_belong_to_one_flow() {
        let fragment = |offset: u16, ports| {
            let mut fragment = packet(0, [1, 2], UDP, ports);
            put(&mut fragment, 6, offset);
            flow(&fragment)
        };
        assert_eq!(fragment(0x2000, [9, 80]), fragment(100, [1234, 5678]));
        assert_ne!(fragment(0x2000, [9, 80]), fragment(0, [9, 80]));
    }
}
