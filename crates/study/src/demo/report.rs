//! The HTML report: the table and one figure per subject, in a self-contained file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fairwind_advice::{Forecast, Hop, ModelKind, Samples, Settings};
use fairwind_report::page::Style::{self, Dashed, Solid, Steps, Threshold};
use fairwind_report::page::{
    Across, Area, Chart, Curve, Heading, Page, Panel, Point, Table, escape, number,
};

use super::measure::Transfer;
use super::stage::Outcomes;
use super::story::{HOP, OTHERS, Route, THRESHOLD_MBPS, Way};
use super::table::Row;
use crate::Error;

/// The report's file.
pub const FILE: &str = "report.html";

/// Indices of colours, the same in all figures.
const TRANSFER: usize = 0;
const OTHER: usize = 1;
const AVAILABLE: usize = 2;
const OFF: usize = 3;
const ALONE: usize = 6;

/// Writes the report into `out`.
pub fn write(outcomes: &Outcomes, missing: &[String], out: &Path) -> Result<PathBuf, Error> {
    page(outcomes, missing)
        .write(&out.join(FILE))
        .map_err(Error::work)
}

fn page(outcomes: &Outcomes, missing: &[String]) -> Page {
    let story = &outcomes.story;
    let mut page = Page::new(
        "One file over a path that others use too, moved in several ways",
        &facts(outcomes),
    );
    for reason in missing {
        page.doubt(&format!("In the simulator, not on the kernel: {reason}"));
    }
    for outcome in &outcomes.ways {
        let doubts = outcome
            .measured
            .warnings
            .iter()
            .chain(&outcome.advised.refused);
        for doubt in doubts {
            page.doubt(&format!("{}: {doubt}", outcome.way.words()));
        }
    }
    let delay_ms = story.route.delay_ms();
    let path = match story.route {
        Route::Day => format!(
            "{OTHERS} connections of others share the path and want what the day's curve leaves to them; {} of \
             the day pass in a second. Standard TCP leaves the others what they want and is slow to take what \
             they leave.",
            minutes(story.rate / 60.0)
        ),
        Route::Long => format!(
            "{OTHERS} connections of others share the path and want the same all day, and {} % of the packets are \
             lost by chance. Standard TCP takes each loss for congestion, and on a long path it is slow to recover.",
            100.0 * story.route.loss()
        ),
    };
    page.text(&format!(
        "Two sites, {} Mbit/s and {} ms of round-trip time apart ({delay_ms} ms each way). {path} \
         Without congestion control the transfer takes what it can get. Advised, congestion control is off only \
         while the path has at least {THRESHOLD_MBPS} Mbit/s to spare, by the thesis' rule. In the background the \
         transfer takes only what the others leave.",
        story.route.capacity_mbps(),
        2 * delay_ms,
    ));
    page.table(&totals(outcomes));
    page.note(
        "Of what is spare: of the path's payload less what the others receive alone. Others lost: what they received less than alone in the same time, while the transfer was under \
         way (%) and in the whole run (MB). Changes: of the congestion control, in mid-transfer.",
    );
    page.heading("The day, and what the advisor makes of it");
    page.chart(&day(outcomes));
    page.heading("Who gets what");
    page.chart(&throughput(outcomes));
    page.heading("Inside the connection");
    page.chart(&of_transfers(outcomes, "Congestion window", "kB", |t| {
        &t.cwnd
    }));
    page.chart(&of_transfers(
        outcomes,
        "Smoothed round-trip time",
        "ms",
        |t| &t.rtt,
    ));
    page.heading("What was changed, and why");
    changes(&mut page, outcomes);
    page.heading("The experiments");
    for outcome in &outcomes.ways {
        page.subheading(outcome.way.words());
        page.listing(&outcome.experiment);
    }
    page
}

fn facts(outcomes: &Outcomes) -> Vec<String> {
    let story = &outcomes.story;
    vec![
        match outcomes.engine {
            "lab" => {
                "on this machine's kernel, with the real server, client and advisor".to_owned()
            }
            _ => "in the simulator".to_owned(),
        },
        format!("{} MB", story.file_bytes / 1_000_000),
        format!(
            "{} to {}",
            story.begins.strftime("%A %H:%M"),
            story.time_at(story.length_s).strftime("%H:%M")
        ),
        format!("seed {}", story.seed),
        format!("fairwind {}", env!("CARGO_PKG_VERSION")),
    ]
}

