//! Tables: groups of cells, a row for each contender.

use std::collections::BTreeMap;

use crate::Filter;
use crate::page::Section;
use crate::statistics::{mean, median, quantile};
use crate::table::Table;

use super::cell::Cell;
use super::rows::{Number, Row};
use super::suite::{Group, Kind, Suite};

/// The means over the seeds of a cell.
#[derive(Clone)]
pub(super) struct Mean<'a> {
    pub cell: &'a Cell<'a>,
    rows: Vec<&'a Row>,
}

impl Mean<'_> {
    /// The mean of a number; none if no run has it.
    pub(super) fn of(&self, number: Number) -> Option<f64> {
        let numbers: Vec<f64> = self.rows.iter().filter_map(|row| number(row)).collect();
        (!numbers.is_empty()).then(|| mean(numbers))
    }
}

/// The cells of a group, by contender, in the order of the plan: what an engine says of those that run in it alone, or
/// of those that run in both.
pub(super) fn members<'a>(
    group: &Group,
    cells: &'a [Cell<'a>],
    rows: &'a [Row],
    engine: &str,
) -> Vec<(&'a str, Vec<Mean<'a>>)> {
    let only = group.only.iter().map(|text| Filter::from(text.as_str()));
    let only: Vec<Filter> = only.collect();
    let mut of_cell: BTreeMap<usize, Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.engine == engine) {
        of_cell.entry(row.cell).or_default().push(row);
    }
    let mut members: Vec<(&str, Vec<Mean<'_>>)> = Vec::new();
    for (at, rows) in of_cell {
        let cell = &cells[at];
        let is_of_group = cell.in_both == (group.kind == Kind::Engines)
            && cell.has_noise() == (group.kind == Kind::Noise)
            && Filter::all_take(&only, &cell.run)
            && cell.bdp() >= group.least_bdp;
        if !is_of_group {
            continue;
        }
        let mean = Mean { cell, rows };
        match members
            .iter_mut()
            .find(|(control, _)| *control == cell.control)
        {
            Some((_, means)) => means.push(mean),
            None => members.push((&cell.control, vec![mean])),
        }
    }
    members
}

/// A column of a table.
struct Column {
    head: &'static str,
    number: Number,
    /// Digits behind the point.
    digits: usize,
    what: What,
    /// Whether it is only of cells in which something is spare.
    needs_spare: bool,
}

/// What a column says of the cells of a group.
#[derive(Clone, Copy)]
enum What {
    Median,
    /// The 5th percentile.
    Low,
    /// The 95th percentile.
    High,
    /// The least, with the cell.
    Least,
    /// The greatest, with the cell.
    Greatest,
    /// Cells that reclaim the link in the time that their plan gives them.
    Reclaimed,
}

const fn column(head: &'static str, what: What, digits: usize, number: Number) -> Column {
    Column {
        head,
        number,
        digits,
        what,
        needs_spare: false,
    }
}

const fn of_spare(head: &'static str, what: What, number: Number) -> Column {
    Column {
        head,
        number,
        digits: 3,
        what,
        needs_spare: true,
    }
}

const KEPT: &[Column] = &[
    column(">kept, median", What::Median, 3, |row| row.kept),
    column(">5th percentile", What::Low, 3, |row| row.kept),
    column("worst", What::Least, 3, |row| row.kept),
    column(">second half, median", What::Median, 3, |row| {
        row.kept_second_half
    }),
    of_spare(">used, median", What::Median, |row| row.used),
    of_spare(">5th percentile", What::Low, |row| row.used),
    column(">added queue p50, ms: median", What::Median, 2, |row| {
        row.queue_added_p50_ms
    }),
    column(">p99: median", What::Median, 2, |row| {
        row.queue_added_p99_ms
    }),
];

const WEB: &[Column] = &[
    column(">completion p50, median", What::Median, 3, |row| {
        row.fct_p50
    }),
    column(">95th percentile", What::High, 3, |row| row.fct_p50),
    column("worst", What::Greatest, 3, |row| row.fct_p50),
    column(">completion p99, median", What::Median, 3, |row| {
        row.fct_p99
    }),
    column(">95th percentile", What::High, 3, |row| row.fct_p99),
    of_spare(">used, median", What::Median, |row| row.used),
    of_spare(">5th percentile", What::Low, |row| row.used),
    column(">added queue p99, ms: median", What::Median, 2, |row| {
        row.queue_added_p99_ms
    }),
];

const VIDEO: &[Column] = &[
    column("missed, worst", What::Greatest, 3, |row| row.missed),
    column(">missed, median", What::Median, 3, |row| row.missed),
    column(">alone, median", What::Median, 3, |row| row.missed_solo),
    column(">kept, median", What::Median, 3, |row| row.kept),
    of_spare(">used, median", What::Median, |row| row.used),
];

