//! Small files one after the other through one data connection, in block mode (RFC 959, section 3.4.2), each asked for while
//! earlier ones are still on their way: a batch of them costs a few round trips, not some for each.
//!
//! What is out of the ordinary is left to [`Retrieval::run`], which moves each file by itself: a file that the server refuses
//! or that is not as it was listed, and those that were asked for when a connection breaks.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Instant;

use fairwind_transfer::{Direction, Meter, Watchers};

use super::ahead::{Command, is_plain};
use super::checksum::Method;
use super::clash::Settled;
use super::data_connection::unreached;
use super::local::Partial;
use super::moving::ProgressWatcher;
use super::session::Original;
use super::target::Target;
use super::{ClientError, Connection, FileReport, Retrieval, Session, Verification};
use crate::blocks::Blocks;
use crate::bounded::Bounded;
use crate::protocol::digest::Hasher;

/// Bytes of the largest file that is moved like this.
const LARGEST: u64 = 256 << 10;
/// Files, and bytes of commands, without a reply at a time: a server that reads no command during a transfer must have room
/// for them in its socket.
const MOST: usize = 64;
const MOST_BYTES: usize = 12 << 10;

/// A small file to download, of which everything is known before it is asked for.
#[derive(Debug, Clone)]
pub(super) struct SmallFile {
    /// Its number in progress reports.
    pub number: usize,
    /// The same as any other.
    pub retrieval: Retrieval,
    target: PathBuf,
    original: Original,
    size: u64,
}

impl SmallFile {
    /// The file, if it is one of these.
    pub(super) fn of(number: usize, retrieval: &Retrieval) -> Option<Self> {
        let listed = retrieval.listed.as_ref()?;
        let (size, modified) = (listed.size?, listed.modified?);
        if size > LARGEST || !is_plain(&retrieval.remote) {
            return None;
        }
        let Ok(Target::File(target)) = Target::find(&retrieval.target) else {
            return None;
        };
        let original = Original {
            size: Some(size),
            modified: Some(modified),
        };
        // One that is there already is not moved at all.
        if fs::symlink_metadata(&target).is_ok_and(|here| here.is_file() && original.is(&here)) {
            return None;
        }
        Some(Self {
            number,
            retrieval: retrieval.clone(),
            target,
            original,
            size,
        })
    }
}

/// Where small files come from, and where their reports go.
pub(super) trait Supply {
    /// The next file.
    fn next(&mut self) -> Option<SmallFile>;
    /// A file is at its place.
    fn done(&mut self, report: FileReport);
}

/// Files that have to be moved in another way.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Something is the matter with these.
    pub odd: Vec<SmallFile>,
    /// These were asked for when the connection became useless.
    pub unmoved: Vec<SmallFile>,
    /// It did before any file had come.
    pub is_futile: bool,
}

impl Connection {
    /// Fetches the files of a supply through one data connection. A session that becomes useless on the way is given up.
    ///
    /// # Errors
    /// Only [`ClientError::Stopped`].
    pub(super) fn fetch_small(&mut self, supply: &mut dyn Supply) -> Result<Rest, ClientError> {
        let (place, settled) = (self.place().clone(), self.settled());
        let report = |file: &SmallFile| {
            let source = place.with_path(file.retrieval.remote.clone());
            FileReport::new(source.to_string(), file.retrieval.shown_target())
        };
        let Some(session) = self.opened() else {
            return Ok(Rest::default());
        };
        let mut run = Run {
            session,
            settled: &settled,
            report: &report,
            supply,
            method: None,
            asked: VecDeque::new(),
            bytes: 0,
            is_over: false,
            has_begun: false,
            odd: Vec::new(),
        };
        let result = run.all();
        let (mut odd, mut asked, has_begun) = (run.odd, run.asked, run.has_begun);
        let is_futile = result.is_err() && !has_begun;
        if let Err(error) = result {
            // Replies are under way that nobody waits for.
            self.drop_session();
            if let ClientError::Stopped = error {
                return Err(error);
            }
            // It may be the cause: then it says so by itself.
            odd.extend(asked.pop_front());
            let note = format!("{error}; going on with another connection");
            self.options().progress.note(&note);
        }
        Ok(Rest {
            odd,
            unmoved: asked.into(),
            is_futile,
        })
    }
}

