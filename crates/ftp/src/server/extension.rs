//! Where dynamic right-sizing and advice, and whatever comes later, plug into the server.

use std::net::SocketAddr;

use crate::data::{Direction, SocketPlan, Transfer, TransferWatcher};
use crate::protocol::Reply;

/// Something that adds to the server: features, commands, plans for data sockets, watchers.
pub trait Extension: Send + Sync {
    /// Its part of one session, which lives as long as that.
    fn open(&self, facts: &PeerFacts) -> Box<dyn SessionExtension>;
}

/// Who is at the other end of a control connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerFacts {
    /// This end of the control connection.
    pub local: SocketAddr,
    /// The client's end of it.
    pub peer: SocketAddr,
}

/// An extension's part of one session. None of these may wait for anybody.
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

    /// The session begins anew (REIN): back to how it was opened.
    fn reset(&mut self) {}
}
