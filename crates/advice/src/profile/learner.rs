//! The learned state of the profile model of one hop, updated with each sample.

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::experts::{self, EXPERTS, Left, Scores};
use super::horizon::Horizon;
use super::recent::Recent;
use super::week::{GROUPS, LocalTime, Week};
use crate::sample::Span;
use crate::settings::{HistorySet, Settings};

/// Samples join the weekly profile at this age, so that the latest residual is not measured against
/// itself.
const JOINS_AFTER_US: i64 = 86_400_000_000;

/// The horizons at which forecasts are scored, in seconds; other horizons are interpolated.
const HORIZONS_S: [i64; 4] = [300, 1_200, 3_600, 14_400];

/// A sample further from its usual value than this many mean errors is clamped to that distance when
/// it joins the profile.
const OUTLIER: f64 = 6.0;

/// The state of the profile model of one hop: the usual week, the latest residuals and the scores.
///
/// It is a function of the samples that it has seen. A sample costs from well under a microsecond to a
/// few microseconds, as does a forecast; the state takes about 25 kB.
#[derive(Clone, Debug)]
pub struct Learner {
    time_zone: TimeZone,
    history_set: HistorySet,
    /// Older samples are ignored.
    since: Timestamp,
    week: Week,
    recent: Recent,
    horizons: [Horizon; HORIZONS_S.len()],
    newest_us: Option<i64>,
    /// Samples up to this time have joined the week.
    joined_us: i64,
    /// Number of local days that have joined, by weekday.
    days: [u32; 7],
    last_day: Option<i32>,
    /// Usual time between samples, in seconds.
    spacing_s: f64,
}

/// The forecast for one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlook {
    /// Available bandwidth in Mbit/s; may be negative.
    pub available_mbps: f64,
    /// Half the width of the 80 % prediction interval, in Mbit/s.
    pub margin_mbps: Option<f64>,
}

impl Learner {
    /// An empty state for forecasts on the local day of `now`.
    pub fn new(now: Timestamp, settings: &Settings) -> Self {
        Self {
            since: oldest_asked(now, settings),
            time_zone: settings.time_zone.clone(),
            history_set: settings.history_set,
            week: Week::new(),
            recent: Recent::default(),
            horizons: HORIZONS_S.map(Horizon::new),
            newest_us: None,
            joined_us: i64::MIN,
            days: [0; 7],
            last_day: None,
            spacing_s: 0.0,
        }
    }

    /// Whether it can forecast at `now` and has learned as `settings` require.
    pub fn fits(&self, now: Timestamp, settings: &Settings) -> bool {
        self.time_zone == settings.time_zone
            && self.history_set == settings.history_set
            && self.since == oldest_asked(now, settings)
            && self.newest().is_none_or(|newest| newest <= now)
    }

    /// `settings` with the time zone and history set that it has learned with.
    pub fn settings(&self, settings: &Settings) -> Settings {
        Settings {
            time_zone: self.time_zone.clone(),
            history_set: self.history_set,
            ..settings.clone()
        }
    }

    /// Time of the newest sample it has seen.
    pub fn newest(&self) -> Option<Timestamp> {
        self.newest_us
            .map(|us| Timestamp::from_microsecond(us).expect("it came from a timestamp"))
    }

    /// The number of earlier days that it is based on.
    pub fn days(&self) -> u32 {
        match (self.history_set, self.newest_us) {
            (HistorySet::SameWeekday, Some(newest)) => {
                self.days[LocalTime::at(newest, &self.time_zone).weekday]
            }
            _ => self.days.iter().sum(),
        }
    }

    /// Usual time between samples, in seconds; 0 before the second one.
    pub fn spacing_s(&self) -> f64 {
        self.spacing_s
    }

    /// Learns from the samples of `known` that are newer than those already seen. `known` must also
    /// contain at least the samples of the day before the new ones.
    pub fn learn(&mut self, known: Span<'_>) {
        let since_us = self.since.as_microsecond();
        let new = match self.newest_us {
            Some(newest) => known.times_us.partition_point(|&t| t <= newest),
            None => known.times_us.partition_point(|&t| t < since_us),
        };
        let unjoined = |&t: &i64| t <= self.joined_us || t < since_us;
        let mut join = known.times_us.partition_point(unjoined);
        for i in new..known.len() {
            let time_us = known.times_us[i];
            while known.times_us[join] <= time_us - JOINS_AFTER_US {
                self.join(known.times_us[join], known.values_mbps[join]);
                join += 1;
            }
            self.observe(time_us, known.values_mbps[i]);
        }
    }

