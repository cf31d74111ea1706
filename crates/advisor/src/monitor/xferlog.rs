//! Follows a log of transfers (xferlog, as wu-ftpd, ProFTPD, vsftpd and `fairwind serve` write it): the
//! hosts in it become paths.
//!
//! A log is read from its end as it is when the service starts; what was there before says nothing
//! about who comes today. It may be cut, or moved away and begun anew, at any time.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host;
use crate::service::Service;

/// How often the log is looked at.
const LOOKS_EVERY: Duration = Duration::from_secs(1);
/// Lines longer than this are no lines of a log.
const LONGEST_LINE: usize = 8 << 10;
/// Read at a time.
const CHUNK: usize = 64 << 10;

/// Follows the file for ever.
pub async fn follow(service: Service, file: PathBuf) {
    let mut follower = Follower::at_end(file);
    let mut complained = false;
    loop {
        match follower.new_hosts() {
            Ok(hosts) => {
                complained = false;
                discover(&service, hosts).await;
            }
            Err(error) if !complained => {
                tracing::warn!("{}: {error}", follower.path.display());
                complained = true;
            }
            Err(_) => {}
        }
        tokio::time::sleep(LOOKS_EVERY).await;
    }
}

async fn discover(service: &Service, hosts: Vec<IpAddr>) {
    for host in hosts {
        match service.discover(host).await {
            Ok(true) => tracing::info!("{host} is a new path"),
            Ok(false) => {}
            Err(error) => tracing::warn!("{host}: {error}"),
        }
    }
}

/// Reads what is appended to a log.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    /// The file that is read; its name may lead to another by now.
    file: Option<File>,
    position: u64,
    /// The beginning of a line whose end is not written yet.
    unfinished: Vec<u8>,
}

impl Follower {
    /// Follows the log from its present end; from its beginning if it comes later.
    pub fn at_end(path: impl AsRef<Path>) -> Follower {
        let path = path.as_ref().to_owned();
        let opened = File::open(&path).ok();
        let length = opened
            .as_ref()
            .and_then(|file| file.metadata().ok())
            .map(|data| data.len());
        Follower {
            path,
            file: opened,
            position: length.unwrap_or(0),
            unfinished: Vec::new(),
        }
    }

    /// The hosts of lines that have come since the last time, each once.
    pub fn new_hosts(&mut self) -> io::Result<Vec<IpAddr>> {
        let mut hosts = Vec::new();
        // What was still written to the old file belongs to the log.
        self.read(&mut hosts)?;
        if self.moved()? {
            self.file = File::open(&self.path).map(Some).or_else(absent)?;
            self.restart();
            self.read(&mut hosts)?;
        }
        hosts.sort();
        hosts.dedup();
        Ok(hosts)
    }

    fn restart(&mut self) {
        self.position = 0;
        self.unfinished.clear();
    }

    /// Whether the log's name leads to another file than the one that is read.
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

    fn read(&mut self, hosts: &mut Vec<IpAddr>) -> io::Result<()> {
        let Some(file) = self.file.take() else {
            return Ok(());
        };
        let outcome = self.read_from(&file, hosts);
        self.file = Some(file);
        outcome
    }

    fn read_from(&mut self, mut file: &File, hosts: &mut Vec<IpAddr>) -> io::Result<()> {
        let length = file.metadata()?.len();
        if length < self.position {
            self.restart();
        }
        file.seek(SeekFrom::Start(self.position))?;
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            self.position += read as u64;
            self.lines(&buffer[..read], hosts);
        }
    }

    fn lines(&mut self, bytes: &[u8], hosts: &mut Vec<IpAddr>) {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            if self.unfinished.len() + part.len() <= LONGEST_LINE {
                self.unfinished.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                hosts.extend(remote_host(&String::from_utf8_lossy(&self.unfinished)));
                self.unfinished.clear();
            }
        }
    }
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
