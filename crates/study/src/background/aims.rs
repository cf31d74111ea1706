//! What is aimed for, what is reached, and which cells fall short.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Error;
use crate::filter::Filter;
use crate::page::Section;
use crate::statistics::median;
use crate::table::Table;

use super::cell::Cell;
use super::groups::{Mean, members, number};
use super::rows::{NUMBERS, Row};
use super::suite::{Group, Suite};

/// Bounds of a number, for the median of cells and for each of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Aim {
    /// Its column in the file with all runs.
    number: String,
    /// For the median of the cells.
    median: Option<f64>,
    /// For every cell.
    worst: Option<f64>,
    /// Both are multiples of the time in which the cell is to reclaim the link.
    #[serde(default)]
    of_reclaim: bool,
    /// The time of so many packets on the link comes on top, ms.
    #[serde(default)]
    packets: f64,
    /// Further conditions on the cells.
    #[serde(default)]
    only: Vec<String>,
}

/// Numbers of which more is better, besides those of which less is.
const MORE: [&str; 5] = ["kept", "kept_second_half", "used", "alone", "jain"];

impl Aim {
    /// Whether more is better.
    fn is_least(&self) -> bool {
        MORE.contains(&self.number.as_str())
    }

    /// # Errors
    /// If there is no such number.
    pub(super) fn check(&self) -> Result<(), Error> {
        let names: Vec<&str> = NUMBERS.iter().map(|(name, ..)| *name).collect();
        match names.contains(&self.number.as_str()) {
            true => Ok(()),
            false => Err(Error::input(format!(
                "an aim for \"{}\"\n  help: a run has {}",
                self.number,
                names.join(", ")
            ))),
        }
    }

    /// The number of a cell, less what the cell's link adds to the bounds; nothing where it says nothing.
    fn of(&self, mean: &Mean<'_>, least_spare: f64) -> Option<f64> {
        let only: Vec<Filter> = self.only.iter().map(|text| text.as_str().into()).collect();
        if !Filter::all_take(&only, &mean.cell.run) {
            return None;
        }
        if self.number == "used" && mean.of(|row| row.spare_share)? < least_spare {
            return None;
        }
        let (_, number, _) = NUMBERS.iter().find(|(name, ..)| *name == self.number)?;
        let value = mean.of(*number)? - self.packets * 12.0 / mean.cell.mbps as f64;
        Some(if self.of_reclaim {
            value / mean.cell.reclaim_s
        } else {
            value
        })
    }

    fn meets(&self, value: f64, bound: f64) -> bool {
        if self.is_least() {
            value >= bound
        } else {
            value <= bound
        }
    }

    /// What it is about, in the words of the page.
    fn measure(&self) -> String {
        let unit = match (self.of_reclaim, self.packets) {
            (true, _) => ", of the time given".to_owned(),
            (_, 0.0) => String::new(),
            (_, 1.0) => ", less a packet's time".to_owned(),
            (_, packets) => format!(", less {packets} packets' time"),
        };
        let name = match self.number.as_str() {
            "kept_second_half" => "kept in the second half",
            "alone" => "of the link alone",
            "fct_p50" => "completion p50",
            "fct_p99" => "completion p99",
            "queue_added_p50_ms" => "queue p50, ms",
            "queue_added_p99_ms" => "queue p99, ms",
            "jain" => "Jain",
            "yield_rtt" => "yields, round trips",
            "reclaim_s" => "reclaims",
            name => name,
        };
        let only = self.only.join(" ");
        let of = if only.is_empty() {
            String::new()
        } else {
            format!(" ({only})")
        };
        format!("{name}{unit}{of}")
    }

    fn bound(&self, bound: f64) -> String {
        format!(
            "{} {bound}",
            if self.is_least() {
                "at least"
            } else {
                "at most"
            }
        )
    }
}

impl Group {
    /// What is aimed for, in a sentence; empty if nothing is.
    pub(super) fn aim_in_words(&self) -> String {
        let words = self.aim.iter().map(|aim| {
            let of = |what: &str, bound: Option<f64>| Some(format!("{what} {}", aim.bound(bound?)));
            let bounds = [of("median", aim.median), of("each cell", aim.worst)];
            let bounds: Vec<String> = bounds.into_iter().flatten().collect();
            format!("{}: {}", aim.measure(), bounds.join(", "))
        });
        words.collect::<Vec<String>>().join("; ")
    }
}

