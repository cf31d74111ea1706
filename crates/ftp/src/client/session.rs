//! A session: a logged-in control connection.

use std::fmt::Display;
use std::fs::Metadata;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fairwind_kernel::TcpInfo;
use jiff::Timestamp;

use super::ahead::{Ahead, Upcoming};
use super::checksum::Method;
use super::control::Control;
use super::data_connection::is_full;
use super::listing::{self, Entry, Kind};
use super::name_encoding::{NameEncoding, first_odd_name};
use super::protection;
use super::third_party_tls::Told;
use super::{
    ClientError, ControlConnection, Credentials, Features, Options, Place, SessionExtension,
};
use crate::protocol::digest::Algorithm;
use crate::protocol::line::IAC;
use crate::protocol::path::one_line;
use crate::protocol::{Reply, time};
use crate::tls::ClientSessionTls;

/// A session with a server.
pub struct Session {
    pub(super) control: Control,
    pub(super) options: Options,
    pub(super) features: Features,
    pub(super) extensions: Vec<Box<dyn SessionExtension>>,
    /// EPSV or EPRT was refused: PASV and PORT (RFC 959) are used.
    pub(super) plain_addresses: bool,
    /// The algorithm selected for HASH, if one was.
    pub(super) chosen_hash: Option<Algorithm>,
    /// MLSD was refused: LIST is used.
    pub(super) plain_listings: bool,
    /// How names that are not UTF-8 are sent.
    pub(super) name_encoding: NameEncoding,
    /// Where the server listens already for the next data connection, and since when.
    pub(super) listening: Option<(SocketAddr, Instant)>,
    /// The file that is likely to be moved next.
    pub(super) next: Option<Upcoming>,
    /// Whether listings are those of a tree.
    pub(super) walks: bool,
    /// What has been sent ahead.
    pub(super) ahead: Ahead,
    /// What is known ahead of a file.
    pub(super) known: Option<(Vec<u8>, Original)>,
    /// What is known ahead of a partial file: its size, in bytes.
    pub(super) partial: Option<(Vec<u8>, Option<u64>)>,
    /// TLS, if the session has it: then data connections have it, too.
    pub(super) tls: Option<ClientSessionTls>,
    /// What the server knows of the other one in a third-party transfer.
    pub(super) told: Told,
    /// What ends that which extensions of these options have asked the server for.
    undo: Vec<&'static str>,
    /// The same of earlier options.
    stale: Vec<&'static str>,
    /// The login directory.
    home: Option<Vec<u8>>,
}

impl Session {
    /// Connects and logs in.
    ///
    /// # Errors
    /// If no connection can be established, the login fails, or the server breaks the protocol.
    pub fn connect(
        place: &Place,
        credentials: &Credentials,
        options: &Options,
    ) -> Result<Self, ClientError> {
        let mut control = Control::connect(
            place,
            &options.route,
            options.patience,
            options.progress.clone(),
        )?;
        let tls = protection::begin(&mut control, place, options, |control| {
            let greeting = control.last_reply(options.patience)?;
            control.accepted(greeting).map(drop)
        })?;
        log_in(&mut control, credentials)?;
        let [features, image] = control.ask_all([("FEAT", b""), ("TYPE", b"I")])?;
        control.accepted(image)?;
        if tls.is_some() {
            // RFC 4217 section 9. A server that refuses would move data in clear.
            control.must("PBSZ", b"0")?;
            control.must("PROT", b"P")?;
        }
        let features = Features::read(&features);
        if features.has("UTF8") {
            control.ask("OPTS", b"UTF8 ON")?;
        }
        let mut session = Self {
            control,
            options: options.clone(),
            features,
            extensions: Vec::new(),
            plain_addresses: false,
            chosen_hash: None,
            plain_listings: false,
            name_encoding: NameEncoding::default(),
            listening: None,
            next: None,
            walks: false,
            ahead: Ahead::default(),
            known: None,
            partial: None,
            tls,
            told: Told::default(),
            undo: Vec::new(),
            stale: Vec::new(),
            home: None,
        };
        session.open_extensions();
        Ok(session)
    }

