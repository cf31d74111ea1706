//! The tables and figures of the page.

use std::collections::BTreeSet;

use fairwind_report::page::{Across, Chart, Curve, Point};
use fairwind_result::Machine;

use super::bench::{Cells, Measured, control};
use super::report::{Change, Report};
use super::{AUTO, DRS, Kind, Line, STOCK, TUNED};
use crate::page::{Section, kernel};
use crate::statistics::{mean, standard_deviation};
use crate::table::Table;
use crate::{Made, Task};

/// Everything that comes of the transfers.
pub(crate) fn all(task: &Task<'_>, kinds: &[Kind], done: &[Measured<'_>]) -> Made {
    let mut page = Page {
        plan: &task.plan.name,
        kinds,
        made: Made::default(),
    };
    for measured in done {
        if !measured.client_and_server.is_empty() {
            page.rates(measured);
            page.efficiencies(measured);
        }
        if !measured.protected.is_empty() {
            page.protected(measured);
        }
        if let Some((size, reports)) = &measured.over_time {
            page.over_time(measured.line, *size, reports);
        }
        if !measured.servers.is_empty() {
            page.between_servers(measured);
        }
    }
    if done
        .iter()
        .any(|measured| !measured.client_and_server.is_empty())
    {
        page.made.sections.push(goals(done).section("reach"));
    }
    page.made.sections.push(origin(task, done));
    page.made.runs = Some(transfers(done));
    page.made
}

/// All transfers.
fn transfers(done: &[Measured<'_>]) -> Table {
    let mut table = Table::new(
        "path | transfer | kind | size_mb | number | day | mbps | seconds | buffer_mb | retransmits | warnings",
    );
    for measured in done {
        let mut add = |transfer: &str, kind: &str, size: u64, reports: &[Report]| {
            for (number, report) in (1_u32..).zip(reports) {
                let text = |key| {
                    report
                        .number(key)
                        .map_or(String::new(), |value| value.to_string())
                };
                table.row([
                    measured.line.name.clone(),
                    transfer.to_owned(),
                    kind.to_owned(),
                    size.to_string(),
                    number.to_string(),
                    report.day.clone(),
                    text("mbps"),
                    text("seconds"),
                    format!("{:.3}", report.buffer_mb()),
                    text("retransmits"),
                    report.warnings.len().to_string(),
                ]);
            }
        };
        for ((kind, size), reports) in &measured.client_and_server {
            add("client-server", kind, *size, reports);
        }
        for ((kind, size), reports) in &measured.protected {
            add("client-server, TLS", kind, *size, reports);
        }
        if let Some((size, reports)) = &measured.over_time {
            add("over time", DRS, *size, reports);
        }
        for ((kind, size), reports) in &measured.servers {
            add("third-party", kind, *size, reports);
        }
    }
    table
}

struct Page<'a> {
    plan: &'a str,
    kinds: &'a [Kind],
    made: Made,
}

