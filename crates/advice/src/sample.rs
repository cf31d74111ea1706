//! Samples of available bandwidth, and the checks that they pass to enter the history.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Available bandwidth of a hop, as measured by one test (RFC 5136, section 2.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = SampleEntry))]
pub struct Sample {
    /// When the test was made. The history stores it to the microsecond.
    #[cfg_attr(feature = "schema", schema(value_type = String, format = DateTime))]
    pub time: Timestamp,
    /// Available bandwidth in Mbit/s; in a history, finite and at least 0.
    pub available_mbps: f64,
}

impl Sample {
    /// Checks the sample by itself; `now` is the current time.
    ///
    /// # Errors
    ///
    /// If the value is not finite, above [`LARGEST_MBPS`] or negative, or the time is later than `now`.
    pub fn check(&self, now: Timestamp) -> Result<(), Refusal> {
        if !self.available_mbps.is_finite() || self.available_mbps > LARGEST_MBPS {
            return Err(Refusal::NotANumber);
        }
        if self.available_mbps < 0.0 {
            return Err(Refusal::Negative);
        }
        if self.time > now {
            return Err(Refusal::Future);
        }
        Ok(())
    }
}

/// Upper limit of plausible available bandwidth, in Mbit/s, beyond any link: a sample above it is
/// refused.
pub const LARGEST_MBPS: f64 = 1e9;

/// Why a sample is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// NaN, infinite, or above [`LARGEST_MBPS`].
    #[error("available bandwidth must be a number of at most 10^9 Mbit/s")]
    NotANumber,
    /// Below 0.
    #[error("available bandwidth must not be negative")]
    Negative,
    /// Later than the current time.
    #[error("the sample is in the future")]
    Future,
    /// The history already has a sample of the same microsecond.
    #[error("there is a sample of this time already")]
    Duplicate,
    /// Older than the newest sample.
    #[error("the sample is older than the newest")]
    OutOfOrder,
}

/// How many samples were refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = RefusedSamples))]
pub struct Refusals {
    /// NaN, infinite, above 10^9 Mbit/s, or no number at all.
    pub not_a_number: u64,
    /// Below 0.
    pub negative: u64,
    /// Later than the advisor's clock.
    pub future: u64,
    /// Of a time that is there already.
    pub duplicate: u64,
    /// Older than the newest sample of the hop.
    pub out_of_order: u64,
}

impl Refusals {
    /// Counts one refusal.
    pub fn count(&mut self, refusal: Refusal) {
        *match refusal {
            Refusal::NotANumber => &mut self.not_a_number,
            Refusal::Negative => &mut self.negative,
            Refusal::Future => &mut self.future,
            Refusal::Duplicate => &mut self.duplicate,
            Refusal::OutOfOrder => &mut self.out_of_order,
        } += 1;
    }

    /// The number of all refused samples.
    pub fn total(&self) -> u64 {
        self.not_a_number + self.negative + self.future + self.duplicate + self.out_of_order
    }
}

/// Samples in ascending order of time, at most one for each microsecond, all finite and at least 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    times_us: Vec<i64>,
    values_mbps: Vec<f64>,
}

impl Samples {
    /// An empty history.
    pub fn new() -> Self {
        Self::default()
    }

    /// The accepted samples of a list in any order, such as a file, and the numbers of refused ones. Of
    /// several samples at the same time, the one with the smallest value is kept, so that the result does
    /// not depend on the order.
    pub fn from_unordered(
        samples: impl IntoIterator<Item = Sample>,
        now: Timestamp,
    ) -> (Self, Refusals) {
        let mut sorted: Vec<Sample> = samples.into_iter().collect();
        sorted.sort_by(|a, b| {
            let by_time = a.time.as_microsecond().cmp(&b.time.as_microsecond());
            by_time.then(a.available_mbps.total_cmp(&b.available_mbps))
        });
        let mut kept = Self::new();
        let mut refusals = Refusals::default();
        for sample in sorted {
            if let Err(refusal) = kept.insert(sample, now) {
                refusals.count(refusal);
            }
        }
        (kept, refusals)
    }