fn minutes(minutes: f64) -> String {
    format!("{minutes:.0} minutes")
}

fn totals(outcomes: &Outcomes) -> Table {
    let mut table = Table::new(vec![
        Heading::text("Transfer"),
        Heading::number("Throughput", "Mbit/s"),
        Heading::number("Of what is spare", "%"),
        Heading::number("Time", "s"),
        Heading::number("Others lost", "%"),
        Heading::number("Others lost", "MB"),
        Heading::number("Retransmitted", "segments"),
        Heading::number("Changes", ""),
        Heading::text("File"),
    ]);
    for row in Row::all(outcomes) {
        table.row(row.cells(number));
    }
    table
}

/// Available bandwidth, forecasts and threshold.
fn day(outcomes: &Outcomes) -> Chart {
    let story = &outcomes.story;
    let (hour_ahead, area) = forecasts(outcomes);
    let answers = outcomes.of(Way::Advised).advised.answers.iter();
    let estimates = answers.filter_map(|answer| Some(point(answer.at_s, answer.available_mbps?)));
    let threshold = [0.0, story.length_s].map(|at_s| point(at_s, THRESHOLD_MBPS));
    let curves = vec![
        curve(
            "forecast an hour before (profile)",
            TRANSFER,
            Dashed,
            hour_ahead,
        ),
        curve("available", AVAILABLE, Steps, available(outcomes)),
        curve(
            "estimate when asked (the thesis’ model)",
            OTHER,
            Solid,
            estimates.collect(),
        ),
        curve("threshold", None, Threshold, threshold.into()),
    ];
    let mut panel = panel(outcomes, Way::Advised, "Mbit/s", curves);
    panel.name.clear();
    Chart {
        title: "Available bandwidth".to_owned(),
        what: format!(
            "{} of the day a second; shaded: the forecast's 80 % band, and, to the top, congestion control off",
            minutes(story.rate / 60.0)
        ),
        across: Across::time(story.length_s),
        panels: vec![Panel {
            spans: spans(outcomes, Way::Advised),
            areas: vec![area],
            ..panel
        }],
    }
}

/// The better model's forecasts an hour ahead, from what was known then, and their 80 % intervals.
fn forecasts(outcomes: &Outcomes) -> (Vec<Point>, Area) {
    let story = &outcomes.story;
    let settings = Settings {
        model: ModelKind::Profile,
        ..story.settings()
    };
    let hour = Duration::from_secs(3600);
    let hour_s = hour.as_secs_f64() / story.rate;
    let (samples, _) = Samples::from_unordered(outcomes.day.history.iter().copied(), story.begins);
    let mut hop = Hop::new(HOP, samples);
    hop.learn(story.begins, &settings);
    let (mut line, mut area) = (Vec::new(), Area::default());
    area.colour = TRANSFER;
    for &test in &outcomes.day.tests {
        // The generator's tests are in order.
        let _ = hop.insert(test, test.time);
        let at_s = story.seconds_until(test.time) + hour_s;
        let forecast: Option<Forecast> = hop.forecast(test.time, hour, &settings).ok();
        let Some(forecast) = forecast.filter(|_| at_s <= story.length_s) else {
            continue;
        };
        line.push(point(at_s, forecast.available_mbps));
        if let Some((low, high)) = forecast.interval_mbps {
            area.low.push(point(at_s, low));
            area.high.push(point(at_s, high));
        }
    }
    (line, area)
}

/// The transfer and the others, one panel per way.
fn throughput(outcomes: &Outcomes) -> Chart {
    let alone = &outcomes.of(Way::Nobody).measured.others_mbps;
    let panel = |way| {
        let others = &outcomes.of(way).measured.others_mbps;
        let transfer = of_transfer(outcomes, way, |transfer| &transfer.mbps);
        let curves = vec![
            curve("others alone", ALONE, Dashed, alone.clone()),
            curve("others", OTHER, Solid, others.clone()),
            curve("transfer", TRANSFER, Solid, transfer),
            curve("available", AVAILABLE, Steps, available(outcomes)),
        ];
        Panel {
            spans: spans(outcomes, way),
            ..panel(outcomes, way, "Mbit/s", curves)
        }
    };
    Chart {
        title: "Throughput".to_owned(),
        what: "Payload in intervals of half a second; shaded: congestion control off".to_owned(),
        across: Across::time(outcomes.story.length_s),
        panels: outcomes
            .transfers()
            .map(|outcome| panel(outcome.way))
            .collect(),
    }
}

