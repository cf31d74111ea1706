//! A figure: one or several panels, one above the other, with a common horizontal axis.

use fairwind_result::series::decimate::Point;

use super::ticks::Ticks;

/// What a figure of throughput shows.
pub(super) fn throughput_text(interval_s: f64) -> &'static str {
    if interval_s < 1.0 {
        "Throughput in intervals of 100 ms"
    } else {
        "Throughput in intervals of 1 s"
    }
}

/// A figure.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Heading above all panels: the title of the experiment.
    pub title: String,
    /// What the figure shows, below the title.
    pub what: String,
    /// The axis that all panels share.
    pub across: Across,
    /// The panels, from top to bottom.
    pub panels: Vec<Panel>,
}

impl Chart {
    /// A figure of one panel.
    pub fn new(
        title: &str,
        what: &str,
        across: Across,
        unit: &'static str,
        curves: Vec<Curve>,
    ) -> Chart {
        Chart {
            title: title.to_owned(),
            what: what.to_owned(),
            across,
            panels: vec![Panel {
                unit,
                curves,
                ..Panel::default()
            }],
        }
    }
}

/// The horizontal axis.
#[derive(Clone, Debug)]
pub struct Across {
    /// What it shows, and the unit.
    pub label: &'static str,
    /// Value at its left end.
    pub from: f64,
    /// Value at its right end.
    pub to: f64,
    /// Its labels and where they are, from left to right.
    pub labels: Vec<(f64, String)>,
    /// Twice as much is as far everywhere.
    pub logarithmic: bool,
}

impl Across {
    /// From 0 to `to` in equal steps; to 1 if that is not positive.
    pub fn linear(label: &'static str, to: f64) -> Across {
        let to = if to > 0.0 { to } else { 1.0 };
        Across {
            label,
            from: 0.0,
            to,
            labels: Ticks::up_to(to, 10).labels().collect(),
            logarithmic: false,
        }
    }

    /// Time from 0 to `duration_s`, seconds; to 1 if that is not positive.
    pub fn time(duration_s: f64) -> Across {
        Across::linear("Time (s)", duration_s)
    }

    /// Values from `least` to `greatest`, neither negative, extended to round numbers.
    pub(crate) fn values(label: &'static str, least: f64, greatest: f64) -> Across {
        let ticks = Ticks::around(least, greatest, 10);
        Across {
            from: ticks.start(),
            to: ticks.end(),
            labels: ticks.labels().collect(),
            ..Across::linear(label, greatest)
        }
    }

    /// From 0 to the greatest place of a point, in equal steps.
    pub fn all_of(label: &'static str, curves: &[Curve]) -> Across {
        Across::linear(label, places(curves).fold(0.0, f64::max))
    }

    /// A logarithmic axis from the least to the greatest place of a point, all of which are above 0, with
    /// labels at them.
    pub fn logarithmic(label: &'static str, curves: &[Curve]) -> Across {
        let mut places: Vec<f64> = places(curves).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let from = places.first().copied().unwrap_or(1.0);
        let to = places.last().copied().filter(|&to| to > from);
        Across {
            label,
            from,
            to: to.unwrap_or(2.0 * from),
            labels: places.iter().map(|at| (*at, at.to_string())).collect(),
            logarithmic: true,
        }
    }
}

/// The places of all points.
fn places(curves: &[Curve]) -> impl Iterator<Item = f64> {
    let points = curves.iter().flat_map(|curve| &curve.points);
    points.map(|point| point.time_s)
}

/// An area of curves with a vertical axis of its own.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Name above the area, unless empty.
    pub name: String,
    /// Unit of the values.
    pub unit: &'static str,
    /// Which values the vertical axis shows.
    pub scale: Scale,
    /// Spans of the horizontal axis that are shaded: index of the colour, start and end.
    pub spans: Vec<(usize, f64, f64)>,
    /// Areas between two curves.
    pub areas: Vec<Area>,
    /// The curves; later ones are drawn over earlier ones.
    pub curves: Vec<Curve>,
    /// Where packets were lost: crosses above the curves.
    pub losses: Vec<Point>,
    /// Rows of strokes above the area: index of the colour, times in seconds.
    pub strokes: Vec<(usize, Vec<f64>)>,
}

/// Which values a vertical axis shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// From 0 to the greatest value.
    #[default]
    FromZero,
    /// From the least to the greatest value if 0 is far from both.
    Around,
    /// From 0 to 1.
    Share,
}

/// The area between two curves.
#[derive(Clone, Debug, Default)]
pub struct Area {
    /// Index of the colour.
    pub colour: usize,
    /// The lower edge, from left to right.
    pub low: Vec<Point>,
    /// The upper edge, from left to right.
    pub high: Vec<Point>,
}

/// A curve.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Name in the legend, unless empty or already there.
    pub name: String,
    /// Index of the colour; grey if none.
    pub colour: Option<usize>,
    /// How it is drawn.
    pub style: Style,
    /// The points, from left to right.
    pub points: Vec<Point>,
}

/// How a curve is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// From point to point.
    #[default]
    Solid,
    /// From point to point, dashed.
    Dashed,
    /// Level until the next point.
    Steps,
    /// Level until the next point, dashed.
    DashedSteps,
    /// Level until the next point, thin and dashed.
    Threshold,
    /// Level until the next point, thin and dotted: a threshold beside another.
    DottedThreshold,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(across: fn(&'static str, &[Curve]) -> Across, label: &'static str) -> String {
        let points = [(1.0, 9.0), (8.0, 42.6), (64.0, 80.1)];
        let curves = vec![Curve {
            name: "DRS <1>".to_owned(),
            colour: Some(0),
            points: points.map(Point::from).to_vec(),
            ..Curve::default()
        }];
        let across = across(label, &curves);
        Chart::new("Rate at 95 Mbit/s", "means", across, "Mbit/s", curves).svg()
    }

    #[test]
    fn eight_is_half_way_from_one_to_sixty_four_on_a_logarithmic_axis() {
        let svg = plot(Across::logarithmic, "File (MB)");
        // From 66 to 862 units.
        assert!(svg.contains("points=\"66.0,"), "{svg}");
        assert!(svg.contains(" 464.0,"), "{svg}");
        for label in [">1<", ">8<", ">64<", "File (MB)", "DRS &lt;1&gt;"] {
            assert!(svg.contains(label), "{label}: {svg}");
        }
    }

    #[test]
    fn a_linear_axis_begins_at_zero() {
        let svg = plot(Across::all_of, "Time (s)");
        for label in [">0<", ">10<", "Time (s)"] {
            assert!(svg.contains(label), "{label}: {svg}");
        }
    }
}
