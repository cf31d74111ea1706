//! Errors in an experiment file: the place, the line, and how to correct it.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use strsim::osa_distance;

/// A place in one of the texts of a [`Sources`]: bytes `start..end` of text number `source`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Index of the text: 0 is the file, the others are the `--set` arguments in order.
    pub source: usize,
    /// First byte.
    pub start: usize,
    /// One after the last byte.
    pub end: usize,
}

impl Span {
    /// These bytes of text number `source`.
    pub fn new(source: usize, Range { start, end }: Range<usize>) -> Span {
        Span { source, start, end }
    }
}

/// A value and where it was written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Its place in the texts.
    pub span: Span,
}

impl<T> Located<T> {
    /// This value at this place.
    pub fn new(value: impl Into<T>, span: Span) -> Located<T> {
        let value = value.into();
        Located { value, span }
    }
}

/// The texts that an experiment comes from: the file, then each `--set` argument.
#[derive(Clone, Debug)]
pub struct Sources {
    texts: Vec<(String, String)>,
}

impl Sources {
    /// The file's text under the name that messages show.
    pub fn new(name: &str, text: &str) -> Self {
        Sources {
            texts: vec![(name.to_owned(), text.to_owned())],
        }
    }

    /// Adds a text and returns its index.
    pub fn add(&mut self, name: &str, text: &str) -> usize {
        self.texts.push((name.to_owned(), text.to_owned()));
        self.texts.len() - 1
    }

    /// Resolves a finding to the file's name, line, column and the line's text.
    pub fn problem(&self, finding: &Finding) -> Problem {
        let (name, text) = &self.texts[finding.span.source];
        let start = text.floor_char_boundary(finding.span.start);
        let end = text.floor_char_boundary(finding.span.end.max(start));
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line = text[line_start..line_end].trim_end_matches('\r');
        let column = text[line_start..start].chars().count() + 1;
        let marked_end = end.min(line_start + line.len()).max(start);
        Problem {
            file: PathBuf::from(name),
            line: text[..start].matches('\n').count() + 1,
            column,
            line_text: line.to_owned(),
            marked: text[start..marked_end].chars().count().max(1),
            message: finding.message.clone(),
            help: finding.help.clone(),
        }
    }
}

/// A problem at a range of bytes, not yet resolved to line and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub span: Span,
    /// What is wrong.
    pub message: String,
    /// How to correct it; empty if there is no useful advice.
    pub help: String,
}

/// One problem, resolved to line and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file as it was named, or the `--set` argument.
    pub file: PathBuf,
    /// Line, from 1; 0 if the problem concerns the whole file.
    pub line: usize,
    /// Column in characters, from 1; 0 if the problem concerns the whole file.
    pub column: usize,
    /// The line's text.
    pub line_text: String,
    /// Number of characters to mark, from `column` on; at least 1.
    pub marked: usize,
    /// What is wrong.
    pub message: String,
    /// How to correct it; empty if there is no useful advice.
    pub help: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(out, "{}: {}", self.file.display(), self.message)?;
        } else {
            let number = self.line.to_string();
            let margin = " ".repeat(number.len());
            // Repeats the tabs of the line, so that the marks line up whatever the width of a tab.
            let before = self.line_text.chars().take(self.column - 1);
            let indent: String = before.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            let (file, column) = (self.file.display(), self.column);
            writeln!(out, "{file}:{number}:{column}: {}", self.message)?;
            writeln!(out, "  {number} | {}", self.line_text)?;
            write!(out, "  {margin} | {indent}{}", "^".repeat(self.marked))?;
        }
        if !self.help.is_empty() {
            write!(out, "\n  help: {}", self.help)?;
        }
        Ok(())
    }
}

/// All problems found in an experiment file, at least one, in the order of the text.
///
/// Printed as `file:line:column: message`, the line itself, and `help:` with the correction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The problems.
    pub problems: Vec<Problem>,
}

impl Diagnostic {
    /// A problem with the whole file, for instance that it cannot be read.
    pub(crate) fn whole_file(file: &Path, message: String, help: String) -> Self {
        Diagnostic {
            problems: vec![Problem {
                file: file.to_owned(),
                line: 0,
                column: 0,
                line_text: String::new(),
                marked: 1,
                message,
                help,
            }],
        }
    }

