//! Follows a transfer log (xferlog, as written by wu-ftpd, ProFTPD, vsftpd and `fairwind serve`): the hosts
//! in it become paths.
//!
//! A log that has never been read is followed from its end; older entries say nothing about present clients.
//! Otherwise reading continues where it stopped; the store keeps that place. The log may be truncated, copied
//! and truncated, or moved away and started anew at any time, even while the service is down. A log that was
//! moved away meanwhile is read to its end if it is in the same directory under a longer name (`xferlog.1`).

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::IpAddr;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::Discovery;
use crate::host;
use crate::service::Service;
use crate::store::LogPlace;

/// Interval between two reads of the log.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// Longest accepted line, bytes.
const LONGEST_LINE: usize = 8 << 10;
/// Bytes per read.
const CHUNK: usize = 64 << 10;
/// Reading pauses after this many hosts until they have been processed.
const HOSTS_AT_ONCE: usize = 4_096;
/// Number of bytes before a place by which it is recognised: at least two lines, each with its date.
const BEFORE: usize = 256;

/// Follows the file for ever.
pub(super) async fn follow(service: Service, file: PathBuf, discovery: Discovery) {
    // The store's key is the absolute path, independent of the working directory.
    let file = std::path::absolute(&file).unwrap_or(file);
    let name = file.to_string_lossy().into_owned();
    let mut kept = service
        .store()
        .log_place(&name)
        .await
        .unwrap_or_else(|error| {
            tracing::warn!("{name}: {error}; it is read from its end");
            None
        });
    let mut follower = match &kept {
        Some(place) => Follower::at(&file, place.clone()),
        None => Follower::at_end(&file),
    };
    let mut complained = false;
    loop {
        // In a blocking task: the log may have grown by any amount since the last read.
        let looking = tokio::task::spawn_blocking(move || {
            let outcome = follower.new_hosts();
            (follower, outcome)
        });
        let Ok((looked, outcome)) = looking.await else {
            return;
        };
        follower = looked;
        match outcome {
            Ok(hosts) => {
                complained = false;
                discover(&service, hosts, &discovery).await;
                if kept.as_ref() != Some(follower.place()) {
                    keep(&service, &name, follower.place()).await;
                    kept = Some(follower.place().clone());
                }
            }
            Err(error) if !complained => {
                tracing::warn!("{name}: {error}");
                complained = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(LOOKS_EVERY).await;
    }
}

async fn discover(service: &Service, hosts: BTreeSet<IpAddr>, discovery: &Discovery) {
    match service.discover(hosts, discovery).await {
        Ok(0) => {}
        Ok(new) => tracing::info!("{new} hosts of the log are new paths"),
        Err(error) => tracing::warn!("hosts of the log: {error}"),
    }
}

async fn keep(service: &Service, name: &str, place: &LogPlace) {
    if let Err(error) = service.store().keep_log_place(name, place).await {
        tracing::warn!("{name}: {error}; after a restart some of it is read again");
    }
}

/// Reads what is appended to a log.
#[derive(Debug)]
pub(super) struct Follower {
    path: PathBuf,
    /// The open file, which may have been renamed since.
    file: Option<File>,
    /// Number of bytes read.
    position: u64,
    /// The place after the last complete line.
    place: LogPlace,
    /// The beginning of an incomplete line.
    unfinished: Vec<u8>,
    /// The incomplete line is longer than accepted; what follows up to its end belongs to it.
    is_too_long: bool,
}

impl Follower {
    /// Follows the log from its present end; a log that does not exist yet, from its beginning.
    pub(super) fn at_end(path: impl AsRef<Path>) -> Follower {
        let file = File::open(path.as_ref()).ok();
        let place = file.as_ref().and_then(|file| end(file).ok());
        Follower::new(path.as_ref(), file, place.unwrap_or_default())
    }

    /// Follows the log from a place up to which it has been read before.
    pub(super) fn at(path: impl AsRef<Path>, place: LogPlace) -> Follower {
        Follower::new(path.as_ref(), file_of(path.as_ref(), &place), place)
    }

    fn new(path: &Path, file: Option<File>, place: LogPlace) -> Follower {
        Follower {
            path: path.to_owned(),
            file,
            position: place.position,
            place,
            unfinished: Vec::new(),
            is_too_long: false,
        }
    }

    /// The place after the last complete line.
    pub(super) fn place(&self) -> &LogPlace {
        &self.place
    }

    /// The hosts in lines that were appended since the last call.
    pub(super) fn new_hosts(&mut self) -> io::Result<BTreeSet<IpAddr>> {
        let mut hosts = BTreeSet::new();
        // Lines still written to the old file belong to the log.
        self.read(&mut hosts)?;
        if hosts.len() < HOSTS_AT_ONCE && self.moved()? {
            self.file = File::open(&self.path).map(Some).or_else(absent)?;
            self.go_back();
            self.read(&mut hosts)?;
        }
        Ok(hosts)
    }

    /// Goes back to the end of the last complete line.
    fn go_back(&mut self) {
        self.position = self.place.position;
        self.unfinished.clear();
        self.is_too_long = false;
    }

    /// Whether the log's name leads to a file other than the open one.
    fn moved(&self) -> io::Result<bool> {
        let there = std::fs::metadata(&self.path).map(Some).or_else(absent)?;
        let read = self.file.as_ref().map(File::metadata).transpose()?;
        let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        Ok(match (there, read) {
            (Some(there), Some(read)) => !same(&there, &read),
            (Some(_), None) => true,
            (None, _) => false,
        })
    }

    fn read(&mut self, hosts: &mut BTreeSet<IpAddr>) -> io::Result<()> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        let outcome = self.read_from(&file, hosts);
        self.file = Some(file);
        outcome
    }

    fn read_from(&mut self, mut file: &File, hosts: &mut BTreeSet<IpAddr>) -> io::Result<()> {
        if file.metadata()?.len() < self.position || !is_in(&self.place, file) {
            self.place = LogPlace::default();
            self.go_back();
        }
        file.seek(SeekFrom::Start(self.position))?;
        let mut buffer = vec![0; CHUNK];
        // A log may name any number of hosts; the rest is read in the next call.
        while hosts.len() < HOSTS_AT_ONCE {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            self.lines(&buffer[..read], hosts);
        }
        Ok(())
    }

    fn lines(&mut self, bytes: &[u8], hosts: &mut BTreeSet<IpAddr>) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.position += part.len() as u64;
            if self.unfinished.len() + part.len() > LONGEST_LINE {
                self.is_too_long = true;
                self.unfinished.clear();
            }
            if !self.is_too_long {
                self.unfinished.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                let line = match std::mem::take(&mut self.is_too_long) {
                    true => part,
                    false => self.unfinished.as_slice(),
                };
                self.place.go_behind(line, self.position);
                hosts.extend(remote_host(&String::from_utf8_lossy(&self.unfinished)));
                self.unfinished.clear();
            }
        }
    }
}

