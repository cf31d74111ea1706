//! What the plan gives the study besides its runs: the words of its parameters, the phases of a run, and the groups
//! of its tables.

use serde::Deserialize;

use crate::Error;
use crate::span::Span;

use super::aims::Aim;
use super::cell::Cell;

/// `[data]` of the plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Suite {
    /// Seeds of every cell.
    pub seeds: Vec<u64>,
    /// Largest send and receive buffer of a connection, bytes.
    pub buffers: u64,
    /// Flows of a kind have round-trip times up to this share above that of the cell.
    pub spread: f64,
    /// Least share of the link that has to be spare for a share of it to say something.
    pub least_spare: f64,
    /// The phases of a run, for links from a bandwidth on; the last that applies does.
    pub phases: Vec<Phases>,
    /// How soon a background is to reclaim the link, for links from a bandwidth on; the last that applies does.
    pub reclaim: Vec<Reclaim>,
    /// The queues.
    pub queue: Vec<Queue>,
    /// The foregrounds.
    pub foreground: Vec<Foreground>,
    /// The round-trip times of the background.
    pub trip: Vec<Trip>,
    /// What is uneven about a path.
    pub noise: Vec<Noise>,
    /// Contenders that are not a control with its own parameters.
    #[serde(default)]
    pub contender: Vec<Contender>,
    /// The contenders of whom it is said what they reach of the aims.
    pub ours: Vec<String>,
    /// The groups of cells that tables are about.
    pub group: Vec<Group>,
}

/// The phases of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Phases {
    /// Least bandwidth of their links, Mbit/s.
    pub from_mbps: u64,
    /// The background alone; its flows start one after another in the first `joining` of it.
    pub alone: Span,
    /// The same, of cells without a foreground.
    pub without_foreground: Span,
    /// Share of the phase in which the background's flows start.
    pub joining: f64,
    /// Share of the phase after which the background alone is measured.
    pub settled: f64,
    /// The foreground beside the background.
    pub foreground: Span,
    /// The background alone again, after a foreground of long flows.
    pub tail: Span,
    /// Time between two samples.
    pub sample: Span,
}

/// How soon a background is to reclaim the link.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reclaim {
    /// Least bandwidth of these links, Mbit/s.
    pub from_mbps: u64,
    /// From the foreground's leaving on.
    pub within: Span,
}

/// A queue of the bottleneck.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Queue {
    pub name: String,
    /// Length in bandwidth-delay products of the foreground.
    pub bdp: f64,
    /// Least length, packets.
    pub least: u64,
    /// Further fields of the link; `LENGTH`, `LENGTH/2`, … are the length in packets and parts of it.
    #[serde(default)]
    pub fields: String,
    /// The same fields where the oracle's scheduler takes their place.
    pub oracle: Option<String>,
}

/// A foreground.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Foreground {
    pub name: String,
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// What a foreground sends.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Traffic {
    /// Nothing.
    None,
    /// Flows that send all the time.
    Long { flows: u32, control: String },
    /// Flows that send and pause by turns, for exponentially distributed times of this mean.
    OnOff {
        flows: u32,
        control: String,
        mean: Span,
    },
    /// Sessions that fetch objects and think; as many as load the link by this share where nothing is in their way.
    Web {
        control: String,
        load: f64,
        object_bytes: u64,
        shape: f64,
        think_s: f64,
    },
    /// Segments of a video, each over a connection of its own, at even times: as large as loads the link by this
    /// share. A segment that has not arrived when the next one is due has missed its deadline.
    Video {
        control: String,
        load: f64,
        segment: Span,
    },
}

/// The round-trip times of the background: its flows are spread evenly, in ratios, from the least to the most.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Trip {
    pub name: String,
    /// Least round-trip time, as a multiple of the foreground's.
    pub least: f64,
    /// Greatest round-trip time, as a multiple of the foreground's.
    pub most: f64,
}

/// What is uneven about a path, and what is aimed for there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Noise {
    pub name: String,
    /// Further fields of the bottleneck.
    #[serde(default)]
    pub fields: String,
    /// Further fields of its other direction, in a table's form.
    #[serde(default)]
    pub reverse: String,
    /// Whether a Cubic flow sends the other way, through a bottleneck of the same bandwidth and queue.
    #[serde(default)]
    pub upload: bool,
    /// The round-trip time in the second third of the run, as a multiple of that before and after; more than 0.5.
    pub step: Option<f64>,
    /// Least share of the link alone that is aimed for.
    pub alone: Option<f64>,
    /// Least share that the foreground is to keep.
    pub kept: Option<f64>,
    /// Greatest time after a step until the link is in use again, seconds.
    pub back_s: Option<f64>,
}

