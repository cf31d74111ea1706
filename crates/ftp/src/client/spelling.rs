//! How a server is told names that are not UTF-8, of which the byte 255 is the hardest.
//!
//! The control connection is one of Telnet (RFC 959 section 4.1.3): 255 begins a command there, and is
//! sent twice to mean itself. ProFTPD and our own server take it so; vsftpd takes every byte as it
//! comes; pyftpdlib puts U+FFFD in the place of all that is no UTF-8, so that many names become one.
//! UTF-8 (RFC 2640) has no byte 255, so that only names that are none are in doubt.
//!
//! Data connections carry names as they are. So a listing tells what the server has understood: of a
//! name that is to be read, whether it is there; before a name is written, what becomes of a probe, an
//! empty file with such bytes in its name, which is deleted at once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::control::Telnet;
use super::data_connection::Channel;
use super::{ClientError, Session, place};
use crate::data::Direction;
use crate::protocol::Reply;
use crate::protocol::line::{IAC, escaped};
use crate::protocol::path::one_line;

/// What is known of how a server writes names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Spelling {
    /// Whether it writes names that are no UTF-8 as they are, and why not; none before anybody has
    /// found out.
    written: Option<Result<(), String>>,
    /// Directories in which that cannot be found out, and why.
    closed: HashMap<Vec<u8>, String>,
}

/// What has become of a probe.
enum Probe {
    /// It is there under its name.
    Written,
    /// It is not; why not.
    Changed(String),
    /// The directory does not let anybody find out; why not.
    Closed(String),
}

impl Session {
    /// Finds out, if need be, how the server is told a name that is to be read.
    ///
    /// # Errors
    /// Those of the connection; [`ClientError::Name`] if the name is not there, or cannot be told.
    pub(super) fn can_read(&mut self, path: &[u8]) -> Result<(), ClientError> {
        let Some((directory, name)) = first_name(path, |name| name.contains(&IAC)) else {
            return Ok(());
        };
        if self.control.telnet.is_some() {
            return Ok(());
        }
        let listed = self.names_in(directory)?;
        let missing = |what: &str| {
            let (name, directory) = (one_line(name), shown(directory));
            ClientError::Name(format!("{name}: {what} {directory}"))
        };
        if !listed.contains(name) {
            return Err(missing("the server lists no such name in"));
        }
        if listed.contains(&*escaped(name)) {
            return Err(missing(
                "the server may take it for another one with twice the byte 255 in",
            ));
        }
        let path = place::join(directory, name);
        for telnet in [Telnet::Doubled, Telnet::Plain] {
            self.control.telnet = Some(telnet);
            if self.finds(&path)? {
                return Ok(());
            }
        }
        self.control.telnet = None;
        Err(missing("the server lists it and does not find it in"))
    }

    /// Finds out, if need be, how the server is told a name that is to be written, and that it writes
    /// it as it is.
    ///
    /// # Errors
    /// Those of the connection; [`ClientError::Name`] if it would write another name.
    pub(super) fn can_write(&mut self, path: &[u8]) -> Result<(), ClientError> {
        let Some((directory, name)) = first_odd_name(path) else {
            return Ok(());
        };
        if let Some(why) = self.spelling.closed.get(directory) {
            return Err(ClientError::Name(why.clone()));
        }
        if self.spelling.written.is_none() {
            let known = self.control.telnet;
            let tried = self.try_writing(directory);
            if !matches!(tried, Ok(Probe::Written)) {
                self.control.telnet = known;
            }
            self.spelling.written = match tried? {
                Probe::Written => Some(Ok(())),
                Probe::Changed(why) => Some(Err(why)),
                Probe::Closed(why) => {
                    let closed = &mut self.spelling.closed;
                    closed.insert(directory.to_vec(), why.clone());
                    return Err(ClientError::Name(why));
                }
            };
        }
        match &self.spelling.written {
            Some(Err(why)) => Err(ClientError::Name(format!("{}: {why}", one_line(name)))),
            _ => Ok(()),
        }
    }

