//! Which runs of a plan are made: `--only size=1,8`, `--only figure-4.1`.

use std::fmt;

use crate::plan::Run;

/// A condition on the parameters of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The parameter; any if none.
    pub parameter: Option<String>,
    /// The values that it may have. A `*` stands for any characters.
    pub values: Vec<String>,
}

/// As it is read.
impl fmt::Display for Filter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parameter) = &self.parameter {
            write!(out, "{parameter}=")?;
        }
        out.write_str(&self.values.join(","))
    }
}

/// Reads `PARAMETER=VALUE[,VALUE...]`, or values of any parameter.
impl From<&str> for Filter {
    fn from(text: &str) -> Filter {
        let (parameter, values) = match text.split_once('=') {
            Some((parameter, values)) => (Some(parameter.trim().to_owned()), values),
            None => (None, text),
        };
        let values = values.split(',').map(|value| value.trim().to_owned());
        Filter {
            parameter,
            values: values.collect(),
        }
    }
}

impl Filter {
    /// Whether the run has one of the values.
    pub fn takes(&self, run: &Run) -> bool {
        run.parameters.iter().any(|(name, value)| {
            let is_it = self.parameter.as_ref().is_none_or(|wanted| wanted == name);
            is_it && self.values.iter().any(|pattern| is_like(value, pattern))
        })
    }

    /// The filters as one condition: those for the same parameter, or for any, are alternatives.
    pub fn all_take(filters: &[Filter], run: &Run) -> bool {
        filters.iter().all(|filter| {
            let mut alternatives = filters
                .iter()
                .filter(|other| other.parameter == filter.parameter);
            alternatives.any(|other| other.takes(run))
        })
    }

    /// Whether the filters take all that the others take.
    pub fn take_all_of(filters: &[Filter], others: &[Filter]) -> bool {
        filters.iter().all(|filter| {
            let patterns = values(filters, &filter.parameter);
            let values = values(others, &filter.parameter);
            let is_taken = |value: &&str| patterns.iter().any(|pattern| is_like(value, pattern));
            !values.is_empty() && values.iter().all(is_taken)
        })
    }
}

/// What the filters take of one parameter.
fn values<'a>(filters: &'a [Filter], parameter: &Option<String>) -> Vec<&'a str> {
    let same = filters
        .iter()
        .filter(|filter| filter.parameter == *parameter);
    same.flat_map(|filter| filter.values.iter().map(String::as_str))
        .collect()
}

/// Whether the text is as the pattern says, in which a `*` stands for any characters.
fn is_like(text: &str, pattern: &str) -> bool {
    let Some((before, behind)) = pattern.split_once('*') else {
        return text == pattern;
    };
    let Some(rest) = text.strip_prefix(before) else {
        return false;
    };
    let mut places = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    places.any(|at| is_like(&rest[at..], behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(parameters: &[(&str, &str)]) -> Run {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Run {
            parameters: parameters.iter().map(owned).collect(),
            ..Run::default()
        }
    }

    fn only(texts: &[&str]) -> Vec<Filter> {
        texts.iter().map(|text| Filter::from(*text)).collect()
    }

    #[test]
    fn what_other_filters_take_is_taken_too() {
        for (filters, others) in [
            (&[][..], &["size=1"][..]),
            (&["size=1,8"], &["size=8"]),
            (&["size=1,8"], &["size=8", "path=95"]),
            (&["size=1", "size=8"], &["size=8,1"]),
            (&["size=*"], &["size=8", "size=1*"]),
        ] {
            assert!(
                Filter::take_all_of(&only(filters), &only(others)),
                "{filters:?}"
            );
        }
        for (filters, others) in [
            (&["size=1"][..], &[][..]),
            (&["size=1"], &["size=1", "size=8"]),
            (&["size=1", "path=95"], &["size=1"]),
            (&["size=1"], &["path=1"]),
            (&["size=1*"], &["size=*"]),
        ] {
            assert!(
                !Filter::take_all_of(&only(filters), &only(others)),
                "{filters:?}"
            );
        }
    }

    #[test]
    fn filters_for_one_parameter_are_alternatives_and_those_for_two_are_both_needed() {
        let run = run(&[("path", "95"), ("size", "8")]);
        for texts in [
            &["size=1,8"][..],
            &["size=1", "size=8"],
            &["95", "size=8"],
            &[],
        ] {
            assert!(Filter::all_take(&only(texts), &run), "{texts:?}");
        }
        for texts in [
            &["size=1"][..],
            &["size=8", "path=1000"],
            &["kind=8"],
            &["9"],
        ] {
            assert!(!Filter::all_take(&only(texts), &run), "{texts:?}");
        }
    }

    #[test]
    fn a_filter_is_written_as_it_is_read() {
        for text in ["size=1,8", "figure-4.1"] {
            assert_eq!(Filter::from(text).to_string(), text);
        }
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        assert!(is_like("cubic-5mbit-30ms", "cubic*"));
        assert!(is_like("cubic-5mbit-30ms", "*mbit*"));
        assert!(is_like("cubic", "cubic*"));
        assert!(!is_like("cubic-5mbit", "reno*"));
        assert!(!is_like("figure-4.13", "figure-4.1"));
    }
}
