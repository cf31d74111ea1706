//! One plot over time as SVG.

use std::fmt::Write;

use super::palette;
use super::ticks::Ticks;
use crate::series::decimate::Point;

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 18.0;
const BOTTOM: f64 = 46.0;
/// Baseline of the first line of the legend.
const LEGEND: f64 = 62.0;
const LEGEND_LINE: f64 = 19.0;
/// Names in the legend; beyond, it says how many more there are.
const NAMED_AT_MOST: usize = 16;
/// Width of a character of the legend, about.
const CHARACTER: f64 = 6.9;

const STYLE: &str = "\
    text{font-family:system-ui,'Segoe UI',Roboto,'Helvetica Neue','Noto Sans',sans-serif}\
    polyline{fill:none;stroke-linejoin:round}";

/// A plot over time.
pub struct Figure<'a> {
    /// Title of the experiment.
    pub title: &'a str,
    /// What is drawn.
    pub what: &'a str,
    /// Unit of the values.
    pub unit: &'static str,
    /// End of the time axis, seconds.
    pub duration_s: f64,
    /// The curves, the first ones below.
    pub lines: Vec<Line<'a>>,
    /// Where packets were lost: crosses above the curves.
    pub marks: Vec<Point>,
}

/// A curve.
pub struct Line<'a> {
    /// In the legend, unless empty.
    pub name: String,
    /// Number of the colour; grey for nothing.
    pub colour: Option<usize>,
    /// A thin dashed line of steps.
    pub dashed: bool,
    /// In the order of time.
    pub points: &'a [Point],
}

