//! What the plan gives the study besides its runs.

use serde::Deserialize;

use crate::span::Span;

/// `[data]` of the plan.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Suite {
    /// Decides on all paths.
    pub seed: u64,
    /// Paths of a block: the first has paths 1 to this.
    pub paths_of_block: u32,
    /// Largest send and receive buffer of a connection, bytes.
    pub buffers: u64,
    /// Least share of the link that has to be spare for a share of it to say something.
    pub least_spare: f64,
    /// Share of what is spare below which a control fails.
    pub failed_below: f64,
    /// Time at the minimum that is borne while more than `unused` of the link is, seconds.
    pub minimum_at_most: f64,
    pub unused: f64,
    /// Time that is borne of sending `above` times what the link carries.
    pub above_at_most: Span,
    pub above: f64,
    /// Lengths of runs, for links from a bandwidth on; the last that applies does.
    pub length: Vec<Length>,
}

/// Length of a run.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Length {
    /// Least bandwidth of its links, Mbit/s.
    pub from_mbps: f64,
    #[serde(flatten)]
    pub span: Span,
}

impl Suite {
    /// Length of a run, seconds.
    pub(super) fn length(&self, mbps: f64, rtt: f64) -> f64 {
        let apply = self.length.iter().rfind(|length| length.from_mbps <= mbps);
        apply.map_or(10.0, |length| length.span.length(rtt))
    }
}
