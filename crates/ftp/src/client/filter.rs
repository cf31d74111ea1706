//! Which paths of a tree take part: patterns to include and exclude, as rsync(1) reads them.
//!
//! The first pattern that matches decides; a path that none matches takes part. Nothing below an excluded directory is
//! looked at. A pattern without a slash is matched against the name of each entry; one with a slash against the end of
//! the path; one that begins with a slash against the whole path. With a slash at the end it matches directories only.

use super::ClientError;
use super::glob::{self, Step, path_matches};
use crate::protocol::path::one_line;

/// Patterns to include and exclude, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter(Vec<Rule>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    includes: bool,
    steps: Vec<Step>,
    only_directories: bool,
}

impl Filter {
    /// Adds a pattern behind the others; what it matches takes part.
    ///
    /// # Errors
    /// If it is no pattern.
    pub fn include(&mut self, pattern: &str) -> Result<(), ClientError> {
        self.0.push(rule(true, pattern)?);
        Ok(())
    }

    /// Adds a pattern behind the others; what it matches takes no part.
    ///
    /// # Errors
    /// If it is no pattern.
    pub fn exclude(&mut self, pattern: &str) -> Result<(), ClientError> {
        self.0.push(rule(false, pattern)?);
        Ok(())
    }

    /// Whether a path, from the root of the tree, takes no part.
    pub fn leaves_out(&self, path: &[u8], is_directory: bool) -> bool {
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let decides = |rule: &&Rule| {
            (is_directory || !rule.only_directories) && path_matches(&rule.steps, &names)
        };
        self.0
            .iter()
            .find(decides)
            .is_some_and(|rule| !rule.includes)
    }
}

fn rule(includes: bool, text: &str) -> Result<Rule, ClientError> {
    let wrong = |what: &str| {
        let text = one_line(text.as_bytes());
        ClientError::Usage(format!("the pattern {text}: {what}"))
    };
    let is_anchored = text.starts_with('/');
    let mut steps = match is_anchored {
        true => Vec::new(),
        false => vec![Step::Deep],
    };
    for component in text.split('/').filter(|component| !component.is_empty()) {
        steps.push(match component {
            "**" => Step::Deep,
            _ => Step::Name(glob::of_words(component.as_bytes()).map_err(|what| wrong(&what))?),
        });
    }
    if !steps.iter().any(|step| matches!(step, Step::Name(_))) && !text.contains("**") {
        return Err(wrong("it is empty"));
    }
    Ok(Rule {
        includes,
        steps,
        only_directories: text.ends_with('/'),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(rules: &[&str]) -> Filter {
        let mut filter = Filter::default();
        for rule in rules {
            match rule.split_at(2) {
                ("+ ", pattern) => filter.include(pattern).unwrap(),
                (_, pattern) => filter.exclude(pattern).unwrap(),
            }
        }
        filter
    }

    /// The paths of a fixed tree that take part.
    fn taking_part(rules: &[&str]) -> Vec<&'static str> {
        let filter = filter(rules);
        let mut out: Vec<&str> = Vec::new();
        let tree = [
            "a/", "a/x.h5", "a/.x.swp", "b/", "b/a/", "b/a/x.h5", "x.txt",
        ];
        tree.into_iter()
            .filter(|path| {
                let is_directory = path.ends_with('/');
                let below_one_out = out.iter().any(|directory| path.starts_with(directory));
                let leaves = filter.leaves_out(path.trim_end_matches('/').as_bytes(), is_directory);
                if leaves && is_directory {
                    out.push(path);
                }
                !below_one_out && !leaves
            })
            .collect()
    }

    #[test]
    fn a_name_is_matched_wherever_it_is_and_a_path_at_its_end() {
        let all = taking_part(&[]);
        assert_eq!(all.len(), 7);
        assert_eq!(taking_part(&["- a"]), ["b/", "x.txt"]);
        assert_eq!(taking_part(&["- /a"]), ["b/", "b/a/", "b/a/x.h5", "x.txt"]);
        let one = ["a/", "a/.x.swp", "b/", "b/a/", "x.txt"];
        assert_eq!(taking_part(&["- a/*.h5"]), one);
        assert_eq!(taking_part(&["- *.h5"]), one);
        assert_eq!(
            taking_part(&["- /b/**"]),
            ["a/", "a/x.h5", "a/.x.swp", "b/", "x.txt"]
        );
    }

    #[test]
    fn the_first_pattern_that_matches_decides() {
        let h5 = ["a/", "a/x.h5", "b/", "b/a/", "b/a/x.h5"];
        assert_eq!(taking_part(&["+ */", "+ *.h5", "- *"]), h5);
        assert_eq!(taking_part(&["- *", "+ *.h5"]), Vec::<&str>::new());
        assert_eq!(taking_part(&["+ *.h5", "- *"]), Vec::<&str>::new());
    }

    #[test]
    fn a_slash_at_the_end_means_directories_and_stars_take_dots() {
        assert_eq!(taking_part(&["- x.txt/"]).len(), 7);
        assert_eq!(taking_part(&["- */"]), ["x.txt"]);
        assert_eq!(taking_part(&["- *.swp"]).len(), 6);
    }

    #[test]
    fn what_is_no_pattern_is_told() {
        let error = Filter::default().exclude("a[").unwrap_err();
        assert_eq!(error.to_string(), "the pattern a[: a [ without its ]");
        assert!(Filter::default().include("").is_err());
        assert!(Filter::default().include("/").is_err());
    }
}
