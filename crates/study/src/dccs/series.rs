//! The series of available bandwidth that the tests run over.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use fairwind_advice::{Curve, Sample, Samples};
use flate2::read::GzDecoder;
use jiff::civil::{Date, date};
use jiff::tz::{TimeZone, offset};
use jiff::{SignedDuration, Timestamp};

use super::case::TIMES;
use crate::Error;

/// Available bandwidth over weeks, and its test day.
pub(crate) struct Series {
    /// Its name in tables and in the folder of results.
    pub name: &'static str,
    pub samples: Samples,
    pub test_day: Date,
}

/// Available bandwidth some time after the start of a transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Recorded {
    pub after: Duration,
    pub mbps: f64,
}

/// Kansas without daylight saving, in both series.
pub(crate) fn time_zone() -> TimeZone {
    TimeZone::fixed(offset(-6))
}

impl Series {
    /// The generated curve over the thesis' nine weeks: 1 March 2002 to its test day, Friday 3 May,
    /// and two days more for transfers that end late.
    pub(crate) fn generated() -> Result<Series, Error> {
        let curve = Curve {
            time_zone: time_zone(),
            ..Curve::default()
        };
        let midnight = |day: Date| Ok::<_, Error>(day.to_zoned(time_zone())?.timestamp());
        let samples = curve.samples(midnight(date(2002, 3, 1))?, midnight(date(2002, 5, 6))?);
        Ok(Series {
            name: "generated",
            samples: whole(samples)?,
            test_day: date(2002, 5, 3),
        })
    }

    /// The recorded fortnight `thesis_like.csv.gz`. Its test day is, as in the thesis, a Friday: the later of
    /// its two.
    pub(crate) fn recorded(path: &Path) -> Result<Series, Error> {
        let mut text = String::new();
        let file = File::open(path).map_err(Error::at(path))?;
        GzDecoder::new(file)
            .read_to_string(&mut text)
            .map_err(Error::at(path))?;
        let samples = text.lines().skip(1).map(|line| sample(path, line));
        Ok(Series {
            name: "thesis_like",
            samples: whole(samples.collect::<Result<_, _>>()?)?,
            test_day: date(2004, 3, 12),
        })
    }

    /// The start of the test at this time of day.
    pub(crate) fn start(&self, time: usize) -> Result<Timestamp, Error> {
        let local = self.test_day.to_datetime(TIMES[time].parse()?);
        Ok(local.to_zoned(time_zone())?.timestamp())
    }

    /// The series with `less_mbps` less available: the same curve on a path with more traffic.
    pub(crate) fn with_less(&self, less_mbps: f64) -> Result<Samples, Error> {
        let less = self.samples.all().iter().map(|sample| Sample {
            available_mbps: (sample.available_mbps - less_mbps).max(0.0),
            ..sample
        });
        whole(less.collect())
    }
}

/// What is available from `start` on, for `span`, beginning with the sample that holds at `start`.
pub(crate) fn available(samples: &Samples, start: Timestamp, span: Duration) -> Vec<Recorded> {
    let end = start.checked_add(span).unwrap_or(Timestamp::MAX);
    let first = samples.until(start).last().map(|sample| Recorded {
        after: Duration::ZERO,
        mbps: sample.available_mbps,
    });
    let just_after = start + SignedDuration::from_micros(1);
    let later = samples
        .between(just_after, end)
        .iter()
        .map(|sample| Recorded {
            after: sample.time.duration_since(start).unsigned_abs(),
            mbps: sample.available_mbps,
        });
    first.into_iter().chain(later).collect()
}

fn whole(samples: Vec<Sample>) -> Result<Samples, Error> {
    let (samples, refusals) = Samples::from_unordered(samples, Timestamp::MAX);
    match refusals.total() {
        0 => Ok(samples),
        refused => {
            let why = format!("{refused} samples are refused: {refusals:?}");
            Err(Error::work(why))
        }
    }
}

fn sample(path: &Path, line: &str) -> Result<Sample, Error> {
    let wrong = || {
        let path = path.display();
        Error::input(format!("{path}: not unix time and Mbit/s: {line}"))
    };
    let (time, mbps) = line.split_once(',').ok_or_else(wrong)?;
    Ok(Sample {
        time: Timestamp::from_second(time.parse().map_err(|_| wrong())?)?,
        available_mbps: mbps.parse().map_err(|_| wrong())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_starts_at_the_local_time_of_its_day() {
        let series = Series::generated().unwrap();
        assert_eq!(series.start(3).unwrap().to_string(), "2002-05-03T20:25:00Z");
    }

    #[test]
    fn a_transfer_finds_the_sample_that_holds_at_its_start_first() {
        let series = Series::generated().unwrap();
        let start = series.start(0).unwrap() + SignedDuration::from_secs(60);
        let found = available(&series.samples, start, Duration::from_secs(600));
        let after: Vec<u64> = found.iter().map(|r| r.after.as_secs()).collect();
        assert_eq!(after, [0, 240, 540]);
    }

    #[test]
    fn a_path_that_is_used_more_has_so_much_less() {
        let series = Series::generated().unwrap();
        let less = series.with_less(30.0).unwrap();
        assert_eq!(less.len(), 66 * 288);
        for (all, less) in series.samples.all().iter().zip(less.all().iter()) {
            assert_eq!(less.available_mbps, (all.available_mbps - 30.0).max(0.0));
        }
    }
}
