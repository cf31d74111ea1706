//! The mean of the curves of several runs.

use fairwind_result::series::decimate::Point;

/// Points of a mean.
const POINTS: u32 = 200;

/// Mean, least and greatest value of several curves over time.
#[derive(Default)]
pub(super) struct Average {
    pub mean: Vec<Point>,
    pub low: Vec<Point>,
    pub high: Vec<Point>,
}

impl Average {
    /// Of these curves, at times up to `duration_s` at which all have a value.
    pub(super) fn of(curves: &[&[Point]], duration_s: f64) -> Average {
        let mut average = Average::default();
        for step in 1..=POINTS {
            let time_s = duration_s * f64::from(step) / f64::from(POINTS);
            let values: Option<Vec<f64>> = curves.iter().map(|c| value_at(c, time_s)).collect();
            let Some(values) = values.filter(|values| !values.is_empty()) else {
                continue;
            };
            let at = |value| Point { time_s, value };
            let sum: f64 = values.iter().sum();
            average.mean.push(at(sum / values.len() as f64));
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            average.low.push(at(least));
            average
                .high
                .push(at(values.into_iter().fold(0.0, f64::max)));
        }
        average
    }
}

/// The value of a curve at a time, linearly interpolated; none outside the curve.
fn value_at(curve: &[Point], time_s: f64) -> Option<f64> {
    let after = curve.partition_point(|point| point.time_s < time_s);
    let right = curve.get(after)?;
    let Some(left) = after.checked_sub(1).map(|at| curve[at]) else {
        return (right.time_s == time_s).then_some(right.value);
    };
    let share = (time_s - left.time_s) / (right.time_s - left.time_s);
    Some(left.value + share * (right.value - left.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_straight_between_its_points_and_nothing_outside() {
        let at = |time_s, value| Point { time_s, value };
        let curve = [at(1.0, 10.0), at(3.0, 20.0)];
        assert_eq!(value_at(&curve, 0.9), None);
        assert_eq!(value_at(&curve, 1.0), Some(10.0));
        assert_eq!(value_at(&curve, 2.0), Some(15.0));
        assert_eq!(value_at(&curve, 3.0), Some(20.0));
        assert_eq!(value_at(&curve, 3.1), None);
    }
}
