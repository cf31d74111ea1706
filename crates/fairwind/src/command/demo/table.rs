//! The table printed at the end.

use fairwind_study::demo::stage::Outcomes;
use fairwind_study::demo::table::rows;

use crate::table::Table;

/// The table as text.
pub(crate) fn text(outcomes: &Outcomes) -> String {
    let mut table = Table::new(
        "transfer | >Mbit/s | >took s | >others lost % | >others lost MB | \
             >retransmits | >changes | checksum",
    );
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
