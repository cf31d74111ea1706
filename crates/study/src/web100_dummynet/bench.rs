//! Runs an experiment in an engine, or reads its kept result.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fairwind_experiment::engine::lab::Lab;
use fairwind_experiment::engine::sim::Sim;
use fairwind_lab::host::Offload;
use fairwind_result::{FLOWS_FILE, RunResult, seed_folder};
use fairwind_scenario::Experiment;

use crate::experiments::{Asked, first_seeds, jobs, load, run_or_kept};
use crate::plan::Run;
use crate::{Error, Task, parallel};

/// The lab configured like the testbed: network cards of 2005 did not cut segments.
const LAB: Lab = Lab {
    offload: Offload::None,
    own_controls: false,
};

/// The receive buffer with which Linux 6.x has the window that Linux 2.4 had with its largest, 131,070 bytes:
/// five eighths of it with full segments.
const WINDOW_OF_2005: &str = "209712B";

/// What runs an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// The simulator, with the TCP of the file: that of 2005.
    Sim,
    /// The simulator with the TCP of Linux 6.x, to show the effect of the years between.
    SimToday,
    /// The lab.
    Lab,
}

impl Engine {
    /// The folder of its results, and its name in tables.
    fn words(self) -> [&'static str; 2] {
        match self {
            Engine::Sim => ["sim", "simulator"],
            Engine::SimToday => ["sim-today", "simulator, Linux 6"],
            Engine::Lab => ["lab", "lab"],
        }
    }

    /// The folder of its results.
    pub(crate) fn folder(self) -> &'static str {
        self.words()[0]
    }

    /// Its name in tables.
    pub(crate) fn name(self) -> &'static str {
        self.words()[1]
    }
}

/// The results of all runs, in all engines.
pub(crate) struct Bench<'a> {
    pub task: &'a Task<'a>,
    /// What makes the runs.
    pub engines: Vec<Engine>,
    /// By name of the run, in the order of the engines.
    done: BTreeMap<String, Vec<Done>>,
}

/// A completed experiment: its folder and its runs, one per seed.
pub(crate) struct Done {
    pub engine: Engine,
    pub folder: PathBuf,
    pub runs: Vec<RunResult>,
}

impl<'a> Bench<'a> {
    /// Makes all runs, or reads their kept results, and tells their warnings.
    ///
    /// # Errors
    /// If one cannot be run, is incomplete, or has no result and is not to be run.
    pub(crate) fn run(task: &'a Task<'a>, engines: Vec<Engine>) -> Result<Bench<'a>, Error> {
        let mut bench = Bench {
            task,
            engines,
            done: BTreeMap::new(),
        };
        let (in_lab, simulated): (Vec<Engine>, Vec<Engine>) = bench
            .engines
            .iter()
            .copied()
            .partition(|engine| *engine == Engine::Lab);
        let simulations = work(task, &simulated);
        let (at_a_time, seeds_at_a_time) = jobs(task, simulations.len());
        let mut all = parallel::each(&simulations, at_a_time, |&(run, engine)| {
            bench.run_in(engine, run, seeds_at_a_time)
        })?;
        for (run, engine) in work(task, &in_lab) {
            all.push(bench.run_in(engine, run, 1)?);
        }
        // The lab comes last also in the tables.
        for (name, done) in all {
            done.tell_warnings(task);
            bench.done.entry(name).or_default().push(done);
        }
        Ok(bench)
    }

    /// The run of this name in every engine, if it has been made.
    pub(crate) fn find(&self, name: &str) -> Option<&[Done]> {
        self.done.get(name).map(Vec::as_slice)
    }

    fn load(&self, engine: Engine, run: &Run) -> Result<Experiment, Error> {
        let experiment = load(self.task, run)?;
        if engine != Engine::SimToday {
            return Ok(experiment);
        }
        let mut run = run.clone();
        run.set.push("stack=linux".to_owned());
        for flow in experiment.flows() {
            if flow.flow.receive_buffer.is_none() {
                let name = flow.name;
                run.set
                    .push(format!("flow.{name}.receive_buffer={WINDOW_OF_2005}"));
            }
        }
        load(self.task, &run)
    }

    /// The run in an engine, by its name, so many seeds at a time.
    fn run_in(&self, engine: Engine, run: &Run, jobs: usize) -> Result<(String, Done), Error> {
        let experiment = self.load(engine, run)?;
        let name = run.name();
        let folder = self.task.out.join(engine.folder()).join(&name);
        let most = match engine {
            Engine::Sim | Engine::SimToday => self.task.seeds(),
            Engine::Lab => Some(self.task.options.repetitions.unwrap_or(1)),
        };
        let asked = Asked {
            experiment: &experiment,
            engine: if engine == Engine::Lab { &LAB } else { &Sim },
            seeds: first_seeds(&experiment, most),
            jobs,
            below: engine.folder(),
            name: &name,
        };
        let runs = run_or_kept(self.task, &asked)?;
        let shown = folder.display();
        let runs =
            runs.ok_or_else(|| Error::work(format!("{shown}: not there, and not to be run")))?;
        if let Some(reason) = runs.iter().find_map(|run| run.incomplete.as_ref()) {
            return Err(Error::work(format!("{shown}: incomplete: {reason}")));
        }
        let done = Done {
            engine,
            folder,
            runs,
        };
        Ok((name, done))
    }
}

/// The runs in these engines.
fn work<'a>(task: &'a Task<'_>, engines: &[Engine]) -> Vec<(&'a Run, Engine)> {
    let runs = task.runs.iter();
    runs.flat_map(|run| engines.iter().map(move |engine| (run, *engine)))
        .collect()
}

impl Done {
    fn tell_warnings(&self, task: &Task<'_>) {
        for run in &self.runs {
            for warning in &run.warnings {
                let (folder, seed) = (self.folder.display(), run.seed);
                task.tell(&format!("{folder}: seed {seed}: {warning}"));
            }
        }
    }

    /// The folder of the run with this seed.
    pub(crate) fn run_folder(&self, seed: u64) -> PathBuf {
        match self.runs.len() {
            1 => self.folder.clone(),
            _ => self.folder.join(seed_folder(seed)),
        }
    }

    /// The folder of the first run.
    pub(crate) fn first_run(&self) -> Option<PathBuf> {
        let first = self.runs.first()?;
        Some(self.run_folder(first.seed))
    }

    /// The series of the run with this seed.
    pub(crate) fn series(&self, seed: u64) -> PathBuf {
        self.run_folder(seed).join(FLOWS_FILE)
    }
}
