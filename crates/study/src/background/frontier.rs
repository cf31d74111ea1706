//! Harm against use: what a contender costs the foreground and what it takes of what is spare, a dot for each cell, as
//! figures and as a page on which each dot leads to its runs.

use fairwind_report::page::{self, Dot, Heading, Kind as Dots, Page, Scatter, number};

use crate::cache::write_whole;
use crate::page::Section;
use crate::statistics::median;
use crate::table::Table;
use crate::{Error, Made, Task};

use super::cell::Cell;
use super::groups::{Mean, members};
use super::rows::{NUMBERS, Row};
use super::setup::{Role, Setup};
use super::suite::{Group, Kind, Suite};
use super::work;

/// The page.
const PAGE: &str = "frontier.html";
/// What is drawn of harm; less is drawn at the lower edge.
const HARM: (f64, f64) = (0.001, 1.0);
/// What is drawn of use: more is possible, as a contender may take what is not spare.
const USED: f64 = 1.2;

/// What a contender costs the foreground of a cell, and what it takes of what is spare.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    harm: f64,
    used: f64,
}

impl Place {
    /// Of a cell in which enough is spare; none of others, and of groups without a foreground.
    fn of(kind: Kind, mean: &Mean<'_>, least_spare: f64) -> Option<Place> {
        let harm = match kind {
            Kind::Kept => 1.0 - mean.of(|row| row.kept)?,
            Kind::Web => mean.of(|row| row.fct_p50)? - 1.0,
            Kind::Video => mean.of(|row| row.missed)? - mean.of(|row| row.missed_solo)?,
            Kind::Alone | Kind::Times | Kind::Engines | Kind::Noise => return None,
        };
        let used = mean.of(|row| row.used)?;
        (mean.of(|row| row.spare_share)? >= least_spare).then_some(Place { harm, used })
    }
}

/// A contender in a group.
struct Contender<'a> {
    control: &'a str,
    places: Vec<(Place, &'a Cell<'a>)>,
    middle: Place,
}

fn contenders<'a>(
    suite: &Suite,
    group: &Group,
    cells: &'a [Cell<'a>],
    rows: &'a [Row],
) -> Vec<Contender<'a>> {
    let contender = |(control, means): (&'a str, Vec<Mean<'a>>)| {
        let place =
            |mean: &Mean<'a>| Some((Place::of(group.kind, mean, suite.least_spare)?, mean.cell));
        let places: Vec<(Place, &Cell<'_>)> = means.iter().filter_map(place).collect();
        let middle =
            |of: fn(&Place) -> f64| median(places.iter().map(|(place, _)| of(place)).collect());
        let middle = Place {
            harm: middle(|place| place.harm)?,
            used: middle(|place| place.used)?,
        };
        Some(Contender {
            control,
            places,
            middle,
        })
    };
    let all = members(group, cells, rows, "sim").into_iter();
    all.filter_map(contender).collect()
}

/// The places at which nothing has less harm at as much use, in the order of use.
fn frontier(middles: &[Place]) -> Vec<Place> {
    let is_beaten = |one: &Place| {
        middles
            .iter()
            .any(|other| other.harm <= one.harm && other.used >= one.used && other != one)
    };
    let mut frontier: Vec<Place> = middles
        .iter()
        .filter(|one| !is_beaten(one))
        .copied()
        .collect();
    frontier.sort_by(|one, other| one.used.total_cmp(&other.used));
    frontier
}

/// The harm of a frontier at this use: between two places on the line that joins them, below the first as there; none
/// beyond the last.
fn at(frontier: &[Place], used: f64) -> Option<f64> {
    let above = frontier.iter().position(|place| place.used >= used)?;
    let high = frontier[above];
    let Some(low) = above.checked_sub(1).map(|below| frontier[below]) else {
        return Some(high.harm);
    };
    let share = (used - low.used) / (high.used - low.used);
    Some(low.harm + share * (high.harm - low.harm))
}

