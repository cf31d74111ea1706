//! What can be meant at the cursor: commands, names on the server, names here.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use fairwind_ftp::client::{Entry, Kind, Selection};
use rustyline::Context;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;

use super::Site;
use super::words::COMMANDS;

/// How long a listing is believed.
const FRESH: Duration = Duration::from_secs(10);
/// Commands that the shell has of its own.
const OWN: [&str; 10] = [
    "bookmark", "cd", "close", "exit", "help", "lcd", "lpwd", "open", "pwd", "quit",
];

/// The listing of a directory of the server, by its path.
struct Listed {
    path: Vec<u8>,
    at: Instant,
    entries: Vec<Entry>,
}

/// Completes for the editor of lines.
pub(super) struct Helper {
    site: Rc<RefCell<Option<Site>>>,
    files: FilenameCompleter,
    listed: RefCell<Option<Listed>>,
}

impl Helper {
    pub(super) fn new(site: Rc<RefCell<Option<Site>>>) -> Self {
        Self {
            site,
            files: FilenameCompleter::new(),
            listed: RefCell::new(None),
        }
    }

    /// The entries of the directory that a word leads to; none if it cannot be listed.
    fn entries(&self, directory: &str) -> Vec<Entry> {
        let mut site = self.site.borrow_mut();
        let Some(site) = site.as_mut() else {
            return Vec::new();
        };
        let url = site.url(directory).ok();
        let selection = url.and_then(|url| url.parse::<Selection>().ok());
        let Some(Ok(place)) = selection.map(Selection::single) else {
            return Vec::new();
        };
        let mut listed = self.listed.borrow_mut();
        if let Some(listed) = &*listed
            && listed.path == place.path
            && listed.at.elapsed() < FRESH
        {
            return listed.entries.clone();
        }
        let entries = site.connection.with(|session| session.list(&place.path));
        let entries = entries.unwrap_or_default();
        *listed = Some(Listed {
            path: place.path,
            at: Instant::now(),
            entries: entries.clone(),
        });
        entries
    }
}

/// Names that begin as the word's last part does, as they are typed.
fn candidates(entries: &[Entry], begun: &str, only_directories: bool) -> Vec<Pair> {
    let entries = entries.iter().filter(|entry| entry.local_name().is_some());
    let fitting = entries.filter_map(|entry| {
        // What is not UTF-8, or would not stay on a line, cannot be typed.
        let name = std::str::from_utf8(&entry.name).ok()?;
        let is_directory = entry.kind == Kind::Directory;
        let fits = name.starts_with(begun)
            && (!name.starts_with('.') || begun.starts_with('.'))
            && !name.chars().any(char::is_control)
            && (is_directory || entry.kind == Kind::Link || !only_directories);
        fits.then(|| {
            let end = if is_directory { "/" } else { "" };
            Pair {
                display: format!("{name}{end}"),
                replacement: format!("{}{end}", typed(name)),
            }
        })
    });
    fitting.collect()
}

/// A name as it is typed: characters of patterns as `%XX`, those of the shell behind a backslash.
fn typed(name: &str) -> String {
    let mut text = String::new();
    for one in name.chars() {
        match one {
            '*' | '?' | '[' => text.push_str(&format!("%{:02X}", one as u32)),
            ' ' | '\'' | '"' | '\\' | '#' => text.extend(['\\', one]),
            one => text.push(one),
        }
    }
    text
}

/// Where the word at the cursor begins, and the word without its backslashes.
fn word(line: &str) -> (usize, String) {
    let (mut begin, mut word, mut escaped) = (0, String::new(), false);
    for (at, one) in line.char_indices() {
        match one {
            one if escaped => {
                word.push(one);
                escaped = false;
            }
            '\\' => escaped = true,
            ' ' | '\t' => {
                begin = at + 1;
                word.clear();
            }
            one => word.push(one),
        }
    }
    (begin, word)
}

/// Where the last component of the word at the cursor begins.
fn last_component(line: &str, begin: usize) -> usize {
    line[begin..]
        .rfind('/')
        .map_or(begin, |slash| begin + slash + 1)
}

impl Completer for Helper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let line = &line[..at];
        let (begin, word) = word(line);
        let command = line.split_whitespace().next().unwrap_or_default();
        if line[..begin].trim().is_empty() {
            let known = COMMANDS.iter().chain(&OWN);
            let mut fitting: Vec<&&str> = known.filter(|one| one.starts_with(&word)).collect();
            fitting.sort();
            let pairs = fitting.into_iter().map(|one| Pair {
                display: (*one).to_owned(),
                replacement: format!("{one} "),
            });
            return Ok((begin, pairs.collect()));
        }
        let is_here = matches!(command, "put" | "lcd")
            || line.starts_with('!')
            || (command == "mirror" && line.contains(" -R"));
        if is_here {
            return self.files.complete(line, at, context);
        }
        if word.starts_with('-') || matches!(command, "open" | "bookmark" | "help") {
            return Ok((at, Vec::new()));
        }
        let (directory, begun) = match word.rfind('/') {
            Some(slash) => word.split_at(slash + 1),
            None => ("", word.as_str()),
        };
        let entries = self.entries(directory);
        let found = candidates(&entries, begun, command == "cd");
        Ok((last_component(line, begin), found))
    }
}

impl Hinter for Helper {
    type Hint = String;
}

impl Highlighter for Helper {}

impl Validator for Helper {}

impl rustyline::Helper for Helper {}

#[cfg(test)]
mod tests {
    use super::*;

    fn replacements(begun: &str, only_directories: bool) -> Vec<String> {
        let entry = |name: &str, kind| Entry::new(name.as_bytes().to_vec(), kind);
        let entries = [
            entry("run 7", Kind::Directory),
            entry("run[1]", Kind::File),
            entry(".run", Kind::File),
            entry("../run", Kind::File),
            entry("ru\x1bn", Kind::File),
            Entry::new(b"run\xff".to_vec(), Kind::File),
            entry("other", Kind::File),
        ];
        let found = candidates(&entries, begun, only_directories).into_iter();
        found.map(|pair| pair.replacement).collect()
    }

    #[test]
    fn names_are_offered_as_they_are_typed() {
        assert_eq!(replacements("ru", false), ["run\\ 7/", "run%5B1]"]);
        assert_eq!(replacements("ru", true), ["run\\ 7/"]);
        assert_eq!(replacements("", false).len(), 3);
        assert_eq!(replacements(".", false), [".run"]);
    }

    #[test]
    fn the_word_at_the_cursor_is_found() {
        assert_eq!(word("get a\\ b/c"), (4, "a b/c".to_owned()));
        assert_eq!(last_component("get a\\ b/c", 4), 9);
        assert_eq!(word("get "), (4, String::new()));
        assert_eq!(word("g"), (0, "g".to_owned()));
    }
}
