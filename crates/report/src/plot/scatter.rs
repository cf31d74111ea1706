//! A figure of dots, each with a place on two axes: shares across, and upwards values over several powers of ten.

use std::fmt::Write;

use super::svg::{BOTTOM, HEIGHT, LEFT, RIGHT, at, colour, escape, file, heading, line, text};
use super::ticks::Ticks;
use crate::html::shortened;
use crate::palette;

/// Baseline of the first line of the legend.
const LEGEND: f64 = 62.0;
const LEGEND_LINE: f64 = 19.0;
/// Approximate width of a character in the legend.
const CHARACTER: f64 = 6.9;

/// A figure of dots.
#[derive(Clone, Debug, Default)]
pub struct Scatter {
    /// Heading.
    pub title: String,
    /// What the figure shows, below the title.
    pub what: String,
    /// What is shown from left to right.
    pub across: String,
    /// The greatest value across; what is beyond is drawn there.
    pub greatest: f64,
    /// What is shown upwards.
    pub upwards: String,
    /// The least and the greatest value upwards, above 0; what is beyond is drawn there.
    pub range: (f64, f64),
    /// The dots, each kind in a colour of its own.
    pub kinds: Vec<Kind>,
    /// Places that a line joins.
    pub joined: Vec<(f64, f64)>,
}

/// Dots of one kind.
#[derive(Clone, Debug, Default)]
pub struct Kind {
    /// Name in the legend.
    pub name: String,
    /// Index of the colour.
    pub colour: usize,
    /// Its dots.
    pub dots: Vec<Dot>,
    /// The place that stands for all of them: a large dot.
    pub middle: Option<(f64, f64)>,
}

/// A dot.
#[derive(Clone, Debug, Default)]
pub struct Dot {
    /// Value across.
    pub x: f64,
    /// Value upwards.
    pub y: f64,
    /// What the pointer shows; nothing if empty.
    pub title: String,
    /// Where a click leads; nowhere if empty.
    pub link: String,
}

// Writing to a string cannot fail, so the results of `write!` are not looked at.

impl Scatter {
    /// The figure as a complete SVG file.
    pub fn svg(&self) -> String {
        let mut body = String::new();
        heading(&mut body, 24.0, 15, &shortened(&self.title, 90));
        text(&mut body, "muted", at(LEFT, 42.0), "", &self.what);
        let top = self.legend(&mut body);
        self.axes(&mut body, top);
        self.dots(&mut body, top);
        file(&self.title, &self.what, HEIGHT, &body)
    }

    /// Draws the legend and returns where the plot below it begins.
    fn legend(&self, svg: &mut String) -> f64 {
        let (mut x, mut y) = (LEFT, LEGEND);
        for kind in &self.kinds {
            let name = shortened(&kind.name, 40);
            let width = 34.0 + CHARACTER * name.chars().count() as f64;
            if x + width > RIGHT && x > LEFT {
                (x, y) = (LEFT, y + LEGEND_LINE);
            }
            circle(svg, kind.colour, [x + 6.0, y - 4.0], 5.0, 2.5);
            text(svg, "text", at(x + 16.0, y), "", &name);
            x += width;
        }
        y + 16.0
    }

    fn place(&self, top: f64, (x, y): (f64, f64)) -> [f64; 2] {
        let (least, greatest) = self.range;
        let bottom = HEIGHT - BOTTOM;
        let across = (x / self.greatest).clamp(0.0, 1.0);
        let up = (y.max(least) / least).ln() / (greatest / least).ln();
        [
            LEFT + (RIGHT - LEFT) * across,
            bottom - (bottom - top) * up.clamp(0.0, 1.0),
        ]
    }

