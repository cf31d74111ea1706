//! Runs what the cells need, and keeps what is measured.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairwind_experiment::engine::Run;
use fairwind_experiment::engine::sim::Sim;
use fairwind_experiment::{Engine, EngineError};
use fairwind_scenario::Experiment;
use serde_json::json;

use crate::cache::{program, write_whole};
use crate::{Error, Task, parallel};

use super::cell::Cell;
use super::measures::{self, Measures};
use super::setup::{Role, Setup};
use super::suite::Suite;
use super::watch::Watch;

/// The measures of all runs, by their places.
pub(super) type Measured = BTreeMap<String, Measures>;

/// A run that cells need.
struct Needed<'a> {
    cell: &'a Cell<'a>,
    role: Role,
    seed: u64,
    place: String,
}

/// The folder of a cell's runs in a role, below that of the engine.
pub(super) fn folder(cell: &Cell<'_>, role: Role) -> String {
    let who = match role {
        Role::Solo => "solo".to_owned(),
        Role::Oracle => "oracle".to_owned(),
        Role::Contended => cell.contender(),
    };
    format!("{}/{who}", cell.path())
}

/// The place of a run below the folder of the engine.
pub(super) fn place(cell: &Cell<'_>, role: Role, seed: u64) -> String {
    format!("{}/seed-{seed}", folder(cell, role))
}

/// Runs what has not been run, several at a time.
///
/// # Errors
/// If a run fails, or the work is to stop.
pub(super) fn carry_out(
    task: &Task<'_>,
    suite: &Suite,
    cells: &[Cell<'_>],
) -> Result<Measured, Error> {
    let seeds = &suite.seeds[..task
        .seeds()
        .unwrap_or(suite.seeds.len())
        .min(suite.seeds.len())];
    let needed = needed(cells, seeds);
    let jobs = task.options.jobs.unwrap_or_else(parallel::cores);
    let done = AtomicUsize::new(0);
    let measured = parallel::each(&needed, jobs, |one| {
        task.host.go_on()?;
        let measures = measure(task, suite, one)?;
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        // A line for each run would be thousands.
        if done.is_multiple_of(needed.len().div_ceil(20)) {
            task.tell(&format!("{done} of {} runs", needed.len()));
        }
        Ok(measures.map(|measures| (one.place.clone(), measures)))
    })?;
    Ok(measured.into_iter().flatten().collect())
}

/// All runs that the cells need, each once.
fn needed<'a>(cells: &'a [Cell<'a>], seeds: &[u64]) -> Vec<Needed<'a>> {
    let mut needed = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    for cell in cells {
        let roles: &[Role] = match cell.has_foreground() {
            true => &[Role::Solo, Role::Oracle, Role::Contended],
            false => &[Role::Contended],
        };
        for (role, &seed) in roles
            .iter()
            .flat_map(|role| seeds.iter().map(move |seed| (*role, seed)))
        {
            let place = place(cell, role, seed);
            if known.insert(place.clone()) {
                needed.push(Needed {
                    cell,
                    role,
                    seed,
                    place,
                });
            }
        }
    }
    needed
}

fn measure(task: &Task<'_>, suite: &Suite, needed: &Needed<'_>) -> Result<Option<Measures>, Error> {
    let setup = Setup::new(suite, needed.cell, needed.role, needed.seed)?;
    let asked = json!({ "experiment": setup.text, "on": program() });
    task.cache("sim").kept_or_run(&needed.place, &asked, || {
        let file = task.out.join("sim").join(format!("{}.toml", needed.place));
        write_whole(&file, &setup.text)?;
        let experiment =
            Experiment::parse(&setup.text, &file.display().to_string(), Path::new(""), &[])?;
        run(task, &setup, &experiment, &Sim, needed.seed)
    })
}

fn run(
    task: &Task<'_>,
    setup: &Setup,
    experiment: &Experiment,
    engine: &dyn Engine,
    seed: u64,
) -> Result<Measures, Error> {
    let mut watch = Watch::new(setup.foreground_flows);
    let run = Run {
        experiment,
        seed,
        folder: task.out,
    };
    let go_on = |_| !(task.host.is_stopped)();
    let result = engine.run(run, &mut watch, &go_on);
    let result = result.map_err(|error| match error {
        EngineError::Stopped => Error::Stopped,
        error => error.into(),
    })?;
    Ok(measures::of(setup, &watch, &result))
}
