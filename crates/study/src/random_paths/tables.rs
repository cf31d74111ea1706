//! Tables: a row for each control, and the controls side by side for each thing that paths have.

use std::path::Path;

use crate::page::Section;
use crate::statistics::{median, quantile};
use crate::table::Table;

use super::path::{FEATURES, RandomPath};
use super::suite::Suite;
use super::work::Row;

/// How many of the worst paths of a control are named.
const WORST: usize = 3;

/// Whether a path has what a row of the second table is about.
type Has = Box<dyn Fn(&RandomPath) -> bool>;

impl Row {
    /// Whether enough is spare for a share of it to say something.
    fn has_spare(&self, suite: &Suite) -> bool {
        self.measures.spare >= suite.least_spare
    }

    /// Whether the control takes next to nothing of what is spare.
    fn fails(&self, suite: &Suite) -> bool {
        self.has_spare(suite) && self.measures.used < suite.failed_below
    }

    /// Whether it is at its minimum for too long.
    fn is_stuck(&self, suite: &Suite) -> bool {
        self.measures.minimum_s > suite.minimum_at_most
    }

    /// Whether it sends more than the link carries for too long.
    fn floods(&self, suite: &Suite) -> bool {
        self.measures.above_s > suite.above_at_most.length(self.path.rtt)
    }
}

/// The controls, in the order of the plan.
fn controls(rows: &[Row]) -> Vec<&str> {
    let mut controls: Vec<&str> = Vec::new();
    for row in rows {
        if !controls.contains(&row.control.as_str()) {
            controls.push(&row.control);
        }
    }
    controls
}

fn of_control<'a>(rows: &'a [Row], control: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.control == control).collect()
}

/// A row for each control.
fn summary(suite: &Suite, rows: &[Row]) -> Table {
    let mut table = Table::new(
        "control | >paths with something spare | >below a tenth of it | >share | >used, median | >5th percentile | \
         >too long at the minimum | >longest, s | >too long above the link's rate | >longest, s",
    );
    for control in controls(rows) {
        let rows = of_control(rows, control);
        let spared: Vec<&&Row> = rows.iter().filter(|row| row.has_spare(suite)).collect();
        let used = || {
            spared
                .iter()
                .map(|row| row.measures.used)
                .collect::<Vec<f64>>()
        };
        let failed = spared.iter().filter(|row| row.fails(suite)).count();
        let count =
            |is: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| is(row)).count().to_string();
        let longest = |of: fn(&Row) -> f64| {
            let longest = rows.iter().map(|row| of(row)).fold(0.0, f64::max);
            format!("{longest:.1}")
        };
        let number =
            |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
        table.row([
            control.to_owned(),
            spared.len().to_string(),
            failed.to_string(),
            percent(failed, spared.len()),
            number(median(used())),
            number(quantile(used(), 0.05)),
            count(&|row| row.is_stuck(suite)),
            longest(|row| row.measures.minimum_s),
            count(&|row| row.floods(suite)),
            longest(|row| row.measures.above_s),
        ]);
    }
    table
}

fn percent(part: usize, of: usize) -> String {
    match of {
        0 => String::new(),
        of => format!("{:.1} %", part as f64 / of as f64 * 100.0),
    }
}

/// What paths are told apart by: words, and whether a path is so.
fn classes() -> Vec<(String, Has)> {
    let mut classes: Vec<(String, Has)> = vec![
        ("all".to_owned(), Box::new(|_| true)),
        (
            "none of what follows".to_owned(),
            Box::new(|path| path.features().is_empty()),
        ),
    ];
    for feature in FEATURES {
        classes.push((
            (*feature).to_owned(),
            Box::new(|path| path.features().contains(feature)),
        ));
    }
    let mut class =
        |name: &str, has: fn(&RandomPath) -> bool| classes.push((name.to_owned(), Box::new(has)));
    class("to 10 Mbit/s", |path| path.mbps <= 10.0);
    class("10 to 100 Mbit/s", |path| {
        path.mbps > 10.0 && path.mbps <= 100.0
    });
    class("from 100 Mbit/s", |path| path.mbps > 100.0);
    class("to 10 ms", |path| path.rtt <= 0.01);
    class("10 to 60 ms", |path| path.rtt > 0.01 && path.rtt <= 0.06);
    class("from 60 ms", |path| path.rtt > 0.06);
    class("drop-tail of 10 packets at most", |path| {
        path.queue.aqm == "drop-tail" && path.queue.packets <= 10
    });
    class("an AQM", |path| path.queue.aqm != "drop-tail");
    classes
}

