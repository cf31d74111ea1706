//! The original of a copy, as its server describes it.

use jiff::Timestamp;

use super::{ClientError, Session};

/// Size and modification time of a file on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Original {
    /// Size in bytes; `None` if the server does not say.
    pub size: Option<u64>,
    /// Modification time; `None` if the server does not say.
    pub modified: Option<Timestamp>,
}

impl Original {
    /// Asks the server with SIZE and MDTM.
    pub(super) fn ask(session: &mut Session, path: &[u8]) -> Result<Self, ClientError> {
        let [size, modified] = session.control.ask_all([("SIZE", path), ("MDTM", path)])?;
        Ok(Self {
            size: super::session::size(&size),
            modified: super::session::modified(&modified),
        })
    }

    /// The note recorded beside a partial file; `None` if the server says too little to identify the file.
    pub(super) fn note(self) -> Option<String> {
        Some(format!("{} bytes of {}", self.size?, self.modified?))
    }
}
