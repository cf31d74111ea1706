//! What a transfer does with its data connection, in its own thread.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwind_transfer::{
    Bounds, Direction, Gate, Meter, Mover, Protection, TransferError, TransferWatcher,
};
use flate2::read::ZlibEncoder;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::deflate::Inflate;
use super::files::Root;
use super::listing::{self, Form, Subject};
use super::partial::UploadError;
use super::upload::Upload;
use crate::blocks::Blocks;
use crate::protocol::Reply;
use crate::protocol::ascii::{FromNetwork, ToNetwork};
use crate::protocol::command::Representation;
use crate::tls::{Protected, is_refusal};

/// How long the other end may take to close a connection over which everything has been sent.
const CLOSING: Duration = Duration::from_secs(2);

/// The work of a data connection.
#[derive(Debug)]
pub(super) enum Work {
    /// RETR
    Send {
        /// The file.
        file: File,
        /// The first byte to send.
        first: u64,
        /// The byte after the last one.
        end: u64,
        /// TYPE
        representation: Representation,
    },
    /// LIST, NLST, MLSD
    List {
        /// The user's files.
        root: Arc<Root>,
        /// What is listed.
        subject: Subject,
        /// How.
        form: Form,
    },
    /// STOR, APPE, STOU
    Receive {
        /// The file being received.
        upload: Upload,
        /// Bytes announced by the client (ALLO).
        announced: Option<u64>,
        /// TYPE
        representation: Representation,
    },
}

/// How bytes travel: as they are, or with MODE Z compressed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Compression {
    /// zlib's level; none for bytes as they are.
    pub level: Option<u32>,
    /// Bytes that may come out of each compressed one that is received; 0: no limit.
    pub ratio: u64,
}

impl Compression {
    /// The bytes as they travel.
    fn read<'a>(self, bytes: impl Read + 'a) -> Box<dyn Read + 'a> {
        match self.level {
            Some(level) => Box::new(ZlibEncoder::new(bytes, flate2::Compression::new(level))),
            None => Box::new(bytes),
        }
    }
}

/// What the bytes of a transfer pass on their way.
pub(super) struct Passage<'a> {
    /// TLS, whose handshake is over; none if they travel in clear.
    pub protection: Option<Box<Protected>>,
    /// How slow they may be.
    pub bounds: Bounds,
    /// How fast.
    pub gate: &'a dyn Gate,
    /// MODE Z, or not.
    pub compression: Compression,
    /// MODE B, with the protection below.
    pub blocks: Option<Box<Blocks>>,
    /// A file that has been sent is over when the other end closes the connection.
    pub awaits_end: bool,
}

/// How a transfer ended.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Bytes moved.
    pub result: Result<u64, TransferError>,
    /// The file that was received; not complete yet.
    pub upload: Option<Upload>,
    /// Names left out of a listing.
    pub left_out: u64,
    /// What another transfer in block mode goes on with.
    pub blocks: Option<Box<Blocks>>,
}

impl From<Result<u64, TransferError>> for Outcome {
    fn from(result: Result<u64, TransferError>) -> Self {
        Self {
            result,
            upload: None,
            left_out: 0,
            blocks: None,
        }
    }
}

impl Work {
    /// Which way the bytes go.
    pub(super) fn direction(&self) -> Direction {
        match self {
            Self::Send { .. } | Self::List { .. } => Direction::Send,
            Self::Receive { .. } => Direction::Receive,
        }
    }

    /// Whether a file is moved.
    pub(super) fn is_file(&self) -> bool {
        !matches!(self, Self::List { .. })
    }

    /// Bytes to be moved, if known.
    pub(super) fn total(&self) -> Option<u64> {
        match self {
            Self::Send {
                first,
                end,
                representation: Representation::Image,
                ..
            } => Some(end.saturating_sub(*first)),
            Self::Receive { announced, .. } => *announced,
            _ => None,
        }
    }