impl Page<'_> {
    /// Draws a figure and returns the link to it.
    fn draw(&mut self, file: &str, plot: &Chart) -> String {
        self.made.draw(self.plan, file, plot) + "\n"
    }

    /// Adds a part: figures, and below them a table.
    fn part(&mut self, name: &str, figures: &str, table: &Table) {
        self.made.sections.push(Section {
            markdown: format!("{figures}{}", table.markdown()),
            ..table.section(name)
        });
    }

    /// Figures 4 and 5.
    fn rates(&mut self, measured: &Measured<'_>) {
        let (line, cells) = (measured.line, &measured.client_and_server);
        let gain = |size| Some(format!("{:.1}", ratio(cells, DRS, STOCK, size)?));
        self.over_sizes(&OverSizes {
            name: format!("rate-{}", line.word),
            title: format!("Rate at {}, round trip 100 ms", line.name),
            unit: "Mbit/s",
            cells,
            drawn: self.kinds.iter().collect(),
            listed: self.kinds.iter().collect(),
            value: mean_mbps,
            text: rate_and_spread,
            last: Some(("DRS / 64 KiB", &gain)),
        });
    }

    /// Figure 9.
    fn efficiencies(&mut self, measured: &Measured<'_>) {
        let line = measured.line;
        let all_but_stock = self.kinds.iter().filter(|kind| kind.word != STOCK);
        self.over_sizes(&OverSizes {
            name: format!("efficiency-{}", line.word),
            title: format!("Rate by receive buffer at {}", line.name),
            unit: "Mbit/s per MB",
            cells: &measured.client_and_server,
            drawn: all_but_stock.collect(),
            listed: self.kinds.iter().collect(),
            value: efficiency,
            text: |reports| format!("{:.1}", efficiency(reports)),
            last: None,
        });
    }

    /// Figure 10.
    fn between_servers(&mut self, measured: &Measured<'_>) {
        let (line, cells) = (measured.line, &measured.servers);
        let of_figure = |kind: &&Kind| [STOCK, AUTO, DRS].contains(&kind.word.as_str());
        let kinds: Vec<&Kind> = self.kinds.iter().filter(of_figure).collect();
        let against = |size| {
            let of = |cells: &Cells| Some(mean_mbps(cells.get(&(DRS.to_owned(), size))?));
            Some(above(of(cells)? / of(&measured.client_and_server)?))
        };
        self.over_sizes(&OverSizes {
            name: format!("third-party-{}", line.word),
            title: format!("Third-party transfers at {}, round trip 100 ms", line.name),
            unit: "Mbit/s",
            cells,
            drawn: kinds.clone(),
            listed: kinds,
            value: mean_mbps,
            text: |reports| format!("{:.1}", mean_mbps(reports)),
            last: Some(("DRS against client-server", &against)),
        });
    }

    /// TLS beside plain.
    fn protected(&mut self, measured: &Measured<'_>) {
        let mut table = Table::new(
            "File | >kernel autotuning (Mbit/s) | >under TLS (Mbit/s) | >against plain | >DRS (Mbit/s) | >under TLS (Mbit/s) | >against plain",
        );
        for size in sizes(&measured.protected) {
            let pair = |kind: &str| {
                let of = |cells: &Cells| {
                    let reports = cells.get(&(kind.to_owned(), size))?;
                    Some((mean_mbps(reports), rate_and_spread(reports)))
                };
                let (plain, protected) = (of(&measured.client_and_server), of(&measured.protected));
                let against = plain.as_ref().zip(protected.as_ref());
                let against = against.map(|((plain, _), (protected, _))| above(protected / plain));
                [
                    plain.map(|(_, text)| text),
                    protected.map(|(_, text)| text),
                    against,
                ]
                .map(|cell| cell.unwrap_or_else(dash))
            };
            let cells = [AUTO, DRS].into_iter().flat_map(pair);
            table.row(std::iter::once(format!("{size} MB")).chain(cells));
        }
        self.part(&format!("tls-{}", measured.line.word), "", &table);
    }

    /// Adds a figure over the sizes of files, and its table.
    fn over_sizes(&mut self, part: &OverSizes<'_>) {
        let what = "Means of the transfers of each size, by kind of buffer";
        let curves = curves(part.cells, &part.drawn, part.value);
        let across = Across::logarithmic("File (MB)", &curves);
        let plot = Chart::new(&part.title, what, across, part.unit, curves);
        let figure = self.draw(&part.name, &plot);
        let heads = part.listed.iter();
        let heads = heads.map(|kind| format!("| >{} ({}) ", kind.name, part.unit));
        let last = part.last.map(|(head, _)| format!("| >{head}"));
        let mut table = Table::new(&format!("File {}", heads.chain(last).collect::<String>()));
        for size in sizes(part.cells) {
            let of = |kind: &&Kind| part.cells.get(&(kind.word.clone(), size));
            let cells = part.listed.iter().map(of);
            let cells = cells.map(|reports| reports.map(|reports| (part.text)(reports)));
            let last = part.last.map(|(_, of_size)| of_size(size));
            let cells = cells.chain(last).map(|cell| cell.unwrap_or_else(dash));
            table.row(std::iter::once(format!("{size} MB")).chain(cells));
        }
        self.part(&part.name, &figure, &table);
    }

    /// Figures 6 and 7.
    fn over_time(&mut self, line: &Line, size: u64, reports: &[Report]) {
        let of_changes = |value: fn(&Change) -> f64| {
            let point = |change: &Change| (change.seconds, value(change));
            numbered(reports, |report| {
                report.changes().iter().map(point).collect()
            })
        };
        let name = &line.name;
        let drawn = [
            (
                "buffer",
                format!("Receive buffer at {name}, {size} MB"),
                "What right-sizing asked for, in each transfer",
                "MB",
                numbered(reports, buffer_over_time),
            ),
            (
                "estimate",
                format!("Bandwidth estimates that changed the buffer at {name}"),
                "In each transfer",
                "Mbit/s",
                of_changes(|change| change.mbps),
            ),
            (
                "rtt",
                format!("Round-trip times of these estimates at {name}"),
                "In each transfer",
                "ms",
                of_changes(|change| change.rtt_ms),
            ),
        ];
        let mut figures = String::new();
        for (file, title, what, unit, curves) in drawn {
            let across = Across::all_of("Time (s)", &curves);
            let plot = Chart::new(&title, what, across, unit, curves);
            figures += &self.draw(&format!("{file}-{}", line.word), &plot);
        }
        let mut table = Table::new(
            "Transfer | >Rate (Mbit/s) | >Last buffer (MB) | >Shortest echo (ms) | >Last RTT (ms) | >Messages",
        );
        for (number, report) in (1_u32..).zip(reports) {
            let value = |key: &str, digits: usize, unit: f64| {
                let value = report.number(key);
                value.map_or(dash(), |value| format!("{:.digits$}", value / unit))
            };
            table.row([
                number.to_string(),
                value("mbps", 1, 1.0),
                value("drs_buffer_bytes", 2, 1e6),
                value("drs_min_rtt_ms", 1, 1.0),
                value("drs_rtt_ms", 1, 1.0),
                value("drs_messages", 0, 1.0),
            ]);
        }
        self.part(&format!("time-{}", line.word), &figures, &table);
    }
}

