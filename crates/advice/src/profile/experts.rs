//! Simple forecasts, weighted by their recent errors.
//!
//! After Wolski's Network Weather Service (1998), which runs a battery of simple predictors and trusts
//! the best one. Here each is weighted by a high power of its recent mean absolute error.

use super::week::GROUPS;

/// Shares of the residual that remain after an hour.
const LEFT_AFTER_AN_HOUR: [f64; 4] = [0.0, 0.4, 0.7, 0.95];

/// Number of views of the latest samples: the last few, and all recent ones.
pub(super) const VIEWS: usize = 2;

/// Number of forecasts.
pub(super) const EXPERTS: usize = GROUPS * VIEWS * LEFT_AFTER_AN_HOUR.len();

/// The shares of a residual that remain after `hours`.
pub(super) fn left_after(hours: f64) -> Left {
    LEFT_AFTER_AN_HOUR.map(|share| share.powf(hours))
}

/// Shares of a residual, one for each rate of decay.
pub(super) type Left = [f64; LEFT_AFTER_AN_HOUR.len()];

/// The experts' forecasts: the usual value plus a share of the residual, for each combination of group
/// of days, view of the latest samples and rate of decay.
pub(super) fn forecasts(
    usual: [f64; GROUPS],
    residuals: [[f64; VIEWS]; GROUPS],
    left: &Left,
) -> [f64; EXPERTS] {
    let mut all = [0.0; EXPERTS];
    let mut next = all.iter_mut();
    for (usual, residuals) in usual.iter().zip(residuals) {
        for residual in residuals {
            for (left, forecast) in left.iter().zip(&mut next) {
                *forecast = usual + left * residual;
            }
        }
    }
    all
}

/// The experts' recent errors at one horizon.
#[derive(Clone, Debug)]
pub(super) struct Scores {
    mean_errors: [f64; EXPERTS],
    seen: u32,
    /// Number of errors that the mean reaches back.
    memory: u32,
}

impl Scores {
    /// Empty scores that will reach back `memory` errors, at least 1.
    pub(super) fn new(memory: u32) -> Self {
        Self {
            mean_errors: [0.0; EXPERTS],
            seen: 0,
            memory,
        }
    }

    /// Adds the errors of `forecasts`.
    pub(super) fn add(&mut self, forecasts: &[f64; EXPERTS], truth: f64) {
        self.seen = self.seen.saturating_add(1);
        let rate = 1.0 / f64::from(self.seen.min(self.memory));
        for (mean, forecast) in self.mean_errors.iter_mut().zip(forecasts) {
            *mean += rate * ((forecast - truth).abs() - *mean);
        }
    }

    /// The mean of the forecasts, weighted by their errors.
    pub(super) fn combine(&self, forecasts: &[f64; EXPERTS]) -> f64 {
        let best = self.mean_errors.iter().copied().fold(f64::MAX, f64::min);
        let (mut sum, mut weights) = (0.0, 0.0);
        for (mean, forecast) in self.mean_errors.iter().zip(forecasts) {
            // The tiny summand only turns 0 / 0 into 1.
            let ratio = (best + f64::MIN_POSITIVE) / (mean + f64::MIN_POSITIVE);
            let weight = twelfth_power(ratio);
            sum += weight * forecast;
            weights += weight;
        }
        sum / weights
    }
}

/// The weight falls with this power of the error: twice the error leaves hardly any weight.
fn twelfth_power(ratio: f64) -> f64 {
    let square = ratio * ratio;
    let fourth = square * square;
    fourth * fourth * fourth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expert_that_errs_twice_as_much_counts_next_to_nothing() {
        let mut forecasts = [20.0; EXPERTS];
        forecasts[0] = 10.0;
        let mut scores = Scores::new(100);
        scores.add(&forecasts, 0.0);
        // One weighs 1, the others 2^-12: (10 + 23 * 20 / 4096) / (1 + 23 / 4096)
        assert!((scores.combine(&forecasts) - 10.055_839).abs() < 1e-5);
    }

    #[test]
    fn experts_count_alike_before_the_first_error() {
        let mut forecasts = [0.0; EXPERTS];
        forecasts[0] = 24.0;
        assert_eq!(Scores::new(100).combine(&forecasts), 1.0);
    }

    #[test]
    fn residuals_die_away_with_the_horizon() {
        let usual = [10.0, 20.0, 30.0];
        let residuals = [[1.0, 2.0]; GROUPS];
        let now = forecasts(usual, residuals, &left_after(0.0));
        assert_eq!(now[..8], [11.0, 11.0, 11.0, 11.0, 12.0, 12.0, 12.0, 12.0]);
        let later = forecasts(usual, residuals, &left_after(2.0));
        assert_eq!(later[0], 10.0);
        assert!((later[1] - 10.16).abs() < 1e-12);
    }
}
