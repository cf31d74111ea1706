//! Patterns for names: `*`, `?`, `[…]`, as in glob(7).
//!
//! A pattern is matched against one component of a path. `?` and `[…]` stand for one character of UTF-8, or for one
//! byte where a name is not UTF-8.

use percent_encoding::percent_decode_str;

/// A pattern for one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Token>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// This byte.
    Byte(u8),
    /// Any one character.
    One,
    /// Any number of characters, also none.
    Many,
    /// One character in one of these ranges, ends included, or in none of them.
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// A byte of a pattern, and whether it is escaped and so means itself.
type Mark = (u8, bool);

impl Pattern {
    /// A component of a URL's path, in which `%XX` means the byte itself.
    ///
    /// # Errors
    /// If a `[` has no `]`, or a range ends before it begins.
    pub(super) fn of_url(text: &str) -> Result<Self, String> {
        let mut marks: Vec<Mark> = Vec::new();
        let mut rest = text;
        while let Some(byte) = rest.bytes().next() {
            let escaped = (byte == b'%')
                .then(|| rest.get(..3))
                .flatten()
                .filter(|code| code[1..].bytes().all(|digit| digit.is_ascii_hexdigit()));
            match escaped {
                Some(code) => {
                    marks.extend(percent_decode_str(code).map(|byte| (byte, true)));
                    rest = &rest[3..];
                }
                None => {
                    let length = rest.chars().next().map_or(1, char::len_utf8);
                    marks.extend(rest[..length].bytes().map(|byte| (byte, false)));
                    rest = &rest[length..];
                }
            }
        }
        Self::of_marks(&marks)
    }

    /// A component of a pattern on the command line, in which the character after a backslash means itself.
    ///
    /// # Errors
    /// As [`of_url`](Self::of_url).
    pub(super) fn of_words(text: &[u8]) -> Result<Self, String> {
        let mut marks = Vec::new();
        let mut bytes = text.iter().copied();
        while let Some(byte) = bytes.next() {
            marks.push(match byte {
                b'\\' => (bytes.next().unwrap_or(b'\\'), true),
                other => (other, false),
            });
        }
        Self::of_marks(&marks)
    }

    fn of_marks(marks: &[Mark]) -> Result<Self, String> {
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(mark) = marks.get(at) {
            at += 1;
            tokens.push(match *mark {
                (b'*', false) => Token::Many,
                (b'?', false) => Token::One,
                (b'[', false) => {
                    let (class, length) = class(&marks[at..])?;
                    at += length;
                    class
                }
                (byte, _) => Token::Byte(byte),
            });
        }
        tokens.dedup_by(|a, b| *a == Token::Many && *b == Token::Many);
        Ok(Self(tokens))
    }

    /// Whether a name matches.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        let tokens = &self.0;
        let (mut token, mut at) = (0, 0);
        // Where the last `*` is, and how far it reaches: the only place to go back to.
        let mut star: Option<(usize, usize)> = None;
        loop {
            let next = match tokens.get(token) {
                None if at == name.len() => return true,
                None => None,
                Some(Token::Many) => {
                    star = Some((token, at));
                    token += 1;
                    continue;
                }
                Some(one) => one.takes(&name[at..]),
            };
            match (next, star) {
                (Some(length), _) => {
                    token += 1;
                    at += length;
                }
                (None, Some((many, reach))) if reach < name.len() => {
                    let reach = reach + character(&name[reach..]).1;
                    star = Some((many, reach));
                    (token, at) = (many + 1, reach);
                }
                (None, _) => return false,
            }
        }
    }

    /// Whether it begins with a dot and so matches names that do.
    pub(super) fn begins_with_dot(&self) -> bool {
        self.0.first() == Some(&Token::Byte(b'.'))
    }
}

impl Token {
    /// The number of bytes at the beginning of `name` that it stands for; `None` if it does not match.
    fn takes(&self, name: &[u8]) -> Option<usize> {
        let first = *name.first()?;
        if let Self::Byte(byte) = self {
            return (*byte == first).then_some(1);
        }
        let (character, length) = character(name);
        let matches = match self {
            Self::Class { negated, ranges } => {
                let within = |character| {
                    let mut ranges = ranges.iter();
                    ranges.any(|(begin, end)| (*begin..=*end).contains(&character))
                };
                character.is_some_and(within) != *negated
            }
            _ => true,
        };
        matches.then_some(length)
    }
}

/// The first character and its length in bytes; no character if the first byte is none of UTF-8.
fn character(name: &[u8]) -> (Option<char>, usize) {
    let valid = match std::str::from_utf8(&name[..name.len().min(4)]) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&name[..error.valid_up_to()]).unwrap_or_default(),
    };
    match valid.chars().next() {
        Some(character) => (Some(character), character.len_utf8()),
        None => (None, 1),
    }
}