    /// Does the work and returns how it ended.
    pub(super) fn run(
        self,
        stream: &TcpStream,
        passage: Passage<'_>,
        meter: &Meter,
        watcher: &mut dyn TransferWatcher,
    ) -> Outcome {
        let Passage {
            protection,
            bounds,
            gate,
            compression,
            mut blocks,
            awaits_end,
        } = passage;
        let is_sending = self.direction() == Direction::Send;
        let in_blocks = blocks.is_some();
        let mut protection = match self.protection(protection, compression, stream) {
            Ok(protection) => protection,
            Err(error) => return self.ends_with(TransferError::Connection(error)),
        };
        let mover = match Mover::new(stream, meter, watcher, bounds) {
            Ok(mover) => mover.through(gate).protected_by(match &mut blocks {
                Some(blocks) => Some(&mut **blocks),
                None => protection.as_mut().map(|protection| &mut **protection as _),
            }),
            Err(error) => return self.ends_with(error),
        };
        let mut outcome = match self {
            Self::Send {
                file,
                first,
                end,
                representation,
            } => match (representation, compression.level) {
                // In blocks, the end of a file that has become shorter must not look like that of a whole one.
                (Representation::Image, None) if !in_blocks => {
                    let bytes = end.saturating_sub(first);
                    let sent = mover.send_file(&file, first, end);
                    match sent {
                        Ok(sent) if sent < bytes => {
                            Err(TransferError::File(has_become_shorter())).into()
                        }
                        sent => sent.into(),
                    }
                }
                _ => match part_of(file, first, end) {
                    Ok(bytes) => {
                        let bytes: Box<dyn Read> = match representation {
                            Representation::Image => Box::new(bytes),
                            Representation::Ascii => Box::new(ToNetwork::new(bytes)),
                        };
                        mover.send_from(&mut compression.read(bytes), None).into()
                    }
                    Err(error) => Err(TransferError::File(error)).into(),
                },
            },
            Self::List {
                root,
                subject,
                form,
            } => {
                let sent = send_listing(mover, root, subject, form, compression);
                Outcome {
                    left_out: sent.as_ref().map_or(0, |(_, left_out)| *left_out),
                    result: sent.map(|(moved, _)| moved),
                    upload: None,
                    blocks: None,
                }
            }
            Self::Receive {
                mut upload,
                announced,
                representation,
            } => {
                let taken = upload.take_over(|| meter.is_stopped());
                // Nothing but its last block ends a file in blocks.
                let announced = announced.filter(|_| !in_blocks);
                let result = receive(
                    mover,
                    &upload,
                    taken,
                    announced,
                    representation,
                    compression,
                );
                Outcome {
                    upload: Some(upload),
                    ..result.into()
                }
            }
        };
        if awaits_end && is_sending && outcome.result.is_ok() {
            hear_out(stream);
        }
        outcome.blocks = blocks.filter(|_| outcome.result.is_ok());
        outcome
    }

    /// What protects the bytes of this work: the kernel, where they come from a file as they are.
    fn protection(
        &self,
        protection: Option<Box<Protected>>,
        compression: Compression,
        stream: &TcpStream,
    ) -> io::Result<Option<Box<dyn Protection>>> {
        let Some(protection) = protection else {
            return Ok(None);
        };
        match self {
            Self::Send {
                first,
                end,
                representation: Representation::Image,
                ..
            } if compression.level.is_none() => {
                let bytes = end.saturating_sub(*first);
                protection.only_sending(stream, bytes).map(Some)
            }
            _ => Ok(Some(protection)),
        }
    }

    /// The outcome of work that was not done.
    pub(crate) fn ends_with(self, error: TransferError) -> Outcome {
        let upload = match self {
            Self::Receive { upload, .. } => Some(upload),
            Self::Send { .. } | Self::List { .. } => None,
        };
        Outcome {
            upload,
            ..Err(error).into()
        }
    }
}

/// The bytes of a file from `first` up to `end`; an error where it ends before that.
fn part_of(mut file: File, first: u64, end: u64) -> io::Result<impl Read> {
    file.seek(SeekFrom::Start(first))?;
    Ok(Part(file.take(end.saturating_sub(first))))
}

struct Part(io::Take<File>);

impl Read for Part {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.0.read(bytes)? {
            0 if self.0.limit() > 0 && !bytes.is_empty() => Err(has_become_shorter()),
            count => Ok(count),
        }
    }
}

fn has_become_shorter() -> io::Error {
    io::Error::other("it has become shorter meanwhile")
}

/// Reads what the peer of a connection has still to say, until it closes it or two seconds have passed.
fn hear_out(stream: &TcpStream) {
    let deadline = Instant::now() + CLOSING;
    let _ = stream.set_read_timeout(Some(CLOSING));
    let mut rest = [0; 1024];
    while Instant::now() < deadline && matches!((&mut &*stream).read(&mut rest), Ok(1..)) {}
}

/// Receives into an upload whose first bytes have been taken over, or not.
fn receive(
    mover: Mover<'_>,
    upload: &Upload,
    taken: io::Result<bool>,
    announced: Option<u64>,
    representation: Representation,
    compression: Compression,
) -> Result<u64, TransferError> {
    match taken {
        Err(error) => return Err(TransferError::File(error)),
        Ok(false) => return Err(TransferError::Stopped),
        Ok(true) => {}
    }
    let is_ascii = representation == Representation::Ascii;
    let is_as_sent = !is_ascii && compression.level.is_none();
    if let Some(file) = upload.unmetered().filter(|_| is_as_sent) {
        return mover.receive_file(file, announced);
    }
    let mut sink = upload.sink();
    if is_ascii {
        sink = Box::new(FromNetwork::new(sink));
    }
    if compression.level.is_some() {
        sink = Box::new(Inflate::new(sink, compression.ratio));
    }
    mover.receive_into(&mut sink, announced)
}

