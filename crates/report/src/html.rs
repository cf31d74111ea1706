//! Pieces of HTML that the pages share.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::palette;

/// Escapes `text` for HTML text and quoted attributes.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// `text`, cut to `most` characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Replaces every `{{name}}` in `template` by the value of that name. Values are not searched for names.
///
/// # Panics
/// If the template has a name without a value: the templates are part of the program.
pub(crate) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("a name ends with }}");
        let (_, value) = values
            .iter()
            .find(|(key, _)| *key == name)
            .unwrap_or_else(|| panic!("no value for {name}"));
        filled.push_str(before);
        filled.push_str(value);
        rest = after;
    }
    filled.push_str(rest);
    filled
}

/// A number with `digits` decimal places and thin spaces between thousands; a dash for none.
pub fn number(value: Option<f64>, digits: usize) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return "–".to_owned();
    };
    let plain = format!("{:.digits$}", value.abs());
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let mut text = String::new();
    if value < 0.0 && plain.bytes().any(|b| (b'1'..=b'9').contains(&b)) {
        text.push('−');
    }
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 && whole.len() > 4 {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// A count, as [`number`] writes it.
pub(crate) fn count(count: u64) -> String {
    number(Some(count as f64), 0)
}

/// A table. Cells are HTML. A column of numbers in which every cell is a dash is left out.
pub struct Table {
    columns: Vec<Heading>,
    rows: Vec<Vec<String>>,
}

/// The heading of a column.
pub struct Heading {
    name: &'static str,
    /// Empty for none.
    unit: &'static str,
    /// Whether the cells are text rather than numbers.
    text: bool,
}

/// A column of a [`Table::of`] things.
pub(crate) type Column<'a, T> = (Heading, &'a dyn Fn(&T) -> String);

impl Heading {
    /// A column of text.
    pub fn text(name: &'static str) -> Heading {
        let (unit, text) = ("", true);
        Heading { name, unit, text }
    }

    /// A column of numbers.
    pub fn number(name: &'static str, unit: &'static str) -> Heading {
        let text = false;
        Heading { name, unit, text }
    }

    fn class(&self) -> &'static str {
        if self.text { " class=\"text\"" } else { "" }
    }
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: Vec<Heading>) -> Table {
        let rows = Vec::new();
        Table { columns, rows }
    }

    /// A table with a row for each of these things; a column is its heading and what its cells show.
    pub fn of<T>(things: impl IntoIterator<Item = T>, columns: Vec<Column<'_, T>>) -> Table {
        let (headings, cells): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let mut table = Table::new(headings);
        for thing in things {
            table.row(cells.iter().map(|cell| cell(&thing)).collect());
        }
        table
    }

    /// Adds a row, one cell per column.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// The table as HTML: at most `limit` rows, and a line with the number of the rows left out.
    pub fn html(&self, limit: usize) -> String {
        let shown: Vec<usize> = (0..self.columns.len())
            .filter(|&at| self.columns[at].text || self.rows.iter().any(|row| row[at] != "–"))
            .collect();
        let mut html = String::from("<div class=\"scroll\"><table>\n<thead><tr>");
        for &at in &shown {
            let Heading { name, unit, .. } = &self.columns[at];
            let class = self.columns[at].class();
            // Writing to a string cannot fail.
            let _ = write!(html, "<th scope=\"col\"{class}>{}", escape(name));
            if !unit.is_empty() {
                let _ = write!(html, " <span class=\"unit\">{}</span>", escape(unit));
            }
            html.push_str("</th>");
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for row in self.rows.iter().take(limit) {
            html.push_str("<tr>");
            for &at in &shown {
                let class = self.columns[at].class();
                let _ = write!(html, "<td{class}>{}</td>", row[at]);
            }
            html.push_str("</tr>\n");
        }
        html.push_str("</tbody>\n</table></div>\n");
        if self.rows.len() > limit {
            let more = self.rows.len() - limit;
            let _ = writeln!(
                html,
                "<p class=\"note\">… and {more} more: see <code>result.json</code>.</p>"
            );
        }
        html
    }
}

/// The start of a page, up to its body. The page may load nothing; `policy` lists what it may do apart from
/// styling itself, as directives of a content security policy.
pub(crate) fn head_html(title: &str, policy: &str) -> String {
    fill(
        include_str!("head.html"),
        &[
            ("title", &escape(title)),
            ("policy", policy),
            ("palette", &palette_css()),
            ("style", include_str!("style.css")),
        ],
    )
}

