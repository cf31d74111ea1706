//! Parses the output of LIST, which has no standard format: most servers write what `ls -l` does, some what
//! DOS does.

use super::{Entry, Kind};

/// The meaning of a line of LIST.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A directory entry.
    Entry(Entry),
    /// A line that describes no entry.
    Nothing,
    /// An unknown format.
    Unknown,
}

/// Parses a line. Times are ignored: they lack a year or a time zone.
pub(super) fn parse(line: &[u8]) -> Parsed {
    if line.starts_with(b"total ") {
        return Parsed::Nothing;
    }
    match unix(line).or_else(|| dos(line)) {
        Some(entry) => Parsed::Entry(entry),
        None => Parsed::Unknown,
    }
}

/// `-rw-r--r--   1 owner group  213 Aug 26 16:31 README`
fn unix(line: &[u8]) -> Option<Entry> {
    let kind = match line.first()? {
        b'-' => Kind::File,
        b'd' => Kind::Directory,
        b'l' => Kind::Link,
        b'b' | b'c' | b'p' | b's' => Kind::Other,
        _ => return None,
    };
    let (words, name) = words(line, 8)?;
    let permissions = words[0].len() >= 10
        && words[0][1..10]
            .iter()
            .all(|byte| b"rwxsStTlL-".contains(byte));
    if !permissions || !words[1].iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = number(words[4]);
    let name = match (kind, find(name, b" -> ")) {
        (Kind::Link, Some(arrow)) => &name[..arrow],
        _ => name,
    };
    Some(Entry {
        size: size.filter(|_| kind == Kind::File),
        ..Entry::new(name.to_vec(), kind)
    })
}

/// `02-23-26  10:03AM   <DIR>   pub`
fn dos(line: &[u8]) -> Option<Entry> {
    let (words, name) = words(line, 3)?;
    let date = words[0].len() >= 8
        && words[0]
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b'-');
    let clock = words[1].contains(&b':');
    if !date || !clock {
        return None;
    }
    let name = name.trim_ascii_start().to_vec();
    match words[2] {
        b"<DIR>" => Some(Entry::new(name, Kind::Directory)),
        size => Some(Entry {
            size: Some(number(size)?),
            ..Entry::new(name, Kind::File)
        }),
    }
}

/// The first `count` words and, after one blank, the rest of the line.
fn words(line: &[u8], count: usize) -> Option<(Vec<&[u8]>, &[u8])> {
    let mut words = Vec::with_capacity(count);
    let mut rest = line;
    for _ in 0..count {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(|byte| *byte == b' ')?;
        words.push(&rest[..end]);
        rest = &rest[end..];
    }
    let name = rest.get(1..)?;
    (!name.is_empty()).then_some((words, name))
}

fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(line: &str) -> (String, Kind, Option<u64>) {
        match parse(line.as_bytes()) {
            Parsed::Entry(entry) => (
                String::from_utf8(entry.name).unwrap(),
                entry.kind,
                entry.size,
            ),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn lines_of_ls_are_understood() {
        assert_eq!(
            entry("-rw-r--r--    1 0        0          131072 Nov 21 12:00 a  b"),
            ("a  b".into(), Kind::File, Some(131_072))
        );
        assert_eq!(
            entry("drwxr-xr-x+   2 ftp      ftp          4096 Jan  1  2020 pub"),
            ("pub".into(), Kind::Directory, None)
        );
        assert_eq!(
            entry("lrwxrwxrwx    1 0 0 4 Nov 21 12:00 x -> /etc/passwd"),
            ("x".into(), Kind::Link, None)
        );
        assert_eq!(parse(b"total 12"), Parsed::Nothing);
    }

    #[test]
    fn lines_of_dos_are_understood() {
        assert_eq!(
            entry("02-23-26  10:03AM       <DIR>          pub"),
            ("pub".into(), Kind::Directory, None)
        );
        assert_eq!(
            entry("02-23-2026  10:03AM              5120 a b.txt"),
            ("a b.txt".into(), Kind::File, Some(5_120))
        );
    }

    #[test]
    fn what_nobody_knows_is_said_to_be_unknown() {
        assert_eq!(parse(b"FILE.TXT;1  12/34  21-NOV-2026"), Parsed::Unknown);
        assert_eq!(parse(b"-"), Parsed::Unknown);
    }
}
