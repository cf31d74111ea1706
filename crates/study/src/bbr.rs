//! BBR alone and beside one Cubic: our version 3 in the simulator and in the lab, and the kernel's own version 1 in
//! the lab. The tables of `docs/measurements/bbr.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

use fairwind_experiment::engine::lab::Lab;
use fairwind_experiment::engine::sim::Sim;
use fairwind_lab::host::Offload;
use fairwind_result::RunResult;
use fairwind_result::record::NoRecorder;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cache::Policy;
use crate::draw::Draw;
use crate::experiments::{self, Configured};
use crate::plan::{Parameter, Run, Values};
use crate::statistics::mean;
use crate::table::Table;
use crate::{Error, Made, Study, Task, page, parallel};

const PARAMETERS: &[Parameter] = &[
    Parameter::new("beside", Values::Words(&["none", "cubic"])),
    Parameter::new("mbps", Values::Whole(1, 1000)),
    // Without queue.
    Parameter::new("rtt_ms", Values::Whole(1, 1000)),
];

/// Its runs are cells: who is beside, and on which path.
pub(crate) const STUDY: Study = Study::new(PARAMETERS, carry_out);

/// `[data]` of the plan.
#[derive(Clone, Debug, Deserialize)]
struct Data {
    /// Of the simulator. The lab has the first.
    seeds: Vec<u64>,
    duration_s: f64,
    warmup_s: f64,
    /// In bandwidth-delay products.
    queue_bdp: f64,
}

/// Which BBR, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    OursSim,
    OursLab,
    KernelsLab,
}

const VERSIONS: [Version; 3] = [Version::OursSim, Version::OursLab, Version::KernelsLab];

impl Version {
    /// Its folder, and its name in tables.
    fn words(self) -> [&'static str; 2] {
        match self {
            Version::OursSim => ["sim", "ours, simulator"],
            Version::OursLab => ["lab-ours", "ours, lab"],
            Version::KernelsLab => ["lab-kernel", "the kernel's, lab"],
        }
    }

    fn is_in_lab(self) -> bool {
        self != Version::OursSim
    }

    fn engine(self) -> &'static dyn Configured {
        const OURS: Lab = Lab {
            offload: Offload::Send,
            own_controls: true,
        };
        const KERNELS: Lab = Lab {
            own_controls: false,
            ..OURS
        };
        match self {
            Version::OursSim => &Sim,
            Version::OursLab => &OURS,
            Version::KernelsLab => &KERNELS,
        }
    }

    /// The congestion controls of BBR and of Cubic: in the lab, Cubic is always the kernel's.
    fn controls(self) -> [&'static str; 2] {
        match self {
            Version::OursSim => ["bbr", "cubic"],
            Version::OursLab => ["bbr", "kernel:cubic"],
            Version::KernelsLab => ["kernel:bbr", "kernel:cubic"],
        }
    }
}

/// A path, and who is beside BBR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    beside_cubic: bool,
    mbps: u64,
    rtt_ms: u64,
}

impl Cell {
    fn of(run: &Run) -> Cell {
        let number = |name: &str| run.get(name).parse().unwrap_or(1);
        Cell {
            beside_cubic: run.get("beside") == "cubic",
            mbps: number("mbps"),
            rtt_ms: number("rtt_ms"),
        }
    }

    fn name(&self) -> String {
        let who = match self.beside_cubic {
            true => "beside-cubic",
            false => "alone",
        };
        format!("{who}-{}mbit-{}ms", self.mbps, self.rtt_ms)
    }

    fn text(&self, data: &Data, version: Version, seed: u64, scale: f64) -> String {
        let bdp_pkts = self.mbps as f64 * 1e3 * self.rtt_ms as f64 / 8.0 / 1500.0;
        // Room for a window of twice the path and the queue, so that the network limits.
        let mut text = format!(
            "title = \"BBR, {}\"\nduration = \"{}s\"\nwarmup = \"{}s\"\nrecord = {{ series = false }}\n\
             tcp_rmem = [4096, 131072, 33554432]\ntcp_wmem = [4096, 16384, 33554432]\n\n\
             [[link]]\nname = \"bottleneck\"\nbetween = [\"server\", \"client\"]\n\
             bandwidth = \"{}Mbit/s\"\ndelay = \"{}ms\"\nqueue = \"{:.0}pkt\"\n\
             reverse = {{ bandwidth = \"unlimited\", queue = \"unlimited\" }}\n",
            self.name(),
            data.duration_s * scale,
            data.warmup_s * scale,
            self.mbps,
            self.rtt_ms as f64 / 2.0,
            (data.queue_bdp * bdp_pkts).max(2.0),
        );
        // Nothing else is left to chance in the simulator.
        let cubic_s = Draw::new(&self.name(), "start", seed).next();
        let flows = [("bbr", 0.0), ("cubic", cubic_s)].into_iter();
        let flows = flows.zip(version.controls());
        for ((name, start_s), control) in flows.take(1 + usize::from(self.beside_cubic)) {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n[[flow]]\nname = \"{name}\"\nfrom = \"server\"\nto = \"client\"\n\
                 congestion_control = \"{control}\"\nstart = \"{start_s:.3}s\"\n"
            );
        }
        text
    }
}

