//! Parquet's encodings for columns of instruments: integers as differences, and runs.
//!
//! Both follow the format's specification (Encodings.md: DELTA_BINARY_PACKED, RLE). They are
//! implemented here and not in the library that writes the rest of the file because every ACK pays
//! for them: a column that does not change, as half of the instruments do not, costs next to
//! nothing here.

/// Differences per block, and per part of it with its own bit width (a miniblock).
const BLOCK: usize = 128;
const PART: usize = 32;

/// 64-bit integers as DELTA_BINARY_PACKED.
#[derive(Debug, Default)]
pub(crate) struct Deltas {
    body: Vec<u8>,
    /// Differences that do not fill a block yet.
    waiting: Vec<i64>,
    count: u64,
    first: i64,
    latest: i64,
}

impl Deltas {
    pub(crate) fn extend(&mut self, values: &[i64]) {
        let mut values = values;
        if self.count == 0
            && let Some((first, rest)) = values.split_first()
        {
            (self.first, self.latest, self.count) = (*first, *first, 1);
            values = rest;
        }
        self.count += values.len() as u64;
        while !values.is_empty() {
            let room = BLOCK - self.waiting.len();
            let (now, later) = values.split_at(values.len().min(room));
            self.differences(now);
            values = later;
        }
    }

    /// Appends values that at most fill the block.
    fn differences(&mut self, values: &[i64]) {
        let before = std::iter::once(&self.latest).chain(values);
        let differences = values.iter().zip(before).map(|(v, b)| v.wrapping_sub(*b));
        self.waiting.extend(differences);
        if let Some(last) = values.last() {
            self.latest = *last;
        }
        if self.waiting.len() == BLOCK {
            pack_block(&mut self.waiting, &mut self.body);
        }
    }

    /// Approximate size so far, bytes.
    pub(crate) fn len(&self) -> usize {
        self.body.len() + 8 * self.waiting.len() + 16
    }

    /// Writes the page's content and starts a new page.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.waiting.is_empty() {
            pack_block(&mut self.waiting, &mut self.body);
        }
        varint(BLOCK as u64, out);
        varint((BLOCK / PART) as u64, out);
        varint(self.count, out);
        varint(zigzag(self.first), out);
        out.extend_from_slice(&self.body);
        self.body.clear();
        self.count = 0;
        (self.first, self.latest) = (0, 0);
    }
}

/// Packs the differences, at most a block of them, and empties the list.
fn pack_block(differences: &mut Vec<i64>, out: &mut Vec<u8>) {
    let least = differences.iter().copied().min().unwrap_or(0);
    varint(zigzag(least), out);
    let mut widths = [0u8; BLOCK / PART];
    for (width, part) in widths.iter_mut().zip(differences.chunks(PART)) {
        let above = |all: u64, difference: &i64| all | difference.wrapping_sub(least) as u64;
        let bits = part.iter().fold(0, above);
        *width = (u64::BITS - bits.leading_zeros()) as u8;
    }
    out.extend_from_slice(&widths);
    for (width, part) in widths.into_iter().zip(differences.chunks(PART)) {
        if width > 0 {
            pack(part, least, u32::from(width), out);
        }
    }
    differences.clear();
}

/// Packs a part with `width` bits per value, padded with zeros.
fn pack(part: &[i64], least: i64, width: u32, out: &mut Vec<u8>) {
    let (mut word, mut used) = (0u64, 0);
    let zeros = std::iter::repeat_n(0, PART - part.len());
    let values = part.iter().map(|value| value.wrapping_sub(least) as u64);
    for value in values.chain(zeros) {
        word |= value << used;
        used += width;
        if used >= u64::BITS {
            out.extend_from_slice(&word.to_le_bytes());
            used -= u64::BITS;
            word = if used > 0 { value >> (width - used) } else { 0 };
        }
    }
    // 32 values of any width end at a multiple of 32 bits, so half a word may remain.
    if used > 0 {
        out.extend_from_slice(&(word as u32).to_le_bytes());
    }
}

/// Small numbers as runs of equal ones (RLE).
#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: Vec<(u16, u64)>,
    wide: bool,
}

impl Runs {
    /// Runs of numbers that need two bytes.
    pub(crate) fn wide() -> Runs {
        Runs {
            wide: true,
            ..Runs::default()
        }
    }

    pub(crate) fn push(&mut self, value: u16, times: usize) {
        match self.runs.last_mut() {
            Some((last, length)) if *last == value => *length += times as u64,
            _ => self.runs.push((value, times as u64)),
        }
    }