/// The part of the page with those who have less harm, in the medians of a group, than `suite.ours` at equal use.
pub(super) fn section(suite: &Suite, cells: &[Cell<'_>], rows: &[Row]) -> Section {
    let mut table = Table::new("cells | contender | >used | >harm | >ours at that use");
    let is_ours =
        |contender: &Contender<'_>| suite.ours.iter().any(|name| name == contender.control);
    for group in &suite.group {
        let contenders = contenders(suite, group, cells, rows);
        let ours = contenders.iter().filter(|one| is_ours(one));
        let ours = frontier(&ours.map(|one| one.middle).collect::<Vec<Place>>());
        for contender in contenders.iter().filter(|one| !is_ours(one)) {
            let Place { harm, used } = contender.middle;
            if let Some(ours) = at(&ours, used)
                && harm < ours
            {
                let numbers = [used, harm, ours].map(|number| format!("{number:.3}"));
                let names = [group.name.clone(), contender.control.to_owned()];
                table.row(names.into_iter().chain(numbers));
            }
        }
    }
    table.section("frontier")
}

/// The figure of a group; `link` is where the dot of a cell leads.
fn scatter(
    group: &Group,
    contenders: &[Contender<'_>],
    colour: impl Fn(&str) -> usize,
    link: Option<&dyn Fn(&Cell<'_>) -> String>,
) -> Scatter {
    let kind = |contender: &Contender<'_>| {
        let dot = |(place, cell): &(Place, &Cell<'_>)| Dot {
            x: place.used,
            y: place.harm,
            title: link.map_or(String::new(), |_| {
                let (control, name) = (contender.control, cell.name());
                format!(
                    "{control}, {name}: harm {:.3}, used {:.3}",
                    place.harm, place.used
                )
            }),
            link: link.map_or(String::new(), |link| link(cell)),
        };
        Dots {
            name: contender.control.to_owned(),
            colour: colour(contender.control),
            dots: contender.places.iter().map(dot).collect(),
            middle: Some((contender.middle.used, contender.middle.harm)),
        }
    };
    let middles: Vec<Place> = contenders
        .iter()
        .map(|contender| contender.middle)
        .collect();
    let joined = frontier(&middles).into_iter();
    let harm = match group.kind {
        Kind::Web => "median completion time beyond that without a background, share",
        Kind::Video => "further segments that miss their deadlines, share",
        _ => "goodput that the foreground loses, share",
    };
    Scatter {
        title: group.title.clone(),
        what:
            "A dot for each cell, a large one for the medians; the line joins those that none beats"
                .to_owned(),
        across: "carried in the background, as a share of what is spare".to_owned(),
        greatest: USED,
        upwards: harm.to_owned(),
        range: HARM,
        kinds: contenders.iter().map(kind).collect(),
        joined: joined.map(|place| (place.used, place.harm)).collect(),
    }
}

/// Draws the figures, and writes the page and what its dots lead to.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn draw(
    task: &Task<'_>,
    suite: &Suite,
    cells: &[Cell<'_>],
    rows: &[Row],
    made: &mut Made,
) -> Result<(), Error> {
    let mut controls: Vec<&str> = Vec::new();
    for cell in cells {
        if !controls.contains(&cell.control.as_str()) {
            controls.push(&cell.control);
        }
    }
    let colour = |control: &str| {
        controls
            .iter()
            .position(|other| *other == control)
            .unwrap_or(0)
    };
    let folder =
        |cell: &Cell<'_>| format!("sim/{}/index.html", work::folder(cell, Role::Contended));
    let facts = [
        format!(
            "{} cells",
            cells
                .iter()
                .filter(|cell| cell.control == cells[0].control)
                .count()
        ),
        format!("fairwind {}", env!("CARGO_PKG_VERSION")),
    ];
    let [mut page, mut of_book] = [(); 2].map(|()| Page::new(&task.plan.title, &facts));
    page.text("A dot leads to the runs of its cell.");
    for group in &suite.group {
        let contenders = contenders(suite, group, cells, rows);
        if contenders.is_empty() {
            continue;
        }
        for page in [&mut page, &mut of_book] {
            page.heading(&group.title);
        }
        page.scatter(&scatter(group, &contenders, colour, Some(&folder)));
        let plain = scatter(group, &contenders, colour, None);
        of_book.scatter(&plain);
        let table = medians(&contenders);
        page.table(&table);
        of_book.table(&table);
        made.draw_scatter(&task.plan.name, &group.name.replace(' ', "-"), &plain);
    }
    write_whole(&task.out.join(PAGE), &page.html())?;
    made.documents.push((PAGE.to_owned(), of_book.html()));
    made.remarks
        .push_str(&format!("{}\n", task.out.join(PAGE).display()));
    folders(task, suite, cells, rows)
}

fn medians(contenders: &[Contender<'_>]) -> page::Table {
    let mut table = page::Table::new(vec![
        Heading::text("Control"),
        Heading::number("Cells with something spare", ""),
        Heading::number("Harm", "median"),
        Heading::number("Used", "median"),
    ]);
    for contender in contenders {
        table.row(vec![
            page::escape(contender.control),
            contender.places.len().to_string(),
            number(Some(contender.middle.harm), 3),
            number(Some(contender.middle.used), 3),
        ]);
    }
    table
}

/// A page for each cell, beside its runs: its numbers and how to run it again.
fn folders(task: &Task<'_>, suite: &Suite, cells: &[Cell<'_>], rows: &[Row]) -> Result<(), Error> {
    for (at, cell) in cells.iter().enumerate() {
        let rows: Vec<&Row> = rows
            .iter()
            .filter(|row| row.cell == at && row.engine == "sim")
            .collect();
        let Some(first) = rows.first() else { continue };
        let title = format!("{} in the background: {}", cell.control, cell.name());
        let mut page = Page::new(&title, &[]);
        let mut table = page::Table::new(vec![
            Heading::text("Seed"),
            Heading::text("Measure"),
            Heading::number("Value", ""),
        ]);
        for row in &rows {
            for (name, of_row, _) in NUMBERS {
                if let Some(value) = of_row(row) {
                    let value = number(Some(value), 4);
                    table.row(vec![row.seed.to_string(), (*name).to_owned(), value]);
                }
            }
        }
        page.table(&table);
        page.text("Every run with its time series and its plots, from this folder:");
        page.listing(&format!("fairwind sim run seed-{}.toml", first.seed));
        let other =
            "The foreground alone and the strict-priority queue are in ../solo and ../oracle.";
        page.note(if cell.has_foreground() { other } else { "" });
        page.listing(&Setup::new(suite, cell, Role::Contended, first.seed)?.text);
        let folder = work::folder(cell, Role::Contended);
        write_whole(
            &task.out.join(format!("sim/{folder}/index.html")),
            &page.html(),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frontier_is_of_those_that_none_beats() {
        let place = |used, harm| Place { harm, used };
        let all = [
            place(0.9, 0.5),
            place(0.1, 0.0),
            place(0.5, 0.1),
            place(0.4, 0.2),
            place(0.5, 0.3),
        ];
        assert_eq!(
            frontier(&all),
            [place(0.1, 0.0), place(0.5, 0.1), place(0.9, 0.5)]
        );
        let frontier = frontier(&all);
        assert_eq!(at(&frontier, 0.05), Some(0.0));
        assert!((at(&frontier, 0.7).unwrap() - 0.3).abs() < 1e-9);
        assert_eq!(at(&frontier, 0.95), None);
    }
}
