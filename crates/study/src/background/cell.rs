//! The cells of the plan.

use fairwind_lab::host::Offload;

use crate::Error;
use crate::plan::Run;

use super::suite::{Foreground, Noise, Queue, Suite, Traffic, Trip};

/// A path, a foreground on it, and a contender in the background.
#[derive(Clone, Debug)]
pub(super) struct Cell<'a> {
    /// Its parameters.
    pub run: Run,
    /// The contender's name.
    pub control: String,
    pub mbps: u64,
    pub rtt_ms: u64,
    pub queue: &'a Queue,
    pub foreground: &'a Foreground,
    /// Flows in the background.
    pub background: u32,
    /// Random loss, as in an experiment file.
    pub loss: String,
    pub trip: &'a Trip,
    /// What is uneven about the path.
    pub noise: &'a Noise,
    /// Time in which the background is to reclaim the link, seconds.
    pub reclaim_s: f64,
    /// What the hosts of the lab leave to their devices.
    pub offload: Offload,
    /// Whether the lab runs it, too.
    pub in_both: bool,
}

/// The cells of these runs.
///
/// # Errors
/// If a parameter is missing, or has a value that `[data]` lacks.
pub(super) fn of_runs<'a>(runs: &[Run], suite: &'a Suite) -> Result<Vec<Cell<'a>>, Error> {
    runs.iter().map(|run| Cell::of(run, suite)).collect()
}

impl<'a> Cell<'a> {
    /// The cell of a run.
    ///
    /// # Errors
    /// If a parameter is missing, or has a value that `[data]` lacks.
    pub(super) fn of(run: &Run, suite: &'a Suite) -> Result<Cell<'a>, Error> {
        let text = |name| match run.get(name) {
            "" => Err(Error::input(format!("a [[run]] without `{name}`"))),
            value => Ok(value),
        };
        let whole = |name| -> Result<u64, Error> {
            Ok(text(name)?.parse().expect("the plan has checked it"))
        };
        let (mbps, rtt_ms) = (whole("bandwidth")?, whole("rtt")?);
        Ok(Cell {
            control: text("control")?.to_owned(),
            mbps,
            rtt_ms,
            queue: suite.queue(text("queue")?)?,
            foreground: suite.foreground(text("foreground")?)?,
            background: whole("background")? as u32,
            loss: text("loss")?.to_owned(),
            trip: suite.trip(text("trip")?)?,
            noise: suite.noise(text("noise")?)?,
            reclaim_s: suite.reclaim_s(mbps, rtt_ms as f64 / 1e3)?,
            offload: match text("offload")? {
                "none" => Offload::None,
                "both" => Offload::Both,
                _ => Offload::Send,
            },
            in_both: text("engine")? == "both",
            run: run.clone(),
        })
    }

    /// The name of its path and foreground, which solo and oracle have in common with it.
    pub(super) fn path(&self) -> String {
        let (mbps, rtt, queue) = (self.mbps, self.rtt_ms, &self.queue.name);
        let mut name = format!("{mbps}mbit-{rtt}ms-{queue}-{}", self.foreground.name);
        if self.loss.trim_end_matches('%') != "0" {
            name.push_str(&format!("-{}loss", self.loss.trim_end_matches('%')));
        }
        if self.trip.name != "equal" {
            name.push_str(&format!("-{}", self.trip.name));
        }
        if self.has_noise() {
            name.push_str(&format!("-{}", self.noise.name));
        }
        if self.offload != Offload::Send {
            name.push_str(&format!("-offload-{}", self.run.get("offload")));
        }
        name
    }

    /// Its name without the contender.
    pub(super) fn name(&self) -> String {
        format!("{}-{}bg", self.path(), self.background)
    }

    /// The contender and the number of its flows.
    pub(super) fn contender(&self) -> String {
        format!("{}-{}bg", self.control, self.background)
    }

    /// Whether there is a foreground.
    pub(super) fn has_foreground(&self) -> bool {
        self.foreground.traffic != Traffic::None
    }

    /// Whether the path is uneven.
    pub(super) fn has_noise(&self) -> bool {
        self.noise.name != "none"
    }

    /// Bandwidth of the link, bit/s.
    pub(super) fn bandwidth(&self) -> f64 {
        self.mbps as f64 * 1e6
    }

    /// Bandwidth-delay product of the foreground, packets.
    pub(super) fn bdp(&self) -> f64 {
        self.bandwidth() * self.rtt_ms as f64 / 1e3 / 8.0 / 1500.0
    }

    /// Length of the queue, packets.
    pub(super) fn queue_length(&self) -> u64 {
        ((self.queue.bdp * self.bdp()).round() as u64).max(self.queue.least)
    }
}