impl LogPlace {
    /// Advances to `position`, which is after these bytes.
    fn go_behind(&mut self, bytes: &[u8], position: u64) {
        match self.position + bytes.len() as u64 == position {
            true => self.before.extend_from_slice(bytes),
            // The part in between was too long to keep.
            false => self.before = bytes.to_vec(),
        }
        let surplus = self.before.len().saturating_sub(BEFORE);
        self.before.drain(..surplus);
        self.position = position;
    }
}

/// The place at the end of a file.
fn end(file: &File) -> io::Result<LogPlace> {
    let position = file.metadata()?.len();
    let length = position.min(BEFORE as u64);
    let mut before = vec![0; length as usize];
    file.read_exact_at(&mut before, position - length)?;
    Ok(LogPlace { position, before })
}

/// Whether the place is in this file, judged by the bytes before it.
fn is_in(place: &LogPlace, file: &File) -> bool {
    let mut there = vec![0; place.before.len()];
    let from = place.position.checked_sub(there.len() as u64);
    from.is_some_and(|from| file.read_exact_at(&mut there, from).is_ok()) && there == place.before
}

/// The file that has the place: the log itself, or a file to which it was moved.
fn file_of(log: &Path, place: &LogPlace) -> Option<File> {
    if let Some(file) = File::open(log).ok().filter(|file| is_in(place, file)) {
        return Some(file);
    }
    if place.before.is_empty() {
        return None;
    }
    let name = log.file_name()?.as_encoded_bytes();
    let beside = std::fs::read_dir(log.parent()?).ok()?;
    let moved = beside.flatten().filter_map(|entry| {
        let longer = entry.file_name().as_encoded_bytes().starts_with(name);
        // Opening a pipe would block until it has a writer.
        let plain = entry.file_type().is_ok_and(|kind| kind.is_file());
        (longer && plain).then(|| entry.path())
    });
    let mut files = moved.filter_map(|path| File::open(path).ok());
    files.find(|file| is_in(place, file))
}

