//! The tables of the page: in each row the thesis, and below it our results.

use std::fmt::Write;

use super::case::{Case, HISTORY_SETS, TIMES, Way};
use super::relation::{Losses, Relation};
use super::thesis::{Level, Thesis};
use crate::page::Section;
use crate::table::Table;

/// The ways of most tables, in the order of [`Results::ways`].
const WAYS: [Way; 3] = [Way::Standard, Way::Nocc, Way::Advised(HISTORY_SETS[0])];
/// The order of these in the thesis' tables of background connections.
pub(crate) const BESIDE_OTHERS: [usize; 3] = [0, 2, 1];

/// The result of a transfer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transfer {
    pub case: Case,
    /// Mean throughput, Mbit/s.
    pub mbps: f64,
    /// The transfer time for the thesis' file of 16 GB, seconds.
    pub seconds: f64,
    /// Mean throughput of the others while it ran, Mbit/s.
    pub others_mbps: Vec<f64>,
    /// The inputs it received, in the thesis' notation.
    pub inputs: String,
}

/// The transfers over one series, or in one engine.
pub(crate) struct Results {
    /// Their name in tables.
    pub name: String,
    pub transfers: Vec<Transfer>,
    /// Throughput of one other connection alone, and of two together, Mbit/s.
    pub alone: [Option<f64>; 2],
}

impl Results {
    pub(crate) fn find(&self, case: Case) -> Option<&Transfer> {
        self.transfers.iter().find(|transfer| transfer.case == case)
    }

    /// The transfers like this one by standard TCP, without congestion control and advised.
    pub(crate) fn ways(&self, case: Case) -> Option<[&Transfer; 3]> {
        let [standard, nocc, advised] = WAYS.map(|way| self.find(Case { way, ..case }));
        Some([standard?, nocc?, advised?])
    }

    /// The mean gain of advised over standard FTP over the times of day, percent.
    pub(crate) fn mean_gain(&self, losses: Losses, level: usize) -> f64 {
        let gain = |time| Some(gain(self.ways(Case::at(0, level, time, losses))?));
        mean((0..TIMES.len()).filter_map(gain))
    }

    /// How much of their throughput the others lose beside FTP of each way, on average over the times of day,
    /// percent.
    pub(crate) fn mean_lost(&self, losses: Losses, others: usize) -> [f64; 3] {
        [0, 1, 2].map(|way| {
            let lost = |time| {
                let beside = self.ways(Case::at(others, 0, time, losses))?[way];
                Some(lost(
                    self.alone[others - 1]?,
                    beside.others_mbps.iter().sum(),
                ))
            };
            mean((0..TIMES.len()).filter_map(lost))
        })
    }
}

/// The tables of the page, of transfers of the thesis' size or scaled down.
pub(crate) struct Tables<'a> {
    pub thesis: &'a Thesis,
    pub all: &'a [Results],
}

/// Fits the constant to the throughputs of Table 1, observed or in their place, at delays of 25 and 50 ms,
/// Mbit/s; NaN where there is none.
pub(crate) fn fit(observed: [[f64; 4]; 2]) -> Relation {
    let unit = Relation { constant: 1.0 };
    let mut cells = Vec::new();
    for (row, rtt_ms) in observed.iter().zip([25.0, 50.0]) {
        for (value, percent) in row.iter().zip([1.0, 2.0, 3.0, 4.0]) {
            cells.push((unit.mbps(rtt_ms, percent), *value));
        }
    }
    cells.retain(|(_, value)| !value.is_nan());
    Relation::fit(&cells)
}

/// Table 1 and the constant that follows from it, with the simulator's throughputs at delays of 25 and 50 ms.
pub(crate) fn table_1(thesis: &Thesis, observed: [[f64; 4]; 2]) -> (Section, Relation) {
    let (fitted, of_thesis) = (fit(observed), fit(thesis.observed));
    let constant = thesis.constant;
    let mut table = Table::new(&format!(
        "| loss | delay | thesis: from C = {constant} | thesis: observed | from C = {:.2} | simulator |",
        fitted.constant
    ));
    for (delay, rtt_ms) in [25.0, 50.0].into_iter().enumerate() {
        for (at, percent) in [1.0, 2.0, 3.0, 4.0].into_iter().enumerate() {
            let there = thesis.observed[delay][at];
            table.row(&[
                format!("{percent} %"),
                format!("{rtt_ms} ms"),
                format!("{:.2}", Relation { constant }.mbps(rtt_ms, percent)),
                if there.is_nan() {
                    "lost".to_owned()
                } else {
                    format!("{there:.1}")
                },
                format!("{:.2}", fitted.mbps(rtt_ms, percent)),
                format!("{:.2}", observed[delay][at]),
            ]);
        }
    }
    let mut section = table.section("table 1");
    let _ = writeln!(
        section.markdown,
        "\nLeast squares of the relative errors: C = {:.2} for the simulator, {:.2} for what the thesis \
         observed; the thesis chose {constant}, the nearer of two.",
        fitted.constant, of_thesis.constant
    );
    (section, fitted)
}

