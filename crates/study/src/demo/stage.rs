//! Runs every way, one after the other, and collects the results.

use std::fs;
use std::path::{Path, PathBuf};

use fairwind_experiment::engine::lab::Lab;
use fairwind_experiment::engine::sim::Sim;
use fairwind_experiment::{Completed, Engine, ExecuteOptions, Progress, execute};
use fairwind_scenario::Experiment;

use super::advised::{self, Advised};
use super::day::Day;
use super::lab::{Arrival, Site, has_curl};
use super::measure::Measured;
use super::network::{self, Means, TRAFFIC_FILE};
use super::story::{PAYLOAD_SHARE, Story, Way};
use crate::Error;

/// The result of a way.
#[derive(Debug)]
pub struct Outcome {
    /// The way.
    pub way: Way,
    /// Its measurements.
    pub measured: Measured,
    /// The advisor's answers, and what was changed.
    pub advised: Advised,
    /// What became of the file; none if no file is moved, or only in the simulator.
    pub file: Option<Arrival>,
    /// The experiment, as TOML.
    pub experiment: String,
}

impl Outcome {
    /// Whether the run ended before a transfer that may take its time: in the background none is promised.
    pub fn is_under_way(&self) -> bool {
        let may_wait = matches!(self.way, Way::Background | Way::Curl);
        may_wait && self.file == Some(Arrival::Missing) && self.measured.transfer.is_some()
    }
}

/// The results of a demonstration.
#[derive(Debug)]
pub struct Outcomes {
    /// The story.
    pub story: Story,
    /// Its day.
    pub day: Day,
    /// In the order of [`Way::ALL`].
    pub ways: Vec<Outcome>,
    /// `sim` or `lab`.
    pub engine: &'static str,
}

impl Outcomes {
    /// The result of this way.
    pub fn of(&self, way: Way) -> &Outcome {
        let found = self.ways.iter().find(|outcome| outcome.way == way);
        found.expect("the way is run")
    }

    /// The ways that move the file.
    pub fn transfers(&self) -> impl Iterator<Item = &Outcome> {
        let transfers = self.ways.iter();
        transfers.filter(|outcome| outcome.way != Way::Nobody)
    }

    /// The transfer's throughput as a share of what the path has to spare, from `after_s` seconds after its start
    /// to its end; none without a transfer by then.
    pub fn share_of_spare(&self, way: Way, after_s: f64) -> Option<f64> {
        let measured = &self.of(way).measured;
        let transfer = measured.transfer.as_ref()?;
        let from_s = transfer.start_s + after_s;
        let alone = &self.of(Way::Nobody).measured;
        let others = alone.others_bytes(from_s, transfer.end_s) * 8.0 / 1e6;
        let mbps = match after_s {
            0.0 => transfer.throughput_mbps(),
            _ => measured.mbps_after(from_s)?,
        };
        let payload = PAYLOAD_SHARE * self.story.route.capacity_mbps();
        let spare = payload - others / (transfer.end_s - from_s);
        (alone.complete && spare > 0.0).then(|| mbps / spare)
    }

    /// Share of their payload that the others lost while this way's transfer ran, compared with the run alone
    /// in the same time; none without a transfer, or if one of the runs ended early.
    pub fn others_lost(&self, way: Way) -> Option<f64> {
        let end_s = self.of(way).measured.transfer.as_ref()?.end_s;
        let start_s = self.story.route.start_s();
        let (alone, beside) = self.others_bytes(way, start_s, end_s)?;
        (alone > 0.0).then(|| 1.0 - beside / alone)
    }

    /// Payload that the others lost in the whole run compared with the run alone, bytes; none without a
    /// transfer, or if one of the runs ended early.
    pub fn others_lost_bytes(&self, way: Way) -> Option<f64> {
        self.of(way).measured.transfer.as_ref()?;
        let (alone, beside) = self.others_bytes(way, 0.0, self.story.length_s)?;
        Some(alone - beside)
    }

