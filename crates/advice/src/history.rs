//! The history of a path.

use std::time::Duration;

use jiff::Timestamp;

use crate::forecast::{Forecast, NoForecast};
use crate::profile::{self, Learner};
use crate::sample::{Refusal, Sample, Samples};
use crate::settings::{ModelKind, Settings};
use crate::watch::Role;

/// What is known of one path.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The hops that are watched; often only the narrowest.
    pub hops: Vec<Hop>,
    /// Round-trip time from end to end, as last measured.
    pub rtt: Option<Duration>,
}

/// One hop, its samples, and what was learned of them.
#[derive(Clone, Debug, Default)]
pub struct Hop {
    /// Its name or address.
    pub name: String,
    role: Role,
    samples: Samples,
    learned: Option<Learner>,
    /// For the day that begins next, where the settings ask each day for other samples.
    learned_ahead: Option<Learner>,
}

impl Hop {
    /// A hop with the samples that are there.
    pub fn new(name: impl Into<String>, samples: Samples) -> Self {
        Self {
            name: name.into(),
            samples,
            ..Self::default()
        }
    }

    /// The same hop in another role; without this it is a declared one.
    pub fn with_role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// What its tests are to the advice.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The samples.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Appends a sample, `now` being the clock's time, and learns from it.
    ///
    /// # Errors
    /// Says why the sample was refused; nothing has changed then.
    pub fn insert(&mut self, sample: Sample, now: Timestamp) -> Result<(), Refusal> {
        self.samples.insert(sample, now)?;
        self.learn_new_samples();
        Ok(())
    }

    /// Learns what the model of `settings` needs, so that forecasts take microseconds. The first
    /// time that takes milliseconds, and again when the settings change or, with
    /// [`HistorySet::LastDays`](crate::HistorySet::LastDays), the day; else it returns at once.
    /// Forecasts are the same without it.
    pub fn learn(&mut self, now: Timestamp, settings: &Settings) {
        let fits = |learned: &Learner| learned.fits(now, settings);
        if settings.model == ModelKind::Linear || self.learned.as_ref().is_some_and(fits) {
            return;
        }
        let ahead = self.learned_ahead.take().filter(fits);
        let learned = ahead.unwrap_or_else(|| profile::learned(&self.samples, now, settings));
        self.learned = Some(learned);
    }

    /// Learns as well what forecasts at `then` will need, which may be on the next day, so that
    /// nothing needs to be learned when it comes.
    pub fn learn_ahead(&mut self, now: Timestamp, then: Timestamp, settings: &Settings) {
        self.learn(now, settings);
        if !self.is_learned(then, settings) {
            let known = self.samples.until(now);
            self.learned_ahead = Some(profile::learned_for(known, then, settings));
        }
    }

    /// Whether forecasts of the model of `settings` at `now` need no learning first.
    pub fn is_learned(&self, now: Timestamp, settings: &Settings) -> bool {
        settings.model == ModelKind::Linear || self.fitting(now, settings).is_some()
    }

    /// The settings with the time zone and the history set for which the hop has learned, if it has.
    pub fn learned_for(&self, settings: &Settings) -> Option<Settings> {
        Some(self.learned.as_ref()?.settings(settings))
    }

    /// What was learned that may be asked at `now`.
    fn fitting(&self, now: Timestamp, settings: &Settings) -> Option<&Learner> {
        let mut learned = self.learned.iter().chain(&self.learned_ahead);
        learned.find(|learned| learned.fits(now, settings))
    }

    fn learn_new_samples(&mut self) {
        for learned in self.learned.iter_mut().chain(&mut self.learned_ahead) {
            learned.learn(self.samples.all());
        }
    }

    /// Takes over what `earlier`, a copy of this hop with fewer samples or as many, has learned, and
    /// learns from the samples since; so that learning need not keep forecasts waiting. Whether
    /// `earlier` was such a copy; nothing has changed if not.
    pub fn adopt(&mut self, earlier: Hop) -> bool {
        if !self.samples.begin_with(&earlier.samples) {
            return false;
        }
        self.learned = earlier.learned;
        self.learned_ahead = earlier.learned_ahead;
        self.learn_new_samples();
        true
    }

    /// As [`Samples::forget_future`].
    pub fn forget_future(&mut self, now: Timestamp) -> usize {
        let dropped = self.samples.forget_future(now);
        if dropped > 0 {
            self.learned = None;
            self.learned_ahead = None;
        }
        dropped
    }

    /// As [`Samples::forget_before`]. What was learned stays.
    pub fn forget_before(&mut self, oldest: Timestamp) -> usize {
        self.samples.forget_before(oldest)
    }

    /// The forecast for `now + ahead` by the model of `settings`.
    ///
    /// # Errors
    /// [`NoForecast`] says what is missing.
    pub fn forecast(
        &self,
        now: Timestamp,
        ahead: Duration,
        settings: &Settings,
    ) -> Result<Forecast, NoForecast> {
        match self.fitting(now, settings) {
            Some(learned) if settings.model == ModelKind::Profile => {
                learned.forecast(now, ahead, settings)
            }
            _ => settings
                .model
                .forecaster()
                .forecast(&self.samples, now, ahead, settings),
        }
    }
}
