//! Logs of lines: to a file, or to the system's log. Lines are written by a thread of their own, so that a file
//! system that hangs delays nothing else.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fairwind_transfer::RateLimitedLog;
use jiff::Zoned;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::xferlog::LogOpener;

/// Most lines that wait to be written; further ones are lost.
const WAITING: usize = 1_024;

/// The socket of the system's log.
const SYSLOG: &str = "/dev/log";

/// Facility `ftp` (11), severity `informational` (6): RFC 5424, section 6.2.1.
const PRIORITY: u8 = 11 * 8 + 6;

static LOST: RateLimitedLog = RateLimitedLog::new();

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogTarget {
    /// A file, opened anew for each batch of lines, so that it can be rotated.
    File(PathBuf),
    /// The system's log, by this socket.
    Syslog(PathBuf),
}

impl From<&str> for LogTarget {
    /// `syslog`, `syslog:SOCKET`, or a file.
    fn from(text: &str) -> Self {
        match text.strip_prefix("syslog") {
            Some("") => Self::Syslog(SYSLOG.into()),
            Some(socket) if socket.starts_with(':') => Self::Syslog(socket[1..].into()),
            _ => Self::File(text.into()),
        }
    }
}

impl LogTarget {
    /// The file, if it is one.
    pub fn file(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::File(path) => Some(path),
            Self::Syslog(_) => None,
        }
    }
}

/// A log.
#[derive(Debug, Clone)]
pub(super) struct Lines(Arc<Log>);

#[derive(Debug)]
struct Log {
    /// What the log is called when lines are lost.
    name: &'static str,
    target: LogTarget,
    opener: LogOpener,
    queue: Mutex<Queue>,
    /// Notified when no line waits any more.
    written: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<String>,
    /// Whether a thread is writing them.
    is_written: bool,
}

impl Lines {
    /// A log at `target`.
    ///
    /// # Errors
    /// If it cannot be opened for appending.
    pub(super) fn open(
        name: &'static str,
        target: LogTarget,
        opener: LogOpener,
    ) -> io::Result<Self> {
        match &target {
            LogTarget::File(path) => drop(opener.open(path)?),
            LogTarget::Syslog(socket) => drop(connect(socket)?),
        }
        Ok(Self(Arc::new(Log {
            name,
            target,
            opener,
            queue: Mutex::default(),
            written: Notify::new(),
        })))
    }

    /// Queues a line, without its line ending. A log that cannot be written stops nothing.
    pub(super) fn add(&self, line: String) {
        let mut queue = self.0.queue.lock();
        if queue.lines.len() >= WAITING {
            drop(queue);
            let name = self.0.name;
            LOST.warn(|| format!("{name}: {WAITING} lines wait, others are lost"));
            return;
        }
        queue.lines.push_back(line);
        if !std::mem::replace(&mut queue.is_written, true) {
            let log = Arc::clone(&self.0);
            tokio::task::spawn_blocking(move || log.write());
        }
    }

    /// Waits until all lines are in the log, or lost.
    pub(super) async fn written(&self) {
        // Made first, so that an end between the check and the wait is not missed.
        let written = self.0.written.notified();
        if self.has_lines() {
            written.await;
        }
    }

    fn has_lines(&self) -> bool {
        self.0.queue.lock().is_written
    }
}

/// An open log.
enum Sink {
    File(File),
    Syslog(UnixDatagram),
}

impl Log {
    fn write(&self) {
        while let Some(lines) = self.next() {
            let written = self
                .sink()
                .and_then(|mut sink| lines.iter().try_for_each(|line| sink.add(line)));
            if let Err(error) = written {
                LOST.warn(|| format!("{}: {error}", self.name));
            }
        }
    }

    fn sink(&self) -> io::Result<Sink> {
        Ok(match &self.target {
            LogTarget::File(path) => Sink::File(self.opener.open(path)?),
            LogTarget::Syslog(socket) => Sink::Syslog(connect(socket)?),
        })
    }

    /// All lines that wait; none at the end.
    fn next(&self) -> Option<VecDeque<String>> {
        let mut queue = self.queue.lock();
        let lines = std::mem::take(&mut queue.lines);
        queue.is_written = !lines.is_empty();
        if lines.is_empty() {
            self.written.notify_waiters();
            return None;
        }
        Some(lines)
    }
}

impl Sink {
    fn add(&mut self, line: &str) -> io::Result<()> {
        match self {
            Self::File(file) => file.write_all(format!("{line}\n").as_bytes()),
            // RFC 3164 without a host name, as syslog(3) writes it.
            Self::Syslog(socket) => {
                let time = Zoned::now().strftime("%b %e %H:%M:%S").to_string();
                let own = std::process::id();
                let packet = format!("<{PRIORITY}>{time} fairwind[{own}]: {line}");
                socket.send(packet.as_bytes()).map(drop)
            }
        }
    }
}

fn connect(path: &Path) -> io::Result<UnixDatagram> {
    let connect = || {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(socket)
    };
    connect().map_err(|error: io::Error| {
        io::Error::new(error.kind(), format!("{}: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_go_to_the_system_log_with_facility_and_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let system = UnixDatagram::bind(&path).unwrap();
        let target = LogTarget::from(format!("syslog:{}", path.display()).as_str());
        let lines = Lines::open("the log", target, LogOpener::default()).unwrap();
        lines.add("hello".into());
        lines.written().await;
        let mut packet = [0; 200];
        let count = system.recv(&mut packet).unwrap();
        let text = std::str::from_utf8(&packet[..count]).unwrap();
        let own = std::process::id();
        assert!(text.starts_with("<94>"), "{text}");
        assert!(
            text.ends_with(&format!(" fairwind[{own}]: hello")),
            "{text}"
        );
    }

    #[test]
    fn a_target_is_a_file_or_the_system_log() {
        assert_eq!(
            LogTarget::from("syslog"),
            LogTarget::Syslog("/dev/log".into())
        );
        assert_eq!(
            LogTarget::from("syslog.1"),
            LogTarget::File("syslog.1".into())
        );
        assert_eq!(
            LogTarget::from("/var/log/x"),
            LogTarget::File("/var/log/x".into())
        );
    }
}