/// What is measured of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Measures {
    goodput_mbps: f64,
    /// Of the Cubic beside; 0 without.
    cubic_mbps: f64,
    rtt_ms: f64,
    queue_pkts: f64,
    drops: f64,
    warnings: Vec<String>,
}

impl Measures {
    fn of(result: &RunResult) -> Measures {
        let flow = |at: usize| result.flows.get(at);
        Measures {
            goodput_mbps: flow(0).map_or(0.0, |flow| flow.goodput_mbps),
            cubic_mbps: flow(1).map_or(0.0, |flow| flow.goodput_mbps),
            rtt_ms: flow(0).and_then(|flow| flow.rtt_mean_ms).unwrap_or(0.0),
            queue_pkts: result.links[0].queue_mean_pkts,
            drops: result.links[0].drops as f64,
            warnings: result.warnings.clone(),
        }
    }

    /// BBR's share of what both have.
    fn share(&self) -> f64 {
        self.goodput_mbps / (self.goodput_mbps + self.cubic_mbps)
    }
}

/// The runs of each cell.
type Measured = BTreeMap<(Cell, Version), Vec<Measures>>;

/// A run: of which cell, by whom, with which seed.
type Asked = (Cell, Version, u64);

/// Runs the cells and makes their tables.
///
/// # Errors
/// If the plan lacks what it needs, or a run fails.
fn carry_out(task: &Task<'_>) -> Result<Made, Error> {
    let data: Data = task.plan.data()?;
    let cells: Vec<Cell> = task.runs.iter().map(Cell::of).collect();
    let mut measured = Measured::new();
    for version in VERSIONS {
        let most = match version.is_in_lab() {
            true => task.options.repetitions.unwrap_or(1),
            false => task.seeds().unwrap_or(data.seeds.len()),
        };
        let seeds = &data.seeds[..most.min(data.seeds.len())];
        let asked = cells.iter();
        let asked = asked.flat_map(|cell| seeds.iter().map(|seed| (*cell, version, *seed)));
        run_all(task, &data, &asked.collect::<Vec<_>>(), &mut measured)?;
    }
    let mut made = Made::default();
    for (name, table) in [
        ("alone", alone(&measured)),
        ("beside cubic", beside(&measured)),
    ] {
        if !table.is_empty() {
            made.sections.push(table.section(name));
        }
    }
    made.sections.push(page::made("run"));
    made.remarks = warnings(&measured);
    made.runs = Some(runs(&measured));
    Ok(made)
}

/// Runs what has not been run, or reads what is kept.
fn run_all(
    task: &Task<'_>,
    data: &Data,
    asked: &[Asked],
    measured: &mut Measured,
) -> Result<(), Error> {
    let Some((_, version, _)) = asked.first() else {
        return Ok(());
    };
    let [folder, _] = version.words();
    let cache = task.cache(folder);
    let (is_to_run, jobs) = match version.is_in_lab() {
        true => (task.engines.has_lab(), 1),
        false => (
            task.engines.has_sim(),
            task.options.jobs.unwrap_or_else(parallel::cores),
        ),
    };
    let all = parallel::each(asked, jobs, |&(cell, version, seed)| {
        let engine = version.engine();
        let text = cell.text(data, version, seed, task.scale());
        let ours = (version != Version::KernelsLab).then_some("bbr");
        let key = json!({
            "experiment": text,
            "engine": format!("{engine:?}"),
            "on": experiments::ground(engine, ours),
        });
        let place = format!("{}/seed-{seed}", cell.name());
        if let Some(kept) = cache.kept::<Measures>(&place, &key) {
            return Ok((cell, Some(kept)));
        }
        if !is_to_run || task.options.policy == Policy::Nothing {
            return Ok((cell, None));
        }
        task.host.go_on()?;
        let name = format!("{folder}/{place}");
        task.tell(&name);
        let result = experiments::watch(task, (&text, &name), engine, seed, &mut NoRecorder)?;
        if let Some(why) = &result.incomplete {
            task.tell(&format!("{name}: left out, as it ended early: {why}"));
            return Ok((cell, None));
        }
        let measures = Measures::of(&result);
        cache.keep(&place, &key, &measures)?;
        Ok((cell, Some(measures)))
    })?;
    for (cell, measures) in all {
        if let Some(measures) = measures {
            measured.entry((cell, *version)).or_default().push(measures);
        }
    }
    Ok(())
}

