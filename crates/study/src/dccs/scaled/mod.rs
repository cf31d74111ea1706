//! The tests scaled down, on the running kernel with real servers, client and advisor, and in the
//! simulator: a 240th of the file while the day passes 240 times as fast.
//!
//! A window grows by a packet per round trip, whatever the file: over 50 ms, a standard transfer of such a
//! small file would see no loss or one. So the path is scaled, too. With a round-trip time, windows and a
//! queue 2.5 times smaller and 2.5² times the losses, standard TCP has the same rate, and loses and grows
//! 2.5² times as often. The losses are also adapted to the TCP that runs here, whose constant is fitted as
//! that of the thesis' TCP is.

pub(crate) mod moved;
pub(crate) mod network;
pub(crate) mod proftpd;
pub(crate) mod tables;

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fairwind_advice::Settings;
use fairwind_experiment::engine::lab::Lab;
use fairwind_experiment::engine::sim::Sim;
use fairwind_experiment::{ExecuteOptions, Progress, execute};
use fairwind_lab::host::Offload;
use fairwind_scenario::Experiment;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::bench::write_losses;
use super::case::{Case, HISTORY_SETS, LEVELS, Losses, Server};
use super::following::{self, Input};
use super::relation::{Relation, Trace};
use super::results::{Results, Transfer};
use super::series::{Series, available};
use super::thesis::Level;
use crate::cache::{Cache, program};
use crate::demo::day::Day;
use crate::demo::lab::{Arrival, Programs, Site};
use crate::demo::measure::Measured;
use crate::demo::story::{Route, Story, Way};
use crate::{Error, Task};
use moved::{Moved, logged};
use network::{Means, Network};
use proftpd::{Proftpd, Serving};

/// Factor by which the day passes faster and the file is smaller.
const RATE: f64 = 240.0;
/// The file of whole size: 16.384 GB / 240.
const FILE_BYTES: u64 = 68_266_667;
/// Round-trip time of the thesis' path, milliseconds, and the factor by which it is shorter here.
const RTT_MS: f64 = 50.0;
const SHORTER: f64 = 2.5;
/// When the transfer starts in a run, seconds: server and advisor are up, and the others in equilibrium.
const START_S: f64 = 1.0;
/// Buffer size that both programs request without others: the window, five eighths of what the kernel
/// allocates for it, allows 70 Mbit/s, as that of the thesis' server does.
const BUFFER_ALONE: u64 = 146_500;
/// The same beside others, where the round-trip time varies and a link of 72.6 Mbit/s limits the server: the
/// window of the thesis' 1 MB in the simulator, scaled.
const BUFFER_BESIDE: u64 = 251_658;
/// The receive buffer of one of the others: its window allows 83 Mbit/s alone, as in the thesis.
const BUFFER_OF_OTHERS: u64 = 74_000;
/// How long the throughput of the others alone is measured, seconds.
const ALONE_S: f64 = 10.0;
/// Seeds of the simulator: in a small file each loss has great weight.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=10;

/// Where and how the tests are run.
pub(crate) struct Small<'a> {
    pub task: &'a Task<'a>,
    pub results: PathBuf,
    pub cache: Cache,
    /// Relation of the thesis' TCP.
    pub relation: Relation,
    /// Relation of the TCP that runs here.
    pub relation_here: Relation,
    pub series: Series,
    /// Levels of congestion.
    pub levels: &'a [Level; 3],
    /// Found when its first transfer is to be run; none if it is not there.
    pub proftpd: OnceCell<Option<Proftpd>>,
}

