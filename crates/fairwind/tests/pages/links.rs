//! Rules for every page: its links lead somewhere, the contents list it, and it is no diary.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::recipes::pages;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// The pages of the book, and those beside it.
fn all_pages() -> Vec<PathBuf> {
    let root = root();
    let mut all = pages(&root.join("docs"));
    all.extend(["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root.join(name)));
    all
}

fn events(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// Where the links and images of a page lead.
fn links(text: &str) -> Vec<String> {
    let of_event = |event| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            Some(dest_url.into_string())
        }
        _ => None,
    };
    events(text).filter_map(of_event).collect()
}

/// The anchors of a page's headings, as GitHub and mdBook form them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in events(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let slug = slug(&heading.take().unwrap_or_default());
                // A repeated heading gets a number.
                let numbered = (1..).map(|number| format!("{slug}-{number}"));
                let mut names = std::iter::once(slug.clone()).chain(numbered);
                anchors.insert(names.find(|name| !anchors.contains(name)).unwrap());
            }
            _ => {}
        }
    }
    anchors
}

fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

/// The path without `..`; it need not exist.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// Why a link of this page is broken, if it is.
fn broken(page: &Path, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => page.to_owned(),
        file => plain(&page.parent().unwrap().join(file)),
    };
    if !target.exists() {
        return Some(format!("{link}: there is no {}", target.display()));
    }
    let docs = root().join("docs");
    if page.starts_with(&docs) && !target.starts_with(&docs) {
        return Some(format!("{link}: leaves the book; name the file instead"));
    }
    let is_page = target.extension().is_some_and(|kind| kind == "md");
    if anchor.is_empty() || !is_page {
        return None;
    }
    let anchors = anchors(&fs::read_to_string(&target).unwrap());
    (!anchors.contains(anchor)).then(|| format!("{link}: {} has {anchors:?}", target.display()))
}

#[test]
fn every_link_leads_somewhere() {
    let mut wrong = Vec::new();
    for page in all_pages() {
        let text = fs::read_to_string(&page).unwrap();
        let broken = links(&text)
            .into_iter()
            .filter_map(|link| broken(&page, &link));
        wrong.extend(broken.map(|why| format!("{}: {why}", page.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The files of the repository that a page names in code, other than patterns and the one that the tutorial makes.
fn named_files(text: &str) -> impl Iterator<Item = &str> {
    let folders = ["crates/", "cc/", "docs/", "experiments/", "scripts/"];
    let words = text.split('`').skip(1).step_by(2);
    words.filter(move |word| {
        let is_pattern =
            word.contains(|c: char| c.is_whitespace() || c.is_uppercase() || "*<{".contains(c));
        folders.iter().any(|folder| word.starts_with(folder)) && !is_pattern && *word != "cc/aimd.c"
    })
}

#[test]
fn every_file_that_a_page_names_is_there() {
    let mut wrong = Vec::new();
    for page in all_pages() {
        let text = fs::read_to_string(&page).unwrap();
        let missing = named_files(&text).filter(|file| !root().join(file).exists());
        wrong.extend(missing.map(|file| format!("{}: there is no {file}", page.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_contents_name_every_page_once() {
    let docs = root().join("docs");
    let contents = docs.join("SUMMARY.md");
    let mut named: Vec<PathBuf> = links(&fs::read_to_string(&contents).unwrap())
        .iter()
        .map(|link| docs.join(link))
        .collect();
    named.sort();
    let mut there = pages(&docs);
    there.retain(|page| *page != contents);
    there.sort();
    assert_eq!(named, there);
}

/// Whether a word may be the name of a commit: hexadecimal, of seven digits or more, and no number.
fn names_a_commit(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let hexadecimal = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    (7..=40).contains(&word.len())
        && word.bytes().all(hexadecimal)
        && word.bytes().any(|c| c.is_ascii_digit())
        && word.bytes().any(|c| c.is_ascii_lowercase())
}

/// The commit of a measurement belongs in the head of the raw series.
#[test]
fn no_page_names_a_commit() {
    let mut named = Vec::new();
    for page in all_pages() {
        let text = fs::read_to_string(&page).unwrap();
        for (line, number) in text.lines().zip(1..) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let pairs = words.windows(2);
            let said = pairs.filter(|pair| pair[0].ends_with("commit") && names_a_commit(pair[1]));
            named.extend(said.map(|pair| format!("{}:{number}: {}", page.display(), pair[1])));
        }
    }
    assert!(named.is_empty(), "{}", named.join("\n"));
}

#[test]
fn what_links_call_a_heading_is_made_of_its_words() {
    let page = "# The lab\n\n## Who may connect, and `to` what?\n\n## The lab\n";
    let expected = ["the-lab", "the-lab-1", "who-may-connect-and-to-what"];
    assert_eq!(anchors(page), expected.map(str::to_owned).into());
    assert!(names_a_commit("fd6054d,"));
    assert!(!names_a_commit("defaced") && !names_a_commit("20261122"));
}
