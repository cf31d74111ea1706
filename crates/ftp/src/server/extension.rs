//! How extensions such as right-sizing plug into the server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use super::Config;
use crate::extension::TransferExtension;
use crate::protocol::Reply;

/// The extensions of a server under one configuration.
pub trait Extensions: Send + Sync {
    /// Each of them, in the order in which they are asked.
    fn all(&self) -> &[Arc<dyn Extension>];

    /// Those under another configuration. What both need stays open.
    ///
    /// # Errors
    /// If one of them cannot be opened as configured.
    fn under(&self, config: &Config) -> io::Result<Arc<dyn Extensions>>;
}

/// The same extensions, whatever the configuration.
impl Extensions for Vec<Arc<dyn Extension>> {
    fn all(&self) -> &[Arc<dyn Extension>] {
        self
    }

    fn under(&self, _: &Config) -> io::Result<Arc<dyn Extensions>> {
        Ok(Arc::new(self.clone()))
    }
}

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