impl Small<'_> {
    /// Runs the tests of these servers in the simulator and then in the lab, or returns their kept results.
    pub(crate) fn run_all(&self, transfers: &[(Server, Case)]) -> Result<Vec<Results<'_>>, Error> {
        let cases = scaled(transfers.iter().map(|(_, case)| *case));
        let mut all = Mover::ALL.map(|mover| Results {
            name: mover.name().to_owned(),
            transfers: Vec::new(),
            alone: [None; 2],
            thesis: None,
        });
        let mut runs = 0;
        // Each test by both servers one after the other, so that the machine is the same to both.
        for movers in [&Mover::ALL[..1], &Mover::ALL[1..]] {
            for &case in &cases {
                for &mover in movers.iter().filter(|mover| mover.has(case, transfers)) {
                    self.task.host.go_on()?;
                    let test = self.test(mover, case)?;
                    if !self.is_to_be_run(&test) {
                        if let Some(moved) = self.cache.kept(&test.name, &test.asked()) {
                            add(&mut all, mover, case, moved);
                        }
                        continue;
                    }
                    if mover != Mover::Simulator {
                        if self.task.options.at_most == Some(runs) {
                            return Err(Error::Stopped);
                        }
                        runs += 1;
                    }
                    add(&mut all, mover, case, self.run(&test)?);
                }
            }
        }
        let mut all = Vec::from(all);
        // Of a server that has served nothing there are no rows.
        let is_known = |results: &Results<'_>| results.name == Mover::Simulator.name();
        all.retain(|results| is_known(results) || !results.transfers.is_empty());
        Ok(all)
    }

    /// Whether the test has no result and can be run.
    fn is_to_be_run(&self, test: &Test) -> bool {
        self.cache.is_to_be_run(&test.name, &test.asked())
            && (test.mover != Mover::Lab(Server::Proftpd) || self.proftpd().is_some())
    }

    /// ProFTPD, if it is there; otherwise says what is missing.
    fn proftpd(&self) -> Option<&Proftpd> {
        let find = || match Proftpd::find(&self.task.plan.folder) {
            Ok(found) => Some(found),
            Err(why) => {
                let help = "help: without it the transfers by ProFTPD are left out";
                self.task.tell(&format!("{why}\n  {help}"));
                None
            }
        };
        self.proftpd.get_or_init(find).as_ref()
    }

    /// Runs a test, and keeps its result.
    fn run(&self, test: &Test) -> Result<Moved, Error> {
        fs::create_dir_all(&self.results).map_err(Error::at(&self.results))?;
        let moved = match test.mover {
            Mover::Simulator => self.simulate(test)?,
            Mover::Lab(server) => self.perform(test, server)?,
        };
        self.task.tell(&format!(
            "{}: {:.2} Mbit/s, others {:.2}, told {:?}, {} retransmits",
            test.name, moved.mbps, moved.others_mbps, moved.inputs, moved.retransmits
        ));
        self.cache.keep(&test.name, &test.asked(), &moved)?;
        Ok(moved)
    }

    /// Prepares a test.
    fn test(&self, mover: Mover, case: Case) -> Result<Test, Error> {
        let level = &self.levels[case.level];
        let samples = self.series.with_less(level.less_mbps)?;
        let start = self.series.start(case.time)?;
        let begins = start - SignedDuration::from_secs_f64(START_S * RATE);
        let file_bytes = (FILE_BYTES as f64 * self.task.scale()).round() as u64;
        let length_s = longest_s(case, file_bytes);
        let span = Duration::from_secs_f64(length_s * RATE);
        let trace = Trace {
            relation: self.relation,
            losses: Losses::Rounded,
            rtt_ms: RTT_MS,
            scale: 1.0 / RATE,
            share: (SHORTER * self.relation_here.constant / self.relation.constant).powi(2),
        };
        let settings = following::settings(level.threshold_mbps, HISTORY_SETS[0]);
        let inputs = match case.way {
            Way::Advised => following::inputs(&samples, &settings, start, span),
            _ => Vec::new(),
        };
        let (history, tests) = samples
            .all()
            .iter()
            .filter(|sample| sample.time < start + SignedDuration::try_from(span).expect("hours"))
            .partition(|sample| sample.time <= begins);
        Ok(Test {
            name: name(mover, case),
            mover,
            case,
            losses: trace.csv(&available(&samples, begins, span)),
            inputs,
            story: Story {
                route: Route::Day,
                seed: 1,
                length_s,
                begins,
                rate: RATE,
                file_bytes,
                // The thesis' advisor says nothing of buffers.
                rtt_ms: None,
            },
            day: Day { history, tests },
            settings,
        })
    }

    fn simulate(&self, test: &Test) -> Result<Moved, Error> {
        let folder = self.results.join(format!("{}.run", test.name));
        let losses = write_losses(&self.results, &test.losses)?;
        let switch = following::switches(&after(&test.inputs, START_S * RATE), 1.0 / RATE);
        let means = Means::Simulated {
            first: following::first_control(test.case.way, &test.inputs),
            switch: &switch,
        };
        let mut all = Vec::new();
        for seed in SEEDS {
            let experiment = self.experiment(test, &losses, seed, &means)?;
            let done = execute(&experiment, &Sim, &into(&folder), &())?;
            let measured = Measured::read(&folder, &done.runs[0], START_S)?;
            all.push(Moved::of(test, &measured, &test.inputs)?);
        }
        fs::remove_dir_all(&folder)?;
        Ok(Moved::mean(&all))
    }

    fn perform(&self, test: &Test, server: Server) -> Result<Moved, Error> {
        let way = test.case.way;
        let folder = self.results.join(&test.name);
        let losses = write_losses(&self.results, &test.losses)?;
        let (fairwind, buffer) = (
            self.task.host.fairwind.clone(),
            buffer_bytes(test.case.others),
        );
        let site = Site::prepare(
            &test.story,
            &test.day,
            &test.settings,
            buffer,
            fairwind,
            &self.results,
        )?;
        let log = site.log(way);
        if log.exists() {
            fs::remove_file(&log)?;
        }
        let mut programs = site.programs(way)?;
        let serving = match server {
            Server::Fairwind => None,
            Server::Proftpd => Some(self.serve(&site, way, buffer, &mut programs)?),
        };
        let first = match (server, way) {
            (Server::Fairwind, Way::Nocc) => "nocc",
            _ => "reno",
        };
        let means = Means::Programs { first, programs };
        let experiment = self.experiment(test, &losses, 1, &means)?;
        let lab = Lab {
            offload: Offload::None,
            own_controls: false,
        };
        let until = UntilArrived {
            task: self.task,
            site: &site,
            way,
        };
        let done = execute(&experiment, &lab, &into(&folder), &until)?;
        self.task.host.go_on()?;
        let failed = |what: String| Error::work(format!("{}: {what}", test.name));
        if way != Way::Nobody && site.arrival(way)? != Arrival::Identical {
            let why = done.incomplete.unwrap_or_default();
            let said = serving.map_or(String::new(), |serving| serving.said());
            let what = format!("the file has not arrived as it was sent {why} {said}");
            return Err(failed(what.trim_end().to_owned()));
        }
        let inputs = match (serving, way) {
            (Some(serving), _) => serving.inputs(way).map_err(failed)?,
            (None, Way::Advised) => logged(&fs::read_to_string(&log)?),
            (None, _) => Vec::new(),
        };
        let measured = Measured::read(&folder, &done.runs[0], START_S)?;
        Moved::of(test, &measured, &inputs)
    }

    /// Lets ProFTPD serve the site's file, in the place of the server of these programs.
    fn serve(
        &self,
        site: &Site,
        way: Way,
        buffer: u64,
        programs: &mut Programs,
    ) -> Result<Serving, Error> {
        let proftpd = self.proftpd().expect("its tests are run if it is there");
        let serving = proftpd.serve(&site.file(), way, buffer)?;
        programs.server = serving.command.clone();
        Ok(serving)
    }

    fn experiment(
        &self,
        test: &Test,
        losses: &Path,
        seed: u64,
        means: &Means<'_>,
    ) -> Result<Experiment, Error> {
        let network = Network {
            others: test.case.others,
            losses,
            longest_s: test.story.length_s,
            file_bytes: test.story.file_bytes,
            seed,
        };
        let text = network.experiment(test.case.way, means);
        Ok(Experiment::parse(&text, "scaled", &self.results, &[])?)
    }
}

