//! Figures 4 to 10 of drsFTP in the lab: the tables and figures of
//! `docs/measurements/right-sizing.md`.
//!
//! Engelhart, Gardner, Feng, "Re-Architecting Flow-Control Adaptation for Grid Environments" (IPDPS 2004).
//! Every transfer is a `fairwind lab exec` of its own, and is kept.

mod bench;
mod report;
mod tables;

use serde::Deserialize;

use crate::plan::{Parameter, Run, Values};
use crate::{Error, Made, Study, Task};

use bench::Bench;

pub(crate) const STUDY: Study = Study::new(PARAMETERS, carry_out);

/// What a run of its plan has.
const PARAMETERS: &[Parameter] = &[
    Parameter::new("path", Values::Words(&["95", "1000"])),
    Parameter::new(
        "transfer",
        Values::Words(&["client-server", "third-party", "over time"]),
    ),
    Parameter::new(
        "kind",
        Values::Words(&["stock", "tuned", "16MB", "auto", "drs"]),
    ),
    Parameter::new("size", Values::Whole(1, 65_536)),
    Parameter::new("protection", Values::Words(&["none", "tls"])),
];

/// The plan's `[data]`, which says what it is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    path: Vec<Line>,
    kind: Vec<Kind>,
}

/// A path.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    word: String,
    name: String,
    bandwidth: String,
    product: u64,
    queue: String,
    goal: u32,
}

/// A kind of buffer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    word: String,
    name: String,
    colour: usize,
    options: Vec<String>,
}

impl Kind {
    /// What `fairwind serve` and `get` are given for it.
    fn options(&self, line: &Line) -> Vec<String> {
        let product = line.product.to_string();
        let options = self.options.iter();
        options
            .map(|option| option.replace("$product", &product))
            .collect()
    }
}

/// The kinds that are compared with others.
const STOCK: &str = "stock";
const TUNED: &str = "tuned";
const AUTO: &str = "auto";
const DRS: &str = "drs";

/// A run of the plan.
#[derive(Clone, Copy, Debug)]
struct Cell<'a> {
    line: &'a Line,
    /// Whether two servers move the file, directed by `fairwind copy`, and not `fairwind get` from a server.
    third_party: bool,
    /// Whether its buffer is looked at over time.
    over_time: bool,
    /// Whether TLS protects control and data connections.
    protected: bool,
    kind: &'a Kind,
    /// Size of the file, MB of 2^20 bytes.
    size: u64,
}

impl<'a> Cell<'a> {
    /// What the plan does not say is the first of its kind; none if it has no data of the path or the kind.
    fn of(data: &'a Data, run: &Run) -> Option<Cell<'a>> {
        let line = data.path.iter().find(|line| line.word == run.get("path"));
        let kind = data.kind.iter().find(|kind| kind.word == run.get("kind"));
        Some(Cell {
            line: line.or(data.path.first())?,
            third_party: run.get("transfer") == "third-party",
            over_time: run.get("transfer") == "over time",
            protected: run.get("protection") == "tls",
            kind: kind.or(data.kind.first())?,
            size: run.get("size").parse().unwrap_or(1),
        })
    }
}

/// Makes the transfers that are not kept, and of all the tables and figures.
///
/// # Errors
/// If a transfer fails.
fn carry_out(task: &Task<'_>) -> Result<Made, Error> {
    let data: Data = task.plan.data()?;
    let cells = cells(&data, &task.runs)?;
    let bench = Bench::new(task);
    bench.long_ones(&cells)?;
    let mut done = Vec::new();
    for line in &data.path {
        let mut of_line = cells.clone();
        of_line.retain(|cell| cell.line.word == line.word);
        if !of_line.is_empty() {
            done.push(bench.measure(line, &of_line)?);
        }
    }
    Ok(tables::all(task, &data.kind, &done))
}

fn cells<'a>(data: &'a Data, runs: &[Run]) -> Result<Vec<Cell<'a>>, Error> {
    let cells: Option<Vec<Cell>> = runs.iter().map(|run| Cell::of(data, run)).collect();
    cells.ok_or_else(|| Error::input("the plan's data has no path or no kind"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Plan;

    fn plan() -> Plan {
        let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        Plan::read(&experiments, "drsftp").unwrap()
    }

    #[test]
    fn the_plan_has_every_transfer_of_the_figures() {
        let plan = plan();
        let data: Data = plan.data().unwrap();
        let cells = cells(&data, &plan.runs).unwrap();
        // Eleven sizes over two paths: five kinds, three between servers, two under TLS, and DRS with 128 MB over time.
        assert_eq!(cells.len(), 2 * (11 * 5 + 11 * 3 + 11 * 2 + 1));
        assert_eq!(
            cells.iter().filter(|cell| cell.protected).count(),
            2 * 11 * 2
        );
        assert_eq!(cells.iter().filter(|cell| cell.over_time).count(), 2);
        assert!(
            cells
                .iter()
                .all(|cell| !cell.over_time || (cell.kind.word.as_str(), cell.size) == (DRS, 128))
        );
    }

    #[test]
    fn a_queue_holds_the_bandwidth_delay_product() {
        let data: Data = plan().data().unwrap();
        for line in &data.path {
            let packets: u64 = line.queue.trim_end_matches("pkt").parse().unwrap();
            assert_eq!(packets, line.product.div_ceil(1_500), "{}", line.name);
        }
    }
}
