//! Patterns of one name, as in shells (glob(7)): `*`, `?`, `[a-z]`, `[!a-z]`. Characters are those of UTF-8; a byte that is
//! not part of one counts as one of its own. How a character is made literal is up to whoever reads the pattern.

use std::convert::Infallible;

/// Work that matching may still cost, in comparisons. Costlier operations are charged as several.
#[derive(Debug)]
pub(crate) struct Budget(u64);

/// The pattern would cost more work than any user may ask for.
#[derive(Debug, PartialEq, Eq)]
pub struct Exhausted;

impl Budget {
    /// Allows this number of comparisons.
    pub(crate) fn new(comparisons: u64) -> Self {
        Self(comparisons)
    }

    /// Allows whatever one name and one pattern of this host's user cost.
    pub(crate) fn unlimited() -> Self {
        Self(u64::MAX)
    }

    /// Takes `cost` from it.
    ///
    /// # Errors
    /// If nothing is left.
    pub(crate) fn spend(&mut self, cost: u64) -> Result<(), Exhausted> {
        self.0 = self.0.saturating_sub(cost);
        match self.0 {
            0 => Err(Exhausted),
            _ => Ok(()),
        }
    }
}

/// A character, or a byte that is not part of one.
type Unit = u32;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// `*`
    Run,
    /// `?`
    One,
    Set {
        negated: bool,
        ranges: Vec<(Unit, Unit)>,
    },
    Literal(Unit),
}

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Token>);

/// A byte of a pattern, and whether it is literal.
pub(crate) type Mark = (u8, bool);

/// A character of a pattern, and whether it is literal.
type Sign = (Unit, bool);

/// Whether a text contains wildcards.
pub(crate) fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

fn units(bytes: &[u8]) -> Vec<Unit> {
    let chunks = bytes.utf8_chunks().flat_map(|chunk| {
        // Numbered above all characters.
        let strays = chunk.invalid().iter();
        let strays = strays.map(|byte| Unit::from(char::MAX) + 1 + Unit::from(*byte));
        chunk.valid().chars().map(Unit::from).chain(strays)
    });
    chunks.collect()
}

/// The characters of these bytes; one is literal if its first byte is.
fn signs(marks: &[Mark]) -> Vec<Sign> {
    let bytes: Vec<u8> = marks.iter().map(|(byte, _)| *byte).collect();
    let mut at = 0;
    let signs = units(&bytes).into_iter().map(|unit| {
        let is_literal = marks[at].1;
        at += char::from_u32(unit).map_or(1, char::len_utf8);
        (unit, is_literal)
    });
    signs.collect()
}

/// Bytes in which the character after a `\` is literal; one at the end is itself.
pub(crate) fn backslashed(text: &[u8]) -> Vec<Mark> {
    let mut marks = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        marks.push(match byte {
            b'\\' => (bytes.next().unwrap_or(b'\\'), true),
            other => (other, false),
        });
    }
    marks
}

impl Pattern {
    /// Parses a pattern in which `\` makes a character literal. Every text is one: a bracket that is not closed is a
    /// literal.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let otherwise = |_: &str| Ok(Token::Literal(Unit::from('[')));
        let read: Result<Self, Infallible> = Self::read(&backslashed(text), otherwise);
        let Ok(pattern) = read;
        pattern
    }

    /// A pattern of a user, who is told of mistakes.
    ///
    /// # Errors
    /// If a `[` has no `]`, or a range ends before it begins.
    pub(crate) fn of_marks(marks: &[Mark]) -> Result<Self, String> {
        let pattern = Self::read(marks, |why: &str| Err(why.to_owned()))?;
        let mut sets = pattern.0.iter().filter_map(|token| match token {
            Token::Set { ranges, .. } => Some(ranges),
            _ => None,
        });
        let wrong = sets.find_map(|ranges| ranges.iter().find(|(first, last)| last < first));
        match wrong {
            None => Ok(pattern),
            Some((first, last)) => {
                let [first, last] = [*first, *last]
                    .map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
                Err(format!("the range {first}-{last} ends before it begins"))
            }
        }
    }

    /// Parses a pattern; `open` says what becomes of a bracket that is not closed.
    fn read<E>(marks: &[Mark], open: impl Fn(&str) -> Result<Token, E>) -> Result<Self, E> {
        let signs = signs(marks);
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(&(unit, is_literal)) = signs.get(at) {
            at += 1;
            let token = match char::from_u32(unit).filter(|_| !is_literal) {
                Some('*') => Token::Run,
                Some('?') => Token::One,
                Some('[') => match set(&signs[at..]) {
                    Some((token, length)) => {
                        at += length;
                        token
                    }
                    None => open("a [ without its ]")?,
                },
                _ => Token::Literal(unit),
            };
            if token != Token::Run || tokens.last() != Some(&Token::Run) {
                tokens.push(token);
            }
        }
        Ok(Self(tokens))
    }

    /// Whether it begins with a literal dot; only then, or if `hidden` names are requested, does it match
    /// names that begin with one.
    pub(crate) fn begins_with_a_dot(&self) -> bool {
        self.0.first() == Some(&Token::Literal(Unit::from('.')))
    }

    /// Whether it matches this name, whatever that costs.
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        self.means(name, &mut Budget::unlimited()) == Ok(true)
    }

    /// Whether it matches this name.
    ///
    /// # Errors
    /// [`Exhausted`] if the budget runs out.
    pub(crate) fn means(&self, name: &[u8], budget: &mut Budget) -> Result<bool, Exhausted> {
        let name = units(name);
        let (mut token, mut at) = (0, 0);
        // Where to resume if what follows the last `*` does not match: that `*` then takes one character
        // more.
        let mut last_run: Option<(usize, usize)> = None;
        budget.spend(1)?;
        loop {
            match (self.0.get(token), name.get(at)) {
                (None, None) => return Ok(true),
                (Some(Token::Run), _) => {
                    last_run = Some((token + 1, at));
                    token += 1;
                    continue;
                }
                (Some(wanted), Some(&unit)) if wanted.fits(unit, budget)? => {
                    (token, at) = (token + 1, at + 1);
                    continue;
                }
                _ => {}
            }
            match last_run {
                Some((after, from)) if from < name.len() => {
                    last_run = Some((after, from + 1));
                    (token, at) = (after, from + 1);
                }
                _ => return Ok(false),
            }
        }
    }
}

