//! What may stand between the bytes of a file and the socket: TLS, as whatever agrees on the transfer has set it up.

use std::fmt::{self, Debug};
use std::io;
use std::net::TcpStream;
use std::sync::Arc;

/// A protected stream over a socket that it does not own: watchers go on acting on the socket itself.
///
/// All errors of the socket are returned as they are, so `WouldBlock` and `Interrupted` mean that nothing is lost and
/// the call may be repeated.
pub trait Protection: Debug + Send {
    /// Reads what the peer has sent; 0 if the peer has ended the stream in order.
    ///
    /// # Errors
    /// `UnexpectedEof` if the connection ends without the peer having ended the stream: what came is cut off.
    /// `InvalidData` if what comes is not of this stream.
    fn read(&mut self, socket: &TcpStream, buffer: &mut [u8]) -> io::Result<usize>;

    /// Takes bytes to be sent; returns how many it took. Some may be sent only by a later call.
    ///
    /// # Errors
    /// `WouldBlock` if bytes of an earlier call have not been sent yet; then it took none.
    fn write(&mut self, socket: &TcpStream, bytes: &[u8]) -> io::Result<usize>;

    /// Sends what has been taken.
    ///
    /// # Errors
    /// If the socket fails or has no room.
    fn flush(&mut self, socket: &TcpStream) -> io::Result<()>;

    /// Ends this side's stream in order. May be repeated until it succeeds.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    fn end(&mut self, socket: &TcpStream) -> io::Result<()>;

    /// Whether something waits to be sent.
    fn is_sending(&self) -> bool;

    /// Whether the kernel protects what is written to the socket itself, so that bytes of a file need not pass here.
    /// Whoever writes them to the socket says so by [`passed`](Self::passed).
    fn is_below_socket(&self) -> bool {
        false
    }

    /// So many bytes were written to the socket itself.
    fn passed(&mut self, _count: usize) {}

    /// Whether this stream ends within the connection, which stays open for another one. Then only the end that sends
    /// ends it.
    fn stays_open(&self) -> bool {
        false
    }
}

type Make = dyn Fn() -> io::Result<Box<dyn Protection>> + Send + Sync;

/// Makes the protection of further connections of the session to which a protected data connection belongs.
#[derive(Clone)]
pub struct Protector(Arc<Make>);

impl Protector {
    /// Makes it by `make`: a protection whose handshake runs while it reads and writes.
    pub fn new(make: impl Fn() -> io::Result<Box<dyn Protection>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    /// The protection of one connection.
    ///
    /// # Errors
    /// If there can be none.
    pub fn protect(&self) -> io::Result<Box<dyn Protection>> {
        (self.0)()
    }
}

impl Debug for Protector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Protector").finish_non_exhaustive()
    }
}
