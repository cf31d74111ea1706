//! Compares the simulator with the kernel: runs every experiment of a folder in both engines and prints the
//! table of `docs/measurements/simulator-and-kernel.md`.
//!
//! ```text
//! cargo run --release -p fairwind --example validation -- experiments/validation out/validation
//! ```
//!
//! A run of the lab in which the kernel skipped a hook of the congestion control, which the result's warnings
//! report, is no sample of that congestion control: it is left out of the means, and counted.
//!
//! The simulator, which may have changed, runs every time. Complete results of the lab for the same
//! experiment file are used again. The lab needs root and an otherwise idle machine.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Parser, ValueEnum};
use fairwind_result::{RunResult, Stored};

/// Run the validation cells in both engines and print the table
#[derive(Parser)]
struct Arguments {
    /// Folder of the experiment files
    experiments: PathBuf,
    /// Folder of the results: CELL/sim and CELL/lab
    out: PathBuf,
    /// Run this engine only; the table shows what there is
    #[arg(long)]
    only: Option<Engine>,
    /// Take only cells whose name contains this text
    #[arg(long, value_name = "TEXT")]
    cell: Option<String>,
    /// Run also in the lab again what has a result already
    #[arg(long)]
    force: bool,
    /// The program [default: the one built beside this one]
    #[arg(long, value_name = "FILE")]
    fairwind: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    Sim,
    Lab,
}

impl Engine {
    fn word(self) -> &'static str {
        match self {
            Engine::Sim => "sim",
            Engine::Lab => "lab",
        }
    }
}

/// Tolerances of a cell's goodput and mean queue, as shares of the lab's values.
const GOODPUT_TOLERANCE: f64 = 0.03;
const QUEUE_TOLERANCE: f64 = 0.10;

/// Part of the warning that the kernel skipped a hook of a congestion control
/// (`docs/explanation/decisions/skipped-hooks.md`).
const SKIPPED_HOOK: &str = "impossible slow-start threshold";

/// The values to compare, as means over the seeds whose runs are fair samples.
struct Totals {
    runs: usize,
    /// Further runs, left out because the kernel skipped hooks of their congestion controls.
    left_out: usize,
    /// Goodput of all flows together, Mbit/s.
    goodput_mbps: f64,
    /// Mean queue of the bottleneck, packets.
    queue_pkts: f64,
    retransmits: f64,
    /// Packets that the bottleneck's queue dropped.
    drops: f64,
    /// Lateness of the emulator, the worst of the seeds.
    lateness_p99_us: Option<f64>,
    /// Why a run is incomplete or doubtful.
    complaints: Vec<String>,
}

/// One of the values to compare.
type Metric = fn(&Totals) -> f64;

/// A cell with its results so far.
struct Cell {
    name: String,
    sim: Option<Totals>,
    lab: Option<Totals>,
}

