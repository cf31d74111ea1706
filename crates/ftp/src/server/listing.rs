//! Listings: lines of LIST, NLST and MLSD, and the facts of MLST (RFC 3659 section 7).

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use jiff::Timestamp;
use rustix::io::Errno;

use super::directory::Facts;
use super::files::Root;
use super::matches::Wanted;
use super::partial;
use crate::bounded::Bounded;
use crate::pattern::is_pattern;
use crate::protocol::line::single_line;
use crate::protocol::{VirtualPath, time};

/// Names of a directory that are held in memory to be sorted, bytes: clients that do not read hold them for long.
pub(super) const MOST_SORTED: usize = 256 << 10;

/// The form of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// LIST: like `ls -l`.
    Long {
        /// Include names that begin with a dot.
        hidden: bool,
    },
    /// NLST: names.
    Names {
        /// Include names that begin with a dot.
        hidden: bool,
    },
    /// MLSD: facts for programs.
    Facts {
        /// Whether the reader may write: that determines the fact `perm`.
        write: bool,
        /// The facts requested.
        selection: Selection,
    },
}

/// The facts available, as FEAT names them.
pub(super) const FACTS: [&str; 6] = ["type", "size", "modify", "perm", "unique", "UNIX.mode"];

/// Which of [`FACTS`] are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Selection([bool; FACTS.len()]);

impl Default for Selection {
    fn default() -> Self {
        Self([true; FACTS.len()])
    }
}

impl Selection {
    /// Parses `type;size;` of `OPTS MLST type;size;`; unknown names are ignored.
    pub(super) fn parse(text: &str) -> Self {
        let asked = |fact: &str| {
            text.split(';')
                .any(|name| name.trim().eq_ignore_ascii_case(fact))
        };
        Self(FACTS.map(asked))
    }

    /// The line of FEAT: selected facts bear an asterisk.
    pub(super) fn feature(&self) -> String {
        let facts = FACTS.iter().zip(self.0);
        let text: String = facts
            .map(|(fact, used)| format!("{fact}{};", if used { "*" } else { "" }))
            .collect();
        format!("MLST {text}")
    }

    /// The names of the selected facts.
    pub(super) fn names(&self) -> String {
        let facts = FACTS.iter().zip(self.0);
        facts
            .filter(|(_, used)| *used)
            .map(|(fact, _)| format!("{fact};"))
            .collect()
    }

    /// The selected facts of a file, each ended by a semicolon.
    pub(super) fn of(&self, facts: &Facts, kind: &str, write: bool) -> String {
        let values = [
            Some(kind.to_owned()),
            facts.is_regular().then(|| facts.size().to_string()),
            Some(time::format(facts.modified())),
            Some(permissions(facts, write).to_owned()),
            Some(format!("{:x}g{:x}", facts.identity().0, facts.identity().1)),
            Some(format!("0{:o}", facts.mode())),
        ];
        let mut text = String::new();
        for ((name, used), value) in FACTS.iter().zip(self.0).zip(values) {
            if let (true, Some(value)) = (used, value) {
                text.push_str(&format!("{name}={value};"));
            }
        }
        text
    }
}

fn permissions(facts: &Facts, write: bool) -> &'static str {
    match (facts.is_directory(), write) {
        (true, true) => "cdeflmp",
        (true, false) => "el",
        (false, true) => "adfrw",
        (false, false) => "r",
    }
}

/// The value of the fact `type`.
pub(super) fn kind(facts: &Facts) -> &'static str {
    match facts {
        facts if facts.is_directory() => "dir",
        facts if facts.is_regular() => "file",
        facts if facts.is_link() => "OS.unix=symlink",
        _ => "OS.unix=special",
    }
}

/// What is listed.
#[derive(Debug, Clone)]
pub(super) enum Subject {
    /// A directory or, except for MLSD, a file.
    Path(VirtualPath),
    /// All matches of a pattern; directories themselves, not their contents.
    Matches(Wanted),
}

