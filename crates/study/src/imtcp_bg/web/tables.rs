//! The tables of the page: means over the seeds.

use std::collections::BTreeSet;

use super::setup::{BOTTLENECK_MBPS, Cell, Data};
use super::work::{Measured, Measures};
use crate::page::Section;
use crate::table::Table;

/// The controls in the background, and how the page calls them.
pub(super) const RIVALS: [(&str, &str); 4] = [
    ("reno", "Reno"),
    ("nice", "Nice"),
    ("lp", "TCP-LP"),
    ("imtcp_bg", "ImTCP-bg"),
];

/// Servers of the figures that have one number of them.
const SERVERS: u64 = 20;
/// Connections of Table 1 and Figure 8.
const FIVE: u64 = 5;

/// All tables whose runs have been made.
pub(super) fn all(data: &Data, measured: &Measured) -> Vec<Section> {
    let tables = [
        ("table 1", table_1(data, measured)),
        ("figure 4", figure_4(measured)),
        ("figure 5", figure_5(measured)),
        ("figure 6", figure_6(measured)),
        ("figure 7", figure_7(measured)),
        ("figure 8", figure_8(measured)),
        ("figure 9", figure_9(measured)),
    ];
    let made = tables.into_iter().filter(|(_, table)| !table.is_empty());
    made.map(|(name, table)| table.section(name)).collect()
}

/// A row for each run.
pub(super) fn runs(measured: &Measured, table: &mut Table) {
    for (cell, all) in measured {
        for (number, run) in all.iter().enumerate() {
            table.row([
                "sim".to_owned(),
                cell.name(),
                (number + 1).to_string(),
                format!("{:.3}", run.bottleneck_mbps),
                format!("{:.3}", run.background_mbps),
                format!("{:.4}", run.download_s),
                format!("{:.2}", run.queue_pkts),
                run.drops.to_string(),
            ]);
        }
    }
}

/// The mean of a measure over the seeds of a cell.
pub(super) fn mean(measured: &Measured, cell: &Cell, of: impl Fn(&Measures) -> f64) -> Option<f64> {
    let all = measured.get(cell).filter(|all| !all.is_empty())?;
    Some(all.iter().map(of).sum::<f64>() / all.len() as f64)
}

/// What the web leaves of the bottleneck when it is alone, Mbit/s.
pub(super) fn available(measured: &Measured, servers: u64) -> Option<f64> {
    let alone = cell("none", servers, 0, false);
    Some(BOTTLENECK_MBPS - mean(measured, &alone, |run| run.bottleneck_mbps)?)
}

/// The share of the available bandwidth that the background of a cell takes.
pub(super) fn utilisation(measured: &Measured, cell: &Cell) -> Option<f64> {
    let taken = mean(measured, cell, |run| run.background_mbps)?;
    Some(taken / available(measured, cell.servers)?)
}

