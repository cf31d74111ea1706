//! The tables of the page: in each row the thesis, and below it the results of each series.

use std::fmt::Write;

use fairwind_advice::HistorySet;

use super::bench::Transfer;
use super::case::{Case, Way};
use super::relation::{Losses, Relation};
use super::series::Series;
use super::thesis::{
    BACKGROUND_ALONE, CONSTANT, LEVELS, Level, OBSERVED, ONE_BACKGROUND, TIMES, TWO_BACKGROUND,
};
use crate::page::Section;
use crate::table::Table;

/// The three ways of Tables 3 to 18.
const WAYS: [Way; 3] = [Way::Standard, Way::Advised(HistorySet::All), Way::Nocc];
/// The history sets of Tables 20 to 27.
pub const HISTORY_SETS: [HistorySet; 3] = [
    HistorySet::All,
    HistorySet::SameWeekday,
    HistorySet::LastDays(7),
];

/// The transfers over one series.
pub struct Done<'a> {
    pub series: &'a Series,
    pub transfers: Vec<Transfer>,
    /// Throughput of a background connection alone, Mbit/s.
    pub background_alone: f64,
}

impl Done<'_> {
    fn find(&self, case: Case) -> Option<&Transfer> {
        self.transfers.iter().find(|transfer| transfer.case == case)
    }

    /// Standard, advised and without congestion control.
    fn ways(&self, others: usize, level: usize, time: usize) -> Option<[&Transfer; 3]> {
        self.ways_with(Losses::Rounded, others, level, time)
    }

    fn ways_with(
        &self,
        losses: Losses,
        others: usize,
        level: usize,
        time: usize,
    ) -> Option<[&Transfer; 3]> {
        let [standard, advised, nocc] = WAYS.map(|way| {
            self.find(Case {
                others,
                level,
                time,
                way,
                losses,
            })
        });
        Some([standard?, advised?, nocc?])
    }
}

