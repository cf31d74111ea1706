//! Runs the cells in an engine, and keeps what is measured.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::measures::{Measures, Watch};
use super::setup::{Cell, Data};
use crate::cache::{Policy, write_whole};
use crate::experiments::{self, Configured};
use crate::{Error, Task, parallel};

/// The measures of all cells that have been run.
pub(super) type OfEngine = BTreeMap<Cell, Measures>;

/// Runs in this engine what has not been run. What is not to run is read if it is kept.
///
/// # Errors
/// If a run fails, or the work is to stop.
pub(super) fn carry_out(
    task: &Task<'_>,
    data: &Data,
    cells: &[Cell],
    engine: &dyn Configured,
    is_to_run: bool,
) -> Result<OfEngine, Error> {
    let cache = task.cache(engine.name());
    let mut measured = OfEngine::new();
    let mut to_run = Vec::new();
    let in_lab = engine.is_real_time();
    for cell in cells.iter().filter(|cell| cell.is_run_in(in_lab)) {
        let asked = asked(task, data, cell, engine);
        match cache.kept(&cell.name(), &asked) {
            Some(measures) => {
                measured.insert(cell.clone(), measures);
            }
            None if task.options.policy == Policy::Nothing || !is_to_run => {}
            None => to_run.push((cell, asked)),
        }
    }
    let mut jobs = task.options.jobs.unwrap_or_else(parallel::cores);
    if in_lab {
        to_run.truncate(task.options.at_most.unwrap_or(to_run.len()));
        jobs = 1;
    }
    let new = parallel::each(&to_run, jobs, |(cell, asked)| {
        task.host.go_on()?;
        let measures = run(task, data, cell, engine)?;
        if let Some(measures) = &measures {
            cache.keep(&cell.name(), asked, measures)?;
        }
        Ok(measures.map(|measures| ((*cell).clone(), measures)))
    })?;
    measured.extend(new.into_iter().flatten());
    Ok(measured)
}

/// The experiment file of a cell in this engine.
fn text(task: &Task<'_>, data: &Data, cell: &Cell, engine: &dyn Configured) -> String {
    let network = &data.networks[&cell.network];
    let buffer = match engine.is_real_time() {
        true => network.receive_buffer.lab,
        false => network.receive_buffer.sim,
    };
    cell.text(network, buffer, task.scale())
}

/// All that a result depends on.
fn asked(task: &Task<'_>, data: &Data, cell: &Cell, engine: &dyn Configured) -> Value {
    let network = &data.networks[&cell.network];
    json!({
        "experiment": text(task, data, cell, engine),
        "recordings": cell.recordings(network, task.scale()),
        "engine": format!("{engine:?}"),
        "on": experiments::ground(engine, Some(&cell.control)),
    })
}

/// Runs it, and leaves its experiment file beside its result. None of a run that ended early, which the lab's may.
fn run(
    task: &Task<'_>,
    data: &Data,
    cell: &Cell,
    engine: &dyn Configured,
) -> Result<Option<Measures>, Error> {
    let folder = task.out.join(engine.name());
    let file = folder.join(format!("{}.toml", cell.name()));
    let text = text(task, data, cell, engine);
    write_whole(&file, &text)?;
    for (recording, content) in cell.recordings(&data.networks[&cell.network], task.scale()) {
        write_whole(&folder.join(recording), &content)?;
    }
    let name = file.display().to_string();
    task.tell(&name);
    let mut watch = Watch::new(cell)?;
    let result = experiments::watch(task, (&text, &name), engine, 1, &mut watch)?;
    for doubt in &result.warnings {
        task.tell(&format!("{name}: {doubt}"));
    }
    if let Some(why) = &result.incomplete {
        task.tell(&format!("{name}: left out, as it ended early: {why}"));
        return Ok(None);
    }
    Ok(Some(watch.measures(&result)))
}
