//! The history of a path.

use std::time::Duration;

use jiff::Timestamp;

use crate::forecast::{Forecast, NoForecast};
use crate::linear;
use crate::profile::{self, Learner};
use crate::sample::{Refusal, Sample, Samples};
use crate::settings::{ModelKind, Settings};

/// The measurements of one path.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The monitored hops; often only the narrowest.
    pub hops: Vec<Hop>,
    /// The latest end-to-end round-trip time.
    pub rtt: Option<Duration>,
}

/// How the tests of a hop enter the advice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Role {
    /// Declared by the operator: without a recent test of it, the path counts as congested.
    #[default]
    Declared,
    /// Known only from a reported test. It decides like a declared one until it has been silent for 12
    /// times its usual interval, and at least for [`Settings::stale_after`].
    Found,
    /// Results of Fairwind's transfers, declared by the operator to be tests: they decide while recent.
    Transfers,
    /// Results of Fairwind's transfers, not declared to be tests: they decide only if no other hop does.
    Makeshift,
}

/// One hop, its samples, and the state that the model learned from them.
#[derive(Clone, Debug, Default)]
pub struct Hop {
    /// Its name or address.
    pub name: String,
    role: Role,
    samples: Samples,
    learned: Option<Learner>,
    /// For the next day, if the history set changes with the day.
    learned_ahead: Option<Learner>,
}

impl Hop {
    /// A hop with its samples so far, in the role [`Role::Declared`].
    pub fn new(name: impl Into<String>, samples: Samples) -> Self {
        Self {
            name: name.into(),
            samples,
            ..Self::default()
        }
    }

    /// The same hop in the given role.
    pub fn with_role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// How its tests enter the advice.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The samples of its tests.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Appends a sample and learns from it; `now` is the current time.
    ///
    /// # Errors
    ///
    /// If [`Samples::insert`] refuses the sample; the hop is then unchanged.
    pub fn insert(&mut self, sample: Sample, now: Timestamp) -> Result<(), Refusal> {
        self.samples.insert(sample, now)?;
        self.learn_new_samples();
        Ok(())
    }

    /// Prepares the model of `settings`, so that forecasts take microseconds. Takes milliseconds the first
    /// time, after a change of settings and, with [`HistorySet::LastDays`](crate::HistorySet::LastDays), of
    /// the day; otherwise returns at once. Forecasts are the same without it, but slower.
    pub fn learn(&mut self, now: Timestamp, settings: &Settings) {
        let fits = |learned: &Learner| learned.fits(now, settings);
        if settings.model == ModelKind::Linear || self.learned.as_ref().is_some_and(fits) {
            return;
        }
        let ahead = self.learned_ahead.take().filter(fits);
        let learned = ahead.unwrap_or_else(|| {
            let known = self.samples.until(now);
            profile::learned(known, now, settings)
        });
        self.learned = Some(learned);
    }

    /// As [`learn`](Self::learn), and also prepares for forecasts at `then`, which may be on the next day,
    /// so that none has to wait for it.
    pub fn learn_ahead(&mut self, now: Timestamp, then: Timestamp, settings: &Settings) {
        self.learn(now, settings);
        if !self.is_learned(then, settings) {
            let known = self.samples.until(now);
            self.learned_ahead = Some(profile::learned(known, then, settings));
        }
    }

    /// Whether forecasts by the model of `settings` at `now` need no further preparation.
    pub fn is_learned(&self, now: Timestamp, settings: &Settings) -> bool {
        settings.model == ModelKind::Linear || self.fitting(now, settings).is_some()
    }

    /// `settings` with the time zone and the history set that the hop has learned for; `None` if it has
    /// not learned.
    pub fn learned_for(&self, settings: &Settings) -> Option<Settings> {
        Some(self.learned.as_ref()?.settings(settings))
    }

    /// The learned state that is valid at `now`.
    fn fitting(&self, now: Timestamp, settings: &Settings) -> Option<&Learner> {
        let mut learned = self.learned.iter().chain(&self.learned_ahead);
        learned.find(|learned| learned.fits(now, settings))
    }

    fn learn_new_samples(&mut self) {
        for learned in self.learned.iter_mut().chain(&mut self.learned_ahead) {
            learned.learn(self.samples.all());
        }
    }

    /// Takes over the learned state of `earlier`, a copy of this hop with at most as many samples, and
    /// learns from the samples since. This allows learning on a copy while this hop keeps forecasting.
    /// Returns false, and changes nothing, if `earlier` is not such a copy.
    pub fn adopt(&mut self, earlier: Hop) -> bool {
        if !self.samples.begin_with(&earlier.samples) {
            return false;
        }
        self.learned = earlier.learned;
        self.learned_ahead = earlier.learned_ahead;
        self.learn_new_samples();
        true
    }

    /// As [`Samples::forget_before`]. The learned state is kept.
    pub fn forget_before(&mut self, oldest: Timestamp) -> usize {
        self.samples.forget_before(oldest)
    }

    /// The forecast for `now + ahead` by the model of `settings`.
    ///
    /// # Errors
    ///
    /// If the history is too short for the model, see [`NoForecast`].
    pub fn forecast(
        &self,
        now: Timestamp,
        ahead: Duration,
        settings: &Settings,
    ) -> Result<Forecast, NoForecast> {
        if settings.model == ModelKind::Linear {
            return linear::forecast(&self.samples, now, ahead, settings);
        }
        match self.fitting(now, settings) {
            Some(learned) => learned.forecast(now, ahead, settings),
            None => profile::learned(self.samples.until(now), now, settings)
                .forecast(now, ahead, settings),
        }
    }
}
