//! Shared by `sim run` and `lab run`: an experiment file, an engine, a result folder.

use std::path::{Path, PathBuf};

use clap::Args;
use fairwind_experiment::{Completed, Engine, ExecuteOptions, execute};
use fairwind_result::RunResult;
use fairwind_scenario::Experiment;

use crate::failure::Failure;
use crate::progress::Bar;
use crate::{interrupt, output, summary};

/// The arguments of both.
#[derive(Args)]
pub(crate) struct Execution {
    /// Experiment file (TOML)
    file: PathBuf,
    /// Run this seed instead of the file's; repeatable [default: the file's seeds]
    #[arg(long, value_name = "N")]
    seed: Vec<u64>,
    /// Result folder [default: the file's name with .result, in the current directory]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace a value of the file; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print result.json, or summary.json for several seeds, and nothing else
    #[arg(long)]
    json: bool,
    /// Replace the result in that folder; without it an existing result is an error
    #[arg(long)]
    force: bool,
    /// Write totals only, no time series and plots
    #[arg(long)]
    no_series: bool,
}

impl Execution {
    /// Runs the file, `jobs` seeds at a time, and prints the result.
    pub(crate) fn run(self, engine: &dyn Engine, jobs: Option<usize>) -> Result<(), Failure> {
        let experiment = Experiment::load(&self.file, &self.set)?;
        interrupt::catch()?;
        let options = ExecuteOptions {
            out: self.out.unwrap_or_else(|| default_out(&self.file)),
            force: self.force,
            series: !self.no_series,
            jobs,
            seeds: (!self.seed.is_empty()).then_some(self.seed),
        };
        let runs = match &options.seeds {
            Some(seeds) => seeds.len(),
            None => experiment.seeds().len(),
        };
        let bar = Bar::new(runs);
        let done = execute(&experiment, engine, &options, &bar);
        bar.clear();
        let completed = done?;
        let printed = output::line(&if self.json {
            json(&completed)
        } else {
            text(&completed)
        });
        let Some(reason) = completed.incomplete else {
            return Ok(printed?);
        };
        let dir = completed.dir.display();
        let kept = format!("what was measured is in {dir}, marked incomplete");
        Err(if interrupt::asked() {
            Failure::Stopped(kept)
        } else {
            Failure::Work(format!("{reason}\n  {kept}"))
        })
    }
}

fn default_out(file: &Path) -> PathBuf {
    let mut name = file.file_stem().unwrap_or_default().to_owned();
    name.push(".result");
    PathBuf::from(name)
}

fn json(completed: &Completed) -> String {
    match (&completed.summary, &completed.runs[..]) {
        (Some(summary), _) => summary.to_json(),
        (None, runs) => runs.iter().map(RunResult::to_json).collect(),
    }
}

fn text(completed: &Completed) -> String {
    let tables = match &completed.summary {
        Some(summary) => summary::of_runs(summary, &completed.runs),
        None => completed.runs.iter().map(summary::of_run).collect(),
    };
    format!("{tables}report: {}\n", completed.report.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_goes_beside_the_caller_under_the_files_name() {
        let out = default_out(Path::new("experiments/web/figure-4.17-4.19.toml"));
        assert_eq!(out, Path::new("figure-4.17-4.19.result"));
    }
}
