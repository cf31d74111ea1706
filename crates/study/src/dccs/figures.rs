//! The thesis' Figures 8, 10, 12, 14, 15, 17, 19 and 20, each with a panel for the thesis and one for each of our
//! series or engines.

use fairwind_report::plot::chart::{Across, Chart, Curve, Panel};
use fairwind_result::series::decimate::Point;

use super::case::{Case, LEVELS, TIMES};
use super::relation::Losses;
use super::tables::{BESIDE_OTHERS, Results, Tables, Transfer, gain, mean};
use crate::page::{Figure, Section, figures_of};

const BY_TIME: &str = "Time of day";
const BY_WAY: &str = "Way";
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

/// Draws the figures that have results. The names of their parts of the page and of their files end in `suffix`.
pub(crate) fn draw(tables: &Tables<'_>, plan: &str, suffix: &str) -> (Vec<Section>, Vec<Figure>) {
    let (mut sections, mut figures) = (Vec::new(), Vec::new());
    let mut add = |drawing: &Drawing<'_>| {
        let Some(chart) = drawing.chart(tables) else {
            return;
        };
        let name = format!("figure {}{suffix}", drawing.number);
        let file = name.replace(' ', "-") + ".svg";
        let link = format!(
            "![{}]({}/{file})\n*Figure {}*\n",
            chart.title,
            figures_of(plan),
            drawing.number
        );
        sections.push(Section::text(name, link));
        let svg = chart.svg();
        figures.push(Figure { file, svg });
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
    let beside = WAYS.map(|way| format!("beside {way} FTP"));
    let one = |time: usize| BESIDE_OTHERS.map(|way| thesis.one_background[time][way].1);
    let first = |time: usize| BESIDE_OTHERS.map(|way| thesis.two_background[time][way].1);
    let second = |time: usize| BESIDE_OTHERS.map(|way| thesis.two_background[time][way].2);
    let of_thesis: [(u32, usize, usize, &dyn Fn(usize) -> [f64; 3]); 3] =
        [(17, 1, 0, &one), (19, 2, 0, &first), (20, 2, 1, &second)];
    for (number, others, other, of_thesis) in of_thesis {
        let background = Drawing {
            number,
            title: match others {
                1 => "Throughput of the other connection".to_owned(),
                _ => format!("Throughput of other connection {} of two", other + 1),
            },
            unit: "Mbit/s",
            across: (BY_TIME, &TIMES),
            curves: beside.clone(),
            thesis: of_thesis,
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
    (sections, figures)
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
            what: format!("{}, in the thesis and here", self.unit),
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
