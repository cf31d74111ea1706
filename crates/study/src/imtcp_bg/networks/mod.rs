//! ImTCP and ImTCP-bg on the thesis' experimental network (its section 5.2) and on its path through the Internet
//! (section 5.3), both emulated, in the lab and in the simulator: Figures 12 to 15 and 17 to 19, Table 4.

mod figures;
mod measures;
mod setup;
mod tables;
mod work;

use fairwind_experiment::engine::lab::Lab;
use fairwind_experiment::engine::sim::Sim;

use crate::plan::Run;
use crate::table::Table;
use crate::{Error, Made, Task};

/// Runs the cells of these runs, and adds their tables, their figures and a row for each run. Of an engine that is
/// not to run, the tables show what is kept.
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
    let cells = setup::cells(&data, of_plan)?;
    let lab = Lab::default();
    let measured = tables::Measured {
        lab: work::carry_out(task, &data, &cells, &lab, task.engines.has_lab())?,
        sim: work::carry_out(task, &data, &cells, &Sim, task.engines.has_sim())?,
        data: &data,
        scale: task.scale(),
    };
    made.sections.extend(tables::all(&measured));
    tables::runs(&measured, runs);
    figures::draw(&task.plan.name, &measured, made);
    super::made_now("run of the networks", made);
    Ok(())
}
