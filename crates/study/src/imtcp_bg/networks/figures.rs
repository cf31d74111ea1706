//! The figures of the page: lab above simulator.

use fairwind_report::plot::chart::{Across, Chart, Curve, Panel, Style};

use super::measures::{Measures, Moment};
use super::setup::{Cell, Cross};
use super::tables::{INTERNET, LABORATORY, Measured, RIVALS, cell};
use crate::Made;
use crate::demo::report::{curve, point};
use crate::page::Section;

const RATE: &str = "Mbit/s";
const ENGINES: [&str; 2] = ["lab", "simulator"];
/// Weight of the newest result in the smoothed one: the thesis' γ.
const GAMMA: f64 = 0.125;

/// Draws what has been made.
pub(super) fn draw(plan: &str, measured: &Measured<'_>, made: &mut Made) {
    let ten = "Ten TCP connections join, one each second, and stay for 60 s";
    let udp = "Results of ImTCP, and what datagrams leave";
    let bandwidth_mbps = measured
        .network(LABORATORY)
        .map_or(0.0, |network| network.bandwidth_mbps);
    let left = |run: &Measures| {
        let seconds = 0..run.cross_mbps.len();
        seconds
            .map(|at| run.left(bandwidth_mbps, at as f64))
            .collect()
    };
    let charts = [
        (
            "figure-12a",
            bandwidth(measured, LABORATORY, Cross::Udp, udp),
        ),
        (
            "figure-12b",
            bandwidth(
                measured,
                LABORATORY,
                Cross::Tcp,
                "Results of ImTCP, and what ten TCP connections leave",
            ),
        ),
        ("figure-13", figure_13(measured)),
        (
            "figure-14",
            rivals(
                measured,
                "Throughput of the background",
                ten,
                |run| &run.background_mbps,
                "left by the ten alone",
                left,
            ),
        ),
        (
            "figure-15",
            rivals(
                measured,
                "Throughput of the ten connections together",
                ten,
                |run| &run.cross_mbps,
                "no background",
                |run| run.cross_mbps.clone(),
            ),
        ),
        ("figure-17", bandwidth(measured, INTERNET, Cross::Udp, udp)),
        ("figure-18", figure_18(measured)),
        ("figure-19", figure_19(measured)),
    ];
    for (file, chart) in charts {
        if let Some(chart) = chart.filter(|chart| !chart.panels.is_empty()) {
            let link = made.draw(plan, file, &chart);
            let section = format!("{} drawn", file.replace('-', " "));
            made.sections.push(Section::text(section, link));
        }
    }
}

/// A panel for each engine that has run the cell.
fn panels<'a>(
    measured: &'a Measured<'_>,
    cell: &Cell,
    panel: impl Fn(&'static str, &'a Measures) -> Vec<Panel>,
) -> Vec<Panel> {
    let both = ENGINES.into_iter().zip(measured.both(cell));
    both.flat_map(|(engine, run)| run.map(|run| panel(engine, run)).unwrap_or_default())
        .collect()
}

fn rates(name: &str, colour: impl Into<Option<usize>>, style: Style, mbps: &[f64]) -> Curve {
    let points = mbps.iter().enumerate();
    let points = points.map(|(second, mbps)| point(second as f64 + 0.5, *mbps));
    curve(name, colour, style, points.collect())
}

/// The length of a cell's runs, seconds.
fn length_s(measured: &Measured<'_>, cell: &Cell) -> f64 {
    let both = measured.both(cell).into_iter().flatten();
    let lengths = both.map(|run| run.background_mbps.len().max(run.cross_mbps.len()));
    lengths.max().unwrap_or(0) as f64
}

/// Figures 12 and 17: what ImTCP measures beside what is left.
fn bandwidth(measured: &Measured<'_>, network: &str, cross: Cross, what: &str) -> Option<Chart> {
    let of = cell(network, cross, "imtcp");
    let network = measured.network(network)?;
    let length_s = length_s(measured, &of);
    let panels = panels(measured, &of, |engine, run| {
        let seconds = 0..length_s as usize;
        let left = |at: usize| match cross {
            Cross::Udp => network.left_by_datagrams((at as f64 + 0.01) / measured.scale),
            Cross::Tcp => run.left(network.bandwidth_mbps, at as f64),
        };
        let left = seconds.map(|at| point(at as f64, left(at)));
        let results = || run.results.iter().filter(|(at, _)| *at < length_s);
        let mut mean = None;
        let smoothed = results().map(|(at, mbps)| {
            let before = mean.unwrap_or(*mbps);
            let now = before + GAMMA * (mbps - before);
            mean = Some(now);
            point(*at, now)
        });
        let smoothed = smoothed.collect();
        let results =
            results().map(|(at, mbps)| point(*at, mbps.min(1.5 * network.bandwidth_mbps)));
        vec![Panel {
            name: engine.to_owned(),
            unit: RATE,
            curves: vec![
                curve("measured", 0, Style::Solid, results.collect()),
                curve("smoothed", 2, Style::Solid, smoothed),
                curve("left by the cross traffic", 1, Style::Steps, left.collect()),
            ],
            ..Panel::default()
        }]
    });
    Some(Chart {
        title: format!("Available bandwidth of {} Mbit/s", network.bandwidth_mbps),
        what: what.to_owned(),
        across: Across::time(length_s),
        panels,
    })
}