fn text(value: f64) -> String {
    number(value, 3)
}

/// What a contender has in the cells of an aim.
struct Reached<'a> {
    contender: &'a str,
    cells: Vec<(&'a Cell<'a>, f64)>,
}

impl Reached<'_> {
    fn values(&self) -> impl Iterator<Item = f64> {
        self.cells.iter().map(|(_, value)| *value)
    }

    /// Their median, and whether it is within the bound.
    fn median(&self, aim: &Aim, bound: f64) -> (String, bool) {
        let value = median(self.values().collect()).expect("there is a cell");
        (text(value), aim.meets(value, bound))
    }

    /// The worst of them, and how many are beyond the bound.
    fn worst(&self, aim: &Aim, bound: f64) -> (String, bool) {
        let worse = if aim.is_least() { f64::min } else { f64::max };
        let worst = self.values().reduce(worse).expect("there is a cell");
        let missed = self.values().filter(|value| !aim.meets(*value, bound));
        let (missed, all) = (missed.count(), self.cells.len());
        let said = format!("{}, {missed} of {all} miss", text(worst));
        (said, missed == 0)
    }
}

/// What those of `suite.ours` have reached of an aim; none of whom no cell is there.
fn reached<'a>(suite: &Suite, aim: &Aim, members: &[(&'a str, Vec<Mean<'a>>)]) -> Vec<Reached<'a>> {
    let of = |contender: &String| {
        let (contender, means) = members.iter().find(|(other, _)| other == contender)?;
        let value = |mean: &Mean<'a>| Some((mean.cell, aim.of(mean, suite.least_spare)?));
        let cells: Vec<_> = means.iter().filter_map(value).collect();
        (!cells.is_empty()).then_some(Reached { contender, cells })
    };
    suite.ours.iter().filter_map(of).collect()
}

