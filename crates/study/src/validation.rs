//! Compares the simulator with the kernel: the same experiments in both engines, and the table of
//! `docs/measurements/simulator-and-kernel.md`.
//!
//! A run of the lab in which the kernel skipped a hook of the congestion control, which the result's warnings
//! report, is no sample of that congestion control: it is left out of the means, and counted.

use std::fmt::Write;

use fairwind_experiment::engine::lab::Lab;
use fairwind_experiment::engine::sim::Sim;
use fairwind_result::RunResult;

use crate::cache::Policy;
use crate::experiments::{Asked, Configured, first_seeds, jobs, kept, load, run_or_kept};
use crate::plan::{EXPERIMENT, Parameter, Run, Values};
use crate::statistics::median;
use crate::table::Table;
use crate::{Error, Made, Study, Task, page, parallel};

/// Its runs are those of experiments.
pub(crate) const STUDY: Study =
    Study::new(&[Parameter::new(EXPERIMENT, Values::Experiment)], carry_out);

/// Runs the experiments into `OUT/CELL/sim` and `OUT/CELL/lab` and compares the engines.
///
/// # Errors
/// If a run fails.
fn carry_out(task: &Task<'_>) -> Result<Made, Error> {
    let (at_a_time, seeds_at_a_time) = jobs(task, task.runs.len());
    let simulate = |run: &Run| totals_in(task, run, &Sim, task.engines.has_sim(), seeds_at_a_time);
    let simulated = parallel::each(&task.runs, at_a_time, simulate)?;
    let mut cells = Vec::new();
    for (run, sim) in task.runs.iter().zip(simulated) {
        cells.push(Cell {
            name: run.name(),
            sim,
            lab: totals_in(task, run, &Lab::default(), task.engines.has_lab(), 1)?,
        });
    }
    let is_empty = cells
        .iter()
        .all(|cell| cell.sim.is_none() && cell.lab.is_none());
    if is_empty && task.options.policy == Policy::Nothing {
        return Err(task.nothing_kept());
    }
    let mut section = table(&cells).section("cells");
    let runs = everything(&cells);
    section.csv = Some(runs.csv());
    Ok(Made {
        runs: Some(runs),
        sections: vec![section, page::made("run")],
        remarks: verdict(&cells),
        ..Made::default()
    })
}

/// The totals of a cell in an engine. If that is not to run, the table shows what is kept.
fn totals_in(
    task: &Task<'_>,
    run: &Run,
    engine: &dyn Configured,
    is_to_run: bool,
    jobs: usize,
) -> Result<Option<Totals>, Error> {
    let name = run.name();
    let experiment = load(task, run)?;
    let asked = Asked {
        experiment: &experiment,
        engine,
        seeds: first_seeds(&experiment, task.seeds()),
        jobs,
        below: &name,
        name: engine.name(),
    };
    let runs = if is_to_run {
        run_or_kept(task, &asked)?
    } else {
        kept(task, &asked)
    };
    Ok(runs.map(|runs| totals(&runs)))
}

/// Tolerances of a cell's goodput and mean queue, as shares of the lab's values.
const GOODPUT_TOLERANCE: f64 = 0.03;
const QUEUE_TOLERANCE: f64 = 0.10;

/// Part of the warning that the kernel skipped a hook of a congestion control
/// (`docs/explanation/decisions/skipped-hooks.md`).
const SKIPPED_HOOK: &str = "impossible slow-start threshold";

/// The values to compare, as means over the seeds whose runs are fair samples.
struct Totals {
    runs: usize,
    /// Further runs, left out because the kernel skipped hooks of their congestion controls.
    left_out: usize,
    /// Goodput of all flows together, Mbit/s.
    goodput_mbps: f64,
    /// Mean queue of the bottleneck, packets.
    queue_pkts: f64,
    retransmits: f64,
    /// Packets that the bottleneck's queue dropped.
    drops: f64,
    /// Lateness of the emulator, the worst of the seeds.
    lateness_p99_us: Option<f64>,
    /// Why a run is incomplete or doubtful.
    complaints: Vec<String>,
}

/// One of the values to compare.
type Metric = fn(&Totals) -> f64;

