//! The tables of the scaled-down tests: in each row the thesis, the simulator and the lab.

use super::moved::Moved;
use super::{Case, Engine};
use crate::dccs::relation::Relation;
use crate::dccs::tables::{loss, mbps, mean, percent, time_of_day};
use crate::dccs::thesis::{BACKGROUND_ALONE, LEVELS, ONE_BACKGROUND, TIMES, TWO_BACKGROUND};
use crate::demo::story::Way;
use crate::page::Section;
use crate::table::Table;

/// In the order of the columns.
const WAYS: [Way; 3] = [Way::Standard, Way::Nocc, Way::Advised];
const ENGINES: [(Engine, &str); 2] = [(Engine::Sim, "simulator"), (Engine::Lab, "lab")];
/// The tables of each level.
const NAMES: [&str; 3] = ["lab 45", "lab 60", "lab 75"];
/// The thesis' mean loss of throughput of one other connection, percent, in the order of [`WAYS`].
const LOST: [f64; 3] = [37.46, 75.30, 57.65];

/// Every table that has tests.
pub fn all(moved: &[Moved], relation_here: Relation) -> Vec<Section> {
    let all = All(moved);
    let mut sections = vec![summary(&all), constant(relation_here)];
    for (level, name) in NAMES.into_iter().enumerate() {
        sections.push(throughput(&all, level, name));
    }
    sections.push(beside(&all));
    sections
}

struct All<'a>(&'a [Moved]);

impl All<'_> {
    fn find(
        &self,
        engine: Engine,
        others: usize,
        level: usize,
        time: usize,
        way: Way,
    ) -> Option<&Moved> {
        let case = Case {
            engine,
            others,
            level,
            time,
            way,
        };
        self.0.iter().find(|moved| moved.case == case)
    }

    fn ways(
        &self,
        engine: Engine,
        others: usize,
        level: usize,
        time: usize,
    ) -> Option<[&Moved; 3]> {
        let [standard, nocc, advised] = WAYS.map(|way| self.find(engine, others, level, time, way));
        Some([standard?, nocc?, advised?])
    }

    fn gains(&self, engine: Engine, level: usize) -> Vec<f64> {
        let gain = |time| {
            let [standard, _, advised] = self.ways(engine, 0, level, time)?;
            Some(gain(standard, advised))
        };
        (0..TIMES.len()).filter_map(gain).collect()
    }

    /// The throughput of this number of others alone, Mbit/s.
    fn alone(&self, engine: Engine, others: usize) -> Option<f64> {
        let alone = self.find(engine, others, 0, 0, Way::Nobody)?;
        Some(alone.others_mbps)
    }

    /// The others' loss of throughput at each time of day, percent.
    fn lost(&self, engine: Engine, others: usize, way: usize) -> Vec<f64> {
        let lost = |time| {
            let beside = self.ways(engine, others, 0, time)?[way].others_mbps;
            Some(loss(self.alone(engine, others)?, beside))
        };
        (0..TIMES.len()).filter_map(lost).collect()
    }
}

fn gain(standard: &Moved, advised: &Moved) -> f64 {
    100.0 * (advised.mbps / standard.mbps - 1.0)
}

fn summary(all: &All<'_>) -> Section {
    let mut table = Table::new(
        "| | mean gain over standard FTP, % used at least: 45 % | 60 % | 75 % | one other loses beside \
         standard FTP | without congestion control | advised | alone it has, Mbit/s |",
    );
    let mut thesis = vec!["thesis, whole size".to_owned()];
    thesis.extend(LEVELS.iter().map(|level| percent(level.mean_gain)));
    thesis.extend(LOST.map(percent));
    thesis.push(mbps(BACKGROUND_ALONE));
    table.row(&thesis);
    for (engine, name) in ENGINES {
        let mut cells = vec![name.to_owned()];
        cells.extend([0, 1, 2].map(|level| percent(mean(all.gains(engine, level)))));
        cells.extend([0, 1, 2].map(|way| percent(mean(all.lost(engine, 1, way)))));
        cells.push(all.alone(engine, 1).map_or("-".to_owned(), mbps));
        table.row(&cells);
    }
    table.section("lab summary")
}

fn constant(relation_here: Relation) -> Section {
    let text = format!(
        "C = {:.2}, fitted as in Table 1 to the simulator with the TCP of Linux 6.\n",
        relation_here.constant
    );
    Section::text("lab constant", text)
}

