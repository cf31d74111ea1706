//! Foreign input for property tests: real examples with damage, and streams cut into pieces. Random bytes
//! alone rarely get past the first check of a parser.

use std::env;
use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// The environment variable with the factor by which properties are tested with more cases than usual.
pub const FACTOR: &str = "FAIRWIND_FUZZ_FACTOR";

/// Most changes to an example.
const CHANGES: usize = 6;
/// Bytes of the longest part that is deleted or repeated, less than.
const LONGEST_PART: usize = 400;
/// How often a part is repeated, less than.
const REPETITIONS: usize = 40;

/// Bytes at which parsers decide.
static TELLING: [&[u8]; 24] = [
    b"\0",
    b"\n",
    b"\r",
    b"\r\n",
    b" ",
    b"\t",
    b"\"",
    b"'",
    b"\\",
    b"/",
    b"<",
    b">",
    b",",
    b";",
    b"=",
    b"-",
    b"-1",
    b"0",
    b"1e999",
    b"NaN",
    b"18446744073709551616",
    b"\xff",
    b"\xff\xff\xff\xff",
    "\u{e9}\u{2028}\u{1f600}".as_bytes(),
];

/// The configuration of a property that is tested with this number of cases, or [`FACTOR`] times as many.
///
/// # Panics
///
/// If the factor is not a number.
pub fn cases(usual: u32) -> ProptestConfig {
    let factor = env::var(FACTOR).map_or(1, |factor| {
        let number = factor.parse::<u32>();
        number.unwrap_or_else(|_| panic!("{FACTOR} is {factor:?}; a number is needed"))
    });
    let cases = usual.saturating_mul(factor);
    let usually = ProptestConfig::default();
    ProptestConfig {
        cases,
        // As many for each case as by default.
        max_global_rejects: usually.max_global_rejects.max(cases.saturating_mul(4)),
        ..usually
    }
}

/// Any of the examples, with a few changes or none.
pub fn damaged<T: AsRef<[u8]>>(examples: &[T]) -> BoxedStrategy<Vec<u8>> {
    let owned = |example: &T| example.as_ref().to_vec();
    let examples: Vec<Vec<u8>> = examples.iter().map(owned).collect();
    let changes = vec(change(examples.clone()), 0..=CHANGES);
    (select(examples), changes)
        .prop_map(|(mut bytes, changes)| {
            for change in changes {
                change.apply(&mut bytes);
            }
            bytes
        })
        .boxed()
}

/// The same of text; what is no longer UTF-8 becomes the replacement character.
pub fn damaged_text(examples: &[&str]) -> BoxedStrategy<String> {
    damaged(examples)
        .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .boxed()
}

/// Where to cut a stream, for [`pieces`].
pub fn cuts() -> impl Strategy<Value = Vec<Index>> {
    vec(any::<Index>(), 0..8)
}

/// The bytes as they arrive: in pieces, some of which may be empty.
pub fn pieces<'a>(bytes: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let mut begin = 0;
    let piece = |end: usize| {
        let piece = &bytes[begin..end];
        begin = end;
        piece
    };
    ends.into_iter().map(piece).collect()
}

/// A change to an example.
#[derive(Clone, Debug)]
enum Change {
    Delete {
        at: Index,
        length: usize,
    },
    /// A part comes several times.
    Repeat {
        at: Index,
        length: usize,
        times: usize,
    },
    Flip {
        at: Index,
        bit: u32,
    },
    Insert {
        at: Index,
        bytes: Vec<u8>,
    },
    Replace {
        at: Index,
        bytes: Vec<u8>,
    },
    /// From some place on, the end of an example follows.
    Splice {
        at: Index,
        other: Vec<u8>,
        from: Index,
    },
}

fn change(examples: Vec<Vec<u8>>) -> impl Strategy<Value = Change> {
    let place = any::<Index>;
    let length = || prop_oneof![3 => 1..6_usize, 1 => 1..LONGEST_PART];
    let bytes = || {
        prop_oneof![
            3 => select(&TELLING[..]).prop_map(<[u8]>::to_vec),
            1 => vec(any::<u8>(), 1..12),
        ]
    };
    prop_oneof![
        (place(), length()).prop_map(|(at, length)| Change::Delete { at, length }),
        (place(), length(), 2..REPETITIONS).prop_map(|(at, length, times)| Change::Repeat {
            at,
            length,
            times
        }),
        (place(), 0..8_u32).prop_map(|(at, bit)| Change::Flip { at, bit }),
        (place(), bytes()).prop_map(|(at, bytes)| Change::Insert { at, bytes }),
        (place(), bytes()).prop_map(|(at, bytes)| Change::Replace { at, bytes }),
        (place(), select(examples), place()).prop_map(|(at, other, from)| Change::Splice {
            at,
            other,
            from
        }),
    ]
}

impl Change {
    fn apply(self, bytes: &mut Vec<u8>) {
        match self {
            Change::Delete { at, length } => {
                let range = part(bytes, at, length);
                bytes.drain(range);
            }
            Change::Repeat { at, length, times } => {
                let range = part(bytes, at, length);
                let repeated = bytes[range.clone()].repeat(times);
                bytes.splice(range, repeated);
            }
            Change::Flip { at, bit } => {
                let at = place(bytes, at);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
            Change::Insert { at, bytes: new } => {
                let at = place(bytes, at);
                bytes.splice(at..at, new);
            }
            Change::Replace { at, bytes: new } => {
                let range = part(bytes, at, new.len());
                bytes.splice(range, new);
            }
            Change::Splice { at, other, from } => {
                let at = place(bytes, at);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[place(&other, from)..]);
            }
        }
    }
}

/// Before a byte, or at the end.
fn place(bytes: &[u8], at: Index) -> usize {
    at.index(bytes.len() + 1)
}

fn part(bytes: &[u8], at: Index, length: usize) -> Range<usize> {
    let begin = place(bytes, at);
    begin..(begin + length).min(bytes.len())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    use super::*;

    proptest! {
        #[test]
        fn pieces_are_the_whole(bytes: Vec<u8>, cuts in cuts()) {
            let pieces = pieces(&bytes, &cuts);
            prop_assert_eq!(pieces.len(), cuts.len() + 1);
            prop_assert_eq!(pieces.concat(), bytes);
        }

        #[test]
        fn damage_is_bounded(bytes in damaged(&["one example", "another"])) {
            prop_assert!(bytes.len() <= 11 + CHANGES * LONGEST_PART * REPETITIONS);
        }
    }

    #[test]
    fn an_example_comes_as_it_is_and_changed_in_many_ways() {
        let mut runner = TestRunner::deterministic();
        let examples = damaged(&["one", "two"]);
        let mut seen = HashSet::new();
        for _ in 0..1_000 {
            seen.insert(examples.new_tree(&mut runner).unwrap().current());
        }
        assert!(seen.contains(&b"one"[..]) && seen.contains(&b"two"[..]));
        assert!(seen.len() > 300, "{}", seen.len());
    }
}
