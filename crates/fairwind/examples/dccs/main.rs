//! Runs the tests of Akarapu's thesis (Tables 1 to 27) in the simulator, over a generated curve of
//! available bandwidth and a recorded one, and those of Tables 3 to 18 scaled down on the running
//! kernel, and prints the tables of `docs/measurements/advised-transfers.md`: `make dccs`, `make dccs-lab`.

mod bench;
mod following;
#[path = "../web100_dummynet/page.rs"]
mod page;
mod relation;
mod scaled;
mod series;
mod tables;
mod thesis;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use clap::{Parser, ValueEnum};
use fairwind::demo::lab::missing;
use fairwind::interrupt;

use bench::{Bench, Case, Runs, Transfer, Way};
use page::Section;
use relation::{Losses, Relation};
use scaled::Small;
use series::Series;
use tables::{Done, HISTORY_SETS};
use thesis::{LEVELS, TIMES};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Run the tests of the thesis on dynamic TCP congestion control and print the tables of its page
#[derive(Parser)]
#[command(after_help = "\
RESULTS gets a record of each transfer and the losses of the paths. A record of the same transfer that
is there already is kept. At --scale 0.01 the file
has a hundredth of its size and the day passes a hundred times faster: a quick look, in which a
standard transfer loses only a handful of packets.")]
struct Arguments {
    /// Folder of the experiment files
    experiments: PathBuf,
    /// Folder for the results
    results: PathBuf,
    /// The tests of the thesis' size in the simulator, or those scaled down in simulator and lab
    #[arg(long, value_enum, default_value = "sim")]
    engine: Engine,
    /// Stop after so many runs in the lab
    #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
    runs: usize,
    /// Size of the file and length of the day, as a share of the thesis'
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    scale: f64,
    /// The recorded series; where it is not, it is left out
    #[arg(
        long,
        value_name = "FILE",
        default_value = "../shared/data/thesis_like.csv.gz"
    )]
    recorded: PathBuf,
    /// Transfers at the same time [default: one a core]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Run again what has been run already
    #[arg(long)]
    again: bool,
    /// Run nothing: print the tables of what has been run already
    #[arg(long, conflicts_with = "again")]
    kept: bool,
    /// Put the tables into this page
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Engine {
    Sim,
    Lab,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.001..=1.0).contains(&share) => Ok(share),
        _ => Err("a number from 0.001 to 1".to_owned()),
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Error> {
    let observed = |stack| -> Result<_, Error> {
        let at = |delay_ms| Bench::table_1(&arguments.experiments, delay_ms, stack);
        Ok([at(25.0)?, at(50.0)?])
    };
    let (table_1, relation) = tables::table_1(observed("2005")?);
    let sections = match arguments.engine {
        Engine::Sim => simulated(arguments, table_1, relation)?,
        Engine::Lab => {
            let here = tables::fit(observed("linux")?.map(|row| row.map(Some)));
            in_lab(arguments, relation, here)?
        }
    };
    page::publish(arguments.page.as_deref(), &sections)
}

fn runs(arguments: &Arguments) -> Runs {
    match (arguments.again, arguments.kept) {
        (true, _) => Runs::All,
        (_, true) => Runs::None,
        _ => Runs::Missing,
    }
}

/// The tables of transfers of the thesis' size.
fn simulated(
    arguments: &Arguments,
    table_1: Section,
    relation: Relation,
) -> Result<Vec<Section>, Error> {
    let bench = Bench {
        experiments: arguments.experiments.clone(),
        results: arguments.results.clone(),
        scale: arguments.scale,
        relation,
        runs: runs(arguments),
    };
    let background_alone = bench.background_alone()?;
    let all = all_series(arguments)?;
    let transfers = transfers(&bench, &all, arguments.jobs)?;
    let done: Vec<Done> = all
        .iter()
        .zip(transfers)
        .map(|(series, transfers)| Done {
            series,
            transfers,
            background_alone,
        })
        .collect();
    let mut sections = vec![table_1];
    sections.extend(tables::all(&done));
    sections.push(page::made("run"));
    Ok(sections)
}