/// What follows `[`, and its length with the `]`.
fn class(marks: &[Mark]) -> Result<(Token, usize), String> {
    let negated = matches!(marks.first(), Some((b'!' | b'^', false)));
    let begin = usize::from(negated);
    let is_end = |mark: &Mark| *mark == (b']', false);
    // Directly after the `[`, a `]` means itself.
    let end = marks.iter().skip(begin + 1).position(is_end);
    let end = end.ok_or("a [ without its ]")? + begin + 1;
    let inside = &marks[begin..end];
    let bytes: Vec<u8> = inside.iter().map(|(byte, _)| *byte).collect();
    let text = std::str::from_utf8(&bytes).map_err(|_| "what is in [ ] is no UTF-8")?;
    let characters: Vec<(char, bool)> = text
        .char_indices()
        .map(|(at, character)| (character, inside[at].1))
        .collect();
    let mut ranges = Vec::new();
    let mut rest = characters.as_slice();
    while let [(first, _), after @ ..] = rest {
        match after {
            [('-', false), (last, _), more @ ..] => {
                if last < first {
                    return Err(format!("the range {first}-{last} ends before it begins"));
                }
                ranges.push((*first, *last));
                rest = more;
            }
            more => {
                ranges.push((*first, *first));
                rest = more;
            }
        }
    }
    Ok((Token::Class { negated, ranges }, end + 1))
}

/// A part of a pattern for paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// A name that matches.
    Name(Pattern),
    /// `**`: any number of directories, also none; at the end whatever is in them.
    Deep,
}

/// Whether these names, from the outermost directory inwards, are such a path.
pub(super) fn path_matches(steps: &[Step], names: &[&[u8]]) -> bool {
    match (steps, names) {
        ([], names) => names.is_empty(),
        // What is in a directory is not the directory.
        ([Step::Deep], names) => !names.is_empty(),
        ([Step::Deep, inner @ ..], names) => {
            (0..=names.len()).any(|skipped| path_matches(inner, &names[skipped..]))
        }
        ([Step::Name(pattern), inner @ ..], [name, below @ ..]) => {
            pattern.matches(name) && path_matches(inner, below)
        }
        ([Step::Name(_), ..], []) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::of_url(pattern).unwrap().matches(name.as_bytes())
    }

    #[test]
    fn a_star_stands_for_any_number_of_characters() {
        assert!(matches("*", "") && matches("*", "x") && matches("*.iso", "a.b.iso"));
        assert!(matches("a*b*c", "abc") && matches("a*b*c", "a-b-b-c"));
        assert!(!matches("a*b*c", "a-c-b") && !matches("*.iso", "a.iso.part"));
        assert!(matches("***x", "yx"));
    }

    #[test]
    fn a_question_mark_stands_for_one_character_however_long() {
        assert!(matches("m?ller", "müller") && matches("a?", "ab"));
        assert!(!matches("a?", "a") && !matches("a?", "abc"));
        let latin = Pattern::of_url("m?ller").unwrap();
        assert!(latin.matches(b"m\xfcller"));
    }

    #[test]
    fn brackets_stand_for_one_of_their_characters() {
        assert!(matches("run[1-3]", "run2") && !matches("run[1-3]", "run4"));
        assert!(matches("[!a]x", "bx") && matches("[^a]x", "bx") && !matches("[!a]x", "ax"));
        assert!(matches("[]a]", "]") && matches("[a-]", "-") && matches("[ä-ü]", "ö"));
        assert!(matches("[a%2Dz]", "-") && !matches("[a%2Dz]", "b"));
    }

    #[test]
    fn what_is_escaped_means_itself() {
        assert!(matches("a%2A*", "a*b") && !matches("a%2A*", "ab"));
        assert!(matches("%5B1]", "[1]") && matches("%3f?", "?x"));
        assert!(matches("100%*", "100%"));
        let words = Pattern::of_words(br"\**").unwrap();
        assert!(words.matches(b"*x") && !words.matches(b"x"));
    }

    #[test]
    fn a_pattern_that_is_none_is_told() {
        assert_eq!(Pattern::of_url("a[b"), Err("a [ without its ]".into()));
        let range = Pattern::of_url("[b-a]").unwrap_err();
        assert_eq!(range, "the range b-a ends before it begins");
    }

    #[test]
    fn paths_match_component_by_component() {
        let name = |text: &str| Step::Name(Pattern::of_url(text).unwrap());
        let steps = [Step::Deep, name("*.c")];
        assert!(path_matches(&steps, &[b"x.c"]));
        assert!(path_matches(&steps, &[b"a", b"b", b"x.c"]));
        assert!(!path_matches(&steps, &[b"x.c", b"y"]));
        assert!(!path_matches(&[name("*")], &[b"a", b"b"]));
        assert!(path_matches(&[name("a"), Step::Deep], &[b"a", b"b"]));
        assert!(!path_matches(&[name("a"), Step::Deep], &[b"a"]));
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::cases;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn no_pattern_and_no_name_is_too_much(
            pattern in "[a*?\\[\\]!%-]{0,24}",
            name in vec(prop_oneof![Just(b'a'), Just(b'*'), any::<u8>()], 0..40),
        ) {
            if let Ok(pattern) = Pattern::of_url(&pattern) {
                pattern.matches(&name);
            }
        }

        #[test]
        fn a_name_whose_bytes_are_all_escaped_matches_itself_alone(
            name in vec(any::<u8>(), 1..40),
            other in vec(any::<u8>(), 1..40),
        ) {
            let url: String = name.iter().map(|byte| format!("%{byte:02X}")).collect();
            let pattern = Pattern::of_url(&url).unwrap();
            prop_assert!(pattern.matches(&name));
            prop_assert_eq!(pattern.matches(&other), name == other);
        }
    }
}