/// A cell with its results so far.
struct Cell {
    name: String,
    sim: Option<Totals>,
    lab: Option<Totals>,
}

impl Cell {
    /// The totals of simulator and lab, if they have fair runs.
    fn totals(&self) -> [Option<&Totals>; 2] {
        [&self.sim, &self.lab].map(|totals| totals.as_ref().filter(|totals| totals.runs > 0))
    }
}

fn totals(all: &[RunResult]) -> Totals {
    let (runs, left_out): (Vec<_>, Vec<_>) = all.iter().partition(|run| is_fair(run));
    let mean = |of: &dyn Fn(&RunResult) -> f64| {
        runs.iter().map(|run| of(run)).sum::<f64>() / runs.len() as f64
    };
    let lateness = runs.iter().filter_map(|run| run.emulator.as_ref());
    let lateness = lateness.map(|emulator| emulator.lateness_p99_us);
    let incomplete = runs.iter().filter_map(|run| run.incomplete.clone());
    let warnings = runs.iter().flat_map(|run| run.warnings.clone());
    Totals {
        runs: runs.len(),
        left_out: left_out.len(),
        goodput_mbps: mean(&|run| run.flows.iter().map(|flow| flow.goodput_mbps).sum()),
        queue_pkts: mean(&|run| run.links[0].queue_mean_pkts),
        retransmits: mean(&|run| run.flows.iter().map(|flow| flow.retransmits as f64).sum()),
        drops: mean(&|run| run.links[0].drops as f64),
        lateness_p99_us: lateness.reduce(f64::max),
        complaints: incomplete.chain(warnings).collect(),
    }
}

/// Whether the kernel ran every hook of the run's congestion controls, as far as can be told: in place of the
/// answer of a hook that it skipped, it uses a slow-start threshold that no congestion control returns.
fn is_fair(run: &RunResult) -> bool {
    let skipped = |warning: &String| warning.contains(SKIPPED_HOOK);
    !run.warnings.iter().any(skipped)
}

/// By how much the simulator's value is above the lab's, as a share of the lab's.
fn relative(cell: &Cell, of: Metric) -> Option<f64> {
    let [sim, lab] = cell.totals();
    let (sim, lab) = (of(sim?), of(lab?));
    (lab != 0.0).then(|| (sim - lab) / lab)
}

fn goodput(totals: &Totals) -> f64 {
    totals.goodput_mbps
}

fn queue(totals: &Totals) -> f64 {
    totals.queue_pkts
}

/// The values of both engines; empty without fair runs.
fn pair(cell: &Cell, of: Metric, digits: usize) -> [String; 2] {
    let text = |totals: &Totals| format!("{:.digits$}", of(totals));
    cell.totals()
        .map(|totals| totals.map_or(String::new(), text))
}

fn percent(cell: &Cell, of: Metric) -> String {
    let text = relative(cell, of).map(|share| format!("{:+.1} %", 100.0 * share));
    text.unwrap_or_default()
}

/// The table of the page.
fn table(cells: &[Cell]) -> Table {
    let mut table = Table::new(
        "cell | goodput, Mbit/s: simulator | lab | difference | mean queue, packets: simulator | lab | \
         difference",
    );
    for cell in cells {
        let mut row = vec![cell.name.clone()];
        row.extend(pair(cell, goodput, 2));
        row.push(percent(cell, goodput));
        row.extend(pair(cell, queue, 1));
        row.push(percent(cell, queue));
        table.row(row);
    }
    table
}

/// All values, for a file.
fn everything(cells: &[Cell]) -> Table {
    let mut table = Table::new(
        "cell | seeds | lab_runs | sim_goodput_mbps | lab_goodput_mbps | \
         goodput_difference_percent | sim_queue_mean_pkts | lab_queue_mean_pkts | \
         queue_difference_percent | sim_retransmits | lab_retransmits | sim_drops | lab_drops | \
         lateness_p99_us",
    );
    let off = |cell: &Cell, of: Metric| {
        let text = relative(cell, of).map(|share| format!("{:.1}", 100.0 * share));
        text.unwrap_or_default()
    };
    for cell in cells {
        let mut row = vec![cell.name.clone()];
        row.extend(pair(cell, |totals| totals.runs as f64, 0));
        row.extend(pair(cell, goodput, 2));
        row.push(off(cell, goodput));
        row.extend(pair(cell, queue, 1));
        row.push(off(cell, queue));
        row.extend(pair(cell, |totals| totals.retransmits, 0));
        row.extend(pair(cell, |totals| totals.drops, 0));
        let lateness = cell.totals()[1].and_then(|lab| lab.lateness_p99_us);
        row.push(lateness.map_or(String::new(), |us| format!("{us:.0}")));
        table.row(row);
    }
    table
}

