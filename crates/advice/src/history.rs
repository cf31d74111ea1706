//! The history of a path.

use std::time::Duration;

use jiff::Timestamp;

use crate::forecast::{Forecast, NoForecast};
use crate::profile::{self, Learner};
use crate::sample::{Refusal, Sample, Samples};
use crate::settings::{ModelKind, Settings};

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
    samples: Samples,
    learned: Option<Learner>,
}

impl Hop {
    /// A hop with the samples that are there.
    pub fn new(name: impl Into<String>, samples: Samples) -> Self {
        Self {
            name: name.into(),
            samples,
            learned: None,
        }
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
        if let Some(learned) = &mut self.learned {
            learned.learn(self.samples.all());
        }
        Ok(())
    }

    /// Learns what the model of `settings` needs, so that forecasts take microseconds. The first
    /// time that takes milliseconds, and again when the settings change or, with
    /// [`HistorySet::LastDays`](crate::HistorySet::LastDays), the day; else it returns at once.
    /// Forecasts are the same without it.
    pub fn learn(&mut self, now: Timestamp, settings: &Settings) {
        if !self.is_learned(now, settings) {
            self.learned = Some(profile::learned(&self.samples, now, settings));
        }
    }

    /// Whether forecasts of the model of `settings` at `now` need no learning first.
    pub fn is_learned(&self, now: Timestamp, settings: &Settings) -> bool {
        match settings.model {
            ModelKind::Linear => true,
            ModelKind::Profile => self.learned.as_ref().is_some_and(|l| l.fits(now, settings)),
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
        if let Some(learned) = &mut self.learned {
            learned.learn(self.samples.all());
        }
        true
    }

    /// As [`Samples::forget_future`].
    pub fn forget_future(&mut self, now: Timestamp) -> usize {
        let dropped = self.samples.forget_future(now);
        if dropped > 0 {
            self.learned = None;
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
        match &self.learned {
            Some(learned)
                if settings.model == ModelKind::Profile && learned.fits(now, settings) =>
            {
                learned.forecast(now, ahead, settings)
            }
            _ => settings
                .model
                .forecaster()
                .forecast(&self.samples, now, ahead, settings),
        }
    }
}
