//! Runs the paths, and keeps what is measured.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairwind_experiment::engine::sim::Sim;
use serde_json::{Value, json};

use crate::cache::{Cache, Policy, program, write_whole};
use crate::{Error, Task, experiments, parallel};

use super::file::{self, Role};
use super::measures::{self, Curve, Measures};
use super::path::RandomPath;
use super::suite::Suite;
use super::watch::Watch;

/// Payload of a full segment, bytes: that of the experiment file where it says nothing.
const MSS: f64 = 1448.0;

/// A control on a path.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub control: String,
    pub path: RandomPath,
    pub measures: Measures,
}

/// Measures the controls of the plan on its paths, several paths at a time: what is not kept is run.
///
/// # Errors
/// If a run fails, or the work is to stop.
pub(super) fn carry_out(task: &Task<'_>, suite: &Suite) -> Result<Vec<Row>, Error> {
    let mut wanted: Vec<(u32, Vec<&str>)> = Vec::new();
    for run in &task.runs {
        let block: u32 = run
            .get("block")
            .parse()
            .map_err(|_| Error::input("a [[run]] without `block`"))?;
        let control = run.get("control");
        match wanted.iter_mut().find(|(other, _)| *other == block) {
            Some((_, controls)) => controls.push(control),
            None => wanted.push((block, vec![control])),
        }
    }
    let in_block = |(block, controls): (u32, Vec<_>)| {
        let first = (block - 1) * suite.paths_of_block + 1;
        (first..first + suite.paths_of_block).map(move |number| (number, controls.clone()))
    };
    let paths: Vec<(u32, Vec<&str>)> = wanted.into_iter().flat_map(in_block).collect();
    let jobs = task.options.jobs.unwrap_or_else(parallel::cores);
    let done = AtomicUsize::new(0);
    let rows = parallel::each(&paths, jobs, |(number, controls)| {
        let path = RandomPath::of(suite, *number);
        let rows = of_path(task, suite, &path, controls)?;
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if done.is_multiple_of(paths.len().div_ceil(20)) {
            task.tell(&format!("{done} of {} paths", paths.len()));
        }
        Ok(rows)
    })?;
    Ok(rows.into_iter().flatten().collect())
}

/// Measures the controls on a path.
fn of_path(
    task: &Task<'_>,
    suite: &Suite,
    path: &RandomPath,
    controls: &[&str],
) -> Result<Vec<Row>, Error> {
    let name = path.name();
    let folder = task.out.join("sim").join(&name);
    let cache = task.cache("sim");
    let oracle_asked = asked(suite, path, Role::Oracle);
    let mut spare: Option<Curve> = None;
    let mut rows = Vec::new();
    for &control in controls {
        let role = Role::Control(control);
        let place = format!("{name}/{control}");
        let asked = json!({ "path": asked(suite, path, role), "rule": format!("{suite:?}") });
        let measures = match cache.kept(&place, &asked) {
            Some(measures) => measures,
            None if task.options.policy == Policy::Nothing => continue,
            None => {
                task.host.go_on()?;
                write_files(&folder, suite, path)?;
                let spare = match &spare {
                    Some(spare) => spare,
                    None => spare.insert(of_oracle(
                        task,
                        suite,
                        path,
                        &folder,
                        &cache,
                        &oracle_asked,
                    )?),
                };
                let watch = run(task, suite, path, role, &folder)?;
                let measures = measures::of(suite, path, spare, &watch);
                cache.keep(&place, &asked, &measures)?;
                measures
            }
        };
        rows.push(Row {
            control: control.to_owned(),
            path: path.clone(),
            measures,
        });
    }
    Ok(rows)
}

/// What is spare on the path.
fn of_oracle(
    task: &Task<'_>,
    suite: &Suite,
    path: &RandomPath,
    folder: &Path,
    cache: &Cache,
    asked: &Value,
) -> Result<Curve, Error> {
    let place = format!("{}/oracle", path.name());
    if let Some(spare) = cache.kept(&place, asked) {
        return Ok(spare);
    }
    let watch = run(task, suite, path, Role::Oracle, folder)?;
    let spare = measures::spare(&watch);
    cache.keep(&place, asked, &spare)?;
    Ok(spare)
}

/// All that a result depends on.
fn asked(suite: &Suite, path: &RandomPath, role: Role<'_>) -> Value {
    json!({
        "experiment": file::text(path, suite.buffers, role),
        "recordings": file::recordings(path),
        "on": program(),
    })
}

/// The experiment file of a control, and that of the oracle.
fn file_of(role: Role<'_>) -> &'static str {
    match role {
        Role::Control(_) => "path.toml",
        Role::Oracle => "oracle.toml",
    }
}

/// Writes the experiment files of a path, and its recordings.
fn write_files(folder: &Path, suite: &Suite, path: &RandomPath) -> Result<(), Error> {
    for role in [Role::Control("cubic"), Role::Oracle] {
        let text = file::text(path, suite.buffers, role);
        write_whole(&folder.join(file_of(role)), &text)?;
    }
    for (name, content) in file::recordings(path) {
        write_whole(&folder.join(name), &content)?;
    }
    Ok(())
}

fn run(
    task: &Task<'_>,
    suite: &Suite,
    path: &RandomPath,
    role: Role<'_>,
    folder: &Path,
) -> Result<Watch, Error> {
    let text = file::text(path, suite.buffers, role);
    let name = folder.join(file_of(role)).display().to_string();
    let mut watch = Watch::new(MSS);
    experiments::watch(task, (&text, &name), &Sim, path.seed, &mut watch)?;
    Ok(watch)
}
