//! What of an advisor's advice was not followed, and why, once for each reason.

use std::collections::BTreeMap;

/// Most sentences.
const MOST: usize = 16;

/// The sentences, each by what it is about.
#[derive(Debug, Default)]
pub(crate) struct Unfollowed {
    said: BTreeMap<String, String>,
    is_more: bool,
}

impl Unfollowed {
    /// Takes note of a sentence, in the place of an earlier one about the same.
    pub(crate) fn note(&mut self, about: impl Into<String>, said: impl Into<String>) {
        let about = about.into();
        if self.said.len() < MOST || self.said.contains_key(&about) {
            self.said.insert(about, said.into());
        } else {
            self.is_more = true;
        }
    }

    /// The sentences.
    pub(crate) fn list(&self) -> Vec<String> {
        let more = self.is_more.then(|| "and more".to_owned());
        self.said.values().cloned().chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_bounded_and_the_latest_counts() {
        let mut unfollowed = Unfollowed::default();
        for number in 0..100 {
            unfollowed.note(format!("{number:03}"), "earlier");
        }
        unfollowed.note("015", "later");
        let told = unfollowed.list();
        assert_eq!(told.len(), MOST + 1);
        assert_eq!(told[MOST - 1..], ["later", "and more"]);
    }
}
