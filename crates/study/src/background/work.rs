//! Runs what the cells need, and keeps what is measured.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use fairwind_experiment::engine::lab::Lab;
use fairwind_experiment::engine::sim::Sim;
use serde_json::{Value, json};

use crate::cache::{Policy, write_whole};
use crate::experiments::{self, Configured};
use crate::{Error, Task, parallel};

use super::cell::Cell;
use super::measures::{self, Measures};
use super::setup::{Role, Setup};
use super::suite::Suite;
use super::watch::Watch;

/// The measures of all runs, by their places.
pub(super) type Measured = BTreeMap<String, Measures>;

/// What runs cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runner {
    Simulator,
    Lab,
}

impl Runner {
    /// The engine for this cell. The simulator's hosts leave segmentation to their devices, whatever those of the lab
    /// do.
    fn engine(self, cell: &Cell<'_>) -> Box<dyn Configured> {
        match self {
            Runner::Simulator => Box::new(Sim),
            Runner::Lab => Box::new(Lab {
                offload: cell.offload,
                ..Lab::default()
            }),
        }
    }

    /// Its name in rows, and the folder of its results.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Runner::Simulator => "sim",
            Runner::Lab => "lab",
        }
    }
}

/// A run that cells need.
struct Needed<'a> {
    engine: Box<dyn Configured>,
    setup: Setup,
    seed: u64,
    place: String,
    /// The congestion control of the background.
    control: &'a str,
}

impl Needed<'_> {
    /// All that its result depends on.
    fn asked(&self) -> Value {
        let engine = &*self.engine;
        let mut asked = json!({
            "experiment": self.setup.text,
            "engine": format!("{engine:?}"),
            "on": experiments::ground(engine, Some(self.control)),
        });
        if let Some(delays) = &self.setup.delays {
            asked["delays"] = delays.as_str().into();
        }
        asked
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

/// Runs in this engine what has not been run, several at a time in the simulator. What is not to run is read if it
/// is kept.
///
/// # Errors
/// If a run fails, or the work is to stop.
pub(super) fn carry_out(
    task: &Task<'_>,
    suite: &Suite,
    cells: &[Cell<'_>],
    runner: Runner,
    is_to_run: bool,
) -> Result<Measured, Error> {
    let in_lab = runner == Runner::Lab;
    let cells: Vec<&Cell<'_>> = cells
        .iter()
        .filter(|cell| cell.in_both || !in_lab)
        .collect();
    let most = match task.options.repetitions {
        Some(most) => most,
        None if in_lab && is_to_run => 1,
        None => task.seeds().unwrap_or(suite.seeds.len()),
    };
    let seeds = &suite.seeds[..most.min(suite.seeds.len())];
    let cache = task.cache(runner.name());
    let mut measured = Measured::new();
    let mut to_run = Vec::new();
    for one in needed(suite, &cells, seeds, runner)? {
        match cache.kept(&one.place, &one.asked()) {
            Some(measures) => {
                measured.insert(one.place, measures);
            }
            None if task.options.policy == Policy::Nothing || !is_to_run => {}
            None => to_run.push(one),
        }
    }
    let mut jobs = task.options.jobs.unwrap_or_else(parallel::cores);
    if in_lab {
        to_run.truncate(task.options.at_most.unwrap_or(to_run.len()));
        jobs = 1;
    }
    let done = AtomicUsize::new(0);
    let new = parallel::each(&to_run, jobs, |one| {
        task.host.go_on()?;
        let measures = run(task, one)?;
        if let Some(measures) = &measures {
            cache.keep(&one.place, &one.asked(), measures)?;
        }
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        // In the simulator a line for each run would be thousands.
        if in_lab {
            task.tell(&format!("{done} of {} runs: {}", to_run.len(), one.place));
        } else if done.is_multiple_of(to_run.len().div_ceil(20)) {
            task.tell(&format!("{done} of {} runs", to_run.len()));
        }
        Ok(measures.map(|measures| (one.place.clone(), measures)))
    })?;
    measured.extend(new.into_iter().flatten());
    Ok(measured)
}

/// All runs that the cells need, each once.
fn needed<'a>(
    suite: &'a Suite,
    cells: &[&'a Cell<'a>],
    seeds: &[u64],
    runner: Runner,
) -> Result<Vec<Needed<'a>>, Error> {
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
                    let control = match role {
                        Role::Contended => suite.control_of(cell),
                        Role::Solo | Role::Oracle => "",
                    };
                    needed.push(Needed {
                        engine: runner.engine(cell),
                        setup,
                        seed,
                        place,
                        control,
                    });
                }
            }
        }
    }
    Ok(needed)
}

/// Runs it, and leaves its experiment file beside its result. None of a run that ended early, which the lab's may.
fn run(task: &Task<'_>, needed: &Needed<'_>) -> Result<Option<Measures>, Error> {
    let setup = &needed.setup;
    let engine = &*needed.engine;
    let file = task
        .out
        .join(engine.name())
        .join(format!("{}.toml", needed.place));
    write_whole(&file, &setup.text)?;
    if let Some(delays) = &setup.delays {
        write_whole(
            &file.with_file_name(super::setup::delays_file(needed.seed)),
            delays,
        )?;
    }
    let name = file.display().to_string();
    let mut watch = Watch::new(setup.foreground_flows, setup.background_flows);
    let text = (&setup.text[..], &name[..]);
    let result = experiments::watch(task, text, engine, needed.seed, &mut watch)?;
    for doubt in &result.warnings {
        task.tell(&format!("{name}: {doubt}"));
    }
    if let Some(why) = &result.incomplete {
        task.tell(&format!("{name}: left out, as it ended early: {why}"));
        return Ok(None);
    }
    Ok(Some(measures::of(setup, &watch, &result.flows)))
}

#[cfg(test)]
mod tests {
    use super::super::cell;
    use super::*;

    #[test]
    fn hosts_of_the_lab_offload_what_the_cell_says() {
        let plan = super::super::plan();
        let suite: Suite = plan.data().unwrap();
        let cells = cell::of_runs(&plan.runs, &suite).unwrap();
        let mut folders = BTreeSet::new();
        for (word, offload) in [("send", "Send"), ("none", "None"), ("both", "Both")] {
            let is_it = |cell: &&Cell<'_>| {
                cell.in_both
                    && cell.run.get("offload") == word
                    && (cell.mbps, cell.rtt_ms, cell.queue.name.as_str()) == (50, 30, "1bdp")
                    && (cell.control.as_str(), cell.foreground.name.as_str())
                        == ("fairwind", "cubic")
            };
            let cell = cells.iter().find(is_it).expect(word);
            let engine = format!("{:?}", Runner::Lab.engine(cell));
            assert!(engine.contains(&format!("offload: {offload},")), "{engine}");
            assert_eq!(format!("{:?}", Runner::Simulator.engine(cell)), "Sim");
            folders.insert(folder(cell, Role::Solo));
        }
        // Each with what the foreground has alone on such hosts.
        assert_eq!(folders.len(), 3, "{folders:?}");
    }
}
