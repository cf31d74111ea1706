//! The average throughput since the start, over all runs of a result.

use fairwind_result::series::decimate::Point;

use super::{Curves, Drawn, STROKES, figure, thinned};
use crate::overlay::side::{Pair, Run};
use crate::plot::figure::{Across, Band, Scale};

/// Points of an average over several runs.
const AVERAGES: usize = 200;

/// The average since the start: the mean over the runs and, if there are several, the band between their
/// least and greatest values.
pub fn figure_of(pair: &Pair) -> Option<Drawn> {
    let panels: Vec<Curves> = pair
        .flows
        .iter()
        .map(|name| {
            let mut curves = Curves::new(name);
            for (at, side) in pair.sides.iter().enumerate() {
                let (mean, band) = over_runs(&side.runs, name, at, pair.duration_s());
                curves.bands.extend(band);
                curves
                    .lines
                    .push((Some(side.label.clone()), at, STROKES[at], mean));
            }
            curves
        })
        .collect();
    let several = pair.sides.iter().any(|side| side.runs.len() > 1);
    let heading = match several {
        true => {
            "Average throughput since the flow’s start; shaded, the least to the most of all seeds"
        }
        false => "Average throughput since the flow’s start",
    };
    figure(
        pair,
        "average_throughput.svg",
        heading,
        Across::time(pair.duration_s()),
        ("Mbit/s", Scale::FromZero),
        &panels,
    )
}

/// Mean, least and greatest of the runs' averages, at times at which all runs have one.
fn over_runs(
    runs: &[Run],
    name: &str,
    colour: usize,
    duration_s: f64,
) -> (Vec<Point>, Option<Band>) {
    let curves: Vec<&[Point]> = runs
        .iter()
        .filter_map(|run| run.flow(name))
        .map(|flow| &*flow.average)
        .collect();
    if let [curve] = curves[..] {
        return (thinned(curve, duration_s), None);
    }
    let mut mean = Vec::new();
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for step in 1..=AVERAGES {
        let time_s = duration_s * step as f64 / AVERAGES as f64;
        let values: Vec<f64> = curves.iter().filter_map(|c| value_at(c, time_s)).collect();
        if values.len() < curves.len() || values.is_empty() {
            continue;
        }
        let at = |value| Point { time_s, value };
        mean.push(at(values.iter().sum::<f64>() / values.len() as f64));
        low.push(at(values.iter().copied().fold(f64::INFINITY, f64::min)));
        high.push(at(values.iter().copied().fold(0.0, f64::max)));
    }
    (mean, Some(Band { colour, low, high }))
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