impl Figure<'_> {
    /// The plot as a whole SVG file.
    pub fn svg(&self) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             width=\"{WIDTH}\" height=\"{HEIGHT}\" font-size=\"12\" role=\"img\">\n\
             <title>{}: {}</title>\n<style>{STYLE}{}</style>\n\
             <rect class=\"ground\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
             <text class=\"text\" x=\"{LEFT}\" y=\"24\" font-size=\"15\" font-weight=\"600\" \
             fill=\"#1c2024\">{}</text>\n\
             <text class=\"muted\" x=\"{LEFT}\" y=\"42\" fill=\"#60656c\">{}</text>\n",
            escape(self.title),
            escape(self.what),
            dark_style(),
            escape(&shortened(self.title, 90)),
            escape(self.what),
        );
        let top = self.legend(&mut svg);
        let frame = Frame::around(self, top);
        frame.axes(&mut svg, self.unit);
        for line in &self.lines {
            frame.line(&mut svg, line, self.width());
        }
        for &mark in &self.marks {
            frame.mark(&mut svg, mark);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn width(&self) -> f64 {
        match self.lines.len() {
            0..=2 => 1.6,
            3..=10 => 1.2,
            _ => 0.9,
        }
    }

    /// Draws the legend and answers where the plot below it begins.
    fn legend(&self, svg: &mut String) -> f64 {
        let named: Vec<&Line> = self.lines.iter().filter(|l| !l.name.is_empty()).collect();
        let (mut x, mut y) = (LEFT, LEGEND);
        for line in named.iter().take(NAMED_AT_MOST) {
            let name = shortened(&line.name, 40);
            let (class, colour) = stroke(line.colour);
            let width = 40.0 + CHARACTER * name.chars().count() as f64;
            if x + width > WIDTH - RIGHT && x > LEFT {
                (x, y) = (LEFT, y + LEGEND_LINE);
            }
            // Writing to a string cannot fail.
            let _ = writeln!(
                svg,
                "<line class=\"{}\" x1=\"{x}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" stroke=\"{}\" \
                 stroke-width=\"2.5\"/><text class=\"text\" x=\"{}\" y=\"{y}\" \
                 fill=\"#1c2024\">{}</text>",
                class,
                x + 18.0,
                y - 4.0,
                y - 4.0,
                colour,
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

/// The area of the curves and its scales.
struct Frame {
    top: f64,
    duration_s: f64,
    across: Ticks,
    up: Ticks,
}

impl Frame {
    fn around(figure: &Figure<'_>, top: f64) -> Frame {
        let greatest = figure
            .lines
            .iter()
            .flat_map(|line| line.points)
            .map(|point| point.value)
            .fold(0.0, f64::max);
        let duration_s = if figure.duration_s > 0.0 {
            figure.duration_s
        } else {
            1.0
        };
        Frame {
            top,
            duration_s,
            across: Ticks::up_to(duration_s, 10),
            up: Ticks::up_to(greatest * 1.03, 6),
        }
    }

    fn x(&self, time_s: f64) -> f64 {
        let share = (time_s / self.duration_s).clamp(0.0, 1.0);
        LEFT + (WIDTH - LEFT - RIGHT) * share
    }

    fn y(&self, value: f64) -> f64 {
        let bottom = HEIGHT - BOTTOM;
        bottom - (bottom - self.top) * self.up.share(value)
    }

    fn axes(&self, svg: &mut String, unit: &str) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for (value, label) in self.up.labels() {
            let y = self.y(value);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" \
                 stroke=\"#e6e8eb\"/><text class=\"muted\" x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\" fill=\"#60656c\">{label}</text>",
                LEFT - 8.0,
                y + 4.0
            );
        }
        for (value, label) in self.across.labels() {
            if value > self.duration_s * (1.0 + 1e-9) {
                break;
            }
            let x = self.x(value);
            let _ = writeln!(
                svg,
                "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{}\" \
                 stroke=\"#9aa1a9\"/><text class=\"muted\" x=\"{x:.1}\" y=\"{}\" \
                 text-anchor=\"middle\" fill=\"#60656c\">{label}</text>",
                bottom + 5.0,
                bottom + 18.0
            );
        }
        let middle = (self.top + bottom) / 2.0;
        let _ = writeln!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\" \
             stroke=\"#9aa1a9\"/>\
             <text class=\"text\" x=\"{}\" y=\"{}\" text-anchor=\"middle\" \
             fill=\"#1c2024\">Time (s)</text>\
             <text class=\"text\" transform=\"translate(18 {middle:.1}) rotate(-90)\" \
             text-anchor=\"middle\" fill=\"#1c2024\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 10.0,
            escape(unit)
        );
    }

    fn line(&self, svg: &mut String, line: &Line<'_>, width: f64) {
        if line.points.is_empty() {
            return;
        }
        let dash = if line.dashed {
            " stroke-dasharray=\"5 4\""
        } else {
            ""
        };
        let width = if line.dashed { 1.0 } else { width };
        let (class, colour) = stroke(line.colour);
        let _ = write!(
            svg,
            "<polyline class=\"{class}\" stroke=\"{colour}\" stroke-width=\"{width}\"{dash} \
             points=\"",
        );
        let mut before = None;
        for point in line.points {
            let (x, y) = (self.x(point.time_s), self.y(point.value));
            if let Some(level) = before.filter(|_| line.dashed) {
                let _ = write!(svg, "{x:.1},{level:.1} ");
            }
            let _ = write!(svg, "{x:.1},{y:.1} ");
            before = Some(y);
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
}

/// Rules for a dark ground; the attributes in the drawing say what it is otherwise.
fn dark_style() -> String {
    let mut style = String::from(
        "@media (prefers-color-scheme:dark){.ground{fill:#15181b}.text{fill:#e4e7ea}\
         .muted{fill:#9aa1a9}.grid{stroke:#2b3035}.axis{stroke:#60656c}",
    );
    let _ = write!(style, ".loss{{stroke:{}}}", palette::LOSS_DARK);
    for (number, colour) in palette::DARK.iter().enumerate() {
        let _ = write!(style, ".c{number}{{stroke:{colour}}}");
    }
    style.push('}');
    style
}

/// Class and light colour of a stroke.
fn stroke(colour: Option<usize>) -> (String, &'static str) {
    match colour {
        Some(number) => (
            format!("c{}", number % palette::DARK.len()),
            palette::LIGHT[number % palette::LIGHT.len()],
        ),
        None => ("axis".to_owned(), "#9aa1a9"),
    }
}

/// `text`, cut to so many characters.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most - 1).collect();
    short.push('…');
    short
}

/// `text` as it may stand in XML; characters that XML cannot hold are left out.
fn escape(text: &str) -> String {
    let allowed: String = text
        .chars()
        .filter(|c| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}'))
        .collect();
    crate::report::html::escape(&allowed)
}