/// A curve of the moments of a run.
fn moments(
    name: &str,
    colour: impl Into<Option<usize>>,
    style: Style,
    run: &Measures,
    of: fn(&Moment) -> Option<f64>,
) -> Curve {
    let points = run.moments.iter();
    let points = points.filter_map(|moment| Some(point(moment.seconds, of(moment)?)));
    curve(name, colour, style, points.collect())
}

fn rtt(engine: &str, run: &Measures) -> Panel {
    Panel {
        name: format!("{engine}: round-trip time"),
        unit: "ms",
        curves: vec![
            moments("smoothed", 0, Style::Solid, run, |moment| {
                Some(moment.rtt_ms)
            }),
            moments("threshold", 1, Style::Solid, run, |moment| {
                Some(moment.threshold_ms)
            }),
        ],
        ..Panel::default()
    }
}

/// Figure 13: window and round-trip time of ImTCP-bg, with what limits them.
fn figure_13(measured: &Measured<'_>) -> Option<Chart> {
    let of = cell(LABORATORY, Cross::Tcp, "imtcp_bg");
    let panels = panels(measured, &of, |engine, run| {
        let window = Panel {
            name: format!("{engine}: window"),
            unit: "packets",
            curves: vec![
                moments("window", 0, Style::Solid, run, |moment| Some(moment.window)),
                moments("upper limit", 1, Style::Solid, run, |moment| moment.limit),
            ],
            ..Panel::default()
        };
        vec![window, rtt(engine, run)]
    });
    Some(Chart {
        title: "Window and round-trip time of ImTCP-bg".to_owned(),
        what: "Beside ten TCP connections; upper limit: what the measured bandwidth allows"
            .to_owned(),
        across: Across::time(length_s(measured, &of)),
        panels,
    })
}

/// Figures 14 and 15: a curve for each background, and one of the ten connections alone.
fn rivals(
    measured: &Measured<'_>,
    title: &str,
    what: &str,
    of: fn(&Measures) -> &[f64],
    name_of_alone: &str,
    of_alone: impl Fn(&Measures) -> Vec<f64>,
) -> Option<Chart> {
    let mut longest_s: f64 = 0.0;
    let mut panels = Vec::new();
    for (at, engine) in ENGINES.into_iter().enumerate() {
        let run = |control: &str| measured.both(&cell(LABORATORY, Cross::Tcp, control))[at];
        let rivals = RIVALS.into_iter().enumerate();
        let of_rival = |(number, (control, name)): (usize, (&str, &str))| {
            Some(rates(name, number, Style::Solid, of(run(control)?)))
        };
        let mut curves: Vec<Curve> = rivals.filter_map(of_rival).collect();
        curves.extend(
            run("none").map(|run| rates(name_of_alone, None, Style::Dashed, &of_alone(run))),
        );
        let lengths = curves.iter().map(|curve| curve.points.len());
        longest_s = longest_s.max(lengths.max().unwrap_or(0) as f64);
        if !curves.is_empty() {
            panels.push(Panel {
                name: engine.to_owned(),
                unit: RATE,
                curves,
                ..Panel::default()
            });
        }
    }
    Some(Chart {
        title: title.to_owned(),
        what: what.to_owned(),
        across: Across::time(longest_s),
        panels,
    })
}

/// Figure 18: cross traffic, ImTCP-bg and what it measures.
fn figure_18(measured: &Measured<'_>) -> Option<Chart> {
    let of = cell(INTERNET, Cross::Tcp, "imtcp_bg");
    let most = 1.5 * measured.network(INTERNET)?.bandwidth_mbps;
    let panels = panels(measured, &of, |engine, run| {
        let results = run.results.iter();
        let results = results.map(|(at, mbps)| point(*at, mbps.min(most)));
        vec![Panel {
            name: engine.to_owned(),
            unit: RATE,
            curves: vec![
                curve("measured", 2, Style::Solid, results.collect()),
                rates("cross traffic", 1, Style::Solid, &run.cross_mbps),
                rates("ImTCP-bg", 0, Style::Solid, &run.background_mbps),
            ],
            ..Panel::default()
        }]
    });
    Some(Chart {
        title: "ImTCP-bg on the path of 70 Mbit/s".to_owned(),
        what: "Beside five and ten TCP connections; throughput in seconds".to_owned(),
        across: Across::time(length_s(measured, &of)),
        panels,
    })
}

/// Figure 19: the round-trip time of the same run.
fn figure_19(measured: &Measured<'_>) -> Option<Chart> {
    let of = cell(INTERNET, Cross::Tcp, "imtcp_bg");
    let panels = panels(measured, &of, |engine, run| vec![rtt(engine, run)]);
    Some(Chart {
        title: "Round-trip time on the path of 70 Mbit/s".to_owned(),
        what: "Of ImTCP-bg, beside five and ten TCP connections".to_owned(),
        across: Across::time(length_s(measured, &of)),
        panels,
    })
}
