//! Options with a few words for values.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// A word, its help, and what it stands for.
pub(crate) type Word<T> = (&'static str, &'static str, T);

/// Accepts one of these words.
pub(crate) fn one_of<T: Copy + Send + Sync>(
    words: &'static [Word<T>],
) -> impl TypedValueParser<Value = T> {
    let possible = words
        .iter()
        .map(|(word, help, _)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(possible).map(|given| {
        let found = words.iter().find(|(word, ..)| *word == given);
        found.expect("it is one of them").2
    })
}