/// The colours of curves as CSS variables `--c0`, `--c1`, …
fn palette_css() -> String {
    let variables = |colours: &[&str], loss| {
        let colours = colours.iter().enumerate();
        let colours: String = colours
            .map(|(at, colour)| format!("--c{at}:{colour};"))
            .collect();
        format!("{colours}--loss:{loss}")
    };
    let light = variables(&palette::LIGHT, palette::LOSS_LIGHT);
    let dark = variables(&palette::DARK, palette::LOSS_DARK);
    format!(
        ":root{{{light}}}\n\
         @media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n\
         @media print{{:root{{{light}}}}}\n\
         :root.paper{{{light}}}"
    )
}

/// A coloured bar before the name of the flow or link with this index.
pub(crate) fn swatch(number: usize) -> String {
    let colour = number % palette::LIGHT.len();
    format!("<span class=\"swatch\" style=\"background:var(--c{colour})\"></span>")
}

/// Why numbers are missing or doubtful.
pub(crate) fn doubts_html(incomplete: &Option<String>, warnings: &[String]) -> String {
    let incomplete = incomplete
        .iter()
        .map(|reason| format!("Incomplete: {reason}"));
    let warnings = warnings.iter().map(|warning| format!("Warning: {warning}"));
    let doubts = incomplete.chain(warnings);
    doubts
        .map(|doubt| format!("<p class=\"doubt\">{}</p>\n", escape(&doubt)))
        .collect()
}

/// The experiment file and the values that were set on the command line.
pub(crate) fn experiment_html(text: Option<&str>, overrides: &[String]) -> String {
    let mut html = String::new();
    if !overrides.is_empty() {
        let set = overrides
            .iter()
            .map(|set| format!("<code>{}</code>", escape(set)));
        let set = set.collect::<Vec<_>>().join(", ");
        html = format!("<p>Changed on the command line: {set}</p>\n");
    }
    html + &match text {
        Some(text) => format!("<pre>{}</pre>\n", escape(text.trim_end())),
        None => "<p class=\"note\">The experiment file is not in this folder.</p>".to_owned(),
    }
}

/// `name version` pairs in one line.
pub(crate) fn versions_text(versions: &BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = versions
        .iter()
        .map(|(name, version)| format!("{} {}", escape(name), escape(version)))
        .collect();
    pairs.join(", ")
}

/// Spans that the style sheet separates with dots.
pub(crate) fn facts_html(facts: &[String]) -> String {
    facts
        .iter()
        .map(|fact| format!("<span>{fact}</span>"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_name_stays_text() {
        assert_eq!(
            escape("<img src=x onerror='a(\"&\")'>"),
            "&lt;img src=x onerror=&#39;a(&quot;&amp;&quot;)&#39;&gt;"
        );
    }

    #[test]
    fn values_are_not_searched_for_names() {
        assert_eq!(
            fill("{{a}} and {{b}}.", &[("a", "{{b}}"), ("b", "2")]),
            "{{b}} and 2."
        );
    }

    #[test]
    fn numbers_have_thin_spaces_and_dashes() {
        assert_eq!(number(Some(1_234_567.891), 1), "1\u{202f}234\u{202f}567.9");
        assert_eq!(number(Some(1234.0), 0), "1234");
        assert_eq!(number(Some(-0.5), 2), "−0.50");
        assert_eq!(number(Some(-0.001), 2), "0.00");
        assert_eq!(number(None, 2), "–");
        assert_eq!(number(Some(f64::NAN), 2), "–");
    }

    #[test]
    fn columns_without_values_are_left_out() {
        let mut table = Table::new(vec![
            Heading::text("Flow"),
            Heading::number("Completion", "s"),
        ]);
        table.row(vec!["one".into(), "–".into()]);
        let html = table.html(10);
        assert!(!html.contains("Completion"), "{html}");
        assert!(html.contains("<td class=\"text\">one</td>"), "{html}");
    }

    #[test]
    fn long_tables_say_how_much_is_left_out() {
        let mut table = Table::new(vec![Heading::text("Flow")]);
        for _ in 0..12 {
            table.row(vec!["one".into()]);
        }
        let html = table.html(10);
        assert_eq!(html.matches("<td").count(), 10);
        assert!(html.contains("and 2 more"), "{html}");
    }
}