    /// Resolves the findings, sorted by place and without duplicates.
    pub fn new(sources: &Sources, findings: &[Finding]) -> Self {
        let mut sorted: Vec<&Finding> = findings.iter().collect();
        sorted.sort_by_key(|finding| finding.span);
        sorted.dedup();
        Diagnostic {
            problems: sorted.into_iter().map(|f| sources.problem(f)).collect(),
        }
    }
}

/// Problems printed at most: a generated file may contain the same one a thousand times.
const MOST_SHOWN: usize = 20;

impl fmt::Display for Diagnostic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().take(MOST_SHOWN).enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            write!(out, "{problem}")?;
        }
        if self.problems.len() > MOST_SHOWN {
            write!(out, "\n... and {} more", self.problems.len() - MOST_SHOWN)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

/// `did you mean ...?` with the known word nearest to `word`, or a list of the known words.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(word, known.iter().copied()) {
        Some(meant) => did_you_mean(meant),
        None if known.is_empty() => String::new(),
        None => format!("known here: {}", some(&known)),
    }
}

/// What helps someone who meant this word.
pub(crate) fn did_you_mean(meant: &str) -> String {
    format!("did you mean `{meant}`?")
}

/// The known word that `word` was probably meant to be.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // With up to a third of its letters wrong, a word is still recognisable.
    let tolerated = (word.chars().count() / 3).max(1);
    let lower = word.to_lowercase();
    let distances = known
        .into_iter()
        .map(|known| (osa_distance(&lower, &known.to_lowercase()), known));
    let near = distances.filter(|(distance, _)| *distance <= tolerated);
    near.min().map(|(_, known)| known)
}

/// The words, separated by commas; beyond the first 20 only their number.
pub fn some(words: &[&str]) -> String {
    const MAX_NAMES: usize = 20;
    let shown = words[..words.len().min(MAX_NAMES)].join(", ");
    if words.len() > MAX_NAMES {
        return format!("{shown} and {} more", words.len() - MAX_NAMES);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_shows_place_line_mark_and_what_would_be_right() {
        let sources = Sources::new("a.toml", "one = 1\n  two = true\n");
        let finding = Finding {
            span: Span::new(0, 16..20),
            message: "wants a number".into(),
            help: "write 2".into(),
        };
        assert_eq!(
            Diagnostic::new(&sources, &[finding]).to_string(),
            "a.toml:2:9: wants a number\n  2 |   two = true\n    |         ^^^^\n  help: write 2"
        );
    }

    #[test]
    fn the_twenty_first_problem_is_only_counted() {
        let sources = Sources::new("a.toml", &"x\n".repeat(25));
        let finding = |line: usize| Finding {
            span: Span::new(0, 2 * line..2 * line + 1),
            message: "wrong".into(),
            help: String::new(),
        };
        let findings: Vec<Finding> = (0..23).map(finding).collect();
        let text = Diagnostic::new(&sources, &findings).to_string();
        assert_eq!(text.matches("wrong").count(), 20);
        assert!(text.ends_with("\n... and 3 more"), "{text}");
    }

    #[test]
    fn a_span_over_several_lines_marks_the_rest_of_its_first() {
        let sources = Sources::new("a.toml", "x = [\n1,\n]\n");
        let problem = sources.problem(&Finding {
            span: Span::new(0, 4..10),
            message: String::new(),
            help: String::new(),
        });
        assert_eq!((problem.line, problem.column, problem.marked), (1, 5, 1));
    }

    #[test]
    fn a_misspelt_word_gets_the_nearest_known_one() {
        let known = ["bandwidth", "delay", "queue"];
        assert_eq!(suggestion("bandwith", known), "did you mean `bandwidth`?");
        assert_eq!(suggestion("dealy", known), "did you mean `delay`?");
        assert_eq!(
            suggestion("colour", known),
            "known here: bandwidth, delay, queue"
        );
        assert_eq!(suggestion("x", []), "");
    }

    #[test]
    fn edits_and_swaps_count_and_case_does_not() {
        assert_eq!(nearest("cubic", ["cubic"]), Some("cubic"));
        assert_eq!(nearest("Cubci", ["cubic"]), Some("cubic"));
        assert_eq!(nearest("cubi", ["cubic"]), Some("cubic"));
        assert_eq!(nearest("kitten", ["sitting"]), None);
        assert_eq!(nearest("", ["abc"]), None);
    }
}
