//! The figures of two overlaid results.
//!
//! The first result is drawn solid and blue, the second dashed and vermilion on top of it, with a panel for
//! each flow and link.

mod average;
mod distributed;

use fairwind_result::series::curves::FlowCurves;
use fairwind_result::series::decimate::{Decimator, Point};

use super::distribution::{Distributions, Quantity};
use super::side::Pair;
use crate::plot::figure::{Across, Band, Figure, Line, Panel, Rug, Scale};
use crate::plot::style::Stroke;

/// File names of the figures.
pub const FILES: [&str; 10] = [
    "throughput.svg",
    "average_throughput.svg",
    "cwnd.svg",
    "rtt.svg",
    "rto.svg",
    "queue.svg",
    "throughput_distribution.svg",
    "cwnd_distribution.svg",
    "rtt_distribution.svg",
    "queue_distribution.svg",
];

/// Most panels in a figure, one for each flow or link.
const PANELS_AT_MOST: usize = 4;
/// Columns of a curve over time: more cannot be told apart in two colours, and files stay small.
const COLUMNS: usize = 300;
const STROKES: [Stroke; 2] = [Stroke::SOLID, Stroke::DASHED];
const THRESHOLDS: [Stroke; 2] = [Stroke::THRESHOLD, Stroke::DOTTED_THRESHOLD];

/// A figure.
pub struct Drawn {
    /// Its file, one of [`FILES`].
    pub file: &'static str,
    /// The figure.
    pub svg: String,
}

/// All figures, in the order of [`FILES`]; those that would be empty are left out.
pub fn all(pair: &Pair, distributions: &[Distributions]) -> Vec<Drawn> {
    if pair.without_series().is_some() {
        return Vec::new();
    }
    let seeds = seeds_text(pair);
    let over_time = [
        flows(
            pair,
            "throughput.svg",
            &format!("Throughput in intervals of {}{seeds}", interval_text(pair)),
            "Mbit/s",
            Scale::FromZero,
            |flow| &flow.throughput,
        ),
        average::figure_of(pair),
        windows(pair, &seeds),
        flows(
            pair,
            "rtt.svg",
            &format!("Smoothed round-trip time{seeds}"),
            "ms",
            Scale::Around,
            |flow| &flow.rtt,
        ),
        flows(
            pair,
            "rto.svg",
            &format!("Retransmission timeout{seeds}"),
            "ms",
            Scale::FromZero,
            |flow| &flow.rto,
        ),
        queues(pair, &seeds),
    ];
    let distributed = [
        Quantity::Throughput,
        Quantity::Cwnd,
        Quantity::Rtt,
        Quantity::Queue,
    ]
    .map(|quantity| distributed::figure_of(pair, quantity, distributions));
    over_time.into_iter().chain(distributed).flatten().collect()
}

/// A panel that owns its curves.
struct Curves {
    name: String,
    lines: Vec<(Option<String>, usize, Stroke, Vec<Point>)>,
    bands: Vec<Band>,
    rugs: Vec<Rug>,
}