/// Medians, cells out of tolerance, and runs that are left out.
fn verdict(cells: &[Cell]) -> String {
    let is_in_both = |cell: &&Cell| cell.totals().iter().all(Option::is_some);
    let both = cells.iter().filter(is_in_both).count();
    let mut text = format!("{both} cells in both engines.\n");
    let metrics: [(&str, Metric, f64); 2] = [
        ("goodput", goodput, GOODPUT_TOLERANCE),
        ("mean queue", queue, QUEUE_TOLERANCE),
    ];
    for (name, of, tolerance) in metrics {
        let off = |cell: &Cell| relative(cell, of).map(f64::abs);
        let Some(median) = median(cells.iter().filter_map(off).collect()) else {
            continue;
        };
        let is_out = |cell: &&Cell| off(cell).is_some_and(|share| share > tolerance);
        let out = cells.iter().filter(is_out).map(|cell| cell.name.as_str());
        let out: Vec<&str> = out.collect();
        let out = if out.is_empty() {
            "none".to_owned()
        } else {
            out.join(", ")
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "Median difference of the {name}: {:.1} %. More than {:.0} %: {out}.",
            100.0 * median,
            100.0 * tolerance,
        );
    }
    text.push_str(&left_out(cells));
    for cell in cells {
        for totals in [&cell.sim, &cell.lab].into_iter().flatten() {
            for complaint in &totals.complaints {
                let _ = writeln!(text, "{}: {complaint}", cell.name);
            }
        }
    }
    text
}

/// How many runs of the lab are no fair samples of their congestion controls.
fn left_out<'a>(cells: &'a [Cell]) -> String {
    let in_lab = |cell: &'a Cell| Some((&cell.name, cell.lab.as_ref()?));
    let lab = || cells.iter().filter_map(in_lab);
    let left_out: usize = lab().map(|(_, totals)| totals.left_out).sum();
    let runs: usize = lab().map(|(_, totals)| totals.runs).sum();
    let mut text = format!(
        "Runs of the lab left out, as the kernel skipped hooks of their controls: {left_out} of {}.\n",
        runs + left_out
    );
    for (name, totals) in lab().filter(|(_, totals)| totals.left_out > 0) {
        let all = totals.runs + totals.left_out;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}: {} of {all} left out.", totals.left_out);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(goodput_mbps: f64, queue_pkts: f64) -> Totals {
        Totals {
            runs: 2,
            left_out: 1,
            goodput_mbps,
            queue_pkts,
            retransmits: 7.0,
            drops: 7.0,
            lateness_p99_us: Some(55.4),
            complaints: Vec::new(),
        }
    }

    #[test]
    fn differences_are_relative_to_the_lab() {
        let cell = Cell {
            name: "cubic".to_owned(),
            sim: Some(totals(9.5, 12.0)),
            lab: Some(totals(10.0, 10.0)),
        };
        let row = "| cubic | 9.50 | 10.00 | -5.0 % | 12.0 | 10.0 | +20.0 % |\n";
        let cells = [cell];
        assert!(table(&cells).markdown().ends_with(row));
        assert!(
            everything(&cells)
                .csv()
                .ends_with("\ncubic,2,2,9.50,10.00,-5.0,12.0,10.0,20.0,7,7,7,7,55\n")
        );
        assert_eq!(
            verdict(&cells),
            "1 cells in both engines.\n\
             Median difference of the goodput: 5.0 %. More than 3 %: cubic.\n\
             Median difference of the mean queue: 20.0 %. More than 10 %: cubic.\n\
             Runs of the lab left out, as the kernel skipped hooks of their controls: 1 of 3.\n\
             cubic: 1 of 3 left out.\n"
        );
    }
}