    /// Payload that the others received between two times, alone and beside this way; none if one of the runs
    /// ended early.
    fn others_bytes(&self, way: Way, from_s: f64, to_s: f64) -> Option<(f64, f64)> {
        let (alone, beside) = (&self.of(Way::Nobody).measured, &self.of(way).measured);
        let bytes = |measured: &Measured| measured.others_bytes(from_s, to_s);
        (alone.complete && beside.complete).then(|| (bytes(alone), bytes(beside)))
    }
}

/// Runs every way; results go to folders below `out`. With the command `fairwind`, its programs run on the running
/// kernel; without it, flows run in the simulator.
///
/// # Errors
/// [`Error::Stopped`] if `progress` stops a run; others if a run fails or a file cannot be written.
pub fn show(
    story: Story,
    fairwind: Option<PathBuf>,
    out: &Path,
    progress: &dyn Progress,
) -> Result<Outcomes, Error> {
    let day = Day::of(&story);
    let traffic = out.join(TRAFFIC_FILE);
    fs::write(&traffic, day.traffic_csv(&story)).map_err(Error::at(&traffic))?;
    let prepare = |fairwind| {
        let settings = story.settings();
        let buffer_bytes = story.route.buffer_bytes();
        Site::prepare(&story, &day, &settings, buffer_bytes, fairwind, out)
    };
    let site = fairwind.map(prepare).transpose()?;
    let outcome = |way| outcome(&story, &day, site.as_ref(), way, out, progress);
    // The simulator has no programs.
    let has_curl = site.is_some() && has_curl();
    let ways = Way::ALL
        .into_iter()
        .filter(|way| *way != Way::Curl || has_curl)
        .map(outcome)
        .collect::<Result<_, _>>()?;
    let engine = if site.is_some() { "lab" } else { "sim" };
    Ok(Outcomes {
        story,
        day,
        ways,
        engine,
    })
}

/// Runs a way between the sites of the lab, or in the simulator.
fn outcome(
    story: &Story,
    day: &Day,
    site: Option<&Site>,
    way: Way,
    out: &Path,
    progress: &dyn Progress,
) -> Result<Outcome, Error> {
    let foreseen = match (site, way) {
        (None, Way::Advised) => advised::foreseen(story, day),
        (None, Way::Background) => advised::promised(story, day),
        _ => Advised::default(),
    };
    let programs = site.map(|site| site.programs(way)).transpose()?;
    let lab = Lab::default();
    let (means, engine): (Means<'_>, &dyn Engine) = match &programs {
        Some(programs) => (Means::Programs(programs), &lab),
        None => (Means::Simulated(&foreseen), &Sim),
    };
    let text = network::experiment(story, way, &means);
    let measured = run(&text, story, way, engine, out, progress)?;
    let end_s = measured.transfer.as_ref().map(|transfer| transfer.end_s);
    let moving = site.filter(|_| way != Way::Nobody);
    Ok(Outcome {
        way,
        measured,
        advised: match site {
            Some(site) => advised::logged(&site.log(way), story.route.start_s()),
            None => end_s.map_or_else(Advised::default, |end_s| foreseen.until(end_s)),
        },
        file: moving.map(|site| site.arrival(way)).transpose()?,
        experiment: text,
    })
}

/// Runs an experiment once.
fn run(
    text: &str,
    story: &Story,
    way: Way,
    engine: &dyn Engine,
    out: &Path,
    progress: &dyn Progress,
) -> Result<Measured, Error> {
    let experiment = Experiment::parse(text, way.words(), out, &[])?;
    let folder: PathBuf = out.join(way.folder());
    let options = ExecuteOptions::new(&folder);
    let Completed { runs, .. } = execute(&experiment, engine, &options, progress)?;
    // In the lab a run that is stopped leaves a result.
    if !progress.run(runs[0].seed, 1.0) {
        return Err(Error::Stopped);
    }
    Measured::read(&folder, &runs[0], story.route.start_s()).map_err(Error::work)
}