/// The cell for a size of files; none for a dash.
type OfSize<'a> = &'a dyn Fn(u64) -> Option<String>;

/// A figure over the sizes of files, and its table.
struct OverSizes<'a> {
    name: String,
    title: String,
    unit: &'static str,
    cells: &'a Cells,
    /// The kinds in the figure, and those in the table.
    drawn: Vec<&'a Kind>,
    listed: Vec<&'a Kind>,
    /// The value in the figure, and in the table.
    value: fn(&[Report]) -> f64,
    text: fn(&[Report]) -> String,
    /// Head and cells of a last column.
    last: Option<(&'a str, OfSize<'a>)>,
}

/// What was to be reached: with 128 MB and more, or else the largest size.
fn goals(done: &[Measured<'_>]) -> Table {
    let mut table = Table::new("Path | >DRS / 64 KiB | >DRS / tuned | >DRS against autotuning");
    for measured in done {
        let (line, cells) = (measured.line, &measured.client_and_server);
        let all: Vec<u64> = sizes(cells).into_iter().collect();
        let mut large: Vec<u64> = all.iter().copied().filter(|size| *size >= 128).collect();
        if large.is_empty() {
            large.extend(all.last());
        }
        for size in large {
            let drs_by = |kind| ratio(cells, DRS, kind, size);
            let goal = |reached: Option<String>, goal: String| {
                format!("{} (at least {goal})", reached.unwrap_or_else(dash))
            };
            table.row([
                format!("{}, {size} MB", line.name),
                goal(
                    drs_by(STOCK).map(|ratio| format!("{ratio:.1}")),
                    line.goal.to_string(),
                ),
                goal(
                    drs_by(TUNED).map(|ratio| format!("{:.1} %", 100.0 * ratio)),
                    "95 %".to_owned(),
                ),
                goal(drs_by(AUTO).map(above), "-3 %".to_owned()),
            ]);
        }
    }
    table
}

/// When, on what and how the transfers were made.
fn origin(task: &Task<'_>, done: &[Measured<'_>]) -> Section {
    let machine = Machine::here();
    let tables = done.iter().flat_map(|measured| {
        [
            &measured.client_and_server,
            &measured.protected,
            &measured.servers,
        ]
    });
    let over_time = done
        .iter()
        .filter_map(|measured| measured.over_time.as_ref());
    let reports = tables
        .flat_map(|cells| cells.values())
        .chain(over_time.map(|(_, reports)| reports));
    let reports: Vec<&Report> = reports.flatten().collect();
    let days: BTreeSet<&str> = reports.iter().map(|report| report.day.as_str()).collect();
    let days: Vec<&str> = days.into_iter().collect();
    let text = format!(
        "Measured {} by {} on {}, {}, {} processors, control {}, {} transfer(s) a cell or, with ±, more: `make \
         drsftp PAGE=docs/measurements/right-sizing.md`.\n",
        days.join(" and "),
        builds(&reports),
        machine.cpu,
        kernel(&machine),
        machine.cores,
        control(task),
        task.options.repetitions.unwrap_or(1)
    );
    Section::text("run", text)
}

