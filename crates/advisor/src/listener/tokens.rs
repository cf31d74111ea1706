//! Tokens of clients (RFC 6750) and their rights.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use subtle::ConstantTimeEq;

use crate::config::FileError;

/// Minimum length of a token, characters; shorter ones can be guessed.
const SHORTEST: usize = 16;
/// Random bytes in a new token.
const RANDOM: usize = 32;
/// Maximum size of a file of tokens, bytes.
const LONGEST_FILE: u64 = 1 << 20;

/// The right that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// To read advice, paths, history and metrics.
    Read,
    /// To declare paths and to report tests and transfers, in addition to reading.
    Write,
}

impl Right {
    /// `read` or `write`.
    pub fn name(self) -> &'static str {
        match self {
            Right::Read => "read",
            Right::Write => "write",
        }
    }
}

/// The valid tokens.
#[derive(Clone)]
pub struct Tokens(Vec<(String, Right)>);

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

impl Tokens {
    /// Loads a file that only its owner may read.
    ///
    /// # Errors
    /// If the file cannot be read, others may read it, a line is invalid, or it has no token.
    pub fn load(file: &Path) -> Result<Tokens, FileError> {
        let opened = File::open(file).map_err(|error| FileError::new(file, error))?;
        let (_, tokens) = read(file, &opened)?;
        if tokens.0.is_empty() {
            return Err(FileError::new(file, "there is no token in it"));
        }
        Ok(tokens)
    }

    /// Generates a token and appends it to the file, which is created for its owner only if necessary.
    ///
    /// # Errors
    /// If the existing file is invalid (as for [`Tokens::load`], but it may have no token) or cannot be
    /// written. Then nothing is appended.
    pub fn add(file: &Path, right: Right) -> Result<String, FileError> {
        let failed = |error: io::Error| FileError::new(file, error);
        let mut options = OpenOptions::new();
        options.create(true).append(true).read(true).mode(0o600);
        let mut opened = options.open(file).map_err(failed)?;
        let (text, _) = read(file, &opened)?;
        let mut random = [0; RANDOM];
        let got = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
        if got.map_err(|error| failed(error.into()))? != RANDOM {
            return Err(FileError::new(file, "the kernel has no random bytes"));
        }
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        // The last line may lack its newline.
        let is_complete = text.is_empty() || text.ends_with('\n');
        let end = if is_complete { "" } else { "\n" };
        let line = format!("{end}{} {token}\n", right.name());
        opened.write_all(line.as_bytes()).map_err(failed)?;
        Ok(token)
    }

    fn parse(text: &str) -> Result<Tokens, String> {
        let mut tokens: Vec<(String, Right)> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let wrong = |what: &str| Err(format!("line {}: {what}", at + 1));
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            let (right, token) = match words[..] {
                [] => continue,
                ["read", token] => (Right::Read, token),
                ["write", token] => (Right::Write, token),
                _ => return wrong("read TOKEN or write TOKEN is needed"),
            };
            if !is_token(token) {
                return wrong(&format!(
                    "a token has {SHORTEST} letters, digits and any of -._~+/= at least"
                ));
            }
            if tokens.iter().any(|(known, _)| known == token) {
                return wrong("the token is there twice");
            }
            tokens.push((token.to_owned(), right));
        }
        Ok(Tokens(tokens))
    }

    /// The right of a token, if it is valid. Compares in constant time, so that the duration does not reveal
    /// how much of a guess is right.
    pub fn right_of(&self, token: &str) -> Option<Right> {
        let mut right = None;
        for (known, has) in &self.0 {
            if bool::from(known.as_bytes().ct_eq(token.as_bytes())) {
                right = Some(*has);
            }
        }
        right
    }
}

/// The text of a file of tokens, and the tokens, possibly none.
fn read(file: &Path, opened: &File) -> Result<(String, Tokens), FileError> {
    check_permissions(file, opened)?;
    let mut text = String::new();
    let read = opened.take(LONGEST_FILE + 1).read_to_string(&mut text);
    read.map_err(|error| FileError::new(file, error))?;
    if text.len() as u64 > LONGEST_FILE {
        return Err(FileError::new(file, "1 MiB at most"));
    }
    let tokens = Tokens::parse(&text).map_err(|problem| FileError::new(file, problem))?;
    Ok((text, tokens))
}

