//! Packing of samples into blocks.
//!
//! A block is a format byte followed by 16 bytes per sample, little-endian: Unix time in microseconds and
//! available bandwidth in Mbit/s as binary64. Its key has the hop and the second of the first sample; no two
//! blocks of a hop begin in the same second.

use fairwind_advice::Sample;
use jiff::Timestamp;

use super::HopId;
use super::error::Trouble;

/// The format written by this module.
const FORMAT: u8 = 1;
/// Samples per block: one day's worth at one per five minutes. Three such blocks fit into a page.
pub(super) const FULL: usize = 300;
/// Bits of a key for the second.
const SECOND_BITS: u32 = 34;

/// The range of keys for the blocks of a hop.
pub(super) fn keys(hop: HopId) -> std::ops::RangeInclusive<i64> {
    let first = hop.0 << SECOND_BITS;
    first..=first + ((1 << SECOND_BITS) - 1)
}

/// The key of a block whose first sample has this time, which is not before 1970.
pub(super) fn key(hop: HopId, time: Timestamp) -> i64 {
    (hop.0 << SECOND_BITS) + time.as_second().clamp(0, (1 << SECOND_BITS) - 1)
}

/// Packs samples into a block.
pub(super) fn pack(samples: &[Sample]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + 16 * samples.len());
    bytes.push(FORMAT);
    for sample in samples {
        bytes.extend(sample.time.as_microsecond().to_le_bytes());
        bytes.extend(sample.available_mbps.to_le_bytes());
    }
    bytes
}

/// Appends the samples of a block to `samples`.
pub(super) fn unpack(bytes: &[u8], samples: &mut Vec<Sample>) -> Result<(), Trouble> {
    let nonsense = || Trouble::Damaged("a block of samples is damaged".to_owned());
    let (&FORMAT, packed) = bytes.split_first().ok_or_else(nonsense)? else {
        return Err(nonsense());
    };
    let (packed, []) = packed.as_chunks::<16>() else {
        return Err(nonsense());
    };
    samples.reserve(packed.len());
    for bytes in packed {
        let (time, value) = bytes.split_at(8);
        let time_us = i64::from_le_bytes(time.try_into().expect("8 of 16 bytes"));
        let available_mbps = f64::from_le_bytes(value.try_into().expect("8 of 16 bytes"));
        let time = Timestamp::from_microsecond(time_us).map_err(|_| nonsense())?;
        samples.push(Sample {
            time,
            available_mbps,
        });
    }
    Ok(())
}

/// Splits ascending samples into blocks of [`FULL`], larger only if more fall into one second.
pub(super) fn cut(samples: &[Sample]) -> Vec<&[Sample]> {
    let mut blocks = Vec::new();
    let mut rest = samples;
    while let Some(first) = rest.first() {
        let second = first.time.as_second();
        let mut length = rest.len().min(FULL);
        while length < rest.len() && rest[length].time.as_second() == second {
            length += 1;
        }
        let (block, behind) = rest.split_at(length);
        blocks.push(block);
        rest = behind;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time_us: i64) -> Sample {
        Sample {
            time: Timestamp::from_microsecond(time_us).unwrap(),
            available_mbps: 42.5,
        }
    }

    #[test]
    fn what_was_packed_is_unpacked() {
        let samples = [at(1_078_099_200_000_001), at(1_078_099_500_000_000)];
        let bytes = pack(&samples);
        assert_eq!(bytes.len(), 33);
        let mut unpacked = Vec::new();
        unpack(&bytes, &mut unpacked).unwrap();
        assert_eq!(unpacked, samples);
    }

    #[test]
    fn a_damaged_block_is_an_error() {
        for bytes in [&[][..], &[2], &[1, 0, 0]] {
            assert!(unpack(bytes, &mut Vec::new()).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn no_two_blocks_begin_in_the_same_second() {
        let crowded: Vec<Sample> = (0..700).map(|n| at(n * 2_500)).collect();
        let lengths: Vec<usize> = cut(&crowded).iter().map(|block| block.len()).collect();
        assert_eq!(lengths, [400, 300]);
    }

    #[test]
    fn the_keys_of_a_hop_do_not_reach_into_the_next_hop() {
        let hop = HopId(7);
        assert!(keys(hop).contains(&key(hop, Timestamp::UNIX_EPOCH)));
        assert!(keys(hop).contains(&key(hop, Timestamp::MAX)));
        assert_eq!(*keys(hop).end() + 1, *keys(HopId(8)).start());
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, damaged};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn example() -> Vec<u8> {
        let sample = |second| Sample {
            time: Timestamp::from_second(second).unwrap(),
            available_mbps: 42.5,
        };
        pack(&[sample(1_078_099_200), sample(1_078_099_500)])
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn a_block_that_is_read_is_the_one_that_was_written(bytes in damaged(&[example()])) {
            let mut samples = Vec::new();
            if unpack(&bytes, &mut samples).is_ok() {
                prop_assert_eq!(pack(&samples), bytes);
            }
        }

        #[test]
        fn blocks_hold_all_samples_and_begin_in_seconds_of_their_own(
            gaps_us in vec(prop_oneof![0..2_000_i64, 0..5_000_000_i64], 0..1_500)
        ) {
            let mut time_us = 0;
            let sample = |gap_us: i64| {
                time_us += gap_us;
                let time = Timestamp::from_microsecond(time_us).unwrap();
                Sample { time, available_mbps: 1.0 }
            };
            let samples: Vec<Sample> = gaps_us.into_iter().map(sample).collect();
            let blocks = cut(&samples);
            prop_assert_eq!(blocks.concat(), samples.as_slice());
            let firsts: Vec<i64> = blocks.iter().map(|block| block[0].time.as_second()).collect();
            prop_assert!(firsts.is_sorted_by(|a, b| a < b));
        }
    }
}