    /// Goes on with these options, which reach the server in the same way.
    pub(super) fn adopt(&mut self, options: &Options) {
        self.options = options.clone();
        self.control
            .adopt(options.patience, options.progress.clone());
        (self.next, self.known, self.partial) = (None, None, None);
        self.stale.append(&mut self.undo);
        self.open_extensions();
    }

    /// Ends what extensions of earlier options have asked the server for, and those of these options have not.
    pub(super) fn undo_stale(&mut self) -> Result<(), ClientError> {
        while let Some(undo) = self.stale.pop() {
            self.control.ask(undo, b"")?;
        }
        Ok(())
    }

    fn open_extensions(&mut self) {
        let is_proxied = self.control.way.is_proxied();
        let extensions = self.options.extensions.iter();
        self.extensions = extensions
            .filter(|extension| !(is_proxied && extension.is_between_hosts()))
            .filter_map(|extension| extension.open(&self.features))
            .collect();
    }

    /// Host and port, as shown in messages.
    pub fn server(&self) -> &str {
        &self.control.server
    }

    /// The least round-trip time of the control connection; `None` if the kernel does not tell.
    pub fn min_rtt(&self) -> Option<Duration> {
        TcpInfo::of(&self.control).ok()?.min_rtt()
    }

    /// Sends QUIT; the reply does not matter.
    pub fn quit(mut self) {
        let _ = self.control.ask("QUIT", b"");
        self.control.end();
    }

    /// Has transfers begin at byte `first` (REST).
    pub(super) fn restart_at(&mut self, first: u64) -> Result<(), ClientError> {
        if first > 0 {
            let reply = self.control.ask("REST", first.to_string().as_bytes())?;
            if !reply.is_intermediate() {
                return Err(self.control.refused(reply));
            }
        }
        Ok(())
    }

    /// Announces the size of an upload (ALLO) to servers that reserve space or distinguish the end from a broken
    /// connection by it.
    pub(super) fn announce(&mut self, size: u64) -> Result<(), ClientError> {
        let room = self.control.ask("ALLO", size.to_string().as_bytes())?;
        if is_full(&room) {
            return Err(self.control.refused(room));
        }
        Ok(())
    }

    /// The error for a data connection that could not be established, broke, or brought too little.
    pub(super) fn data_error(&self, what: impl Display) -> ClientError {
        ClientError::data(self.server(), what)
    }

    /// The size of a file in bytes; `None` if the server does not say.
    ///
    /// # Errors
    /// If the control connection fails.
    pub fn size(&mut self, path: &[u8]) -> Result<Option<u64>, ClientError> {
        Ok(size(&self.control.ask("SIZE", path)?))
    }

    /// The modification time of a file; `None` if the server does not say.
    ///
    /// # Errors
    /// If the control connection fails.
    pub fn modified(&mut self, path: &[u8]) -> Result<Option<Timestamp>, ClientError> {
        Ok(modified(&self.control.ask("MDTM", path)?))
    }

    /// Sets the modification time of a file, if the server supports it.
    ///
    /// # Errors
    /// If the control connection fails.
    pub fn set_modified(&mut self, path: &[u8], when: Timestamp) -> Result<(), ClientError> {
        let mut argument = format!("{} ", time::format(when)).into_bytes();
        argument.extend_from_slice(path);
        // vsftpd and others set a time with MDTM without announcing it in FEAT; the rest take the time for part
        // of a file name and refuse, since no such file exists.
        let verb = if self.features.has("MFMT") {
            "MFMT"
        } else {
            "MDTM"
        };
        self.control.ask(verb, &argument).map(drop)
    }

