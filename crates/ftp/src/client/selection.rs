//! What a URL with patterns names: `ftp://host/run?/*.h5`.
//!
//! `*`, `?` and `[…]` stand for characters of one name, `**` for any number of directories; `%XX` means the byte
//! itself. As in a shell, a pattern matches a name that begins with a dot only if it begins with one itself.

use std::collections::HashSet;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

use super::glob::{self, Step};
use super::place::{leads_elsewhere, without_type};
use super::{ClientError, Connection, Entry, Kind, Place, is_url, join, printable, scan};

/// A URL that names one location, or by patterns any number of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The location, or the directory in which the patterns begin.
    base: Place,
    /// Empty for a URL without patterns.
    steps: Vec<Step>,
    only_directories: bool,
}

/// A location that a URL names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// Where it is.
    pub place: Place,
    /// Its path below the directory in which the patterns begin; of a URL without patterns, its name.
    pub name: Vec<u8>,
    /// Its entry in a listing; `None` for a URL without patterns, of which the server has not been asked.
    pub entry: Option<Entry>,
}

/// What has been seen on the way.
#[derive(Default)]
struct Walked {
    found: Vec<Match>,
    /// Number of entries in all listings.
    entries: usize,
    /// Bytes of their names and `unique` facts, and of the paths of what was found.
    bytes: usize,
    /// The `unique` facts of the directories that `**` has entered: a link can lead back to one of them.
    seen: HashSet<String>,
}

impl Walked {
    fn is_new(&mut self, directory: &Entry) -> bool {
        let unique = directory.unique.clone();
        unique.is_none_or(|unique| self.seen.insert(unique))
    }
}

impl Selection {
    /// The location, or the directory in which the patterns begin.
    pub fn base(&self) -> &Place {
        &self.base
    }

    /// Whether the URL has patterns.
    pub fn has_patterns(&self) -> bool {
        !self.steps.is_empty()
    }

    /// The location that a URL without patterns names.
    ///
    /// # Errors
    /// If it has patterns; the error says how to write their characters where they are part of a name.
    pub fn single(self) -> Result<Place, ClientError> {
        if self.has_patterns() {
            return Err(ClientError::Usage(format!(
                "{}: one location is wanted here, no pattern; *, ? and [ in a name are written %2A, %3F and %5B",
                self.base
            )));
        }
        Ok(self.base)
    }

    /// All that it names, in the order of the listings. A URL without patterns names its location, whether or not
    /// something is there.
    ///
    /// # Errors
    /// If nothing matches, a directory cannot be listed, or the connection fails.
    pub fn find(&self, connection: &mut Connection) -> Result<Vec<Match>, ClientError> {
        if !self.has_patterns() {
            return Ok(vec![Match {
                place: self.base.clone(),
                name: self.base.name().unwrap_or_default().to_vec(),
                entry: None,
            }]);
        }
        let mut walked = Walked::default();
        self.walk(connection, &self.steps, Vec::new(), 0, &mut walked)?;
        let mut found = walked.found;
        found.sort_by(|a: &Match, b| a.name.cmp(&b.name));
        // `**` can lead to the same place in several ways.
        found.dedup_by(|a, b| a.name == b.name);
        if found.is_empty() {
            return Err(ClientError::Failed {
                what: format!(
                    "nothing in {} matches; *, ? and [ in a name are written %2A, %3F and %5B",
                    self.base
                ),
                transient: false,
            });
        }
        Ok(found)
    }

    /// Adds what matches `steps` in the directory `below` the base.
    fn walk(
        &self,
        connection: &mut Connection,
        steps: &[Step],
        below: Vec<u8>,
        depth: usize,
        walked: &mut Walked,
    ) -> Result<(), ClientError> {
        self.has_end(depth, walked)?;
        let directory = join(&self.base.path, &below);
        let entries = match connection.with(|session| session.list(&directory)) {
            // A link that leads to no directory.
            Err(ClientError::Refused { .. })
                if depth > 0 && self.may_fail(connection, &below)? =>
            {
                return Ok(());
            }
            entries => entries?,
        };
        walked.entries += entries.len();
        walked.bytes += entries.iter().map(Entry::room).sum::<usize>();
        self.take(connection, steps, &entries, &below, depth, walked)
    }

