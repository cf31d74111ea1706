//! The latest samples and their residuals, the differences from the usual values.

use std::collections::VecDeque;

use super::experts::VIEWS;
use super::week::GROUPS;

/// Samples are recent up to this age, in microseconds, at the time of the newest sample.
const REACH_US: i64 = 1_800_000_000;

/// Samples closer than this, in microseconds, count as one.
const MERGE_US: i64 = 60_000_000;

/// Maximum number of recent samples: one a minute, and one at each end.
const MOST: usize = (REACH_US / MERGE_US) as usize + 2;

/// Number of samples in the short view.
const SHORT: usize = 3;

/// The samples of the last half hour.
#[derive(Clone, Debug, Default)]
pub(super) struct Recent {
    samples: VecDeque<RecentSample>,
    levels: [f64; VIEWS],
    residuals: Option<[[f64; VIEWS]; GROUPS]>,
}

#[derive(Clone, Copy, Debug)]
struct RecentSample {
    start_us: i64,
    /// Mean of the merged samples.
    value: f64,
    count: f64,
    usual: Option<[f64; GROUPS]>,
}

impl Recent {
    /// Adds a sample newer than the others, with the usual values at its time.
    pub(super) fn add(&mut self, time_us: i64, value: f64, usual: Option<[f64; GROUPS]>) {
        let is_old = |s: &RecentSample| s.start_us < time_us - REACH_US;
        while self.samples.front().is_some_and(is_old) {
            self.samples.pop_front();
        }
        match self.samples.back_mut() {
            Some(last) if time_us - last.start_us < MERGE_US => {
                last.count += 1.0;
                last.value += (value - last.value) / last.count;
            }
            _ => self.samples.push_back(RecentSample {
                start_us: time_us,
                value,
                count: 1.0,
                usual,
            }),
        }
        self.levels = self.views(|s| s.value);
        self.residuals = self.median_residuals();
    }

    /// For each group of days, the residual of the last few samples and of all recent ones. Each is a
    /// median, so that a single spike does not count. None while a recent sample has no usual value.
    pub(super) fn residuals(&self) -> Option<[[f64; VIEWS]; GROUPS]> {
        self.residuals
    }

    /// The level of the last few samples and of all recent ones; 0 before the first sample.
    pub(super) fn levels(&self) -> [f64; VIEWS] {
        self.levels
    }

    fn median_residuals(&self) -> Option<[[f64; VIEWS]; GROUPS]> {
        if self.samples.iter().any(|s| s.usual.is_none()) {
            return None;
        }
        let mut residuals = [[0.0; VIEWS]; GROUPS];
        for (group, views) in residuals.iter_mut().enumerate() {
            *views = self.views(|s| s.value - s.usual.map_or(0.0, |usual| usual[group]));
        }
        Some(residuals)
    }

    fn views(&self, of: impl Fn(&RecentSample) -> f64) -> [f64; VIEWS] {
        let mut values = [0.0; MOST];
        let count = self.samples.len().min(MOST);
        for (value, sample) in values.iter_mut().zip(self.samples.iter().rev()) {
            *value = of(sample);
        }
        [
            median(&mut values[..count.min(SHORT)]),
            median(&mut values[..count]),
        ]
    }
}

/// The median; for an even count, the mean of the middle two; 0 if empty.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}
