//! Names for URLs, in `fairwind/bookmarks` below `XDG_CONFIG_HOME`: a name and a URL a line.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use fairwind_ftp::client::{Place, is_url};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::failure::Failure;

/// The file, or none for a user without a home.
pub(super) struct Bookmarks(Option<PathBuf>);

impl Bookmarks {
    pub(super) fn find() -> Self {
        let base = super::base("XDG_CONFIG_HOME", ".config");
        Self(base.map(|base| base.join("fairwind/bookmarks")))
    }

    /// The URL of a name.
    pub(super) fn get(&self, name: &str) -> Result<String, Failure> {
        let all = self.read()?;
        all.get(name).cloned().ok_or_else(|| {
            Failure::input(format!(
                "{name} is neither a bookmark nor a URL such as ftp://user@host/path"
            ))
        })
    }

    /// All of them, a line each.
    pub(super) fn list(&self) -> Result<String, Failure> {
        let all = self.read()?;
        let lines = all.iter().map(|(name, url)| format!("{name} {url}\n"));
        Ok(lines.collect())
    }

    /// Adds or replaces one.
    pub(super) fn add(&self, name: &str, url: &str) -> Result<(), Failure> {
        let is_name = !name.is_empty() && !name.starts_with('#') && !is_url(name);
        if !is_name || name.contains(ends_word) {
            return Err(Failure::input(format!(
                "{name:?} is no name for a bookmark: it has blanks, or is a URL or a comment"
            )));
        }
        let place: Place = url.parse()?;
        if place.password.is_some() {
            return Err(Failure::input(
                "bookmarks keep no passwords; ~/.netrc does, and the shell asks",
            ));
        }
        let mut all = self.read()?;
        all.insert(name.to_owned(), one_word(url));
        self.write(&all)
    }

    /// Removes one.
    pub(super) fn remove(&self, name: &str) -> Result<(), Failure> {
        let mut all = self.read()?;
        if all.remove(name).is_none() {
            return Err(Failure::input(format!("{name} is no bookmark")));
        }
        self.write(&all)
    }

    fn read(&self) -> Result<BTreeMap<String, String>, Failure> {
        let Some(path) = &self.0 else {
            return Ok(BTreeMap::new());
        };
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text.map_err(Failure::no_input(path))?,
        };
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let bookmarks = lines.map(|(number, line)| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [name, url] => Ok((name.to_owned(), url.to_owned())),
                _ => Err(Failure::input(format!(
                    "{}:{}: a name and a URL are wanted",
                    path.display(),
                    number + 1
                ))),
            }
        });
        bookmarks.collect()
    }

    fn write(&self, all: &BTreeMap<String, String>) -> Result<(), Failure> {
        let path = self.0.as_ref();
        let path = path.ok_or_else(|| Failure::input("without HOME there are no bookmarks"))?;
        let failed = Failure::at(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let text: String = all
            .iter()
            .map(|(name, url)| format!("{name} {url}\n"))
            .collect();
        // Whole or not at all.
        let new = path.with_extension("new");
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, path))
            .map_err(failed)
    }
}

/// Whether a character would end a word of the file.
fn ends_word(one: char) -> bool {
    one.is_whitespace() || one.is_control()
}

/// The same URL without blanks.
fn one_word(url: &str) -> String {
    let mut word = String::new();
    for one in url.chars() {
        match ends_word(one) {
            true => word.extend(utf8_percent_encode(&one.to_string(), NON_ALPHANUMERIC)),
            false => word.push(one),
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_of_urls_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let bookmarks = Bookmarks(Some(folder.path().join("bookmarks")));
        for url in ["ftp://h/my runs/ ", "ftp://h/a\tb", "ftp://h/\u{3000}ü"] {
            bookmarks.add("work", url).unwrap();
            let path = |url: &str| url.parse::<Place>().unwrap().path;
            assert_eq!(path(&bookmarks.get("work").unwrap()), path(url));
        }
        assert_eq!(bookmarks.list().unwrap(), "work ftp://h/%E3%80%80ü\n");
    }

    #[test]
    fn bookmarks_are_kept_and_passwords_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let bookmarks = Bookmarks(Some(folder.path().join("fairwind/bookmarks")));
        assert_eq!(bookmarks.list().unwrap(), "");
        bookmarks.add("work", "ftp://alice@h/runs").unwrap();
        bookmarks.add("home", "ftp://h").unwrap();
        bookmarks.add("work", "ftp://alice@h/new").unwrap();
        assert_eq!(
            bookmarks.list().unwrap(),
            "home ftp://h\nwork ftp://alice@h/new\n"
        );
        assert_eq!(bookmarks.get("work").unwrap(), "ftp://alice@h/new");
        bookmarks.remove("home").unwrap();
        assert!(bookmarks.get("home").is_err() && bookmarks.remove("home").is_err());
        for (name, url) in [
            ("a b", "ftp://h"),
            ("ftp://h", "ftp://h"),
            ("a", "h"),
            ("a", "ftp://u:p@h/"),
        ] {
            assert!(bookmarks.add(name, url).is_err(), "{name} {url}");
        }
    }
}
