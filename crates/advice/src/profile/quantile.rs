//! Tracks a quantile of a stream without storing the stream.
//!
//! After Gibbs and Candès, *Adaptive Conformal Inference Under Distribution Shift* (2021), section 2:
//! an estimate raised in proportion to the wanted coverage for each value above it, and lowered in
//! proportion to its complement for each value below, has that coverage in the long run for any stream.

/// Tracks the value that 80 % of a stream's values do not exceed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Quantile {
    value: f64,
    scale: f64,
    seen: u32,
}

/// Share of the values that should not exceed the quantile.
const COVERAGE: f64 = 0.8;

/// The smallest step, as a share of the mean value.
const SMALLEST_STEP: f64 = 0.03;

/// Number of values that the mean reaches back.
const MEMORY: u32 = 1_000;

impl Quantile {
    /// Adds a value, which must be at least 0.
    pub(super) fn add(&mut self, value: f64) {
        self.seen = self.seen.saturating_add(1);
        self.scale += (value - self.scale) / f64::from(self.seen.min(MEMORY));
        let step = self.scale * (1.0 / f64::from(self.seen).sqrt()).max(SMALLEST_STEP);
        let miss = if value > self.value {
            COVERAGE
        } else {
            COVERAGE - 1.0
        };
        self.value = (self.value + step * miss).max(0.0);
    }

    /// The quantile; None before 10 values.
    pub(super) fn value(&self) -> Option<f64> {
        (self.seen >= 10).then_some(self.value)
    }

    /// Mean of about the last `MEMORY` values; None before 100 values.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.seen >= 100).then_some(self.scale)
    }
}

#[cfg(test)]
mod tests {
    use super::Quantile;

    #[test]
    fn four_of_five_values_lie_within_also_after_the_stream_has_changed() {
        let mut quantile = Quantile::default();
        let (mut within, mut counted) = (0, 0);
        for i in 0_u32..20_000 {
            // 0 to 99 in a mixed order, tenfold in the second half.
            let spread = if i < 10_000 { 1.0 } else { 10.0 };
            let value = f64::from(i * 37 % 100) * spread;
            if let Some(bound) = quantile.value() {
                counted += 1;
                within += u32::from(value <= bound);
            }
            quantile.add(value);
        }
        let coverage = f64::from(within) / f64::from(counted);
        assert!((0.79..=0.81).contains(&coverage), "{coverage}");
    }
}