/// The aims with what `suite.ours` have reached of them.
fn each(
    suite: &Suite,
    cells: &[Cell<'_>],
    rows: &[Row],
    mut see: impl FnMut(&Group, &Aim, &[Reached<'_>]),
) {
    for group in &suite.group {
        let members = members(group, cells, rows, "sim");
        for aim in &group.aim {
            let reached = reached(suite, aim, &members);
            if !reached.is_empty() {
                see(group, aim, &reached);
            }
        }
    }
}

/// A row's values in the order of `suite.ours`.
fn in_order(suite: &Suite, values: &BTreeMap<&str, String>) -> Vec<String> {
    let of = |name: &String| values.get(name.as_str()).cloned().unwrap_or_default();
    suite.ours.iter().map(of).collect()
}

/// What is reached of each aim, and by whom.
fn aims(suite: &Suite, cells: &[Cell<'_>], rows: &[Row]) -> Table {
    let ours = suite.ours.join(" | >");
    let mut table = Table::new(&format!("cells | measure | aim | >{ours} | met by"));
    each(suite, cells, rows, |group, aim, reached| {
        let mut row = |bound: String, said: Vec<(String, bool)>| {
            let named = || reached.iter().map(|one| one.contender).zip(&said);
            let met = named().filter(|(_, (_, is_met))| *is_met);
            let met: Vec<&str> = met.map(|(name, _)| name).collect();
            let by = match met.len() {
                all if all == said.len() => "all".to_owned(),
                _ => met.join(", "),
            };
            let values = named().map(|(name, (value, _))| (name, value.clone()));
            let head = [group.name.clone(), aim.measure(), bound];
            table.row(
                head.into_iter()
                    .chain(in_order(suite, &values.collect()))
                    .chain([by]),
            );
        };
        if let Some(bound) = aim.median {
            let said = reached.iter().map(|one| one.median(aim, bound));
            row(format!("median {}", aim.bound(bound)), said.collect());
        }
        if let Some(bound) = aim.worst {
            let said = reached.iter().map(|one| one.worst(aim, bound));
            row(format!("each cell {}", aim.bound(bound)), said.collect());
        }
    });
    table
}

/// The cells in which none of `suite.ours` has what is aimed for in each.
fn short(suite: &Suite, cells: &[Cell<'_>], rows: &[Row]) -> Table {
    let ours = suite.ours.join(" | >");
    let mut table = Table::new(&format!("cell | measure | aim | >{ours}"));
    each(suite, cells, rows, |_, aim, reached| {
        let Some(bound) = aim.worst else { return };
        let mut of_cell: BTreeMap<String, BTreeMap<&str, f64>> = BTreeMap::new();
        for one in reached {
            for (cell, value) in &one.cells {
                let values = of_cell.entry(cell.name()).or_default();
                values.insert(one.contender, *value);
            }
        }
        of_cell.retain(|_, values| !values.values().any(|value| aim.meets(*value, bound)));
        for (cell, values) in of_cell {
            let values = values.into_iter().map(|(name, value)| (name, text(value)));
            let head = [cell, aim.measure(), aim.bound(bound)];
            table.row(head.into_iter().chain(in_order(suite, &values.collect())));
        }
    });
    table
}

/// Both tables, as parts of the page; none without a run of `suite.ours`.
pub(super) fn sections(suite: &Suite, cells: &[Cell<'_>], rows: &[Row]) -> Vec<Section> {
    let aims = aims(suite, cells, rows);
    match aims.is_empty() {
        true => Vec::new(),
        false => vec![
            aims.section("aims"),
            short(suite, cells, rows).section("short"),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::super::cell;
    use super::*;

    #[test]
    fn a_cell_is_short_if_none_of_ours_has_what_is_aimed_for_in_each() {
        let plan = super::super::plan();
        let mut suite: Suite = plan.data().unwrap();
        suite.group.retain(|group| group.name == "bbr");
        let cells = cell::of_runs(&plan.runs, &suite).unwrap();
        // Kept by each of ours in two cells.
        let kept = [
            ("100mbit-20ms-1bdp-bbr-1bg", [0.90, 0.94, 0.99, 0.99]),
            ("100mbit-60ms-1bdp-bbr-1bg", [0.90, 0.91, 0.92, 0.925]),
        ];
        let mut rows = Vec::new();
        for (name, values) in kept {
            for (ours, kept) in suite.ours.iter().zip(values) {
                let is_it = |cell: &Cell<'_>| cell.control == *ours && cell.name() == name;
                rows.push(Row {
                    cell: cells.iter().position(is_it).unwrap(),
                    engine: "sim",
                    kept: Some(kept),
                    ..Row::default()
                });
            }
        }
        assert_eq!(
            aims(&suite, &cells, &rows).markdown(),
            "| cells | measure | aim | fairwind | one-host | gentle | gentle-one-host | met by |\n\
             |---|---|---|---:|---:|---:|---:|---|\n\
             | bbr | kept | median at least 0.97 | 0.900 | 0.925 | 0.955 | 0.958 |  |\n\
             | bbr | kept | each cell at least 0.93 | 0.900, 2 of 2 miss | 0.910, 1 of 2 miss \
             | 0.920, 1 of 2 miss | 0.925, 1 of 2 miss |  |\n"
        );
        assert_eq!(
            short(&suite, &cells, &rows).markdown(),
            "| cell | measure | aim | fairwind | one-host | gentle | gentle-one-host |\n\
             |---|---|---|---:|---:|---:|---:|\n\
             | 100mbit-60ms-1bdp-bbr-1bg | kept | at least 0.93 | 0.900 | 0.910 | 0.920 | 0.925 |\n"
        );
        assert!(sections(&suite, &cells, &[]).is_empty());
    }

    #[test]
    fn the_time_of_packets_and_the_time_to_reclaim_are_the_cells() {
        let aim = |text: &str| toml::from_str::<Aim>(text).unwrap();
        let queue = aim("number = \"queue_added_p50_ms\"\nmedian = 0.5\npackets = 1");
        assert_eq!(queue.measure(), "queue p50, ms, less a packet's time");
        assert!(queue.meets(0.5, 0.5) && !queue.meets(0.51, 0.5));
        let kept = aim("number = \"kept\"\nworst = 0.9\nonly = [\"rtt=20\"]");
        assert_eq!(kept.measure(), "kept (rtt=20)");
        assert!(kept.meets(0.9, 0.9) && !kept.meets(0.89, 0.9));
        let error = aim("number = \"keeps\"").check().unwrap_err().to_string();
        assert!(error.contains("an aim for \"keeps\""), "{error}");
    }
}
