//! The tables of the page: the thesis, and below each of its rows our results.

use std::fmt::Write;

use super::case::{Case, HISTORY_SETS, Losses, TIMES};
use super::relation::Relation;
use super::results::{Results, Transfer, lost};
use super::thesis::{Level, Thesis};
use crate::demo::story::Way;
use crate::page::Section;
use crate::table::Table;

/// The order of these in the thesis' tables of background connections.
const BESIDE_OTHERS: [usize; 3] = [0, 2, 1];
/// The way that the thesis does not have.
const OURS: Way = Way::Background;

/// The tables of the page, of transfers of the thesis' size or scaled down.
pub(crate) struct Tables<'a> {
    pub thesis: &'a Thesis,
    /// The thesis' first.
    pub all: &'a [Results<'a>],
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
        "loss | delay | thesis: from C = {constant} | thesis: observed | from C = {:.2} | simulator",
        fitted.constant
    ));
    for (delay, rtt_ms) in [25.0, 50.0].into_iter().enumerate() {
        for (at, percent) in [1.0, 2.0, 3.0, 4.0].into_iter().enumerate() {
            let there = thesis.observed[delay][at];
            table.row([
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
            let columns = "time of day | | standard, Mbit/s | h:mm:ss | without congestion control | \
                           h:mm:ss | advised | h:mm:ss | gain | inputs";
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
            " | mean gain over standard FTP of advised, % used at least: 45 % | 60 % | 75 % | of ours: 45 % | \
             60 % | 75 % | one other loses beside standard FTP | advised | without congestion control | ours | \
             ours, strict | two others lose beside standard FTP | advised | without congestion control | ours | \
             ours, strict",
        );
        let mut row = |results: &Results, losses, addition: &str| {
            let lost = [1, 2].map(|others| self.lost_beside(results, losses, others));
            let gains = results.mean_gains(losses).into_iter();
            let gains = gains.chain(results.mean_gains_by(OURS, losses));
            let cells = gains.chain(lost.into_iter().flatten());
            let name = format!("{}{addition}", results.name);
            table.row(named(&name, cells.map(percent)));
        };
        for results in self.all {
            row(results, Losses::Rounded, "");
        }
        for results in &self.all[1..] {
            row(results, Losses::Exact, ", losses not rounded");
        }
        table.section("summary")
    }

    /// What others lose beside each way that has a column, percent.
    fn lost_beside(&self, results: &Results, losses: Losses, others: usize) -> [f64; 5] {
        let [standard, nocc, advised] = results.mean_lost(losses, others);
        let ours = results.mean_lost_by(Case::ours, losses, others);
        let strict = results.mean_lost_by(Case::strict, losses, others);
        [standard, advised, nocc, ours, strict]
    }

    /// Adds a row for each of the results that have cells; `first` begins the first of them.
    fn rows(
        &self,
        table: &mut Table,
        first: &str,
        cells: impl Fn(&Results) -> Option<Vec<String>>,
    ) {
        for (at, results) in self.all.iter().enumerate() {
            if let Some(cells) = cells(results) {
                let first = if at == 0 { first } else { "" };
                table.row(named(first, named(&results.name, cells)));
            }
        }
    }

    /// A table with such rows for each time of day.
    fn by_time(
        &self,
        columns: &str,
        cells: impl Fn(&Results, usize) -> Option<Vec<String>>,
    ) -> Table {
        let mut table = Table::new(columns);
        for (time, name) in TIMES.into_iter().enumerate() {
            self.rows(&mut table, name, |results| cells(results, time));
        }
        table
    }

    /// Whether there are transfers by our way.
    fn has_ours(&self) -> bool {
        let mut transfers = self.all.iter().flat_map(|results| &results.transfers);
        transfers.any(|transfer| transfer.case.way == OURS)
    }

    /// Tables 3 and 4, 6 and 7, 9 and 10, and ours; `of_way` are the cells of a transfer's throughput and time that
    /// have columns.
    pub(crate) fn throughput<const N: usize>(
        &self,
        columns: &str,
        level: usize,
        of_way: fn([String; 2]) -> [String; N],
    ) -> Table {
        let losses = Losses::Rounded;
        let has_ours = self.has_ours();
        let ours = if has_ours {
            " | ours | h:mm:ss | gain of ours"
        } else {
            ""
        };
        let mut table = self.by_time(&format!("{columns}{ours}"), |results, time| {
            let case = Case::at(0, level, time, losses);
            let ways = results.ways(case)?;
            let cells = ways.map(|way| of_way([mbps(way.mbps), clock(way.seconds)]));
            let gain = percent(results.gain(losses, level, time)?);
            let mut cells = [&cells.concat()[..], &[gain, ways[2].inputs.clone()]].concat();
            if has_ours {
                let of_ours = |ours: &Transfer| {
                    let gain = results.gain_by(OURS, losses, level, time);
                    [
                        mbps(ours.mbps),
                        clock(ours.seconds),
                        gain.map_or(String::new(), percent),
                    ]
                };
                let ours = results.find(case.by(OURS));
                cells.extend(ours.map_or(Default::default(), of_ours));
            }
            Some(cells)
        });
        self.rows(&mut table, "mean", |results| {
            let mut cells = vec![String::new(); 3 * N];
            cells.extend([percent(results.mean_gains(losses)[level]), String::new()]);
            if has_ours {
                let gain = results.mean_gains_by(OURS, losses)[level];
                cells.extend([String::new(), String::new(), percent(gain)]);
            }
            Some(cells)
        });
        table
    }

    /// Tables 13 and 14.
    fn one_background(&self) -> Section {
        let losses = Losses::Rounded;
        let mut table = self.by_time(
            "time of day | | beside standard FTP: FTP / other | other loses | beside advised | other \
             loses | beside FTP without congestion control | other loses | beside ours | other loses | \
             beside ours, strict | other loses",
            |results, time| {
                let case = Case::at(1, 0, time, losses);
                let ways = results.ways(case)?;
                let alone = Some(results.alone[0]?);
                let mut cells = BESIDE_OTHERS.map(|way| pair(ways[way], alone)).concat();
                for ours in [case.ours(), case.strict()].map(|case| results.find(case)) {
                    cells.extend(ours.map_or(Default::default(), |ours| pair(ours, alone)));
                }
                Some(cells)
            },
        );
        self.rows(&mut table, "mean", |results| {
            let lost = self.lost_beside(results, losses, 1).into_iter();
            Some(
                lost.flat_map(|lost| [String::new(), percent(lost)])
                    .collect(),
            )
        });
        let mut section = table.section("tables 13 and 14");
        let here = self.all.get(1).and_then(|results| results.alone[0]);
        let _ = writeln!(
            section.markdown,
            "\nAlone, the other connection has {} Mbit/s in the thesis{}.",
            self.thesis.background_alone,
            here.map_or(String::new(), |alone| format!(", {} here", mbps(alone)))
        );
        section
    }

    /// Tables 17 and 18.
    fn two_background(&self) -> Section {
        let losses = Losses::Rounded;
        let mut table = self.by_time(
            "time of day | | standard FTP / other 1 / other 2 | advised | without congestion control | ours | \
             ours, strict",
            |results, time| {
                let case = Case::at(2, 0, time, losses);
                let ways = results.ways(case)?;
                let three = |transfer: &Transfer| {
                    let others = &transfer.others_mbps;
                    [transfer.mbps, others[0], others[1]].map(mbps).join(" / ")
                };
                let ours = [case.ours(), case.strict()]
                    .map(|case| results.find(case).map_or(String::new(), three));
                let cells = BESIDE_OTHERS.map(|way| three(ways[way]));
                Some(cells.into_iter().chain(ours).collect())
            },
        );
        self.rows(&mut table, "others lose", |results| {
            Some(self.lost_beside(results, losses, 2).map(percent).to_vec())
        });
        let mut section = table.section("tables 17 and 18");
        if let Some(alone) = self.all.get(1).and_then(|results| results.alone[1]) {
            let _ = writeln!(
                section.markdown,
                "\nWithout the transfer, the two together have {} Mbit/s here; the thesis does not say.",
                mbps(alone)
            );
        }
        section
    }

    /// Tables 20 and 21, 23 and 24, 26 and 27.
    fn history_sets(&self, at: usize, level: &Level) -> Section {
        let table = self.by_time(
            "time of day | | all history, Mbit/s | same weekday | last week | inputs: all history | \
             same weekday | last week",
            |results, time| {
                let advised = Case::at(0, at, time, Losses::Rounded).by(Way::Advised);
                let found = HISTORY_SETS.map(|history| results.find(Case { history, ..advised }));
                let rates = found.map(|t| t.map_or(String::new(), |t| mbps(t.mbps)));
                let inputs = found.map(|t| t.map_or(String::new(), |t| t.inputs.clone()));
                Some([rates, inputs].concat())
            },
        );
        table.section(&level.history_tables)
    }
}

/// A row that begins with a name.
pub(crate) fn named(name: &str, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(cells).collect()
}

/// Throughput of FTP and of the others beside it, and what these lose of what they have alone.
pub(crate) fn pair(ftp: &Transfer, alone: Option<f64>) -> [String; 2] {
    let others: f64 = ftp.others_mbps.iter().sum();
    let lost = alone.map(|alone| percent(lost(alone, others)));
    [
        format!("{} / {}", mbps(ftp.mbps), mbps(others)),
        lost.unwrap_or_default(),
    ]
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
