//! What can go wrong, worded so that the user can tell which host is at fault.

use std::fmt::Display;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::protocol::Reply;
use crate::protocol::path::one_line;

/// Why the client could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// An argument of the user is invalid.
    #[error("{0}")]
    Usage(String),
    /// A name that cannot be sent to the server, or that the server would take for another one.
    #[error("{0}")]
    Name(String),
    /// A local file could not be read or written.
    #[error("{path}: {error}", path = one_line(path.as_os_str().as_bytes()))]
    Local {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The server refused a command.
    #[error("{server} refused {what}: {reply}")]
    Refused {
        /// Host and port.
        server: String,
        /// The command.
        what: String,
        /// Its reply.
        reply: Reply,
    },
    /// A connection could not be established, broke or stalled, or what came makes no sense.
    #[error("{what}")]
    Failed {
        /// The host and what happened.
        what: String,
        /// Whether trying again may help.
        transient: bool,
    },
    /// The copy differs from the original, or cannot be verified as required.
    #[error("{0}")]
    Differs(String),
    /// The user asked to stop.
    #[error("interrupted")]
    Stopped,
}

impl ClientError {
    /// Wraps the failure of a local file.
    pub fn local(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::Local { path, error }
    }

    /// A failure after which trying again may help.
    pub(super) fn transient(what: String) -> Self {
        Self::Failed {
            what,
            transient: true,
        }
    }

    /// The data connection could not be established, broke, or brought too little.
    pub(super) fn data(peer: impl Display, what: impl Display) -> Self {
        Self::transient(format!("data connection with {peer}: {what}"))
    }

    /// The server sends more than the `size` bytes that it announced.
    pub(super) fn too_long(server: &str, path: &[u8], size: u64, transient: bool) -> Self {
        let path = one_line(path);
        Self::Failed {
            what: format!("{server} sends more than the {size} bytes that it announced of {path}"),
            transient,
        }
    }

    /// A name with bytes that end a command, however they are sent.
    pub fn invalid_name(name: &[u8]) -> Self {
        let name = one_line(name);
        Self::Name(format!(
            "a line end or a zero cannot be part of a name: {name}"
        ))
    }

    /// Whether trying again later over new connections may help.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused { reply, .. } => reply.is_transient_failure(),
            Self::Failed { transient, .. } => *transient,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16) -> ClientError {
        ClientError::Refused {
            server: "h:21".into(),
            what: "STOR".into(),
            reply: Reply::new(code, "no"),
        }
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        assert!(refused(426).is_transient());
        assert!(refused(421).is_transient());
        assert!(!refused(452).is_transient());
        assert!(!refused(550).is_transient());
        assert!(!ClientError::Stopped.is_transient());
        assert_eq!(refused(550).to_string(), "h:21 refused STOR: 550 no");
    }
}