    /// What is at a path, from MLST, or from SIZE and CWD; `None` if nothing is.
    ///
    /// # Errors
    /// If the control connection fails.
    pub fn look(&mut self, path: &[u8]) -> Result<Option<Entry>, ClientError> {
        if path.is_empty() {
            return Ok(Some(Entry::new(b"".to_vec(), Kind::Directory)));
        }
        match self.can_read(path) {
            Err(ClientError::Name(_)) => return Ok(None),
            known => known?,
        }
        if self.features.has("MLST") {
            let reply = self.control.ask("MLST", path)?;
            if reply.code == 250 {
                let entry = reply
                    .lines
                    .iter()
                    .find_map(|line| listing::facts(line.trim_ascii_start()));
                return Ok(entry);
            }
            if reply.code == 550 {
                return Ok(None);
            }
        }
        if self.is_directory(path)? {
            return Ok(Some(Entry::new(path.to_vec(), Kind::Directory)));
        }
        let size = self.size(path)?;
        let modified = match size {
            Some(_) => self.modified(path)?,
            None => None,
        };
        Ok(size.map(|size| Entry {
            size: Some(size),
            modified,
            ..Entry::new(path.to_vec(), Kind::File)
        }))
    }

    /// Whether the path can be entered with CWD.
    pub(super) fn is_directory(&mut self, path: &[u8]) -> Result<bool, ClientError> {
        match self.must_be_directory(path) {
            Err(ClientError::Refused { what, .. }) if what.starts_with("CWD ") => Ok(false),
            went => went.map(|()| true),
        }
    }

    /// Enters a directory and returns.
    ///
    /// # Errors
    /// If it cannot be entered, or there is no way back.
    pub(super) fn must_be_directory(&mut self, path: &[u8]) -> Result<(), ClientError> {
        let home = self.home()?;
        self.control.must("CWD", path)?;
        match home {
            Some(home) if self.control.ask("CWD", &home)?.is_positive() => Ok(()),
            _ => Err(self
                .control
                .protocol_error("no way back to where the session began")),
        }
    }

    /// The login directory; `None` if the server does not say, or if its name may not be the one that it says, or
    /// cannot be sent back.
    pub(super) fn home(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        if let Some(home) = &self.home {
            return Ok(Some(home.clone()));
        }
        let reply = self.control.ask("PWD", b"")?;
        let knows_255 = self.control.telnet.is_some();
        self.home = quoted(&reply.lines.join(&b'\n'))
            .filter(|path| reply.is_positive() && is_as_told(path))
            .filter(|path| knows_255 || !path.contains(&IAC));
        Ok(self.home.clone())
    }

    /// Creates a directory and its missing parents.
    ///
    /// # Errors
    /// If the server refuses to create one of them and it does not exist either.
    pub fn make_directories(&mut self, path: &[u8]) -> Result<(), ClientError> {
        let path = super::place::trim(path);
        if path.is_empty() || path == b"/" {
            return Ok(());
        }
        if let Some((directory, _)) = first_odd_name(path) {
            self.make_directories(directory)?;
        }
        self.can_write(path)?;
        let made = self.control.ask("MKD", path)?;
        if made.is_positive() || self.is_directory(path)? {
            return Ok(());
        }
        let (parent, _) = super::place::split(path);
        if super::place::trim(parent).is_empty() || super::place::trim(parent) == b"/" {
            return Err(ClientError::Refused {
                server: self.server().to_owned(),
                what: format!("MKD {}", one_line(path)),
                reply: made,
            });
        }
        self.make_directories(parent)?;
        self.control.must("MKD", path).map(drop)
    }

    /// Deletes a file.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn delete(&mut self, path: &[u8]) -> Result<(), ClientError> {
        self.control.must("DELE", path).map(drop)
    }

    /// How this server computes checksums, the strongest algorithm first.
    pub(super) fn methods(&self) -> Vec<Method> {
        Method::offered(&self.features)
    }
}

/// Size and modification time of a file on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Original {
    /// Size in bytes; `None` if the server does not say.
    pub size: Option<u64>,
    /// Modification time; `None` if the server does not say.
    pub modified: Option<Timestamp>,
}

impl Original {
    /// Asks the server with SIZE and MDTM.
    pub(super) fn ask(session: &mut Session, path: &[u8]) -> Result<Self, ClientError> {
        let [bytes, time] = session.control.ask_all([("SIZE", path), ("MDTM", path)])?;
        Ok(Self::read(&bytes, &time))
    }

    /// Size and time in the replies to SIZE and MDTM.
    pub(super) fn read(bytes: &Reply, time: &Reply) -> Self {
        Self {
            size: size(bytes),
            modified: modified(time),
        }
    }

