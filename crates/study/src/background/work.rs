//! Runs what the cells need, and keeps what is measured.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairwind_experiment::engine::Run;
use fairwind_experiment::engine::sim::Sim;
use fairwind_experiment::{Engine, EngineError};
use fairwind_scenario::Experiment;
use serde_json::{Value, json};

use crate::cache::{Policy, program, write_whole};
use crate::{Error, Task, parallel};

use super::cell::Cell;
use super::measures::{self, Measures};
use super::setup::{Role, Setup};
use super::suite::Suite;
use super::watch::Watch;

/// The measures of all runs, by their places.
pub(super) type Measured = BTreeMap<String, Measures>;

/// A run that cells need.
struct Needed {
    setup: Setup,
    seed: u64,
    place: String,
}

impl Needed {
    /// All that its result depends on.
    fn asked(&self) -> Value {
        json!({ "experiment": self.setup.text, "on": program() })
    }
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
    let most = task.seeds().unwrap_or(suite.seeds.len());
    let seeds = &suite.seeds[..most.min(suite.seeds.len())];
    let cache = task.cache("sim");
    let mut measured = Measured::new();
    let mut to_run = Vec::new();
    for one in needed(suite, cells, seeds)? {
        match cache.kept(&one.place, &one.asked()) {
            Some(measures) => {
                measured.insert(one.place, measures);
            }
            None if task.options.policy == Policy::Nothing => {}
            None => to_run.push(one),
        }
    }
    let jobs = task.options.jobs.unwrap_or_else(parallel::cores);
    let done = AtomicUsize::new(0);
    let new = parallel::each(&to_run, jobs, |one| {
        task.host.go_on()?;
        let measures = run(task, one, &Sim)?;
        cache.keep(&one.place, &one.asked(), &measures)?;
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        // A line for each run would be thousands.
        if done.is_multiple_of(to_run.len().div_ceil(20)) {
            task.tell(&format!("{done} of {} runs", to_run.len()));
        }
        Ok((one.place.clone(), measures))
    })?;
    measured.extend(new);
    Ok(measured)
}

/// All runs that the cells need, each once.
fn needed(suite: &Suite, cells: &[Cell<'_>], seeds: &[u64]) -> Result<Vec<Needed>, Error> {
    let mut needed = Vec::new();
    let mut known = BTreeSet::new();
    for cell in cells {
        let roles: &[Role] = match cell.has_foreground() {
            true => &[Role::Solo, Role::Oracle, Role::Contended],
            false => &[Role::Contended],
        };
        for &role in roles {
            for &seed in seeds {
                let place = place(cell, role, seed);
                if known.insert(place.clone()) {
                    let setup = Setup::new(suite, cell, role, seed)?;
                    needed.push(Needed { setup, seed, place });
                }
            }
        }
    }
    Ok(needed)
}

/// Runs it, and leaves its experiment file beside its result.
fn run(task: &Task<'_>, needed: &Needed, engine: &dyn Engine) -> Result<Measures, Error> {
    let setup = &needed.setup;
    let file = task
        .out
        .join(engine.name())
        .join(format!("{}.toml", needed.place));
    write_whole(&file, &setup.text)?;
    let name = file.display().to_string();
    let experiment = Experiment::parse(&setup.text, &name, Path::new(""), &[])?;
    let mut watch = Watch::new(setup.foreground_flows);
    let run = Run {
        experiment: &experiment,
        seed: needed.seed,
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