/// A value of all versions, as means over the runs; with the range, if there are several.
fn of_versions(
    measured: &Measured,
    cell: Cell,
    digits: usize,
    of: fn(&Measures) -> f64,
) -> [String; 3] {
    VERSIONS.map(|version| {
        let Some(all) = measured.get(&(cell, version)) else {
            return "-".to_owned();
        };
        let values = || all.iter().map(of);
        let text = format!("{:.digits$}", mean(values()));
        let (least, most) = values().fold((f64::MAX, f64::MIN), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        match (format!("{least:.digits$}"), format!("{most:.digits$}")) {
            (least, most) if least == most => text,
            (least, most) => format!("{text} ({least} to {most})"),
        }
    })
}

fn cells(measured: &Measured, beside_cubic: bool) -> Vec<Cell> {
    let mut cells: Vec<Cell> = measured.keys().map(|(cell, _)| *cell).collect();
    cells.dedup();
    cells.retain(|cell| cell.beside_cubic == beside_cubic);
    cells
}

fn columns(what: &[&str]) -> String {
    let names = VERSIONS.map(|version| version.words()[1]).join(" | ");
    let columns = what.iter().map(|what| format!("{what}: {names}"));
    format!("path | {}", columns.collect::<Vec<_>>().join(" | "))
}

fn path(cell: Cell) -> String {
    format!("{} Mbit/s, {} ms", cell.mbps, cell.rtt_ms)
}

fn alone(measured: &Measured) -> Table {
    let mut table = Table::new(&columns(&[
        "goodput, Mbit/s",
        "round-trip time, ms",
        "mean queue, packets",
    ]));
    for cell in cells(measured, false) {
        let mut row = vec![path(cell)];
        row.extend(of_versions(measured, cell, 1, |run| run.goodput_mbps));
        row.extend(of_versions(measured, cell, 1, |run| run.rtt_ms));
        row.extend(of_versions(measured, cell, 1, |run| run.queue_pkts));
        table.row(row);
    }
    table
}

fn beside(measured: &Measured) -> Table {
    let mut table = Table::new(&columns(&[
        "BBR's share of the goodput",
        "mean queue, packets",
        "drops",
    ]));
    for cell in cells(measured, true) {
        let mut row = vec![path(cell)];
        row.extend(of_versions(measured, cell, 2, Measures::share));
        row.extend(of_versions(measured, cell, 0, |run| run.queue_pkts));
        row.extend(of_versions(measured, cell, 0, |run| run.drops));
        table.row(row);
    }
    table
}

/// Every run.
fn runs(measured: &Measured) -> Table {
    let mut table = Table::new(
        "cell | version | run | bbr_mbps | cubic_mbps | rtt_ms | queue_pkts | drops | warnings",
    );
    for ((cell, version), all) in measured {
        for (number, run) in all.iter().enumerate() {
            table.row([
                cell.name(),
                version.words()[0].to_owned(),
                (number + 1).to_string(),
                format!("{:.3}", run.goodput_mbps),
                format!("{:.3}", run.cubic_mbps),
                format!("{:.2}", run.rtt_ms),
                format!("{:.2}", run.queue_pkts),
                format!("{:.0}", run.drops),
                run.warnings.join("; "),
            ]);
        }
    }
    table
}

/// What the lab said of its runs.
fn warnings(measured: &Measured) -> String {
    let mut text = String::new();
    for ((cell, version), all) in measured {
        for warning in all.iter().flat_map(|run| &run.warnings) {
            let [folder, _] = version.words();
            let _ = writeln!(text, "{folder}/{}: {warning}", cell.name());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fairwind_scenario::Experiment;

    use super::*;

    const CELL: Cell = Cell {
        beside_cubic: true,
        mbps: 50,
        rtt_ms: 40,
    };

    #[test]
    fn the_lab_always_has_the_kernels_cubic_beside_ours_or_the_kernels_bbr() {
        let data = Data {
            seeds: vec![1],
            duration_s: 20.0,
            warmup_s: 5.0,
            queue_bdp: 1.0,
        };
        for version in VERSIONS {
            let text = CELL.text(&data, version, 1, 1.0);
            let experiment = Experiment::parse(&text, "x.toml", Path::new(""), &[]).unwrap();
            assert_eq!(experiment.flows().len(), 2);
            // 50 Mbit/s times 40 ms are 166.7 packets of 1500 bytes.
            assert!(text.contains("queue = \"167pkt\""), "{text}");
            for control in version.controls() {
                let line = format!("congestion_control = \"{control}\"");
                assert!(text.contains(&line), "{text}");
            }
        }
    }

    #[test]
    fn tables_have_a_row_for_each_path_and_the_range_of_several_runs() {
        let run = |goodput_mbps, cubic_mbps| Measures {
            goodput_mbps,
            cubic_mbps,
            rtt_ms: 60.0,
            queue_pkts: 80.0,
            drops: 7.0,
            ..Measures::default()
        };
        let measured = Measured::from([
            (
                (CELL, Version::OursSim),
                vec![run(30.0, 10.0), run(20.0, 20.0)],
            ),
            ((CELL, Version::OursLab), vec![run(24.0, 24.0)]),
        ]);
        let row =
            "| 50 Mbit/s, 40 ms | 0.62 (0.50 to 0.75) | 0.50 | - | 80 | 80 | - | 7 | 7 | - |\n";
        let table = beside(&measured).markdown();
        assert!(table.ends_with(row), "{table}");
        assert!(alone(&measured).is_empty());
    }
}
