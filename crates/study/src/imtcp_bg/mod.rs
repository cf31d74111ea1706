//! ImTCP-bg beside web traffic: Figures 4 to 9 and Table 1 of Tsugawa's thesis, in the simulator, and the tables
//! of `docs/measurements/imtcp-bg.md`.

mod figures;
mod setup;
mod tables;
mod work;

use crate::plan::{Parameter, Values};
use crate::{Error, Made, Study, Task, page};

/// The controls compared; `none` is the web alone.
const CONTROLS: &[&str] = &["none", "reno", "nice", "lp", "imtcp_bg"];

const PARAMETERS: &[Parameter] = &[
    Parameter::new("control", Values::Words(CONTROLS)),
    // Web servers, the thesis' N_web.
    Parameter::new("servers", Values::Whole(1, 1000)),
    // Connections in the background.
    Parameter::new("connections", Values::Whole(1, 100)),
    // They are there all the time, or join in the first 200 s and leave in the last 200 s.
    Parameter::new("schedule", Values::Words(&["whole", "joining"])),
    // In thousandths; the control's own if not given.
    Parameter::new("gamma", Values::Whole(1, 1000)),
    Parameter::new("delta", Values::Whole(1001, 10_000)),
];

/// Its runs are cells: who is in the background, and of how many web servers.
pub(crate) const STUDY: Study = Study::new(PARAMETERS, carry_out);

/// Runs the cells and makes their tables and figures.
///
/// # Errors
/// If the plan lacks what it needs, or a run fails.
fn carry_out(task: &Task<'_>) -> Result<Made, Error> {
    let data: setup::Data = task.plan.data()?;
    let measured = work::carry_out(task, &data)?;
    let mut made = Made {
        sections: tables::all(&data, &measured),
        runs: Some(tables::runs(&measured)),
        ..Made::default()
    };
    figures::draw(&task.plan.name, &measured, &mut made);
    made.sections.push(page::made("run"));
    Ok(made)
}