    /// Fails if there is more than any tree has.
    fn has_end(&self, depth: usize, walked: &Walked) -> Result<(), ClientError> {
        if depth <= scan::MAX_DEPTH
            && walked.entries <= scan::MAX_ENTRIES
            && walked.bytes <= scan::MAX_BYTES
        {
            return Ok(());
        }
        Err(ClientError::Usage(format!(
            "{}: more than {} directories deep, or more than {} files or {} MiB of names",
            self.base,
            scan::MAX_DEPTH,
            scan::MAX_ENTRIES,
            scan::MAX_BYTES >> 20
        )))
    }

    /// Adds what matches `steps` among the entries of the directory `below` the base.
    fn take(
        &self,
        connection: &mut Connection,
        steps: &[Step],
        entries: &[Entry],
        below: &[u8],
        depth: usize,
        walked: &mut Walked,
    ) -> Result<(), ClientError> {
        let Some((step, inner)) = steps.split_first() else {
            return Ok(());
        };
        if *step == Step::Deep && !inner.is_empty() {
            self.take(connection, inner, entries, below, depth, walked)?;
        }
        for entry in entries {
            // Names that lead elsewhere are no part of this directory.
            if entry.local_name().is_none() || !step.takes(&entry.name) {
                continue;
            }
            let name = join(below, &entry.name);
            if let Some(why) = scan::too_long(&entry.name, &name) {
                let note = format!("{}: left out: {why}", scan::shortened(&name));
                connection.options().progress.note(&note);
                continue;
            }
            let is_directory = entry.kind == Kind::Directory;
            match step {
                Step::Deep if is_directory && walked.is_new(entry) => {
                    self.walk(connection, steps, name.clone(), depth + 1, walked)?;
                }
                Step::Name(_) if !inner.is_empty() => {
                    if is_directory || entry.kind == Kind::Link {
                        self.walk(connection, inner, name, depth + 1, walked)?;
                    }
                    continue;
                }
                _ => {}
            }
            let is_last = inner.is_empty();
            if is_last && (is_directory || !self.only_directories) {
                walked.bytes += 2 * name.len();
                self.has_end(depth, walked)?;
                walked.found.push(Match {
                    place: self.base.with_path(join(&self.base.path, &name)),
                    name,
                    entry: Some(entry.clone()),
                });
            }
        }
        Ok(())
    }

    /// Whether a path that cannot be listed is no directory.
    fn may_fail(&self, connection: &mut Connection, below: &[u8]) -> Result<bool, ClientError> {
        let path = join(&self.base.path, below);
        connection.with(|session| Ok(!session.is_directory(&path)?))
    }
}

impl Step {
    fn takes(&self, name: &[u8]) -> bool {
        let hidden = name.starts_with(b".");
        match self {
            Self::Name(pattern) => {
                (!hidden || pattern.begins_with_a_dot()) && pattern.matches(name)
            }
            Self::Deep => !hidden,
        }
    }
}