impl Tables<'_> {
    /// Every table of the thesis' size.
    pub(crate) fn whole(&self) -> Vec<Section> {
        let levels = || self.thesis.level.iter().enumerate();
        let mut sections = vec![self.summary()];
        sections.extend(levels().map(|(at, level)| {
            let columns = "| time of day | | standard, Mbit/s | h:mm:ss | without congestion control | \
                           h:mm:ss | advised | h:mm:ss | gain | inputs |";
            self.throughput(columns, at, |mbps_and_time| mbps_and_time)
                .section(&level.tables)
        }));
        sections.push(self.one_background());
        sections.push(self.two_background());
        sections.extend(levels().map(|(at, level)| self.history_sets(at, level)));
        sections
    }

    fn summary(&self) -> Section {
        let mut table = Table::new(
            "| | mean gain over standard FTP, % used at least: 45 % | 60 % | 75 % | others lose beside \
             standard FTP | advised | without congestion control |",
        );
        let in_order = |lost: [f64; 3]| BESIDE_OTHERS.map(|way| lost[way]);
        let gains = self.thesis.level.each_ref().map(|level| level.mean_gain);
        let lost = in_order(self.thesis.background_lost);
        table.row(&named("thesis", gains.into_iter().chain(lost).map(percent)));
        for (losses, addition) in [
            (Losses::Rounded, ""),
            (Losses::Exact, ", losses not rounded"),
        ] {
            for results in self.all {
                let gains = [0, 1, 2].map(|level| results.mean_gain(losses, level));
                let lost = in_order(results.mean_lost(losses, 1));
                let name = format!("{}{addition}", results.name);
                table.row(&named(&name, gains.into_iter().chain(lost).map(percent)));
            }
        }
        table.section("summary")
    }

    /// Tables 3 and 4, 6 and 7, 9 and 10; `of_way` are the cells of a transfer's throughput and time that have
    /// columns.
    pub(crate) fn throughput<const N: usize>(
        &self,
        columns: &str,
        level: usize,
        of_way: fn([String; 2]) -> [String; N],
    ) -> Table {
        let mut table = Table::new(columns);
        let mut row = |first: &str, name: &str, ways: [[String; 2]; 3], gain: f64, inputs: &str| {
            let mut cells = vec![first.to_owned(), name.to_owned()];
            cells.extend(ways.into_iter().flat_map(of_way));
            cells.extend([percent(gain), inputs.to_owned()]);
            table.row(&cells);
        };
        let thesis = &self.thesis.level[level];
        for (time, name) in TIMES.into_iter().enumerate() {
            let rates = [
                thesis.standard[time],
                thesis.nocc[time],
                thesis.advised[time][0],
            ];
            let ways = [0, 1, 2].map(|way| [mbps(rates[way]), thesis.took[time][way].clone()]);
            row(
                name,
                "thesis",
                ways,
                thesis.gain[time],
                &thesis.inputs[time][0],
            );
            for results in self.all {
                if let Some(ways) = results.ways(Case::at(0, level, time, Losses::Rounded)) {
                    let inputs = &ways[2].inputs;
                    let cells = ways.map(|way| [mbps(way.mbps), clock(way.seconds)]);
                    row("", &results.name, cells, gain(ways), inputs);
                }
            }
        }
        let nothing = || [const { [const { String::new() }; 2] }; 3];
        row("mean", "thesis", nothing(), thesis.mean_gain, "");
        for results in self.all {
            let gain = results.mean_gain(Losses::Rounded, level);
            row("", &results.name, nothing(), gain, "");
        }
        table
    }

    /// Tables 13 and 14.
    fn one_background(&self) -> Section {
        let mut table = Table::new(
            "| time of day | | beside standard FTP: FTP / other | other loses | beside advised | other \
             loses | beside FTP without congestion control | other loses |",
        );
        let thesis = self.thesis;
        let mut row = |first: &str, name: &str, alone: f64, pairs: [(f64, f64); 3]| {
            let cells = pairs
                .into_iter()
                .flat_map(|(ftp, other)| pair(ftp, other, Some(alone)));
            table.row(&named(first, named(name, cells)));
        };
        for (time, name) in TIMES.into_iter().enumerate() {
            let pairs = thesis.one_background[time];
            row(name, "thesis", thesis.background_alone, pairs);
            for results in self.all {
                let ways = results.ways(Case::at(1, 0, time, Losses::Rounded));
                if let (Some(ways), Some(alone)) = (ways, results.alone[0]) {
                    let pairs = BESIDE_OTHERS.map(|way| (ways[way].mbps, ways[way].others_mbps[0]));
                    row("", &results.name, alone, pairs);
                }
            }
        }
        let mut means = |first: &str, name: &str, lost: [f64; 3]| {
            let cells = BESIDE_OTHERS
                .into_iter()
                .flat_map(|way| [String::new(), percent(lost[way])]);
            table.row(&named(first, named(name, cells)));
        };
        means("mean", "thesis", thesis.background_lost);
        for results in self.all {
            means("", &results.name, results.mean_lost(Losses::Rounded, 1));
        }
        let mut section = table.section("tables 13 and 14");
        let here = self.all.first().and_then(|results| results.alone[0]);
        let _ = writeln!(
            section.markdown,
            "\nAlone, the other connection has {} Mbit/s in the thesis{}.",
            thesis.background_alone,
            here.map_or(String::new(), |alone| format!(", {} here", mbps(alone)))
        );
        section
    }

    /// Tables 17 and 18.
    fn two_background(&self) -> Section {
        let mut table = Table::new(
            "| time of day | | standard FTP / other 1 / other 2 | advised | without congestion control |",
        );
        let three = |(ftp, one, two): (f64, f64, f64)| [ftp, one, two].map(mbps).join(" / ");
        for (time, name) in TIMES.into_iter().enumerate() {
            let cells = self.thesis.two_background[time].map(three);
            table.row(&named(name, named("thesis", cells)));
            for results in self.all {
                if let Some(ways) = results.ways(Case::at(2, 0, time, Losses::Rounded)) {
                    let cells = BESIDE_OTHERS.map(|way| {
                        let Transfer {
                            mbps, others_mbps, ..
                        } = ways[way];
                        three((*mbps, others_mbps[0], others_mbps[1]))
                    });
                    table.row(&named("", named(&results.name, cells)));
                }
            }
        }
        table.section("tables 17 and 18")
    }

    /// Tables 20 and 21, 23 and 24, 26 and 27.
    fn history_sets(&self, at: usize, level: &Level) -> Section {
        let mut table = Table::new(
            "| time of day | | all history, Mbit/s | same weekday | last week | inputs: all history | \
             same weekday | last week |",
        );
        for (time, name) in TIMES.into_iter().enumerate() {
            let cells = level.advised[time].into_iter().map(mbps);
            let cells = cells.chain(level.inputs[time].iter().cloned());
            table.row(&named(name, named("thesis", cells)));
            for results in self.all {
                let found = HISTORY_SETS.map(|set| {
                    let case = Case::at(0, at, time, Losses::Rounded);
                    let way = Way::Advised(set);
                    results.find(Case { way, ..case })
                });
                let rates = found.map(|t| t.map_or(String::new(), |t| mbps(t.mbps)));
                let inputs = found.map(|t| t.map_or(String::new(), |t| t.inputs.clone()));
                table.row(&named("", named(&results.name, [rates, inputs].concat())));
            }
        }
        table.section(&level.history_tables)
    }
}

