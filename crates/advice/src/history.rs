//! The history of a path.

use std::time::Duration;

use jiff::Timestamp;

use crate::sample::{Refusal, Sample, Samples};

/// What is known of one path.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The hops that are watched; often only the narrowest.
    pub hops: Vec<Hop>,
    /// Round-trip time from end to end, as last measured.
    pub rtt: Option<Duration>,
}

/// One hop and its samples.
#[derive(Clone, Debug, Default)]
pub struct Hop {
    /// Its name or address.
    pub name: String,
    samples: Samples,
}

impl Hop {
    /// A hop with the samples that are there.
    pub fn new(name: impl Into<String>, samples: Samples) -> Self {
        Self {
            name: name.into(),
            samples,
        }
    }

    /// The samples.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// Appends a sample, `now` being the clock's time.
    ///
    /// # Errors
    /// Says why the sample was refused; nothing has changed then.
    pub fn insert(&mut self, sample: Sample, now: Timestamp) -> Result<(), Refusal> {
        self.samples.insert(sample, now)
    }
}
