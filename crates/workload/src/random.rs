//! Random draws. Each part of a run has a separate generator, so that its draws do not depend on the
//! other parts.
//!
//! The generator is xoshiro256++ (Blackman and Vigna, ACM Transactions on Mathematical Software 47(4),
//! 2021).

use rand::SeedableRng;
use rand_distr::{Distribution, Exp, Pareto};
use rand_xoshiro::Xoshiro256PlusPlus;

use fairwind_path::units::{Bytes, Duration};

/// Draws are cut off at this multiple of the mean: nothing larger can be sent within a run.
const TAIL_MEANS: f64 = 1e4;

/// The seed of part number `index` of a `kind` in a run with `seed`: the FNV-1a hash of the three
/// (Fowler, Noll and Vo), mixed by SplitMix64's last steps (Steele, Lea and Flood, OOPSLA 2014).
pub fn seed_for(seed: u64, kind: &str, index: usize) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let bytes = kind
        .bytes()
        .chain(seed.to_le_bytes())
        .chain((index as u64).to_le_bytes());
    for byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// A stream of random numbers.
#[derive(Debug)]
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// An exponentially distributed duration. Draws no number if `mean` is 0.
    pub(crate) fn exponential(&mut self, mean: Duration) -> Duration {
        if mean == Duration::ZERO {
            return mean;
        }
        let draw = Exp::new(1.0).expect("1 is a rate").sample(&mut self.0);
        Duration::from_secs_f64(mean.as_secs_f64() * draw)
    }

    /// A Pareto-distributed size with the given mean and shape, which must be above 1. At least one byte
    /// and at most `TAIL_MEANS` means.
    pub(crate) fn pareto(&mut self, mean: Bytes, shape: f64) -> u64 {
        let mean = mean.0 as f64;
        let scale = mean * (shape - 1.0) / shape;
        let size = match Pareto::new(scale, shape) {
            Ok(sizes) => sizes.sample(&mut self.0).min(TAIL_MEANS * mean),
            Err(_) => mean,
        };
        size.max(1.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_differ_by_run_kind_and_index_and_stay_what_they_are() {
        assert_eq!(seed_for(1, "application", 0), 0xed1c_15ca_4093_062d);
        assert_eq!(seed_for(2, "application", 0), 0x50e8_bac3_0d0c_06a5);
        assert_eq!(seed_for(1, "pipe", 0), 0x95dd_77b8_920d_df0a);
        assert_eq!(seed_for(1, "application", 1), 0x54a2_8050_e7dc_474b);
    }

    #[test]
    fn objects_have_the_mean_size() {
        let mut random = Random::new(3);
        let sum: u64 = (0..20_000).map(|_| random.pareto(Bytes(10_000), 2.5)).sum();
        let mean = sum as f64 / 20_000.0;
        // Three standard deviations of the estimate: 3 * 10,000 / sqrt(2.5 * 0.5 * 20,000).
        assert!((9_810.0..10_190.0).contains(&mean), "mean {mean}");
    }

    #[test]
    fn the_tail_of_the_sizes_is_cut() {
        let mut random = Random::new(3);
        let largest = (0..10_000).map(|_| random.pareto(Bytes(100), 1.001)).max();
        assert!(largest <= Some(1_000_000), "{largest:?}");
    }

    #[test]
    fn lengths_have_the_mean() {
        let mut random = Random::new(3);
        let mean = Duration::from_millis(100);
        let sum: f64 = (0..20_000)
            .map(|_| random.exponential(mean).as_secs_f64())
            .sum();
        // Three standard deviations of the estimate: 3 * 0.1 / sqrt(20,000).
        let mean = sum / 20_000.0;
        assert!((0.0979..0.1021).contains(&mean), "mean {mean}");
    }

    #[test]
    fn no_think_time_draws_nothing() {
        let mut random = Random::new(3);
        let before = random.0.clone();
        assert_eq!(random.exponential(Duration::ZERO), Duration::ZERO);
        assert_eq!(random.0, before);
    }
}
