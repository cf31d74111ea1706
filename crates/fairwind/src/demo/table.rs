//! The table printed at the end.

use super::lab::Arrival;
use super::stage::Outcomes;
use super::story::Way;
use crate::table::Table;

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

/// The table as text.
pub fn text(outcomes: &Outcomes) -> String {
    let mut table = Table::new()
        .words("transfer")
        .numbers("Mbit/s")
        .numbers("took s")
        .numbers("others lost %")
        .numbers("others lost MB")
        .numbers("sent again")
        .numbers("changes")
        .words("checksum");
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for row in rows(outcomes) {
        table.row([
            row.way.to_owned(),
            dash(row.mbps.map(|mbps| format!("{mbps:.1}"))),
            dash(row.took_s.map(|took| format!("{took:.1}"))),
            dash(row.others_lost_percent.map(|lost| format!("{lost:.1}"))),
            dash(row.others_lost_mb.map(|lost| format!("{lost:.1}"))),
            dash(row.retransmits.map(|number| number.to_string())),
            row.changes.to_string(),
            row.file.to_owned(),
        ]);
    }
    table.render()
}
