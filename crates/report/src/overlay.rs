//! Two results overlaid: the figures of a run with the curves of both results, and their differences, as
//! `compare.html` with an SVG file for each figure.
//!
//! Two equivalent runs of a sawtooth need not be in phase: one may halve its window where the other's is
//! largest. So besides the curves over time there are distributions: the share of the time in which a window,
//! a queue, a round-trip time or a throughput was at most a given value. They do not depend on the phase. Two
//! numbers measure how far they are apart: the area between them (the Wasserstein distance) and their
//! greatest vertical distance (the Kolmogorov-Smirnov statistic).

mod average;
mod distribution;
mod figures;
mod page;
mod side;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fairwind_result::ResultError;
use fairwind_result::compare::{self, Comparison};

use crate::files::replace;
pub use distribution::{Quantiles, Spread};
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

/// Why two results could not be overlaid.
#[derive(Debug, thiserror::Error)]
pub enum OverlayError {
    /// A result could not be read, or a file could not be written.
    #[error(transparent)]
    Result(#[from] ResultError),
    /// The output folder holds something other than a comparison.
    #[error("{} is in the way: {reason}\n  help: name a new folder", path.display())]
    InTheWay {
        /// The folder.
        path: PathBuf,
        /// What is there instead.
        reason: &'static str,
    },
}

/// Overlays the results in the folders `a` and `b`: writes the page and the figures into the folder `out`,
/// replacing an earlier comparison there. Each result may be a run or several seeds. Curves over time show
/// the first seed that both have, or else the first of each; averages and distributions cover all seeds.
pub fn write(a: &Path, b: &Path, out: &Path) -> Result<Overlay, OverlayError> {
    let comparison = compare::compare(a, b)?;
    may_be_written(out)?;
    let pair = Pair::read([a, b], &comparison)?;
    let distributions = distribution::read(&pair)?;
    let figures = figures::all(&pair, &distributions);
    let spreads: Vec<Spread> = distributions.iter().map(|d| d.spread()).collect();
    fs::create_dir_all(out).map_err(ResultError::io(out))?;
    let page = page::page(&pair, &comparison, &figures, &spreads);
    Ok(Overlay {
        figures: write_figures(&figures, out)?,
        page: replace(&out.join(PAGE_FILE), &page)?,
        comparison,
        distributions: spreads,
    })
}

/// The distributions of two results, as [`write`] computes them.
pub fn spreads(a: &Path, b: &Path) -> Result<Vec<Spread>, OverlayError> {
    let comparison = compare::compare(a, b)?;
    let pair = Pair::read([a, b], &comparison)?;
    let distributions = distribution::read(&pair)?;
    Ok(distributions.iter().map(|d| d.spread()).collect())
}

/// Writes the figures, and removes those of an earlier comparison that are not among them.
fn write_figures(figures: &[Drawn], out: &Path) -> Result<Vec<PathBuf>, OverlayError> {
    let mut written = Vec::new();
    for (file, svg) in figures {
        let path = out.join(file);
        match svg {
            Some(svg) => written.push(replace(&path, svg)?),
            None if path.exists() => fs::remove_file(&path).map_err(ResultError::io(&path))?,
            None => {}
        }
    }
    Ok(written)
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
        Err(error) => Err(ResultError::io(out)(error).into()),
        Ok(mut entries) => {
            if entries.next().is_none() || out.join(PAGE_FILE).is_file() {
                Ok(())
            } else {
                Err(in_the_way("it is a folder that holds no comparison"))
            }
        }
    }
}