impl Curves {
    fn new(name: &str) -> Curves {
        Curves {
            name: name.to_owned(),
            lines: Vec::new(),
            bands: Vec::new(),
            rugs: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.lines.iter().all(|(.., points)| points.is_empty())
    }
}

/// The figure of these panels; none if all are empty.
fn figure(
    pair: &Pair,
    file: &'static str,
    heading: &str,
    across: Across,
    (unit, scale): (&'static str, Scale),
    panels: &[Curves],
) -> Option<Drawn> {
    let drawn: Vec<&Curves> = panels.iter().filter(|panel| !panel.is_empty()).collect();
    if drawn.is_empty() {
        return None;
    }
    let mut heading = heading.to_owned();
    if drawn.len() > PANELS_AT_MOST {
        let of = format!("; the first {PANELS_AT_MOST} of {}", drawn.len());
        heading.push_str(&of);
    }
    let panels = drawn.into_iter().take(PANELS_AT_MOST).map(|curves| Panel {
        name: curves.name.clone(),
        unit,
        scale,
        bands: curves.bands.clone(),
        lines: curves
            .lines
            .iter()
            .map(|(name, colour, stroke, points)| Line {
                name: name.clone().unwrap_or_default(),
                colour: Some(*colour),
                stroke: *stroke,
                points,
            })
            .collect(),
        marks: Vec::new(),
        rugs: curves.rugs.clone(),
    });
    let svg = Figure {
        title: &pair.title,
        what: &heading,
        across,
        panels: panels.collect(),
    }
    .svg();
    Some(Drawn { file, svg })
}

/// A figure over time, with a panel for every flow.
fn flows(
    pair: &Pair,
    file: &'static str,
    heading: &str,
    unit: &'static str,
    scale: Scale,
    of: fn(&FlowCurves) -> &[Point],
) -> Option<Drawn> {
    let panels: Vec<Curves> = pair.flows.iter().map(|name| flow(pair, name, of)).collect();
    let across = Across::time(pair.duration_s());
    figure(pair, file, heading, across, (unit, scale), &panels)
}

fn flow(pair: &Pair, name: &str, of: fn(&FlowCurves) -> &[Point]) -> Curves {
    let mut curves = Curves::new(name);
    for (at, side) in pair.sides.iter().enumerate() {
        let points = side.shown().flow(name).map_or(&[][..], of);
        let points = thinned(points, pair.duration_s());
        curves
            .lines
            .push((Some(side.label.clone()), at, STROKES[at], points));
    }
    curves
}

fn windows(pair: &Pair, seeds: &str) -> Option<Drawn> {
    let panels: Vec<Curves> = pair
        .flows
        .iter()
        .map(|name| {
            let mut curves = flow(pair, name, |flow| &flow.cwnd);
            for (at, side) in pair.sides.iter().enumerate() {
                let points = side.shown().flow(name).map_or(&[][..], |f| &f.ssthresh);
                let points = thinned(points, pair.duration_s());
                curves.lines.push((None, at, THRESHOLDS[at], points));
            }
            curves
        })
        .collect();
    figure(
        pair,
        "cwnd.svg",
        &format!("Congestion window; thin, slow-start threshold: A dashed, B dotted{seeds}"),
        Across::time(pair.duration_s()),
        ("kB", Scale::FromZero),
        &panels,
    )
}

fn queues(pair: &Pair, seeds: &str) -> Option<Drawn> {
    let worth = |name: &&String| {
        let shown = pair.sides.iter().map(|side| side.shown());
        shown.into_iter().any(|run| run.worth_drawing(name))
    };
    let panels: Vec<Curves> = pair
        .links
        .iter()
        .filter(worth)
        .map(|name| {
            let mut curves = Curves::new(name);
            for (at, side) in pair.sides.iter().enumerate() {
                let Some(link) = side.shown().link(name) else {
                    continue;
                };
                let points = thinned(&link.queue, pair.duration_s());
                curves
                    .lines
                    .push((Some(side.label.clone()), at, STROKES[at], points));
                curves.rugs.push(Rug {
                    colour: at,
                    times_s: link.drops.iter().map(|drops| drops.at.time_s).collect(),
                });
            }
            curves
        })
        .collect();
    figure(
        pair,
        "queue.svg",
        &format!("Queue; strokes above, lost packets{seeds}"),
        Across::time(pair.duration_s()),
        ("packets", Scale::FromZero),
        &panels,
    )
}

fn thinned(points: &[Point], duration_s: f64) -> Vec<Point> {
    let mut curve = Decimator::new(duration_s, COLUMNS);
    for point in points {
        curve.push(point.time_s, point.value);
    }
    curve.finish()
}

fn interval_text(pair: &Pair) -> String {
    let curves = pair.sides.iter().filter_map(|s| s.shown().curves.as_ref());
    let seconds: Vec<f64> = curves.map(|curves| curves.interval_s).collect();
    match seconds[..] {
        [a, b] if a != b => format!("{a} s (A) and {b} s (B)"),
        [a, ..] => format!("{a} s"),
        [] => String::new(),
    }
}

/// The seeds that are drawn over time, if there are several.
fn seeds_text(pair: &Pair) -> String {
    let [a, b] = &pair.sides;
    let (first, second) = (a.shown().result.seed, b.shown().result.seed);
    match a.runs.len() + b.runs.len() {
        2 => String::new(),
        _ if first == second => format!("; seed {first}"),
        _ => format!("; seeds {first} and {second}"),
    }
}
