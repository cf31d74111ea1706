//! A process that keeps the rights that the server gives up, to reopen the few files that were named when the
//! server was started: a log that is rotated, a configuration that is read again.
//!
//! The server sends the index of a file as a byte; the answer is a descriptor, or an error number. Nothing
//! else passes between the two.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nix::sys::signal::SigSet;
use nix::unistd::{ForkResult, fork};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::thread::CapabilitySet;

use super::confinement::{Confinement, Reach};
use super::privileges::{keep, require_single_thread};

/// Most files, whose numbers are bytes.
const MOST: usize = 1 << u8::BITS;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// For reading.
    Read,
    /// For appending; created if it does not exist.
    Append,
}

/// The server's end of the connection to the process.
#[derive(Debug)]
pub(crate) struct Keeper {
    files: Vec<(PathBuf, Use)>,
    line: Mutex<UnixStream>,
}

impl Keeper {
    /// Starts the process, which ends with this one. Relative paths are resolved as they are now.
    ///
    /// # Errors
    /// Fails if there are threads already or too many files, or if the process cannot be created.
    pub(crate) fn start(files: Vec<(PathBuf, Use)>) -> io::Result<Self> {
        require_single_thread()?;
        if files.len() > MOST {
            let text = format!(
                "{} logs, texts, certificates and keys are named, {MOST} at most",
                files.len()
            );
            return Err(io::Error::other(text));
        }
        let (line, far) = UnixStream::pair()?;
        // SAFETY: the process has a single thread, so in the child no lock is held and all memory is
        // consistent.
        match unsafe { fork() }? {
            ForkResult::Parent { .. } => Ok(Self {
                files,
                line: Mutex::new(line),
            }),
            ForkResult::Child => {
                drop(line);
                let done = serve(&files, &far);
                std::process::exit(i32::from(done.is_err()));
            }
        }
    }

    /// Opens one of the files.
    ///
    /// # Errors
    /// Fails if the file is none of those named at the start, if open(2) fails, or if the process has ended.
    pub(crate) fn open(&self, path: &Path, purpose: Use) -> io::Result<File> {
        let wanted = |(kept, to): &(PathBuf, Use)| kept == path && *to == purpose;
        let number = self.files.iter().position(wanted).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it was not named when the server was started; a restart can change that",
            )
        })?;
        let line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        send(&line, number as u8, None)?;
        match receive(&line)? {
            Some((0, Some(file))) => Ok(file.into()),
            // No descriptor was free to receive it (MSG_CTRUNC).
            Some((0, None)) => Err(Errno::MFILE.into()),
            Some((error, _)) => Err(io::Error::from_raw_os_error(error.into())),
            None => Err(io::Error::other("the process that opens files has ended")),
        }
    }
}

/// Opens files on request until the server has gone.
fn serve(files: &[(PathBuf, Use)], line: &UnixStream) -> io::Result<()> {
    // Signals that end the server must not end this process, which is needed until the server has ended.
    SigSet::all().thread_block()?;
    let paths: Vec<_> = files.iter().flat_map(reach).collect();
    let confinement = Confinement::prepare(&paths).map_err(io::Error::other)?;
    keep(CapabilitySet::DAC_OVERRIDE)?;
    confinement.enter().map_err(io::Error::other)?;
    while let Some((number, _)) = receive(line)? {
        let opened = match files.get(usize::from(number)) {
            Some((path, Use::Read)) => File::open(path),
            Some((path, Use::Append)) => OpenOptions::new().append(true).create(true).open(path),
            None => Err(io::ErrorKind::InvalidInput.into()),
        };
        match opened {
            Ok(file) => send(line, 0, Some(&file))?,
            Err(error) => {
                // Linux's error numbers for files are below 256.
                let number = error
                    .raw_os_error()
                    .and_then(|number| u8::try_from(number).ok());
                send(line, number.unwrap_or(Errno::IO.raw_os_error() as u8), None)?;
            }
        }
    }
    Ok(())
}

/// Files are replaced and rotated, so access is to their directories; also to that of the file to which a link
/// leads, as programs that renew certificates arrange them.
fn reach((path, purpose): &(PathBuf, Use)) -> Vec<(PathBuf, Reach)> {
    let reach = match purpose {
        Use::Read => Reach::ReadFiles,
        Use::Append => Reach::Append,
    };
    let linked = path.canonicalize().ok();
    let directory = |path: &Path| path.parent().unwrap_or(path).to_owned();
    let mut directories = vec![directory(path)];
    directories.extend(linked.map(|path| directory(&path)));
    directories
        .into_iter()
        .map(|directory| (directory, reach))
        .collect()
}

pub(super) fn send(line: &UnixStream, byte: u8, file: Option<&File>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = file.map(|file| [file.as_fd()]);
    if let Some(descriptors) = &descriptors {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let bytes = [byte];
    sendmsg(
        line,
        &[IoSlice::new(&bytes)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// A byte and the descriptor that came with it; none at the end of the stream.
pub(super) fn receive(line: &UnixStream) -> io::Result<Option<(u8, Option<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0];
    let received = {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        recvmsg(line, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut file = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut files) = message {
            file = files.next();
        }
    }
    Ok(Some((bytes[0], file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_there_was_no_room_for_is_told_as_such() {
        let (line, far) = UnixStream::pair().unwrap();
        let keeper = Keeper {
            files: vec![("log".into(), Use::Append)],
            line: Mutex::new(line),
        };
        // What the kernel delivers of an answer if the server's descriptor table is full.
        send(&far, 0, None).unwrap();
        let error = keeper.open(Path::new("log"), Use::Append).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
    }
}
