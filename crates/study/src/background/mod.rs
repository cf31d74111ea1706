//! Background transfers: how much of a path's spare capacity a control takes, and what that costs others.
//!
//! A [`Cell`] of the plan is a path, a foreground and a number of flows in the background. It runs with the contender
//! in the background; without it (*solo*); and with a strict-priority queue whose low class is saturated (the
//! *oracle*): what that class carries is the *spare* capacity. Solo and oracle serve all contenders of a cell. Every
//! run is an experiment file of its own, kept beside its result. The tables are on
//! `docs/measurements/background.md`.

mod cell;
mod groups;
mod measures;
mod rows;
mod setup;
mod suite;
mod watch;
mod work;

use crate::plan::{Parameter, Values};
use crate::{Error, Made, Study, Task};

use suite::Suite;

const PARAMETERS: &[Parameter] = &[
    Parameter::new("control", Values::Text),
    Parameter::new("bandwidth", Values::Whole(1, 10_000)),
    Parameter::new("rtt", Values::Whole(1, 2_000)),
    Parameter::new("queue", Values::Text),
    Parameter::new("foreground", Values::Text),
    Parameter::new("background", Values::Whole(1, 100)),
    Parameter::new("loss", Values::Text),
    Parameter::new("trip", Values::Text),
];

pub(crate) const STUDY: Study = Study::new(PARAMETERS, carry_out);

/// Runs the cells and makes their tables.
///
/// # Errors
/// If the plan does not fit together, or a run fails.
fn carry_out(task: &Task<'_>) -> Result<Made, Error> {
    let suite: Suite = task.plan.data()?;
    let cells = cell::of_plan(task, &suite)?;
    let measured = work::carry_out(task, &suite, &cells)?;
    let rows = rows::rows(&cells, &measured);
    Ok(Made {
        sections: groups::sections(&suite, &cells, &rows),
        runs: Some(rows::table(&cells, &rows)),
        ..Made::default()
    })
}
