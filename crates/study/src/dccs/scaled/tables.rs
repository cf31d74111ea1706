//! The tables of the scaled-down tests: in each row the thesis, the simulator and the lab.

use crate::dccs::case::{Case, Losses, TIMES};
use crate::dccs::relation::Relation;
use crate::dccs::tables::{Tables, mbps, named, pair, percent};
use crate::page::Section;
use crate::table::Table;

/// Every table that has tests.
pub(crate) fn all(tables: &Tables<'_>, relation_here: Relation) -> Vec<Section> {
    let mut sections = vec![summary(tables), constant(relation_here)];
    sections.extend(tables.thesis.level.iter().enumerate().map(|(at, level)| {
        let columns =
            "time of day | | standard, Mbit/s | without congestion control | advised | gain | inputs";
        let table = tables.throughput(columns, at, |[mbps, _]| [mbps]);
        table.section(format!("lab {}", level.used_percent))
    }));
    sections.push(beside(tables));
    sections
}

fn summary(tables: &Tables<'_>) -> Section {
    let mut table = Table::new(
        " | mean gain over standard FTP, % used at least: 45 % | 60 % | 75 % | one other loses beside \
         standard FTP | without congestion control | advised | alone it has, Mbit/s",
    );
    for results in tables.all {
        let whole = results.thesis.map_or("", |_| ", whole size");
        let losses = Losses::Rounded;
        let (gains, lost) = (results.mean_gains(losses), results.mean_lost(losses, 1));
        let cells = gains.into_iter().chain(lost).map(percent);
        let alone = results.alone[0].map_or("-".to_owned(), mbps);
        let name = format!("{}{whole}", results.name);
        table.row(named(&name, cells.chain([alone])));
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
        "others | time of day | | beside standard FTP: FTP / others | others lose | beside FTP without \
         congestion control | others lose | beside advised | others lose",
    );
    let mut row = |others: &str, time: &str, name: &str, cells: [[String; 2]; 3]| {
        let cells = named(time, named(name, cells.into_iter().flatten()));
        table.row(named(others, cells));
    };
    for others in 1..=2 {
        let number = others.to_string();
        for (time, name) in TIMES.into_iter().enumerate() {
            for results in tables.all {
                // The thesis does not give the throughput of two others alone.
                let (alone, is_thesis) = (results.alone[others - 1], results.thesis.is_some());
                let ways = results.ways(Case::at(others, 0, time, Losses::Rounded));
                if let Some(ways) = ways.filter(|_| alone.is_some() || is_thesis) {
                    let (number, time) = if is_thesis {
                        (&*number, name)
                    } else {
                        ("", "")
                    };
                    row(
                        number,
                        time,
                        &results.name,
                        ways.map(|way| pair(way, alone)),
                    );
                }
            }
        }
        for (at, results) in tables.all[1..].iter().enumerate() {
            let lost = results.mean_lost(Losses::Rounded, others);
            let cells = lost.map(|lost| [String::new(), percent(lost)]);
            let (others, mean) = if at == 0 {
                (&*number, "mean")
            } else {
                ("", "")
            };
            row(others, mean, &results.name, cells);
        }
    }
    table.section("lab others")
}
