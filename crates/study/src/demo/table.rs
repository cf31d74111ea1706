//! The table of a demonstration's results.

use serde::{Deserialize, Serialize};

use super::lab::Arrival;
use super::stage::{Outcome, Outcomes};
use crate::table::Table;

/// A file that arrived as it was sent.
pub(super) const IDENTICAL: &str = "identical";
/// A transfer that has found by then what is spare goes on as it is, seconds.
pub const FINDING_S: f64 = 10.0;
/// No file: the simulator's transfers have none.
pub(super) const SIMULATED: &str = "simulated";

/// What became of the file and of the others, one way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// How the file was moved.
    pub way: String,
    /// The transfer's throughput, Mbit/s; none if it never began.
    pub mbps: Option<f64>,
    /// The same as a share of what the path has to spare, percent: of its payload less what the others receive
    /// alone.
    pub spare_percent: Option<f64>,
    /// That share without the first [`FINDING_S`] seconds.
    pub later_spare_percent: Option<f64>,
    /// How long it took, seconds; none if it did not end.
    pub took_s: Option<f64>,
    /// What the others lost while it ran, of what they receive alone, percent.
    pub others_lost_percent: Option<f64>,
    /// What they lost in the whole run, MB.
    pub others_lost_mb: Option<f64>,
    /// Retransmitted segments.
    pub retransmits: Option<u64>,
    /// Changes of the congestion control.
    pub changes: usize,
    /// Whether the file that arrived is the one that was sent.
    pub file: String,
}

impl Row {
    /// A row for each way that moves the file.
    pub fn all(outcomes: &Outcomes) -> Vec<Row> {
        let row = |outcome: &Outcome| {
            let way = outcome.way;
            let transfer = outcome.measured.transfer.as_ref();
            let whole = transfer.filter(|transfer| transfer.bytes >= outcomes.story.file_bytes);
            let file = match outcome.file {
                Some(Arrival::Identical) => IDENTICAL,
                Some(Arrival::Differs) => "DIFFERS",
                Some(Arrival::Missing) if outcome.is_under_way() => "under way",
                Some(Arrival::Missing) => "none arrived",
                None => SIMULATED,
            };
            Row {
                way: way.words().to_owned(),
                mbps: transfer.map(|transfer| transfer.throughput_mbps()),
                spare_percent: outcomes.share_of_spare(way, 0.0).map(|share| 100.0 * share),
                later_spare_percent: outcomes
                    .share_of_spare(way, FINDING_S)
                    .map(|share| 100.0 * share),
                took_s: whole.map(|transfer| transfer.took_s()),
                others_lost_percent: outcomes.others_lost(way).map(|share| 100.0 * share),
                others_lost_mb: outcomes.others_lost_bytes(way).map(|bytes| bytes / 1e6),
                retransmits: transfer.map(|transfer| transfer.retransmits),
                changes: outcome.advised.control_changes().count(),
                file: file.to_owned(),
            }
        };
        outcomes.transfers().map(row).collect()
    }

    /// Its cells, in the order of the fields, without [`later_spare_percent`](Row::later_spare_percent). `number` writes a number with so many decimal places.
    pub fn cells(&self, number: fn(Option<f64>, usize) -> String) -> Vec<String> {
        vec![
            self.way.clone(),
            number(self.mbps, 1),
            number(self.spare_percent, 0),
            number(self.took_s, 1),
            number(self.others_lost_percent, 1),
            number(self.others_lost_mb, 1),
            number(self.retransmits.map(|segments| segments as f64), 0),
            self.changes.to_string(),
            self.file.clone(),
        ]
    }
}

/// The table that is printed at the end.
pub fn text(outcomes: &Outcomes) -> String {
    let mut table = Table::new(
        "transfer | >Mbit/s | >of spare % | >took s | >others lost % | >others lost MB | >retransmits | >changes | checksum",
    );
    for row in Row::all(outcomes) {
        table.row(row.cells(plain));
    }
    table.render()
}

/// A number as text; a dash if there is none.
pub(super) fn plain(value: Option<f64>, digits: usize) -> String {
    match value {
        Some(value) => {
            let text = format!("{value:.digits$}");
            // Nothing has no sign.
            match text.trim_start_matches(['-', '0', '.']).is_empty() {
                true => format!("{:.digits$}", 0.0),
                false => text,
            }
        }
        None => "-".to_owned(),
    }
}
