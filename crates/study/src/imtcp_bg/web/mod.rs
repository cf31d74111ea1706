//! ImTCP-bg beside web traffic: Figures 4 to 9 and Table 1, in the simulator.

mod figures;
mod setup;
mod tables;
mod work;

use crate::plan::Run;
use crate::table::Table;
use crate::{Error, Made, Task};

/// Runs the cells of these runs, and adds their tables, their figures and a row for each run.
///
/// # Errors
/// If the plan lacks what it needs, or a run fails.
pub(super) fn carry_out(
    task: &Task<'_>,
    of_plan: &[&Run],
    made: &mut Made,
    runs: &mut Table,
) -> Result<(), Error> {
    let data: setup::Data = task.plan.data()?;
    let measured = work::carry_out(task, &data, of_plan)?;
    made.sections.extend(tables::all(&data, &measured));
    tables::runs(&measured, runs);
    figures::draw(&task.plan.name, &measured, made);
    super::made_now("run", made);
    Ok(())
}
