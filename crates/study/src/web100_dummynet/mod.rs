//! The experiments of the Web100-Dummynet thesis (Figures 4.1 to 4.24, Table 4.1) in the simulator, in the lab
//! or in both: the tables of `docs/measurements/web100-dummynet.md`, and the curves of both engines overlaid.

mod bench;
mod figures;
mod series;
mod tables;

use crate::plan::{EXPERIMENT, Parameter, Values};
use crate::{Engines, Error, Made, Study, Task, page};
use bench::{Bench, Done, Engine};

/// Its runs are those of experiments; it compares also two runs of one engine.
pub(crate) const STUDY: Study = Study {
    tables: tables::KINDS,
    comparisons: &[figures::RED_IN_THE_LAB, figures::RED_IN_THE_SIMULATOR],
    ..Study::new(&[Parameter::new(EXPERIMENT, Values::Experiment)], carry_out)
};

/// Runs the experiments and makes the tables; with both engines also the figures. `OUT/sim` and `OUT/lab` get
/// a result for each experiment, `OUT/sim-today` those of the simulator with the TCP of Linux 6.x in the place
/// of that of 2005, `OUT/both` and `OUT/both-today` both over the lab's.
///
/// # Errors
/// If a run fails or is incomplete.
fn carry_out(task: &Task<'_>) -> Result<Made, Error> {
    let engines = match task.engines {
        Engines::Sim => vec![Engine::Sim],
        Engines::Lab => vec![Engine::Lab],
        Engines::Both => vec![Engine::Sim, Engine::SimToday, Engine::Lab],
    };
    let bench = Bench::run(task, engines)?;
    let mut made = Made {
        sections: tables::all(&bench)?,
        runs: Some(tables::runs(&bench)),
        ..Made::default()
    };
    made.sections.push(page::made("run"));
    for run in &bench.task.runs {
        let done = bench.find(&run.name()).unwrap_or_default();
        made.results.extend(done.iter().filter_map(Done::first_run));
    }
    if bench.engines.len() > 1 {
        let laid = figures::lay(&bench)?;
        made.sections.push(figures::distances(&laid));
        let (sections, figures) = figures::of_page(bench.task.plan, &laid)?;
        made.sections.extend(sections);
        made.figures = figures;
    }
    Ok(made)
}
