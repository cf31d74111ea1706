//! A comparison as an aligned table.

use std::fmt;

use super::{Comparison, Difference, Item, Names, Side};
use crate::{Statistic, seeds_text};

const HEADINGS: [&str; 6] = ["", "A", "B", "B - A", "relative", "95 % intervals"];

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        side(f, "A", &self.a)?;
        side(f, "B", &self.b)?;
        for caveat in &self.caveats {
            writeln!(f, "Note: {caveat}")?;
        }
        let rows: Vec<Vec<[String; 6]>> = self
            .flows
            .iter()
            .chain(&self.links)
            .map(|item| item.metrics.iter().map(row).collect())
            .collect();
        let mut widths = HEADINGS.map(|heading| heading.chars().count());
        for row in rows.iter().flatten() {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        // Without intervals the last column would be empty.
        let columns = if rows.iter().flatten().any(|row| !row[5].is_empty()) {
            6
        } else {
            5
        };
        let kinds = self.flows.iter().map(|item| ("flow", item));
        let kinds = kinds.chain(self.links.iter().map(|item| ("link", item)));
        for ((kind, item), rows) in kinds.zip(&rows) {
            writeln!(f)?;
            writeln!(f, "{kind} {}", described(item))?;
            line(f, &HEADINGS.map(str::to_owned), &widths, columns)?;
            for row in rows {
                line(f, row, &widths, columns)?;
            }
        }
        missing(f, "A", &self.only_in_a)?;
        missing(f, "B", &self.only_in_b)
    }
}

fn side(f: &mut fmt::Formatter<'_>, letter: &str, side: &Side) -> fmt::Result {
    writeln!(
        f,
        "{letter}: {} ({}, {}, {})",
        side.path,
        side.title,
        side.engine,
        seeds_text(&side.seeds)
    )
}

/// The name, followed by the congestion controls of a flow.
fn described(item: &Item) -> String {
    let Some([a, b]) = &item.congestion_control else {
        return item.name.clone();
    };
    let text = |control: &Option<String>| control.clone().unwrap_or_else(|| "none".to_owned());
    if a == b {
        format!("{} ({})", item.name, text(a))
    } else {
        format!("{} ({} against {})", item.name, text(a), text(b))
    }
}

/// The cells of a metric: its name, both values, their difference, absolute and in percent, and whether the
/// intervals overlap.
pub fn row(difference: &Difference) -> [String; 6] {
    let digits = digits(difference.metric);
    [
        format!("  {}", difference.metric),
        value(difference.a, digits),
        value(difference.b, digits),
        difference
            .absolute
            .map_or_else(String::new, |absolute| signed(absolute, digits)),
        difference.relative.map_or_else(String::new, |relative| {
            format!("{} %", signed(100.0 * relative, 2))
        }),
        match difference.overlap {
            Some(true) => "overlap".to_owned(),
            Some(false) => "apart".to_owned(),
            None => String::new(),
        },
    ]
}

/// Digits after a metric's decimal point.
fn digits(metric: &str) -> usize {
    match metric {
        "bytes" => 0,
        "retransmits" | "timeouts" | "drops" => 1,
        "utilization" => 4,
        _ => 3,
    }
}

fn value(statistic: Option<Statistic>, digits: usize) -> String {
    let Some(statistic) = statistic else {
        return "-".to_owned();
    };
    // Counts of a single run are integers.
    let whole = statistic.n == 1 && digits == 1;
    let digits = if whole { 0 } else { digits };
    match statistic.interval95 {
        Some(half) => format!("{:.digits$} ± {half:.digits$}", statistic.mean),
        None => format!("{:.digits$}", statistic.mean),
    }
}

/// With its sign, unless it rounds to zero.
fn signed(value: f64, digits: usize) -> String {
    let text = format!("{value:+.digits$}");
    if text.bytes().any(|byte| (b'1'..=b'9').contains(&byte)) {
        text
    } else {
        text.trim_start_matches(['+', '-']).to_owned()
    }
}

fn line(
    f: &mut fmt::Formatter<'_>,
    cells: &[String; 6],
    widths: &[usize; 6],
    columns: usize,
) -> fmt::Result {
    let mut text = format!("{:<width$}", cells[0], width = widths[0]);
    for (cell, &width) in cells.iter().zip(widths).take(columns).skip(1) {
        text.push_str(&format!("  {cell:>width$}"));
    }
    writeln!(f, "{}", text.trim_end())
}

fn missing(f: &mut fmt::Formatter<'_>, letter: &str, names: &Names) -> fmt::Result {
    for (kind, names) in [("flows", &names.flows), ("links", &names.links)] {
        if !names.is_empty() {
            writeln!(f, "\nOnly in {letter}, {kind}: {}", names.join(", "))?;
        }
    }
    Ok(())
}