impl FromStr for Selection {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, ClientError> {
        let one = |place| Self {
            base: place,
            steps: Vec::new(),
            only_directories: false,
        };
        let Some((before, path)) = split_at_pattern(text) else {
            return Ok(one(text.parse()?));
        };
        let base: Place = before.parse()?;
        let wrong = |what: &str| {
            ClientError::Usage(format!("{base}: {what} in {}", printable(path.as_bytes())))
        };
        let path = without_type(path).map_err(wrong)?;
        let mut steps = Vec::new();
        for component in path.split('/').filter(|component| !component.is_empty()) {
            if component == "**" {
                if steps.last() != Some(&Step::Deep) {
                    steps.push(Step::Deep);
                }
                continue;
            }
            let bytes: Vec<u8> = percent_decode_str(component).collect();
            if bytes.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
                return Err(wrong("a line end cannot be part of a name"));
            }
            if bytes.contains(&b'/') || leads_elsewhere(&bytes) {
                return Err(wrong("a component that leads elsewhere"));
            }
            if component.contains('#') {
                return Err(wrong("# in a name is written %23"));
            }
            let pattern = glob::of_url(component);
            let hint = "in a name, [ is written %5B";
            let pattern = pattern.map_err(|what| wrong(&format!("{what} ({hint})")))?;
            steps.push(Step::Name(pattern));
        }
        Ok(Self {
            base,
            steps,
            only_directories: path.ends_with('/'),
        })
    }
}

/// Splits a URL before the first component of its path that is a pattern.
fn split_at_pattern(text: &str) -> Option<(&str, &str)> {
    if !is_url(text) {
        return None;
    }
    let authority = text.find("://")? + "://".len();
    let root = authority + text[authority..].find('/')?;
    // What comes before the path is no place for patterns; `Place` says so.
    if text[..root].contains(['?', '#']) {
        return None;
    }
    let path = &text[root..];
    let (names, _) = path.split_once(";type=").unwrap_or((path, ""));
    let first = names.find(['*', '?', '['])?;
    let begin = root + names[..first].rfind('/')? + 1;
    Some((&text[..begin], &text[begin..]))
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::cases;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn whatever_a_url_says_it_leads_to_one_server_and_smuggles_nothing_in(
            path in "[a*?\\[\\]/%0-9A-F;=#.ä -]{0,30}",
        ) {
            if let Ok(selection) = format!("ftp://h/{path}").parse::<Selection>() {
                let base = selection.base();
                prop_assert_eq!((base.host.as_str(), base.port), ("h", 21));
                prop_assert!(!base.path.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')));
                prop_assert!(!selection.has_patterns() || base.is_directory());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(text: &str) -> Selection {
        text.parse().unwrap()
    }

    fn wrong(text: &str) -> String {
        text.parse::<Selection>().unwrap_err().to_string()
    }

    #[test]
    fn a_url_without_patterns_names_one_location() {
        for text in [
            "ftp://h/a%2Ab",
            "ftp://u:p*@h/x",
            "ftp://[::1]/x",
            "ftp://h",
        ] {
            assert_eq!(selection(text).single().unwrap(), text.parse().unwrap());
        }
        assert!(wrong("ftp://h?x").contains("%3F"));
    }

    #[test]
    fn patterns_begin_in_the_last_directory_without_them() {
        let found = selection("ftp://u@[::1]:2121/a%20b/run?/**/*.h5");
        assert_eq!(found.base().to_string(), "ftp://u@[::1]:2121/a%20b/");
        assert_eq!(found.steps.len(), 3);
        assert_eq!(selection("ftp://h//pub/*").base().path, b"/pub/");
        assert!(selection("ftp://h/*/").only_directories);
        assert_eq!(selection("ftp://h/*;type=i").steps.len(), 1);
    }

    #[test]
    fn patterns_lead_nowhere_else() {
        assert!(wrong("ftp://h/*/../x").contains("leads elsewhere"));
        assert!(wrong("ftp://h/*/a%2Fb").contains("leads elsewhere"));
        assert!(wrong("ftp://h/*%0aDELE%20x").contains("line end"));
        assert!(wrong("ftp://h/a[b").contains("%5B"));
        assert!(wrong("ftp://h/*/%2e/x").contains("leads elsewhere"));
        // It is neither the pattern `*` nor one for names.
        assert!(wrong("ftp://h/*;type=old").contains("%3B"));
        let one = selection("ftp://h/*").single().unwrap_err();
        assert!(one.to_string().contains("no pattern"), "{one}");
    }
}