/// Of how many programs the transfers are: those of several cannot be compared.
fn builds(reports: &[&Report]) -> String {
    let programs: BTreeSet<&str> = reports
        .iter()
        .map(|report| report.program.as_str())
        .collect();
    match programs.len() {
        1 => "one build of `fairwind`".to_owned(),
        count => format!("{count} different builds of `fairwind`"),
    }
}

fn sizes(cells: &Cells) -> BTreeSet<u64> {
    cells.keys().map(|(_, size)| *size).collect()
}

fn dash() -> String {
    "-".to_owned()
}

/// The mean rate of one kind by that of another.
fn ratio(cells: &Cells, of: &str, by: &str, size: u64) -> Option<f64> {
    let mean = |kind: &str| Some(mean_mbps(cells.get(&(kind.to_owned(), size))?));
    Some(mean(of)? / mean(by)?)
}

/// By how much a ratio is above one, percent.
fn above(ratio: f64) -> String {
    format!("{:+.1} %", 100.0 * (ratio - 1.0))
}

fn mean_mbps(reports: &[Report]) -> f64 {
    mean(reports.iter().map(Report::mbps))
}

/// Rate by receive buffer, Mbit/s per MB.
fn efficiency(reports: &[Report]) -> f64 {
    mean_mbps(reports) / mean(reports.iter().map(Report::buffer_mb))
}

/// The mean rate, and of several transfers the standard deviation (n - 1).
fn rate_and_spread(reports: &[Report]) -> String {
    let all: Vec<f64> = reports.iter().map(Report::mbps).collect();
    let mean = mean_mbps(reports);
    match reports.len() {
        1 => format!("{mean:.1}"),
        _ => format!("{mean:.1} ± {:.1}", standard_deviation(&all)),
    }
}

/// A curve over the sizes for each kind.
fn curves(cells: &Cells, kinds: &[&Kind], value: fn(&[Report]) -> f64) -> Vec<Curve> {
    let curve = |kind: &&Kind| Curve {
        name: kind.name.clone(),
        colour: Some(kind.colour),
        points: cells
            .iter()
            .filter(|((word, _), _)| *word == kind.word)
            .map(|((_, size), reports)| Point::from((*size as f64, value(reports))))
            .collect(),
        ..Curve::default()
    };
    kinds.iter().map(curve).collect()
}

