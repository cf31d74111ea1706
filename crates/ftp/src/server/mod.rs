//! The server: sessions on the control connection, files below a root that nothing leaves, transfers
//! in threads of their own.

mod extension;

pub use extension::{Extension, PeerFacts, SessionExtension};
