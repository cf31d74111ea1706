//! Figures 4 to 7, 9 and 10 of drsFTP in the lab: the tables and figures of
//! `docs/measurements/right-sizing.md`.
//!
//! Engelhart, Gardner, Feng, "Re-Architecting Flow-Control Adaptation for Grid Environments" (IPDPS 2004).
//! Every transfer is a `fairwind lab exec` of its own, and is kept.

mod bench;
mod report;
mod tables;

use crate::plan::{Parameter, Run, Values};
use crate::{Error, Made, Task};

use bench::Bench;

/// What a run of its plan has.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "path",
        values: Values::Words(&["95", "1000"]),
    },
    Parameter {
        name: "transfer",
        values: Values::Words(&["client-server", "third-party", "over time"]),
    },
    Parameter {
        name: "kind",
        values: Values::Words(&["stock", "tuned", "16MB", "auto", "drs"]),
    },
    Parameter {
        name: "size",
        values: Values::Whole(1, 65_536),
    },
];

/// A path: a round-trip time of 100 ms, and a queue of one bandwidth-delay product.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    /// Its word in plans and in the names of parts and figures.
    word: &'static str,
    /// Its name in tables.
    name: &'static str,
    bandwidth: &'static str,
    /// The bandwidth-delay product, bytes.
    product: u64,
    /// The same in packets of 1,500 bytes.
    queue: &'static str,
    /// By which factor DRS is to be faster than 64 KiB.
    goal: u32,
}

static LINES: [Line; 2] = [
    Line {
        word: "95",
        name: "95 Mbit/s",
        bandwidth: "95Mbit/s",
        product: 1_187_500,
        queue: "792pkt",
        goal: 5,
    },
    Line {
        word: "1000",
        name: "1 Gbit/s",
        bandwidth: "1Gbit/s",
        product: 12_500_000,
        queue: "8334pkt",
        goal: 10,
    },
];

/// A kind of buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// 64 KiB.
    Stock,
    /// The bandwidth-delay product.
    Tuned,
    /// 16 MiB.
    Large,
    /// As the kernel adapts it.
    Auto,
    /// Right-sizing.
    Drs,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Stock, Kind::Tuned, Kind::Large, Kind::Auto, Kind::Drs];

    /// Its word in plans.
    fn word(self) -> &'static str {
        match self {
            Kind::Stock => "stock",
            Kind::Tuned => "tuned",
            Kind::Large => "16MB",
            Kind::Auto => "auto",
            Kind::Drs => "drs",
        }
    }

    /// Its name in tables.
    fn name(self) -> &'static str {
        match self {
            Kind::Stock => "64 KiB",
            Kind::Tuned => "tuned to the product",
            Kind::Large => "16 MB",
            Kind::Auto => "kernel autotuning",
            Kind::Drs => "DRS",
        }
    }

    /// Index of its colour in figures.
    fn colour(self) -> usize {
        match self {
            Kind::Stock => 6,
            Kind::Tuned => 2,
            Kind::Large => 4,
            Kind::Auto => 0,
            Kind::Drs => 1,
        }
    }

    /// What `fairwind serve` and `get` are given for it.
    fn options(self, line: &Line) -> Vec<String> {
        let buffer = |size: &str| vec!["--buffer".to_owned(), size.to_owned()];
        match self {
            Kind::Stock => buffer("64KiB"),
            Kind::Tuned => buffer(&line.product.to_string()),
            Kind::Large => buffer("16MiB"),
            Kind::Auto => vec!["--no-drs".to_owned()],
            Kind::Drs => Vec::new(),
        }
    }
}

/// Who moves the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Between {
    /// `fairwind get`, from a server.
    ClientAndServer,
    /// Two servers, directed by `fairwind copy`.
    Servers,
}

/// A run of the plan.
#[derive(Clone, Copy, Debug)]
struct Cell {
    line: &'static Line,
    between: Between,
    /// Whether its buffer is looked at over time.
    over_time: bool,
    kind: Kind,
    /// Size of the file, MB of 2^20 bytes.
    size: u64,
}

impl Cell {
    /// What the plan does not say is the first of its kind.
    fn of(run: &Run) -> Cell {
        let line = LINES.iter().find(|line| line.word == run.get("path"));
        let kinds = Kind::ALL.into_iter();
        let kind = kinds.clone().find(|kind| kind.word() == run.get("kind"));
        Cell {
            line: line.unwrap_or(&LINES[0]),
            between: match run.get("transfer") {
                "third-party" => Between::Servers,
                _ => Between::ClientAndServer,
            },
            over_time: run.get("transfer") == "over time",
            kind: kind.unwrap_or(Kind::Stock),
            size: run.get("size").parse().unwrap_or(1),
        }
    }
}

/// Makes the transfers that are not kept, and of all the tables and figures.
///
/// # Errors
/// If a transfer fails.
pub fn carry_out(task: &Task<'_>) -> Result<Made, Error> {
    let cells: Vec<Cell> = task.runs.iter().map(Cell::of).collect();
    let bench = Bench::new(task);
    bench.long_ones(&cells)?;
    let mut done = Vec::new();
    for line in &LINES {
        let of_line: Vec<Cell> = cells
            .iter()
            .filter(|cell| cell.line == line)
            .copied()
            .collect();
        if !of_line.is_empty() {
            done.push(bench.measure(line, &of_line)?);
        }
    }
    Ok(tables::all(task, &done))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Plan;

    #[test]
    fn the_plan_has_every_transfer_of_the_figures() {
        let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        let plan = Plan::read(&experiments, "drsftp").unwrap();
        let cells: Vec<Cell> = plan.runs.iter().map(Cell::of).collect();
        // Eleven sizes over two paths: five kinds, three between servers, and DRS with 128 MB over time.
        assert_eq!(cells.len(), 2 * (11 * 5 + 11 * 3 + 1));
        assert_eq!(cells.iter().filter(|cell| cell.over_time).count(), 2);
        assert!(
            cells
                .iter()
                .all(|cell| !cell.over_time || (cell.kind, cell.size) == (Kind::Drs, 128))
        );
    }

    #[test]
    fn a_queue_holds_the_bandwidth_delay_product() {
        for line in &LINES {
            let packets: u64 = line.queue.trim_end_matches("pkt").parse().unwrap();
            assert_eq!(packets, line.product.div_ceil(1_500), "{}", line.name);
        }
    }
}