/// A row that begins with a name.
pub(crate) fn named(name: &str, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(cells).collect()
}

/// Throughput of FTP and of the others beside it, and what these lose of what they have alone.
pub(crate) fn pair(ftp: f64, others: f64, alone: Option<f64>) -> [String; 2] {
    let lost = alone.map(|alone| percent(lost(alone, others)));
    [
        format!("{} / {}", mbps(ftp), mbps(others)),
        lost.unwrap_or_default(),
    ]
}

pub(crate) fn gain([standard, _, advised]: [&Transfer; 3]) -> f64 {
    100.0 * (advised.mbps / standard.mbps - 1.0)
}

fn lost(alone: f64, beside: f64) -> f64 {
    100.0 * (1.0 - beside / alone)
}

pub(crate) fn mbps(mbps: f64) -> String {
    format!("{mbps:.2}")
}

pub(crate) fn percent(percent: f64) -> String {
    if percent.is_nan() {
        return "-".to_owned();
    }
    format!("{percent:.1} %")
}

fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours}:{minutes:02}:{:02}", seconds % 60)
}

/// The mean; NaN without values.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_and_losses_are_means_over_the_times_of_day() {
        let moved = |others, time, way, mbps, others_mbps| Transfer {
            case: Case {
                way,
                ..Case::at(others, 0, time, Losses::Rounded)
            },
            mbps,
            seconds: 0.0,
            others_mbps: vec![others_mbps],
            inputs: String::new(),
        };
        let mut transfers = Vec::new();
        for (time, advised, beside) in [(0, 50.0, 40.0), (1, 70.0, 20.0)] {
            for others in 0..=1 {
                transfers.push(moved(others, time, WAYS[0], 50.0, 60.0));
                transfers.push(moved(others, time, WAYS[1], 70.0, 20.0));
                transfers.push(moved(others, time, WAYS[2], advised, beside));
            }
        }
        let results = Results {
            name: "lab".to_owned(),
            transfers,
            alone: [Some(80.0), None],
        };
        // 0 % and 40 %; a quarter, three quarters, and between.
        assert!((results.mean_gain(Losses::Rounded, 0) - 20.0).abs() < 1e-9);
        let lost = results.mean_lost(Losses::Rounded, 1);
        assert_eq!(lost, [25.0, 75.0, 62.5]);
        assert!(results.mean_gain(Losses::Exact, 0).is_nan());
    }
}