/// A curve of each transfer, one panel per way.
fn of_transfers(
    outcomes: &Outcomes,
    title: &str,
    unit: &'static str,
    of: fn(&Transfer) -> &[Point],
) -> Chart {
    let panel = |way| {
        let curve = curve("", TRANSFER, Solid, of_transfer(outcomes, way, of));
        panel(outcomes, way, unit, vec![curve])
    };
    Chart {
        title: title.to_owned(),
        what: "Of the file’s connection; strokes above: changes of the congestion control"
            .to_owned(),
        across: Across::time(outcomes.story.length_s),
        panels: outcomes
            .transfers()
            .map(|outcome| panel(outcome.way))
            .collect(),
    }
}

/// What a transfer's curve shows; nothing if it never began.
fn of_transfer(outcomes: &Outcomes, way: Way, of: fn(&Transfer) -> &[Point]) -> Vec<Point> {
    let transfer = outcomes.of(way).measured.transfer.as_ref();
    transfer.map_or(Vec::new(), |transfer| of(transfer).to_vec())
}

/// The panel of a way, with strokes for the changes of its congestion control.
fn panel(outcomes: &Outcomes, way: Way, unit: &'static str, curves: Vec<Curve>) -> Panel {
    let changes = outcomes.of(way).advised.control_changes();
    let times: Vec<f64> = changes.map(|change| change.at_s).collect();
    let strokes = (!times.is_empty()).then_some((OFF, times));
    Panel {
        name: way.words().to_owned(),
        unit,
        curves,
        strokes: strokes.into_iter().collect(),
        ..Panel::default()
    }
}

fn changes(page: &mut Page, outcomes: &Outcomes) {
    let mut table = Table::new(vec![
        Heading::number("After", "s"),
        Heading::number("Time of day", ""),
        Heading::text("What"),
        Heading::text("From"),
        Heading::text("To"),
        Heading::text("Reason"),
    ]);
    let (story, advised) = (&outcomes.story, &outcomes.of(Way::Advised).advised);
    for change in &advised.changes {
        let reason = escape(&change.reason);
        table.row(vec![
            number(Some(change.at_s), 2),
            story.time_at(change.at_s).strftime("%H:%M").to_string(),
            escape(&change.what),
            escape(&change.from),
            escape(&change.to),
            format!("<span style=\"white-space:normal\">{reason}</span>"),
        ]);
    }
    page.text(&format!(
        "The advisor was asked {} times. Of its answers these changed something:",
        advised.answers.len()
    ));
    page.table(&table);
}

/// When congestion control was off.
fn spans(outcomes: &Outcomes, way: Way) -> Vec<(usize, f64, f64)> {
    let outcome = outcomes.of(way);
    let Some(transfer) = &outcome.measured.transfer else {
        return Vec::new();
    };
    let spans = match way {
        Way::Nocc => vec![(transfer.start_s, transfer.end_s)],
        _ => outcome.advised.spans_off(transfer.end_s),
    };
    let shaded = spans.into_iter().map(|(from, to)| (OFF, from, to));
    shaded.collect()
}

fn available(outcomes: &Outcomes) -> Vec<Point> {
    let mut curve = outcomes.day.curve(&outcomes.story);
    curve.retain(|(at_s, _)| *at_s <= outcomes.story.length_s);
    curve
        .into_iter()
        .map(|(at_s, mbps)| point(at_s, mbps))
        .collect()
}

/// A curve; grey without a colour.
pub(crate) fn curve(
    name: &str,
    colour: impl Into<Option<usize>>,
    style: Style,
    points: Vec<Point>,
) -> Curve {
    Curve {
        name: name.to_owned(),
        colour: colour.into(),
        style,
        points,
    }
}

/// A point of a curve.
pub(crate) fn point(time_s: f64, value: f64) -> Point {
    Point { time_s, value }
}
