//! Runs the experiments of the Web100-Dummynet thesis (Figures 4.1 to 4.24, Table 4.1) in the simulator, in
//! the lab or in both, prints the tables of `docs/measurements/web100-dummynet.md` and overlays the figures
//! of both: `make experiments`, `make experiments-lab`.

mod bench;
mod figures;
mod page;
mod series;
mod tables;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use bench::{Bench, Engine};

type Error = Box<dyn std::error::Error>;

/// Run the experiments of the Web100-Dummynet thesis and print the tables of its page
#[derive(Parser)]
#[command(after_help = "\
RESULTS gets sim/ and lab/ with a result for each experiment. Where both engines run it, both/ gets
the figures of both over each other; sim-today/ gets the simulator's results with the TCP of Linux 6
in the place of that of 2005, and both-today/ these over the lab's. A result of the lab that is there
already, of the same file and seeds, is kept: all of them take 40 minutes. Those of the simulator are
made anew.")]
struct Arguments {
    /// Folder of the experiment files
    experiments: PathBuf,
    /// Folder for the results
    results: PathBuf,
    /// What runs them; the lab needs root
    #[arg(long, value_enum, default_value = "sim")]
    engine: Which,
    /// Only this experiment, as figure-4.1; repeat it for several
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Seeds of each experiment in the lab, in real time
    #[arg(long, value_name = "N", default_value_t = 1)]
    lab_seeds: usize,
    /// Run again in the lab what it has run already
    #[arg(long)]
    again: bool,
    /// Put the tables into this page, and the figures that it shows into figures/ beside it
    #[arg(long, value_name = "FILE", conflicts_with = "only")]
    page: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    Sim,
    Lab,
    Both,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Error> {
    let bench = Bench {
        files: arguments.experiments.clone(),
        results: arguments.results.clone(),
        engines: match arguments.engine {
            Which::Sim => vec![Engine::Sim],
            Which::Lab => vec![Engine::Lab],
            Which::Both => vec![Engine::Sim, Engine::SimToday, Engine::Lab],
        },
        only: arguments.only.clone(),
        lab_seeds: arguments.lab_seeds,
        again: arguments.again,
    };
    bench.check()?;
    let mut sections = tables::all(&bench)?;
    sections.push(page::made("run"));
    if bench.engines.len() > 1 {
        let laid = figures::lay(&bench)?;
        sections.push(figures::distances(&laid));
        if let Some(page) = &arguments.page {
            let folder = page.parent().unwrap_or(Path::new("")).join(figures::FOLDER);
            sections.extend(figures::publish(&laid, &folder)?);
        }
    }
    page::publish(arguments.page.as_deref(), &sections)
}
