//! Runs of experiment files: results in folders, which are kept.

use std::fmt::Debug;
use std::path::Path;
use std::time::Instant;

use fairwind_experiment::{Engine, ExecuteOptions, engine, execute};
use fairwind_result::record::Recorder;
use fairwind_result::{RunResult, Stored, seed_folder};
use fairwind_scenario::Experiment;
use serde_json::{Value, json};

use crate::cache::{Policy, digest, program};
use crate::plan::Run;
use crate::{Error, Task, parallel};

/// How many experiments are simulated at the same time, and how many seeds of each.
pub(crate) fn jobs(task: &Task<'_>, experiments: usize) -> (usize, usize) {
    let all = task.options.jobs.unwrap_or_else(parallel::cores);
    (all, all.div_ceil(experiments.max(1)))
}

/// IP bytes for each byte of payload of full segments.
pub(crate) const TCP_IP: f64 = 1500.0 / 1448.0;

/// IP bytes for each byte of payload of full datagrams.
pub(crate) const UDP_IP: f64 = 1500.0 / 1472.0;

/// An engine whose configuration is part of what a result depends on.
pub(crate) trait Configured: Engine + Debug {}

impl<E: Engine + Debug> Configured for E {}

/// An experiment to be run.
pub(crate) struct Asked<'a> {
    pub experiment: &'a Experiment,
    pub engine: &'a dyn Configured,
    pub seeds: &'a [u64],
    /// How many seeds at the same time, in the simulator.
    pub jobs: usize,
    /// The folder of its result, `OUT/below/name`.
    pub below: &'a str,
    pub name: &'a str,
}

/// The experiment of a run of the plan.
pub(crate) fn load(task: &Task<'_>, run: &Run) -> Result<Experiment, Error> {
    Ok(Experiment::load(&task.plan.experiment(run), &run.set)?)
}

/// The first seeds of an experiment, at most so many.
pub(crate) fn first_seeds(experiment: &Experiment, most: Option<usize>) -> &[u64] {
    let all = experiment.seeds();
    &all[..most.unwrap_or(all.len()).min(all.len())]
}

/// Runs an experiment, or reads its kept result; none if there is none and nothing is to be run. A run that
/// ends early is in the result, which then is not kept.
pub(crate) fn run_or_kept(
    task: &Task<'_>,
    asked: &Asked<'_>,
) -> Result<Option<Vec<RunResult>>, Error> {
    if let Some(runs) = kept(task, asked) {
        return Ok(Some(runs));
    }
    if task.options.policy == Policy::Nothing {
        return Ok(None);
    }
    let folder = task.out.join(asked.below).join(asked.name);
    let begun = Instant::now();
    let options = ExecuteOptions {
        force: true,
        seeds: Some(asked.seeds.to_vec()),
        jobs: Some(asked.jobs),
        ..ExecuteOptions::new(&folder)
    };
    let completed = execute(asked.experiment, asked.engine, &options, task.host)?;
    task.host.go_on()?;
    let seconds = begun.elapsed().as_secs_f64();
    task.tell(&format!("{}: {seconds:.0} s", folder.display()));
    // What a recording holds would not be in the record.
    if completed.incomplete.is_none() && !asked.experiment.file().follows_traces() {
        let cache = task.cache(asked.below);
        cache.keep(asked.name, &depends_on(asked), &())?;
    }
    Ok(Some(completed.runs))
}

/// Runs an experiment of this text for a recorder that keeps what is wanted of it: no result is written. Messages call
/// it `name`; if that is a file's, recordings are beside it.
///
/// # Errors
/// If the text is no experiment, the run fails, or the work is to stop.
pub(crate) fn watch(
    task: &Task<'_>,
    (text, name): (&str, &str),
    engine: &dyn Engine,
    seed: u64,
    recorder: &mut dyn Recorder,
) -> Result<RunResult, Error> {
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    let experiment = Experiment::parse(text, name, folder, &[])?;
    let run = engine::Run {
        experiment: &experiment,
        seed,
        folder: task.out,
    };
    Ok(engine.run(run, recorder, &|_| !(task.host.is_stopped)())?)
}

/// The kept result of an experiment.
pub(crate) fn kept(task: &Task<'_>, asked: &Asked<'_>) -> Option<Vec<RunResult>> {
    let cache = task.cache(asked.below);
    cache.kept::<()>(asked.name, &depends_on(asked))?;
    stored(&task.out.join(asked.below).join(asked.name), asked.seeds)
}

/// What a result depends on besides its experiment: the program, if it simulates, or else the kernel and, if it
/// is given, our congestion control that is loaded into it.
pub(crate) fn ground(engine: &dyn Configured, control: Option<&str>) -> String {
    if !engine.is_real_time() {
        return program().to_owned();
    }
    let release = fairwind_kernel::release();
    let Some(control) = control else {
        return release;
    };
    let object = fairwind_cc::kernel::object(control).unwrap_or_default();
    format!("{release}, {:016x}", digest(object))
}

/// All that a result depends on.
fn depends_on(asked: &Asked<'_>) -> Value {
    json!({
        "experiment": asked.experiment.text(),
        "set": asked.experiment.overrides(),
        "seeds": asked.seeds,
        "engine": format!("{:?}", asked.engine),
        "on": ground(asked.engine, None),
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
