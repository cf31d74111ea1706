//! Runs an experiment, or reads its existing result.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use fairwind_experiment::engine::lab::Lab;
use fairwind_experiment::engine::sim::Sim;
use fairwind_experiment::{ExecuteOptions, execute};
use fairwind_lab::host::Offload;
use fairwind_result::{EXPERIMENT_FILE, FLOWS_FILE, RunResult, Stored, seed_folder};
use fairwind_scenario::Experiment;

use crate::Error;

/// The experiments of the thesis: their files, some of them also with a round-trip time of 10 ms.
pub const EXPERIMENTS: [(&str, Variant); 19] = [
    ("figure-4.1", Variant::AsSaid),
    ("figure-4.2", Variant::AsSaid),
    ("figure-4.3", Variant::AsSaid),
    ("figure-4.4", Variant::AsSaid),
    ("figure-4.5", Variant::AsSaid),
    ("figure-4.6", Variant::AsSaid),
    ("figure-4.7", Variant::AsSaid),
    ("figure-4.8", Variant::AsSaid),
    ("figure-4.1", Variant::Rtt10Ms),
    ("figure-4.6", Variant::Rtt10Ms),
    ("figure-4.7", Variant::Rtt10Ms),
    ("figure-4.8", Variant::Rtt10Ms),
    ("figure-4.9-4.12", Variant::AsSaid),
    ("figure-4.13-4.15-4.18", Variant::AsSaid),
    ("figure-4.17-4.19", Variant::AsSaid),
    ("figure-4.14-4.16-4.20", Variant::AsSaid),
    ("figure-4.21", Variant::AsSaid),
    ("figure-4.22", Variant::AsSaid),
    ("figure-4.23-4.24", Variant::AsSaid),
];

/// How an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// As in its file.
    AsSaid,
    /// With a round-trip time of 10 ms, with which Figures 4.6 to 4.8 come out as printed.
    Rtt10Ms,
}

impl Variant {
    /// The overrides of the experiment.
    fn set(self) -> &'static [&'static str] {
        match self {
            Variant::AsSaid => &[],
            Variant::Rtt10Ms => &[
                "link.bottleneck.delay=5ms",
                "link.bottleneck.reverse.delay=5ms",
            ],
        }
    }

    /// Appended to the file's name in the name of the result.
    fn suffix(self) -> &'static str {
        match self {
            Variant::AsSaid => "",
            Variant::Rtt10Ms => "-10-ms-RTT",
        }
    }
}

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
pub enum Engine {
    /// The simulator, with the TCP of the file: that of 2005.
    Sim,
    /// The simulator with the TCP of Linux 6.x, to show the effect of the years between.
    SimToday,
    /// The lab.
    Lab,
}

impl Engine {
    /// The folder of its results.
    pub fn folder(self) -> &'static str {
        match self {
            Engine::Sim => "sim",
            Engine::SimToday => "sim-today",
            Engine::Lab => "lab",
        }
    }

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Sim => "simulator",
            Engine::SimToday => "simulator, Linux 6",
            Engine::Lab => "lab",
        }
    }
}

/// Where the experiments are, where their results go, and what runs them.
pub struct Bench {
    pub files: PathBuf,
    pub results: PathBuf,
    pub engines: Vec<Engine>,
    /// Names of files; all if empty.
    pub only: Vec<String>,
    pub lab_seeds: usize,
    pub again: bool,
}

/// A completed experiment: its folder and its runs, one per seed.
pub struct Done {
    pub engine: Engine,
    pub folder: PathBuf,
    pub runs: Vec<RunResult>,
}

impl Bench {
    /// Checks that the requested experiments exist.
    pub fn check(&self) -> Result<(), Error> {
        match self.only.iter().find(|name| !is_experiment(name)) {
            Some(name) => Err(format!("no experiment is called {name}").into()),
            None => Ok(()),
        }
    }

