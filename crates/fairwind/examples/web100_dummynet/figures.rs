//! The figures of both engines overlaid, and how far apart they are.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use fairwind_report::overlay::{self, Overlay, Spread};
use fairwind_result::{Stored, seed_folder};

use crate::Error;
use crate::bench::{Bench, EXPERIMENTS, Engine, Variant};
use crate::page::Section;

/// Folder of the figures, beside the page.
pub const FOLDER: &str = "figures/web100-dummynet";
/// Largest size of a figure of the page, bytes.
const SIZE_AT_MOST: u64 = 150_000;

/// A figure of the page.
struct Shown {
    /// The part of the page.
    part: &'static str,
    /// What it shows.
    caption: &'static str,
    /// The experiment, or [`RED_IN_THE_LAB`].
    experiment: &'static str,
    /// The simulator's TCP in it.
    which: Which,
    /// The figure's file, and its name beside the page.
    figure: &'static str,
    name: &'static str,
}

/// The TCP of the simulator in a figure.
#[derive(Clone, Copy)]
enum Which {
    /// That of the file; also if both curves are the lab's.
    Of2005,
    /// That of Linux 6, like the lab's.
    Today,
}

const fn shown(
    part: &'static str,
    caption: &'static str,
    experiment: &'static str,
    which: Which,
    [figure, name]: [&'static str; 2],
) -> Shown {
    Shown {
        part,
        caption,
        experiment,
        which,
        figure,
        name,
    }
}

/// What the page shows.
const SHOWN: [Shown; 17] = [
    shown(
        "figures of table 4.1",
        "Figure 4.17: throughput of SACK against SF-SACK",
        "figure-4.17-4.19",
        Which::Today,
        ["throughput.svg", "figure-4.17.svg"],
    ),
    shown(
        "figures of table 4.1",
        "The averages of Figure 4.17",
        "figure-4.17-4.19",
        Which::Today,
        ["average_throughput.svg", "figure-4.17-average.svg"],
    ),
    shown(
        "figures of table 4.1",
        "Figure 4.19: congestion windows of SACK and SF-SACK",
        "figure-4.17-4.19",
        Which::Today,
        ["cwnd.svg", "figure-4.19.svg"],
    ),
    shown(
        "figures of table 4.1",
        "How the congestion windows of SACK and SF-SACK are distributed",
        "figure-4.17-4.19",
        Which::Today,
        ["cwnd_distribution.svg", "figure-4.17-cwnd-distribution.svg"],
    ),
    shown(
        "figures of figure 4.9",
        "Figure 4.9: throughput of the overseas transfer",
        "figure-4.9-4.12",
        Which::Today,
        ["throughput.svg", "figure-4.9.svg"],
    ),
    shown(
        "figures of figure 4.9",
        "Figure 4.10: its average",
        "figure-4.9-4.12",
        Which::Today,
        ["average_throughput.svg", "figure-4.10.svg"],
    ),
    shown(
        "figures of figure 4.9",
        "Figure 4.11: congestion window and slow-start threshold",
        "figure-4.9-4.12",
        Which::Today,
        ["cwnd.svg", "figure-4.11.svg"],
    ),
    shown(
        "figures of figure 4.9",
        "Figure 4.11 with the TCP of 2005 in the simulator, whose window grows half as fast",
        "figure-4.9-4.12",
        Which::Of2005,
        ["cwnd.svg", "figure-4.11-2005.svg"],
    ),
    shown(
        "figures of figure 4.9",
        "Figure 4.12: smoothed round-trip time",
        "figure-4.9-4.12",
        Which::Today,
        ["rtt.svg", "figure-4.12-rtt.svg"],
    ),
    shown(
        "figures of figure 4.9",
        "Figure 4.12: retransmission timeout",
        "figure-4.9-4.12",
        Which::Today,
        ["rto.svg", "figure-4.12-rto.svg"],
    ),
    shown(
        "figures of figure 4.21",
        "Figure 4.21: average throughput with a drop-tail queue",
        "figure-4.21",
        Which::Today,
        ["average_throughput.svg", "figure-4.21.svg"],
    ),
    shown(
        "figures of figure 4.21",
        "Figure 4.22: average throughput with RED",
        "figure-4.22",
        Which::Today,
        ["average_throughput.svg", "figure-4.22.svg"],
    ),
    shown(
        "figures of figure 4.21",
        "The queues of Figure 4.21",
        "figure-4.21",
        Which::Today,
        [
            "queue_distribution.svg",
            "figure-4.21-queue-distribution.svg",
        ],
    ),
    shown(
        "figures of figure 4.21",
        "The queues of Figure 4.22",
        "figure-4.22",
        Which::Today,
        [
            "queue_distribution.svg",
            "figure-4.22-queue-distribution.svg",
        ],
    ),
    shown(
        "figures of figure 4.21",
        "The lab alone, drop-tail (A) and RED (B): queues",
        RED_IN_THE_LAB,
        Which::Of2005,
        ["queue_distribution.svg", "figure-4.21-4.22-lab.svg"],
    ),
    shown(
        "figures of figure 4.23",
        "Figure 4.23: throughput over queues weighted 2 to 1",
        "figure-4.23-4.24",
        Which::Today,
        ["throughput.svg", "figure-4.23.svg"],
    ),
    shown(
        "figures of figure 4.23",
        "Figure 4.24: its average",
        "figure-4.23-4.24",
        Which::Today,
        ["average_throughput.svg", "figure-4.24.svg"],
    ),
];

/// Drop-tail against RED, in one engine.
const RED_IN_THE_LAB: &str = "drop-tail-and-RED-in-the-lab";
const RED_IN_THE_SIMULATOR: &str = "drop-tail-and-RED-in-the-simulator";

/// Two results overlaid.
pub struct Laid {
    /// The experiment, with its variant.
    name: String,
    /// Simulator and lab, or two results of one of them.
    overlay: Overlay,
    /// The simulator with today's TCP, and the lab.
    today: Option<Overlay>,
    /// Each seed of the simulator compared with all of them.
    by_chance: Vec<Vec<Spread>>,
}

/// Overlays the results of both engines, and drop-tail on RED in each.
pub fn lay(bench: &Bench) -> Result<Vec<Laid>, Error> {
    let mut laid = Vec::new();
    for (file, variant) in EXPERIMENTS {
        if !bench.wants(file) {
            continue;
        }
        let folder = |engine| bench.folder(engine, file, variant);
        let [sim, today, lab] = [Engine::Sim, Engine::SimToday, Engine::Lab].map(folder);
        let name = name_of(&sim);
        laid.push(Laid {
            overlay: written(bench, "both", [&sim, &lab], &name)?,
            today: Some(written(bench, "both-today", [&today, &lab], &name)?),
            by_chance: by_chance(&sim)?,
            name,
        });
    }
    for (name, engine) in [
        (RED_IN_THE_SIMULATOR, Engine::Sim),
        (RED_IN_THE_LAB, Engine::Lab),
    ] {
        let files = ["figure-4.21", "figure-4.22"];
        if files.iter().any(|file| !bench.wants(file)) {
            continue;
        }
        let [a, b] = files.map(|file| bench.folder(engine, file, Variant::AsSaid));
        laid.push(Laid {
            overlay: written(bench, "both", [&a, &b], name)?,
            today: None,
            by_chance: Vec::new(),
            name: name.to_owned(),
        });
    }
    Ok(laid)
}

fn written(bench: &Bench, below: &str, [a, b]: [&Path; 2], name: &str) -> Result<Overlay, Error> {
    let overlay = overlay::write(a, b, &bench.results.join(below).join(name))?;
    eprintln!("{}", overlay.page.display());
    Ok(overlay)
}

fn name_of(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// How far the distributions of the lab are from those of the simulator, and a single run of the
/// simulator from all its runs.
pub fn distances(laid: &[Laid]) -> Section {
    let mut markdown = String::from(DISTANCES);
    for laid in laid {
        let Some(today) = &laid.today else { continue };
        let mut names: Vec<&str> = Vec::new();
        for spread in &laid.overlay.distributions {
            let matters = spread.quantity != "queue_pkts" || spread.name == "bottleneck";
            if matters && !names.contains(&&*spread.name) {
                names.push(&spread.name);
            }
        }
        for (at, name) in names.into_iter().enumerate() {
            let experiment = match at {
                0 => laid.name.trim_start_matches("figure-"),
                _ => "",
            };
            let cells = ["throughput_mbps", "cwnd_kb", "rtt_ms", "queue_pkts"].map(|quantity| {
                let of = |spreads| distance(spreads, name, quantity);
                let chance = laid.by_chance.iter().filter_map(|spreads| of(spreads));
                let all = [
                    of(&laid.overlay.distributions),
                    of(&today.distributions),
                    chance.reduce(f64::max),
                ];
                let texts = all
                    .into_iter()
                    .flatten()
                    .map(|d| format!("{:.1}", 100.0 * d));
                texts.collect::<Vec<_>>().join(", ")
            });
            // Writing to a string cannot fail.
            let _ = writeln!(
                markdown,
                "| {experiment} | {name} | {} |",
                cells.join(" | ")
            );
        }
    }
    markdown.push('\n');
    Section {
        name: "distances",
        markdown,
    }
}

/// The text above the table of distances.
const DISTANCES: &str = "\
## How far the lab is from the simulator

Where a saw's tooth begins is chance, so curves over time need not coincide. The distributions of
throughput, window, round-trip time and queue do not depend on it. Each cell says by how many percent of
their mean the values of the simulator would have to be moved, on average, to have the lab's
distribution: with the TCP of 2005, with that of Linux 6, and, for scale, the most that a single run of
the simulator is from all its runs (not where the file has one seed).

| experiment | | throughput, % | cwnd, % | RTT, % | queue, % |
|---|---|---|---|---|---|
";

fn distance(spreads: &[Spread], name: &str, quantity: &str) -> Option<f64> {
    let mut spreads = spreads.iter();
    let found = spreads.find(|spread| spread.name == name && spread.quantity == quantity);
    found.and_then(|spread| spread.relative)
}

/// Compares each seed of a result with all of them; empty for a single seed.
fn by_chance(folder: &Path) -> Result<Vec<Vec<Spread>>, Error> {
    let Stored::Summary(summary) = Stored::read(folder)? else {
        return Ok(Vec::new());
    };
    let seeds = summary.seeds.iter();
    seeds
        .map(|&seed| Ok(overlay::spreads(&folder.join(seed_folder(seed)), folder)?))
        .collect()
}

/// Copies the figures of the page beside it and returns the parts of the page that show them.
pub fn publish(laid: &[Laid], folder: &Path) -> Result<Vec<Section>, Error> {
    fs::create_dir_all(folder)?;
    let mut sections: Vec<Section> = Vec::new();
    for shown in &SHOWN {
        let mut all = laid.iter();
        let of = all.find(|laid| laid.name == shown.experiment);
        let overlay = of.and_then(|laid| match shown.which {
            Which::Of2005 => Some(&laid.overlay),
            Which::Today => laid.today.as_ref(),
        });
        let figures = overlay.map_or(&[][..], |overlay| &overlay.figures);
        let path = figures.iter().find(|path| path.ends_with(shown.figure));
        let path = path.ok_or_else(|| format!("{} has no {}", shown.experiment, shown.figure))?;
        let size = fs::copy(path, folder.join(shown.name))?;
        if size > SIZE_AT_MOST {
            return Err(format!("{}: {size} bytes are too many", path.display()).into());
        }
        let image = format!("![{}]({FOLDER}/{})\n*{0}*\n\n", shown.caption, shown.name);
        match sections
            .iter_mut()
            .find(|section| section.name == shown.part)
        {
            Some(section) => section.markdown.push_str(&image),
            None => sections.push(Section {
                name: shown.part,
                markdown: image,
            }),
        }
    }
    Ok(sections)
}
