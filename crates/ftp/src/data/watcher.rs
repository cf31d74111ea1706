//! Who looks at a transfer, and may change its connection, while it runs.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Follows one transfer from its own thread; the calls come in order and from one thread.
///
/// A watcher must not block longer than a few milliseconds: the transfer stands still meanwhile. What
/// waits for somebody else does so in a thread of its own.
pub trait TransferWatcher: Send {
    /// The data connection is open and no byte has been moved. `total` is the number of bytes that
    /// will be moved, as far as anybody knows it. The socket may be duplicated to set options on it
    /// later; the copy has to go with [`ended`](Self::ended).
    fn started(&mut self, socket: BorrowedFd<'_>, total: Option<u64>);

    /// `moved` bytes have been handed to, or taken from, the socket since the transfer began. Called
    /// for every 256 KiB that moves, or every 2 MiB where that takes some milliseconds, and about every
    /// 50 ms while nothing does.
    fn progressed(&mut self, moved: u64);

    /// The transfer is over, whether complete or not; the connection is about to be closed.
    fn ended(&mut self, moved: u64);
}

/// Which way the bytes of a data connection go, seen from this end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// This end sends.
    Send,
    /// This end receives.
    Receive,
}

/// What is known of a transfer when its data connection is open.
#[derive(Debug, Clone)]
pub struct Transfer {
    /// Which way the bytes go.
    pub direction: Direction,
    /// This end of the data connection.
    pub local: SocketAddr,
    /// The other end of the data connection: not the control connection's peer when the transfer is a
    /// third party's.
    pub peer: SocketAddr,
    /// The listening socket that the data connection came in by, non-blocking; none if this end
    /// connected. It stays open while anybody keeps it.
    pub listener: Option<Arc<TcpListener>>,
    /// Bytes to be moved, as far as they are known.
    pub total: Option<u64>,
}

/// Several watchers as one, called in their order.
#[derive(Default)]
pub struct Watchers(pub Vec<Box<dyn TransferWatcher>>);

impl TransferWatcher for Watchers {
    fn started(&mut self, socket: BorrowedFd<'_>, total: Option<u64>) {
        for watcher in &mut self.0 {
            watcher.started(socket, total);
        }
    }

    fn progressed(&mut self, moved: u64) {
        for watcher in &mut self.0 {
            watcher.progressed(moved);
        }
    }

    fn ended(&mut self, moved: u64) {
        for watcher in &mut self.0 {
            watcher.ended(moved);
        }
    }
}
