//! Two results overlaid: the figures of a run with the curves of both results, and their differences, as
//! `compare.html` with an SVG file for each figure.
//!
//! Two equivalent runs of a sawtooth need not be in phase: one may halve its window where the other's is
//! largest. So besides the curves over time there are distributions: the share of the time in which a window,
//! a queue, a round-trip time or a throughput was at most a given value. They do not depend on the phase. Two
//! numbers measure how far they are apart: the area between them (the Wasserstein distance) and their
//! greatest vertical distance (the Kolmogorov-Smirnov statistic).

mod distribution;
mod figures;
mod page;
mod side;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fairwind_result::compare::{self, Comparison};
use fairwind_result::{ResultError, round};
use serde::Serialize;

use crate::ReportError;
use figures::Drawn;
use side::Pair;

/// The page with figures and tables.
pub const PAGE_FILE: &str = "compare.html";

/// What [`write`] wrote.
#[derive(Clone, Debug)]
pub struct Overlay {
    /// `compare.html`.
    pub page: PathBuf,
    /// The figures, as SVG files; none if one of the results has no time series.
    pub figures: Vec<PathBuf>,
    /// The differences of the totals.
    pub comparison: Comparison,
    /// The differences of the distributions: of flows, then of links.
    pub distributions: Vec<Spread>,
}

/// The distributions of a quantity of a flow or link in both results, over the time after the warm-up and all
/// seeds of each.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Name of the flow or link.
    pub name: String,
    /// `cwnd_kb`, `rtt_ms` (smoothed), `throughput_mbps` (of the intervals of the plots) or
    /// `queue_pkts`.
    pub quantity: &'static str,
    /// In the first result.
    pub a: Quantiles,
    /// In the second result.
    pub b: Quantiles,
    /// Greatest difference of the two distribution functions, 0 (the same) to 1 (nothing in
    /// common).
    #[serde(with = "round")]
    pub distance: f64,
    /// Area between them: the average shift that turns the values of one into those of the other, in the
    /// quantity's unit.
    #[serde(with = "round")]
    pub area: f64,
    /// `area` divided by the mean in the first result; none if that mean is 0.
    #[serde(with = "round::option")]
    pub relative: Option<f64>,
}

/// Quantiles of a quantity over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// Not exceeded in 5 % of the time.
    #[serde(with = "round")]
    pub p5: f64,
    /// Not exceeded in 50 % of the time.
    #[serde(with = "round")]
    pub median: f64,
    /// Not exceeded in 95 % of the time.
    #[serde(with = "round")]
    pub p95: f64,
}

/// Why two results could not be overlaid.
#[derive(Debug, thiserror::Error)]
pub enum OverlayError {
    /// A result could not be read, or a file could not be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The output folder holds something other than a comparison.
    #[error("{} is in the way: {reason}\n  help: name a new folder", path.display())]
    InTheWay {
        /// The folder.
        path: PathBuf,
        /// What is there instead.
        reason: &'static str,
    },
}

impl From<ResultError> for OverlayError {
    fn from(error: ResultError) -> OverlayError {
        OverlayError::Report(error.into())
    }
}

/// Overlays the results in the folders `a` and `b`: writes the page and the figures into the folder `out`,
/// replacing an earlier comparison there. Each result may be a run or several seeds. Curves over time show
/// the first seed that both have, or else the first of each; averages and distributions cover all seeds.
///
/// # Errors
/// Fails if a result cannot be read, if `out` holds anything but a comparison, or if a file cannot be
/// written.
pub fn write(a: &Path, b: &Path, out: &Path) -> Result<Overlay, OverlayError> {
    let comparison = compare::compare(a, b)?;
    may_be_written(out)?;
    let pair = Pair::read([a, b], &comparison)?;
    let distributions = distribution::read(&pair).map_err(ReportError::from)?;
    let figures = figures::all(&pair, &distributions);
    let spreads: Vec<Spread> = distributions.iter().map(|d| d.spread()).collect();
    fs::create_dir_all(out).map_err(|source| io_error(out, source))?;
    let page = page::page(&pair, &comparison, &figures, &spreads);
    Ok(Overlay {
        figures: write_figures(&figures, out)?,
        page: crate::replace(&out.join(PAGE_FILE), &page)?,
        comparison,
        distributions: spreads,
    })
}

/// The distributions of two results, as [`write`] computes them.
///
/// # Errors
/// Fails if a result cannot be read.
pub fn spreads(a: &Path, b: &Path) -> Result<Vec<Spread>, OverlayError> {
    let comparison = compare::compare(a, b)?;
    let pair = Pair::read([a, b], &comparison)?;
    let distributions = distribution::read(&pair).map_err(ReportError::from)?;
    Ok(distributions.iter().map(|d| d.spread()).collect())
}

/// Writes the figures, and removes those of an earlier comparison that are not among them.
fn write_figures(figures: &[Drawn], out: &Path) -> Result<Vec<PathBuf>, OverlayError> {
    for file in figures::FILES {
        let path = out.join(file);
        if !figures.iter().any(|figure| figure.file == file) && path.exists() {
            fs::remove_file(&path).map_err(|source| io_error(&path, source))?;
        }
    }
    figures
        .iter()
        .map(|figure| Ok(crate::replace(&out.join(figure.file), &figure.svg)?))
        .collect()
}

/// The folder may be new, empty, or hold an earlier comparison.
fn may_be_written(out: &Path) -> Result<(), OverlayError> {
    let in_the_way = |reason| OverlayError::InTheWay {
        path: out.to_owned(),
        reason,
    };
    match fs::read_dir(out) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(in_the_way("it is a file"))
        }
        Err(source) => Err(io_error(out, source)),
        Ok(mut entries) => match entries.next().is_none() || out.join(PAGE_FILE).is_file() {
            true => Ok(()),
            false => Err(in_the_way("it is a folder that holds no comparison")),
        },
    }
}

fn io_error(path: &Path, source: io::Error) -> OverlayError {
    let path = path.to_owned();
    ResultError::Io { path, source }.into()
}
