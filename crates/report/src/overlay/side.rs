//! The two overlaid results, with all their runs and curves.

use std::path::{Path, PathBuf};

use fairwind_result::compare::{Comparison, Side as Origin};
use fairwind_result::series::curves::{Curves, FlowCurves, LinkCurves};
use fairwind_result::{ResultError, RunResult, Stored, seed_folder};

/// Two results and what they have in common.
pub(super) struct Pair {
    /// The title that both have, or both titles.
    pub title: String,
    /// The two results.
    pub sides: [Side; 2],
    /// Names of the flows that both have.
    pub flows: Vec<String>,
    /// Names of the links that both have.
    pub links: Vec<String>,
}

/// One of the two results.
pub(super) struct Side {
    /// Its name in legends.
    pub label: String,
    /// One per seed.
    pub runs: Vec<Run>,
    /// Index in `runs` of the run whose curves are drawn over time.
    pub shown: usize,
}

/// A run of a result.
pub(super) struct Run {
    /// Its folder.
    pub folder: PathBuf,
    /// Its totals.
    pub result: RunResult,
    /// Its curves, if it has time series.
    pub curves: Option<Curves>,
}

impl Pair {
    /// Reads the results in these folders, which `comparison` is about.
    pub(super) fn read(folders: [&Path; 2], comparison: &Comparison) -> Result<Pair, ResultError> {
        let origins = [&comparison.a, &comparison.b];
        let shown = shown(origins);
        let labels = labels(origins);
        let [first, second] = labels;
        let side = |at: usize, label: String| -> Result<Side, ResultError> {
            Ok(Side {
                label,
                runs: runs(folders[at])?,
                shown: shown[at],
            })
        };
        let title = if origins[0].title == origins[1].title {
            origins[0].title.clone()
        } else {
            format!("{} | {}", origins[0].title, origins[1].title)
        };
        Ok(Pair {
            title,
            sides: [side(0, first)?, side(1, second)?],
            flows: comparison.flows.iter().map(|f| f.name.clone()).collect(),
            links: comparison.links.iter().map(|l| l.name.clone()).collect(),
        })
    }

    /// The label of the first result that has no time series.
    pub(super) fn without_series(&self) -> Option<&str> {
        let lacks = |side: &&Side| side.runs.iter().any(|run| run.curves.is_none());
        self.sides.iter().find(lacks).map(|side| &*side.label)
    }

    /// Length of the longer run, seconds.
    pub(super) fn duration_s(&self) -> f64 {
        self.runs()
            .map(|run| run.result.duration_s)
            .fold(0.0, f64::max)
    }

    /// Whether a link's queue is worth a figure, by [`Curves::worth_drawing`].
    pub(super) fn worth_drawing(&self, name: &str) -> bool {
        let worth = |run: &Run| {
            let link = run.link(name).zip(run.curves.as_ref());
            link.is_some_and(|(link, curves)| curves.worth_drawing(link))
        };
        self.sides.iter().any(|side| worth(side.shown()))
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.sides.iter().flat_map(|side| &side.runs)
    }
}

impl Side {
    /// The run whose curves are drawn over time.
    pub(super) fn shown(&self) -> &Run {
        &self.runs[self.shown]
    }
}

impl Run {
    /// The curves of the flow with this name.
    pub(super) fn flow(&self, name: &str) -> Option<&FlowCurves> {
        let curves = self.curves.as_ref()?;
        curves.flows.iter().find(|flow| flow.name == name)
    }

    /// The curves of the link with this name.
    pub(super) fn link(&self, name: &str) -> Option<&LinkCurves> {
        let curves = self.curves.as_ref()?;
        curves.links.iter().find(|link| link.name == name)
    }
}

fn runs(folder: &Path) -> Result<Vec<Run>, ResultError> {
    let stored = Stored::read(folder)?;
    // The caller may name a result's file instead of its folder.
    let folder = match folder.parent() {
        Some(parent) if folder.is_file() => parent,
        _ => folder,
    };
    match stored {
        Stored::Run(result) => Ok(vec![run(folder.to_owned(), result)?]),
        Stored::Summary(summary) => summary
            .seeds
            .iter()
            .map(|&seed| {
                let below = folder.join(seed_folder(seed));
                let result = RunResult::read(&below)?;
                run(below, result)
            })
            .collect(),
    }
}

fn run(folder: PathBuf, result: RunResult) -> Result<Run, ResultError> {
    let curves = Curves::read(&folder, &result)?;
    Ok(Run {
        folder,
        result,
        curves,
    })
}

/// The runs with the first seed that both have; without a common seed, the first of each.
fn shown([a, b]: [&Origin; 2]) -> [usize; 2] {
    for (at, seed) in a.seeds.iter().enumerate() {
        if let Some(other) = b.seeds.iter().position(|s| s == seed) {
            return [at, other];
        }
    }
    [0, 0]
}

/// Labels that tell the two apart: by engine, else by folder name, else by path.
pub(super) fn labels(origins: [&Origin; 2]) -> [String; 2] {
    let by = |name: fn(&Origin) -> String| origins.map(name);
    let engines = by(|side| match side.engine.as_str() {
        "sim" => "simulator".to_owned(),
        "lab" => "lab, the kernel".to_owned(),
        other => other.to_owned(),
    });
    let folders = by(|side| {
        let name = Path::new(&side.path).file_name();
        name.map_or_else(|| side.path.clone(), |n| n.to_string_lossy().into_owned())
    });
    let paths = by(|side| side.path.clone());
    let names = [engines, folders, paths.clone()]
        .into_iter()
        .find(|[a, b]| a != b)
        .unwrap_or(paths);
    let [a, b] = names;
    [format!("A: {a}"), format!("B: {b}")]
}
