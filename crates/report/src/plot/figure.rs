//! A plot as SVG: one or several panels, one above the other, with a common horizontal axis.

use std::fmt::Write;

use fairwind_result::series::decimate::Point;

use super::frame::Frame;
use super::style::{STYLE, Stroke, colour, dark_style, escape, shortened};
use super::ticks::Ticks;

pub const WIDTH: f64 = 880.0;
pub const LEFT: f64 = 66.0;
pub const RIGHT: f64 = 18.0;
const BOTTOM: f64 = 46.0;
/// Height of a plot of one panel.
const HEIGHT: f64 = 400.0;
/// Height of each of several panels, axis to axis.
const PANEL: f64 = 170.0;
/// Room above each of several panels for its name.
const NAME: f64 = 24.0;
/// Room above a panel for each of its rugs.
pub const RUG: f64 = 7.0;
/// Baseline of the first line of the legend.
const LEGEND: f64 = 62.0;
const LEGEND_LINE: f64 = 19.0;
/// Names in the legend; the rest is only counted.
const NAMED_AT_MOST: usize = 16;
/// Approximate width of a character in the legend.
const CHARACTER: f64 = 6.9;

/// A plot.
pub struct Figure<'a> {
    /// Title of the experiment.
    pub title: &'a str,
    /// What the plot shows.
    pub what: &'a str,
    /// The axis that all panels share.
    pub across: Across,
    /// The panels, from top to bottom.
    pub panels: Vec<Panel<'a>>,
}

/// The horizontal axis.
pub struct Across {
    /// What it shows, and the unit.
    pub label: &'static str,
    /// Value at its left end.
    pub from: f64,
    /// Value at its right end.
    pub to: f64,
    /// Its labels and where they are, from left to right.
    pub labels: Vec<(f64, String)>,
}

impl Across {
    /// Time from 0 to `duration_s`, seconds; to 1 if that is not positive.
    pub fn time(duration_s: f64) -> Across {
        let to = if duration_s > 0.0 { duration_s } else { 1.0 };
        Across {
            label: "Time (s)",
            from: 0.0,
            to,
            labels: Ticks::up_to(to, 10).labels().collect(),
        }
    }

    /// Values from `least` to `greatest`, neither negative, extended to round numbers.
    pub fn values(label: &'static str, least: f64, greatest: f64) -> Across {
        let ticks = Ticks::around(least, greatest, 10);
        Across {
            label,
            from: ticks.start(),
            to: ticks.end(),
            labels: ticks.labels().collect(),
        }
    }
}

/// An area of curves with a vertical axis of its own.
#[derive(Default)]
pub struct Panel<'a> {
    /// Name above the area, unless empty.
    pub name: String,
    /// Unit of the values.
    pub unit: &'static str,
    /// Which values the vertical axis shows.
    pub scale: Scale,
    /// Shaded areas below the curves.
    pub bands: Vec<Band>,
    /// The curves; later ones are drawn over earlier ones.
    pub lines: Vec<Line<'a>>,
    /// Where packets were lost: crosses above the curves.
    pub marks: Vec<Point>,
    /// Rows of short strokes above the area.
    pub rugs: Vec<Rug>,
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

/// A curve.
pub struct Line<'a> {
    /// Name in the legend, unless empty or already there.
    pub name: String,
    /// Index of the colour; grey if none.
    pub colour: Option<usize>,
    /// How it is drawn.
    pub stroke: Stroke,
    /// From left to right.
    pub points: &'a [Point],
}

/// The area between two curves.
#[derive(Clone)]
pub struct Band {
    /// Index of the colour.
    pub colour: usize,
    /// The lower edge, from left to right.
    pub low: Vec<Point>,
    /// The upper edge, from left to right.
    pub high: Vec<Point>,
}

/// A row of strokes, one for each time at which something happened.
#[derive(Clone)]
pub struct Rug {
    /// Index of the colour.
    pub colour: usize,
    /// The times, in seconds.
    pub times_s: Vec<f64>,
}

impl Figure<'_> {
    /// The plot as a complete SVG file.
    pub fn svg(&self) -> String {
        let mut body = String::new();
        let top = self.legend(&mut body);
        let height = self.draw_panels(&mut body, top);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" font-size=\"12\" role=\"img\">\n\
             <title>{}: {}</title>\n<style>{STYLE}{}</style>\n\
             <rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
             <text class=\"text\" x=\"{LEFT}\" y=\"24\" font-size=\"15\" font-weight=\"600\" \
             fill=\"#1c2024\">{}</text>\n\
             <text class=\"muted\" x=\"{LEFT}\" y=\"42\" fill=\"#60656c\">{}</text>\n\
             {body}</svg>\n",
            escape(self.title),
            escape(self.what),
            dark_style(),
            escape(&shortened(self.title, 90)),
            escape(self.what),
        )
    }

    /// Draws the panels from `top` on and returns the height of the whole.
    fn draw_panels(&self, svg: &mut String, top: f64) -> f64 {
        let several = self.panels.len() > 1;
        let mut top = top;
        let mut bottom = HEIGHT - BOTTOM;
        for (at, panel) in self.panels.iter().enumerate() {
            if !panel.name.is_empty() {
                let _ = writeln!(
                    svg,
                    "<text class=\"text\" x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"600\" \
                     fill=\"#1c2024\">{}</text>",
                    top + NAME - 12.0,
                    escape(&shortened(&panel.name, 100))
                );
                top += NAME - 6.0;
            }
            top += RUG * panel.rugs.len() as f64;
            if several {
                bottom = top + PANEL;
            }
            let last = at + 1 == self.panels.len();
            let frame = Frame::around(panel, &self.across, top, bottom);
            frame.panel(svg, panel, last);
            top = bottom + NAME - 6.0;
        }
        bottom + BOTTOM
    }

    /// Draws the legend and returns where the plot below it begins.
    fn legend(&self, svg: &mut String) -> f64 {
        let mut named: Vec<&Line> = Vec::new();
        for line in self.panels.iter().flat_map(|panel| &panel.lines) {
            if !line.name.is_empty() && !named.iter().any(|other| other.name == line.name) {
                named.push(line);
            }
        }
        let (mut x, mut y) = (LEFT, LEGEND);
        for line in named.iter().take(NAMED_AT_MOST) {
            let name = shortened(&line.name, 40);
            let (class, colour) = colour(line.colour);
            let width = 40.0 + CHARACTER * name.chars().count() as f64;
            if x + width > WIDTH - RIGHT && x > LEFT {
                (x, y) = (LEFT, y + LEGEND_LINE);
            }
            // Writing to a string cannot fail.
            let _ = writeln!(
                svg,
                "<line class=\"{}\" x1=\"{x}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" stroke=\"{}\" \
                 stroke-width=\"2.5\"{}/><text class=\"text\" x=\"{}\" y=\"{y}\" \
                 fill=\"#1c2024\">{}</text>",
                class,
                x + 18.0,
                y - 4.0,
                y - 4.0,
                colour,
                line.stroke.dash_attribute(),
                x + 24.0,
                escape(&name)
            );
            x += width;
        }
        if named.len() > NAMED_AT_MOST {
            let _ = writeln!(
                svg,
                "<text class=\"muted\" x=\"{x}\" y=\"{y}\" fill=\"#60656c\">and {} more</text>",
                named.len() - NAMED_AT_MOST
            );
        }
        y + 16.0
    }
}