/// For each class of paths the share on which each control takes less than a tenth of what is spare.
fn by_class(suite: &Suite, rows: &[Row]) -> Table {
    let controls = controls(rows);
    let heads = controls.iter().map(|control| format!(" | >{control}"));
    let mut table = Table::new(&format!("paths with | >paths{}", heads.collect::<String>()));
    for (name, has) in classes() {
        let of_class: Vec<&Row> = rows
            .iter()
            .filter(|row| row.has_spare(suite) && has(&row.path))
            .collect();
        let shares = controls.iter().map(|control| {
            let of = of_class.iter().filter(|row| row.control == *control);
            let failed = of.clone().filter(|row| row.fails(suite)).count();
            percent(failed, of.count())
        });
        let first = controls.first();
        let of_first = |row: &&&Row| Some(&row.control.as_str()) == first;
        let paths = of_class.iter().filter(of_first).count();
        table.row([name, paths.to_string()].into_iter().chain(shares));
    }
    table
}

/// The worst paths of each control: those of which it uses least.
fn worst(suite: &Suite, rows: &[Row]) -> Table {
    let mut table =
        Table::new("control | path | >used | >at the minimum, s | >above the link's rate, s");
    for control in controls(rows) {
        let mut rows = of_control(rows, control);
        rows.retain(|row| row.has_spare(suite));
        rows.sort_by(|one, other| one.measures.used.total_cmp(&other.measures.used));
        for row in rows.iter().take(WORST) {
            table.row([
                control.to_owned(),
                row.path.name(),
                format!("{:.4}", row.measures.used),
                format!("{:.1}", row.measures.minimum_s),
                format!("{:.1}", row.measures.above_s),
            ]);
        }
    }
    table
}

/// The parts of the page.
pub(super) fn sections(suite: &Suite, rows: &[Row]) -> Vec<Section> {
    vec![
        summary(suite, rows).section("controls"),
        by_class(suite, rows).section("classes"),
        worst(suite, rows).section("worst"),
    ]
}

/// The tables for a terminal.
pub(super) fn text(suite: &Suite, rows: &[Row]) -> String {
    let tables = [
        ("Controls", summary(suite, rows)),
        (
            "Share of the paths on which less than a tenth of what is spare is used",
            by_class(suite, rows),
        ),
        ("Worst paths", worst(suite, rows)),
    ];
    let texts = tables
        .iter()
        .map(|(title, table)| format!("{title}\n{}\n", table.render()));
    texts.collect()
}

/// How a path is run again, the worst of the first control as an example.
pub(super) fn how_to_repeat(suite: &Suite, folder: &Path, rows: &[Row]) -> String {
    let spared = rows.iter().filter(|row| row.has_spare(suite));
    let worst = spared.min_by(|one, other| one.measures.used.total_cmp(&other.measures.used));
    worst.map_or(String::new(), |row| {
        let file = folder.join(row.path.name()).join("path.toml");
        let (file, control) = (file.display(), &row.control);
        format!("A path is run again by its file:\nfairwind sim run {file} --set flow.own.congestion_control={control}\n")
    })
}

/// All runs.
pub(super) fn runs(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "control | path | >spare | >used | >minimum_s | >starved_s | >above_s | >largest_window",
    );
    for row in rows {
        let measures = &row.measures;
        table.row([
            row.control.clone(),
            row.path.name(),
            format!("{:.4}", measures.spare),
            format!("{:.4}", measures.used),
            format!("{:.2}", measures.minimum_s),
            format!("{:.2}", measures.starved_s),
            format!("{:.2}", measures.above_s),
            format!("{:.0}", measures.largest_window),
        ]);
    }
    table
}
