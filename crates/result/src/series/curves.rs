//! The curves of a run for reports and plots, gathered in one pass over the series.

mod flows;
mod links;

use std::path::Path;

use super::decimate::Point;
use crate::ResultError;
use crate::{FLOWS_FILE, LINKS_FILE, RunResult};

/// Most flows, and most links, for which there are curves.
pub const CURVES_AT_MOST: usize = 32;

/// The curves of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    /// Width of the intervals of [`FlowCurves::throughput`], seconds.
    pub interval_s: f64,
    /// Curves of the first [`CURVES_AT_MOST`] flows, in the order of the result.
    pub flows: Vec<FlowCurves>,
    /// Curves of the first [`CURVES_AT_MOST`] links, in the order of the result.
    pub links: Vec<LinkCurves>,
}

/// The curves of a flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowCurves {
    /// The flow's name.
    pub name: String,
    /// Number of connections. With several, or without a congestion control, there are no curves of
    /// window and round-trip time.
    pub connections: usize,
    /// Whether the samples account for what the flow delivered. If not (short connections that come
    /// and go between samples, datagrams), there are no curves of throughput and delivery.
    pub covered: bool,
    /// Payload delivered in each interval, Mbit/s, at the interval's end.
    pub throughput: Vec<Point>,
    /// Average rate of delivery since the flow's start, Mbit/s.
    pub average: Vec<Point>,
    /// Payload delivered since the flow's start, MB.
    pub delivered: Vec<Point>,
    /// Congestion window, kB.
    pub cwnd: Vec<Point>,
    /// Slow-start threshold, kB; begins with the first reduction.
    pub ssthresh: Vec<Point>,
    /// Smoothed round-trip time, ms.
    pub rtt: Vec<Point>,
    /// Retransmission timeout, ms.
    pub rto: Vec<Point>,
}

/// The curves of one direction of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkCurves {
    /// The link's name.
    pub name: String,
    /// Length of the queue, packets.
    pub queue: Vec<Point>,
    /// Where packets were dropped or lost.
    pub drops: Vec<Drops>,
    /// Greatest length of the queue, packets.
    pub queue_max: f64,
}

/// Packets dropped or lost in one column of the plot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drops {
    /// Time and length of the queue when it was longest in that column.
    pub at: Point,
    /// Number of packets.
    pub packets: u64,
}

impl Curves {
    /// Reads the series in the folder of `run`; `None` if there are none.
    pub fn read(folder: &Path, run: &RunResult) -> Result<Option<Curves>, ResultError> {
        let (flows_path, links_path) = (folder.join(FLOWS_FILE), folder.join(LINKS_FILE));
        if !flows_path.is_file() || !links_path.is_file() {
            return Ok(None);
        }
        let interval_s = throughput_interval(run.duration_s);
        let flow_results = &run.flows[..run.flows.len().min(CURVES_AT_MOST)];
        let link_results = &run.links[..run.links.len().min(CURVES_AT_MOST)];
        Ok(Some(Curves {
            interval_s,
            flows: flows::read(&flows_path, flow_results, run, interval_s)?,
            links: links::read(&links_path, link_results, run.duration_s)?,
        }))
    }

    /// Whether a link's queue is worth drawing by default: it lost packets, or was at some time at
    /// least a tenth as long as the longest.
    pub fn worth_drawing(&self, link: &LinkCurves) -> bool {
        let longest = self.links.iter().map(|l| l.queue_max).fold(0.0, f64::max);
        !link.drops.is_empty() || link.queue_max >= 0.1 * longest
    }
}

/// Width of the throughput intervals: one second, or a tenth for runs too short for seconds to show
/// anything.
fn throughput_interval(duration_s: f64) -> f64 {
    if duration_s >= 20.0 { 1.0 } else { 0.1 }
}

/// Columns per curve for this number of curves: the more curves, the coarser each is, so that a
/// report stays small.
fn columns(curves: usize) -> usize {
    (4000 / curves.max(1)).clamp(150, 1000)
}