    /// The same before a download: a server that takes commands in advance listens for the data connection meanwhile, or may
    /// have answered already.
    pub(super) fn ask_before_download(
        session: &mut Session,
        path: &[u8],
    ) -> Result<Self, ClientError> {
        session.settle_ahead()?;
        if let Some(known) = session.known_ahead(path) {
            return Ok(known);
        }
        if !session.takes_passive_in_advance() || session.is_listening() {
            return Self::ask(session, path);
        }
        session.prepare()?;
        let commands = [("SIZE", path), ("MDTM", path), ("EPSV", b"".as_slice())];
        let [bytes, time, listens] = session.control.ask_all(commands)?;
        let address = session.extended_address(&listens)?;
        session.listening = address.map(|address| (address, Instant::now()));
        Ok(Self::read(&bytes, &time))
    }

    /// Whether a local file has the same size, and the same time to the second.
    pub(super) fn is(self, here: &Metadata) -> bool {
        let modified = here.modified().ok();
        let same_time = modified
            .and_then(|time| Timestamp::try_from(time).ok())
            .zip(self.modified)
            .is_some_and(|(here, there)| here.as_second() == there.as_second());
        self.size == Some(here.len()) && same_time
    }

    /// The note recorded beside a partial file; `None` if the server says too little to identify the file.
    pub(super) fn note(self) -> Option<String> {
        Some(format!("{} bytes of {}", self.size?, self.modified?))
    }
}

impl ControlConnection for Session {
    fn features(&self) -> &Features {
        &self.features
    }

    fn peer(&self) -> SocketAddr {
        self.control.peer
    }

    fn ask(&mut self, command: &str) -> Result<Reply, ClientError> {
        self.control.ask(command, b"")
    }

    fn lasts_until(&mut self, undo: &'static str) {
        for noted in [&mut self.stale, &mut self.undo] {
            noted.retain(|other| *other != undo);
        }
        self.undo.push(undo);
    }
}

/// The size in bytes in a reply to SIZE.
pub(super) fn size(reply: &Reply) -> Option<u64> {
    (reply.code == 213).then(|| one_line(&reply.lines[0]).trim().parse().ok())?
}

/// The time in a reply to MDTM.
fn modified(reply: &Reply) -> Option<Timestamp> {
    (reply.code == 213).then(|| time::parse(one_line(&reply.lines[0]).trim()))?
}

fn log_in(control: &mut Control, credentials: &Credentials) -> Result<(), ClientError> {
    let mut reply = control.ask("USER", credentials.user.as_bytes())?;
    if reply.code == 331 {
        reply = control.ask("PASS", credentials.password.as_bytes())?;
    }
    if reply.code == 332 {
        return Err(control.protocol_error("an account is wanted, which is not served"));
    }
    control.accepted(reply).map(drop)
}

/// The text between quotation marks, in which a mark is doubled (RFC 959 appendix II).
fn quoted(text: &[u8]) -> Option<Vec<u8>> {
    let mark = text.iter().position(|byte| *byte == b'"')?;
    let mut bytes = text[mark + 1..].iter().copied().peekable();
    let mut path = Vec::new();
    loop {
        match bytes.next()? {
            b'"' if bytes.next_if_eq(&b'"').is_some() => path.push(b'"'),
            b'"' => return Some(path),
            other => path.push(other),
        }
    }
}

/// Whether a path in a reply is that of the server: many servers put `?` or U+FFFD in place of what they do not tell,
/// vsftpd a zero. No command can hold an end of a line.
fn is_as_told(path: &[u8]) -> bool {
    let replacement = "\u{fffd}".as_bytes();
    !path
        .iter()
        .any(|byte| matches!(byte, b'?' | 0 | b'\r' | b'\n'))
        && !path
            .windows(replacement.len())
            .any(|part| part == replacement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_working_directory_is_between_quotation_marks() {
        assert_eq!(
            quoted(b"\"/\xe9 \"\"b\"\"\" is it"),
            Some(b"/\xe9 \"b\"".to_vec())
        );
        assert_eq!(quoted(b"none"), None);
    }
}