/// Writes a result into the folder, over an earlier one.
fn into(folder: &Path) -> ExecuteOptions {
    ExecuteOptions {
        force: true,
        ..ExecuteOptions::new(folder)
    }
}

/// What moves the file of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mover {
    /// The simulator: the mean of ten seeds.
    Simulator,
    /// A server on the running kernel: one run.
    Lab(Server),
}

impl Mover {
    /// All, in the order of the tables.
    const ALL: [Mover; 3] = [
        Mover::Simulator,
        Mover::Lab(Server::Fairwind),
        Mover::Lab(Server::Proftpd),
    ];

    /// Its place in [`Mover::ALL`].
    fn index(self) -> usize {
        let place = Mover::ALL.iter().position(|other| *other == self);
        place.expect("all are there")
    }

    /// Its name in tables.
    fn name(self) -> &'static str {
        self.names()[0]
    }

    /// What the names of its results begin with.
    fn word(self) -> &'static str {
        self.names()[1]
    }

    fn names(self) -> [&'static str; 2] {
        match self {
            Mover::Simulator => ["simulator", "sim"],
            Mover::Lab(Server::Fairwind) => ["lab", "lab"],
            Mover::Lab(Server::Proftpd) => ["lab, ProFTPD", "lab-proftpd"],
        }
    }

    /// Whether it has this test, where each server is to make these transfers. Others that are alone have no server.
    fn has(self, case: Case, transfers: &[(Server, Case)]) -> bool {
        match self {
            Mover::Simulator => true,
            Mover::Lab(server) if case.way == Way::Nobody => server == Server::Fairwind,
            Mover::Lab(server) => transfers.contains(&(server, case)),
        }
    }
}

