//! The plots of a run as SVG: `plots/throughput.svg` and its siblings.
//!
//! Each file is self-contained: text uses the reader's own fonts, nothing is loaded, and colours are light or
//! dark as the reader prefers, light by default.

pub mod curves;
pub(crate) mod figure;
mod frame;
pub mod history;
pub mod palette;
pub(crate) mod style;
pub mod ticks;
pub mod traced;

use fairwind_result::RunResult;
use fairwind_result::series::curves::{Curves, FlowCurves};
use fairwind_result::series::decimate::Point;
use figure::{Across, Figure, Line, Panel};
use style::Stroke;

/// With more flows than this, slow-start thresholds are left out.
const THRESHOLDS_AT_MOST: usize = 2;

/// The plots of a run: file name and content.
pub fn svgs(run: &RunResult, curves: &Curves) -> Vec<(&'static str, String)> {
    let interval = if curves.interval_s == 1.0 {
        "Throughput in intervals of 1 s"
    } else {
        "Throughput in intervals of 100 ms"
    };
    let figures = [
        (
            "throughput.svg",
            of_flows(run, curves, interval, "Mbit/s", |f| &f.throughput),
        ),
        (
            "average_throughput.svg",
            of_flows(
                run,
                curves,
                "Average throughput since the flow’s start",
                "Mbit/s",
                |f| &f.average,
            ),
        ),
        ("cwnd.svg", windows(run, curves)),
        (
            "rtt.svg",
            of_flows(run, curves, "Smoothed round-trip time", "ms", |f| &f.rtt),
        ),
        ("queue.svg", queues(run, curves)),
    ];
    figures.map(|(name, figure)| (name, figure.svg())).into()
}

fn empty<'a>(run: &'a RunResult, what: &'a str, unit: &'static str) -> Figure<'a> {
    Figure {
        title: &run.title,
        what,
        across: Across::time(run.duration_s),
        panels: vec![Panel {
            unit,
            ..Panel::default()
        }],
    }
}

fn of_flows<'a>(
    run: &'a RunResult,
    curves: &'a Curves,
    what: &'a str,
    unit: &'static str,
    of: fn(&FlowCurves) -> &[Point],
) -> Figure<'a> {
    let mut figure = empty(run, what, unit);
    for (colour, flow) in curves.flows.iter().enumerate() {
        figure.panels[0].lines.push(Line {
            name: flow.name.clone(),
            colour: Some(colour),
            stroke: Stroke::SOLID,
            points: of(flow),
        });
    }
    figure
}

fn windows<'a>(run: &'a RunResult, curves: &'a Curves) -> Figure<'a> {
    let mut figure = of_flows(run, curves, "Congestion window", "kB", |f| &f.cwnd);
    if curves.flows.len() > THRESHOLDS_AT_MOST {
        return figure;
    }
    figure.what = "Congestion window and slow-start threshold (dashed)";
    for (colour, flow) in curves.flows.iter().enumerate() {
        figure.panels[0].lines.push(Line {
            name: String::new(),
            // In the colour of its own window, a threshold could not be told apart.
            colour: (curves.flows.len() > 1).then_some(colour),
            stroke: Stroke::THRESHOLD,
            points: &flow.ssthresh,
        });
    }
    figure
}

fn queues<'a>(run: &'a RunResult, curves: &'a Curves) -> Figure<'a> {
    let mut figure = empty(run, "Queue, and where packets were lost (×)", "packets");
    for (colour, link) in curves.links.iter().enumerate() {
        if !curves.worth_drawing(link) {
            continue;
        }
        figure.panels[0].lines.push(Line {
            name: link.name.clone(),
            colour: Some(colour),
            stroke: Stroke::SOLID,
            points: &link.queue,
        });
        let drops = link.drops.iter().map(|drops| drops.at);
        figure.panels[0].marks.extend(drops);
    }
    figure
}

#[cfg(test)]
mod tests;