    /// Writes a probe and looks what has become of it.
    fn try_writing(&mut self, directory: &[u8]) -> Result<Probe, ClientError> {
        let probe = probe();
        let path = place::join(directory, &probe);
        self.control.telnet = Some(Telnet::Doubled);
        if let Err(error) = self.store_nothing(&path) {
            return closed(error, |server, reply| {
                let directory = shown(directory);
                format!("{server} takes no file whose name is not UTF-8 in {directory}: {reply}")
            });
        }
        let listed = self.names_in(directory);
        let deleted = self.delete_probe(&path);
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => {
                return closed(error, |server, reply| {
                    let directory = shown(directory);
                    format!(
                        "{server} does not show what becomes of a name that is not UTF-8 in {directory}: {reply}"
                    )
                });
            }
        };
        deleted?;
        if listed.contains(&probe) {
            return Ok(Probe::Written);
        }
        if listed.contains(&*escaped(&probe)) {
            self.control.telnet = Some(Telnet::Plain);
            return Ok(Probe::Written);
        }
        let server = self.server();
        let why = format!("{server} turns names that are not UTF-8 into others");
        Ok(Probe::Changed(why))
    }

    fn delete_probe(&mut self, path: &[u8]) -> Result<(), ClientError> {
        if !self.control.ask("DELE", path)?.is_positive() {
            let left = one_line(path).into_owned();
            let note = format!("{left}: this empty file could not be deleted again");
            self.options.progress.note(&note);
        }
        Ok(())
    }

    /// Whether there is something under a path.
    fn finds(&mut self, path: &[u8]) -> Result<bool, ClientError> {
        Ok(self.size(path)?.is_some() || self.is_directory(path)?)
    }

    /// Stores an empty file.
    fn store_nothing(&mut self, path: &[u8]) -> Result<(), ClientError> {
        let Channel { stream, .. } = self.open_channel("STOR", path, 0, Direction::Send)?;
        drop(stream);
        let reply = self.control.last_reply(self.options.patience)?;
        match reply.is_positive() {
            true => Ok(()),
            false => Err(self.control.refused(reply)),
        }
    }
}

/// That the server refuses for good what a probe takes; other errors may pass.
fn closed(error: ClientError, why: impl Fn(&str, &Reply) -> String) -> Result<Probe, ClientError> {
    match error {
        ClientError::Refused { server, reply, .. } if reply.code / 100 == 5 => {
            Ok(Probe::Closed(why(&server, &reply)))
        }
        error => Err(error),
    }
}

fn shown(directory: &[u8]) -> Cow<'_, str> {
    match directory {
        b"" => "the user's directory".into(),
        directory => one_line(directory),
    }
}

/// The first name of a path that is no UTF-8, and the path of the directory that it is in.
pub(super) fn first_odd_name(path: &[u8]) -> Option<(&[u8], &[u8])> {
    first_name(path, |name| std::str::from_utf8(name).is_err())
}

/// The first part of a path of which `odd` holds, and the path of the directory that it is in.
fn first_name(path: &[u8], odd: impl Fn(&[u8]) -> bool) -> Option<(&[u8], &[u8])> {
    let mut begin = 0;
    for name in path.split(|byte| *byte == b'/') {
        if odd(name) {
            return Some((&path[..begin], name));
        }
        begin += name.len() + 1;
    }
    None
}

/// The name of a probe: no other transfer has the same, and all that servers do to names shows in it.
fn probe() -> Vec<u8> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = now.map_or(0, |time| time.as_nanos());
    let mut name = format!(".{nanoseconds:x}-{:x}-{number:x}-", std::process::id()).into_bytes();
    name.extend_from_slice(b"\xe9\xfe\xffx.part");
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_in_doubt_is_looked_for_in_its_directory() {
        let odd = |name: &[u8]| name.contains(&IAC);
        let first = |path| first_name(path, odd);
        assert_eq!(first(b"/a/b\xff/c\xff"), Some((&b"/a/"[..], &b"b\xff"[..])));
        assert_eq!(first(b"\xffx"), Some((&b""[..], &b"\xffx"[..])));
        assert_eq!(first(b"/\xff"), Some((&b"/"[..], &b"\xff"[..])));
        assert_eq!(first(b"a/b"), None);
    }

    #[test]
    fn no_two_probes_have_the_same_name() {
        assert_ne!(probe(), probe());
    }
}
