//! What CONTRIBUTING.md says of the crates: the table has what their manifests have, no crate uses one beside or
//! above it in the drawing, and the files that it names exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn contributing() -> String {
    fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap()
}

/// The crates of fairwind that the crate of each folder uses.
fn manifests() -> BTreeMap<String, BTreeSet<String>> {
    let folders = fs::read_dir(root().join("crates")).unwrap();
    let uses = |folder: &Path| {
        let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let section = text.split("\n[dependencies]\n").nth(1).unwrap_or("");
        let lines = section.lines().take_while(|line| !line.starts_with('['));
        let names = lines.filter_map(|line| line.strip_prefix("fairwind-")?.split(' ').next());
        names.map(str::to_owned).collect()
    };
    folders
        .map(|folder| folder.unwrap().path())
        .filter(|folder| folder.join("Cargo.toml").exists())
        .map(|folder| {
            let name = folder.file_name().unwrap().to_str().unwrap();
            (name.to_owned(), uses(&folder))
        })
        .collect()
}

/// The words between backticks.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn the_table_of_crates_has_what_their_manifests_have() {
    let text = contributing();
    let after = text.split("| crate in `crates/` |").nth(1).unwrap();
    let rows = after
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let mut table = BTreeMap::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let uses: BTreeSet<String> = words(cells[2]).map(str::to_owned).collect();
        for name in words(cells[0]) {
            let before = table.insert(name.to_owned(), uses.clone());
            assert!(before.is_none(), "{name} has two rows");
        }
    }
    assert_eq!(table, manifests());
}

#[test]
fn a_crate_uses_only_crates_of_lower_rows_of_the_drawing() {
    let text = contributing();
    let after = text.split("## Architecture").nth(1).unwrap();
    let drawing = after.split("```").nth(1).unwrap();
    let rows = drawing.lines().filter(|line| line.contains('│'));
    let mut row_of = BTreeMap::new();
    for (number, line) in rows.enumerate() {
        let crates = line.split_once('│').unwrap().1;
        for word in crates.split(|c: char| !c.is_ascii_lowercase() && c != '-') {
            row_of.insert(word.to_owned(), number);
        }
    }
    for (name, uses) in manifests() {
        // Neither is part of the program.
        if ["bpf-build", "testing"].contains(&name.as_str()) {
            continue;
        }
        let row = row_of.get(&name);
        assert!(row.is_some(), "{name} is not in the drawing");
        for used in uses {
            assert!(row_of.get(&used) > row, "{name} is not above {used}");
        }
    }
}
