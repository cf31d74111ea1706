//! Results for human readers, each in files that need no network: `report.html` and the plots of a result, two
//! results over each other, and pages of other tables and charts in the same style.
//!
//! The report of a run contains tables and interactive plots; that of several seeds contains means, intervals
//! and links to the runs. Both state what was run: title, experiment file, versions, seed.

pub mod overlay;
pub mod page;
pub mod plot;

mod data;
mod files;
mod html;
mod library;
mod overview;
mod palette;
mod run;
mod tables;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use fairwind_result::series::curves::Curves;
use fairwind_result::{
    EXPERIMENT_FILE, PLOTS_FOLDER, REPORT_FILE, ResultError, RunResult, SUMMARY_FILE, Summary,
    seed_folder,
};

use files::replace;

/// Writes the report of the result in `folder` and the plots beside it, replacing earlier ones. For several
/// seeds, the reports of the runs are written as well. Returns the report's path.
pub fn write(folder: &Path) -> Result<PathBuf, ResultError> {
    if !folder.join(SUMMARY_FILE).is_file() {
        return write_run(folder);
    }
    for &seed in &Summary::read(folder)?.seeds {
        write_run(&folder.join(seed_folder(seed)))?;
    }
    write_overview(folder)
}

/// Writes the report and the plots of one run. Returns the report's path.
pub fn write_run(folder: &Path) -> Result<PathBuf, ResultError> {
    if !folder.join(fairwind_result::RESULT_FILE).is_file() {
        return Err(ResultError::missing(folder));
    }
    let run = RunResult::read(folder)?;
    let curves = Curves::read(folder, &run)?;
    if let Some(curves) = &curves {
        let plots = folder.join(PLOTS_FOLDER);
        fs::create_dir_all(&plots).map_err(ResultError::io(&plots))?;
        for (name, svg) in plot::svgs(&run, curves) {
            replace(&plots.join(name), &svg)?;
        }
    }
    let page = run::page(&run, curves.as_ref(), experiment_text(folder).as_deref());
    replace(&folder.join(REPORT_FILE), &page)
}

/// Writes the report over several seeds but not those of its runs. Returns the report's path.
pub fn write_overview(folder: &Path) -> Result<PathBuf, ResultError> {
    let summary = Summary::read(folder)?;
    let runs = summary
        .seeds
        .iter()
        .map(|&seed| RunResult::read(&folder.join(seed_folder(seed))))
        .collect::<Result<Vec<_>, _>>()?;
    let page = overview::page(&summary, &runs, experiment_text(folder).as_deref());
    replace(&folder.join(REPORT_FILE), &page)
}

/// The experiment file in the result's folder, or, for one of several seeds, in the parent folder.
fn experiment_text(folder: &Path) -> Option<String> {
    let here = fs::read_to_string(folder.join(EXPERIMENT_FILE));
    let above = || fs::read_to_string(folder.parent()?.join(EXPERIMENT_FILE)).ok();
    here.ok().or_else(above)
}
