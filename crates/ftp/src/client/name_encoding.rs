//! How names that are not UTF-8 are sent to a server, of which those with the byte 255 are the hardest.
//!
//! The control connection speaks Telnet (RFC 959 section 4.1.3): there, 255 introduces a command and is
//! doubled to mean itself. ProFTPD and fairwind's server follow that; vsftpd takes every byte literally;
//! pyftpdlib replaces what is not UTF-8 by U+FFFD, so that different names become one. UTF-8 (RFC 2640) has
//! no byte 255, so only names that are not UTF-8 are affected.
//!
//! Data connections carry names unchanged, so a listing shows what the server has understood. A name to be
//! read is looked up in the listing. Before a name is written, a probe, an empty file with such bytes in its
//! name, shows what becomes of them; it is deleted at once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use fairwind_transfer::Direction;

use super::control::Telnet;
use super::{ClientError, Session, place};
use crate::protocol::Reply;
use crate::protocol::line::{IAC, escaped};
use crate::protocol::path::one_line;

/// What is known about how a server writes names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NameEncoding {
    /// Whether it stores names that are not UTF-8 unchanged, or why not; `None` until that has been found
    /// out.
    written: Option<Result<(), String>>,
    /// Directories in which that cannot be found out, with the reasons.
    closed: HashMap<Vec<u8>, String>,
}

/// The result of a probe.
enum Probe {
    /// The file exists under its name.
    Written,
    /// The file exists under another name, or not at all; with the reason.
    Changed(String),
    /// The directory does not allow the probe; with the reason.
    Closed(String),
}

impl Session {
    /// Finds out, if necessary, how to send a name that is to be read.
    ///
    /// # Errors
    /// If the control connection fails; [`ClientError::Name`] if the name does not exist or cannot be sent.
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

    /// Finds out, if necessary, how to send a name that is to be written, and that the server stores it
    /// unchanged.
    ///
    /// # Errors
    /// If the control connection fails; [`ClientError::Name`] if the server would store another name.
    pub(super) fn can_write(&mut self, path: &[u8]) -> Result<(), ClientError> {
        let Some((directory, name)) = first_odd_name(path) else {
            return Ok(());
        };
        if let Some(why) = self.name_encoding.closed.get(directory) {
            return Err(ClientError::Name(why.clone()));
        }
        if self.name_encoding.written.is_none() {
            let known = self.control.telnet;
            let tried = self.try_writing(directory);
            if !matches!(tried, Ok(Probe::Written)) {
                self.control.telnet = known;
            }
            self.name_encoding.written = match tried? {
                Probe::Written => Some(Ok(())),
                Probe::Changed(why) => Some(Err(why)),
                Probe::Closed(why) => {
                    let closed = &mut self.name_encoding.closed;
                    closed.insert(directory.to_vec(), why.clone());
                    return Err(ClientError::Name(why));
                }
            };
        }
        match &self.name_encoding.written {
            Some(Err(why)) => Err(ClientError::Name(format!("{}: {why}", one_line(name)))),
            _ => Ok(()),
        }
    }

    /// Writes a probe and examines what has become of it.
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

    /// Whether something exists at a path.
    fn finds(&mut self, path: &[u8]) -> Result<bool, ClientError> {
        Ok(self.size(path)?.is_some() || self.is_directory(path)?)
    }

    /// Stores an empty file.
    fn store_nothing(&mut self, path: &[u8]) -> Result<(), ClientError> {
        let mut channel = self.open_channel("STOR", path, 0, Direction::Send)?;
        channel.end().map_err(|error| self.data_error(error))?;
        drop(channel);
        let reply = self.control.last_reply(self.options.patience)?;
        self.control.accepted(reply).map(drop)
    }
}

/// Turns a permanent refusal into a closed directory; other errors may be transient.
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

/// The first component of a path that is not UTF-8, with the path of its directory.
pub(super) fn first_odd_name(path: &[u8]) -> Option<(&[u8], &[u8])> {
    first_name(path, |name| std::str::from_utf8(name).is_err())
}

/// The first component of a path for which `odd` is true, with the path of its directory.
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

/// The name of a probe: unique among transfers, and with the bytes that servers are known to change.
fn probe() -> Vec<u8> {
    let mut name = format!(".{}-", unique()).into_bytes();
    name.extend_from_slice(b"\xe9\xfe\xffx.part");
    name
}

/// A part of a name that nobody else uses.
pub(super) fn unique() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = now.map_or(0, |time| time.as_nanos());
    format!("{nanoseconds:x}-{:x}-{number:x}", std::process::id())
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