/// Adds the result of a test to all.
fn add(all: &mut [Results<'_>; 3], mover: Mover, case: Case, moved: Moved) {
    if case.way == Way::Nobody {
        let is_simulated = mover == Mover::Simulator;
        let places = if is_simulated { 0..1 } else { 1..3 };
        for results in &mut all[places] {
            results.alone[case.others - 1] = Some(moved.others_mbps);
        }
        return;
    }
    all[mover.index()].transfers.push(Transfer {
        case,
        mbps: moved.mbps,
        seconds: FILE_BYTES as f64 * RATE * 8.0 / 1e6 / moved.mbps,
        others_mbps: vec![moved.others_mbps],
        inputs: moved.inputs,
    });
}

/// A test, ready to be run.
pub(crate) struct Test {
    name: String,
    mover: Mover,
    case: Case,
    /// The losses, as a recording.
    losses: String,
    /// The advisor's answers at each next advice time, after the start of the transfer on its clock.
    inputs: Vec<Input>,
    story: Story,
    day: Day,
    settings: Settings,
}

impl Test {
    /// All that the outcome depends on: also the program, if it simulates, or else the kernel.
    fn asked(&self) -> Value {
        let on = match self.mover {
            Mover::Lab(_) => fairwind_kernel::release(),
            Mover::Simulator => program().to_owned(),
        };
        json!({
            "losses": self.losses, "inputs": following::text(&self.inputs), "file": self.story.file_bytes,
            "rate": RATE, "buffer": buffer_bytes(self.case.others), "others": BUFFER_OF_OTHERS,
            "start": START_S, "on": on,
        })
    }
}

/// Ends a run when the file has arrived or a signal has come.
struct UntilArrived<'a> {
    task: &'a Task<'a>,
    site: &'a Site,
    way: Way,
}

impl Progress for UntilArrived<'_> {
    fn run(&self, _: u64, _: f64) -> bool {
        self.task.host.go_on().is_ok() && !self.site.has_arrived(self.way)
    }
}

/// The tests for these transfers of the whole size: those of the thesis with rounded losses and all history. Where
/// there are others, they are alone first.
fn scaled(cases: impl Iterator<Item = Case>) -> Vec<Case> {
    let order = |way: Way| Way::ALL.iter().position(|other| *other == way);
    let is_scaled = |case: &Case| {
        (case.losses, case.history) == (Losses::Rounded, HISTORY_SETS[0])
            && case.way != Way::Background
    };
    let mut scaled: Vec<Case> = cases.filter(is_scaled).collect();
    for others in 1..=2 {
        if scaled.iter().any(|case| case.others == others) {
            scaled.push(Case {
                way: Way::Nobody,
                ..Case::at(others, 0, 0, Losses::Rounded)
            });
        }
    }
    scaled.sort_by_key(|case| (case.others, case.level, case.time, order(case.way)));
    // Several servers make the same transfer.
    scaled.dedup();
    scaled
}

fn buffer_bytes(others: usize) -> u64 {
    match others {
        0 => BUFFER_ALONE,
        _ => BUFFER_BESIDE,
    }
}

/// The longest duration of a run, seconds.
fn longest_s(case: Case, file_bytes: u64) -> f64 {
    let least_mbps = match (case.way, case.others, case.level) {
        (Way::Nobody, ..) => return START_S + ALONE_S,
        (_, 0, 0) => 25.0,
        (_, 0, 1) => 14.0,
        _ => 7.0,
    };
    START_S + 1.0 + file_bytes as f64 * 8.0 / 1e6 / least_mbps
}

fn name(mover: Mover, case: Case) -> String {
    let mover = mover.word();
    let (used, way) = (LEVELS[case.level], case.way);
    let (time, others) = (case.time, case.others);
    format!("{mover}-{used}-{time}-beside-{others}-{}", way.folder())
}

/// The inputs, `seconds` later.
fn after(inputs: &[Input], seconds: f64) -> Vec<Input> {
    let later = |input: &Input| Input {
        after: input.after + Duration::from_secs_f64(seconds),
        ..*input
    };
    inputs.iter().map(later).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;
    use crate::dccs::case::served;

    #[test]
    fn every_test_of_the_thesis_is_there_once() {
        let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let plan = Plan::read(&experiments, "dccs").unwrap();
        let transfers: Vec<_> = plan.runs.iter().map(served).collect();
        let cases = scaled(transfers.iter().map(|(_, case)| *case));
        let tests = |mover: Mover| {
            let cases = cases.iter().filter(|case| mover.has(**case, &transfers));
            cases.map(|case| name(mover, *case)).collect::<Vec<_>>()
        };
        let all = Mover::ALL.map(tests);
        // 3 levels and 2 numbers of others, at 5 times of day in 3 ways; and each number of others alone.
        let counts = all.each_ref().map(Vec::len);
        assert_eq!(counts, [5 * 5 * 3 + 2, 5 * 5 * 3 + 2, 5 * 5 * 3]);
        let mut names = all.concat();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 3 * 75 + 4);
    }

    #[test]
    fn the_day_passes_as_much_faster_as_the_file_is_smaller() {
        assert!((FILE_BYTES as f64 * RATE / 16.384e9 - 1.0).abs() < 1e-6);
    }
}
