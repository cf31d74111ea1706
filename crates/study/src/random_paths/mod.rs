//! Random paths: what a control bears of all that real paths do to a sender.
//!
//! A [`RandomPath`](path::RandomPath) follows from a seed and its number: bandwidth, round-trip time and queue, and any
//! of loss, jitter, steps of the round-trip time, aggregation, swings of the bandwidth, a policer, reordering,
//! blackouts, traffic on the way back and others in front. It is an experiment file with its recordings, which runs with
//! each control, and once with the *oracle* of `background`: datagrams in the low class of a strict-priority queue,
//! which carry what is *spare*. The tables are on `docs/measurements/random-paths.md`.

mod file;
mod measures;
mod path;
mod suite;
mod tables;
mod watch;
mod work;

#[cfg(test)]
mod tests;

use crate::plan::{Parameter, Values};
use crate::{Error, Made, Study, Task, page};

use suite::Suite;

const PARAMETERS: &[Parameter] = &[
    Parameter::new("control", Values::Text),
    Parameter::new("block", Values::Whole(1, 1_000)),
];

pub(crate) const STUDY: Study = Study::new(PARAMETERS, carry_out);

/// Runs the paths and makes their tables.
///
/// # Errors
/// If the plan does not fit together, or a run fails.
fn carry_out(task: &Task<'_>) -> Result<Made, Error> {
    let suite: Suite = task.plan.data()?;
    let rows = work::carry_out(task, &suite)?;
    let mut made = Made {
        sections: tables::sections(&suite, &rows),
        terminal: tables::text(&suite, &rows),
        runs: Some(tables::runs(&rows)),
        remarks: tables::how_to_repeat(&suite, &task.out.join("sim"), &rows),
        ..Made::default()
    };
    made.sections.push(page::made("run"));
    Ok(made)
}
