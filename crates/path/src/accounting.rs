//! Which bytes count against the bandwidth.
//!
//! Sizes given to a pipe are always IP bytes. The accounting converts them to the bytes that consume
//! bandwidth; queues and statistics count IP bytes in any case.

/// Which bytes a bandwidth counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "AccountingWord", rename_all = "kebab-case")
)]
pub enum Accounting {
    /// IP bytes, header included.
    // As Dummynet and ns count.
    #[default]
    Ip,
    /// Ethernet frames: 18 bytes more.
    // IEEE 802.3: 14 bytes of header and 4 of check sequence, and at least 46 of payload.
    Ethernet,
    /// Ethernet frames with preamble and gap: 38 bytes more.
    // 8 bytes of preamble and 12 of interframe gap, during which the wire is busy.
    EthernetWire,
}

impl Accounting {
    /// Bytes of bandwidth that a packet of `ip_bytes` consumes.
    #[inline]
    pub fn wire_bytes(self, ip_bytes: u32) -> u64 {
        let ip = u64::from(ip_bytes);
        match self {
            Accounting::Ip => ip,
            Accounting::Ethernet => ip.max(46) + 18,
            Accounting::EthernetWire => ip.max(46) + 38,
        }
    }

    /// The definition in words, to be stored with results.
    pub fn definition(self) -> &'static str {
        match self {
            Accounting::Ip => "IP bytes: the IP header and all it carries",
            Accounting::Ethernet => {
                "Ethernet frames: IP bytes padded to 46, and 18 of header and check sequence"
            }
            Accounting::EthernetWire => {
                "Ethernet on the wire: IP bytes padded to 46, and 38 of preamble, header, check \
                 sequence and gap"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Accounting::*;

    #[test]
    fn a_full_packet_takes_1538_bytes_of_the_wire() {
        assert_eq!(Ip.wire_bytes(1500), 1500);
        assert_eq!(Ethernet.wire_bytes(1500), 1518);
        assert_eq!(EthernetWire.wire_bytes(1500), 1538);
    }

    #[test]
    fn small_packets_are_padded_to_the_64_byte_frame() {
        assert_eq!(Ip.wire_bytes(40), 40);
        assert_eq!(Ethernet.wire_bytes(40), 64);
        assert_eq!(EthernetWire.wire_bytes(40), 84);
    }
}
