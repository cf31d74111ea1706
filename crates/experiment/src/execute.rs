//! Runs an experiment for its seeds and leaves a folder. Everything is first written beside it and
//! gets the folder's name at the very end, so that a folder of that name is complete.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fairwind_result::record::NoRecorder;
use fairwind_result::series::ParquetRecorder;
use fairwind_result::{EXPERIMENT_FILE, ResultError, RunResult, Summary, seed_folder, write_text};
use fairwind_scenario::Experiment;

use crate::engine::{self, Engine, EngineError};

mod folder;
mod leftovers;

use folder::Destination;
pub use leftovers::is_working_folder;

/// Options of an execution.
#[derive(Clone, Debug)]
pub struct ExecuteOptions {
    /// The folder of the result.
    pub out: PathBuf,
    /// Whether to replace an existing result. Anything else in that place is never replaced.
    pub force: bool,
    /// Seeds that replace the file's.
    pub seeds: Option<Vec<u64>>,
    /// Whether to write time series if the file asks for them.
    pub series: bool,
    /// Number of simultaneous runs; `None`: one per core. Runs in real time are sequential.
    pub jobs: Option<usize>,
}

impl ExecuteOptions {
    /// Everything as in the file, into this folder.
    pub fn new(out: impl Into<PathBuf>) -> ExecuteOptions {
        ExecuteOptions {
            out: out.into(),
            force: false,
            seeds: None,
            series: true,
            jobs: None,
        }
    }
}

/// Observes the runs, from several threads.
pub trait Progress: Sync {
    /// Called as the run with this seed progresses; `share` is from 0 to 1. Returning false stops
    /// everything.
    fn run(&self, seed: u64, share: f64) -> bool {
        let _ = (seed, share);
        true
    }
}

/// Ignores progress.
impl Progress for () {}

/// What an execution produced.
#[derive(Clone, Debug)]
pub struct Completed {
    /// The folder of the result.
    pub dir: PathBuf,
    /// One result per seed, in the order of the seeds.
    pub runs: Vec<RunResult>,
    /// Summary of all runs, if several seeds were requested.
    pub summary: Option<Summary>,
    /// Why not everything ran to its end, if so; only of engines in real time.
    pub incomplete: Option<String>,
    /// The HTML report.
    pub report: PathBuf,
}

