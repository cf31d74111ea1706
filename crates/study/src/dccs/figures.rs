//! The thesis' figures, each with a panel for the thesis and one for each of our series or engines; of Figures 9, 11
//! and 13, whose series is not published, only ours.

use std::time::Duration;

use fairwind_advice::Mode;
use fairwind_report::plot::chart::{Across, Chart, Panel, Style};
use fairwind_result::series::decimate::Point;

use super::case::{Case, LEVELS, Losses, TIMES};
use super::following;
use super::results::{Results, Transfer};
use super::series::{Series, available};
use super::tables::Tables;
use crate::demo::report::{curve, point};
use crate::demo::story::Way;
use crate::page::Section;
use crate::statistics::mean;
use crate::{Error, Made};

const BY_TIME: &str = "Time of day";
const BY_WAY: &str = "Way";
/// Index of 14:25 in [`TIMES`].
const AFTERNOON: usize = 3;
/// The ways, in the order of [`Results::ways`].
const WAYS: [&str; 3] = ["standard", "without congestion control", "advised"];

/// A figure: the three values at each place of its horizontal axis.
struct Drawing<'a> {
    /// Number in the thesis.
    number: u32,
    title: String,
    unit: &'static str,
    across: (&'static str, &'a [&'static str]),
    /// What the values are of.
    curves: [String; 3],
    values: &'a dyn Fn(&Results, usize) -> Option<[f64; 3]>,
}

/// Adds a figure, and the part of the page of this name that shows it.
fn add(made: &mut Made, plan: &str, name: &str, chart: &Chart) {
    let link = made.draw(plan, &name.replace(' ', "-"), chart);
    made.sections.push(Section::text(name, link));
}

/// Draws the figures that have results. The names of their parts of the page end in `suffix`.
pub(crate) fn draw(tables: &Tables<'_>, plan: &str, suffix: &str, made: &mut Made) {
    let mut add = |drawing: &Drawing<'_>| {
        if let Some(chart) = drawing.chart(tables) {
            add(
                made,
                plan,
                &format!("figure {}{suffix}", drawing.number),
                &chart,
            );
        }
    };
    let by_way = |ways: [&Transfer; 3], value: &dyn Fn(&Transfer) -> Option<f64>| {
        let [standard, nocc, advised] = ways.map(value);
        Some([standard?, nocc?, advised?])
    };
    let ftp = |results: &Results, level, time| {
        let ways = results.ways(Case::at(0, level, time, Losses::Rounded))?;
        by_way(ways, &|transfer| Some(transfer.mbps))
    };
    for (level, number) in [8, 10, 12].into_iter().enumerate() {
        let throughput = Drawing {
            number,
            title: format!("Throughput, at least {} % used", LEVELS[level]),
            unit: "Mbit/s",
            across: (BY_TIME, &TIMES),
            curves: WAYS.map(str::to_owned),
            values: &|results, time| ftp(results, level, time),
        };
        add(&throughput);
    }
    let levels = LEVELS.map(|level| format!("at least {level} % used"));
    let averages = Drawing {
        number: 14,
        title: "Mean throughput of the five times of day".to_owned(),
        unit: "Mbit/s",
        across: (BY_WAY, &WAYS),
        curves: levels.clone(),
        values: &|results, way| {
            let at = |level, time| Some(ftp(results, level, time)?[way]);
            let of_level = |level| mean((0..TIMES.len()).filter_map(|time| at(level, time)));
            Some([0, 1, 2].map(of_level))
        },
    };
    add(&averages);
    let gains = Drawing {
        number: 15,
        title: "Gain of advised over standard FTP".to_owned(),
        unit: "%",
        across: (BY_TIME, &TIMES),
        curves: levels,
        values: &|results, time| {
            let of_level = |level| results.gain(Losses::Rounded, level, time);
            Some([0, 1, 2].map(|level| of_level(level).unwrap_or(f64::NAN)))
        },
    };
    add(&gains);
    let beside = [
        "beside standard FTP",
        "beside FTP without congestion control",
        "beside advised FTP",
    ]
    .map(str::to_owned);
    for (number, others, other) in [(17, 1, 0), (19, 2, 0), (20, 2, 1)] {
        let background = Drawing {
            number,
            title: match others {
                1 => "Throughput of the other connection".to_owned(),
                _ => format!("Throughput of other connection {} of two", other + 1),
            },
            unit: "Mbit/s",
            across: (BY_TIME, &TIMES),
            curves: beside.clone(),
            values: &|results, time| {
                let ways = results.ways(Case::at(others, 0, time, Losses::Rounded))?;
                // The lab measures two together.
                let each = |transfer: &Transfer| {
                    let others_mbps = &transfer.others_mbps;
                    (others_mbps.len() == others).then(|| others_mbps[other])
                };
                by_way(ways, &each)
            },
        };
        add(&background);
    }
}

