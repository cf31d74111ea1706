//! The plot of a path's history: available bandwidth over days.

use fairwind_result::series::decimate::{Decimator, Point};

use super::figure::{Across, Figure, Line, Panel};
use super::style::Stroke;
use super::ticks::Ticks;

/// Columns of the plot.
const COLUMNS: usize = 1_600;
/// Approximate number of ticks on the horizontal axis.
const STEPS: u32 = 10;

/// The curve of a hop.
#[derive(Clone, Debug, Default)]
pub struct HopCurve {
    /// Name in the legend.
    pub name: String,
    /// Pairs of days since the beginning and Mbit/s, ascending in time.
    pub available: Vec<(f64, f64)>,
}

/// The plot as a complete SVG file: `days` days from the beginning, with a line at the threshold.
pub fn svg(title: &str, days: f64, threshold_mbps: Option<f64>, hops: &[HopCurve]) -> String {
    let days = if days > 0.0 { days } else { 1.0 };
    let curves: Vec<Vec<Point>> = hops.iter().map(|hop| thinned(hop, days)).collect();
    let threshold = threshold_mbps.map(|value| [0.0, days].map(|time_s| Point { time_s, value }));
    let mut lines: Vec<Line<'_>> = hops
        .iter()
        .zip(&curves)
        .enumerate()
        .map(|(colour, (hop, points))| Line {
            name: hop.name.clone(),
            colour: Some(colour),
            stroke: Stroke::SOLID,
            points,
        })
        .collect();
    if let Some(points) = &threshold {
        lines.push(Line {
            name: "threshold".to_owned(),
            colour: None,
            stroke: Stroke::DASHED,
            points,
        });
    }
    let figure = Figure {
        title,
        what: "Available bandwidth",
        across: Across {
            label: "Time (days)",
            from: 0.0,
            to: days,
            labels: Ticks::up_to(days, STEPS).labels().collect(),
        },
        panels: vec![Panel {
            unit: "Mbit/s",
            lines,
            ..Panel::default()
        }],
    };
    figure.svg()
}

fn thinned(hop: &HopCurve, days: f64) -> Vec<Point> {
    let mut decimator = Decimator::new(days, COLUMNS);
    for &(day, mbps) in &hop.available {
        decimator.push(day, mbps);
    }
    decimator.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plot_names_hops_and_threshold() {
        let hop = HopCurve {
            name: "gateway <1>".to_owned(),
            available: vec![(0.0, 40.0), (1.0, 60.0), (2.0, 50.0)],
        };
        let svg = svg("argonne from 2026-03-02", 2.0, Some(42.0), &[hop]);
        for expected in [
            "gateway &lt;1&gt;",
            "threshold",
            "Time (days)",
            "Mbit/s",
            "argonne from",
        ] {
            assert!(svg.contains(expected), "{expected}: {svg}");
        }
    }
}