impl Session {
    /// Whether several files may come through one data connection.
    pub(super) fn shares_data_connections(&self) -> bool {
        let mut extensions = self.extensions.iter();
        self.features.lists("MODE B")
            && self.takes_passive_in_advance()
            && self.method().is_ok()
            && !extensions.any(|extension| extension.is_for_every_file())
    }
}

/// Files on their way.
struct Run<'a> {
    session: &'a mut Session,
    settled: &'a Settled,
    /// The report of a file that has not come.
    report: &'a dyn Fn(&SmallFile) -> FileReport,
    supply: &'a mut dyn Supply,
    method: Option<Method>,
    /// Those asked for, in their order.
    asked: VecDeque<SmallFile>,
    /// Bytes of the commands that ask for them.
    bytes: usize,
    /// No more are asked for.
    is_over: bool,
    /// A file has come.
    has_begun: bool,
    odd: Vec<SmallFile>,
}

impl Run<'_> {
    fn all(&mut self) -> Result<(), ClientError> {
        let first = self.supply.next();
        self.asked.extend(first);
        if self.asked.is_empty() {
            return Ok(());
        }
        let patience = self.session.options.patience;
        let mut began = Instant::now();
        self.session.settle_ahead()?;
        self.session.leave_third_party()?;
        self.session.listening = None;
        self.method = self.session.method()?;
        if let Some(method) = self.method {
            self.session.choose(method)?;
        }
        let mut commands = vec![("MODE", b"B".to_vec()), ("EPSV", Vec::new())];
        let of_first = self.commands(&self.asked[0]);
        self.bytes = bytes(&of_first);
        commands.extend(of_first);
        self.ask_for_more(commands)?;
        let stream = self.open()?;
        let mut blocks = None;
        while let Some(file) = self.asked.front().cloned() {
            let opening = self.session.control.first_reply_ahead(patience)?;
            let report = match opening.code {
                100..=199 => {
                    if blocks.is_none() {
                        let protection = self.session.protect_data(&stream)?;
                        blocks = Some(Blocks::over(protection.map(Box::new)));
                    }
                    let blocks = blocks.as_mut().expect("it has just been made");
                    self.receive(&file, &stream, blocks, began)?
                }
                // Those behind it lack the data connection as well.
                425 | 426 => return Err(self.session.control.refused(opening)),
                400..=599 => {
                    if self.method.is_some() {
                        self.session.control.reply_ahead(patience)?;
                    }
                    None
                }
                // It belongs to another file, and so will all that follow.
                _ => {
                    let what = "a last reply before the first one";
                    return Err(self.session.control.protocol_error(what));
                }
            };
            began = Instant::now();
            self.asked.pop_front();
            self.bytes -= bytes(&self.commands(&file));
            match report {
                Some(report) => {
                    self.has_begun = true;
                    self.supply.done(report);
                }
                None => self.odd.push(file),
            }
            if self.asked.len() <= MOST / 2 && self.bytes <= MOST_BYTES / 2 {
                self.ask_for_more(Vec::new())?;
            }
        }
        let reply = self.session.control.reply_ahead(patience)?;
        self.session.control.accepted(reply).map(drop)
    }

    /// What a file takes.
    fn commands(&self, file: &SmallFile) -> Vec<Command> {
        let path = &file.retrieval.remote;
        let checksum = self.method.map(|method| method.request(path));
        [("RETR", path.clone())]
            .into_iter()
            .chain(checksum)
            .collect()
    }

    /// Sends these commands, and those for as many files as may be asked for.
    fn ask_for_more(&mut self, mut commands: Vec<Command>) -> Result<(), ClientError> {
        while !self.is_over && self.asked.len() < MOST && self.bytes < MOST_BYTES {
            match self.supply.next() {
                Some(file) => {
                    let own = self.commands(&file);
                    self.bytes += bytes(&own);
                    commands.extend(own);
                    self.asked.push_back(file);
                }
                None => {
                    commands.push(("MODE", b"S".to_vec()));
                    self.is_over = true;
                }
            }
        }
        self.session.control.send_ahead(&commands)
    }

    /// The data connection, whose port has been asked for.
    fn open(&mut self) -> Result<TcpStream, ClientError> {
        let session = &mut *self.session;
        let patience = session.options.patience;
        let mode = session.control.reply_ahead(patience)?;
        session.control.accepted(mode)?;
        let listens = session.control.reply_ahead(patience)?;
        let Some(address) = session.extended_address(&listens)? else {
            return Err(session.control.refused(listens));
        };
        let plan = session.plan();
        let stream = session.connect_data(&plan, address, patience);
        let stream = stream.map_err(|error| unreached(address, patience, error))?;
        session.keep_to_limit(&stream, Direction::Receive)?;
        Ok(stream)
    }

    /// Receives a file, and the replies behind it; no report if it is not as it should be.
    ///
    /// # Errors
    /// If what comes behind it is of no use.
    fn receive(
        &mut self,
        file: &SmallFile,
        stream: &TcpStream,
        blocks: &mut Blocks,
        began: Instant,
    ) -> Result<Option<FileReport>, ClientError> {
        let partial = self.partial(file);
        let taken = self.take(file, partial.as_ref().ok(), stream, blocks);
        let (partial, checksum) = match (partial, taken) {
            (Ok(partial), Ok(Some(checksum))) => (partial, checksum),
            (Ok(partial), Ok(None)) => {
                partial.discard();
                return Ok(None);
            }
            (Ok(partial), Err(error)) => {
                partial.abandon();
                return Err(error);
            }
            (Err(_), taken) => return taken.map(|_| None),
        };
        if partial
            .complete(file.original.modified, self.settled)
            .is_err()
        {
            return Ok(None);
        }
        let mut report = (self.report)(file);
        report.size = file.size;
        report.checksum = checksum;
        report.moved(0, file.size, began, Instant::now());
        Ok(Some(report))
    }

    /// Takes the bytes of a file, to their place if there is one, and the replies behind them; `None` if they are not those
    /// that they should be.
    fn take(
        &mut self,
        file: &SmallFile,
        partial: Option<&Partial>,
        stream: &TcpStream,
        blocks: &mut Blocks,
    ) -> Result<Option<Verification>, ClientError> {
        let sink = Copy {
            partial,
            at: 0,
            hasher: self.method.map(|method| method.algorithm().start()),
        };
        let refusal = || io::Error::other("more bytes than were listed");
        let mut writer = Bounded::new(sink, file.size, refusal);
        let session = &mut *self.session;
        let (meter, patience) = (Meter::default(), session.options.patience);
        let mut watcher = ProgressWatcher {
            progress: session.options.progress.clone(),
            meter: &meter,
            file: Some((file.number, 0)),
            checksum: None,
            others: Watchers::default(),
        };
        let mover = session.mover(stream, Some(blocks), &meter, &mut watcher);
        let moved = mover.and_then(|mover| mover.receive_into(&mut writer, Some(file.size)));
        let Copy { at, hasher, .. } = writer.sink;
        let finished = session.finish(moved, &file.target);
        if session.options.progress.stopped() {
            return Err(ClientError::Stopped);
        }
        finished?;
        let checksum = match (self.method, hasher) {
            (Some(method), Some(hasher)) => {
                let reply = session.control.reply_ahead(patience)?;
                let there = session.checksum_in(method, &reply)?;
                session.judge(method, hasher.finish(), there)
            }
            _ => Ok(session.without_method()),
        };
        Ok(checksum.ok().filter(|_| at == file.size))
    }

    /// An empty file for the bytes to come.
    fn partial(&self, file: &SmallFile) -> Result<Partial, ClientError> {
        let partial = Partial::open(&file.target)?.unless_settled(self.settled)?;
        partial.begin_anew(file.original.note())?;
        Ok(partial)
    }
}

/// Bytes of commands, with their ends of lines.
fn bytes(commands: &[Command]) -> usize {
    let each = commands
        .iter()
        .map(|(verb, argument)| verb.len() + argument.len() + b" \r\n".len());
    each.sum()
}

/// Takes the bytes of a file: to its place, if there is one, and for their checksum.
struct Copy<'a> {
    partial: Option<&'a Partial>,
    at: u64,
    hasher: Option<Hasher>,
}

impl Write for Copy<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = match self.partial {
            Some(partial) => partial.writer(self.at).write(bytes)?,
            None => bytes.len(),
        };
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&bytes[..count]);
        }
        self.at += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