/// A contender that is not a control with its own parameters.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Contender {
    pub name: String,
    /// Its flows come from one host, and not from a host each.
    #[serde(default)]
    pub one_host: bool,
    #[serde(flatten)]
    pub sends: Sends,
}

/// How a contender sends.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Sends {
    /// Datagrams at a constant rate, this share of the link.
    Constant { share: f64 },
    /// A control with these parameters, as in an experiment file.
    Control {
        control: String,
        #[serde(default)]
        parameters: String,
    },
    /// As another contender does.
    Like { like: String },
}

/// Cells that a table is about.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    /// The part of the page.
    pub name: String,
    pub title: String,
    /// What the table shows.
    pub kind: Kind,
    /// Conditions on the parameters, as of `--only`.
    pub only: Vec<String>,
    /// Least bandwidth-delay product, packets.
    #[serde(default)]
    pub least_bdp: f64,
    /// What is aimed for.
    #[serde(default)]
    pub aim: Vec<Aim>,
}

/// What a table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// The foreground's goodput, and the use of what is spare.
    Kept,
    /// Completion times of objects.
    Web,
    /// Segments that missed their deadlines.
    Video,
    /// The background without a foreground.
    Alone,
    /// Times to yield and to reclaim.
    Times,
    /// Cells that run in both engines: what each of them says.
    Engines,
    /// Cells of uneven paths, by what is uneven: shares of the link, and what is aimed for.
    Noise,
}

/// What has this name, or who the plan's author meant.
fn named<'a, T>(
    what: &str,
    all: &'a [T],
    name: impl Fn(&T) -> &str,
    wanted: &str,
) -> Result<&'a T, Error> {
    all.iter().find(|item| name(item) == wanted).ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(name).collect();
        Error::input(format!(
            "[data] has no {what} \"{wanted}\"\n  help: it has {}",
            known.join(", ")
        ))
    })
}

/// What applies to links of this bandwidth: the last of those that are for links from a bandwidth on.
fn of_bandwidth<'a, T>(
    what: &str,
    all: &'a [T],
    from_mbps: impl Fn(&T) -> u64,
    mbps: u64,
) -> Result<&'a T, Error> {
    let applies = all.iter().rfind(|item| from_mbps(item) <= mbps);
    applies.ok_or_else(|| Error::input(format!("[data] has no {what} for {mbps} Mbit/s")))
}

impl Suite {
    /// The queue of this name.
    pub(super) fn queue(&self, name: &str) -> Result<&Queue, Error> {
        named("queue", &self.queue, |queue| &queue.name, name)
    }

    /// The foreground of this name.
    pub(super) fn foreground(&self, name: &str) -> Result<&Foreground, Error> {
        named(
            "foreground",
            &self.foreground,
            |foreground| &foreground.name,
            name,
        )
    }

    /// The round-trip times of this name.
    pub(super) fn trip(&self, name: &str) -> Result<&Trip, Error> {
        named("trip", &self.trip, |trip| &trip.name, name)
    }

    /// What is uneven, by its name.
    pub(super) fn noise(&self, name: &str) -> Result<&Noise, Error> {
        named("noise", &self.noise, |noise| &noise.name, name)
    }

    /// The contender of this name, if it is not just a control.
    pub(super) fn contender(&self, name: &str) -> Option<&Contender> {
        self.contender
            .iter()
            .find(|contender| contender.name == name)
    }

    /// How the contender of this name sends, if it is not just a control.
    pub(super) fn sends(&self, name: &str) -> Option<&Sends> {
        match &self.contender(name)?.sends {
            Sends::Like { like } => self.sends(like),
            sends => Some(sends),
        }
    }

    /// The congestion control of a cell's background; of datagrams that is no control's name.
    pub(super) fn control_of<'a>(&'a self, cell: &'a Cell<'_>) -> &'a str {
        match self.sends(&cell.control) {
            Some(Sends::Control { control, .. }) => control,
            _ => &cell.control,
        }
    }

    /// Time in which a background is to reclaim a link of this bandwidth and round-trip time, seconds.
    ///
    /// # Errors
    /// If there is none for this bandwidth.
    pub(super) fn reclaim_s(&self, mbps: u64, rtt: f64) -> Result<f64, Error> {
        let aim = of_bandwidth("reclaim", &self.reclaim, |aim| aim.from_mbps, mbps)?;
        Ok(aim.within.length(rtt))
    }

    /// The phases of links of this bandwidth.
    pub(super) fn phases(&self, mbps: u64) -> Result<&Phases, Error> {
        of_bandwidth("phases", &self.phases, |phases| phases.from_mbps, mbps)
    }
}
