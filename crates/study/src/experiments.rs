//! Runs of experiment files: results in folders, which are kept.

use std::fmt::Debug;
use std::path::Path;
use std::time::Instant;

use fairwind_experiment::result::{RunResult, Stored, seed_folder};
use fairwind_experiment::{Engine, ExecuteOptions, Experiment, execute};
use serde_json::{Value, json};

use crate::cache::{Policy, program};
use crate::{Error, Task};

/// Runs an experiment with these seeds into `OUT/below/name`, or reads its kept result; none if there is none
/// and nothing is to be run. A run that ends early is in the result, which then is not kept.
pub fn run_or_kept<E: Engine + Debug>(
    task: &Task<'_>,
    experiment: &Experiment,
    engine: &E,
    seeds: &[u64],
    [below, name]: [&str; 2],
) -> Result<Option<Vec<RunResult>>, Error> {
    if let Some(runs) = kept(task, experiment, engine, seeds, [below, name]) {
        return Ok(Some(runs));
    }
    if task.options.policy == Policy::Nothing {
        return Ok(None);
    }
    let folder = task.out.join(below).join(name);
    let begun = Instant::now();
    let options = ExecuteOptions {
        force: true,
        seeds: Some(seeds.to_vec()),
        jobs: task.options.jobs,
        ..ExecuteOptions::new(&folder)
    };
    let completed = execute(experiment, engine, &options, task.host)?;
    task.host.go_on()?;
    let seconds = begun.elapsed().as_secs_f64();
    task.tell(&format!("{}: {seconds:.0} s", folder.display()));
    // What a recording holds would not be in the record.
    if completed.incomplete.is_none() && !experiment.file().follows_traces() {
        let asked = asked(experiment, engine, seeds);
        task.cache(below).keep(name, &asked, &())?;
    }
    Ok(Some(completed.runs))
}

/// The kept result of an experiment with these seeds in `OUT/below/name`.
pub fn kept<E: Engine + Debug>(
    task: &Task<'_>,
    experiment: &Experiment,
    engine: &E,
    seeds: &[u64],
    [below, name]: [&str; 2],
) -> Option<Vec<RunResult>> {
    let asked = asked(experiment, engine, seeds);
    task.cache(below).kept::<()>(name, &asked)?;
    stored(&task.out.join(below).join(name), seeds)
}

/// All that a result depends on: also the program, if it simulates, or else the kernel.
fn asked<E: Engine + Debug>(experiment: &Experiment, engine: &E, seeds: &[u64]) -> Value {
    let on = match engine.is_real_time() {
        true => fairwind_kernel::release(),
        false => program().to_owned(),
    };
    json!({
        "experiment": experiment.text(),
        "set": experiment.overrides(),
        "seeds": seeds,
        "engine": format!("{engine:?}"),
        "on": on,
    })
}

/// The runs in a folder, if they are of these seeds.
fn stored(folder: &Path, seeds: &[u64]) -> Option<Vec<RunResult>> {
    let runs = match Stored::read(folder).ok()? {
        Stored::Run(run) => vec![run],
        Stored::Summary(summary) => summary
            .seeds
            .iter()
            .map(|&seed| RunResult::read(&folder.join(seed_folder(seed))).ok())
            .collect::<Option<_>>()?,
    };
    let of_runs = runs.iter().map(|run| run.seed);
    of_runs.eq(seeds.iter().copied()).then_some(runs)
}