    /// Whether this experiment is selected.
    pub fn wants(&self, file: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == file)
    }

    /// The folder of a result.
    pub fn folder(&self, engine: Engine, file: &str, variant: Variant) -> PathBuf {
        let name = format!("{file}{}", variant.suffix());
        self.results.join(engine.folder()).join(name)
    }

    /// The experiment in every engine.
    pub fn run(&self, file: &str, variant: Variant) -> Result<Vec<Done>, Error> {
        let engines = self.engines.iter();
        engines
            .map(|&engine| self.run_in(engine, file, variant))
            .collect()
    }

    fn load(&self, engine: Engine, file: &str, variant: Variant) -> Result<Experiment, Error> {
        let path = self.files.join(format!("{file}.toml"));
        let mut set: Vec<String> = variant.set().iter().map(|&set| set.to_owned()).collect();
        let experiment = Experiment::load(&path, &set)?;
        if engine != Engine::SimToday {
            return Ok(experiment);
        }
        set.push("stack=linux".to_owned());
        for flow in experiment.flows() {
            if flow.flow.receive_buffer.is_none() {
                set.push(format!(
                    "flow.{}.receive_buffer={WINDOW_OF_2005}",
                    flow.name
                ));
            }
        }
        Ok(Experiment::load(&path, &set)?)
    }

    fn run_in(&self, engine: Engine, file: &str, variant: Variant) -> Result<Done, Error> {
        let experiment = self.load(engine, file, variant)?;
        let folder = self.folder(engine, file, variant);
        let seeds = match engine {
            Engine::Sim | Engine::SimToday => experiment.seeds(),
            Engine::Lab => &experiment.seeds()[..self.lab_seeds.min(experiment.seeds().len())],
        };
        if engine == Engine::Lab
            && !self.again
            && let Some(runs) = stored(&folder, &experiment, seeds)
        {
            eprintln!("{}: kept", folder.display());
            return Ok(Done {
                engine,
                folder,
                runs,
            });
        }
        let begun = Instant::now();
        let options = ExecuteOptions {
            force: true,
            seeds: Some(seeds.to_vec()),
            ..ExecuteOptions::new(&folder)
        };
        let completed = match engine {
            Engine::Sim | Engine::SimToday => execute(&experiment, &Sim, &options, &())?,
            Engine::Lab => execute(&experiment, &LAB, &options, &())?,
        };
        eprintln!(
            "{}: {:.0} s",
            folder.display(),
            begun.elapsed().as_secs_f64()
        );
        if let Some(reason) = completed.incomplete {
            return Err(format!("{}: incomplete: {reason}", folder.display()).into());
        }
        for run in &completed.runs {
            for warning in &run.warnings {
                eprintln!("{}: seed {}: {warning}", folder.display(), run.seed);
            }
        }
        Ok(Done {
            engine,
            folder: completed.dir,
            runs: completed.runs,
        })
    }
}

fn is_experiment(name: &str) -> bool {
    EXPERIMENTS.iter().any(|(file, _)| *file == name)
}

/// The complete runs in the folder, if they are of this experiment and these seeds.
fn stored(folder: &Path, experiment: &Experiment, seeds: &[u64]) -> Option<Vec<RunResult>> {
    let text = fs::read_to_string(folder.join(EXPERIMENT_FILE)).ok()?;
    let runs = match Stored::read(folder).ok()? {
        Stored::Run(run) => vec![run],
        Stored::Summary(summary) => summary
            .seeds
            .iter()
            .map(|&seed| RunResult::read(&folder.join(seed_folder(seed))).ok())
            .collect::<Option<_>>()?,
    };
    let same_seeds = runs.iter().map(|run| run.seed).eq(seeds.iter().copied());
    let same =
        |run: &RunResult| run.incomplete.is_none() && run.overrides == experiment.overrides();
    (text == experiment.text() && same_seeds && runs.iter().all(same)).then_some(runs)
}

impl Done {
    /// The folder of the run with this seed.
    pub fn run_folder(&self, seed: u64) -> PathBuf {
        match self.runs.len() {
            1 => self.folder.clone(),
            _ => self.folder.join(seed_folder(seed)),
        }
    }

    /// The series of the run with this seed.
    pub fn series(&self, seed: u64) -> PathBuf {
        self.run_folder(seed).join(FLOWS_FILE)
    }
}
