//! The index of the papers: complete, consistent with the plans, and what its page shows.

use std::fs;
use std::path::{Path, PathBuf};

use fairwind_study::papers::{Index, Row, State};
use fairwind_study::{Plan, page};
use fairwind_testing::page::{Section, check_sections};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn index() -> Index {
    Index::read(&repository().join("experiments")).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn generated_sections_have_every_row_of_the_index() {
    let index = index();
    let generate = |section: &Section<'_>| {
        let name = section.what.strip_prefix("tables and figures of ")?;
        let paper = index.papers.iter().find(|paper| paper.name == name);
        Some(
            paper
                .unwrap_or_else(|| panic!("no paper {name}"))
                .markdown(),
        )
    };
    let known = check_sections("../measurements/papers.md", generate);
    assert_eq!(known.len(), index.papers.len());
}

/// The numbers of a range: `4.1 to 4.24`.
fn expanded(text: &str) -> Vec<String> {
    let (first, last) = text.split_once(" to ").unwrap_or((text, text));
    let parts = |number: &str| -> (String, u32) {
        let (chapter, number) = match number.rsplit_once('.') {
            Some((chapter, number)) => (format!("{chapter}."), number),
            None => (String::new(), number),
        };
        (
            chapter,
            number
                .parse()
                .unwrap_or_else(|_| panic!("{text:?} is not a number")),
        )
    };
    let ((chapter, first), (same, last)) = (parts(first), parts(last));
    assert!(chapter == same && first <= last, "{text:?} is no range");
    (first..=last)
        .map(|number| format!("{chapter}{number}"))
        .collect()
}

#[test]
fn ranges_stand_for_their_numbers() {
    assert_eq!(expanded("3"), ["3"]);
    assert_eq!(expanded("4.9 to 4.11"), ["4.9", "4.10", "4.11"]);
}

/// The numbers that several rows have, or none.
fn miscounted(all: &[String], of_rows: &[String]) -> Vec<String> {
    let count = |number: &String| of_rows.iter().filter(|other| *other == number).count();
    let listed = all.iter().filter(|number| count(number) != 1).cloned();
    let unknown = of_rows.iter().filter(|number| !all.contains(number));
    listed.chain(unknown.cloned()).collect()
}

#[test]
fn every_table_and_figure_of_the_papers_is_in_one_row() {
    let index = index();
    let all = |ranges: &[String]| -> Vec<String> {
        ranges.iter().flat_map(|range| expanded(range)).collect()
    };
    let counts = index
        .papers
        .iter()
        .map(|paper| (all(&paper.tables).len(), all(&paper.figures).len()));
    // ENABLE, its slides, ImTCP, drsFTP, Web100-Dummynet.
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [(28, 23), (0, 0), (4, 19), (0, 10), (2, 30)]
    );
    for paper in &index.papers {
        let of_rows = |numbers: fn(&Row) -> &Vec<String>| -> Vec<String> {
            paper
                .rows
                .iter()
                .flat_map(|row| all(numbers(row)))
                .collect()
        };
        let tables = miscounted(&all(&paper.tables), &of_rows(|row| &row.tables));
        let figures = miscounted(&all(&paper.figures), &of_rows(|row| &row.figures));
        assert!(tables.is_empty(), "{}: tables {tables:?}", paper.name);
        assert!(figures.is_empty(), "{}: figures {figures:?}", paper.name);
    }
}

#[test]
fn what_is_made_is_made_by_runs_and_parts_of_a_plan() {
    let experiments = repository().join("experiments");
    for (_, row) in index().rows() {
        let Some(making) = &row.making else { continue };
        let plan = Plan::read(&experiments, &making.plan).unwrap();
        plan.select(&making.only)
            .unwrap_or_else(|error| panic!("{}: {error}", row.id));
        for engine in &making.engines {
            assert!(
                plan.engines.contains(engine),
                "{}: {}",
                row.id,
                engine.word()
            );
        }
        let name = plan.page.expect("it has a page");
        let text = fs::read_to_string(repository().join(&name)).unwrap();
        assert!(!making.sections.is_empty(), "{}", row.id);
        for section in &making.sections {
            assert!(
                page::part(&text, section).is_some(),
                "{}: {name} has no {section}",
                row.id
            );
        }
    }
}

#[test]
fn what_is_not_made_says_why() {
    let index = index();
    let not_made = || {
        let rows = index.rows().map(|(_, row)| row);
        rows.filter(|row| row.state == State::NotMade)
    };
    assert!(not_made().next().is_some());
    for row in not_made() {
        assert!(!row.differ.is_empty(), "{}", row.id);
    }
}

#[test]
fn the_parts_and_figures_of_a_plan_are_on_its_page() {
    let experiments = repository().join("experiments");
    for name in fairwind_study::plan::names(&experiments).unwrap() {
        let plan = Plan::read(&experiments, &name).unwrap();
        let page_of_plan = plan.page.expect("it has a page");
        let text = fs::read_to_string(repository().join(&page_of_plan)).unwrap();
        let of_tables = plan.tables.iter().map(|table| &table.section);
        let of_figures = plan.figures.iter().map(|figure| &figure.section);
        for section in of_tables.chain(of_figures) {
            assert!(
                page::part(&text, section).is_some(),
                "{page_of_plan} has no {section}"
            );
        }
    }
}
