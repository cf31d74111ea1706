//! The log of transfers, in the format of wu-ftpd's xferlog(5), which other tools read, too.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fairwind_transfer::Direction;
use jiff::Zoned;

use super::lines::{Lines, LogTarget};
use crate::protocol::command::Representation;

/// One transfer.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// When it ended, local time.
    pub time: Zoned,
    /// How long it took.
    pub duration: Duration,
    /// The client.
    pub host: IpAddr,
    /// Bytes moved.
    pub bytes: u64,
    /// The file.
    pub path: String,
    /// TYPE
    pub representation: Representation,
    /// Seen from the server.
    pub direction: Direction,
    /// Whether the user is anonymous.
    pub anonymous: bool,
    /// The user.
    pub user: String,
    /// Whether all bytes were moved.
    pub complete: bool,
}

impl Entry {
    /// The line, without its line ending.
    pub(super) fn line(&self) -> String {
        let word = |text: &str| match text {
            "" => "?".to_owned(),
            text => text
                .chars()
                .map(|c| {
                    if c.is_whitespace() || c.is_control() {
                        '_'
                    } else {
                        c
                    }
                })
                .collect(),
        };
        format!(
            "{} {} {} {} {} {} _ {} {} {} ftp 0 * {}",
            self.time.strftime("%a %b %e %H:%M:%S %Y"),
            (self.duration.as_secs_f64().round() as u64).max(1),
            self.host,
            self.bytes,
            word(&self.path),
            if self.representation == Representation::Ascii {
                'a'
            } else {
                'b'
            },
            if self.direction == Direction::Send {
                'o'
            } else {
                'i'
            },
            if self.anonymous { 'a' } else { 'r' },
            word(&self.user),
            if self.complete { 'c' } else { 'i' },
        )
    }
}

/// Opens logs for appending: directly, or through a process with more rights.
#[derive(Clone, Default)]
pub struct LogOpener(Option<Arc<Open>>);

type Open = dyn Fn(&Path) -> io::Result<File> + Send + Sync;

impl LogOpener {
    /// Opens them with `open`, which creates files that do not exist.
    pub fn by(open: impl Fn(&Path) -> io::Result<File> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(open)))
    }

    /// Opens a log.
    ///
    /// # Errors
    /// If the file cannot be opened; the error names it.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        let file = match &self.0 {
            Some(open) => open(path),
            None => OpenOptions::new().append(true).create(true).open(path),
        };
        file.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }
}

impl fmt::Debug for LogOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogOpener").finish_non_exhaustive()
    }
}

/// The log file.
#[derive(Debug, Clone)]
pub(super) struct Xferlog(Lines);

impl Xferlog {
    /// A log at `path`.
    ///
    /// # Errors
    /// If it cannot be opened for appending.
    pub(super) fn open(path: PathBuf, opener: LogOpener) -> io::Result<Self> {
        Lines::open("the log of transfers", LogTarget::File(path), opener).map(Self)
    }

    /// Queues a line. A log that cannot be written stops no transfer.
    pub(super) fn add(&self, entry: &Entry) {
        self.0.add(entry.line());
    }

    /// Waits until all lines are in the file, or lost.
    pub(super) async fn written(&self) {
        self.0.written().await;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn entry() -> Entry {
        Entry {
            time: "2026-03-02T14:00:07[UTC]".parse().unwrap(),
            duration: Duration::from_millis(12_600),
            host: "192.0.2.1".parse().unwrap(),
            bytes: 1_048_576,
            path: "/pub/a file".into(),
            representation: Representation::Image,
            direction: Direction::Send,
            anonymous: true,
            user: "me@example.org".into(),
            complete: true,
        }
    }

    #[tokio::test]
    async fn all_lines_are_in_the_file_once_that_has_been_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let log = Xferlog::open(path.clone(), LogOpener::default()).unwrap();
        log.written().await;
        for _ in 0..100 {
            log.add(&entry());
        }
        log.written().await;
        let text = fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().count(), 100);
    }

    #[test]
    fn a_line_is_that_of_wu_ftpd() {
        assert_eq!(
            entry().line(),
            "Mon Mar  2 14:00:07 2026 13 192.0.2.1 1048576 /pub/a_file b _ o a me@example.org ftp 0 * c"
        );
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::cases;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn a_line_has_its_fields_whatever_the_names(
            seconds in 0..u64::MAX,
            host: IpAddr,
            bytes: u64,
            path in vec(any::<char>(), 0..40),
            user in vec(any::<char>(), 0..40),
            complete: bool,
        ) {
            let entry = Entry {
                time: "2026-03-02T14:00:07[UTC]".parse().unwrap(),
                duration: Duration::from_secs(seconds),
                host,
                bytes,
                path: path.into_iter().collect(),
                representation: Representation::Image,
                direction: Direction::Receive,
                anonymous: false,
                user: user.into_iter().collect(),
                complete,
            };
            let line = entry.line();
            prop_assert!(!line.chars().any(char::is_control));
            let fields: Vec<&str> = line.split_whitespace().collect();
            prop_assert_eq!(fields.len(), 18, "{}", line);
            prop_assert_eq!(fields[6], host.to_string());
            prop_assert_eq!(fields[7], bytes.to_string());
            prop_assert_eq!(fields[17], if complete { "c" } else { "i" });
        }
    }
}