/// Why an execution has no result.
#[derive(Debug, thiserror::Error)]
pub enum ExecuteError {
    /// The folder already holds a result.
    #[error("{} holds a result already\n  help: name another folder, or replace it with --force", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// There is something other than a result, which is never replaced.
    #[error("{} is in the way: {reason}\n  help: name another folder, or move it away yourself", path.display())]
    InTheWay {
        /// The path.
        path: PathBuf,
        /// Why it is not a result.
        reason: String,
    },
    /// No seeds were requested.
    #[error("no seed\n  help: name at least one")]
    NoSeed,
    /// A seed was requested twice.
    #[error("seed {seed} is asked for twice\n  help: name each seed once")]
    SeedTwice {
        /// The seed.
        seed: u64,
    },
    /// Stopped by [`Progress::run`]; nothing is left behind.
    #[error("stopped; nothing was written")]
    Stopped,
    /// The engine could not run it.
    #[error("seed {seed}: {source}")]
    Engine {
        /// The seed.
        seed: u64,
        /// The reason.
        source: EngineError,
    },
    /// A file of the result could not be written; nothing is left behind.
    #[error(transparent)]
    Result(#[from] ResultError),
}

/// Runs the experiment with every seed, [`ExecuteOptions::jobs`] at a time, and writes the result.
/// With one seed the folder holds the run itself; with several it holds a sub-folder `seed-N` for
/// each and `summary.json`.
///
/// An engine in real time runs one seed after the other. If that ends early, the result is what was
/// measured, marked as incomplete.
///
/// # Errors
/// See [`ExecuteError`]. On any error the folder is unchanged.
pub fn execute(
    experiment: &Experiment,
    engine: &dyn Engine,
    options: &ExecuteOptions,
    progress: &dyn Progress,
) -> Result<Completed, ExecuteError> {
    let seeds = seeds(experiment, options)?;
    let destination = Destination::prepare(&options.out, options.force)?;
    let dir = destination.working_folder();
    write_text(&dir.join(EXPERIMENT_FILE), experiment.text())?;

    let run = |seed: u64, progress: &dyn Fn(f64) -> bool| {
        let folder = match seeds.as_slice() {
            [_] => dir.to_owned(),
            _ => dir.join(seed_folder(seed)),
        };
        fs::create_dir_all(&folder).map_err(ResultError::io(&folder))?;
        run_once(experiment, engine, seed, &folder, options.series, progress)
    };
    let jobs = if engine.is_real_time() {
        Some(1)
    } else {
        options.jobs
    };
    let (runs, ended) = run_all(&seeds, jobs, progress, &run);
    let incomplete = incompleteness(&runs, ended, engine)?;
    let mut summary = match seeds.as_slice() {
        [_] => None,
        _ => Summary::of(&runs),
    };
    if let Some(summary) = &mut summary {
        summary.incomplete.clone_from(&incomplete);
        summary.write(dir)?;
        remove_unfinished(dir, &seeds, &runs)?;
    }
    fairwind_report::write(dir)?;
    let dir = destination.publish()?;
    Ok(Completed {
        report: dir.join(fairwind_result::REPORT_FILE),
        dir,
        runs,
        summary,
        incomplete,
    })
}

/// Why these runs are not all that were requested, if so; an error if they are not to be kept.
fn incompleteness(
    runs: &[RunResult],
    ended: Option<ExecuteError>,
    engine: &dyn Engine,
) -> Result<Option<String>, ExecuteError> {
    match ended {
        None => Ok(runs.iter().find_map(RunResult::incompleteness)),
        Some(error) if runs.is_empty() || !engine.is_real_time() => Err(error),
        Some(ExecuteError::Stopped) => {
            let stopped = || format!("stopped after {}", fairwind_result::seeds_text(&done(runs)));
            let reason = runs.iter().find_map(RunResult::incompleteness);
            Ok(Some(reason.unwrap_or_else(stopped)))
        }
        Some(error) => Ok(Some(error.to_string())),
    }
}

fn done(runs: &[RunResult]) -> Vec<u64> {
    runs.iter().map(|run| run.seed).collect()
}

/// Removes the folders of seeds without a result.
fn remove_unfinished(dir: &Path, seeds: &[u64], runs: &[RunResult]) -> Result<(), ResultError> {
    let done = done(runs);
    for seed in seeds.iter().filter(|seed| !done.contains(seed)) {
        let path = dir.join(seed_folder(*seed));
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(ResultError::io(&path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn seeds(experiment: &Experiment, options: &ExecuteOptions) -> Result<Vec<u64>, ExecuteError> {
    let seeds = options.seeds.clone();
    let seeds = seeds.unwrap_or_else(|| experiment.seeds().to_vec());
    if seeds.is_empty() {
        return Err(ExecuteError::NoSeed);
    }
    for (index, seed) in seeds.iter().enumerate() {
        if seeds[..index].contains(seed) {
            return Err(ExecuteError::SeedTwice { seed: *seed });
        }
    }
    Ok(seeds)
}

/// Runs one seed, and writes its series and result to its folder.
fn run_once(
    experiment: &Experiment,
    engine: &dyn Engine,
    seed: u64,
    folder: &Path,
    series: bool,
    progress: &dyn Fn(f64) -> bool,
) -> Result<RunResult, ExecuteError> {
    let engine_error = |source| match source {
        EngineError::Stopped => ExecuteError::Stopped,
        source => ExecuteError::Engine { seed, source },
    };
    let run = engine::Run {
        experiment,
        seed,
        folder,
    };
    let file = experiment.file();
    let result = if series && file.record.series {
        let flows: Vec<String> = experiment.flows().into_iter().map(|f| f.name).collect();
        let links = experiment.reported_links().into_iter();
        let links: Vec<String> = links
            .map(|link| link.name(&file.link[link.link()]))
            .collect();
        let mut recorder = ParquetRecorder::create(folder, &flows, &links)?;
        let result = engine.run(run, &mut recorder, progress);
        // If the recorder stopped the run, its error is the cause.
        recorder.finish()?;
        result
    } else {
        engine.run(run, &mut NoRecorder, progress)
    };
    let result = result.map_err(engine_error)?;
    result.write(folder)?;
    Ok(result)
}

type RunOne<'a> = dyn Fn(u64, &dyn Fn(f64) -> bool) -> Result<RunResult, ExecuteError> + Sync + 'a;

/// Runs all seeds in `jobs` threads. The first error, or incomplete run, stops the rest. Returns
/// the runs that have a result, and the error that ended the rest early, if any.
fn run_all(
    seeds: &[u64],
    jobs: Option<usize>,
    progress: &dyn Progress,
    run: &RunOne<'_>,
) -> (Vec<RunResult>, Option<ExecuteError>) {
    let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
    let jobs = jobs.unwrap_or_else(cores).clamp(1, seeds.len());
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let results: Vec<Mutex<Option<Result<RunResult, ExecuteError>>>> =
        seeds.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&seed) = seeds.get(index) else { break };
            let go_on = |share| {
                if !progress.run(seed, share) {
                    stop.store(true, Ordering::Relaxed);
                }
                !stop.load(Ordering::Relaxed)
            };
            let result = run(seed, &go_on);
            if result.as_ref().map_or(true, |run| run.incomplete.is_some()) {
                stop.store(true, Ordering::Relaxed);
            }
            *results[index].lock().expect("no run panics with the lock") = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs {
            scope.spawn(work);
        }
        work();
    });
    let mut runs = Vec::new();
    let mut ended = None;
    for slot in results {
        match slot.into_inner().expect("no run panics with the lock") {
            Some(Ok(run)) => runs.push(run),
            // The error that stopped the others says more than that they were stopped.
            other if matches!(ended, None | Some(ExecuteError::Stopped)) => {
                let error = other.and_then(Result::err);
                ended = Some(error.unwrap_or(ExecuteError::Stopped));
            }
            _ => {}
        }
    }
    (runs, ended)
}
