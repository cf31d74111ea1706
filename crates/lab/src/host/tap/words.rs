//! The 16-bit words of packets, and their sums in ones' complement (RFC 1071).

/// The word at an offset.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Writes the word at an offset.
#[inline]
pub(crate) fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// The sum of two words.
#[inline]
pub(crate) fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

/// Adds the carries of a sum of words to it.
#[inline]
pub(crate) fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carries_are_added() {
        assert_eq!(add(0xffff, 2), 2);
        assert_eq!(fold(0x1_ffff), 1);
        // RFC 1071, section 3.
        assert_eq!(fold(0x0001 + 0xf203 + 0xf4f5 + 0xf6f7), 0xddf2);
    }

    #[test]
    fn words_are_in_network_byte_order() {
        let mut bytes = [0; 4];
        put(&mut bytes, 1, 0x1234);
        assert_eq!(bytes, [0, 0x12, 0x34, 0]);
        assert_eq!(word(&bytes, 1), 0x1234);
    }
}
