//! The figures of the page: the first seed of each cell.

use fairwind_report::plot::chart::{Across, Chart, Panel, Style};

use super::tables::{RIVALS, cell, of_gamma};
use super::work::{CURVE_S, Measured};
use crate::Made;
use crate::demo::report::{curve, point};
use crate::page::Section;

/// Draws what has been made.
pub(super) fn draw(plan: &str, measured: &Measured, made: &mut Made) {
    let charts = [
        ("figure 4 drawn", "figure-4", windows(measured)),
        ("figure 8 drawn", "figure-8", joining(measured)),
    ];
    for (section, file, chart) in charts {
        if let Some(chart) = chart {
            let link = made.draw(plan, file, &chart);
            made.sections.push(Section::text(section, link));
        }
    }
}

/// Figure 4: the window over time, with the smallest and the greatest γ.
fn windows(measured: &Measured) -> Option<Chart> {
    let all = of_gamma(measured);
    let (first, last) = (all.first()?, all.last()?);
    let mut longest_s: f64 = 0.0;
    let mut panels = Vec::new();
    for (gamma, cell) in [first, last] {
        let window = &measured.get(cell)?.first()?.window;
        // A point a second.
        let points = window
            .chunks(10)
            .enumerate()
            .map(|(second, all)| point(second as f64, all.iter().sum::<f64>() / all.len() as f64));
        longest_s = longest_s.max(window.len() as f64 / 10.0);
        panels.push(Panel {
            name: format!("γ = {gamma}"),
            unit: "packets",
            curves: vec![curve("window", 0, Style::Solid, points.collect())],
            ..Panel::default()
        });
    }
    Some(Chart {
        title: "Window of one ImTCP-bg connection".to_owned(),
        what: "Beside 20 web servers; means over a second".to_owned(),
        across: Across::time(longest_s),
        panels,
    })
}

/// Figure 8: five connections that join and leave.
fn joining(measured: &Measured) -> Option<Chart> {
    let mut longest_s: f64 = 0.0;
    let mut panels = Vec::new();
    for (control, name) in RIVALS {
        let Some(run) = measured
            .get(&cell(control, 20, 5, true))
            .and_then(|all| all.first())
        else {
            continue;
        };
        let curves = run.curves.iter().enumerate().map(|(number, rates)| {
            let points = rates
                .iter()
                .enumerate()
                .map(|(at, mbps)| point((at as f64 + 0.5) * CURVE_S, *mbps));
            let name = format!("connection {}", number + 1);
            curve(&name, number, Style::Solid, points.collect())
        });
        longest_s = longest_s.max(run.curves.first().map_or(0, Vec::len) as f64 * CURVE_S);
        panels.push(Panel {
            name: name.to_owned(),
            unit: "Mbit/s",
            curves: curves.collect(),
            ..Panel::default()
        });
    }
    (!panels.is_empty()).then(|| Chart {
        title: "Throughput of five connections in the background".to_owned(),
        what: "Beside 20 web servers; means over 10 s".to_owned(),
        across: Across::time(longest_s),
        panels,
    })
}
