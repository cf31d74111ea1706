//! `fairwind reproduce`: the tables and figures of the papers, and the studies that make them.

use std::path::PathBuf;

use clap::Args;
use fairwind_study::cache::Policy;
use fairwind_study::papers::Index;
use fairwind_study::plan;
use fairwind_study::reproduce::{Request, reproduce};
use fairwind_study::{Engines, Filter, Host, Options, Plan};

use crate::failure::Failure;
use crate::table::Table;
use crate::words::{Word, one_of};
use crate::{interrupt, output};

/// Make a table or figure of the papers, or a whole study; without a name, list them all
///
/// A study runs what its plan says (experiments/NAME/plan.toml) and keeps every result, so it may be
/// interrupted. Tables go to OUT/tables, as Markdown and CSV, figures to OUT/figures. For a table or
/// figure it prints what the paper found, what the project's page shows, and where the new files are.
#[derive(Args)]
#[command(after_help = "\
Plans are part of a clone of fairwind. A kept result is used again as long as experiment, seeds and
program (in the lab: the kernel) are the same.

Examples:
  fairwind reproduce
  fairwind reproduce web100:figure-4.1 --quick
  fairwind reproduce enable:table-3 --engine lab
  fairwind reproduce drsftp --only path=95 --only size=1,8,128
  fairwind reproduce web100-dummynet --engine both --page docs/measurements/web100-dummynet.md")]
pub(crate) struct Reproduce {
    /// A study, or a table or figure of a paper
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    study: StudyOptions,
    /// Size of transfers and length of their day, 0.001 to 1 of the paper's; in the lab, of the file that is scaled
    /// down there (dccs)
    #[arg(long, value_name = "SHARE", value_parser = share)]
    scale: Option<f64>,
    /// The recorded series of available bandwidth, thesis_like.csv.gz; without it the generated one runs
    /// alone (dccs)
    #[arg(long, value_name = "FILE")]
    recorded: Option<PathBuf>,
    /// Congestion control of both ends (drsftp) [default: cubic]
    #[arg(long, value_name = "NAME")]
    control: Option<String>,
}

/// How a study is carried out.
#[derive(Args)]
pub(crate) struct StudyOptions {
    /// Folder of the plans
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    experiments: PathBuf,
    /// Engine [default: the first that the list names]
    #[arg(long, value_name = "ENGINE", value_parser = one_of(ENGINES))]
    engine: Option<Engines>,
    /// Folder for the results [default: out/STUDY]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A quick look: fewer seeds, runs or bytes, as the plan says
    #[arg(long)]
    quick: bool,
    /// Only runs with this value of a parameter of the plan, such as size=1,8 or figure-4.1; * stands for any
    /// characters; repeatable
    #[arg(long, value_name = "[KEY=]VALUE")]
    only: Vec<Filter>,
    /// How often each lab run is repeated: transfers, or seeds of the experiment [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    runs: Option<u16>,
    /// Stop after this many new lab runs
    #[arg(long, value_name = "N")]
    at_most: Option<usize>,
    /// Make results again even if they are kept
    #[arg(long, alias = "force")]
    again: bool,
    /// Run nothing; make the tables from kept results
    #[arg(long, conflicts_with = "again")]
    kept: bool,
    /// Simulations at the same time [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Put tables and figures of a whole study into this page, figures/ and data/ beside it; with --only, the plan
    /// background has its other runs from data/
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

impl StudyOptions {
    /// Carries out the study of this name, or makes a table or figure, and prints what is said of it.
    pub(crate) fn carry_out(
        self,
        what: &str,
        for_terminal: bool,
        options: Options,
    ) -> Result<(), Failure> {
        let request = Request {
            experiments: self.experiments,
            what: what.to_owned(),
            out: self.out,
            page: self.page,
            for_terminal,
            options: Options {
                engines: self.engine,
                only: self.only,
                policy: match (self.again, self.kept) {
                    (true, _) => Policy::All,
                    (_, true) => Policy::Nothing,
                    _ => Policy::Missing,
                },
                quick: self.quick,
                repetitions: self.runs.map(usize::from),
                at_most: self.at_most,
                jobs: self.jobs.map(usize::from),
                ..options
            },
        };
        interrupt::catch()?;
        let host = Host {
            fairwind: std::env::current_exe()?,
            tell: &|line| eprintln!("{line}"),
            is_stopped: &interrupt::asked,
        };
        Ok(output::line(&reproduce(&request, &host)?)?)
    }
}

const ENGINES: &[Word<Engines>] = &[
    ("sim", "The simulator", Engines::Sim),
    ("lab", "This machine's kernel; needs root", Engines::Lab),
    ("both", "Both, and their comparison", Engines::Both),
];

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.001..=1.0).contains(&share) => Ok(share),
        _ => Err("a number from 0.001 to 1".to_owned()),
    }
}

impl Reproduce {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Some(what) = self.name else {
            return Ok(output::line(&list(&self.study.experiments)?)?);
        };
        let options = Options {
            scale: self.scale,
            recorded: self.recorded,
            congestion_control: self.control,
            ..Options::default()
        };
        self.study.carry_out(&what, false, options)
    }
}

/// All tables and figures of the papers, and all studies.
fn list(experiments: &std::path::Path) -> Result<String, Failure> {
    let index = Index::read(experiments)?;
    let mut rows = Table::new("name | table or figure | state");
    for (_, row) in index.rows() {
        rows.row([row.id.clone(), row.what.clone(), row.status()]);
    }
    let mut studies = Table::new("study | engines | what it shows");
    for name in plan::names(experiments)? {
        let plan = Plan::read(experiments, &name)?;
        studies.row([name, Engines::words(&plan.engines, ", "), plan.title]);
    }
    Ok(format!("{}\n{}", rows.render(), studies.render()))
}
