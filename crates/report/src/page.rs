//! A page in the style of the reports: text, tables and figures in one self-contained file, for programs that
//! report several runs at once.

use std::path::{Path, PathBuf};

pub use crate::html::{Heading, Table, escape, number};
pub use crate::plot::chart::{Across, Area, Chart, Curve, Panel, Style};
pub use crate::plot::scatter::{Dot, Kind, Scatter};
pub use fairwind_result::series::decimate::Point;

use fairwind_result::ResultError;

use crate::files::replace;
use crate::html::{facts_html, head_html};

/// Most rows in a table; nobody reads more.
const ROWS_AT_MOST: usize = 400;

/// A page under construction.
#[derive(Debug)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// A page with this title and, below it, short facts separated by dots.
    pub fn new(title: &str, facts: &[String]) -> Page {
        let facts: Vec<String> = facts.iter().map(|fact| escape(fact)).collect();
        Page {
            title: title.to_owned(),
            body: format!(
                "<header>\n<h1>{}</h1>\n<p class=\"facts\">{}</p>\n</header>\n",
                escape(title),
                facts_html(&facts)
            ),
        }
    }

    /// A reason to doubt the numbers.
    pub fn doubt(&mut self, text: &str) {
        self.push(&format!("<p class=\"doubt\">{}</p>", escape(text)));
    }

    /// Begins a section.
    pub fn heading(&mut self, text: &str) {
        self.push(&format!("<h2>{}</h2>", escape(text)));
    }

    /// Begins a part of a section.
    pub fn subheading(&mut self, text: &str) {
        self.push(&format!("<h3>{}</h3>", escape(text)));
    }

    /// A paragraph.
    pub fn text(&mut self, text: &str) {
        self.push(&format!("<p>{}</p>", escape(text)));
    }

    /// A paragraph in small letters.
    pub fn note(&mut self, text: &str) {
        self.push(&format!("<p class=\"note\">{}</p>", escape(text)));
    }

    /// A table.
    pub fn table(&mut self, table: &Table) {
        self.push(&table.html(ROWS_AT_MOST));
    }

    /// A figure.
    pub fn chart(&mut self, chart: &Chart) {
        self.push(&format!("<figure>\n{}</figure>", chart.svg()));
    }

    /// A figure of dots.
    pub fn scatter(&mut self, scatter: &Scatter) {
        self.push(&format!("<figure>\n{}</figure>", scatter.svg()));
    }

    /// Preformatted text.
    pub fn listing(&mut self, text: &str) {
        self.push(&format!("<pre>{}</pre>", escape(text.trim_end())));
    }

    fn push(&mut self, html: &str) {
        self.body.push_str(html);
        self.body.push('\n');
    }

    /// The page's HTML.
    pub fn html(&self) -> String {
        format!(
            "{}<body>\n<main>\n{}</main>\n</body>\n</html>\n",
            head_html(&self.title, ""),
            self.body
        )
    }

    /// Writes the page to `path`, replacing an earlier one in one step.
    pub fn write(&self, path: &Path) -> Result<PathBuf, ResultError> {
        replace(path, &self.html())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_refers_to_nothing_outside_and_markup_stays_text() {
        let mut page = Page::new("A <b>", &["two & three".to_owned()]);
        page.doubt("no <root>");
        let mut table = Table::new(vec![Heading::text("Way")]);
        table.row(vec![escape("one")]);
        page.table(&table);
        page.chart(&Chart {
            title: String::new(),
            what: "Throughput".to_owned(),
            across: Across::time(2.0),
            panels: vec![Panel {
                unit: "Mbit/s",
                curves: vec![Curve {
                    name: "one".to_owned(),
                    colour: Some(0),
                    style: Style::Solid,
                    points: vec![Point {
                        time_s: 1.0,
                        value: 3.0,
                    }],
                }],
                ..Panel::default()
            }],
        });
        let html = page.html();
        assert!(html.contains("A &lt;b&gt;"), "{html}");
        assert!(html.contains("two &amp; three"), "{html}");
        assert!(html.contains("no &lt;root&gt;"), "{html}");
        assert!(html.contains("<polyline"), "{html}");
        assert!(html.contains("default-src 'none'"), "{html}");
        for outside in ["src=", "href=", "url(", "@import"] {
            assert!(!html.contains(outside), "{outside}");
        }
    }
}