impl Subject {
    /// What an argument of LIST, NLST or STAT means in the working directory `from`. It is a pattern only
    /// if there is nothing of that very name.
    ///
    /// # Errors
    /// `ENOENT` if nothing matches; `E2BIG` if matching costs too much; or if the path cannot be
    /// resolved.
    pub(super) fn find(
        root: &Root,
        from: &VirtualPath,
        text: &[u8],
        hidden: bool,
    ) -> io::Result<Self> {
        let path = from.join(text);
        match root.facts(&path) {
            Err(_) if is_pattern(text) => {
                let wanted = Wanted {
                    from: from.clone(),
                    text: text.to_vec(),
                    hidden,
                };
                if !wanted.any(root)? {
                    return Err(Errno::NOENT.into());
                }
                Ok(Self::Matches(wanted))
            }
            facts => facts.map(|_| Self::Path(path)),
        }
    }
}

/// Writes the listing of `subject`. Returns the number of names left out: those that contain a line
/// ending, which would be two names in NLST and MLSD.
///
/// # Errors
/// If a directory cannot be read or `out` cannot be written.
pub(super) fn write(
    root: &Root,
    subject: &Subject,
    form: Form,
    out: &mut dyn Write,
) -> io::Result<u64> {
    let mut lines = Lines {
        form,
        out,
        left_out: 0,
    };
    match subject {
        Subject::Path(path) => lines.path(root, path)?,
        Subject::Matches(wanted) => wanted.each(root, &mut |found| {
            // Skip a name that has gone meanwhile.
            if let Ok(facts) = root.facts_or_of_broken_link(found.path) {
                lines.line(&facts, found.name)?;
            }
            Ok(true)
        })?,
    }
    Ok(lines.left_out)
}

struct Lines<'a> {
    form: Form,
    out: &'a mut dyn Write,
    left_out: u64,
}

impl Lines<'_> {
    fn path(&mut self, root: &Root, path: &VirtualPath) -> io::Result<()> {
        let facts = root.facts(path)?;
        if !facts.is_directory() {
            let name = path.split().map(|(_, name)| name.to_owned());
            return self.line(&facts, name.unwrap_or_default().as_bytes());
        }
        if let Form::Facts { write, selection } = self.form {
            let line = format!("{} .", selection.of(&facts, "cdir", write));
            writeln_crlf(self.out, line.as_bytes())?;
        }
        let directory = root.directory(path)?;
        for name in directory.names(MOST_SORTED)? {
            let name = name?;
            if partial::is_partial(name.as_bytes()) {
                // Failure does no harm: a running upload stays, and so does one that cannot be removed.
                if partial::expire(&directory, &name, root.partial_age).is_ok_and(|gone| gone) {
                    root.changed();
                }
                continue;
            }
            let shown = match self.form {
                Form::Long { hidden } | Form::Names { hidden } => {
                    hidden || !name.as_bytes().starts_with(b".")
                }
                Form::Facts { .. } => true,
            };
            // Skip a name that has gone meanwhile.
            if shown && let Ok(facts) = directory.facts(&name) {
                // Links are listed as what they lead to, if that is below the root.
                let facts = if facts.is_link() {
                    root.facts(&path.join(name.as_bytes())).unwrap_or(facts)
                } else {
                    facts
                };
                self.line(&facts, name.as_bytes())?;
            }
        }
        Ok(())
    }

    fn line(&mut self, facts: &Facts, name: &[u8]) -> io::Result<()> {
        let has_line_end = name.iter().any(|byte| matches!(byte, b'\r' | b'\n'));
        let mut line = match self.form {
            Form::Long { .. } => {
                let mut line = long(facts, Timestamp::now()).into_bytes();
                line.push(b' ');
                line.extend_from_slice(&single_line(name));
                return writeln_crlf(self.out, &line);
            }
            _ if has_line_end => {
                self.left_out += 1;
                return Ok(());
            }
            Form::Names { .. } => Vec::new(),
            Form::Facts { write, selection } => {
                format!("{} ", selection.of(facts, kind(facts), write)).into_bytes()
            }
        };
        line.extend_from_slice(name);
        writeln_crlf(self.out, &line)
    }
}

