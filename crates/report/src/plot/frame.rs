//! The area of a panel's curves and its scales.

use std::fmt::Write;

use fairwind_result::series::decimate::Point;

use super::figure::{Across, Band, LEFT, Line, Panel, RIGHT, RUG, Rug, Scale, WIDTH};
use super::palette;
use super::style::{colour, escape};
use super::ticks::Ticks;

/// An area of at most this height has fewer labels.
const LOW: f64 = 200.0;

/// The area of a panel.
pub struct Frame<'a> {
    top: f64,
    bottom: f64,
    across: &'a Across,
    up: Ticks,
}

impl Frame<'_> {
    /// The area between these heights, scaled to the panel's values.
    pub fn around<'a>(panel: &Panel<'_>, across: &'a Across, top: f64, bottom: f64) -> Frame<'a> {
        let bands = panel.bands.iter().flat_map(|band| &band.high);
        let points = panel.lines.iter().flat_map(|line| line.points).chain(bands);
        let (least, greatest) = points.fold((f64::INFINITY, 0.0_f64), |(least, most), point| {
            (least.min(point.value), most.max(point.value))
        });
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
        }
    }

    /// Draws the panel; `labelled` adds labels to the horizontal axis.
    pub fn panel(&self, svg: &mut String, panel: &Panel<'_>, labelled: bool) {
        self.axes(svg, panel.unit, labelled);
        for band in &panel.bands {
            self.band(svg, band);
        }
        let width = match panel.lines.len() {
            0..=2 => 1.6,
            3..=10 => 1.2,
            _ => 0.9,
        };
        for line in &panel.lines {
            self.line(svg, line, width);
        }
        for &mark in &panel.marks {
            self.mark(svg, mark);
        }
        for (row, rug) in panel.rugs.iter().enumerate() {
            let top = self.top - RUG * (panel.rugs.len() - row) as f64;
            self.rug(svg, rug, top);
        }
    }

    fn x(&self, value: f64) -> f64 {
        let share = (value - self.across.from) / (self.across.to - self.across.from);
        LEFT + (WIDTH - LEFT - RIGHT) * share.clamp(0.0, 1.0)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * self.up.share(value)
    }

    fn axes(&self, svg: &mut String, unit: &str, labelled: bool) {
        let (right, bottom) = (WIDTH - RIGHT, self.bottom);
        for (value, label) in self.up.labels() {
            let y = self.y(value);
            // Writing to a string cannot fail.
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" \
                 stroke=\"#e6e8eb\"/><text class=\"muted\" x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\" fill=\"#60656c\">{label}</text>",
                LEFT - 8.0,
                y + 4.0
            );
        }
        for &(value, ref label) in &self.across.labels {
            if value > self.across.to * (1.0 + 1e-9) {
                break;
            }
            let x = self.x(value);
            let _ = write!(
                svg,
                "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{}\" \
                 stroke=\"#9aa1a9\"/>",
                bottom + 5.0,
            );
            if labelled {
                let _ = write!(
                    svg,
                    "<text class=\"muted\" x=\"{x:.1}\" y=\"{}\" \
                     text-anchor=\"middle\" fill=\"#60656c\">{label}</text>",
                    bottom + 18.0
                );
            }
            svg.push('\n');
        }
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\" \
             stroke=\"#9aa1a9\"/>"
        );
        if labelled {
            let _ = write!(
                svg,
                "<text class=\"text\" x=\"{}\" y=\"{}\" text-anchor=\"middle\" \
                 fill=\"#1c2024\">{}</text>",
                (LEFT + right) / 2.0,
                bottom + 36.0,
                escape(self.across.label)
            );
        }
        let middle = (self.top + bottom) / 2.0;
        let _ = writeln!(
            svg,
            "<text class=\"text\" transform=\"translate(18 {middle:.1}) rotate(-90)\" \
             text-anchor=\"middle\" fill=\"#1c2024\">{}</text>",
            escape(unit)
        );
    }

    fn line(&self, svg: &mut String, line: &Line<'_>, width: f64) {
        if line.points.is_empty() {
            return;
        }
        let width = if line.stroke.thin { 1.0 } else { width };
        let (class, colour) = colour(line.colour);
        let _ = write!(
            svg,
            "<polyline class=\"{class}\" stroke=\"{colour}\" stroke-width=\"{width}\"{} \
             points=\"",
            line.stroke.dash_attribute(),
        );
        let mut before = None;
        for point in line.points {
            let (x, y) = (self.x(point.time_s), self.y(point.value));
            if let Some(level) = before.filter(|&level| line.stroke.steps && level != y) {
                let _ = write!(svg, "{x:.1},{level:.1} ");
            }
            let _ = write!(svg, "{x:.1},{y:.1} ");
            before = Some(y);
        }
        svg.truncate(svg.trim_end().len());
        svg.push_str("\"/>\n");
    }

    fn band(&self, svg: &mut String, band: &Band) {
        if band.low.is_empty() {
            return;
        }
        let (_, colour) = colour(Some(band.colour));
        let _ = write!(
            svg,
            "<polygon fill=\"{colour}\" fill-opacity=\"0.2\" points=\""
        );
        for point in band.low.iter().chain(band.high.iter().rev()) {
            let _ = write!(
                svg,
                "{:.1},{:.1} ",
                self.x(point.time_s),
                self.y(point.value)
            );
        }
        svg.truncate(svg.trim_end().len());
        svg.push_str("\"/>\n");
    }

    fn mark(&self, svg: &mut String, mark: Point) {
        let (x, y) = (self.x(mark.time_s), self.y(mark.value));
        let _ = writeln!(
            svg,
            "<path class=\"loss\" stroke=\"{}\" fill=\"none\" d=\"M{:.1} {:.1}l5 5m-5 0l5 -5\"/>",
            palette::LOSS_LIGHT,
            x - 2.5,
            y - 2.5
        );
    }

    fn rug(&self, svg: &mut String, rug: &Rug, top: f64) {
        if rug.times_s.is_empty() {
            return;
        }
        let (class, colour) = colour(Some(rug.colour));
        let _ = write!(
            svg,
            "<path class=\"{class}\" stroke=\"{colour}\" stroke-width=\"0.8\" fill=\"none\" d=\""
        );
        let mut before = f64::NEG_INFINITY;
        for &time_s in &rug.times_s {
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
