//! Results for human readers, each in files that need no network: `report.html` and the plots of a result, two
//! results over each other, and pages of other tables and charts in the same style.
//!
//! The report of a run contains tables and interactive plots; that of several seeds contains means, intervals
//! and links to the runs. Both state what was run: title, experiment file, versions, seed.

pub mod overlay;
pub mod page;
pub mod plot;

mod data;
mod html;
mod library;
mod overview;
mod run;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use fairwind_result::series::SeriesError;
use fairwind_result::series::curves::Curves;
use fairwind_result::{
    EXPERIMENT_FILE, PLOTS_FOLDER, REPORT_FILE, ResultError, RunResult, SUMMARY_FILE, Summary,
    seed_folder, write_text,
};

use html::escape;
use plot::palette;

/// Why a report could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A result could not be read, or a file of the report could not be written.
    #[error(transparent)]
    Result(#[from] ResultError),
    /// The series could not be read.
    #[error(transparent)]
    Series(#[from] SeriesError),
}

/// Writes the report of the result in `folder` and the plots beside it, replacing earlier ones. For several
/// seeds, the reports of the runs are written as well. Returns the report's path.
pub fn write(folder: &Path) -> Result<PathBuf, ReportError> {
    if !folder.join(SUMMARY_FILE).is_file() {
        return write_run(folder);
    }
    for &seed in &Summary::read(folder)?.seeds {
        write_run(&folder.join(seed_folder(seed)))?;
    }
    write_overview(folder)
}

/// Writes the report and the plots of one run. Returns the report's path.
pub fn write_run(folder: &Path) -> Result<PathBuf, ReportError> {
    if !folder.join(fairwind_result::RESULT_FILE).is_file() {
        return Err(ResultError::Missing {
            path: folder.to_owned(),
        }
        .into());
    }
    let run = RunResult::read(folder)?;
    let curves = Curves::read(folder, &run)?;
    if let Some(curves) = &curves {
        let plots = folder.join(PLOTS_FOLDER);
        fs::create_dir_all(&plots).map_err(|source| ResultError::Io {
            path: plots.clone(),
            source,
        })?;
        for (name, svg) in plot::svgs(&run, curves) {
            replace(&plots.join(name), &svg)?;
        }
    }
    let page = run::page(&run, curves.as_ref(), experiment_text(folder).as_deref());
    replace(&folder.join(REPORT_FILE), &page)
}

/// Writes the report over several seeds but not those of its runs. Returns the report's path.
pub fn write_overview(folder: &Path) -> Result<PathBuf, ReportError> {
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

/// Writes a file under another name and renames it, so that a reader never sees half of it.
pub(crate) fn replace(path: &Path, text: &str) -> Result<PathBuf, ReportError> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    write_text(&partial, text)?;
    fs::rename(&partial, path).map_err(|source| ResultError::Io {
        path: path.to_owned(),
        source,
    })?;
    Ok(path.to_owned())
}

/// The start of a page, up to its body. The page may load nothing; `policy` lists what it may do apart from
/// styling itself, as directives of a content security policy.
pub(crate) fn head_html(title: &str, policy: &str) -> String {
    html::fill(
        include_str!("head.html"),
        &[
            ("title", &escape(title)),
            ("policy", policy),
            ("palette", &palette_css()),
            ("style", include_str!("style.css")),
        ],
    )
}

/// The colours of curves as CSS variables `--c0`, `--c1`, …
fn palette_css() -> String {
    let variables = |colours: &[&str]| {
        colours
            .iter()
            .enumerate()
            .fold(String::new(), |mut css, (number, colour)| {
                let _ = write!(css, "--c{number}:{colour};");
                css
            })
    };
    let light = variables(&palette::LIGHT) + "--loss:" + palette::LOSS_LIGHT;
    let dark = variables(&palette::DARK) + "--loss:" + palette::LOSS_DARK;
    format!(
        ":root{{{light}}}\n\
         @media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n\
         @media print{{:root{{{light}}}}}\n\
         :root.paper{{{light}}}"
    )
}

/// A coloured bar before the name of the flow or link with this index.
fn swatch(number: usize) -> String {
    let colour = number % palette::LIGHT.len();
    format!("<span class=\"swatch\" style=\"background:var(--c{colour})\"></span>")
}

/// Why numbers are missing or doubtful.
fn doubts_html(incomplete: &Option<String>, warnings: &[String]) -> String {
    let incomplete = incomplete
        .iter()
        .map(|reason| format!("Incomplete: {reason}"));
    let warnings = warnings.iter().map(|warning| format!("Warning: {warning}"));
    incomplete
        .chain(warnings)
        .map(|doubt| format!("<p class=\"doubt\">{}</p>\n", escape(&doubt)))
        .collect()
}

/// The experiment file and the values that were set on the command line.
fn experiment_html(text: Option<&str>, overrides: &[String]) -> String {
    let mut html = String::new();
    if !overrides.is_empty() {
        let set: Vec<String> = overrides
            .iter()
            .map(|set| format!("<code>{}</code>", escape(set)))
            .collect();
        let _ = writeln!(
            html,
            "<p>Changed on the command line: {}</p>",
            set.join(", ")
        );
    }
    match text {
        Some(text) => {
            let _ = writeln!(html, "<pre>{}</pre>", escape(text.trim_end()));
        }
        None => html.push_str("<p class=\"note\">The experiment file is not in this folder.</p>"),
    }
    html
}

/// `name version` pairs in one line.
fn versions_text(versions: &std::collections::BTreeMap<String, String>) -> String {
    let pairs: Vec<String> = versions
        .iter()
        .map(|(name, version)| format!("{} {}", escape(name), escape(version)))
        .collect();
    pairs.join(", ")
}

/// Spans that the style sheet separates with dots.
pub(crate) fn facts_html(facts: &[String]) -> String {
    facts
        .iter()
        .map(|fact| format!("<span>{fact}</span>"))
        .collect()
}
