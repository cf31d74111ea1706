//! Patterns of this host's user: names in URLs and on the command line, and paths of them.

use percent_encoding::percent_decode_str;

use crate::pattern::{Mark, Pattern, backslashed};

/// A component of a URL's path, in which `%XX` is literal.
///
/// # Errors
/// If a `[` has no `]`, or a range ends before it begins.
pub(super) fn of_url(text: &str) -> Result<Pattern, String> {
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
    Pattern::of_marks(&marks)
}

/// A component of a pattern on the command line, in which the character after a backslash is literal.
///
/// # Errors
/// As [`of_url`].
pub(super) fn of_words(text: &[u8]) -> Result<Pattern, String> {
    Pattern::of_marks(&backslashed(text))
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
        of_url(pattern).unwrap().matches(name.as_bytes())
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
        let latin = of_url("m?ller").unwrap();
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
        let words = of_words(br"\**").unwrap();
        assert!(words.matches(b"*x") && !words.matches(b"x"));
    }

    #[test]
    fn a_pattern_that_is_none_is_told() {
        assert_eq!(of_url("a[b"), Err("a [ without its ]".into()));
        let range = of_url("[b-a]").unwrap_err();
        assert_eq!(range, "the range b-a ends before it begins");
    }

    #[test]
    fn paths_match_component_by_component() {
        let name = |text: &str| Step::Name(of_url(text).unwrap());
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
            if let Ok(pattern) = of_url(&pattern) {
                pattern.matches(&name);
            }
        }

        #[test]
        fn a_name_whose_bytes_are_all_escaped_matches_itself_alone(
            name in vec(any::<u8>(), 1..40),
            other in vec(any::<u8>(), 1..40),
        ) {
            let url: String = name.iter().map(|byte| format!("%{byte:02X}")).collect();
            let pattern = of_url(&url).unwrap();
            prop_assert!(pattern.matches(&name));
            prop_assert_eq!(pattern.matches(&other), name == other);
        }
    }
}
