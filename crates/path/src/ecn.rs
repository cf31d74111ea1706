//! Explicit congestion notification (RFC 3168): the codepoint with which a packet says whether its
//! transport understands marks, and with which a queue marks it.

/// The codepoint in the last two bits of the IPv4 type of service and the IPv6 traffic class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable: a queue can only drop it.
    #[default]
    NotEct = 0b00,
    /// ECN-capable, ECT(1); L4S traffic (RFC 9331).
    Ect1 = 0b01,
    /// ECN-capable, ECT(0); classic traffic (RFC 3168).
    Ect0 = 0b10,
    /// Congestion experienced: a queue has marked it.
    Ce = 0b11,
}

impl Ecn {
    /// The codepoint in the last two bits of `field`; the others are ignored.
    #[inline]
    pub fn from_bits(field: u8) -> Ecn {
        match field & 0b11 {
            0b00 => Ecn::NotEct,
            0b01 => Ecn::Ect1,
            0b10 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// Its two bits.
    #[inline]
    pub fn bits(self) -> u8 {
        self as u8
    }

    /// Whether a queue may mark the packet instead of dropping it. A packet that is marked already may
    /// stay so.
    #[inline]
    pub fn is_capable(self) -> bool {
        self != Ecn::NotEct
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_are_those_of_rfc_3168_figure_1() {
        let all = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
        assert_eq!(all.map(Ecn::bits), [0, 1, 2, 3]);
        // The bits before it are the DSCP.
        assert_eq!([0xb8, 0xb9, 0xba, 0xbb].map(Ecn::from_bits), all);
        assert_eq!(all.map(Ecn::is_capable), [false, true, true, true]);
    }
}
