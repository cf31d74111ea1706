//! A figure of a page: panels over time, one above the other.

use fairwind_result::series::decimate::Point;

use crate::plot::figure::{Across, Band, Figure, Line, Panel as Drawn, Rug, Scale};
use crate::plot::style::Stroke;

/// A figure.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// Heading above all panels.
    pub title: String,
    /// What the figure shows, below the title.
    pub what: String,
    /// The end of the time axis, which begins at 0; seconds.
    pub until_s: f64,
    /// The panels, from top to bottom.
    pub panels: Vec<Panel>,
}

/// An area of curves with a vertical axis of its own, which begins at 0.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Name above the area, unless empty.
    pub name: String,
    /// Unit of the values.
    pub unit: &'static str,
    /// Time spans shaded from bottom to top: index of the colour, start and end in seconds.
    pub spans: Vec<(usize, f64, f64)>,
    /// Areas between two curves.
    pub areas: Vec<Area>,
    /// The curves; later ones are drawn over earlier ones.
    pub curves: Vec<Curve>,
    /// Rows of strokes above the area: index of the colour, times in seconds.
    pub strokes: Vec<(usize, Vec<f64>)>,
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
    /// Name in the legend, unless empty.
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
    /// Level until the next point, thin and dashed.
    Threshold,
}

impl Chart {
    /// The figure as a complete SVG file.
    pub fn svg(&self) -> String {
        let panels = self.panels.iter().map(Panel::drawn).collect();
        let figure = Figure {
            title: &self.title,
            what: &self.what,
            across: Across::time(self.until_s),
            panels,
        };
        figure.svg()
    }
}

impl Panel {
    fn drawn(&self) -> Drawn<'_> {
        let top = self.top();
        let edge = |from: f64, to: f64, value: f64| {
            vec![
                Point {
                    time_s: from,
                    value,
                },
                Point { time_s: to, value },
            ]
        };
        let spans = self.spans.iter().map(|&(colour, from, to)| Band {
            colour,
            low: edge(from, to, 0.0),
            high: edge(from, to, top),
        });
        let areas = self.areas.iter().map(|area| Band {
            colour: area.colour,
            low: area.low.clone(),
            high: area.high.clone(),
        });
        Drawn {
            name: self.name.clone(),
            unit: self.unit,
            scale: Scale::FromZero,
            bands: spans.chain(areas).collect(),
            lines: self.curves.iter().map(Curve::drawn).collect(),
            marks: Vec::new(),
            rugs: self
                .strokes
                .iter()
                .map(|(colour, times_s)| Rug {
                    colour: *colour,
                    times_s: times_s.clone(),
                })
                .collect(),
        }
    }

    /// The greatest value.
    fn top(&self) -> f64 {
        let curves = self.curves.iter().flat_map(|curve| &curve.points);
        let areas = self.areas.iter().flat_map(|area| &area.high);
        let values = curves.chain(areas).map(|point| point.value);
        values.fold(0.0, f64::max)
    }
}

impl Curve {
    fn drawn(&self) -> Line<'_> {
        Line {
            name: self.name.clone(),
            colour: self.colour,
            stroke: match self.style {
                Style::Solid => Stroke::SOLID,
                Style::Dashed => Stroke::DASHED,
                Style::Steps => Stroke::STEPS,
                Style::Threshold => Stroke::THRESHOLD,
            },
            points: &self.points,
        }
    }
}
