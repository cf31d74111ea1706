//! The table of a demonstration's results.

use super::lab::Arrival;
use super::stage::Outcomes;
use super::story::Way;
use crate::table::Table;

/// A row for each way that moves the file: throughput in Mbit/s, how long it took in seconds, what the others lost
/// meanwhile in percent and in the whole run in MB, retransmitted segments, changes of the congestion control, and
/// what became of the file. `number` writes a number with so many decimal places.
pub fn rows(
    outcomes: &Outcomes,
    number: fn(Option<f64>, usize) -> String,
) -> [Vec<String>; Way::TRANSFERS.len()] {
    Way::TRANSFERS.map(|way| {
        let outcome = outcomes.of(way);
        let transfer = outcome.measured.transfer.as_ref();
        let whole = transfer.filter(|transfer| transfer.bytes >= outcomes.story.file_bytes);
        let file = match outcome.file {
            Some(Arrival::Identical) => "identical",
            Some(Arrival::Differs) => "DIFFERS",
            Some(Arrival::Missing) => "none arrived",
            None => "simulated",
        };
        vec![
            way.words().to_owned(),
            number(transfer.map(|transfer| transfer.throughput_mbps()), 1),
            number(whole.map(|transfer| transfer.took_s()), 1),
            number(outcomes.others_lost(way).map(|share| 100.0 * share), 1),
            number(outcomes.others_lost_bytes(way).map(|bytes| bytes / 1e6), 1),
            number(transfer.map(|transfer| transfer.retransmits as f64), 0),
            outcome.advised.control_changes().count().to_string(),
            file.to_owned(),
        ]
    })
}

/// The table that is printed at the end.
pub fn text(outcomes: &Outcomes) -> String {
    let mut table = Table::new(
        "transfer | >Mbit/s | >took s | >others lost % | >others lost MB | >retransmits | >changes | checksum",
    );
    let number = |value: Option<f64>, digits: usize| match value {
        Some(value) => format!("{value:.digits$}"),
        None => "-".to_owned(),
    };
    for row in rows(outcomes, number) {
        table.row(row);
    }
    table.render()
}
