//! Background transfers: how much of a path's spare capacity a control takes, and what that costs others.
//!
//! A [`Cell`] of the plan is a path, a foreground and a number of flows in the background. It runs with the contender
//! in the background; without it (*solo*); and with a strict-priority queue whose low class is saturated (the
//! *oracle*): what that class carries is the *spare* capacity. Solo and oracle serve all contenders of a cell. Every
//! run is an experiment file of its own, kept beside its result. The tables are on
//! `docs/measurements/background.md`.
//!
//! The cells that run in both engines are apart from the others, as their paths are those that the lab can be.

mod aims;
mod cell;
mod frontier;
mod groups;
mod measures;
mod rows;
mod setup;
mod suite;
mod watch;
mod work;

use crate::cache::Policy;
use crate::plan::{Parameter, Values};
use crate::{Error, Made, Study, Task, page};

use suite::Suite;
use work::Runner;

const PARAMETERS: &[Parameter] = &[
    Parameter::new("control", Values::Text),
    Parameter::new("bandwidth", Values::Whole(1, 10_000)),
    Parameter::new("rtt", Values::Whole(1, 2_000)),
    Parameter::new("queue", Values::Text),
    Parameter::new("foreground", Values::Text),
    Parameter::new("background", Values::Whole(1, 100)),
    Parameter::new("loss", Values::Text),
    Parameter::new("trip", Values::Text),
    Parameter::new("noise", Values::Text),
    Parameter::new("offload", Values::Words(&["send", "none", "both"])),
    Parameter::new("engine", Values::Words(&["sim", "both"])),
];

pub(crate) const STUDY: Study = Study {
    completes_pages: true,
    ..Study::new(PARAMETERS, carry_out)
};

/// Runs the cells and makes their tables.
///
/// # Errors
/// If the plan does not fit together, or a run fails.
fn carry_out(task: &Task<'_>) -> Result<Made, Error> {
    let suite: Suite = task.plan.data()?;
    for aim in suite.group.iter().flat_map(|group| &group.aim) {
        aim.check()?;
    }
    let cells = cell::of_runs(&task.runs, &suite)?;
    let simulated = work::carry_out(
        task,
        &suite,
        &cells,
        Runner::Simulator,
        task.engines.has_sim(),
    )?;
    let in_lab = work::carry_out(task, &suite, &cells, Runner::Lab, task.engines.has_lab())?;
    let cells = match task.earlier {
        None => cells,
        Some(_) => cell::of_runs(&task.plan.runs, &suite)?,
    };
    let mut rows = rows::rows(&cells, &simulated, Runner::Simulator.name());
    rows.extend(rows::rows(&cells, &in_lab, Runner::Lab.name()));
    if rows.is_empty() && task.options.policy == Policy::Nothing {
        return Err(task.nothing_kept());
    }
    if let Some(earlier) = &task.earlier {
        rows = rows::complete(rows, &cells, earlier)?;
    }
    let mut made = Made {
        sections: groups::sections(&suite, &cells, &rows),
        terminal: groups::text(&suite, &cells, &rows),
        runs: Some(rows::table(&cells, &rows)),
        ..Made::default()
    };
    made.sections.extend(aims::sections(&suite, &cells, &rows));
    made.sections.push(frontier::section(&suite, &cells, &rows));
    frontier::draw(task, &suite, &cells, &rows, &mut made)?;
    made.sections.push(page::made("run"));
    Ok(made)
}

/// The folder of experiments.
#[cfg(test)]
fn experiments() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

/// The plan of this study, for tests.
#[cfg(test)]
fn plan() -> crate::Plan {
    crate::Plan::read(&experiments(), "background").unwrap()
}