/// `-rw-r--r--   1 ftp      ftp          1048576 Mar  2 14:00`; times are UTC, with the year instead of
/// the time of day if they are half a year away.
fn long(facts: &Facts, now: Timestamp) -> String {
    let modified = facts.modified();
    let distance = (now.as_second() - modified.as_second()).abs();
    let format = if distance < 182 * 86_400 {
        "%b %e %H:%M"
    } else {
        "%b %e  %Y"
    };
    let letter = match facts {
        facts if facts.is_directory() => 'd',
        facts if facts.is_link() => 'l',
        _ => '-',
    };
    let bits: String = (0..9)
        .map(|bit| {
            if facts.mode() >> (8 - bit) & 1 == 1 {
                ['r', 'w', 'x'][bit % 3]
            } else {
                '-'
            }
        })
        .collect();
    let when = modified.strftime(format);
    format!(
        "{letter}{bits} {:>3} ftp      ftp      {:>12} {when}",
        facts.links(),
        facts.size()
    )
}

fn writeln_crlf(out: &mut dyn Write, line: &[u8]) -> io::Result<()> {
    out.write_all(line)?;
    out.write_all(b"\r\n")
}

/// Longest listing in a reply, bytes.
const LONGEST_REPLY: u64 = 256 << 10;

/// The lines of a listing for the reply to STAT.
///
/// # Errors
/// As [`write()`]; `EFBIG` if it is too long for a reply.
pub(super) fn lines(root: &Root, subject: &Subject, hidden: bool) -> io::Result<Vec<Vec<u8>>> {
    let mut out = Bounded::new(Vec::new(), LONGEST_REPLY, || Errno::FBIG.into());
    write(root, subject, Form::Long { hidden }, &mut out)?;
    let lines = out
        .sink
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    Ok(lines
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec())
        .collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    fn listed(root: &Root, form: Form) -> String {
        let mut out = Vec::new();
        let all = Subject::Path(VirtualPath::root());
        let left_out = write(root, &all, form, &mut out).unwrap();
        // `a\nb`
        let is_long = matches!(form, Form::Long { .. });
        assert_eq!(left_out, u64::from(!is_long));
        String::from_utf8(out).unwrap()
    }

    fn sample() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("b"), "12345").unwrap();
        fs::write(dir.path().join("a\nb"), "").unwrap();
        fs::write(dir.path().join(".hidden"), "").unwrap();
        fs::write(dir.path().join(".x.fairwind-part"), "").unwrap();
        let root = Root::open(dir.path(), Duration::MAX).unwrap();
        root.set_modified(
            &VirtualPath::root().join(b"b"),
            "1999-09-29T00:33:55Z".parse().unwrap(),
        )
        .unwrap();
        (dir, root)
    }

    #[test]
    fn long_lines_are_those_of_ls() {
        let (_dir, root) = sample();
        let text = listed(&root, Form::Long { hidden: false });
        let lines: Vec<_> = text.split("\r\n").collect();
        assert!(lines[0].ends_with(" a?b"), "{text}");
        assert!(
            lines[1].ends_with("   1 ftp      ftp                 5 Sep 29  1999 b"),
            "{text}"
        );
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn names_that_hold_a_line_end_and_unfinished_uploads_are_not_told() {
        let (_dir, root) = sample();
        assert_eq!(listed(&root, Form::Names { hidden: false }), "b\r\n");
        let facts = listed(
            &root,
            Form::Facts {
                write: false,
                selection: Selection::parse("TYPE;size;nonsense"),
            },
        );
        assert_eq!(
            facts,
            "type=cdir; .\r\ntype=file;size=0; .hidden\r\ntype=file;size=5; b\r\n"
        );
    }

    #[test]
    fn selected_facts_bear_an_asterisk() {
        assert_eq!(
            Selection::parse("type;modify;").feature(),
            "MLST type*;size;modify*;perm;unique;UNIX.mode;"
        );
    }
}
