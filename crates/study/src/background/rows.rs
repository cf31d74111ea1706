//! A cell with a seed: what its run says beside those of solo and oracle.

use std::collections::{BTreeMap, BTreeSet};

use crate::Error;
use crate::table::Table;

use super::cell::Cell;
use super::measures::Measures;
use super::setup::Role;
use super::work::{Measured, Runner, place};

/// The engines, in the order of their rows.
const ENGINES: [&str; 2] = [Runner::Simulator.name(), Runner::Lab.name()];
/// Columns besides the parameters of cells and the numbers.
const ENGINE: &str = "engine";
const SEED: &str = "seed";

/// The name and the way to each number of a row; `None` where it says nothing.
pub(super) type Number = fn(&Row) -> Option<f64>;

/// What a run says beside solo and oracle.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    /// Position of the cell among all.
    pub cell: usize,
    /// What ran it: `sim` or `lab`.
    pub engine: &'static str,
    pub seed: u64,
    /// Share of the foreground's goodput alone that it keeps, over its time and in the second half of it.
    pub kept: Option<f64>,
    pub kept_second_half: Option<f64>,
    /// What the background carries meanwhile, as a share of what is spare.
    pub used: Option<f64>,
    /// What is spare, as a share of the link.
    pub spare_share: Option<f64>,
    /// What the background carries alone, as a share of the link.
    pub alone: Option<f64>,
    /// Completion times of objects, as multiples of those without a background.
    pub fct_p50: Option<f64>,
    pub fct_p99: Option<f64>,
    /// Time in the queue beyond that without a background, ms; without a foreground, all of it.
    pub queue_added_p50_ms: Option<f64>,
    pub queue_added_p99_ms: Option<f64>,
    pub jain: Option<f64>,
    /// Time to yield beyond the oracle's, in round trips of the background; infinite if it does not yield, though the
    /// oracle does.
    pub yield_rtt: Option<f64>,
    /// Time to reclaim, seconds; infinite if it does not before the end.
    pub reclaim_s: Option<f64>,
    /// Time until the link is in use again after a step of the round-trip time, the longest, seconds; infinite if it is
    /// not before the next.
    pub back_s: Option<f64>,
    /// Segments that missed their deadlines, as a share; and without a background.
    pub missed: Option<f64>,
    pub missed_solo: Option<f64>,
}

/// A number of a row, to be set.
type Field = fn(&mut Row) -> &mut Option<f64>;

/// Columns of the file with all runs, which have the names of the fields.
macro_rules! numbers {
    ($($name:ident)*) => {
        &[$((stringify!($name), |row| row.$name, |row| &mut row.$name)),*]
    };
}

pub(super) const NUMBERS: &[(&str, Number, Field)] = numbers! {
    kept kept_second_half used spare_share alone fct_p50 fct_p99 queue_added_p50_ms queue_added_p99_ms jain yield_rtt
    reclaim_s back_s missed missed_solo
};

/// The rows of all cells whose runs are there, by cell and seed.
pub(super) fn rows(cells: &[Cell<'_>], measured: &Measured, engine: &'static str) -> Vec<Row> {
    let mut by_place: BTreeMap<&str, Vec<(u64, &Measures)>> = BTreeMap::new();
    for (place, measures) in measured {
        if let Some((folder, seed)) = place.rsplit_once("/seed-") {
            let seed = seed.parse().expect("a number was written");
            by_place.entry(folder).or_default().push((seed, measures));
        }
    }
    let mut rows = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        let folder = super::work::folder(cell, Role::Contended);
        let mut runs = by_place.get(folder.as_str()).cloned().unwrap_or_default();
        runs.sort_by_key(|(seed, _)| *seed);
        for (seed, run) in runs {
            let of = |role| measured.get(&place(cell, role, seed));
            let row = match cell.has_foreground() {
                false => without_foreground(run),
                true => {
                    let (Some(solo), Some(oracle)) = (of(Role::Solo), of(Role::Oracle)) else {
                        continue;
                    };
                    row(cell, run, solo, oracle)
                }
            };
            rows.push(Row {
                cell: at,
                engine,
                seed,
                ..row
            });
        }
    }
    rows
}

fn without_foreground(run: &Measures) -> Row {
    Row {
        alone: Some(run.alone),
        queue_added_p50_ms: Some(run.alone_queue_p50_ms),
        queue_added_p99_ms: Some(run.alone_queue_p99_ms),
        jain: run.jain,
        back_s: run
            .back_s
            .iter()
            .map(|back| back.unwrap_or(f64::INFINITY))
            .reduce(f64::max),
        ..Row::default()
    }
}

