//! The file that is copied, as far as its server says.

use jiff::Timestamp;

use super::{ClientError, Session};

/// A file on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Original {
    /// Bytes; none if the server does not say.
    pub size: Option<u64>,
    /// When it was changed; none if the server does not say.
    pub modified: Option<Timestamp>,
}

impl Original {
    /// What a server says of a file.
    pub fn ask(session: &mut Session, path: &[u8]) -> Result<Self, ClientError> {
        let [size, modified] = session.control.ask_all([("SIZE", path), ("MDTM", path)])?;
        Ok(Self {
            size: super::session::size(&size),
            modified: super::session::modified(&modified),
        })
    }

    /// As noted beside bytes of it; none if the server says too little to tell it from another.
    pub fn note(self) -> Option<String> {
        Some(format!("{} bytes of {}", self.size?, self.modified?))
    }
}
