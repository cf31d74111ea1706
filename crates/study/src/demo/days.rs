//! The demonstration on several days: the tables of `docs/measurements/demonstration.md`.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::lab::missing;
use super::stage::{self, Outcomes};
use super::story::Route;
use super::table::{IDENTICAL, Row, SIMULATED, plain};
use super::{Story, report};
use crate::cache::program;
use crate::page;
use crate::plan::{Parameter, Values};
use crate::statistics::median;
use crate::table::Table;
use crate::{Engines, Error, Made, Study, Task};

pub(crate) const STUDY: Study = Study::new(PARAMETERS, carry_out);

/// What a run of its plan has: the path; the seed of the day, of the file and of all random choices.
const PARAMETERS: &[Parameter] = &[
    Parameter::new("path", Values::Words(&ROUTES)),
    Parameter::new("seed", Values::Whole(0, 1_000_000)),
];
/// The names of [`Route::ALL`].
const ROUTES: [&str; 2] = ["day", "long"];

/// One demonstration.
#[derive(Debug, Serialize, Deserialize)]
struct Shown {
    path: String,
    seed: u64,
    rows: Vec<Row>,
}

/// Runs the demonstrations that are not kept, each with its report in `OUT/ENGINE/seed-SEED-NUMBER`.
///
/// # Errors
/// If one fails.
fn carry_out(task: &Task<'_>) -> Result<Made, Error> {
    let mut made = Made::default();
    let mut runs = Table::new(
        "engine | path | seed | transfer | mbps | spare_percent | took_s | others_lost_percent | others_lost_mb | \
         retransmits | control_changes | file | later_spare_percent",
    );
    for (engine, is_asked) in [
        (Engines::Sim, task.engines.has_sim()),
        (Engines::Lab, task.engines.has_lab()),
    ] {
        if !is_asked {
            continue;
        }
        let shown = all(task, engine)?;
        if shown.is_empty() {
            continue;
        }
        for Shown { path, seed, rows } in &shown {
            for row in rows {
                let mut values = vec![engine.word().to_owned(), path.clone(), seed.to_string()];
                values.extend(row.cells(exact));
                values.push(exact(row.later_spare_percent, 0));
                runs.row(values);
            }
        }
        for route in ROUTES {
            let of_route: Vec<&Shown> = shown.iter().filter(|one| one.path == route).collect();
            if !of_route.is_empty() {
                let name = format!("{} {route}", engine.word());
                made.sections.push(table(&of_route).section(&name));
            }
        }
        made.sections
            .push(page::made(&format!("{} run", engine.word())));
    }
    made.runs = (!runs.is_empty()).then_some(runs);
    Ok(made)
}

/// All demonstrations in an engine.
fn all(task: &Task<'_>, engine: Engines) -> Result<Vec<Shown>, Error> {
    let mut shown = Vec::new();
    for run in &task.runs {
        let seed = run.get("seed").parse().map_err(Error::input)?;
        let named = |route: &Route| route.name() == run.get("path");
        let route = Route::ALL.into_iter().find(named).unwrap_or(Route::Day);
        let story = match task.options.quick {
            true => Story::quick(route, seed),
            false => Story::full(route, seed),
        };
        // In the simulator all would be the same.
        let repetitions = match engine {
            Engines::Sim => 1,
            _ => task.options.repetitions.unwrap_or(1),
        };
        for number in 1..=repetitions {
            shown.extend(one(task, engine, &story, number)?);
        }
    }
    Ok(shown)
}

/// A demonstration; none if it is not kept and nothing is to be run.
fn one(
    task: &Task<'_>,
    engine: Engines,
    story: &Story,
    number: usize,
) -> Result<Option<Shown>, Error> {
    let on = match engine {
        Engines::Sim => program().to_owned(),
        _ => fairwind_kernel::release(),
    };
    let asked = json!({ "story": format!("{story:?}"), "number": number, "on": on });
    let name = format!("{}-seed-{}-{number}", story.route.name(), story.seed);
    let cache = task.cache(engine.word());
    cache.kept_or_run(&name, &asked, || {
        task.host.go_on()?;
        let folder = task.out.join(engine.word()).join(&name);
        let outcomes = show(task, engine, story, &folder)?;
        report::write(&outcomes, &[], &folder)?;
        task.tell(&folder.display().to_string());
        Ok(Shown {
            path: story.route.name().to_owned(),
            seed: story.seed,
            rows: Row::all(&outcomes),
        })
    })
}

