//! The tables of the scaled-down tests: in each row the thesis, the simulator and the lab.

use crate::dccs::case::{Case, TIMES};
use crate::dccs::relation::{Losses, Relation};
use crate::dccs::tables::{Tables, mbps, named, pair, percent};
use crate::page::Section;
use crate::table::Table;

/// Every table that has tests.
pub(crate) fn all(tables: &Tables<'_>, relation_here: Relation) -> Vec<Section> {
    let mut sections = vec![summary(tables), constant(relation_here)];
    sections.extend(tables.thesis.level.iter().enumerate().map(|(at, level)| {
        let columns =
            "| time of day | | standard, Mbit/s | without congestion control | advised | gain | inputs |";
        let table = tables.throughput(columns, at, |[mbps, _]| [mbps]);
        table.section(format!("lab {}", level.used_percent))
    }));
    sections.push(beside(tables));
    sections
}

fn summary(tables: &Tables<'_>) -> Section {
    let mut table = Table::new(
        "| | mean gain over standard FTP, % used at least: 45 % | 60 % | 75 % | one other loses beside \
         standard FTP | without congestion control | advised | alone it has, Mbit/s |",
    );
    let mut row = |name: &str, gains: [f64; 3], lost: [f64; 3], alone: Option<f64>| {
        let cells = gains.into_iter().chain(lost).map(percent);
        let alone = alone.map_or("-".to_owned(), mbps);
        table.row(&named(name, cells.chain([alone])));
    };
    let thesis = tables.thesis;
    let gains = thesis.level.each_ref().map(|level| level.mean_gain);
    let (lost, alone) = (thesis.background_lost, thesis.background_alone);
    row("thesis, whole size", gains, lost, Some(alone));
    for results in tables.all {
        let gains = [0, 1, 2].map(|level| results.mean_gain(Losses::Rounded, level));
        let lost = results.mean_lost(Losses::Rounded, 1);
        row(&results.name, gains, lost, results.alone[0]);
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

/// Tables 13 and 14, 17 and 18; for two others their sum.
fn beside(tables: &Tables<'_>) -> Section {
    let mut table = Table::new(
        "| others | time of day | | beside standard FTP: FTP / others | others lose | beside FTP without \
         congestion control | others lose | beside advised | others lose |",
    );
    let mut row = |others: &str, time: &str, name: &str, cells: [[String; 2]; 3]| {
        let cells = named(time, named(name, cells.into_iter().flatten()));
        table.row(&named(others, cells));
    };
    for others in 1..=2 {
        let number = others.to_string();
        for (time, name) in TIMES.into_iter().enumerate() {
            row(&number, name, "thesis", of_thesis(tables, others, time));
            for results in tables.all {
                let ways = results.ways(Case::at(others, 0, time, Losses::Rounded));
                if let (Some(ways), Some(alone)) = (ways, results.alone[others - 1]) {
                    let cells = ways.map(|way| pair(way.mbps, way.others_mbps[0], Some(alone)));
                    row("", "", &results.name, cells);
                }
            }
        }
        for (at, results) in tables.all.iter().enumerate() {
            let lost = results.mean_lost(Losses::Rounded, others);
            let cells = lost.map(|lost| [String::new(), percent(lost)]);
            let (others, mean) = if at == 0 {
                (number.as_str(), "mean")
            } else {
                ("", "")
            };
            row(others, mean, &results.name, cells);
        }
    }
    table.section("lab others")
}

/// The thesis does not give the throughput of two others alone.
fn of_thesis(tables: &Tables<'_>, others: usize, time: usize) -> [[String; 2]; 3] {
    let thesis = tables.thesis;
    [0, 2, 1].map(|way| {
        if others == 1 {
            let (ftp, other) = thesis.one_background[time][way];
            return pair(ftp, other, Some(thesis.background_alone));
        }
        let (ftp, one, two) = thesis.two_background[time][way];
        pair(ftp, one + two, None)
    })
}