/// Every table that has transfers.
pub fn all(done: &[Done<'_>]) -> Vec<Section> {
    let mut sections = vec![summary(done)];
    for level in 0..LEVELS.len() {
        sections.push(throughput(done, level));
    }
    sections.push(one_background(done));
    sections.push(two_background(done));
    for level in 0..LEVELS.len() {
        sections.push(history_sets(done, level));
    }
    sections
}

/// Fits the constant to the throughputs of Table 1, observed or in their place, at delays of 25 and 50 ms,
/// Mbit/s.
pub fn fit(observed: [[Option<f64>; 4]; 2]) -> Relation {
    let unit = Relation { constant: 1.0 };
    let mut cells = Vec::new();
    for (row, rtt_ms) in observed.iter().zip([25.0, 50.0]) {
        for (value, percent) in row.iter().zip([1.0, 2.0, 3.0, 4.0]) {
            cells.extend(value.map(|value| (unit.mbps(rtt_ms, percent), value)));
        }
    }
    Relation::fit(&cells)
}

/// Table 1 and the constant that follows from it, with the simulator's throughputs at delays of 25 and 50 ms.
pub fn table_1(observed: [[f64; 4]; 2]) -> (Section, Relation) {
    let fitted = fit(observed.map(|row| row.map(Some)));
    let of_thesis = fit(OBSERVED);
    let mut table = Table::new(&format!(
        "| loss | delay | thesis: from C = {CONSTANT} | thesis: observed | from C = {:.2} | simulator |",
        fitted.constant
    ));
    for (delay, rtt_ms) in [25.0, 50.0].into_iter().enumerate() {
        for (at, percent) in [1.0, 2.0, 3.0, 4.0].into_iter().enumerate() {
            let thesis = Relation { constant: CONSTANT };
            table.row(&[
                format!("{percent} %"),
                format!("{rtt_ms} ms"),
                format!("{:.2}", thesis.mbps(rtt_ms, percent)),
                OBSERVED[delay][at].map_or("lost".to_owned(), |mbps| format!("{mbps:.1}")),
                format!("{:.2}", fitted.mbps(rtt_ms, percent)),
                format!("{:.2}", observed[delay][at]),
            ]);
        }
    }
    let mut section = table.section("table 1");
    let _ = writeln!(
        section.markdown,
        "\nLeast squares of the relative errors: C = {:.2} for the simulator, {:.2} for what the thesis \
         observed; the thesis chose {CONSTANT}, the nearer of two.",
        fitted.constant, of_thesis.constant
    );
    (section, fitted)
}

fn summary(done: &[Done<'_>]) -> Section {
    let mut table = Table::new(
        "| | mean gain over standard FTP, % used at least: 45 % | 60 % | 75 % | others lose beside \
         standard FTP | advised | without congestion control |",
    );
    table.row(&[
        "thesis".to_owned(),
        percent(LEVELS[0].mean_gain),
        percent(LEVELS[1].mean_gain),
        percent(LEVELS[2].mean_gain),
        percent(37.46),
        percent(57.65),
        percent(75.30),
    ]);
    let rows = [
        (Losses::Rounded, ""),
        (Losses::Exact, ", losses not rounded"),
    ];
    for (losses, addition) in rows {
        for done in done {
            let gains = [0, 1, 2].map(|level| mean(gains(done, losses, level)));
            let lost = [0, 1, 2].map(|way| mean(others_lost(done, losses, way)));
            let cells = gains.into_iter().chain(lost).map(percent);
            let name = format!("{}{addition}", done.series.name);
            table.row(&[vec![name], cells.collect()].concat());
        }
    }
    table.section("summary")
}

/// The gain of advised over standard FTP at each time of day, percent.
fn gains(done: &Done<'_>, losses: Losses, level: usize) -> Vec<f64> {
    let gain = |time| {
        let [standard, advised, _] = done.ways_with(losses, 0, level, time)?;
        Some(100.0 * (advised.mbps / standard.mbps - 1.0))
    };
    (0..TIMES.len()).filter_map(gain).collect()
}

/// One background connection's loss of throughput at each time of day, percent.
fn others_lost(done: &Done<'_>, losses: Losses, way: usize) -> Vec<f64> {
    let loss = |time| {
        let other = done.ways_with(losses, 1, 0, time)?[way].others_mbps[0];
        Some(loss(done.background_alone, other))
    };
    (0..TIMES.len()).filter_map(loss).collect()
}

pub fn loss(alone: f64, beside: f64) -> f64 {
    100.0 * (1.0 - beside / alone)
}

/// Tables 3 and 4, 6 and 7, 9 and 10.
fn throughput(done: &[Done<'_>], level: usize) -> Section {
    let mut table = Table::new(
        "| time of day | | standard, Mbit/s | h:mm:ss | without congestion control | h:mm:ss | \
         advised | h:mm:ss | gain | inputs |",
    );
    for time in 0..TIMES.len() {
        thesis_throughput(&mut table, &LEVELS[level], time);
        for done in done {
            let Some([standard, advised, nocc]) = done.ways(0, level, time) else {
                continue;
            };
            let mut cells = vec![String::new(), done.series.name.to_owned()];
            for transfer in [standard, nocc, advised] {
                cells.extend([mbps(transfer.mbps), clock(transfer.seconds)]);
            }
            cells.push(percent(100.0 * (advised.mbps / standard.mbps - 1.0)));
            cells.push(advised.inputs.clone());
            table.row(&cells);
        }
    }
    mean_gains(&mut table, done, level);
    table.section(LEVELS[level].tables)
}

fn thesis_throughput(table: &mut Table, level: &Level, time: usize) {
    let [standard, nocc, advised] = level.took[time].map(str::to_owned);
    table.row(&[
        time_of_day(time),
        "thesis".to_owned(),
        mbps(level.standard[time]),
        standard,
        mbps(level.nocc[time]),
        nocc,
        mbps(level.advised[time][0]),
        advised,
        percent(level.gain[time]),
        level.inputs[time][0].to_owned(),
    ]);
}

fn mean_gains(table: &mut Table, done: &[Done<'_>], level: usize) {
    let mut row = |first: &str, name: &str, gain: f64| {
        let mut cells = vec![String::new(); 10];
        cells[0] = first.to_owned();
        cells[1] = name.to_owned();
        cells[8] = percent(gain);
        table.row(&cells);
    };
    row("mean", "thesis", LEVELS[level].mean_gain);
    for done in done {
        row(
            "",
            done.series.name,
            mean(gains(done, Losses::Rounded, level)),
        );
    }
}

/// Tables 13 and 14.
fn one_background(done: &[Done<'_>]) -> Section {
    let mut table = Table::new(
        "| time of day | | beside standard FTP: FTP / other | other loses | beside advised | other \
         loses | beside FTP without congestion control | other loses |",
    );
    let row = |table: &mut Table, first: &str, name: &str, alone: f64, pairs: [(f64, f64); 3]| {
        let mut cells = vec![first.to_owned(), name.to_owned()];
        for (ftp, other) in pairs {
            cells.push(format!("{} / {}", mbps(ftp), mbps(other)));
            cells.push(percent(loss(alone, other)));
        }
        table.row(&cells);
    };
    for (time, pairs) in ONE_BACKGROUND.into_iter().enumerate() {
        row(
            &mut table,
            &time_of_day(time),
            "thesis",
            BACKGROUND_ALONE,
            pairs,
        );
        for done in done {
            if let Some(ways) = done.ways(1, 0, time) {
                let pairs = ways.map(|transfer| (transfer.mbps, transfer.others_mbps[0]));
                row(
                    &mut table,
                    "",
                    done.series.name,
                    done.background_alone,
                    pairs,
                );
            }
        }
    }
    let mut means = |first: &str, name: &str, losses: [f64; 3]| {
        let mut cells = vec![first.to_owned(), name.to_owned()];
        cells.extend(
            losses
                .into_iter()
                .flat_map(|loss| [String::new(), percent(loss)]),
        );
        table.row(&cells);
    };
    means("mean", "thesis", [37.46, 57.65, 75.30]);
    for done in done {
        means(
            "",
            done.series.name,
            [0, 1, 2].map(|way| mean(others_lost(done, Losses::Rounded, way))),
        );
    }
    let mut section = table.section("tables 13 and 14");
    let _ = writeln!(
        section.markdown,
        "\nAlone, the other connection has {BACKGROUND_ALONE} Mbit/s in the thesis{}.",
        done.first().map_or(String::new(), |done| {
            format!(", {} here", mbps(done.background_alone))
        })
    );
    section
}

/// Tables 17 and 18.
fn two_background(done: &[Done<'_>]) -> Section {
    let mut table = Table::new(
        "| time of day | | standard FTP / other 1 / other 2 | advised | without congestion control |",
    );
    let three =
        |(ftp, one, two): (f64, f64, f64)| format!("{} / {} / {}", mbps(ftp), mbps(one), mbps(two));
    for (time, ways) in TWO_BACKGROUND.into_iter().enumerate() {
        let cells = ways.map(three);
        table.row(&[vec![time_of_day(time), "thesis".to_owned()], cells.to_vec()].concat());
        for done in done {
            if let Some(ways) = done.ways(2, 0, time) {
                let cells = ways.map(|t| three((t.mbps, t.others_mbps[0], t.others_mbps[1])));
                let names = vec![String::new(), done.series.name.to_owned()];
                table.row(&[names, cells.to_vec()].concat());
            }
        }
    }
    table.section("tables 17 and 18")
}

/// Tables 20 and 21, 23 and 24, 26 and 27.
fn history_sets(done: &[Done<'_>], level: usize) -> Section {
    let mut table = Table::new(
        "| time of day | | all history, Mbit/s | same weekday | last week | inputs: all history | \
         same weekday | last week |",
    );
    for time in 0..TIMES.len() {
        let level_of_thesis = &LEVELS[level];
        let mut cells = vec![time_of_day(time), "thesis".to_owned()];
        cells.extend(level_of_thesis.advised[time].map(mbps));
        cells.extend(level_of_thesis.inputs[time].map(str::to_owned));
        table.row(&cells);
        for done in done {
            let found = HISTORY_SETS.map(|set| {
                done.find(Case {
                    others: 0,
                    level,
                    time,
                    way: Way::Advised(set),
                    losses: Losses::Rounded,
                })
            });
            let mut cells = vec![String::new(), done.series.name.to_owned()];
            cells.extend(found.map(|t| t.map_or(String::new(), |t| mbps(t.mbps))));
            cells.extend(found.map(|t| t.map_or(String::new(), |t| t.inputs.clone())));
            table.row(&cells);
        }
    }
    table.section(LEVELS[level].history_tables)
}

pub fn time_of_day(time: usize) -> String {
    let (hour, minute) = TIMES[time];
    format!("{hour:02}:{minute:02}")
}

pub fn mbps(mbps: f64) -> String {
    format!("{mbps:.2}")
}

pub fn percent(percent: f64) -> String {
    match percent.is_nan() {
        true => "-".to_owned(),
        false => format!("{percent:.1} %"),
    }
}

fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    format!(
        "{}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// The mean; NaN without values.
pub fn mean(values: Vec<f64>) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