/// A cell with the control's own parameters.
pub(super) fn cell(control: &str, servers: u64, connections: u64, joining: bool) -> Cell {
    Cell {
        control: control.to_owned(),
        servers,
        connections,
        joining: joining && connections > 1,
        gamma: None,
        delta: None,
    }
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

fn distinct<T: Ord>(measured: &Measured, of: impl Fn(&Cell) -> Option<T>) -> BTreeSet<T> {
    measured.keys().filter_map(of).collect()
}

fn table_1(data: &Data, measured: &Measured) -> Table {
    let mut table = Table::new(
        "control | mean queue in the thesis, packets | mean queue here, packets | background, Mbit/s | \
         dropped packets a run",
    );
    for (control, name) in RIVALS {
        let of = cell(control, SERVERS, FIVE, true);
        let Some(queue) = mean(measured, &of, |run| run.queue_pkts) else {
            continue;
        };
        let thesis = data.queues.iter().find(|row| row.control == control);
        table.row([
            name.to_owned(),
            number(thesis.map(|row| row.packets), 2),
            format!("{queue:.2}"),
            number(mean(measured, &of, |run| run.background_mbps), 1),
            number(mean(measured, &of, |run| run.drops as f64), 0),
        ]);
    }
    table
}

/// The cells of γ, with everything else as the control has it.
pub(super) fn of_gamma(measured: &Measured) -> Vec<(f64, Cell)> {
    let gammas = distinct(measured, |cell| cell.gamma.filter(|_| cell.delta.is_none()));
    let of = |gamma: u64| {
        let cell = Cell {
            gamma: Some(gamma),
            ..cell("imtcp_bg", SERVERS, 1, false)
        };
        (gamma as f64 / 1000.0, cell)
    };
    gammas.into_iter().map(of).collect()
}

fn figure_4(measured: &Measured) -> Table {
    let mut table = Table::new("γ | mean window, packets | its standard deviation");
    for (gamma, cell) in of_gamma(measured) {
        let window = |run: &Measures| run.window.iter().sum::<f64>() / run.window.len() as f64;
        let deviation = |run: &Measures| crate::statistics::standard_deviation(&run.window);
        table.row([
            format!("{gamma}"),
            number(mean(measured, &cell, window), 1),
            number(mean(measured, &cell, deviation), 1),
        ]);
    }
    table
}

fn figure_5(measured: &Measured) -> Table {
    let mut table = Table::new("γ | utilisation of the available bandwidth | mean queue, packets");
    for (gamma, cell) in of_gamma(measured) {
        table.row([
            format!("{gamma}"),
            number(utilisation(measured, &cell), 3),
            number(mean(measured, &cell, |run| run.queue_pkts), 1),
        ]);
    }
    table
}

fn figure_6(measured: &Measured) -> Table {
    let of_delta = |cell: &Cell| cell.delta.map(|_| cell.connections);
    let connections = distinct(measured, of_delta);
    let names: Vec<String> = connections
        .iter()
        .map(|number| match number {
            1 => "1 connection".to_owned(),
            _ => format!("{number} connections"),
        })
        .collect();
    let mut table = Table::new(&format!("δ | | {}", names.join(" | ")));
    for delta in distinct(measured, |cell| cell.delta) {
        let cells = connections.iter().map(|&connections| Cell {
            delta: Some(delta),
            ..cell("imtcp_bg", SERVERS, connections, false)
        });
        let cells: Vec<Cell> = cells.collect();
        let mut row = vec![
            format!("{}", delta as f64 / 1000.0),
            "utilisation".to_owned(),
        ];
        row.extend(
            cells
                .iter()
                .map(|cell| number(utilisation(measured, cell), 3)),
        );
        table.row(row);
        let mut row = vec![String::new(), "mean queue, packets".to_owned()];
        let queue = |cell: &Cell| number(mean(measured, cell, |run| run.queue_pkts), 1);
        row.extend(cells.iter().map(queue));
        table.row(row);
    }
    table
}

/// The numbers of web servers.
pub(super) fn servers(measured: &Measured) -> BTreeSet<u64> {
    distinct(measured, |cell| Some(cell.servers))
}

fn figure_7(measured: &Measured) -> Table {
    let mut table = Table::new(
        "web servers | available, Mbit/s | Reno | Nice | TCP-LP | ImTCP-bg | \
         download with no background, s | Reno | Nice | TCP-LP | ImTCP-bg",
    );
    for servers in servers(measured) {
        let of = |(control, _): (&str, &str)| cell(control, servers, 1, false);
        let rate = |rival| number(mean(measured, &of(rival), |run| run.background_mbps), 2);
        let download = |cell: &Cell| number(mean(measured, cell, |run| run.download_s), 3);
        let mut row = vec![servers.to_string(), number(available(measured, servers), 2)];
        row.extend(RIVALS.map(rate));
        row.push(download(&cell("none", servers, 0, false)));
        row.extend(RIVALS.map(|rival| download(&of(rival))));
        table.row(row);
    }
    table
}

fn figure_8(measured: &Measured) -> Table {
    let mut table = Table::new(
        "control | all connections, Mbit/s, while there are 1 | 2 | 3 | 4 | 5 | 4 | 3 | 2 | 1",
    );
    for (control, name) in RIVALS {
        let of = cell(control, SERVERS, FIVE, true);
        let Some(all) = measured.get(&of) else {
            continue;
        };
        let mut row = vec![name.to_owned()];
        for period in 0..9 {
            let sum = |run: &Measures| period_mbps(run, period);
            let mean = all.iter().map(sum).sum::<f64>() / all.len() as f64;
            row.push(format!("{mean:.1}"));
        }
        table.row(row);
    }
    table
}

/// All connections in a period in which as many are there: a tenth of the run each, the fifth two.
fn period_mbps(run: &Measures, period: usize) -> f64 {
    let length = run.curves.iter().map(Vec::len).max().unwrap_or(0);
    let tenth = |tenths: usize| length * tenths / 10;
    let (begin, end) = match period {
        0..4 => (tenth(period), tenth(period + 1)),
        4 => (tenth(4), tenth(6)),
        _ => (tenth(period + 1), tenth(period + 2)),
    };
    let points = (begin..end).map(|at| {
        let at = run.curves.iter().filter_map(|curve| curve.get(at));
        at.sum::<f64>()
    });
    points.sum::<f64>() / (end - begin).max(1) as f64
}

fn figure_9(measured: &Measured) -> Table {
    let mut table = Table::new(
        "connections | web servers | available, Mbit/s | Reno | Nice | TCP-LP | ImTCP-bg",
    );
    let of_rival =
        |cell: &Cell| (cell.delta.is_none() && cell.connections > 0).then_some(cell.connections);
    for connections in distinct(measured, of_rival) {
        for servers in servers(measured) {
            let of = |(control, _): (&str, &str)| {
                utilisation(measured, &cell(control, servers, connections, true))
            };
            let shares = RIVALS.map(of);
            if shares.iter().all(Option::is_none) {
                continue;
            }
            let mut row = vec![
                connections.to_string(),
                servers.to_string(),
                number(available(measured, servers), 2),
            ];
            row.extend(shares.map(|share| number(share, 3)));
            table.row(row);
        }
    }
    table
}
