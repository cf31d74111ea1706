//! How extensions such as right-sizing plug into the server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use super::Config;
use crate::extension::TransferExtension;
use crate::protocol::Reply;

/// Opens the extensions that a configuration selects, in the order in which they are asked.
pub(super) type Select = dyn Fn(&Config) -> io::Result<Vec<Arc<dyn Extension>>> + Send + Sync;

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
pub trait SessionExtension: TransferExtension {
    /// Lines for FEAT, without the leading space.
    fn features(&self) -> Vec<String> {
        Vec::new()
    }

    /// `OPTS name arguments`; none if the name is not this extension's.
    fn opts(&mut self, name: &str, arguments: &str) -> Option<Reply> {
        let _ = (name, arguments);
        None
    }

    /// The session begins anew (REIN): returns to the state in which it was opened.
    fn reset(&mut self) {}
}
