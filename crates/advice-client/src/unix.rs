//! Requests over a Unix socket: a transport for ureq.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Error, Timeout};

/// Connects to one socket, regardless of the host in a request.
#[derive(Debug)]
pub(crate) struct UnixConnector(pub PathBuf);

impl Connector for UnixConnector {
    type Out = UnixTransport;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<UnixTransport>, Error> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // If the listener's backlog is full, connect(2) blocks for up to the write timeout.
        socket.set_write_timeout(left(details.timeout))?;
        let connected = socket.connect(&SockAddr::unix(&self.0)?);
        connected.map_err(|error| in_time(error, details.timeout.reason))?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        let stream = UnixStream::from(std::os::fd::OwnedFd::from(socket));
        Ok(Some(UnixTransport { stream, buffers }))
    }
}

/// A connection over the socket.
#[derive(Debug)]
pub(crate) struct UnixTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl Transport for UnixTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.set_write_timeout(left(timeout))?;
        let written = self.stream.write_all(&self.buffers.output()[..amount]);
        written.map_err(|error| in_time(error, timeout.reason))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.set_read_timeout(left(timeout))?;
        let read = loop {
            match self.stream.read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let read = read.map_err(|error| in_time(error, timeout.reason))?;
        self.buffers.input_appended(read);
        Ok(read > 0)
    }

    fn is_open(&mut self) -> bool {
        // Between two requests there must be nothing to read: bytes are invalid, and 0 bytes mean the
        // end of the connection.
        let quiet = |stream: &mut UnixStream| {
            stream.set_nonblocking(true)?;
            let read = stream.read(&mut [0]);
            stream.set_nonblocking(false)?;
            read
        };
        matches!(quiet(&mut self.stream), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// The remaining time, at least 1 ms, since a socket does not accept a timeout of zero.
fn left(timeout: NextTimeout) -> Option<Duration> {
    let left = timeout.not_zero()?;
    Some((*left).max(Duration::from_millis(1)))
}

fn in_time(error: io::Error, reason: Timeout) -> Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout(reason),
        _ => Error::Io(error),
    }
}