fn check_permissions(file: &Path, opened: &File) -> Result<(), FileError> {
    let metadata = opened
        .metadata()
        .map_err(|error| FileError::new(file, error))?;
    if metadata.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    let fix = format!("others may read the tokens: chmod 600 {}", file.display());
    Err(FileError::new(file, fix))
}

fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    text.len() >= SHORTEST && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const READER: &str = "reader-0123456789";
    const WRITER: &str = "writer-0123456789";

    #[test]
    fn a_token_is_good_for_what_its_line_says() {
        let text = format!("# tokens\n\nread {READER}\n write\t{WRITER} # the collector\n");
        let tokens = Tokens::parse(&text).unwrap();
        assert_eq!(tokens.right_of(READER), Some(Right::Read));
        assert_eq!(tokens.right_of(WRITER), Some(Right::Write));
        for no_token in ["", "reader-012345678", "reader-01234567890"] {
            assert_eq!(tokens.right_of(no_token), None, "{no_token}");
        }
        assert!(!format!("{tokens:?}").contains(READER));
    }

    #[test]
    fn a_line_that_is_wrong_is_named_and_its_token_is_not_shown() {
        for (text, line) in [
            ("read short", "line 1"),
            ("\nadmin 0123456789abcdef", "line 2"),
            ("read 0123456789abcdef x", "line 1"),
            ("read 0123456789abc\u{fc}def", "line 1"),
            ("read 0123456789abcdef\nwrite 0123456789abcdef", "line 2"),
        ] {
            let error = Tokens::parse(text).unwrap_err();
            assert!(error.contains(line) && !error.contains("0123"), "{error}");
        }
    }

    #[test]
    fn a_new_token_is_added_to_a_file_of_its_owners_alone() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("tokens");
        let reader = Tokens::add(&file, Right::Read).unwrap();
        let writer = Tokens::add(&file, Right::Write).unwrap();
        assert_ne!(reader, writer);
        let tokens = Tokens::load(&file).unwrap();
        assert_eq!(tokens.right_of(&reader), Some(Right::Read));
        assert_eq!(tokens.right_of(&writer), Some(Right::Write));
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    /// A file with this text that only its owner may read.
    fn file(place: &tempfile::TempDir, text: &str) -> std::path::PathBuf {
        let file = place.path().join("tokens");
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        file
    }

    #[test]
    fn a_token_gets_a_line_of_its_own_behind_a_last_line_without_an_end() {
        let place = tempfile::tempdir().unwrap();
        for last in [format!("read {READER}"), format!("read {READER} # ours")] {
            let file = file(&place, &last);
            let writer = Tokens::add(&file, Right::Write).unwrap();
            let text = std::fs::read_to_string(&file).unwrap();
            assert_eq!(text, format!("{last}\nwrite {writer}\n"));
            assert!(Tokens::load(&file).is_ok());
        }
    }

    #[test]
    fn nothing_is_added_to_a_file_that_could_not_be_loaded() {
        let place = tempfile::tempdir().unwrap();
        let text = format!("read {READER}\nadmin {WRITER}\n");
        let file = file(&place, &text);
        let error = Tokens::add(&file, Right::Write).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("tokens");
        Tokens::add(&file, Right::Write).unwrap();
        for mode in [0o640, 0o604, 0o644] {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&file, permissions).unwrap();
            let error = Tokens::load(&file).unwrap_err().to_string();
            assert!(error.contains("chmod 600"), "{error}");
            assert!(Tokens::add(&file, Right::Read).is_err());
        }
    }

    #[test]
    fn a_file_without_tokens_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let file = file(&place, "# none yet\n");
        let error = Tokens::load(&file).unwrap_err().to_string();
        assert!(error.contains("no token"), "{error}");
    }
}
