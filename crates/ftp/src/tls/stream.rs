//! TLS over a blocking socket.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use fairwind_transfer::Protection;
use rustls::Connection;

use super::kernel::InKernel;

/// A TLS connection over a socket that it does not own. Its handshake runs while it reads and writes.
#[derive(Debug)]
pub(crate) struct Protected {
    connection: Connection,
    /// Bytes of the socket that have not been taken by the connection yet. It takes a few thousand at a time, and
    /// fewer system calls are faster.
    incoming: Vec<u8>,
    /// How many at once.
    bulk: usize,
    begin: usize,
    end: usize,
    is_ended: bool,
    /// The socket has nothing more.
    is_cut: bool,
    /// The kernel may have the keys.
    is_extractable: bool,
}

/// Bytes encrypted, and bytes read from the socket, at once on a data connection.
pub(crate) const FOR_DATA: usize = 128 << 10;
/// The same on a connection with short messages.
pub(crate) const FOR_MESSAGES: usize = 8 << 10;

impl Protected {
    /// Takes over a connection; `bulk` bytes are read or encrypted at once.
    pub(crate) fn new(connection: impl Into<Connection>, bulk: usize) -> Self {
        let mut connection = connection.into();
        // At least a record of the greatest size.
        connection.set_buffer_limit(Some(bulk.max(32 << 10)));
        Self {
            connection,
            incoming: Vec::new(),
            bulk,
            begin: 0,
            end: 0,
            is_ended: false,
            is_cut: false,
            is_extractable: false,
        }
    }

    /// Lets the kernel have the keys, or not, which the connection's configuration has to allow.
    pub(super) fn extractable(self, is_extractable: bool) -> Self {
        Self {
            is_extractable,
            ..self
        }
    }

    /// The protection of a connection that only sends from now on, about so many bytes: the kernel's where it can be.
    ///
    /// # Errors
    /// If the kernel does not do what it has offered.
    pub(crate) fn only_sending(
        self: Box<Self>,
        socket: &TcpStream,
        bytes: u64,
    ) -> io::Result<Box<dyn Protection>> {
        if !self.is_extractable || !InKernel::is_possible(&self.connection, socket, bytes) {
            return Ok(self);
        }
        Ok(Box::new(InKernel::take(self.connection, socket)?))
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Takes in what has arrived; reads the socket once if nothing waits.
    ///
    /// # Errors
    /// If the socket fails or has nothing, or what came is not TLS; then the peer has been told.
    pub(crate) fn take_in(&mut self, socket: &TcpStream) -> io::Result<()> {
        if self.begin == self.end {
            self.incoming.resize(self.bulk, 0);
            self.end = (&mut &*socket).read(&mut self.incoming)?;
            self.begin = 0;
            self.is_cut = self.end == 0;
        }
        // Nothing at all is the end of the connection.
        let mut rest = &self.incoming[self.begin..self.end];
        self.begin += self.connection.read_tls(&mut rest)?;
        if let Err(error) = self.connection.process_new_packets() {
            // The alert that says why.
            let _ = self.send_tls(socket);
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        match self.send_tls(socket) {
            Err(error) if !is_wait(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Sends what is encrypted.
    pub(crate) fn send_tls(&mut self, socket: &TcpStream) -> io::Result<()> {
        while self.connection.wants_write() {
            if self.connection.write_tls(&mut &*socket)? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Gives the memory back in which bytes are read, until more are.
    pub(crate) fn rests(&mut self) {
        if self.begin == self.end {
            self.incoming = Vec::new();
        }
    }

    /// Whether the peer has closed the connection.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_cut
    }

    /// Whether bytes of the peer wait here, which the socket does not show.
    pub(crate) fn has_more(&self) -> bool {
        self.begin < self.end
    }

    /// What has been decrypted, without reading the socket; `WouldBlock` if there is nothing.
    pub(crate) fn decrypted(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.connection.reader().read(buffer).map_err(|error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                let text = "cut off: it ended without the closing message of TLS";
                return io::Error::new(error.kind(), text);
            }
            error
        })
    }
}

impl Protection for Protected {
    fn read(&mut self, socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.decrypted(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.take_in(socket)?,
                read => return read,
            }
        }
    }

    fn write(&mut self, socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        self.send_tls(socket)?;
        let count = self.connection.writer().write(bytes)?;
        match self.send_tls(socket) {
            Err(error) if !is_wait(&error) => Err(error),
            // In a handshake that waits for the peer, what fits has been taken.
            _ if count == 0 && !bytes.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(count),
        }
    }

    fn flush(&mut self, socket: &TcpStream) -> io::Result<()> {
        self.send_tls(socket)
    }

    fn end(&mut self, socket: &TcpStream) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_ended, true) {
            self.connection.send_close_notify();
        }
        self.send_tls(socket)
    }

    fn is_sending(&self) -> bool {
        self.connection.wants_write()
    }
}

fn is_wait(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock)
}