const ALONE: &[Column] = &[
    column(">of the link, median", What::Median, 3, |row| row.alone),
    column(">5th percentile", What::Low, 3, |row| row.alone),
    column("worst", What::Least, 3, |row| row.alone),
    column(">queue p50, ms: median", What::Median, 2, |row| {
        row.queue_added_p50_ms
    }),
    column(">p99: median", What::Median, 2, |row| {
        row.queue_added_p99_ms
    }),
    column(">95th percentile", What::High, 2, |row| {
        row.queue_added_p99_ms
    }),
    column(">Jain, median", What::Median, 3, |row| row.jain),
    column("worst", What::Least, 3, |row| row.jain),
];

const TIMES: &[Column] = &[
    column(">yields, round trips: median", What::Median, 1, |row| {
        row.yield_rtt
    }),
    column(">95th percentile", What::High, 1, |row| row.yield_rtt),
    column(">reclaims, s: median", What::Median, 2, |row| row.reclaim_s),
    column(">95th percentile", What::High, 2, |row| row.reclaim_s),
    column("worst", What::Greatest, 2, |row| row.reclaim_s),
    column(">cells in time", What::Reclaimed, 0, |row| row.reclaim_s),
];

const ENGINES: &[Column] = &[
    column(">kept, median", What::Median, 3, |row| row.kept),
    of_spare(">used, median", What::Median, |row| row.used),
    column(">completion p50, median", What::Median, 3, |row| {
        row.fct_p50
    }),
    column(">of the link alone, median", What::Median, 3, |row| {
        row.alone
    }),
    column(">added queue p50, ms: median", What::Median, 2, |row| {
        row.queue_added_p50_ms
    }),
];

impl Kind {
    fn columns(self) -> &'static [Column] {
        match self {
            Kind::Kept => KEPT,
            Kind::Web => WEB,
            Kind::Video => VIDEO,
            Kind::Alone => ALONE,
            Kind::Times => TIMES,
            Kind::Engines => ENGINES,
            Kind::Noise => &[],
        }
    }
}

/// A number with so many digits behind the point; of what does not come to pass, that.
pub(super) fn number(value: f64, digits: usize) -> String {
    match value.is_finite() {
        true => format!("{value:.digits$}"),
        false => "never".to_owned(),
    }
}

/// What the column says of these cells.
fn value(column: &Column, means: &[Mean<'_>], least_spare: f64) -> String {
    let has_spare = |mean: &Mean<'_>| {
        !column.needs_spare
            || mean
                .of(|row| row.spare_share)
                .is_some_and(|spare| spare >= least_spare)
    };
    let values = means.iter().filter(|mean| has_spare(mean));
    let values: Vec<(f64, String)> = values
        .filter_map(|mean| Some((mean.of(column.number)?, mean.cell.name())))
        .collect();
    let text = |value: f64| number(value, column.digits);
    let numbers = || values.iter().map(|(value, _)| *value).collect();
    let with_cell = |found: Option<&(f64, String)>| {
        found.map(|(value, cell)| format!("{} {cell}", text(*value)))
    };
    let by_value = |one: &&(f64, String), other: &&(f64, String)| one.0.total_cmp(&other.0);
    let in_time = || {
        let means = means
            .iter()
            .filter_map(|mean| Some((mean.of(column.number)?, mean.cell)));
        let (met, all) = means.fold((0, 0), |(met, all), (value, cell)| {
            (met + u32::from(value <= cell.reclaim_s), all + 1)
        });
        (all > 0).then(|| format!("{met} of {all}"))
    };
    let said = match column.what {
        What::Reclaimed => in_time(),
        What::Median => median(numbers()).map(text),
        What::Low => quantile(numbers(), 0.05).map(text),
        What::High => quantile(numbers(), 0.95).map(text),
        What::Least => with_cell(values.iter().min_by(by_value)),
        What::Greatest => with_cell(values.iter().max_by(by_value)),
    };
    said.unwrap_or_default()
}

