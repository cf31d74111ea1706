//! Draws a [`Chart`] as SVG.

use std::fmt::Write;

use fairwind_result::series::decimate::Point;

use super::chart::{Across, Area, Chart, Curve, Panel, Scale, Style};
use super::ticks::Ticks;
use crate::html::shortened;
use crate::palette;

const WIDTH: f64 = 880.0;
pub(super) const LEFT: f64 = 66.0;
pub(super) const RIGHT: f64 = WIDTH - 18.0;
pub(super) const BOTTOM: f64 = 46.0;
/// Height of a plot of one panel.
pub(super) const HEIGHT: f64 = 400.0;
/// Height of each of several panels, axis to axis.
const PANEL: f64 = 170.0;
/// A panel of at most this height has fewer labels.
const LOW: f64 = 200.0;
/// Room above each of several panels for its name.
const NAME: f64 = 24.0;
/// Room above a panel for each of its rows of strokes.
const STROKES: f64 = 7.0;
/// Baseline of the first line of the legend.
const LEGEND: f64 = 62.0;
const LEGEND_LINE: f64 = 19.0;
/// Names in the legend; the rest is only counted.
const NAMED_AT_MOST: usize = 16;
/// Approximate width of a character in the legend.
const CHARACTER: f64 = 6.9;

/// CSS rules on any background.
const STYLE: &str = "\
    text{font-family:system-ui,'Segoe UI',Roboto,'Helvetica Neue','Noto Sans',sans-serif}\
    polyline{fill:none;stroke-linejoin:round}";

// Writing to a string cannot fail, so the results of `write!` are not looked at.

impl Chart {
    /// The figure as a complete SVG file.
    pub fn svg(&self) -> String {
        let mut body = String::new();
        heading(&mut body, 24.0, 15, &shortened(&self.title, 90));
        text(&mut body, "muted", at(LEFT, 42.0), "", &self.what);
        let top = self.legend(&mut body);
        let height = self.draw_panels(&mut body, top);
        file(&self.title, &self.what, height, &body)
    }

    /// Draws the legend and returns where the plot below it begins.
    fn legend(&self, svg: &mut String) -> f64 {
        let mut named: Vec<&Curve> = Vec::new();
        for curve in self.panels.iter().flat_map(|panel| &panel.curves) {
            if !curve.name.is_empty() && !named.iter().any(|other| other.name == curve.name) {
                named.push(curve);
            }
        }
        let (mut x, mut y) = (LEFT, LEGEND);
        for curve in named.iter().take(NAMED_AT_MOST) {
            let name = shortened(&curve.name, 40);
            let width = 40.0 + CHARACTER * name.chars().count() as f64;
            if x + width > RIGHT && x > LEFT {
                (x, y) = (LEFT, y + LEGEND_LINE);
            }
            let _ = write!(
                svg,
                "<line {} x1=\"{x}\" x2=\"{}\" y1=\"{2}\" y2=\"{2}\" stroke-width=\"2.5\"{3}/>",
                colour(curve.colour),
                x + 18.0,
                y - 4.0,
                dashes(curve.style),
            );
            text(svg, "text", at(x + 24.0, y), "", &name);
            x += width;
        }
        if named.len() > NAMED_AT_MOST {
            let more = format!("and {} more", named.len() - NAMED_AT_MOST);
            text(svg, "muted", at(x, y), "", &more);
        }
        y + 16.0
    }

    /// Draws the panels from `top` on and returns the height of the whole.
    fn draw_panels(&self, svg: &mut String, mut top: f64) -> f64 {
        let mut bottom = HEIGHT - BOTTOM;
        for (at, panel) in self.panels.iter().enumerate() {
            if !panel.name.is_empty() {
                heading(svg, top + NAME - 12.0, 12, &shortened(&panel.name, 100));
                top += NAME - 6.0;
            }
            top += STROKES * panel.strokes.len() as f64;
            if self.panels.len() > 1 {
                bottom = top + PANEL;
            }
            let last = at + 1 == self.panels.len();
            Frame::around(panel, &self.across, top, bottom).draw(svg, panel, last);
            top = bottom + NAME - 6.0;
        }
        bottom + BOTTOM
    }
}

/// The area of a panel and its scales.
struct Frame<'a> {
    top: f64,
    bottom: f64,
    across: &'a Across,
    up: Ticks,
    greatest: f64,
}

