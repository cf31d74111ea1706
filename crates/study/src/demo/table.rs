//! The table of a demonstration's results.

use super::lab::Arrival;
use super::stage::Outcomes;
use super::story::Way;

/// A row of the table.
pub struct Row {
    /// The way.
    pub way: &'static str,
    /// Throughput of the transfer, Mbit/s.
    pub mbps: Option<f64>,
    /// How long it took, seconds.
    pub took_s: Option<f64>,
    /// Share of their throughput that the others lost meanwhile, %.
    pub others_lost_percent: Option<f64>,
    /// Payload that the others lost in the whole run, MB.
    pub others_lost_mb: Option<f64>,
    /// Retransmitted segments.
    pub retransmits: Option<u64>,
    /// Changes of the congestion control.
    pub changes: usize,
    /// What became of the file.
    pub file: &'static str,
}

/// A row for each way that moves the file.
pub fn rows(outcomes: &Outcomes) -> Vec<Row> {
    let row = |way: Way| {
        let outcome = outcomes.of(way);
        let transfer = outcome.measured.transfer.as_ref();
        Row {
            way: way.words(),
            mbps: transfer.map(|transfer| transfer.throughput_mbps()),
            took_s: transfer
                .filter(|transfer| transfer.bytes >= outcomes.story.file_bytes)
                .map(|transfer| transfer.took_s()),
            others_lost_percent: outcomes.others_lost(way).map(|share| 100.0 * share),
            others_lost_mb: outcomes.others_lost_bytes(way).map(|bytes| bytes / 1e6),
            retransmits: transfer.map(|transfer| transfer.retransmits),
            changes: outcome.advised.control_changes().count(),
            file: match outcome.file {
                Some(Arrival::Identical) => "identical",
                Some(Arrival::Differs) => "DIFFERS",
                Some(Arrival::Missing) => "none arrived",
                None => "simulated",
            },
        }
    };
    Way::TRANSFERS.into_iter().map(row).collect()
}
