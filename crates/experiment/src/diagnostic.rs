//! What is wrong with an experiment file: where, the line itself, and what would be right.

use std::fmt;
use std::path::{Path, PathBuf};

/// A place in one of the texts of a [`Sources`]: bytes `start..end` of text number `source`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Which text: 0 is the file, the others are `--set` arguments in their order.
    pub source: usize,
    /// First byte.
    pub start: usize,
    /// One after the last byte.
    pub end: usize,
}

/// A value and the place it was written at.
#[derive(Clone, Debug, PartialEq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub span: Span,
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

    /// Adds a further text and gives its number.
    pub fn add(&mut self, name: &str, text: &str) -> usize {
        self.texts.push((name.to_owned(), text.to_owned()));
        self.texts.len() - 1
    }

    /// The problem as it is shown: with name, line, column and the line's text.
    pub fn problem(&self, finding: &Finding) -> Problem {
        let (name, text) = &self.texts[finding.span.source];
        let start = floor_char_boundary(text, finding.span.start);
        let end = floor_char_boundary(text, finding.span.end.max(start));
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

fn floor_char_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// A problem and its span, before it is turned into lines and columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub span: Span,
    /// What is wrong.
    pub message: String,
    /// What would be right; empty if nothing useful can be said.
    pub help: String,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file as it was named, or the `--set` argument.
    pub file: PathBuf,
    /// Line, from 1; 0 if the problem is the file as a whole.
    pub line: usize,
    /// Column in characters, from 1; 0 if the problem is the file as a whole.
    pub column: usize,
    /// The line's text.
    pub line_text: String,
    /// Characters of the line from `column` on that the problem is about, at least 1.
    pub marked: usize,
    /// What is wrong.
    pub message: String,
    /// What would be right; empty if nothing useful can be said.
    pub help: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(out, "{}: {}", self.file.display(), self.message)?;
        } else {
            let number = self.line.to_string();
            let margin = " ".repeat(number.len());
            // Tabs stay tabs below a tab, so that the mark stands under what it marks.
            let indent: String = self
                .line_text
                .chars()
                .take(self.column - 1)
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            writeln!(
                out,
                "{}:{}:{}: {}",
                self.file.display(),
                self.line,
                self.column,
                self.message
            )?;
            writeln!(out, "  {number} | {}", self.line_text)?;
            write!(out, "  {margin} | {indent}{}", "^".repeat(self.marked))?;
        }
        if !self.help.is_empty() {
            write!(out, "\n  help: {}", self.help)?;
        }
        Ok(())
    }
}

/// Everything that was found wrong with an experiment file, at least one problem, in the order of
/// the text.
///
/// Shown as `file:line:column: message`, the line itself, and `help:` with what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The problems.
    pub problems: Vec<Problem>,
}

impl Diagnostic {
    /// A problem of a file as a whole, for instance that it cannot be read.
    pub fn whole_file(file: &Path, message: String, help: String) -> Self {
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

    /// The findings with the places they stand at.
    pub fn new(sources: &Sources, findings: &[Finding]) -> Self {
        let mut sorted: Vec<&Finding> = findings.iter().collect();
        sorted.sort_by_key(|finding| finding.span);
        sorted.dedup();
        Diagnostic {
            problems: sorted.into_iter().map(|f| sources.problem(f)).collect(),
        }
    }
}

/// A generated file may be wrong a thousand times in the same way.
const MOST_SHOWN: usize = 20;

impl fmt::Display for Diagnostic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().take(MOST_SHOWN).enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            write!(out, "{problem}")?;
        }
        match self.problems.len().checked_sub(MOST_SHOWN) {
            Some(more) if more > 0 => write!(out, "\n... and {more} more"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}

/// `did you mean ...?` for the known word nearest to `word`, or the list of what is known.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(word, known.iter().copied()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None if known.is_empty() => String::new(),
        None => format!("known here: {}", some(&known)),
    }
}

/// The known word that `word` was probably meant to be.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters wrong is still the same word to a reader; more is another word.
    let tolerated = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= tolerated)
        .min()
        .map(|(_, candidate)| candidate)
}

/// The words with commas; of many only the first.
pub fn some(words: &[&str]) -> String {
    const MOST: usize = 20;
    let shown = words[..words.len().min(MOST)].join(", ");
    match words.len().checked_sub(MOST) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}

/// Damerau-Levenshtein distance (optimal string alignment) without regard to case.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let substitution = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substitution.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = above;
        above = row;
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_shows_place_line_mark_and_what_would_be_right() {
        let sources = Sources::new("a.toml", "one = 1\n  two = true\n");
        let finding = Finding {
            span: Span {
                source: 0,
                start: 16,
                end: 20,
            },
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
            span: Span {
                source: 0,
                start: 2 * line,
                end: 2 * line + 1,
            },
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
            span: Span {
                source: 0,
                start: 4,
                end: 10,
            },
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
    fn distance_counts_edits_and_swaps() {
        assert_eq!(distance("cubic", "cubic"), 0);
        assert_eq!(distance("cubci", "cubic"), 1);
        assert_eq!(distance("cubi", "cubic"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}