/// Draws Figures 9, 11 and 13 over our series: what is available while the advised transfer of 14:25 runs, shaded
/// where the answers have switched congestion control off.
pub(crate) fn answers(
    tables: &Tables<'_>,
    all: &[Series],
    plan: &str,
    made: &mut Made,
) -> Result<(), Error> {
    for (level, number) in [9, 11, 13].into_iter().enumerate() {
        let of_level = &tables.thesis.level[level];
        let case = Case {
            way: Way::Advised,
            ..Case::at(0, level, AFTERNOON, Losses::Rounded)
        };
        let mut panels = Vec::new();
        let mut longest_min: f64 = 0.0;
        for (series, results) in all.iter().zip(&tables.all[1..]) {
            let Some(transfer) = results.find(case) else {
                continue;
            };
            let (start, took) = (
                series.start(AFTERNOON)?,
                Duration::from_secs_f64(transfer.seconds),
            );
            let samples = series.with_less(of_level.less_mbps)?;
            let settings = following::settings(of_level.threshold_mbps, case.history);
            let inputs = following::inputs(&samples, &settings, start, took);
            let took_min = minutes(took);
            longest_min = longest_min.max(took_min);
            let until = inputs.iter().skip(1).map(|input| minutes(input.after));
            let ends = inputs.iter().zip(until.chain([took_min]));
            let off = ends.filter(|(input, _)| input.mode == Mode::NoCongestionControl);
            let mut found: Vec<Point> = available(&samples, start, took)
                .iter()
                .map(|recorded| point(minutes(recorded.after), recorded.mbps))
                .collect();
            found.extend(found.last().map(|last| point(took_min, last.value)));
            let threshold = [0.0, took_min].map(|at| point(at, of_level.threshold_mbps));
            panels.push(Panel {
                name: series.name.to_owned(),
                unit: "Mbit/s",
                spans: off
                    .map(|(input, end)| (1, minutes(input.after), end))
                    .collect(),
                curves: vec![
                    curve("available", 0, Style::Steps, found),
                    curve("threshold", None, Style::Threshold, threshold.into()),
                ],
                ..Panel::default()
            });
        }
        if panels.is_empty() {
            continue;
        }
        let chart = Chart {
            title: format!(
                "Available bandwidth and answers, at least {} % used",
                LEVELS[level]
            ),
            what: "During the advised transfer of 14:25; shaded: without congestion control"
                .to_owned(),
            across: Across::linear("Time (min)", longest_min),
            panels,
        };
        add(made, plan, &format!("figure {number}"), &chart);
    }
    Ok(())
}

fn minutes(time: Duration) -> f64 {
    time.as_secs_f64() / 60.0
}

impl Drawing<'_> {
    /// `None` if there is no result.
    fn chart(&self, tables: &Tables<'_>) -> Option<Chart> {
        let (label, places) = self.across;
        let mut panels = Vec::new();
        for results in tables.all {
            let panel = self.panel(&results.name, |place| (self.values)(results, place));
            panels.extend(
                panel
                    .curves
                    .iter()
                    .any(|curve| !curve.points.is_empty())
                    .then_some(panel),
            );
        }
        let labels = places.iter().enumerate();
        let across = Across {
            labels: labels
                .map(|(at, name)| (at as f64, (*name).to_owned()))
                .collect(),
            ..Across::linear(label, places.len() as f64 - 1.0)
        };
        (panels.len() > 1).then(|| Chart {
            title: self.title.clone(),
            what: "In the thesis and here".to_owned(),
            across,
            panels,
        })
    }

    fn panel(&self, name: &str, values: impl Fn(usize) -> Option<[f64; 3]>) -> Panel {
        let of_curve = |(at, name): (usize, &String)| {
            let points = (0..self.across.1.len()).filter_map(|place| {
                let value = values(place)?[at];
                (!value.is_nan()).then_some(point(place as f64, value))
            });
            curve(name, at, Style::Solid, points.collect())
        };
        Panel {
            name: name.to_owned(),
            unit: self.unit,
            curves: self.curves.iter().enumerate().map(of_curve).collect(),
            ..Panel::default()
        }
    }
}