/// Runs a demonstration into a folder, in place of what is there.
fn show(task: &Task<'_>, engine: Engines, story: &Story, folder: &Path) -> Result<Outcomes, Error> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(Error::at(folder))?;
    }
    fs::create_dir_all(folder).map_err(Error::at(folder))?;
    let missing = match engine {
        Engines::Sim => Vec::new(),
        _ => missing(),
    };
    if !missing.is_empty() {
        return Err(Error::work(missing.join("\n")));
    }
    let fairwind = (engine != Engines::Sim).then(|| task.host.fairwind.clone());
    stage::show(story.clone(), fairwind, folder, task.host)
}

/// The table of the page: median and range over the demonstrations, by way.
fn table(shown: &[&Shown]) -> Table {
    let of_ways = shown[0].rows.iter().enumerate();
    let ways: Vec<Vec<(&Row, &Row)>> = of_ways
        .map(|(at, _)| {
            shown
                .iter()
                .map(|one| (&one.rows[at], &one.rows[0]))
                .collect()
        })
        .collect();
    let words = shown[0].rows.iter().map(|row| row.way.as_str());
    let heads: Vec<&str> = words.collect();
    let mut table = Table::new(&format!(" | {}", heads.join(" | ")));
    for (what, digits, value) in VALUES {
        let cell = |runs: &Vec<(&Row, &Row)>| {
            let values = runs
                .iter()
                .filter_map(|(row, standard)| value(row, standard));
            spread(values.collect(), *digits)
        };
        table.row([vec![(*what).to_owned()], ways.iter().map(cell).collect()].concat());
    }
    let cell = |runs: &Vec<(&Row, &Row)>| {
        let identical = runs.iter().filter(|(row, _)| row.file == IDENTICAL);
        format!("{} of {}", identical.count(), runs.len())
    };
    if shown[0].rows[0].file != SIMULATED {
        let cells: Vec<String> = ways.iter().map(cell).collect();
        table.row([vec!["files that arrived unchanged".to_owned()], cells].concat());
    }
    table
}

/// A number of a row, or of one beside standard TCP's of the same demonstration.
type Value = fn(&Row, &Row) -> Option<f64>;

/// The rows of the page's table: what they show, with how many decimal places.
const VALUES: &[(&str, usize, Value)] = &[
    ("throughput, Mbit/s", 1, |row, _| row.mbps),
    (
        "throughput / standard TCP of the same run",
        2,
        |row, standard| Some(row.mbps? / standard.mbps?),
    ),
    ("throughput, % of what is spare", 0, |row, _| {
        row.spare_percent
    }),
    ("the same after the first 10 s, %", 0, |row, _| {
        row.later_spare_percent
    }),
    ("duration, s", 1, |row, _| row.took_s),
    ("others lost, % of what they receive alone", 1, |row, _| {
        row.others_lost_percent
    }),
    ("others lost in the whole run, MB", 1, |row, _| {
        row.others_lost_mb
    }),
    ("retransmitted segments", 0, |row, _| {
        row.retransmits.map(|segments| segments as f64)
    }),
    ("changes of congestion control", 0, |row, _| {
        Some(row.changes as f64)
    }),
];

/// Median and range; a dash without values.
fn spread(values: Vec<f64>, digits: usize) -> String {
    let least = values.iter().copied().reduce(f64::min);
    let greatest = values.iter().copied().reduce(f64::max);
    let [least, greatest] = [least, greatest].map(|value| plain(value, digits));
    let median = plain(median(values), digits);
    match least == greatest {
        true => median,
        false => format!("{median} ({least} to {greatest})"),
    }
}

/// A number for a file, with one more place; empty if there is none.
fn exact(value: Option<f64>, digits: usize) -> String {
    match (value, digits) {
        (None, _) => String::new(),
        (value, 0) => plain(value, 0),
        (value, digits) => plain(value, digits + 1),
    }
}