/// The tables of the scaled-down tests.
fn in_lab(
    arguments: &Arguments,
    relation: Relation,
    relation_here: Relation,
) -> Result<Vec<Section>, Error> {
    let missing = missing();
    if !arguments.kept && !missing.is_empty() {
        let missing = missing.join("\n");
        return Err(format!("{missing}\n  help: --engine sim needs none of it").into());
    }
    interrupt::catch().map_err(|failure| format!("{failure:?}"))?;
    let small = Small {
        results: arguments.results.join("scaled"),
        relation,
        relation_here,
        series: &Series::generated()?,
        runs: runs(arguments),
        fairwind: command()?,
    };
    let mut moved = Vec::new();
    let mut ran = 0;
    for engine in [scaled::Engine::Sim, scaled::Engine::Lab] {
        for case in scaled::cases(engine) {
            if small.is_to_be_run(case)? && engine == scaled::Engine::Lab {
                if ran == arguments.runs {
                    return Err("stopped: what has been run is kept".into());
                }
                ran += 1;
            }
            moved.extend(small.run(case)?);
        }
    }
    let mut sections = scaled::tables::all(&moved, relation_here);
    sections.push(page::made("lab run"));
    Ok(sections)
}

/// The `fairwind` command that was built beside this program.
fn command() -> Result<PathBuf, Error> {
    let examples = std::env::current_exe()?;
    let folder = examples.ancestors().nth(2).unwrap_or(&examples);
    let command = folder.join("fairwind");
    match command.is_file() {
        true => Ok(command),
        false => Err(format!(
            "{}: not there\n  help: build it with the same profile: cargo build --bin fairwind",
            command.display()
        )
        .into()),
    }
}

fn all_series(arguments: &Arguments) -> Result<Vec<Series>, Error> {
    let mut all = vec![Series::generated()?];
    match Series::recorded(&arguments.recorded)? {
        Some(series) => all.push(series),
        None => eprintln!("{}: not there, left out", arguments.recorded.display()),
    }
    Ok(all)
}

/// Every transfer of the tables; those that may turn out to equal others come after them.
fn cases() -> Vec<Case> {
    let [all, same_weekday, last_week] = HISTORY_SETS.map(Way::Advised);
    let mut cases = Vec::new();
    for others in 0..=2 {
        let ways = [Way::Standard, Way::Nocc, all];
        cases.extend(tests(others, &ways, Losses::Rounded));
    }
    cases.extend(tests(0, &[same_weekday, last_week], Losses::Rounded));
    for others in 0..=1 {
        let ways = [Way::Standard, Way::Nocc, all];
        cases.extend(tests(others, &ways, Losses::Exact));
    }
    cases
}

/// The transfers beside `others` other connections; only transfers without others use paths of every level.
fn tests(others: usize, ways: &[Way], losses: Losses) -> Vec<Case> {
    let levels = if others == 0 { LEVELS.len() } else { 1 };
    let mut cases = Vec::new();
    for &way in ways {
        for (level, time) in (0..levels).flat_map(|l| (0..TIMES.len()).map(move |t| (l, t))) {
            cases.push(Case {
                others,
                level,
                time,
                way,
                losses,
            });
        }
    }
    cases
}

/// Runs all transfers over every series, several at a time, and returns those of each series.
fn transfers(
    bench: &Bench,
    all: &[Series],
    jobs: Option<usize>,
) -> Result<Vec<Vec<Transfer>>, Error> {
    let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
    let cases = cases();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(&case) = cases.get(at / all.len()) else {
                return;
            };
            let series = at % all.len();
            let begun = Instant::now();
            let transfer = bench.run(&all[series], case);
            match &transfer {
                Ok(Some(transfer)) => tell(&all[series], transfer, begun),
                Ok(None) => {}
                Err(_) => next.store(cases.len() * all.len(), Ordering::Relaxed),
            }
            done.lock()
                .expect("no thread panics")
                .push((series, transfer));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.unwrap_or_else(cores).max(1) {
            scope.spawn(work);
        }
    });
    let mut transfers = vec![Vec::new(); all.len()];
    for (series, transfer) in done.into_inner().expect("no thread panics") {
        transfers[series].extend(transfer?);
    }
    Ok(transfers)
}

fn tell(series: &Series, transfer: &Transfer, begun: Instant) {
    let Case {
        others,
        level,
        time,
        way,
        losses,
    } = transfer.case;
    eprintln!(
        "{} {way:?} {losses:?} used {} % at {:?} beside {others}: {:.2} Mbit/s, others {:.2?}, told {:?}, {} timeouts ({:.0} s)",
        series.name,
        LEVELS[level].used_percent,
        TIMES[time],
        transfer.mbps,
        transfer.others_mbps,
        transfer.inputs,
        transfer.timeouts,
        begun.elapsed().as_secs_f64()
    );
}