fn row(cell: &Cell<'_>, run: &Measures, solo: &Measures, oracle: &Measures) -> Row {
    let ratio = |one: f64, other: f64| (other > 0.0).then(|| one / other);
    let trip = cell.rtt_ms as f64 / 1e3 * cell.trip.least;
    let missed = |of: &Measures| ratio(of.missed as f64, of.segments as f64);
    let leaves = matches!(cell.foreground.traffic, super::suite::Traffic::Long { .. });
    Row {
        kept: ratio(run.foreground, solo.foreground),
        kept_second_half: ratio(run.foreground_second_half, solo.foreground_second_half),
        used: ratio(run.background, oracle.background),
        spare_share: Some(oracle.background),
        alone: Some(run.alone),
        fct_p50: run
            .object_p50_s
            .zip(solo.object_p50_s)
            .map(|(run, solo)| run / solo),
        fct_p99: run
            .object_p99_s
            .zip(solo.object_p99_s)
            .map(|(run, solo)| run / solo),
        queue_added_p50_ms: Some(run.queue_p50_ms - solo.queue_p50_ms),
        queue_added_p99_ms: Some(run.queue_p99_ms - solo.queue_p99_ms),
        jain: run.jain,
        yield_rtt: oracle.yields_s.filter(|_| leaves).map(|oracle| {
            run.yields_s
                .map_or(f64::INFINITY, |run| (run - oracle) / trip)
        }),
        reclaim_s: leaves.then(|| run.reclaims_s.unwrap_or(f64::INFINITY)),
        missed: missed(run),
        missed_solo: missed(solo),
        ..Row::default()
    }
}

/// The rows, and those of an earlier series (as [`table`] writes it) of cells that the engine has not run now. Cells that
/// the plan no longer has are left out.
///
/// # Errors
/// If the series is not of this form.
pub(super) fn complete(
    rows: Vec<Row>,
    cells: &[Cell<'_>],
    earlier: &str,
) -> Result<Vec<Row>, Error> {
    let mut lines = earlier.lines().filter(|line| !line.starts_with('#'));
    let heads = heads();
    if lines.next() != Some(&heads.join(",")) {
        return Err(Error::input(
            "the raw series of the page has other columns\n  help: make the whole page anew, without --only",
        ));
    }
    let is_of_cell = |name: &&str| ![ENGINE, SEED].contains(name);
    let names = || super::PARAMETERS.iter().map(|parameter| parameter.name);
    let of_cell = |cell: &Cell<'_>| -> Vec<String> {
        let names = names().filter(is_of_cell);
        names.map(|name| cell.run.get(name).to_owned()).collect()
    };
    let places: BTreeMap<Vec<String>, usize> = cells.iter().map(of_cell).zip(0..).collect();
    let made: BTreeSet<(&str, usize)> = rows.iter().map(|row| (row.engine, row.cell)).collect();
    let mut all = rows.clone();
    for line in lines {
        let values: BTreeMap<&str, &str> = heads.iter().copied().zip(line.split(',')).collect();
        let wrong = || Error::input(format!("the raw series of the page has the row {line}"));
        let of = |name: &str| values.get(name).copied().ok_or_else(wrong);
        let place = names()
            .filter(is_of_cell)
            .map(|name| Ok(of(name)?.to_owned()));
        let Some(&cell) = places.get(&place.collect::<Result<Vec<String>, Error>>()?) else {
            continue;
        };
        let engine = of(ENGINE)?;
        let engine = ENGINES.into_iter().find(|one| *one == engine);
        let mut row = Row {
            cell,
            engine: engine.ok_or_else(wrong)?,
            seed: of(SEED)?.parse().map_err(|_| wrong())?,
            ..Row::default()
        };
        for (name, _, field) in NUMBERS {
            let number = of(name)?;
            if !number.is_empty() {
                *field(&mut row) = Some(number.parse().map_err(|_| wrong())?);
            }
        }
        if !made.contains(&(row.engine, row.cell)) {
            all.push(row);
        }
    }
    let engine = |row: &Row| ENGINES.iter().position(|engine| *engine == row.engine);
    all.sort_by_key(|row| (engine(row), row.cell, row.seed));
    Ok(all)
}

/// The columns of [`table`].
fn heads() -> Vec<&'static str> {
    let parameters = super::PARAMETERS.iter().map(|parameter| parameter.name);
    let numbers = NUMBERS.iter().map(|(name, ..)| *name);
    parameters.chain([SEED]).chain(numbers).collect()
}