/// A curve for each transfer.
fn numbered(reports: &[Report], points: impl Fn(&Report) -> Vec<(f64, f64)>) -> Vec<Curve> {
    let curve = |(at, report): (usize, &Report)| Curve {
        name: format!("transfer {}", at + 1),
        colour: Some(at),
        points: points(report).into_iter().map(Point::from).collect(),
        ..Curve::default()
    };
    reports.iter().enumerate().map(curve).collect()
}

/// The receive buffer, level from change to change until the end of the transfer: seconds and MB.
fn buffer_over_time(report: &Report) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for change in report.changes() {
        points.extend(points.last().map(|(_, before)| (change.seconds, *before)));
        points.push((change.seconds, change.bytes / 1e6));
    }
    let end = report.number("seconds");
    let last = points.last().map(|(_, last)| *last);
    points.extend(end.zip(last));
    points
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(transfer: serde_json::Value) -> Report {
        Report {
            transfer,
            warnings: Vec::new(),
            day: "2026-11-22".to_owned(),
            program: String::new(),
        }
    }

    fn at(mbps: &[f64]) -> Vec<Report> {
        let report = |mbps: &f64| report(json!({ "mbps": mbps, "receive_buffer": 2e6 }));
        mbps.iter().map(report).collect()
    }

    #[test]
    fn goals_are_judged_at_128_mb_and_more() {
        let mut cells = Cells::new();
        for size in [8, 128] {
            for (kind, mbps) in [(STOCK, 6.0), (TUNED, 81.0), (AUTO, 84.0), (DRS, 81.0)] {
                cells.insert((kind.to_owned(), size), at(&[mbps]));
            }
        }
        let line = Line {
            word: "95".to_owned(),
            name: "95 Mbit/s".to_owned(),
            bandwidth: "95Mbit/s".to_owned(),
            product: 1_187_500,
            queue: "792pkt".to_owned(),
            goal: 5,
        };
        let measured = Measured {
            line: &line,
            client_and_server: cells,
            protected: Cells::new(),
            servers: Cells::new(),
            over_time: None,
        };
        assert_eq!(
            goals(&[measured]).markdown(),
            "| Path | DRS / 64 KiB | DRS / tuned | DRS against autotuning |\n|---|---:|---:|---:|\n\
             | 95 Mbit/s, 128 MB | 13.5 (at least 5) | 100.0 % (at least 95 %) | -3.6 % (at least -3 %) |\n"
        );
    }

    #[test]
    fn several_transfers_have_a_spread() {
        assert_eq!(rate_and_spread(&at(&[85.4])), "85.4");
        assert_eq!(rate_and_spread(&at(&[84.0, 86.0])), "85.0 ± 1.4");
        assert_eq!(efficiency(&at(&[84.0, 86.0])), 85.0);
    }

    #[test]
    fn transfers_by_several_programs_are_told_from_those_by_one() {
        let [one, other] = ["a", "b"].map(|program| Report {
            program: program.to_owned(),
            ..report(json!({}))
        });
        assert_eq!(builds(&[&one, &one]), "one build of `fairwind`");
        assert_eq!(builds(&[&one, &other]), "2 different builds of `fairwind`");
    }

    #[test]
    fn a_buffer_is_level_from_change_to_change() {
        let reason = "9.000 Mbit/s in a round trip of 100.4 ms";
        let change = |seconds, to| json!({ "what": "receive buffer", "to": to, "reason": reason, "seconds": seconds });
        let report = report(json!({
            "seconds": 3.0, "changes": [change(1.0, "1000000"), change(2.0, "4000000")],
        }));
        let expected = [(1.0, 1.0), (2.0, 1.0), (2.0, 4.0), (3.0, 4.0)];
        assert_eq!(buffer_over_time(&report), expected);
    }
}
