//! The random numbers of a pipe: one stream from one seed.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A stream of random numbers, the same for the same seed on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Uniform in [0, 1), in multiples of 2^-53.
    #[inline]
    pub(crate) fn uniform(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        (self.0.next_u64() >> 11) as f64 * STEP
    }

    /// Standard normal, by the Box-Muller method. Uses the functions of the crate `libm`, so that the
    /// numbers do not depend on the machine's mathematical library.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * libm::log(1.0 - self.uniform())).sqrt();
        radius * libm::cos(2.0 * std::f64::consts::PI * self.uniform())
    }

    /// True with this probability. Draws no number when the answer is certain.
    #[inline]
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            return false;
        }
        probability >= 1.0 || self.uniform() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_same_on_every_machine() {
        let mut random = Random::new(1);
        // The first output of xoshiro256++ seeded by SplitMix64 from 1.
        assert_eq!(random.0.next_u64(), 0xcfc5_d07f_6f03_c29b);
        let mut random = Random::new(1);
        assert_eq!(
            random.uniform(),
            (0xcfc5_d07f_6f03_c29b_u64 >> 11) as f64 / (1u64 << 53) as f64
        );
    }

    #[test]
    fn normal_numbers_have_mean_0_and_variance_1() {
        let mut random = Random::new(7);
        let numbers: Vec<f64> = (0..100_000).map(|_| random.normal()).collect();
        let mean = numbers.iter().sum::<f64>() / 1e5;
        let variance = numbers.iter().map(|x| x * x).sum::<f64>() / 1e5;
        // Four standard deviations of the estimates: 4 / sqrt(10^5), 4 sqrt(2 / 10^5).
        assert!(mean.abs() < 0.0127, "{mean}");
        assert!((variance - 1.0).abs() < 0.0179, "{variance}");
    }

    #[test]
    fn certain_answers_draw_nothing() {
        let mut random = Random::new(7);
        let before = random.clone().0;
        assert!(!random.chance(0.0));
        assert!(random.chance(1.0));
        assert_eq!(random.0, before);
    }
}
