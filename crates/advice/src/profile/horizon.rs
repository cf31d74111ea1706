//! Forecasts at one horizon, kept until their target time and then scored.

use std::collections::VecDeque;

use super::experts::{self, EXPERTS, Left, Scores};
use super::quantile::Quantile;

const SECOND_US: i64 = 1_000_000;

/// Number of days that scores reach back.
const SCORE_DAYS: i64 = 5;

/// A forecast is scored by the first sample at or after its target time if that is at most this late.
const JUDGED_WITHIN_US: i64 = 600 * SECOND_US;

/// Pending forecasts, and the scores of earlier ones.
#[derive(Clone, Debug)]
pub(super) struct Horizon {
    /// Shares of a residual that remain at this horizon.
    pub left: Left,
    ahead_us: i64,
    /// Minimum time between two forecasts.
    every_us: i64,
    issued: VecDeque<Issued>,
    /// The errors of the experts.
    pub scores: Scores,
    /// The absolute errors of their combination.
    pub margin: Quantile,
}

#[derive(Clone, Debug)]
struct Issued {
    target_us: i64,
    experts: [f64; EXPERTS],
    combined: f64,
}

impl Horizon {
    /// A horizon of `ahead_s` seconds, without forecasts yet.
    pub(super) fn new(ahead_s: i64) -> Self {
        let every_s = (ahead_s / 12).max(240);
        Self {
            left: experts::left_after(ahead_s as f64 / 3600.0),
            ahead_us: ahead_s * SECOND_US,
            every_us: every_s * SECOND_US,
            issued: VecDeque::new(),
            scores: Scores::new((SCORE_DAYS * 86_400 / every_s.max(300)) as u32),
            margin: Quantile::default(),
        }
    }

    /// The target time of a forecast made at `now_us`; None if it is too early for another forecast.
    pub(super) fn due(&self, now_us: i64) -> Option<i64> {
        let target_us = now_us + self.ahead_us;
        let next_us = self
            .issued
            .back()
            .map(|last| last.target_us + self.every_us);
        next_us
            .is_none_or(|next_us| target_us >= next_us)
            .then_some(target_us)
    }

    /// Stores a forecast until its target time.
    pub(super) fn issue(&mut self, target_us: i64, experts: [f64; EXPERTS]) {
        self.issued.push_back(Issued {
            target_us,
            combined: self.scores.combine(&experts),
            experts,
        });
    }

    /// Scores the forecasts for the time of a new sample or shortly before it.
    pub(super) fn score(&mut self, time_us: i64, truth: f64) {
        let is_due = |first: &Issued| first.target_us <= time_us;
        while self.issued.front().is_some_and(is_due) {
            let Some(due) = self.issued.pop_front() else {
                return;
            };
            if time_us - due.target_us <= JUDGED_WITHIN_US {
                self.scores.add(&due.experts, truth);
                self.margin.add((due.combined - truth).abs());
            }
        }
    }
}