    fn join(&mut self, time_us: i64, value: f64) {
        let local = LocalTime::at(time_us, &self.time_zone);
        let usual = self.week.usual(local);
        let error = self.horizons[2].margin.mean();
        let joining = match (usual, error) {
            (Some(usual), Some(error)) => {
                let usual = usual[GROUPS - 1];
                value.clamp(usual - OUTLIER * error, usual + OUTLIER * error)
            }
            _ => value,
        };
        self.week.add(local, joining);
        self.joined_us = time_us;
        if self.last_day != Some(local.day) {
            self.last_day = Some(local.day);
            self.days[local.weekday] += 1;
        }
    }

    fn observe(&mut self, time_us: i64, value: f64) {
        for horizon in &mut self.horizons {
            horizon.score(time_us, value);
        }
        if let Some(newest) = self.newest_us {
            let gap = (time_us - newest) as f64 / 1e6;
            self.spacing_s = if self.spacing_s == 0.0 {
                gap
            } else {
                self.spacing_s + 0.1 * (gap.min(4.0 * self.spacing_s) - self.spacing_s)
            };
        }
        self.newest_us = Some(time_us);
        let usual = self.usual(time_us);
        self.recent.add(time_us, value, usual);
        for index in 0..self.horizons.len() {
            if let Some(target_us) = self.horizons[index].due(time_us) {
                let forecasts = self.experts(target_us, &self.horizons[index].left);
                self.horizons[index].issue(target_us, forecasts);
            }
        }
    }

    /// The usual values at a time, restricted to the groups that the history set allows.
    fn usual(&self, time_us: i64) -> Option<[f64; GROUPS]> {
        let usual = self.week.usual(LocalTime::at(time_us, &self.time_zone))?;
        Some(match self.history_set {
            HistorySet::SameWeekday => [usual[GROUPS - 1]; GROUPS],
            HistorySet::All | HistorySet::LastDays(_) => usual,
        })
    }

    /// The experts' forecasts for a time at which the shares `left` of the residual remain.
    fn experts(&self, target_us: i64, left: &Left) -> [f64; EXPERTS] {
        match self.usual(target_us).zip(self.recent.residuals()) {
            Some((usual, residuals)) => experts::forecasts(usual, residuals, left),
            // Without a profile yet, forecast the latest level.
            None => {
                let level = self.recent.levels();
                experts::forecasts([0.0; GROUPS], [level; GROUPS], &experts::left_after(0.0))
            }
        }
    }

    /// The scores of a horizon. If samples are too rare to score it, those of the nearest horizon that
    /// could be scored, longer ones first.
    fn scores(&self, horizon: usize) -> &Scores {
        let (shorter, longer) = self.horizons.split_at(horizon);
        longer
            .iter()
            .chain(shorter.iter().rev())
            .find(|h| h.margin.value().is_some())
            .map_or(&self.horizons[horizon].scores, |h| &h.scores)
    }

    /// The margin of a horizon, or of the next longer one that could be scored.
    fn margin(&self, horizon: usize) -> Option<f64> {
        self.horizons[horizon..]
            .iter()
            .find_map(|h| h.margin.value())
    }

    /// The outlook for a time; None before the first sample.
    pub fn outlook(&self, at: Timestamp) -> Option<Outlook> {
        let at_us = at.as_microsecond();
        let ahead_s = (at_us - self.newest_us?) as f64 / 1e6;
        let forecasts = self.experts(at_us, &experts::left_after(ahead_s.max(0.0) / 3600.0));
        let outlook = |i: usize| Outlook {
            available_mbps: self.scores(i).combine(&forecasts),
            margin_mbps: self.margin(i),
        };
        let after = HORIZONS_S.iter().position(|&s| ahead_s <= s as f64);
        let i = match after {
            Some(0) => return Some(outlook(0)),
            None => return Some(outlook(HORIZONS_S.len() - 1)),
            Some(i) => i,
        };
        let (from, to) = (HORIZONS_S[i - 1] as f64, HORIZONS_S[i] as f64);
        let share = (ahead_s - from) / (to - from);
        let between = |a: f64, b: f64| a + share * (b - a);
        let (near, far) = (outlook(i - 1), outlook(i));
        let margins = near.margin_mbps.zip(far.margin_mbps);
        Some(Outlook {
            available_mbps: between(near.available_mbps, far.available_mbps),
            margin_mbps: margins.map(|(near, far)| between(near, far)),
        })
    }
}

/// Start of the history set on the local day of `now`.
fn oldest_asked(now: Timestamp, settings: &Settings) -> Timestamp {
    let HistorySet::LastDays(days) = settings.history_set else {
        return Timestamp::MIN;
    };
    let today = settings.time_zone.to_datetime(now).date();
    today
        .checked_sub(i64::from(days).days())
        .and_then(|first| {
            settings
                .time_zone
                .to_timestamp(first.to_datetime(Time::midnight()))
        })
        .unwrap_or(Timestamp::MIN)
}
