//! Small files up through one data connection, in block mode (RFC 959, section 3.4.2), each sent while the replies to earlier
//! ones are still on their way.
//!
//! What a file's blocks meet must be its own STOR. A server that announces `STOR AHEAD` closes the data connection with an
//! upload that it refuses, so that nothing is taken for the next file. What is out of the ordinary is left to
//! [`Storage::run`].

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read};
use std::net::TcpStream;
use std::time::Instant;

use fairwind_transfer::{Bounds, Direction, Meter, Mover, TransferError, Watchers};
use jiff::Timestamp;

use super::ahead::{Command, is_plain};
use super::checksum::Method;
use super::moving::ProgressWatcher;
use super::name_encoding::first_odd_name;
use super::retrieve::shown;
use super::session::{Original, size};
use super::small_files::{LARGEST, MOST, MOST_BYTES, Rest, Supply, bytes};
use super::target::Target;
use super::{ClientError, Connection, FileReport, Options, Session, Storage};
use crate::blocks::Blocks;
use crate::protocol::time;

/// Bytes of files on their way at a time.
const MOST_CONTENT: u64 = 2 << 20;

/// A small file to upload.
#[derive(Debug, Clone)]
pub(super) struct SmallUpload {
    /// Its number in progress reports.
    pub number: usize,
    /// The same as any other.
    pub storage: Storage,
    /// Its path on the server until it has come.
    partial: Vec<u8>,
}

impl SmallUpload {
    /// The file, if it is one of these.
    pub(super) fn of(number: usize, storage: &Storage, options: &Options) -> Option<Self> {
        let Ok(Target::File(source)) = Target::find(&storage.source) else {
            return None;
        };
        let bytes = fs::metadata(source).ok()?.len();
        let may_be_there = storage
            .present
            .as_ref()
            .is_some_and(|present| present.size == Some(bytes));
        let is_plain = is_plain(&storage.remote) && first_odd_name(&storage.remote).is_none();
        (bytes <= LARGEST && is_plain && !may_be_there && !options.in_place).then(|| Self {
            number,
            storage: storage.clone(),
            partial: storage.places(false).partial,
        })
    }
}

/// What replies are owed for.
enum Owed {
    /// The bytes of a file.
    Bytes(Sent),
    /// Its time and its name.
    Name(SmallUpload, Box<FileReport>),
}

impl Owed {
    fn is_name(&self) -> bool {
        matches!(self, Self::Name(..))
    }

    fn file(self) -> SmallUpload {
        match self {
            Self::Bytes(sent) => sent.file,
            Self::Name(file, _) => file,
        }
    }
}

/// A file whose bytes have been sent.
struct Sent {
    file: SmallUpload,
    /// Size and time before they were read.
    original: Original,
    length: u64,
    /// Their checksum.
    checksum: Option<String>,
    began: Instant,
}

impl Connection {
    /// Sends the files of a supply through one data connection. A session that becomes useless on the way is given up.
    ///
    /// # Errors
    /// Only [`ClientError::Stopped`].
    pub(super) fn send_small(
        &mut self,
        supply: &mut dyn Supply<SmallUpload>,
    ) -> Result<Rest<SmallUpload>, ClientError> {
        let place = self.place().clone();
        let report = |file: &SmallUpload| {
            let storage = &file.storage;
            FileReport::new(storage.shown(), shown(&place, &storage.remote))
        };
        let Some(session) = self.opened() else {
            return Ok(Rest::default());
        };
        let mut run = Run {
            session,
            report: &report,
            supply,
            method: None,
            owed: VecDeque::new(),
            bytes: 0,
            content: 0,
            is_over: false,
            is_leaving: false,
            broken: None,
            is_refused: false,
            unmoved: Vec::new(),
            has_begun: false,
            odd: Vec::new(),
        };
        let result = run.all();
        let (odd, has_begun) = (run.odd, run.has_begun);
        let (owed, unmoved) = (run.owed.into_iter(), run.unmoved);
        let mut rest = self.rest(result, odd, owed.map(Owed::file).collect(), has_begun)?;
        rest.unmoved.extend(unmoved);
        Ok(rest)
    }
}

impl Session {
    /// Whether several files may go through one data connection.
    pub(super) fn shares_uploads(&self) -> bool {
        self.features.lists("STOR AHEAD")
            && self.features.has("MFMT")
            && self.shares_data_connections()
    }
}