impl Token {
    fn fits(&self, unit: Unit, budget: &mut Budget) -> Result<bool, Exhausted> {
        budget.spend(1)?;
        Ok(match self {
            Self::Run => false,
            Self::One => true,
            Self::Literal(wanted) => *wanted == unit,
            Self::Set { negated, ranges } => {
                budget.spend(ranges.len() as u64)?;
                let mut ranges = ranges.iter();
                ranges.any(|(first, last)| (*first..=*last).contains(&unit)) != *negated
            }
        })
    }
}

/// Parses the set that follows `[`; returns it and its length, `]` included.
fn set(signs: &[Sign]) -> Option<(Token, usize)> {
    let is = |at: usize, wanted: char| signs.get(at) == Some(&(Unit::from(wanted), false));
    let negated = is(0, '!') || is(0, '^');
    let first = usize::from(negated);
    let mut ranges = Vec::new();
    let mut at = first;
    // A bracket right at the beginning is a literal.
    while !is(at, ']') || at == first {
        let (from, _) = *signs.get(at)?;
        at += 1;
        let mut to = from;
        if is(at, '-') && !is(at + 1, ']') {
            (to, _) = *signs.get(at + 1)?;
            at += 2;
        }
        ranges.push((from, to));
    }
    Some((Token::Set { negated, ranges }, at + 1))
}

/// The text without the `\` before literal characters.
pub(crate) fn unescaped(text: &[u8]) -> Vec<u8> {
    backslashed(text)
        .into_iter()
        .map(|(byte, _)| byte)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use fairwind_testing::fuzz::cases;
    use proptest::prelude::*;

    use super::*;

    fn means(pattern: &[u8], name: &[u8]) -> bool {
        let mut budget = Budget::new(1_000_000);
        Pattern::parse(pattern).means(name, &mut budget).unwrap()
    }

    #[test]
    fn patterns_mean_what_they_mean_in_shells() {
        for (pattern, name) in [
            ("*.txt", "a.txt"),
            ("*.txt", ".txt"),
            ("*", ""),
            ("a*b*c", "aXbXbXc"),
            ("?.txt", "ä.txt"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[^a-c]x", "dx"),
            ("[]x]", "]"),
            ("[a-]", "-"),
            ("[\\]]", "]"),
            ("[ä-ü]", "ö"),
            ("a[1", "a[1"),
            ("\\*", "*"),
            ("a\\", "a\\"),
        ] {
            assert!(
                means(pattern.as_bytes(), name.as_bytes()),
                "{pattern} {name}"
            );
        }
        for (pattern, name) in [
            ("*.txt", "a.txt.gz"),
            ("?", ""),
            ("?", "ab"),
            ("[a-c]x", "dx"),
            ("\\*", "a"),
            ("a*b*c", "acb"),
        ] {
            assert!(
                !means(pattern.as_bytes(), name.as_bytes()),
                "{pattern} {name}"
            );
        }
        assert!(means(b"?\xff*", b"\xfe\xff\xfd"));
    }

    #[test]
    fn work_is_bounded() {
        let pattern = Pattern::parse("*a".repeat(100).as_bytes());
        let name = [b'a'; 255];
        let mut budget = Budget::new(1_000_000);
        // The worst case for one name; an algorithm that tries all runs would take forever.
        assert_eq!(
            pattern.means(&[&name[..], b"b"].concat(), &mut budget),
            Ok(false)
        );
        let mut budget = Budget::new(10_000);
        let mut names = std::iter::repeat_with(|| pattern.means(&name, &mut budget));
        assert!(names.any(|meant| meant == Err(Exhausted)));
    }

    proptest! {
        #![proptest_config(cases(256))]

        /// fnmatch(3) knows only bytes in the locale of tests.
        #[test]
        fn names_of_ascii_are_meant_as_by_the_c_library(
            pattern in "[ab*?\\[\\]!\\\\-]{0,12}", name in "[ab\\-\\[\\]!]{0,8}"
        ) {
            // POSIX leaves open what a descending range or a backslash at the end means.
            prop_assume!(!pattern.ends_with('\\') && !pattern.contains('-'));
            let (by_c, text) = (CString::new(pattern.clone()).unwrap(), CString::new(name.clone()).unwrap());
            // SAFETY: both arguments are NUL-terminated strings.
            let found = unsafe { libc::fnmatch(by_c.as_ptr(), text.as_ptr(), 0) };
            prop_assert_eq!(means(pattern.as_bytes(), name.as_bytes()), found == 0);
        }
    }
}