    fn axes(&self, svg: &mut String, top: f64) {
        let bottom = HEIGHT - BOTTOM;
        let (least, greatest) = self.range;
        let mut value = least;
        while value <= greatest * (1.0 + 1e-9) {
            let [_, y] = self.place(top, (0.0, value));
            line(svg, "grid", [LEFT, RIGHT], [y, y]);
            let end = " text-anchor=\"end\"";
            let label = format!("{}", (value * 1e6).round() / 1e6);
            text(svg, "muted", at(LEFT - 8.0, y + 4.0), end, &label);
            value *= 10.0;
        }
        let middle = " text-anchor=\"middle\"";
        for (value, label) in Ticks::up_to(self.greatest, 10).labels() {
            if value > self.greatest * (1.0 + 1e-9) {
                continue;
            }
            let [x, _] = self.place(top, (value, least));
            line(svg, "axis", [x, x], [bottom, bottom + 5.0]);
            text(svg, "muted", at(x, bottom + 18.0), middle, &label);
        }
        line(svg, "axis", [LEFT, RIGHT], [bottom, bottom]);
        let below = at((LEFT + RIGHT) / 2.0, bottom + 36.0);
        text(svg, "text", below, middle, &self.across);
        let place = format!(
            "transform=\"translate(18 {:.1}) rotate(-90)\"",
            (top + bottom) / 2.0
        );
        text(svg, "text", place, middle, &self.upwards);
    }

    fn dots(&self, svg: &mut String, top: f64) {
        for kind in &self.kinds {
            let _ = writeln!(svg, "<g opacity=\"0.55\">");
            for dot in &kind.dots {
                self.dot(svg, top, kind.colour, dot);
            }
            svg.push_str("</g>\n");
        }
        if self.joined.len() > 1 {
            let places = self.joined.iter().map(|place| self.place(top, *place));
            let places: Vec<String> = places.map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                svg,
                "<polyline class=\"axis\" stroke=\"{}\" stroke-width=\"1.5\" points=\"{}\"/>",
                palette::GREY,
                places.join(" ")
            );
        }
        for kind in &self.kinds {
            if let Some(middle) = kind.middle {
                circle(svg, kind.colour, self.place(top, middle), 8.0, 3.5);
            }
        }
    }

    fn dot(&self, svg: &mut String, top: f64, number: usize, dot: &Dot) {
        let [x, y] = self.place(top, (dot.x, dot.y));
        if !dot.link.is_empty() {
            let _ = write!(svg, "<a href=\"{}\">", escape(&dot.link));
        }
        let _ = write!(
            svg,
            "<circle {} stroke-width=\"1.5\" fill=\"transparent\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"",
            colour(Some(number))
        );
        match dot.title.as_str() {
            "" => svg.push_str("/>"),
            title => {
                let _ = write!(svg, "><title>{}</title></circle>", escape(title));
            }
        }
        svg.push_str(if dot.link.is_empty() { "\n" } else { "</a>\n" });
    }
}

fn circle(svg: &mut String, number: usize, [x, y]: [f64; 2], radius: f64, width: f64) {
    let _ = writeln!(
        svg,
        "<circle {} stroke-width=\"{width}\" fill=\"none\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/>",
        colour(Some(number))
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scatter(dots: Vec<Dot>) -> Scatter {
        Scatter {
            greatest: 1.0,
            range: (0.001, 1.0),
            kinds: vec![Kind {
                name: "one".to_owned(),
                dots,
                ..Kind::default()
            }],
            ..Scatter::default()
        }
    }

    #[test]
    fn powers_of_ten_are_equally_far_apart_and_what_is_beyond_is_at_the_edge() {
        let scatter = scatter(Vec::new());
        let up = |y| scatter.place(54.0, (0.5, y))[1];
        // From 54 to 354: three powers of ten of 100 each.
        assert_eq!(
            [1.0, 0.1, 0.01, 0.001].map(up).map(f64::round),
            [54.0, 154.0, 254.0, 354.0]
        );
        assert_eq!(
            [7.0, 0.0, -1.0].map(up).map(f64::round),
            [54.0, 354.0, 354.0]
        );
        assert_eq!(scatter.place(54.0, (0.5, 1.0))[0], (LEFT + RIGHT) / 2.0);
        assert_eq!(scatter.place(54.0, (3.0, 1.0))[0], RIGHT);
    }

    #[test]
    fn a_dot_has_a_title_and_leads_somewhere_only_if_it_is_to() {
        let dot = |title: &str, link: &str| Dot {
            title: title.to_owned(),
            link: link.to_owned(),
            ..Dot::default()
        };
        let svg = scatter(vec![dot("a < b", "x/index.html")]).svg();
        assert!(svg.contains("<a href=\"x/index.html\"><circle "), "{svg}");
        assert!(
            svg.contains("<title>a &lt; b</title></circle></a>"),
            "{svg}"
        );
        let svg = scatter(vec![dot("", "")]).svg();
        assert!(!svg.contains("<a "), "{svg}");
    }
}
