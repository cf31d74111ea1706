//! The thesis' figures, each with a panel for the thesis and one for each of our series or engines; of Figures 9, 11
//! and 13, whose series is not published, only ours.

use std::time::Duration;

use fairwind_advice::Mode;
use fairwind_report::plot::chart::{Across, Chart, Curve, Panel, Style};
use fairwind_result::series::decimate::Point;

use super::case::{Case, HISTORY_SETS, LEVELS, TIMES, Way};
use super::following;
use super::relation::Losses;
use super::series::{Series, available};
use super::tables::{BESIDE_OTHERS, Results, Tables, Transfer, gain, mean};
use crate::Error;
use crate::page::{Figure, Section, figures_of};

const BY_TIME: &str = "Time of day";
const BY_WAY: &str = "Way";
/// Index of 14:25 in [`TIMES`].
const AFTERNOON: usize = 3;
/// The ways, in the order of [`Results::ways`].
const WAYS: [&str; 3] = ["standard", "without congestion control", "advised"];

/// A figure: the three values at each place of its horizontal axis, in the thesis and in our results.
struct Drawing<'a> {
    /// Number in the thesis.
    number: u32,
    title: String,
    unit: &'static str,
    across: (&'static str, &'a [&'static str]),
    /// What the values are of.
    curves: [String; 3],
    thesis: &'a dyn Fn(usize) -> [f64; 3],
    ours: &'a dyn Fn(&Results, usize) -> Option<[f64; 3]>,
}

/// Figures, and the parts of the page that show them.
#[derive(Default)]
pub(crate) struct Drawn {
    pub sections: Vec<Section>,
    pub figures: Vec<Figure>,
}

impl Drawn {
    /// `name` is that of its part of the page.
    fn add(&mut self, name: &str, plan: &str, chart: &Chart) {
        let file = name.replace(' ', "-") + ".svg";
        let link = format!("![{}]({}/{file})\n", chart.title, figures_of(plan));
        self.sections.push(Section::text(name, link));
        let svg = chart.svg();
        self.figures.push(Figure { file, svg });
    }
}

/// Draws the figures that have results. The names of their parts of the page end in `suffix`.
pub(crate) fn draw(tables: &Tables<'_>, plan: &str, suffix: &str) -> Drawn {
    let mut drawn = Drawn::default();
    let mut add = |drawing: &Drawing<'_>| {
        if let Some(chart) = drawing.chart(tables) {
            drawn.add(&format!("figure {}{suffix}", drawing.number), plan, &chart);
        }
    };
    let thesis = tables.thesis;
    let by_way = |ways: [&Transfer; 3], value: &dyn Fn(&Transfer) -> Option<f64>| {
        let [standard, nocc, advised] = ways.map(value);
        Some([standard?, nocc?, advised?])
    };
    let ftp = |results: &Results, level, time| {
        let ways = results.ways(Case::at(0, level, time, Losses::Rounded))?;
        by_way(ways, &|transfer| Some(transfer.mbps))
    };
    let ftp_of_thesis = |level: usize, time: usize| {
        let level = &thesis.level[level];
        [
            level.standard[time],
            level.nocc[time],
            level.advised[time][0],
        ]
    };
    for (level, number) in [8, 10, 12].into_iter().enumerate() {
        let throughput = Drawing {
            number,
            title: format!("Throughput, at least {} % used", LEVELS[level]),
            unit: "Mbit/s",
            across: (BY_TIME, &TIMES),
            curves: WAYS.map(str::to_owned),
            thesis: &|time| ftp_of_thesis(level, time),
            ours: &|results, time| ftp(results, level, time),
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
        thesis: &|way| {
            [0, 1, 2]
                .map(|level| mean((0..TIMES.len()).map(|time| ftp_of_thesis(level, time)[way])))
        },
        ours: &|results, way| {
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
        thesis: &|time| thesis.level.each_ref().map(|level| level.gain[time]),
        ours: &|results, time| {
            let of_level = |level| {
                let ways = results.ways(Case::at(0, level, time, Losses::Rounded));
                ways.map_or(f64::NAN, gain)
            };
            Some([0, 1, 2].map(of_level))
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
            thesis: &|time| {
                BESIDE_OTHERS.map(|way| match (others, other) {
                    (1, _) => thesis.one_background[time][way].1,
                    (_, 0) => thesis.two_background[time][way].1,
                    _ => thesis.two_background[time][way].2,
                })
            },
            ours: &|results, time| {
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
    drawn
}

/// Draws Figures 9, 11 and 13 over our series: what is available while the advised transfer of 14:25 runs, shaded
/// where the answers have switched congestion control off.
pub(crate) fn answers(tables: &Tables<'_>, all: &[Series], plan: &str) -> Result<Drawn, Error> {
    let mut drawn = Drawn::default();
    let set = HISTORY_SETS[0];
    for (level, number) in [9, 11, 13].into_iter().enumerate() {
        let of_level = &tables.thesis.level[level];
        let case = Case {
            way: Way::Advised(set),
            ..Case::at(0, level, AFTERNOON, Losses::Rounded)
        };
        let mut panels = Vec::new();
        let mut longest_min: f64 = 0.0;
        for (series, results) in all.iter().zip(tables.all) {
            let Some(transfer) = results.find(case) else {
                continue;
            };
            let (start, took) = (
                series.start(AFTERNOON)?,
                Duration::from_secs_f64(transfer.seconds),
            );
            let samples = series.with_less(of_level.less_mbps)?;
            let settings = following::settings(of_level.threshold_mbps, set);
            let inputs = following::inputs(&samples, &settings, start, took);
            let took_min = minutes(took);
            longest_min = longest_min.max(took_min);
            let until = inputs.iter().skip(1).map(|input| minutes(input.after));
            let ends = inputs.iter().zip(until.chain([took_min]));
            let off = ends.filter(|(input, _)| input.mode == Mode::NoCongestionControl);
            let point = |time_s: f64, value: f64| Point { time_s, value };
            let mut found: Vec<Point> = available(&samples, start, took)
                .iter()
                .map(|recorded| point(minutes(recorded.after), recorded.mbps))
                .collect();
            found.extend(found.last().map(|last| point(took_min, last.value)));
            let threshold = of_level.threshold_mbps;
            panels.push(Panel {
                name: series.name.to_owned(),
                unit: "Mbit/s",
                spans: off
                    .map(|(input, end)| (1, minutes(input.after), end))
                    .collect(),
                curves: vec![
                    Curve {
                        name: "available".to_owned(),
                        colour: Some(0),
                        style: Style::Steps,
                        points: found,
                    },
                    Curve {
                        name: "threshold".to_owned(),
                        style: Style::Threshold,
                        points: vec![point(0.0, threshold), point(took_min, threshold)],
                        ..Curve::default()
                    },
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
        drawn.add(&format!("figure {number}"), plan, &chart);
    }
    Ok(drawn)
}

fn minutes(time: Duration) -> f64 {
    time.as_secs_f64() / 60.0
}

impl Drawing<'_> {
    /// `None` if there is no result.
    fn chart(&self, tables: &Tables<'_>) -> Option<Chart> {
        let (label, places) = self.across;
        let mut panels = vec![self.panel("thesis", |place| Some((self.thesis)(place)))];
        for results in tables.all {
            let panel = self.panel(&results.name, |place| (self.ours)(results, place));
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
        let point = |curve: usize, place: usize| {
            let value = values(place)?[curve];
            let time_s = place as f64;
            (!value.is_nan()).then_some(Point { time_s, value })
        };
        let curve = |(at, name): (usize, &String)| Curve {
            name: name.clone(),
            colour: Some(at),
            points: (0..self.across.1.len())
                .filter_map(|place| point(at, place))
                .collect(),
            ..Curve::default()
        };
        Panel {
            name: name.to_owned(),
            unit: self.unit,
            curves: self.curves.iter().enumerate().map(curve).collect(),
            ..Panel::default()
        }
    }
}