/// Writes the listing to a pipe whose other side is sent: a directory of any size takes little memory. Returns the bytes sent, and the number of names left out.
fn send_listing(
    mover: Mover<'_>,
    root: Arc<Root>,
    subject: Subject,
    form: Form,
    compression: Compression,
) -> Result<(u64, u64), TransferError> {
    let (read, write) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|error| TransferError::File(error.into()))?;
    let listing = move || {
        let mut out = io::BufWriter::new(File::from(write));
        let left_out = listing::write(&root, &subject, form, &mut out)?;
        io::Write::flush(&mut out).map(|()| left_out)
    };
    let lister = std::thread::Builder::new()
        .name("listing".into())
        .stack_size(512 << 10)
        .spawn(listing)
        .map_err(TransferError::File)?;
    let sent = mover.send_from(&mut compression.read(File::from(read)), None);
    let listed = lister.join().unwrap_or_else(|_| Err(Errno::IO.into()));
    match (sent, listed) {
        (Ok(moved), Ok(left_out)) => Ok((moved, left_out)),
        (Ok(_), Err(error)) => Err(TransferError::File(error)),
        (Err(error), _) => Err(error),
    }
}

/// The reply for a transfer that failed.
pub(super) fn failure(error: &TransferError) -> Reply {
    match error {
        TransferError::Stopped => Reply::new(426, "Connection closed; transfer aborted"),
        TransferError::Stalled(_)
        | TransferError::Slow(_)
        | TransferError::Long(_)
        | TransferError::Connection(_) => {
            Reply::new(426, format!("{error}; data connection closed"))
        }
        TransferError::File(error) if is_full(error) => file_failure(error),
        TransferError::File(error) if error.kind() == io::ErrorKind::ArgumentListTooLong => {
            file_failure(error)
        }
        TransferError::File(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            Reply::new(552, "Exceeded storage allocation: file too large")
        }
        TransferError::File(error) => {
            let why = words(error);
            Reply::new(451, format!("The file could not be moved: {why}"))
        }
    }
}

/// The reply if there is no data connection.
pub(super) fn not_opened(error: &io::Error) -> Reply {
    let why = words(error);
    if is_refusal(error) {
        return Reply::new(522, format!("TLS on the data connection failed: {why}"));
    }
    Reply::new(425, format!("Can't open data connection: {why}"))
}

/// An error in words that tell whose fault it is.
fn words(error: &io::Error) -> String {
    if is_out_of_descriptors(error) {
        return "the server has no descriptor free; try again later".into();
    }
    error.to_string()
}

/// Whether this process or the system has no descriptor free.
pub(super) fn is_out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::MFILE | Errno::NFILE))
}

/// Whether the disk or the quota is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::NOSPC | Errno::DQUOT))
}

/// The reply for an operation on files that failed. It is 550, which clients take for "no such file",
/// where a retry would have the same result.
pub(super) fn file_failure(error: &io::Error) -> Reply {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC) => Reply::new(452, "Insufficient storage space"),
        Some(Errno::DQUOT) => Reply::new(552, "Exceeded storage allocation: the quota is used up"),
        Some(Errno::NOENT) => Reply::new(550, "No such file or directory"),
        Some(Errno::XDEV | Errno::LOOP) => Reply::new(
            550,
            "Permission denied: outside the served directory, or on another file system",
        ),
        Some(Errno::NAMETOOLONG) => Reply::new(550, "File name too long"),
        Some(Errno::NOTEMPTY) => Reply::new(550, "Directory not empty (partial uploads count)"),
        Some(Errno::ISDIR) => Reply::new(550, "Is a directory"),
        Some(Errno::NOTDIR) => Reply::new(550, "Not a directory"),
        Some(Errno::EXIST) => Reply::new(550, "File exists"),
        Some(Errno::INVAL | Errno::NXIO) => Reply::new(550, "Not a regular file"),
        Some(Errno::BUSY) => Reply::new(550, "Device or resource busy, or the root directory"),
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Reply::new(550, "Permission denied"),
        Some(Errno::TOOBIG) => Reply::new(550, "Pattern too complex"),
        Some(Errno::AGAIN) => Reply::new(450, "Directory is changing; try again"),
        _ => Reply::new(451, format!("Local error in processing: {}", words(error))),
    }
}

/// The reply for an upload that cannot begin, or cannot be removed.
pub(super) fn upload_failure(error: &UploadError) -> Reply {
    match error {
        UploadError::Busy => Reply::new(450, error.to_string()),
        UploadError::BehindTheEnd(_) => Reply::new(554, error.to_string()),
        UploadError::File(error) => naming_failure(error),
    }
}

/// As [`file_failure`], for an operation that makes a new name (STOR, MKD, RNTO).
pub(super) fn naming_failure(error: &io::Error) -> Reply {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NAMETOOLONG) => Reply::new(553, "File name too long"),
        Some(Errno::INVAL) => Reply::new(553, "File name not allowed"),
        _ => file_failure(error),
    }
}
