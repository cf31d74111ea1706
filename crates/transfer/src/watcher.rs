//! Observers of a running transfer, which may also tune its connection.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::Protector;

/// Follows one transfer. All calls come in order and from the transfer's thread.
///
/// A watcher must not block for longer than a few milliseconds, because the transfer stands still
/// meanwhile. Anything that waits for someone else belongs in a thread of its own.
pub trait TransferWatcher: Send {
    /// The data connection is open and no byte has been moved yet. `total` is the number of bytes to be
    /// moved, if known. The socket may be duplicated to set options on it later; the copy has to be
    /// closed in [`ended`](Self::ended).
    fn started(&mut self, socket: BorrowedFd<'_>, total: Option<u64>);

    /// `moved` bytes have been handed to, or taken from, the socket since the transfer began. Called at
    /// least for every 256 KiB moved, or every 2 MiB where those take only milliseconds, and at least
    /// about every 50 ms while nothing moves.
    fn progressed(&mut self, moved: u64);

    /// The transfer is over, whether complete or not; the connection is about to be closed.
    fn ended(&mut self, moved: u64);
}

/// Direction of the bytes on a data connection, seen from this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// This host sends.
    Send,
    /// This host receives.
    Receive,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "send",
            Self::Receive => "receive",
        })
    }
}

/// What is known about a transfer once its data connection is open.
#[derive(Debug, Clone)]
pub struct Transfer {
    /// Which way the bytes go.
    pub direction: Direction,
    /// Local address of the data connection.
    pub local: SocketAddr,
    /// Remote address of the data connection: in a transfer between two servers, not that of the client.
    pub peer: SocketAddr,
    /// The listening socket that accepted the data connection, non-blocking; none if this host connected.
    /// It stays open as long as anyone holds it.
    pub listener: Option<Arc<TcpListener>>,
    /// Bytes to be moved, if known.
    pub total: Option<u64>,
    /// How further connections between the two hosts are protected; none if the data connection is not.
    pub protector: Option<Protector>,
}

/// Several watchers as one, called in order.
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