/// Files on their way.
struct Run<'a> {
    session: &'a mut Session,
    /// The report of a file that has not gone.
    report: &'a dyn Fn(&SmallUpload) -> FileReport,
    supply: &'a mut dyn Supply<SmallUpload>,
    method: Option<Method>,
    /// In the order of their commands.
    owed: VecDeque<Owed>,
    /// Bytes of these commands, and of the files whose bytes replies are owed for.
    bytes: usize,
    content: u64,
    /// Nothing more is sent.
    is_over: bool,
    /// MODE S has been sent, behind the last name.
    is_leaving: bool,
    /// The data connection has failed. The replies tell at which file.
    broken: Option<ClientError>,
    /// So they have done.
    is_refused: bool,
    unmoved: Vec<SmallUpload>,
    /// The bytes of a file have arrived.
    has_begun: bool,
    odd: Vec<SmallUpload>,
}

impl Run<'_> {
    fn all(&mut self) -> Result<(), ClientError> {
        self.method = self.session.begin_sharing()?;
        let commands = vec![("MODE", b"B".to_vec()), ("EPSV", Vec::new())];
        self.session.control.send_ahead(&commands)?;
        let stream = self.session.open_shared(Direction::Send)?;
        let mut blocks = None;
        loop {
            while self.has_room() {
                match self.supply.next() {
                    Some(file) => self.send(file, &stream, &mut blocks)?,
                    None => self.is_over = true,
                }
            }
            let is_last = self.is_over && (self.broken.is_none() || self.is_refused);
            if is_last && !self.is_leaving && self.owed.iter().all(Owed::is_name) {
                self.is_leaving = true;
                let leave = ("MODE", b"S".to_vec());
                self.session.control.send_ahead(&[leave])?;
            }
            match self.owed.front() {
                None => break,
                Some(Owed::Bytes(_)) => self.settle_bytes()?,
                Some(Owed::Name(..)) => self.settle_name()?,
            }
        }
        if let Some(error) = self.broken.take_if(|_| !self.is_refused) {
            return Err(error);
        }
        let reply = self
            .session
            .control
            .reply_ahead(self.session.options.patience)?;
        self.session.control.accepted(reply)?;
        drop(stream);
        Ok(())
    }

    fn has_room(&self) -> bool {
        !self.is_over
            && self.owed.len() < MOST
            && self.bytes < MOST_BYTES
            && self.content < MOST_CONTENT
    }

    /// Sends commands, for which `owed` stands.
    fn ask(&mut self, commands: &[Command], owed: Owed) -> Result<(), ClientError> {
        self.bytes += bytes(commands);
        self.owed.push_back(owed);
        self.session.control.send_ahead(commands)
    }

    /// Sends a file, unless it cannot be read.
    fn send(
        &mut self,
        file: SmallUpload,
        stream: &TcpStream,
        blocks: &mut Option<Blocks>,
    ) -> Result<(), ClientError> {
        let began = Instant::now();
        let Ok((content, original)) = read(&file) else {
            self.odd.push(file);
            return Ok(());
        };
        let checksum = self.method.map(|method| {
            let mut hasher = method.algorithm().start();
            hasher.update(&content);
            hasher.finish()
        });
        let length = content.len() as u64;
        let (number, path) = (file.number, file.storage.source.clone());
        let commands = bytes_commands(&file, self.method);
        let sent = Sent {
            file,
            original,
            length,
            checksum,
            began,
        };
        self.content += length;
        self.ask(&commands, Owed::Bytes(sent))?;
        if blocks.is_none() {
            let protection = self.session.protect_data(stream)?;
            *blocks = Some(Blocks::over(protection.map(Box::new)));
        }
        let session = &mut *self.session;
        let (meter, limit) = (Meter::default(), session.options.limit.clone());
        let mut watcher = ProgressWatcher {
            progress: session.options.progress.clone(),
            meter: &meter,
            file: Some((number, 0)),
            checksum: None,
            others: Watchers::default(),
        };
        let bounds = Bounds::patience(session.options.patience);
        let moved = Mover::new(stream, &meter, &mut watcher, bounds).and_then(|mover| {
            let mover = mover.protected_by(blocks.as_mut().map(|blocks| blocks as _));
            let mover = match limit.as_deref() {
                Some(limit) => mover.through(limit),
                None => mover,
            };
            mover.send_from(&mut &*content, Some(length))
        });
        if session.options.progress.stopped() {
            return Err(ClientError::Stopped);
        }
        match moved {
            Ok(_) => Ok(()),
            Err(TransferError::Connection(error)) => {
                self.broken = Some(session.data_error(error));
                self.is_over = true;
                Ok(())
            }
            failed => session.finish(failed, &path).map(drop),
        }
    }

    /// Reads the replies to the oldest file's bytes; if they are right, asks for its name.
    fn settle_bytes(&mut self) -> Result<(), ClientError> {
        let patience = self.session.options.patience;
        let opening = self.session.control.first_reply_ahead(patience)?;
        let stored = match opening.code {
            100..=199 => self.session.control.last_reply(patience)?,
            400..=599 => opening,
            // It belongs to another file, and so will all that follow.
            _ => {
                let what = "a last reply before the first one";
                return Err(self.session.control.protocol_error(what));
            }
        };
        let there = self.session.control.reply_ahead(patience)?;
        let Some(Owed::Bytes(sent)) = self.owed.pop_front() else {
            return Ok(());
        };
        self.content -= sent.length;
        self.bytes -= bytes(&bytes_commands(&sent.file, self.method));
        if !stored.is_positive() {
            // The data connection has been closed with it. Those behind it lack it; names are given all the same.
            match self.is_refused {
                false => self.odd.push(sent.file),
                true => self.unmoved.push(sent.file),
            }
            (self.is_refused, self.is_over) = (true, true);
            return Ok(());
        }
        let verification = match (self.method, sent.checksum) {
            (Some(method), Some(here)) => {
                let there = self.session.checksum_in(method, &there)?;
                self.session.judge(method, here, there)
            }
            _ if size(&there) == Some(sent.length) => Ok(self.session.without_method()),
            _ => Err("it has another size".into()),
        };
        let is_unchanged = File::open(&sent.file.storage.source)
            .and_then(|file| Original::of(&file))
            .is_ok_and(|now| now == sent.original);
        match (verification, sent.original.modified) {
            (Ok(checksum), Some(modified)) if is_unchanged => {
                self.has_begun = true;
                let mut report = (self.report)(&sent.file);
                report.size = sent.length;
                report.checksum = checksum;
                report.moved(0, sent.length, sent.began, Instant::now());
                let commands = name_commands(&sent.file, modified);
                self.ask(&commands, Owed::Name(sent.file, Box::new(report)))
            }
            _ => {
                self.odd.push(sent.file);
                Ok(())
            }
        }
    }

    /// Reads the replies to what gives the oldest file its name.
    fn settle_name(&mut self) -> Result<(), ClientError> {
        let patience = self.session.options.patience;
        // That a time is not set does not keep a file from its name.
        self.session.control.reply_ahead(patience)?;
        let from = self.session.control.reply_ahead(patience)?;
        let to = self.session.control.reply_ahead(patience)?;
        let Some(Owed::Name(file, report)) = self.owed.pop_front() else {
            return Ok(());
        };
        self.bytes -= bytes(&name_commands(&file, Timestamp::UNIX_EPOCH));
        if from.is_intermediate() && to.is_positive() {
            self.supply.done(*report);
        } else {
            self.odd.push(file);
        }
        Ok(())
    }
}

/// What stores the bytes of a file, and tells whether they are right.
fn bytes_commands(file: &SmallUpload, method: Option<Method>) -> [Command; 2] {
    let check = match method {
        Some(method) => method.request(&file.partial),
        None => ("SIZE", file.partial.clone()),
    };
    [("STOR", file.partial.clone()), check]
}

/// What gives a file its time and its name. The time comes first: so it is never that of an older file.
fn name_commands(file: &SmallUpload, modified: Timestamp) -> [Command; 3] {
    let time = [time::format(modified).as_bytes(), b" ", &file.partial].concat();
    [
        ("MFMT", time),
        ("RNFR", file.partial.clone()),
        ("RNTO", file.storage.remote.clone()),
    ]
}

/// The bytes of a file, and its size and time, if it is a small one.
fn read(file: &SmallUpload) -> io::Result<(Vec<u8>, Original)> {
    let open = File::open(&file.storage.source)?;
    let original = Original::of(&open)?;
    let mut content = Vec::new();
    (&open).take(LARGEST + 1).read_to_end(&mut content)?;
    match original.size == Some(content.len() as u64) && original.modified.is_some() {
        true => Ok((content, original)),
        false => Err(io::Error::other("it is being changed")),
    }
}