impl Frame<'_> {
    /// The area between these heights, scaled to the panel's values.
    fn around<'a>(panel: &Panel, across: &'a Across, top: f64, bottom: f64) -> Frame<'a> {
        let areas = panel.areas.iter().flat_map(|area| &area.high);
        let points = panel.curves.iter().flat_map(|curve| &curve.points);
        let values = points.chain(areas).map(|point| point.value);
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let greatest = values.fold(0.0, f64::max);
        let steps = if bottom - top > LOW { 6 } else { 5 };
        let up = match panel.scale {
            Scale::FromZero => Ticks::up_to(greatest * 1.03, steps),
            Scale::Around => Ticks::around(least, greatest * 1.01, steps),
            Scale::Share => Ticks::up_to(1.0, 5),
        };
        Frame {
            top,
            bottom,
            across,
            up,
            greatest,
        }
    }

    /// Draws the panel; `labelled` adds labels to the horizontal axis.
    fn draw(&self, svg: &mut String, panel: &Panel, labelled: bool) {
        self.axes(svg, panel.unit, labelled);
        for &(colour, from, to) in &panel.spans {
            let edge = |value| [from, to].map(|time_s| Point { time_s, value }).to_vec();
            let (low, high) = (edge(0.0), edge(self.greatest));
            self.area(svg, &Area { colour, low, high });
        }
        for area in &panel.areas {
            self.area(svg, area);
        }
        let width = match panel.curves.len() {
            0..=2 => 1.6,
            3..=10 => 1.2,
            _ => 0.9,
        };
        for curve in &panel.curves {
            self.curve(svg, curve, width);
        }
        for loss in &panel.losses {
            let _ = writeln!(
                svg,
                "<path class=\"loss\" stroke=\"{}\" fill=\"none\" \
                 d=\"M{:.1} {:.1}l5 5m-5 0l5 -5\"/>",
                palette::LOSS_LIGHT,
                self.x(loss.time_s) - 2.5,
                self.y(loss.value) - 2.5
            );
        }
        for (row, (colour, times_s)) in panel.strokes.iter().enumerate() {
            let top = self.top - STROKES * (panel.strokes.len() - row) as f64;
            self.strokes(svg, *colour, times_s, top);
        }
    }

    fn x(&self, value: f64) -> f64 {
        let Across { from, to, .. } = *self.across;
        let share = if self.across.logarithmic {
            (value / from).log2() / (to / from).log2()
        } else {
            (value - from) / (to - from)
        };
        LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * self.up.share(value)
    }

    fn axes(&self, svg: &mut String, unit: &str, labelled: bool) {
        let bottom = self.bottom;
        for (value, label) in self.up.labels() {
            let y = self.y(value);
            line(svg, "grid", [LEFT, RIGHT], [y, y]);
            let end = " text-anchor=\"end\"";
            text(svg, "muted", at(LEFT - 8.0, y + 4.0), end, &label);
        }
        let middle = " text-anchor=\"middle\"";
        let end = self.across.to * (1.0 + 1e-9);
        for (place, label) in self.across.labels.iter().filter(|(place, _)| *place <= end) {
            let x = self.x(*place);
            line(svg, "axis", [x, x], [bottom, bottom + 5.0]);
            if labelled {
                text(svg, "muted", at(x, bottom + 18.0), middle, label);
            }
        }
        line(svg, "axis", [LEFT, RIGHT], [bottom, bottom]);
        if labelled {
            let place = at((LEFT + RIGHT) / 2.0, bottom + 36.0);
            text(svg, "text", place, middle, self.across.label);
        }
        let upwards = format!(
            "transform=\"translate(18 {:.1}) rotate(-90)\"",
            (self.top + bottom) / 2.0
        );
        text(svg, "text", upwards, middle, unit);
    }

    fn curve(&self, svg: &mut String, curve: &Curve, width: f64) {
        if curve.points.is_empty() {
            return;
        }
        let thin = matches!(curve.style, Style::Threshold | Style::DottedThreshold);
        let _ = write!(
            svg,
            "<polyline {} stroke-width=\"{}\"{} points=\"",
            colour(curve.colour),
            if thin { 1.0 } else { width },
            dashes(curve.style),
        );
        let steps = !matches!(curve.style, Style::Solid | Style::Dashed);
        let mut before = None;
        let points = curve.points.iter().flat_map(|point| {
            let (x, y) = (self.x(point.time_s), self.y(point.value));
            let level = before.replace(y).filter(|&level| steps && level != y);
            level.map(|level| (x, level)).into_iter().chain([(x, y)])
        });
        end_points(svg, points);
    }

    fn area(&self, svg: &mut String, area: &Area) {
        if area.low.is_empty() {
            return;
        }
        let fill = palette::light(area.colour);
        let _ = write!(
            svg,
            "<polygon fill=\"{fill}\" fill-opacity=\"0.2\" points=\""
        );
        let points = area.low.iter().chain(area.high.iter().rev());
        let points = points.map(|point| (self.x(point.time_s), self.y(point.value)));
        end_points(svg, points);
    }

    fn strokes(&self, svg: &mut String, number: usize, times_s: &[f64], top: f64) {
        if times_s.is_empty() {
            return;
        }
        let _ = write!(
            svg,
            "<path {} stroke-width=\"0.8\" fill=\"none\" d=\"",
            colour(Some(number))
        );
        let mut before = f64::NEG_INFINITY;
        for &time_s in times_s {
            let x = self.x(time_s);
            // Strokes closer than this cannot be told apart.
            if x - before >= 0.5 {
                let _ = write!(svg, "M{x:.1} {top:.1}v5");
                before = x;
            }
        }
        svg.push_str("\"/>\n");
    }
}

