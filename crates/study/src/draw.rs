//! Random choices that follow from names: what is drawn for one thing does not depend on what is drawn for another.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::cache::digest;

/// A generator of random choices.
pub(crate) struct Draw(SplitMix64);

impl Draw {
    /// The choices for a part of something.
    pub(crate) fn new(whole: &str, part: &str, seed: u64) -> Draw {
        Draw(SplitMix64::seed_from_u64(digest(
            format!("{whole} {part} {seed}").as_bytes(),
        )))
    }

    /// From 0 to 1.
    pub(crate) fn next(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From `least` to `most`, both likely.
    pub(crate) fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.next()
    }

    /// From `least` to `most`, both above 0, each factor as likely as another.
    pub(crate) fn log_between(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.next())
    }

    /// Whether something of this probability happens.
    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        self.next() < probability
    }

    /// One of these, which are not none.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[((self.next() * all.len() as f64) as usize).min(all.len() - 1)]
    }
}
