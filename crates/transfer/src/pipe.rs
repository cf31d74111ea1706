//! Bytes on their way from a socket to a file that the kernel moves itself: they are copied once, into the file, and not
//! twice, through a buffer.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// A pipe through which bytes pass; between two calls it is empty.
#[derive(Debug)]
pub(crate) struct Pipe {
    entry: OwnedFd,
    exit: File,
}

impl Pipe {
    /// Most bytes that it holds at once, which is as much as users without privileges may have in a pipe (pipe(7)). Fewer,
    /// and so more system calls, are slower than a buffer.
    pub(crate) const SIZE: usize = 1 << 20;

    /// Makes one.
    ///
    /// # Errors
    /// If there is no descriptor left, or the user's pipes hold as much as they may (`pipe-user-pages-soft`).
    pub(crate) fn new() -> io::Result<Self> {
        let (exit, entry) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setpipe_size(&entry, Self::SIZE)?;
        Ok(Self {
            entry,
            exit: exit.into(),
        })
    }

    /// Takes up to `most` bytes that have arrived at the socket; 0 at the end of the stream. Waits for them as long as a
    /// read would. They have to be [poured](Self::pour) before the next call.
    ///
    /// # Errors
    /// Those of a read from the socket.
    pub(crate) fn fill(&self, socket: &TcpStream, most: usize) -> Result<usize, Errno> {
        splice(socket, None, &self.entry, None, most, SpliceFlags::MOVE)
    }

    /// Moves the `count` bytes that it holds to the position of the file. Returns false if the file cannot take bytes in
    /// this way: they have been copied.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn pour(&mut self, count: usize, file: &File) -> io::Result<bool> {
        let mut rest = count;
        while rest > 0 {
            match splice(&self.exit, None, file, None, rest, SpliceFlags::MOVE) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(moved) => rest -= moved,
                Err(Errno::INTR) => {}
                Err(Errno::INVAL) => {
                    let mut bytes = vec![0; rest];
                    self.exit.read_exact(&mut bytes)?;
                    (&mut &*file).write_all(&bytes)?;
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}