impl Cell {
    /// The totals of an engine, if it has fair runs.
    fn totals(&self, engine: Engine) -> Option<&Totals> {
        let totals = match engine {
            Engine::Sim => &self.sim,
            Engine::Lab => &self.lab,
        };
        totals.as_ref().filter(|totals| totals.runs > 0)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let program = match &arguments.fairwind {
        Some(program) => program.clone(),
        None => beside_this_one()?,
    };
    let mut cells = Vec::new();
    for file in experiment_files(&arguments)? {
        let name = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        for engine in [Engine::Sim, Engine::Lab] {
            if arguments.only.is_none_or(|only| only == engine) {
                run(
                    &program,
                    engine,
                    &file,
                    &arguments.out.join(&name),
                    arguments.force,
                )?;
            }
        }
        let totals = |engine: Engine| totals(&arguments.out.join(&name).join(engine.word()));
        cells.push(Cell {
            sim: totals(Engine::Sim)?,
            lab: totals(Engine::Lab)?,
            name,
        });
    }
    print_table(&cells);
    print_verdict(&cells);
    Ok(())
}

/// `target/release/fairwind` for `target/release/examples/validation`.
fn beside_this_one() -> Result<PathBuf, Box<dyn Error>> {
    let this = std::env::current_exe()?;
    let folder = this.parent().and_then(Path::parent);
    let program = folder
        .ok_or("no folder above this program")?
        .join("fairwind");
    if program.is_file() {
        return Ok(program);
    }
    let shown = program.display();
    Err(format!("no {shown}: build it with cargo build --release -p fairwind").into())
}

fn experiment_files(arguments: &Arguments) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(&arguments.experiments)? {
        let file = entry?.path();
        let name = file.to_string_lossy().into_owned();
        let wanted = arguments
            .cell
            .as_ref()
            .is_none_or(|cell| name.contains(cell));
        if wanted
            && file
                .extension()
                .is_some_and(|extension| extension == "toml")
        {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Runs a cell unless the lab's result exists.
fn run(
    program: &Path,
    engine: Engine,
    file: &Path,
    cell: &Path,
    force: bool,
) -> Result<(), Box<dyn Error>> {
    let out = cell.join(engine.word());
    if engine == Engine::Lab && !force && is_there(&out, file)? {
        return Ok(());
    }
    fs::create_dir_all(cell)?;
    eprintln!("{} {}", engine.word(), file.display());
    let status = Command::new(program)
        .args([engine.word(), "run"])
        .arg(file)
        .arg("--out")
        .arg(&out)
        .args(["--force", "--json"])
        .stdout(std::process::Stdio::null())
        .status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{} run {}: {status}", engine.word(), file.display()).into()),
    }
}

/// Whether the folder holds a complete result of this experiment file.
fn is_there(out: &Path, file: &Path) -> Result<bool, Box<dyn Error>> {
    let before = fs::read(out.join("experiment.toml")).ok();
    let incomplete = match Stored::read(out) {
        Ok(Stored::Run(run)) => run.incomplete,
        Ok(Stored::Summary(summary)) => summary.incomplete,
        Err(_) => return Ok(false),
    };
    Ok(incomplete.is_none() && before == Some(fs::read(file)?))
}

/// The runs of a result folder, or none if it does not exist.
fn runs(folder: &Path) -> Result<Vec<RunResult>, Box<dyn Error>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let summary = match Stored::read(folder)? {
        Stored::Run(run) => return Ok(vec![run]),
        Stored::Summary(summary) => summary,
    };
    let mut runs = Vec::new();
    for seed in summary.seeds {
        if let Stored::Run(run) = Stored::read(&folder.join(format!("seed-{seed}")))? {
            runs.push(run);
        }
    }
    Ok(runs)
}

fn totals(folder: &Path) -> Result<Option<Totals>, Box<dyn Error>> {
    let all = runs(folder)?;
    if all.is_empty() {
        return Ok(None);
    }
    let (runs, left_out): (Vec<_>, Vec<_>) = all.iter().partition(|run| is_fair(run));
    let mean = |of: &dyn Fn(&RunResult) -> f64| {
        runs.iter().map(|run| of(run)).sum::<f64>() / runs.len() as f64
    };
    let lateness = runs.iter().filter_map(|run| run.emulator.as_ref());
    let lateness = lateness.map(|emulator| emulator.lateness_p99_us);
    let incomplete = runs.iter().filter_map(|run| run.incomplete.clone());
    let warnings = runs.iter().flat_map(|run| run.warnings.clone());
    Ok(Some(Totals {
        runs: runs.len(),
        left_out: left_out.len(),
        goodput_mbps: mean(&|run| run.flows.iter().map(|flow| flow.goodput_mbps).sum()),
        queue_pkts: mean(&|run| run.links[0].queue_mean_pkts),
        retransmits: mean(&|run| run.flows.iter().map(|flow| flow.retransmits as f64).sum()),
        drops: mean(&|run| run.links[0].drops as f64),
        lateness_p99_us: lateness.reduce(f64::max),
        complaints: incomplete.chain(warnings).collect(),
    }))
}

/// Whether the kernel ran every hook of the run's congestion controls, as far as can be told: in place of the
/// answer of a hook that it skipped, it uses a slow-start threshold that no congestion control returns.
fn is_fair(run: &RunResult) -> bool {
    let skipped = |warning: &String| warning.contains(SKIPPED_HOOK);
    !run.warnings.iter().any(skipped)
}

/// By how much the simulator's value is above the lab's, as a share of the lab's.
fn relative(cell: &Cell, of: Metric) -> Option<f64> {
    let [sim, lab] = [Engine::Sim, Engine::Lab].map(|engine| cell.totals(engine).map(of));
    let (sim, lab) = (sim?, lab?);
    (lab != 0.0).then(|| (sim - lab) / lab)
}

fn goodput(totals: &Totals) -> f64 {
    totals.goodput_mbps
}

fn queue(totals: &Totals) -> f64 {
    totals.queue_pkts
}

fn print_table(cells: &[Cell]) {
    println!(
        "| cell | goodput, Mbit/s: sim | lab | sim - lab | mean queue, packets: sim | lab \
         | sim - lab | retransmits: sim | lab | drops: sim | lab | lateness p99, us |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for cell in cells {
        let value = |engine: Engine, of: Metric, digits: usize| {
            let text = cell
                .totals(engine)
                .map(|totals| format!("{:.digits$}", of(totals)));
            text.unwrap_or_default()
        };
        let percent = |of| {
            let text = relative(cell, of).map(|share| format!("{:+.1} %", 100.0 * share));
            text.unwrap_or_default()
        };
        let pair = |of, digits| {
            format!(
                "{} | {}",
                value(Engine::Sim, of, digits),
                value(Engine::Lab, of, digits)
            )
        };
        let lateness = cell.totals(Engine::Lab).and_then(|lab| lab.lateness_p99_us);
        println!(
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            cell.name,
            pair(goodput, 2),
            percent(goodput),
            pair(queue, 1),
            percent(queue),
            pair(|totals| totals.retransmits, 0),
            pair(|totals| totals.drops, 0),
            lateness.map_or(String::new(), |us| format!("{us:.0}"))
        );
    }
}

/// Prints medians, cells out of tolerance, and runs that are left out.
fn print_verdict(cells: &[Cell]) {
    println!();
    let both = cells
        .iter()
        .filter(|cell| cell.totals(Engine::Sim).is_some() && cell.totals(Engine::Lab).is_some());
    println!("{} cells in both engines.", both.count());
    let metrics: [(&str, Metric, f64); 2] = [
        ("goodput", goodput, GOODPUT_TOLERANCE),
        ("mean queue", queue, QUEUE_TOLERANCE),
    ];
    for (name, of, tolerance) in metrics {
        let off = |cell: &Cell| relative(cell, of).map(f64::abs);
        let Some(median) = median(cells.iter().filter_map(off).collect()) else {
            continue;
        };
        let is_out = |cell: &&Cell| off(cell).is_some_and(|share| share > tolerance);
        let out: Vec<&str> = cells
            .iter()
            .filter(is_out)
            .map(|cell| cell.name.as_str())
            .collect();
        println!(
            "Median difference of the {name}: {:.1} %. More than {:.0} %: {}.",
            100.0 * median,
            100.0 * tolerance,
            if out.is_empty() {
                "none".to_owned()
            } else {
                out.join(", ")
            }
        );
    }
    print_left_out(cells);
    for cell in cells {
        for totals in [&cell.sim, &cell.lab].into_iter().flatten() {
            for complaint in &totals.complaints {
                println!("{}: {complaint}", cell.name);
            }
        }
    }
}

/// Prints how many runs of the lab are no fair samples of their congestion controls.
fn print_left_out(cells: &[Cell]) {
    let lab = || {
        cells
            .iter()
            .filter_map(|cell| Some((&cell.name, cell.lab.as_ref()?)))
    };
    let left_out: usize = lab().map(|(_, totals)| totals.left_out).sum();
    let runs: usize = lab().map(|(_, totals)| totals.runs).sum();
    println!(
        "Runs of the lab left out, as the kernel skipped hooks of their controls: {left_out} of {}.",
        runs + left_out
    );
    for (name, totals) in lab().filter(|(_, totals)| totals.left_out > 0) {
        let all = totals.runs + totals.left_out;
        println!("{name}: {} of {all} left out.", totals.left_out);
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}
