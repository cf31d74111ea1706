//! The studies, and what one is given and makes.

use std::path::{Path, PathBuf};

use fairwind_experiment::Progress;
use fairwind_report::page::{Chart, Scatter};

use crate::cache::{Cache, Damaged, Policy};
use crate::page::{Figure, Section};
use crate::plan::{Parameter, Plan, Run};
use crate::table::Table;
use crate::{
    Engines, Error, Filter, advised_start, background, bbr, dccs, demo, drsftp, imtcp_bg, load,
    random_paths, validation, web100_dummynet,
};

/// Who knows what the parameters of a plan mean.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// The parameters that its runs may have.
    pub parameters: &'static [Parameter],
    /// The kinds of tables that it takes from the plan.
    pub tables: &'static [&'static str],
    /// The comparisons of runs that it makes besides those of the engines, as a figure of the plan names them.
    pub comparisons: &'static [&'static str],
    /// Whether a page may be made of a part of the runs, with the rows of the others from its raw series.
    pub completes_pages: bool,
    /// Runs what has not been run and makes the tables and figures.
    pub carry_out: fn(&Task<'_>) -> Result<Made, Error>,
}

impl Study {
    /// All, by the words of plans.
    pub const WORDS: &'static [(&'static str, Study)] = &[
        ("web100-dummynet", web100_dummynet::STUDY),
        ("advised-transfers", dccs::STUDY),
        ("simulator-and-kernel", validation::STUDY),
        ("bbr", bbr::STUDY),
        ("load", load::STUDY),
        ("advised-start", advised_start::STUDY),
        ("right-sizing", drsftp::STUDY),
        ("demonstration", demo::days::STUDY),
        ("background", background::STUDY),
        ("imtcp-bg", imtcp_bg::STUDY),
        ("random-paths", random_paths::STUDY),
    ];

    /// A study that takes nothing but runs from the plan.
    pub(crate) const fn new(
        parameters: &'static [Parameter],
        carry_out: fn(&Task<'_>) -> Result<Made, Error>,
    ) -> Study {
        Study {
            parameters,
            tables: &[],
            comparisons: &[],
            completes_pages: false,
            carry_out,
        }
    }
}

/// The program that runs a study.
pub struct Host<'a> {
    /// The `fairwind` command, which studies of the lab start.
    pub fairwind: PathBuf,
    /// Says how it goes, in one line.
    pub tell: &'a (dyn Fn(&str) + Sync),
    /// Whether the study is to stop.
    pub is_stopped: &'a (dyn Fn() -> bool + Sync),
}

impl Host<'_> {
    /// Fails if the study is to stop.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn go_on(&self) -> Result<(), Error> {
        if (self.is_stopped)() {
            return Err(Error::Stopped);
        }
        Ok(())
    }
}

impl Progress for Host<'_> {
    fn run(&self, _seed: u64, _share: f64) -> bool {
        !(self.is_stopped)()
    }
}

/// How a plan is carried out.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What runs it; none for the plan's first.
    pub engines: Option<Engines>,
    /// Which runs.
    pub only: Vec<Filter>,
    /// What is run of these.
    pub policy: Policy,
    /// As the plan says for a quick look.
    pub quick: bool,
    /// How often each run of the lab is made; seeds, where it has them.
    pub repetitions: Option<usize>,
    /// Stop after so many new runs in the lab.
    pub at_most: Option<usize>,
    /// Simulations at the same time; none for one a core.
    pub jobs: Option<usize>,
    /// Size of the transfers, as a share of the paper's; none for the plan's.
    pub scale: Option<f64>,
    /// The recorded series of available bandwidth.
    pub recorded: Option<PathBuf>,
    /// Congestion control of transfers between programs.
    pub congestion_control: Option<String>,
}

/// A plan to be carried out.
pub struct Task<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The runs of it that are made.
    pub runs: Vec<Run>,
    /// What runs them.
    pub engines: Engines,
    /// The folder of all results.
    pub out: &'a Path,
    /// How it is carried out.
    pub options: &'a Options,
    /// The program that runs it.
    pub host: &'a Host<'a>,
    /// The raw series of the page, which has the rows of runs that are not made.
    pub earlier: Option<String>,
    /// The kept results that cannot be read and are not made again.
    pub damaged: Damaged,
}

impl Task<'_> {
    /// The kept results in a folder below that of all results.
    pub fn cache(&self, folder: &str) -> Cache {
        Cache::new(&self.out.join(folder), self.options.policy).noting(&self.damaged)
    }

    /// Whether all runs of the plan are made.
    pub fn is_whole(&self) -> bool {
        self.runs.len() == self.plan.runs.len()
    }

    /// Whether runs are made in whole size and with all their seeds.
    pub fn is_whole_size(&self) -> bool {
        !self.options.quick && self.scale() == 1.0
    }

    /// How many seeds of each experiment are run, of those that its file has; all if none.
    pub fn seeds(&self) -> Option<usize> {
        self.options.quick.then_some(self.plan.quick.seeds)?
    }

    /// Size of the transfers, as a share of the paper's.
    pub fn scale(&self) -> f64 {
        let of_quick = || self.options.quick.then_some(self.plan.quick.scale)?;
        self.options.scale.or_else(of_quick).unwrap_or(1.0)
    }

    /// The error that there is nothing to show, as nothing is run and nothing is kept.
    pub(crate) fn nothing_kept(&self) -> Error {
        let (damaged, out) = (self.damaged.report(), self.out.display());
        Error::work(format!(
            "{damaged}none of the runs is kept by this program in {out}\n  help: leave out --kept"
        ))
    }

    /// Says how it goes.
    pub fn tell(&self, line: &str) {
        (self.host.tell)(line);
    }
}

/// What a study has made.
#[derive(Debug, Default)]
pub struct Made {
    /// The parts of its page.
    pub sections: Vec<Section>,
    /// The figures of its page.
    pub figures: Vec<Figure>,
    /// The tables for a terminal, if the study has them.
    pub terminal: String,
    /// Pages of their own that stand beside the figures: the file and its content.
    pub documents: Vec<(String, String)>,
    /// The runs behind the tables, one a row.
    pub runs: Option<Table>,
    /// Result folders of single runs, the first seed of each, which hold plots.
    pub results: Vec<PathBuf>,
    /// What is said of the results besides, ending with a newline unless empty.
    pub remarks: String,
}

impl Made {
    /// Draws a figure of the page and returns the link to it.
    pub(crate) fn draw(&mut self, plan: &str, file: &str, chart: &Chart) -> String {
        let figure = Figure {
            file: format!("{file}.svg"),
            svg: chart.svg(),
        };
        let link = figure.link(plan, &chart.title);
        self.figures.push(figure);
        link
    }

    /// Draws a figure of dots for the page, which shows it in the part of this name.
    pub(crate) fn draw_scatter(&mut self, plan: &str, name: &str, scatter: &Scatter) {
        let figure = Figure {
            file: format!("{name}.svg"),
            svg: scatter.svg(),
        };
        let link = figure.link(plan, &scatter.title);
        let of_name = |section: &&mut Section| section.name.replace(' ', "-") == name;
        if let Some(section) = self.sections.iter_mut().find(of_name) {
            section.markdown.push_str(&format!("\n{link}"));
        }
        self.figures.push(figure);
    }
}
