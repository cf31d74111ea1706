//! A plot of curves over time or over another quantity, such as rates over the sizes of files.

use fairwind_result::series::decimate::Point;

use super::chart::{self, Across, Chart};

/// A plot.
#[derive(Clone, Debug)]
pub struct Plot<'a> {
    /// Heading.
    pub title: &'a str,
    /// What the points are, below the heading.
    pub what: &'a str,
    /// The horizontal axis.
    pub axis: Axis,
    /// Unit of the values.
    pub unit: &'static str,
    /// The curves.
    pub curves: &'a [Curve],
}

/// A horizontal axis, with its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// From 0, in equal steps.
    Linear(&'static str),
    /// From the least to the greatest place of a point, all of which are above 0: twice as much is as far
    /// everywhere. Labels are where points are.
    Logarithmic(&'static str),
}

/// A curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Name in the legend.
    pub name: String,
    /// Index of its colour in the palette.
    pub colour: usize,
    /// Pairs of place and value, neither negative, in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
}

impl Plot<'_> {
    /// The plot as a complete SVG file.
    pub fn svg(&self) -> String {
        let points = self.curves.iter().flat_map(|curve| &curve.points);
        let places: Vec<f64> = points.map(|(place, _)| *place).collect();
        let across = match self.axis {
            Axis::Linear(label) => Across::linear(label, places.into_iter().fold(0.0, f64::max)),
            Axis::Logarithmic(label) => Across::logarithmic(label, places),
        };
        let drawn = |curve: &Curve| chart::Curve {
            name: curve.name.clone(),
            colour: Some(curve.colour),
            points: curve.points.iter().copied().map(Point::from).collect(),
            ..chart::Curve::default()
        };
        let curves = self.curves.iter().map(drawn).collect();
        Chart::new(self.title, self.what, across, self.unit, curves).svg()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(axis: Axis) -> String {
        let curves = [Curve {
            name: "DRS <1>".to_owned(),
            colour: 0,
            points: vec![(1.0, 9.0), (8.0, 42.6), (64.0, 80.1)],
        }];
        let plot = Plot {
            title: "Rate at 95 Mbit/s",
            what: "means",
            axis,
            unit: "Mbit/s",
            curves: &curves,
        };
        plot.svg()
    }

    #[test]
    fn eight_is_half_way_from_one_to_sixty_four_on_a_logarithmic_axis() {
        let svg = plot(Axis::Logarithmic("File (MB)"));
        // From 66 to 862 units.
        assert!(svg.contains("points=\"66.0,"), "{svg}");
        assert!(svg.contains(" 464.0,"), "{svg}");
        for label in [">1<", ">8<", ">64<", "File (MB)", "DRS &lt;1&gt;"] {
            assert!(svg.contains(label), "{label}: {svg}");
        }
    }

    #[test]
    fn a_linear_axis_begins_at_zero() {
        let svg = plot(Axis::Linear("Time (s)"));
        for label in [">0<", ">10<", "Time (s)"] {
            assert!(svg.contains(label), "{label}: {svg}");
        }
    }
}
