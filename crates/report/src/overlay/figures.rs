//! The figures of two overlaid results.
//!
//! The first result is drawn solid and blue, the second dashed and vermilion on top of it, with a panel for
//! each flow and link.

use fairwind_result::series::curves::FlowCurves;
use fairwind_result::series::decimate::{Point, thinned};

use super::average::Average;
use super::distribution::{Distribution, Distributions, Quantity};
use super::side::{Pair, Side};
use crate::plot::chart::{Across, Area, Chart, Curve, Panel, Scale, Style};

/// Most panels in a figure, one for each flow or link.
const PANELS_AT_MOST: usize = 4;
/// Columns of a curve over time: more cannot be told apart in two colours, and files stay small.
const COLUMNS: usize = 300;

const LINES: [Style; 2] = [Style::Solid, Style::Dashed];
const STEPS: [Style; 2] = [Style::Steps, Style::DashedSteps];
const THRESHOLDS: [Style; 2] = [Style::Threshold, Style::DottedThreshold];

/// A figure: its file name, and its content unless that would be empty.
pub(super) type Drawn = (&'static str, Option<String>);

/// All figures.
pub(super) fn all(pair: &Pair, distributions: &[Distributions]) -> [Drawn; 10] {
    let over_time = OverTime {
        pair,
        seeds: seeds_text(pair),
        duration_s: pair.duration_s(),
    };
    let interval = interval_text(pair);
    let throughput = format!("Throughput in intervals of {interval}");
    let rtt = "Smoothed round-trip time";
    let share = |quantity, file, heading, label| {
        distributed(pair, distributions, quantity, file, heading, label)
    };
    [
        over_time.flows(
            "throughput.svg",
            &throughput,
            ("Mbit/s", Scale::FromZero),
            |f| &f.throughput,
        ),
        over_time.averages(),
        over_time.windows(),
        over_time.flows("rtt.svg", rtt, ("ms", Scale::Around), |f| &f.rtt),
        over_time.flows(
            "rto.svg",
            "Retransmission timeout",
            ("ms", Scale::FromZero),
            |f| &f.rto,
        ),
        over_time.queues(),
        share(
            Quantity::Throughput,
            "throughput_distribution.svg",
            &throughput,
            "Throughput (Mbit/s)",
        ),
        share(
            Quantity::Cwnd,
            "cwnd_distribution.svg",
            "Congestion window",
            "Congestion window (kB)",
        ),
        share(
            Quantity::Rtt,
            "rtt_distribution.svg",
            rtt,
            "Smoothed round-trip time (ms)",
        ),
        share(
            Quantity::Queue,
            "queue_distribution.svg",
            "Queue",
            "Queue (packets)",
        ),
    ]
}

/// The figure of these panels; none if all are empty, or a run has no time series.
fn figure(
    pair: &Pair,
    file: &'static str,
    mut what: String,
    across: Across,
    mut panels: Vec<Panel>,
) -> Drawn {
    panels.retain(|panel| panel.curves.iter().any(|curve| !curve.points.is_empty()));
    if panels.is_empty() || pair.without_series().is_some() {
        return (file, None);
    }
    if panels.len() > PANELS_AT_MOST {
        what.push_str(&format!("; the first {PANELS_AT_MOST} of {}", panels.len()));
        panels.truncate(PANELS_AT_MOST);
    }
    let title = pair.title.clone();
    let chart = Chart {
        title,
        what,
        across,
        panels,
    };
    (file, Some(chart.svg()))
}

/// The curve of the side with this number.
fn curve(at: usize, side: &Side, styles: [Style; 2], points: Vec<Point>) -> Curve {
    Curve {
        name: side.label.clone(),
        colour: Some(at),
        style: styles[at],
        points,
    }
}

/// What the figures over time have in common.
struct OverTime<'a> {
    pair: &'a Pair,
    /// Which seeds are drawn, as the end of a heading.
    seeds: String,
    duration_s: f64,
}

