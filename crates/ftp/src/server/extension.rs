//! Where dynamic right-sizing and advice, and later additions, plug into the server.

use std::net::SocketAddr;

use crate::data::{Direction, SocketPlan, Transfer, TransferWatcher};
use crate::protocol::Reply;

/// An addition to the server: features, commands, plans for data sockets, watchers.
pub trait Extension: Send + Sync {
    /// Its part of one session, with the lifetime of that session.
    fn open(&self, facts: &PeerFacts) -> Box<dyn SessionExtension>;
}

/// The addresses of a control connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerFacts {
    /// The server's address.
    pub local: SocketAddr,
    /// The client's address.
    pub peer: SocketAddr,
}

/// An extension's part of one session. None of these methods may block.
pub trait SessionExtension: Send {
    /// Lines for FEAT, without the leading space.
    fn features(&self) -> Vec<String> {
        Vec::new()
    }

    /// `OPTS name arguments`; none if the name is not this extension's.
    fn opts(&mut self, name: &str, arguments: &str) -> Option<Reply> {
        let _ = (name, arguments);
        None
    }

    /// `SITE name arguments`; none if the name is not this extension's.
    fn site(&mut self, name: &str, arguments: &str) -> Option<Reply> {
        let _ = (name, arguments);
        None
    }

    /// A data socket is about to listen (`peer` and `direction` are not known yet) or to connect.
    fn plan(
        &mut self,
        plan: &mut SocketPlan,
        peer: Option<SocketAddr>,
        direction: Option<Direction>,
    ) {
        let _ = (plan, peer, direction);
    }

    /// The data connection of a file's transfer is open; the watcher will be called in the transfer's
    /// thread.
    fn watch(&mut self, transfer: &Transfer) -> Option<Box<dyn TransferWatcher>> {
        let _ = transfer;
        None
    }

    /// The session begins anew (REIN): returns to the state in which it was opened.
    fn reset(&mut self) {}
}
