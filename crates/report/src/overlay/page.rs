//! `compare.html`: tables and figures in one self-contained file.

use fairwind_result::compare::table::row;
use fairwind_result::compare::{Comparison, Item, Side};
use fairwind_result::seeds_text;

use super::distribution::{Quantiles, Spread};
use super::figures::Drawn;
use super::side::{Pair, labels};
use crate::html::{Heading, Table, escape, facts_html, fill, head_html, number, swatch};

/// Most rows in a table; nobody reads more.
const ROWS_AT_MOST: usize = 400;

/// The page's HTML.
pub(super) fn page(
    pair: &Pair,
    comparison: &Comparison,
    figures: &[Drawn],
    spreads: &[Spread],
) -> String {
    let names = labels([&comparison.a, &comparison.b]);
    let caveats: String = comparison
        .caveats
        .iter()
        .map(|caveat| format!("<p class=\"note\">{}</p>\n", escape(caveat)))
        .collect();
    fill(
        include_str!("page.html"),
        &[
            ("head", &head_html(&pair.title, "")),
            ("title", &escape(&pair.title)),
            ("a", &facts(0, &names, &comparison.a)),
            ("b", &facts(1, &names, &comparison.b)),
            ("caveats", &caveats),
            ("flows", &differences("Flow", &comparison.flows)),
            ("links", &differences("Link", &comparison.links)),
            ("distributions", &distributions(spreads)),
            ("figures", &drawn(pair, figures)),
            ("missing", &missing(comparison)),
        ],
    )
}

/// Where a side comes from, with the colour of its curves.
fn facts(at: usize, names: &[String; 2], side: &Side) -> String {
    facts_html(&[
        format!("{}<strong>{}</strong>", swatch(at), escape(&names[at])),
        format!("<code>{}</code>", escape(&side.path)),
        escape(&side.engine),
        seeds_text(&side.seeds),
    ])
}

fn differences(kind: &'static str, items: &[Item]) -> String {
    if items.is_empty() {
        return "<p class=\"note\">Both results have none in common.</p>\n".to_owned();
    }
    let mut table = Table::new(vec![
        Heading::text(kind),
        Heading::text("Metric"),
        Heading::number("A", ""),
        Heading::number("B", ""),
        Heading::number("B − A", ""),
        Heading::number("relative", ""),
        Heading::number("95 % intervals", ""),
    ]);
    for item in items {
        for (at, difference) in item.metrics.iter().enumerate() {
            let name = match at {
                0 => format!("<strong>{}</strong>", escape(&item.name)),
                _ => String::new(),
            };
            let mut cells = vec![name];
            cells.extend(row(difference).iter().map(|cell| match cell.trim() {
                "" => "–".to_owned(),
                cell => escape(cell),
            }));
            table.row(cells);
        }
    }
    table.html(ROWS_AT_MOST)
}

fn distributions(spreads: &[Spread]) -> String {
    if spreads.is_empty() {
        return String::new();
    }
    let cell = |of: Quantiles| {
        format!(
            "{} <span class=\"spread\">{} … {}</span>",
            number(Some(of.median), 2),
            number(Some(of.p5), 2),
            number(Some(of.p95), 2)
        )
    };
    let table = Table::of(
        spreads,
        vec![
            (Heading::text("Flow or link"), &|s| escape(&s.name)),
            (Heading::text("Quantity"), &|s| s.quantity.to_owned()),
            (Heading::number("A median", "5 % … 95 %"), &|s| cell(s.a)),
            (Heading::number("B median", "5 % … 95 %"), &|s| cell(s.b)),
            (
                Heading::number("Apart on average", "% of A’s mean"),
                &|s| number(s.relative.map(|share| 100.0 * share), 1),
            ),
            (Heading::number("Apart at most", "0 to 1"), &|s| {
                number(Some(s.distance), 2)
            }),
        ],
    );
    format!(
        "<section>\n<h2>Distributions</h2>\n\
         <p class=\"note\">Where a window or a queue swings to and fro, two runs need not be in step \
         to be alike. What share of the time they spend at which values does not depend on that. \
         Apart on average: by how much the values of A would have to be moved to have the distribution \
         of B, the area between the two curves drawn below. Apart at most: their greatest vertical \
         distance, 0 for the same and 1 for nothing in common; large also where both spend most of the \
         time at values that hardly differ.</p>\n{}</section>\n",
        table.html(ROWS_AT_MOST)
    )
}

fn drawn(pair: &Pair, figures: &[Drawn]) -> String {
    if let Some(side) = pair.without_series() {
        return format!(
            "<section>\n<h2>Figures</h2>\n<p class=\"note\">{}: no time series were recorded, so \
             there are no figures.</p>\n</section>\n",
            escape(side)
        );
    }
    let figures: String = figures
        .iter()
        .filter_map(|(_, svg)| Some(format!("<figure>\n{}</figure>\n", svg.as_ref()?)))
        .collect();
    format!("<section>\n<h2>Figures</h2>\n{figures}</section>\n")
}

fn missing(comparison: &Comparison) -> String {
    let mut html = String::new();
    for (side, names) in [("A", &comparison.only_in_a), ("B", &comparison.only_in_b)] {
        for (kind, names) in [("flows", &names.flows), ("links", &names.links)] {
            if !names.is_empty() {
                let names: Vec<String> = names.iter().map(|name| escape(name)).collect();
                html.push_str(&format!(
                    "<p>Only in {side}, {kind}: {}</p>\n",
                    names.join(", ")
                ));
            }
        }
    }
    html
}