    /// Appends `sample`; `now` is the current time.
    ///
    /// # Errors
    ///
    /// If [`Sample::check`] refuses it, or its time is already present or earlier than the newest sample's;
    /// the samples are then unchanged.
    pub fn insert(&mut self, sample: Sample, now: Timestamp) -> Result<(), Refusal> {
        sample.check(now)?;
        let time_us = sample.time.as_microsecond();
        if self.times_us.last().is_some_and(|&last| time_us <= last) {
            return Err(match self.times_us.binary_search(&time_us) {
                Ok(_) => Refusal::Duplicate,
                Err(_) => Refusal::OutOfOrder,
            });
        }
        self.times_us.push(time_us);
        // Adding 0 turns a negative zero into a positive one.
        self.values_mbps.push(sample.available_mbps + 0.0);
        Ok(())
    }

    /// Removes the samples older than `oldest`, so that the history stays bounded, and returns their
    /// number.
    pub fn forget_before(&mut self, oldest: Timestamp) -> usize {
        let first = self.first_at_or_after(oldest.as_microsecond());
        self.times_us.drain(..first);
        self.values_mbps.drain(..first);
        first
    }

    /// Whether these samples begin with all of `earlier`.
    pub fn begin_with(&self, earlier: &Samples) -> bool {
        self.times_us.starts_with(&earlier.times_us)
            && self.values_mbps.starts_with(&earlier.values_mbps)
    }

    /// Whether `sample` is present, with its time to the microsecond.
    pub fn contains(&self, sample: Sample) -> bool {
        let found = self.times_us.binary_search(&sample.time.as_microsecond());
        found.is_ok_and(|at| self.values_mbps[at] == sample.available_mbps)
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.times_us.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.times_us.is_empty()
    }

    /// All samples.
    pub fn all(&self) -> Span<'_> {
        self.span(0, self.len())
    }

    /// The samples with `from <= time < to`.
    pub fn between(&self, from: Timestamp, to: Timestamp) -> Span<'_> {
        let first = self.first_at_or_after(from.as_microsecond());
        let end = self.first_at_or_after(to.as_microsecond());
        self.span(first, end.max(first))
    }

    /// The samples with `time <= now`.
    pub fn until(&self, now: Timestamp) -> Span<'_> {
        let now_us = now.as_microsecond();
        self.span(0, self.times_us.partition_point(|&t| t <= now_us))
    }

    fn first_at_or_after(&self, time_us: i64) -> usize {
        self.times_us.partition_point(|&t| t < time_us)
    }

    fn span(&self, first: usize, end: usize) -> Span<'_> {
        Span {
            times_us: &self.times_us[first..end],
            values_mbps: &self.values_mbps[first..end],
        }
    }
}

/// Consecutive samples of a history.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// Unix time in microseconds, ascending.
    pub times_us: &'a [i64],
    /// Available bandwidth in Mbit/s, one for each time.
    pub values_mbps: &'a [f64],
}

impl<'a> Span<'a> {
    /// The number of samples.
    pub fn len(&self) -> usize {
        self.times_us.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.times_us.is_empty()
    }

    /// The newest sample.
    pub fn last(&self) -> Option<Sample> {
        Some(sample(*self.times_us.last()?, *self.values_mbps.last()?))
    }

    /// The samples in order of time.
    pub fn iter(self) -> impl ExactSizeIterator<Item = Sample> + DoubleEndedIterator + 'a {
        self.times_us
            .iter()
            .zip(self.values_mbps)
            .map(|(&time_us, &value)| sample(time_us, value))
    }
}

fn sample(time_us: i64, available_mbps: f64) -> Sample {
    Sample {
        time: Timestamp::from_microsecond(time_us).expect("it came from a timestamp"),
        available_mbps,
    }
}