/// The parts of the page: groups of which there is something to say.
pub(super) fn sections(suite: &Suite, cells: &[Cell<'_>], rows: &[Row]) -> Vec<Section> {
    let section = |group: &Group| {
        let table = table(suite, group, cells, rows);
        let section = table.section(group.name.clone());
        let aim = match group.aim_in_words().as_str() {
            "" => String::new(),
            aim => format!(" Aim: {aim}."),
        };
        let markdown = format!("{}.{aim}\n\n{}", group.title, section.markdown);
        (!table.is_empty()).then_some(Section {
            markdown,
            ..section
        })
    };
    suite.group.iter().filter_map(section).collect()
}

/// The tables for a terminal.
pub(super) fn text(suite: &Suite, cells: &[Cell<'_>], rows: &[Row]) -> String {
    let mut text = String::new();
    for group in &suite.group {
        let table = table(suite, group, cells, rows);
        if table.is_empty() {
            continue;
        }
        text.push_str(&format!("{}\n", group.title));
        if !group.aim.is_empty() {
            text.push_str(&format!("aim: {}\n", group.aim_in_words()));
        }
        text.push_str(&format!("{}\n", table.render()));
    }
    text
}

/// The table of a group.
fn table(suite: &Suite, group: &Group, cells: &[Cell<'_>], rows: &[Row]) -> Table {
    if group.kind == Kind::Engines {
        return engines(suite, group, cells, rows);
    }
    if group.kind == Kind::Noise {
        return noise(suite, group, cells, rows);
    }
    let columns = group.kind.columns();
    let heads: Vec<&str> = columns.iter().map(|column| column.head).collect();
    let mut table = Table::new(&format!("control | >cells | {}", heads.join(" | ")));
    for (control, means) in members(group, cells, rows, "sim") {
        let values = columns
            .iter()
            .map(|column| value(column, &means, suite.least_spare));
        let head = [control.to_owned(), means.len().to_string()];
        table.row(head.into_iter().chain(values));
    }
    table
}

/// What is said of uneven paths: a row for each aim and control.
fn noise(suite: &Suite, group: &Group, cells: &[Cell<'_>], rows: &[Row]) -> Table {
    let mut table = Table::new(
        "noise | measure | control | >cells | >median | worst | aim | >cells that meet it",
    );
    let members = members(group, cells, rows, "sim");
    let column = |what, number| column("", what, 3, number);
    for noise in &suite.noise {
        // Last: whether more is better.
        let aims: [(&str, Number, Option<f64>, bool); 3] = [
            ("alone, of the link", |row| row.alone, noise.alone, true),
            ("kept beside Cubic", |row| row.kept, noise.kept, true),
            (
                "back after a step, s",
                |row| row.back_s,
                noise.back_s,
                false,
            ),
        ];
        for (measure, number, aim, is_least) in aims {
            let Some(aim) = aim else { continue };
            // What a control has alone is told of cells without a foreground.
            let is_beside = measure == "kept beside Cubic";
            for (control, means) in &members {
                let is_of_aim = |mean: &&Mean<'_>| {
                    mean.cell.noise.name == noise.name
                        && mean.cell.has_foreground() == is_beside
                        && mean.of(number).is_some()
                };
                let means: Vec<Mean<'_>> = means.iter().filter(is_of_aim).cloned().collect();
                if means.is_empty() {
                    continue;
                }
                let meets = |mean: &&Mean<'_>| {
                    mean.of(number)
                        .is_some_and(|value| if is_least { value >= aim } else { value <= aim })
                };
                let met = means.iter().filter(meets).count();
                let worst = if is_least {
                    What::Least
                } else {
                    What::Greatest
                };
                table.row([
                    noise.name.clone(),
                    measure.to_owned(),
                    (*control).to_owned(),
                    means.len().to_string(),
                    value(&column(What::Median, number), &means, suite.least_spare),
                    value(&column(worst, number), &means, suite.least_spare),
                    format!("{} {aim}", if is_least { "at least" } else { "at most" }),
                    met.to_string(),
                ]);
            }
        }
    }
    table
}

/// What both engines say of the cells that have run in both.
fn engines(suite: &Suite, group: &Group, cells: &[Cell<'_>], rows: &[Row]) -> Table {
    let heads: Vec<String> = ENGINES
        .iter()
        .map(|column| format!("{}: simulator | >lab", column.head))
        .collect();
    let mut table = Table::new(&format!("control | >cells | {}", heads.join(" | ")));
    let simulated = members(group, cells, rows, "sim");
    for (control, lab) in members(group, cells, rows, "lab") {
        let Some((_, simulated)) = simulated.iter().find(|(other, _)| *other == control) else {
            continue;
        };
        let there = |mean: &&Mean<'_>| lab.iter().any(|other| std::ptr::eq(other.cell, mean.cell));
        let simulated: Vec<Mean<'_>> = simulated.iter().filter(there).cloned().collect();
        let head = [control.to_owned(), lab.len().to_string()];
        let values = ENGINES.iter().flat_map(|column| {
            [&simulated, &lab].map(|means| value(column, means, suite.least_spare))
        });
        table.row(head.into_iter().chain(values));
    }
    table
}
