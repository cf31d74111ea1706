//! The figures of both engines overlaid, and how far apart they are.

use std::fs;
use std::path::Path;

use fairwind_report::overlay::{self, Overlay, Spread};
use fairwind_result::{Stored, seed_folder};

use super::bench::{Bench, Engine};
use crate::Error;
use crate::page::{Figure, Section};
use crate::plan::Plan;
use crate::table::Table;

/// The lab's drop-tail against its RED.
pub(crate) const RED_IN_THE_LAB: &str = "drop-tail-and-RED-in-the-lab";
/// The same in the simulator.
pub(crate) const RED_IN_THE_SIMULATOR: &str = "drop-tail-and-RED-in-the-simulator";

/// Two results overlaid.
pub(crate) struct Laid {
    /// The experiment, with its variant.
    name: String,
    /// Simulator and lab, or two results of one of them.
    overlay: Overlay,
    /// The simulator with today's TCP, and the lab.
    today: Option<Overlay>,
    /// Each seed of the simulator compared with all of them.
    by_chance: Vec<Vec<Spread>>,
}

/// The runs of drop-tail and of RED.
const DROP_TAIL_AND_RED: [&str; 2] = ["figure-4.21", "figure-4.22"];

/// Overlays the results of both engines, and drop-tail on RED in each.
pub(crate) fn lay(bench: &Bench<'_>) -> Result<Vec<Laid>, Error> {
    let mut laid = Vec::new();
    for run in &bench.task.runs {
        let name = run.name();
        let folder = |engine: Engine| bench.task.out.join(engine.folder()).join(&name);
        let [sim, today, lab] = [Engine::Sim, Engine::SimToday, Engine::Lab].map(folder);
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
        if DROP_TAIL_AND_RED
            .iter()
            .any(|run| bench.find(run).is_none())
        {
            continue;
        }
        let [a, b] = DROP_TAIL_AND_RED.map(|run| bench.task.out.join(engine.folder()).join(run));
        laid.push(Laid {
            overlay: written(bench, "both", [&a, &b], name)?,
            today: None,
            by_chance: Vec::new(),
            name: name.to_owned(),
        });
    }
    Ok(laid)
}

fn written(
    bench: &Bench<'_>,
    below: &str,
    [a, b]: [&Path; 2],
    name: &str,
) -> Result<Overlay, Error> {
    let overlay = overlay::write(a, b, &bench.task.out.join(below).join(name))?;
    bench.task.tell(&overlay.page.display().to_string());
    Ok(overlay)
}

/// How far the distributions of the lab are from those of the simulator, and a single run of the
/// simulator from all its runs.
pub(crate) fn distances(laid: &[Laid]) -> Section {
    let mut table = Table::new("experiment | | throughput, % | cwnd, % | RTT, % | queue, %");
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
            let [throughput, cwnd, rtt, queue] = &cells;
            table.row([experiment, name, throughput, cwnd, rtt, queue]);
        }
    }
    let markdown = include_str!("distances.md").to_owned() + &table.markdown() + "\n";
    Section::text("distances", markdown)
}

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

/// The plan's figures as far as their runs have been made, and the parts of the page that show them.
pub(crate) fn of_page(plan: &Plan, laid: &[Laid]) -> Result<(Vec<Section>, Vec<Figure>), Error> {
    let mut sections: Vec<Section> = Vec::new();
    let mut figures = Vec::new();
    for shown in &plan.figures {
        let Some(laid) = laid.iter().find(|laid| laid.name == shown.run) else {
            continue;
        };
        let overlay = match shown.stack.as_str() {
            "2005" => Some(&laid.overlay),
            _ => laid.today.as_ref(),
        };
        let plots = overlay.map_or(&[][..], |overlay| &overlay.figures);
        let plot = plots.iter().find(|path| path.ends_with(&shown.plot));
        let plot =
            plot.ok_or_else(|| Error::work(format!("{} has no {}", shown.run, shown.plot)))?;
        let figure = Figure {
            file: shown.file.clone(),
            svg: fs::read_to_string(plot).map_err(Error::at(plot))?,
        };
        let image = figure.link(&plan.name, &shown.caption);
        let image = format!("{image}*{}*\n\n", shown.caption);
        figures.push(figure);
        match sections
            .iter_mut()
            .find(|section| section.name == shown.section)
        {
            Some(section) => section.markdown.push_str(&image),
            None => sections.push(Section::text(&shown.section, image)),
        }
    }
    Ok((sections, figures))
}
