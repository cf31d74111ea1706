//! The thesis' model: a straight line through the same time of day of every earlier day
//! (Akarapu 2002, section 3.3).

use std::f64::consts::{PI, SQRT_2};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::calendar::{earlier_days, plus, signed};
use crate::forecast::{Forecast, NoForecast};
use crate::sample::{Samples, Span};
use crate::settings::Settings;

const HOUR_US: f64 = 3.6e9;

/// The forecast for `now + ahead` from the samples up to `now` and no later ones: for every earlier day with
/// data, least squares over [t0, t1]. The mean of the intercepts is the available bandwidth; mean and deviation
/// of the slopes bound its rate of change.
///
/// # Errors
///
/// If no earlier day has two samples after the same time of day.
pub fn forecast(
    samples: &Samples,
    now: Timestamp,
    ahead: Duration,
    settings: &Settings,
) -> Result<Forecast, NoForecast> {
    let known = samples.until(now);
    let oldest = known.iter().next().ok_or(NoForecast::NoSamples)?.time;
    let window = signed(settings.window);
    let days = earlier_days(now, oldest, &settings.time_zone, settings.history_set);
    let fitted = days.filter_map(|start| {
        // The window includes its end. It must not reach beyond `now`, as a window of a day does on
        // a day of 23 hours.
        let end = plus(plus(start, window).min(now), SignedDuration::from_micros(1));
        fit(samples.between(start, end), start)
    });
    let lines: Vec<Line> = fitted.collect();
    let intercept = mean(&lines, |line| Some(line.intercept)).ok_or(NoForecast::NoEarlierDay)?;
    let slope = mean(&lines, |line| Some(line.slope)).ok_or(NoForecast::NoEarlierDay)?;
    let bound = slope_bound(&lines, slope, two_sided(settings.confidence));
    let change = settings.change.mbps(intercept.max(0.0));
    Ok(Forecast {
        available_mbps: (intercept + slope * ahead.as_secs_f64() / 3600.0).max(0.0),
        interval_mbps: None,
        slope_bound_mbps_per_hour: Some(bound),
        r_squared: mean(&lines, |line| line.r_squared),
        days_used: lines.len() as u32,
        next_change_after: settings.bounded_interval(change / bound * 3600.0),
    })
}

/// A straight line through the samples of one day, b = intercept + slope t.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    /// Mbit/s at t0.
    intercept: f64,
    /// Mbit/s per hour.
    slope: f64,
    /// R², the share of the variance that the line explains; None if there is no variance.
    r_squared: Option<f64>,
}

/// Least squares through `span`, with t in hours since `origin`; None for fewer than two samples.
fn fit(span: Span<'_>, origin: Timestamp) -> Option<Line> {
    if span.len() < 2 {
        return None;
    }
    let n = span.len() as f64;
    let hours = |time_us: i64| (time_us - origin.as_microsecond()) as f64 / HOUR_US;
    let mean_t = span.times_us.iter().map(|&t| hours(t)).sum::<f64>() / n;
    let mean_b = span.values_mbps.iter().sum::<f64>() / n;
    // The thesis' sums, taken about the means, which gives the same line without cancellation.
    let (mut tt, mut tb, mut bb) = (0.0, 0.0, 0.0);
    for (&time_us, &value) in span.times_us.iter().zip(span.values_mbps) {
        let (t, b) = (hours(time_us) - mean_t, value - mean_b);
        tt += t * t;
        tb += t * b;
        bb += b * b;
    }
    let slope = tb / tt;
    Some(Line {
        intercept: mean_b - slope * mean_t,
        slope,
        r_squared: (bb > 0.0).then(|| tb * tb / (tt * bb)),
    })
}

/// S = max(|b - t_z s|, |b + t_z s|), where b is the mean of the slopes.
fn slope_bound(lines: &[Line], mean: f64, t_z: f64) -> f64 {
    let spread = t_z * slope_deviation(lines, mean);
    (mean - spread).abs().max((mean + spread).abs())
}

/// Sample standard deviation of the slopes; 0 for a single day.
fn slope_deviation(lines: &[Line], mean: f64) -> f64 {
    if lines.len() < 2 {
        return 0.0;
    }
    let squares: f64 = lines.iter().map(|l| (l.slope - mean).powi(2)).sum();
    (squares / (lines.len() - 1) as f64).sqrt()
}

/// Mean over the lines that have the value.
fn mean(lines: &[Line], value: impl Fn(&Line) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = lines.iter().filter_map(value).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The number of standard deviations on both sides of the mean that enclose the share `confidence` of a
/// normal distribution: 1.96 for 0.95. The confidence is clamped to the range 0 to 0.999_999.
fn two_sided(confidence: f64) -> f64 {
    let confidence = confidence.clamp(0.0, 0.999_999);
    // Newton's method does not overshoot when it starts below the root of a concave function.
    let mut z = 0.0;
    for _ in 0..64 {
        let density = (2.0 / PI).sqrt() * (-z * z / 2.0_f64).exp();
        let step = (confidence - libm::erf(z / SQRT_2)) / density;
        z += step;
        if step.abs() < 1e-12 {
            break;
        }
    }
    z
}

#[cfg(test)]
mod tests {
    use super::two_sided;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (confidence, z) in [
            (0.0, 0.0),
            (0.682_689_492_137, 1.0),
            (0.8, 1.281_551_565_5),
            (0.95, 1.959_963_984_5),
            (0.99, 2.575_829_303_5),
        ] {
            assert!(
                (two_sided(confidence) - z).abs() < 1e-9,
                "{confidence}: {}",
                two_sided(confidence)
            );
        }
    }
}
