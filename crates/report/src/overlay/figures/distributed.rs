//! The distribution functions of a quantity.

use super::{Curves, Drawn, figure, interval_text};
use crate::overlay::distribution::{Distribution, Distributions, Quantity};
use crate::overlay::side::Pair;
use crate::plot::figure::{Across, Scale};
use crate::plot::style::Stroke;

const STEPS: [Stroke; 2] = [Stroke::STEPS, Stroke::DASHED_STEPS];

/// The distribution functions of a quantity.
pub fn figure_of(pair: &Pair, quantity: Quantity, all: &[Distributions]) -> Option<Drawn> {
    let (file, heading, label) = match quantity {
        Quantity::Throughput => (
            "throughput_distribution.svg",
            format!("Throughput in intervals of {}", interval_text(pair)),
            "Throughput (Mbit/s)",
        ),
        Quantity::Cwnd => (
            "cwnd_distribution.svg",
            "Congestion window".to_owned(),
            "Congestion window (kB)",
        ),
        Quantity::Rtt => (
            "rtt_distribution.svg",
            "Smoothed round-trip time".to_owned(),
            "Smoothed round-trip time (ms)",
        ),
        Quantity::Queue => (
            "queue_distribution.svg",
            "Queue".to_owned(),
            "Queue (packets)",
        ),
    };
    let shown: Vec<&Distributions> = all
        .iter()
        .filter(|of| of.quantity == quantity)
        .filter(|of| quantity != Quantity::Queue || worth_distributing(pair, &of.name))
        .collect();
    let ends = shown
        .iter()
        .flat_map(|of| &of.sides)
        .map(|side| side.ends());
    let (least, most) = ends.fold((f64::INFINITY, 0.0_f64), |(least, most), (from, to)| {
        (least.min(from), most.max(to))
    });
    let across = Across::values(label, least, most);
    let panels: Vec<Curves> = shown
        .iter()
        .map(|of| {
            let [a, b] = &of.sides;
            let mut curves = Curves::new(&title(&of.name, a, b));
            for (at, side) in pair.sides.iter().enumerate() {
                let points = of.sides[at].curve(across.from, across.to);
                curves
                    .lines
                    .push((Some(side.label.clone()), at, STEPS[at], points));
            }
            curves
        })
        .collect();
    figure(
        pair,
        file,
        &format!("{heading}: share of the time in which it was at most so large"),
        across,
        ("share", Scale::Share),
        &panels,
    )
}

fn worth_distributing(pair: &Pair, link: &str) -> bool {
    pair.sides
        .iter()
        .any(|side| side.shown().worth_drawing(link))
}

/// The name, and how far the two are apart.
fn title(name: &str, a: &Distribution, b: &Distribution) -> String {
    match a.mean() {
        mean if mean > 0.0 => format!(
            "{name}: on average {:.1} % of A’s mean apart",
            100.0 * a.area(b) / mean
        ),
        _ => name.to_owned(),
    }
}
