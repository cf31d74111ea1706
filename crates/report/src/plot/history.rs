//! The plot of a path's history: available bandwidth over days.

use fairwind_result::series::decimate::{Point, thinned};

use super::chart::{Across, Chart, Curve, Style};

/// Columns of the plot.
const COLUMNS: usize = 1_600;

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
    let hops = hops.iter().enumerate().map(|(colour, hop)| Curve {
        name: hop.name.clone(),
        colour: Some(colour),
        points: thinned(
            days,
            COLUMNS,
            hop.available.iter().copied().map(Point::from),
        ),
        ..Curve::default()
    });
    let threshold = threshold_mbps.map(|value| Curve {
        name: "threshold".to_owned(),
        style: Style::Dashed,
        points: [0.0, days].map(|time_s| Point { time_s, value }).to_vec(),
        ..Curve::default()
    });
    let across = Across::linear("Time (days)", days);
    let curves = hops.chain(threshold).collect();
    Chart::new(title, "Available bandwidth", across, "Mbit/s", curves).svg()
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