/// Tables 3 and 4, 6 and 7, 9 and 10.
fn throughput(all: &All<'_>, level: usize, part: &str) -> Section {
    let mut table = Table::new(
        "| time of day | | standard, Mbit/s | without congestion control | advised | gain | inputs |",
    );
    let of_thesis = &LEVELS[level];
    for time in 0..TIMES.len() {
        table.row(&[
            time_of_day(time),
            "thesis".to_owned(),
            mbps(of_thesis.standard[time]),
            mbps(of_thesis.nocc[time]),
            mbps(of_thesis.advised[time][0]),
            percent(of_thesis.gain[time]),
            of_thesis.inputs[time][0].to_owned(),
        ]);
        for (engine, name) in ENGINES {
            let Some(ways) = all.ways(engine, 0, level, time) else {
                continue;
            };
            let [standard, _, advised] = ways;
            let mut cells = vec![String::new(), name.to_owned()];
            cells.extend(ways.map(|moved| mbps(moved.mbps)));
            cells.push(percent(gain(standard, advised)));
            cells.push(advised.inputs.clone());
            table.row(&cells);
        }
    }
    let mut row = |first: &str, name: &str, gain: f64| {
        let mut cells = vec![String::new(); 7];
        (cells[0], cells[1]) = (first.to_owned(), name.to_owned());
        cells[5] = percent(gain);
        table.row(&cells);
    };
    row("mean", "thesis", of_thesis.mean_gain);
    for (engine, name) in ENGINES {
        row("", name, mean(all.gains(engine, level)));
    }
    table.section(part)
}

/// Tables 13 and 14, 17 and 18; for two others their sum.
fn beside(all: &All<'_>) -> Section {
    let mut table = Table::new(
        "| others | time of day | | beside standard FTP: FTP / others | others lose | beside FTP without \
         congestion control | others lose | beside advised | others lose |",
    );
    for others in 1..=2 {
        for time in 0..TIMES.len() {
            let mut cells = vec![others.to_string(), time_of_day(time), "thesis".to_owned()];
            cells.extend(of_thesis(others, time));
            table.row(&cells);
            for (engine, name) in ENGINES {
                let ways = all.ways(engine, others, 0, time);
                let (Some(ways), Some(alone)) = (ways, all.alone(engine, others)) else {
                    continue;
                };
                let mut cells = vec![String::new(), String::new(), name.to_owned()];
                for moved in ways {
                    cells.push(pair(moved.mbps, moved.others_mbps));
                    cells.push(percent(loss(alone, moved.others_mbps)));
                }
                table.row(&cells);
            }
        }
        let mut first = vec![others.to_string(), "mean".to_owned()];
        for (engine, name) in ENGINES {
            let mut cells = std::mem::replace(&mut first, vec![String::new(), String::new()]);
            cells.push(name.to_owned());
            for way in 0..WAYS.len() {
                cells.extend([String::new(), percent(mean(all.lost(engine, others, way)))]);
            }
            table.row(&cells);
        }
    }
    table.section("lab others")
}

/// The thesis does not give the throughput of two others alone.
fn of_thesis(others: usize, time: usize) -> Vec<String> {
    let order = [0, 2, 1];
    let cells = order.map(|way| match others {
        1 => {
            let (ftp, other) = ONE_BACKGROUND[time][way];
            [pair(ftp, other), percent(loss(BACKGROUND_ALONE, other))]
        }
        _ => {
            let (ftp, one, two) = TWO_BACKGROUND[time][way];
            [pair(ftp, one + two), String::new()]
        }
    });
    cells.into_iter().flatten().collect()
}

fn pair(ftp: f64, others: f64) -> String {
    format!("{} / {}", mbps(ftp), mbps(others))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_and_losses_are_means_over_the_times_of_day() {
        let moved = |others, time, way, mbps, others_mbps| Moved {
            case: Case {
                engine: Engine::Lab,
                others,
                level: 0,
                time,
                way,
            },
            mbps,
            others_mbps,
            inputs: String::new(),
            retransmits: 0.0,
        };
        let mut all = vec![moved(1, 0, Way::Nobody, 0.0, 80.0)];
        for (time, advised, beside) in [(0, 50.0, 40.0), (1, 70.0, 20.0)] {
            for others in 0..=1 {
                all.push(moved(others, time, Way::Standard, 50.0, 60.0));
                all.push(moved(others, time, Way::Nocc, 70.0, 20.0));
                all.push(moved(others, time, Way::Advised, advised, beside));
            }
        }
        let all = All(&all);
        // 0 % and 40 %; a quarter, three quarters, and between.
        assert!((mean(all.gains(Engine::Lab, 0)) - 20.0).abs() < 1e-9);
        let lost = [0, 1, 2].map(|way| mean(all.lost(Engine::Lab, 1, way)));
        assert_eq!(lost, [25.0, 75.0, 62.5]);
        assert!(mean(all.gains(Engine::Sim, 0)).is_nan());
    }
}
