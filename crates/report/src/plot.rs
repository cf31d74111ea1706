//! The plots of a run as SVG: `plots/throughput.svg` and its siblings.
//!
//! Each file is self-contained: text uses the reader's own fonts, nothing is loaded, and colours are light or
//! dark as the reader prefers, light by default.

pub mod chart;
pub mod history;
pub mod scatter;
mod svg;
pub(crate) mod ticks;
pub mod traced;

use chart::{Across, Chart, Curve, Style, throughput_text};
use fairwind_result::RunResult;
use fairwind_result::series::curves::{Curves, FlowCurves};
use fairwind_result::series::decimate::Point;

/// With more flows than this, slow-start thresholds are left out.
const THRESHOLDS_AT_MOST: usize = 2;

/// The plots of a run: file name and content.
pub(crate) fn svgs(run: &RunResult, curves: &Curves) -> Vec<(&'static str, String)> {
    let chart = |what, unit, curves| {
        let across = Across::time(run.duration_s);
        Chart::new(&run.title, what, across, unit, curves)
    };
    let of_flows = |what, unit, of| chart(what, unit, flows(curves, of));
    let mut windows = flows(curves, |f| &f.cwnd);
    let mut windows_text = "Congestion window";
    if curves.flows.len() <= THRESHOLDS_AT_MOST {
        windows_text = "Congestion window and slow-start threshold (dashed)";
        let thresholds = flows(curves, |f| &f.ssthresh).into_iter();
        windows.extend(thresholds.map(|threshold| Curve {
            name: String::new(),
            // In the colour of its own window, a threshold could not be told apart.
            colour: threshold.colour.filter(|_| curves.flows.len() > 1),
            style: Style::Threshold,
            ..threshold
        }));
    }
    let links = curves.links.iter().enumerate();
    let shown: Vec<_> = links
        .filter(|(_, link)| curves.worth_drawing(link))
        .collect();
    let queues = shown.iter().map(|(colour, link)| Curve {
        name: link.name.clone(),
        colour: Some(*colour),
        points: link.queue.clone(),
        ..Curve::default()
    });
    let mut queue = chart(
        "Queue, and where packets were lost (×)",
        "packets",
        queues.collect(),
    );
    let drops = shown.iter().flat_map(|(_, link)| &link.drops);
    queue.panels[0].losses = drops.map(|drops| drops.at).collect();
    let average = "Average throughput since the flow’s start";
    let plots = [
        (
            "throughput.svg",
            of_flows(throughput_text(curves.interval_s), "Mbit/s", |f| {
                &f.throughput
            }),
        ),
        (
            "average_throughput.svg",
            of_flows(average, "Mbit/s", |f| &f.average),
        ),
        ("cwnd.svg", chart(windows_text, "kB", windows)),
        (
            "rtt.svg",
            of_flows("Smoothed round-trip time", "ms", |f| &f.rtt),
        ),
        ("queue.svg", queue),
    ];
    plots.map(|(name, chart)| (name, chart.svg())).into()
}

fn flows(curves: &Curves, of: fn(&FlowCurves) -> &[Point]) -> Vec<Curve> {
    let curve = |(colour, flow): (usize, &FlowCurves)| Curve {
        name: flow.name.clone(),
        colour: Some(colour),
        points: of(flow).to_vec(),
        ..Curve::default()
    };
    curves.flows.iter().enumerate().map(curve).collect()
}

#[cfg(test)]
mod tests;