    /// Each run's number and length.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u16, usize)> {
        self.runs
            .iter()
            .map(|(value, times)| (*value, *times as usize))
    }

    /// Approximate encoded size, bytes.
    pub(crate) fn len(&self) -> usize {
        3 * self.runs.len()
    }

    /// Returns the encoded runs and starts anew.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        for (value, length) in self.runs.drain(..) {
            varint(length << 1, &mut out);
            let bytes = value.to_le_bytes();
            out.extend(&bytes[..if self.wide { 2 } else { 1 }]);
        }
        out
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deltas(values: &[i64]) -> Vec<u8> {
        let mut deltas = Deltas::default();
        deltas.extend(values);
        let mut out = Vec::new();
        deltas.finish(&mut out);
        out
    }

    #[test]
    fn the_first_example_of_the_specification() {
        // Encodings.md: deltas of 1 throughout need no bits. Header 128, 4, 5, zigzag(1); block:
        // least zigzag(1), four widths of 0.
        let expected = [0x80, 1, 4, 5, 2, 2, 0, 0, 0, 0];
        assert_eq!(deltas(&[1, 2, 3, 4, 5]), expected);
    }

    #[test]
    fn the_second_example_of_the_specification() {
        // 7, 5, 3, 1, 2, 3, 4, 5: deltas -2 -2 -2 1 1 1 1, least -2, above it 0 0 0 3 3 3 3 in two
        // bits: 0b11000000, 0b00111111.
        let mut expected = vec![0x80, 1, 4, 8, 14, 3, 2, 0, 0, 0, 0b1100_0000, 0b0011_1111];
        expected.extend([0; 6]);
        assert_eq!(deltas(&[7, 5, 3, 1, 2, 3, 4, 5]), expected);
    }

    #[test]
    fn values_in_pieces_are_encoded_as_at_once() {
        let values: Vec<i64> = (0..1000).map(|n| n * n * 37 % 4001).collect();
        let mut pieces = Deltas::default();
        for piece in values.chunks(7) {
            pieces.extend(piece);
        }
        let mut out = Vec::new();
        pieces.finish(&mut out);
        assert_eq!(out, deltas(&values));
    }

    #[test]
    fn runs_are_lengths_and_values() {
        let mut runs = Runs::default();
        runs.push(1, 3);
        runs.push(1, 97);
        runs.push(0, 1);
        // 100 << 1 as a varint: seven bits per byte, least significant first.
        assert_eq!(runs.finish(), [0xc8, 1, 1, 2, 0]);
        let mut wide = Runs::wide();
        wide.push(300, 1);
        assert_eq!(wide.finish(), [2, 0x2c, 1]);
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::cases;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn number(bytes: &mut &[u8]) -> u64 {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (&byte, behind) = bytes.split_first().unwrap();
            *bytes = behind;
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return number;
            }
        }
    }

    fn signed(bytes: &mut &[u8]) -> i64 {
        let number = number(bytes);
        (number >> 1) as i64 ^ -((number & 1) as i64)
    }

    /// A number of `width` bits, the lowest of which is that of number `at`.
    fn bits(bytes: &[u8], at: usize, width: usize) -> u64 {
        let bit = |number: usize| u64::from(bytes[number / 8] >> (number % 8) & 1);
        (0..width).fold(0, |value, n| value | bit(at + n) << n)
    }

    /// Reads a page as the specification (Encodings.md) says, in the plainest way.
    fn decoded(mut bytes: &[u8]) -> Vec<i64> {
        let block = number(&mut bytes) as usize;
        let parts = number(&mut bytes) as usize;
        let count = number(&mut bytes) as usize;
        let mut value = signed(&mut bytes);
        let mut values = vec![value; count.min(1)];
        while values.len() < count {
            let least = signed(&mut bytes);
            let (widths, mut packed) = bytes.split_at(parts);
            for width in widths {
                let width = usize::from(*width);
                for n in 0..(block / parts).min(count - values.len()) {
                    let above = bits(packed, n * width, width) as i64;
                    value = value.wrapping_add(least).wrapping_add(above);
                    values.push(value);
                }
                packed = &packed[block / parts * width / 8..];
            }
            bytes = packed;
        }
        assert!(bytes.is_empty(), "bytes behind the last value");
        values
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn values_come_back_in_whatever_pieces_they_came(
            values in vec(prop_oneof![-9..9_i64, 0..1_i64 << 40, any::<i64>()], 0..600),
            piece in 1..300_usize,
        ) {
            let mut deltas = Deltas::default();
            for piece in values.chunks(piece) {
                deltas.extend(piece);
            }
            let mut page = Vec::new();
            deltas.finish(&mut page);
            prop_assert_eq!(decoded(&page), values);
        }

        #[test]
        fn runs_come_back(pushes in vec((0..3_u16, 0..500_usize), 0..50)) {
            let mut runs = Runs::wide();
            let mut expected = Vec::new();
            for (value, times) in pushes {
                runs.push(value, times);
                expected.extend(std::iter::repeat_n(value, times));
            }
            let page = runs.finish();
            let (mut rest, mut read) = (page.as_slice(), Vec::new());
            while !rest.is_empty() {
                let length = number(&mut rest) >> 1;
                let (value, behind) = rest.split_first_chunk().unwrap();
                read.extend(std::iter::repeat_n(u16::from_le_bytes(*value), length as usize));
                rest = behind;
            }
            prop_assert_eq!(read, expected);
        }
    }
}