/// All rows.
pub(super) fn table(cells: &[Cell<'_>], rows: &[Row]) -> Table {
    let mut table = Table::new(&heads().join(" | "));
    for row in rows {
        let run = &cells[row.cell].run;
        let parameters = super::PARAMETERS
            .iter()
            .map(|parameter| match parameter.name {
                ENGINE => row.engine.to_owned(),
                name => run.get(name).to_owned(),
            });
        let numbers = NUMBERS.iter().map(|(_, number, _)| match number(row) {
            None => String::new(),
            Some(number) => format!("{number:.4}"),
        });
        table.row(parameters.chain([row.seed.to_string()]).chain(numbers));
    }
    table
}

#[cfg(test)]
mod tests {
    use crate::plan::Run;

    use super::super::cell;
    use super::super::suite::{Foreground, Queue, Suite, Traffic, Trip};
    use super::*;

    #[test]
    fn rows_that_are_not_made_come_from_an_earlier_series() {
        let plan = super::super::plan();
        let suite: Suite = plan.data().unwrap();
        let cells = cell::of_runs(&plan.runs, &suite).unwrap();
        let at = |control: &str| {
            let is_it = |cell: &Cell<'_>| {
                cell.control == control && cell.in_both && cell.foreground.name == "cubic"
            };
            cells.iter().position(is_it).unwrap()
        };
        let of = |control, engine, kept| Row {
            cell: at(control),
            engine,
            seed: 1,
            kept: Some(kept),
            reclaim_s: Some(f64::INFINITY),
            ..Row::default()
        };
        let before = [
            of("fairwind", "sim", 0.9),
            of("nice", "sim", 0.8),
            of("fairwind", "lab", 0.7),
        ];
        let series = format!("# from there\n{}", table(&cells, &before).csv());

        let now = vec![of("fairwind", "sim", 0.95)];
        assert_eq!(
            complete(now, &cells, &series).unwrap(),
            [
                of("fairwind", "sim", 0.95),
                of("nice", "sim", 0.8),
                of("fairwind", "lab", 0.7),
            ]
        );
        // What the plan no longer has is left out.
        let gone = series.replace(",cubic,", ",quic,");
        assert_eq!(complete(Vec::new(), &cells, &gone).unwrap(), []);
        // What is no such series loses nothing.
        for damaged in ["", "a,b\n1,2", &series.replace(",1,0.8", ",one,0.8")] {
            let error = complete(Vec::new(), &cells, damaged).unwrap_err();
            assert!(error.to_string().contains("raw series"), "{error}");
        }
    }

    #[test]
    fn a_row_sets_a_run_beside_solo_and_oracle() {
        let queue = Queue {
            name: "1bdp".to_owned(),
            bdp: 1.0,
            least: 4,
            fields: String::new(),
            oracle: None,
        };
        let traffic = |traffic| Foreground {
            name: "cubic".to_owned(),
            traffic,
        };
        let long = traffic(Traffic::Long {
            flows: 1,
            control: "cubic".to_owned(),
        });
        let none = traffic(Traffic::None);
        let trip = Trip {
            name: "shorter".to_owned(),
            least: 0.5,
            most: 0.5,
        };
        let noise = super::super::suite::Noise {
            name: "none".to_owned(),
            ..Default::default()
        };
        let cell = |foreground| Cell {
            run: Run::default(),
            control: "reno".to_owned(),
            mbps: 100,
            rtt_ms: 20,
            queue: &queue,
            foreground,
            background: 1,
            loss: "0%".to_owned(),
            trip: &trip,
            noise: &noise,
            reclaim_s: 1.0,
            offload: fairwind_lab::host::Offload::Send,
            in_both: false,
        };
        let run = Measures {
            foreground: 0.4,
            background: 0.3,
            queue_p50_ms: 5.0,
            yields_s: Some(0.2),
            object_p50_s: Some(0.12),
            ..Measures::default()
        };
        let solo = Measures {
            foreground: 0.8,
            queue_p50_ms: 4.0,
            object_p50_s: Some(0.1),
            ..Measures::default()
        };
        let oracle = Measures {
            background: 0.15,
            yields_s: Some(0.1),
            ..Measures::default()
        };
        let set_beside = row(&cell(&long), &run, &solo, &oracle);
        assert_eq!(set_beside.kept, Some(0.5));
        assert_eq!(
            (set_beside.used, set_beside.spare_share),
            (Some(2.0), Some(0.15))
        );
        assert_eq!(set_beside.queue_added_p50_ms, Some(1.0));
        assert!((set_beside.fct_p50.unwrap() - 1.2).abs() < 1e-9);
        // 100 ms later than the oracle, in round trips of 10 ms.
        assert_eq!(set_beside.yield_rtt, Some(10.0));
        assert_eq!(set_beside.reclaim_s, Some(f64::INFINITY));
        let alone = without_foreground(&Measures {
            alone: 0.9,
            alone_queue_p99_ms: 2.0,
            ..run
        });
        assert_eq!(
            (alone.kept, alone.alone, alone.queue_added_p99_ms),
            (None, Some(0.9), Some(2.0))
        );
        assert_eq!(cell(&none).name(), "100mbit-20ms-1bdp-cubic-shorter-1bg");
    }
}