fn absent<T>(error: io::Error) -> io::Result<Option<T>> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(None),
        _ => Err(error),
    }
}

/// The remote host of a line: `Mon Mar  2 14:00:00 2026 12 192.0.2.7 16000000 /file b _ o a …`
/// (xferlog(5)). The transfer time and size around it must be numbers.
fn remote_host(line: &str) -> Option<IpAddr> {
    let mut fields = line.split_ascii_whitespace();
    let seconds = fields.nth(5)?;
    let host = fields.next()?;
    let bytes = fields.next()?;
    let number = |text: &str| text.parse::<u64>().is_ok();
    (number(seconds) && number(bytes)).then(|| host::address(host))?
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn line(host: &str) -> String {
        format!("Mon Mar  2 14:00:00 2026 12 {host} 16000000 /pub/file b _ o a ftp ftp 0 * c\n")
    }

    fn append(path: &Path, text: &str) {
        let mut file = File::options()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn texts(follower: &mut Follower) -> Vec<String> {
        let hosts = follower.new_hosts().unwrap();
        hosts.iter().map(IpAddr::to_string).collect()
    }

    #[test]
    fn new_lines_name_hosts() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("xferlog");
        append(&path, &line("192.0.2.1"));
        let mut follower = Follower::at_end(&path);
        assert!(
            texts(&mut follower).is_empty(),
            "what was there before is not read"
        );
        append(
            &path,
            &(line("192.0.2.2") + &line("2001:db8::7") + &line("192.0.2.2")),
        );
        assert_eq!(texts(&mut follower), ["192.0.2.2", "2001:db8::7"]);
        let (begin, end) = (
            "Mon Mar  2 14:00:00 2026 12 192.0",
            ".2.3 5 /f b _ o a ftp ftp 0 * c\n",
        );
        append(&path, begin);
        assert!(texts(&mut follower).is_empty());
        append(&path, end);
        assert_eq!(texts(&mut follower), ["192.0.2.3"]);
    }

    #[test]
    fn a_log_that_is_cut_moved_or_new_is_followed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("xferlog");
        let mut follower = Follower::at_end(&path);
        assert!(texts(&mut follower).is_empty());
        append(&path, &(line("192.0.2.1") + &line("192.0.2.1")));
        assert_eq!(texts(&mut follower), ["192.0.2.1"]);
        fs::write(&path, line("192.0.2.2")).unwrap();
        assert_eq!(texts(&mut follower), ["192.0.2.2"]);
        append(&path, &line("192.0.2.3"));
        fs::rename(&path, place.path().join("xferlog.1")).unwrap();
        append(&path, &line("192.0.2.4"));
        assert_eq!(texts(&mut follower), ["192.0.2.3", "192.0.2.4"]);
    }

    #[test]
    fn a_log_of_many_hosts_is_read_in_parts_also_when_it_was_moved_away() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("xferlog");
        let mut follower = Follower::at_end(&path);
        let host = |n: usize| format!("10.0.{}.{}", n / 256, n % 256);
        let lines: String = (0..6_000).map(|n| line(&host(n))).collect();
        append(&path, &lines);
        let first = texts(&mut follower).len();
        assert!((HOSTS_AT_ONCE..6_000).contains(&first), "{first}");
        fs::rename(&path, place.path().join("xferlog.1")).unwrap();
        append(&path, &line("192.0.2.4"));
        assert_eq!(first + texts(&mut follower).len(), 6_001);
    }

    /// The hosts read by a follower that continues from the place.
    fn from(path: &Path, place: &LogPlace) -> Vec<String> {
        texts(&mut Follower::at(path, place.clone()))
    }

    #[test]
    fn a_log_is_read_on_where_it_was_left() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("xferlog");
        append(&path, &(line("192.0.2.1") + "Mon Mar  2"));
        let mut follower = Follower::at_end(&path);
        let cut_line = " 14:00:00 2026 12 192.0.2.2 5 /f b _ o a ftp ftp 0 * c\n";
        append(&path, &(cut_line.to_owned() + &line("192.0.2.3") + "Mon"));
        // The first line is only known from its middle on, so it is ignored.
        assert_eq!(texts(&mut follower), ["192.0.2.3"]);
        let left = follower.place().clone();
        assert!(from(&path, &left).is_empty(), "nothing is read twice");
        append(&path, &line("192.0.2.4")[3..]);
        assert_eq!(from(&path, &left), ["192.0.2.4"]);
    }

    /// Writes a log of two lines; returns the place between them.
    fn left_between(path: &Path) -> LogPlace {
        append(path, &line("192.0.2.1"));
        let left = Follower::at_end(path).place().clone();
        append(path, &line("192.0.2.2"));
        left
    }

    #[test]
    fn a_log_that_was_moved_away_meanwhile_is_read_to_its_end_first() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("xferlog");
        let left = left_between(&path);
        fs::rename(&path, place.path().join("xferlog.1")).unwrap();
        assert_eq!(
            from(&path, &left),
            ["192.0.2.2"],
            "before the new one is there"
        );
        append(&path, &line("192.0.2.3"));
        assert_eq!(from(&path, &left), ["192.0.2.2", "192.0.2.3"]);
        fs::remove_file(place.path().join("xferlog.1")).unwrap();
        assert_eq!(from(&path, &left), ["192.0.2.3"], "what is gone is gone");
    }

    #[test]
    fn a_log_that_was_copied_away_and_cut_is_read_on_in_the_copy() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("xferlog");
        let left = left_between(&path);
        fs::copy(&path, place.path().join("xferlog.1")).unwrap();
        // It has grown beyond the place again, so its length does not show the truncation.
        fs::write(&path, line("198.51.100.7").repeat(3)).unwrap();
        assert_eq!(from(&path, &left), ["192.0.2.2", "198.51.100.7"]);
    }

    #[test]
    fn a_log_that_was_cut_and_grew_as_long_again_is_read_from_its_beginning() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("xferlog");
        append(&path, &line("192.0.2.1"));
        let mut follower = Follower::at_end(&path);
        fs::write(&path, line("192.0.2.2") + &line("192.0.2.3")).unwrap();
        assert_eq!(texts(&mut follower), ["192.0.2.2", "192.0.2.3"]);
    }

    #[test]
    fn a_line_too_long_names_nobody_however_it_is_written() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("xferlog");
        let mut follower = Follower::at_end(&path);
        append(&path, &"x".repeat(LONGEST_LINE + 1));
        assert!(texts(&mut follower).is_empty());
        // The end of that line, though it looks like one of its own.
        append(&path, &(" ".to_owned() + &line("192.0.2.1")));
        assert!(texts(&mut follower).is_empty());
        append(&path, &line("192.0.2.2"));
        assert_eq!(texts(&mut follower), ["192.0.2.2"]);
    }

    #[test]
    fn nothing_is_read_twice_behind_a_line_too_long() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("xferlog");
        let mut follower = Follower::at_end(&path);
        append(&path, &line("192.0.2.1"));
        assert_eq!(texts(&mut follower), ["192.0.2.1"]);
        for part in ["x".repeat(LONGEST_LINE - 100), "y".repeat(200), "\n".into()] {
            append(&path, &part);
            assert!(texts(&mut follower).is_empty());
        }
        append(&path, &line("192.0.2.2"));
        assert_eq!(texts(&mut follower), ["192.0.2.2"]);
    }

    #[test]
    fn what_is_no_line_of_a_log_names_nobody() {
        for text in [
            "",
            "192.0.2.1",
            "a b c d e f 192.0.2.1 5 x",
            &line("nobody"),
            "a b c d e 1 192.0.2.1",
        ] {
            assert_eq!(remote_host(text), None, "{text}");
        }
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("xferlog");
        let mut follower = Follower::at_end(&path);
        append(&path, &("x".repeat(100_000) + "\n" + &line("192.0.2.9")));
        assert_eq!(texts(&mut follower), ["192.0.2.9"]);
        assert!(follower.unfinished.capacity() <= 2 * LONGEST_LINE);
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, cuts, damaged, pieces};
    use proptest::prelude::*;

    use super::*;

    /// As written by ProFTPD, vsftpd and wu-ftpd.
    const LOG: &[u8] = b"\
Mon Mar  2 14:00:00 2026 12 192.0.2.7 16000000 /pub/file b _ o a me@example.org ftp 0 * c\n\
Mon Mar  2 14:00:09 2026 1 ::ffff:192.0.2.9 5 /f_g b _ i r anna ftp 0 * i\n\
Tue Mar 12 04:10:00 2026 3600 2001:db8::7 99999999999 /x a _ d r ben ftp 1 ben c\n\
Tue Mar 12 04:10:01 2026 1 host.example.org 5 /p\xfcb b _ o a ? ftp 0 * c\n";

    fn log() -> impl Strategy<Value = Vec<u8>> {
        let long = [b"x".repeat(LONGEST_LINE - 200).as_slice(), LOG].concat();
        damaged(&[LOG.to_vec(), long])
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn a_log_names_the_hosts_of_its_lines_however_it_grows(log in log(), cuts in cuts()) {
            let mut follower = Follower::new(Path::new(""), None, LogPlace::default());
            let mut hosts = BTreeSet::new();
            for piece in pieces(&log, &cuts) {
                follower.lines(piece, &mut hosts);
                prop_assert!(follower.unfinished.len() <= LONGEST_LINE);
            }
            let end = log.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let read = &log[..end];
            let lines = read.split_inclusive(|byte| *byte == b'\n');
            let whole = lines.filter(|line| line.len() <= LONGEST_LINE);
            let named = whole.filter_map(|line| remote_host(&String::from_utf8_lossy(line)));
            prop_assert_eq!(hosts, named.collect::<BTreeSet<_>>());
            // The place can be found again by what is before it.
            let place = follower.place();
            prop_assert_eq!(place.position, end as u64);
            prop_assert!(place.before.len() <= BEFORE && read.ends_with(&place.before));
        }

        #[test]
        fn a_line_names_its_host(host: IpAddr, seconds: u64, bytes: u64, path in "[!-~]{1,20}") {
            let line = format!(
                "Mon Mar  2 14:00:00 2026 {seconds} {host} {bytes} {path} b _ o a ftp ftp 0 * c\n"
            );
            prop_assert_eq!(remote_host(&line), Some(host.to_canonical()));
        }
    }
}