impl OverTime<'_> {
    fn figure(&self, file: &'static str, what: String, panels: Vec<Panel>) -> Drawn {
        let across = Across::time(self.duration_s);
        figure(self.pair, file, what, across, panels)
    }

    fn thinned(&self, points: &[Point]) -> Vec<Point> {
        thinned(self.duration_s, COLUMNS, points.iter().copied())
    }

    /// A panel for each of these names, to which `draw` adds what it shows of each side.
    fn panels<'n>(
        &self,
        names: impl Iterator<Item = &'n String>,
        unit: &'static str,
        draw: impl Fn(&mut Panel, usize, &Side),
    ) -> Vec<Panel> {
        let panel = |name: &String| {
            let mut panel = Panel {
                name: name.clone(),
                unit,
                ..Panel::default()
            };
            for (at, side) in self.pair.sides.iter().enumerate() {
                draw(&mut panel, at, side);
            }
            panel
        };
        names.map(panel).collect()
    }

    /// A panel for each flow.
    fn flow_panels(&self, unit: &'static str, of: fn(&FlowCurves) -> &[Point]) -> Vec<Panel> {
        self.panels(self.pair.flows.iter(), unit, |panel, at, side| {
            let points = side.shown().flow(&panel.name).map_or(&[][..], of);
            panel
                .curves
                .push(curve(at, side, LINES, self.thinned(points)));
        })
    }

    fn flows(
        &self,
        file: &'static str,
        heading: &str,
        (unit, scale): (&'static str, Scale),
        of: fn(&FlowCurves) -> &[Point],
    ) -> Drawn {
        let mut panels = self.flow_panels(unit, of);
        for panel in &mut panels {
            panel.scale = scale;
        }
        self.figure(file, format!("{heading}{}", self.seeds), panels)
    }

    fn windows(&self) -> Drawn {
        let mut panels = self.flow_panels("kB", |flow| &flow.cwnd);
        for (panel, thresholds) in panels
            .iter_mut()
            .zip(self.flow_panels("kB", |f| &f.ssthresh))
        {
            let thresholds = thresholds.curves.into_iter().zip(THRESHOLDS);
            panel
                .curves
                .extend(thresholds.map(|(threshold, style)| Curve {
                    name: String::new(),
                    style,
                    ..threshold
                }));
        }
        let what = "Congestion window; thin, slow-start threshold: A dashed, B dotted";
        self.figure("cwnd.svg", format!("{what}{}", self.seeds), panels)
    }

    fn queues(&self) -> Drawn {
        let worth = |link: &&String| self.pair.worth_drawing(link);
        let links = self.pair.links.iter().filter(worth);
        let panels = self.panels(links, "packets", |panel, at, side| {
            if let Some(link) = side.shown().link(&panel.name) {
                let points = self.thinned(&link.queue);
                panel.curves.push(curve(at, side, LINES, points));
                let times_s = link.drops.iter().map(|drops| drops.at.time_s).collect();
                panel.strokes.push((at, times_s));
            }
        });
        let what = format!("Queue; strokes above, lost packets{}", self.seeds);
        self.figure("queue.svg", what, panels)
    }

    /// The average since the start: the mean over the runs and, if there are several, the area between their
    /// least and greatest values.
    fn averages(&self) -> Drawn {
        let panels = self.panels(self.pair.flows.iter(), "Mbit/s", |panel, at, side| {
            let runs = side.runs.iter().filter_map(|run| run.flow(&panel.name));
            let curves: Vec<&[Point]> = runs.map(|flow| &*flow.average).collect();
            let mean = if let [single] = curves[..] {
                self.thinned(single)
            } else {
                let over = Average::of(&curves, self.duration_s);
                panel.areas.push(Area {
                    colour: at,
                    low: over.low,
                    high: over.high,
                });
                over.mean
            };
            panel.curves.push(curve(at, side, LINES, mean));
        });
        let mut what = "Average throughput since the flow’s start".to_owned();
        if self.pair.sides.iter().any(|side| side.runs.len() > 1) {
            what.push_str("; shaded, the least to the most of all seeds");
        }
        self.figure("average_throughput.svg", what, panels)
    }
}

/// The distribution functions of a quantity.
fn distributed(
    pair: &Pair,
    all: &[Distributions],
    quantity: Quantity,
    file: &'static str,
    heading: &str,
    label: &'static str,
) -> Drawn {
    let shown: Vec<&Distributions> = all
        .iter()
        .filter(|of| of.quantity == quantity)
        .filter(|of| quantity != Quantity::Queue || pair.worth_drawing(&of.name))
        .collect();
    let ends = || {
        shown
            .iter()
            .flat_map(|of| &of.sides)
            .map(Distribution::ends)
    };
    let least = ends().map(|(least, _)| least).fold(f64::INFINITY, f64::min);
    let greatest = ends().map(|(_, greatest)| greatest).fold(0.0, f64::max);
    let across = Across::values(label, least, greatest);
    let panel = |of: &&Distributions| {
        let sides = pair.sides.iter().zip(&of.sides).enumerate();
        let curves = sides.map(|(at, (side, distribution))| {
            let points = distribution.curve(across.from, across.to);
            curve(at, side, STEPS, points)
        });
        Panel {
            name: distance_text(of),
            unit: "share",
            scale: Scale::Share,
            curves: curves.collect(),
            ..Panel::default()
        }
    };
    let panels = shown.iter().map(panel).collect();
    let what = format!("{heading}: share of the time in which it was at most so large");
    figure(pair, file, what, across, panels)
}

/// The name, and how far the two are apart.
fn distance_text(of: &Distributions) -> String {
    match of.spread().relative {
        Some(share) => format!(
            "{}: on average {:.1} % of A’s mean apart",
            of.name,
            100.0 * share
        ),
        None => of.name.clone(),
    }
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