/// A complete SVG file.
pub(super) fn file(title: &str, what: &str, height: f64, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" font-size=\"12\" role=\"img\">\n\
         <title>{}: {}</title>\n<style>{STYLE}{}</style>\n\
         <rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         {body}</svg>\n",
        escape(title),
        escape(what),
        dark_style(),
    )
}

/// Writes points and ends their element.
fn end_points(svg: &mut String, points: impl Iterator<Item = (f64, f64)>) {
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(svg, "{}\"/>", points.join(" "));
}

/// Attributes of a place.
pub(super) fn at(x: f64, y: f64) -> String {
    format!("x=\"{x:.1}\" y=\"{y:.1}\"")
}

/// Text at a place, with further attributes after a space.
pub(super) fn text(svg: &mut String, class: &str, place: String, attributes: &str, content: &str) {
    let fill = if class == "muted" {
        "#60656c"
    } else {
        "#1c2024"
    };
    let content = escape(content);
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" {place}{attributes} fill=\"{fill}\">{content}</text>"
    );
}

/// A bold line of text at the left edge.
pub(super) fn heading(svg: &mut String, y: f64, size: u32, content: &str) {
    let bold = format!(" font-size=\"{size}\" font-weight=\"600\"");
    text(svg, "text", at(LEFT, y), &bold, content);
}

/// A line of an axis or of the grid.
pub(super) fn line(svg: &mut String, class: &str, [x1, x2]: [f64; 2], [y1, y2]: [f64; 2]) {
    let stroke = if class == "grid" {
        "#e6e8eb"
    } else {
        palette::GREY
    };
    let _ = writeln!(
        svg,
        "<line class=\"{class}\" x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y1:.1}\" y2=\"{y2:.1}\" \
         stroke=\"{stroke}\"/>"
    );
}

/// The attribute for dashes with a space before it; empty for a solid curve.
fn dashes(style: Style) -> &'static str {
    match style {
        Style::Solid | Style::Steps => "",
        Style::Dashed | Style::DashedSteps => " stroke-dasharray=\"5 2.5\"",
        Style::Threshold => " stroke-dasharray=\"5 4\"",
        Style::DottedThreshold => " stroke-dasharray=\"1.5 3\"",
    }
}

/// The attributes for the index of a colour: the CSS class, and the colour for a light background.
pub(super) fn colour(number: Option<usize>) -> String {
    match number {
        Some(number) => format!(
            "class=\"c{}\" stroke=\"{}\"",
            number % palette::LIGHT.len(),
            palette::light(number)
        ),
        None => format!("class=\"axis\" stroke=\"{}\"", palette::GREY),
    }
}

/// CSS rules for a dark background; the attributes in the drawing hold the colours for a light one.
fn dark_style() -> String {
    let curves = palette::DARK.iter().enumerate();
    let curves: String = curves
        .map(|(number, colour)| format!(".c{number}{{stroke:{colour}}}"))
        .collect();
    format!(
        "@media (prefers-color-scheme:dark){{.ground{{fill:#15181b}}.text{{fill:#e4e7ea}}\
         .muted{{fill:#9aa1a9}}.grid{{stroke:#2b3035}}.axis{{stroke:#60656c}}\
         .loss{{stroke:{}}}{curves}}}",
        palette::LOSS_DARK
    )
}

/// Escapes `text` for XML; characters that XML does not allow are left out.
pub(super) fn escape(text: &str) -> String {
    let forbidden = |c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}');
    crate::html::escape(&text.replace(forbidden, ""))
}
