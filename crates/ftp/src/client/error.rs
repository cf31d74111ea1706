//! What can go wrong, worded so that the user can tell which host is at fault.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

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
    /// No control connection could be established.
    #[error("no connection to {server}: {error}")]
    Connect {
        /// Host and port.
        server: String,
        /// The reason for the last address tried.
        error: io::Error,
    },
    /// No reply came in time.
    #[error("{server} did not answer {what} within {patience:?}")]
    Silent {
        /// Host and port.
        server: String,
        /// The command, without its argument if that is secret.
        what: String,
        /// The time waited.
        patience: Duration,
    },
    /// The control connection broke.
    #[error("{server} broke the control connection off while {what} was to be answered: {reason}")]
    Broken {
        /// Host and port.
        server: String,
        /// The command.
        what: String,
        /// The cause.
        reason: String,
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
    /// The server's answer makes no sense.
    #[error("{server}: {what}")]
    Protocol {
        /// Host and port.
        server: String,
        /// What is wrong with it.
        what: String,
    },
    /// The data connection could not be established, broke, or stalled.
    #[error("data connection with {peer}: {what}")]
    Data {
        /// The peer's address, or the server's host and port.
        peer: String,
        /// What happened.
        what: String,
    },
    /// The server sends more bytes than it announced.
    #[error("{what}")]
    TooLong {
        /// Server, file and announced size.
        what: String,
        /// Whether a transfer from the beginning of the file may succeed.
        transient: bool,
    },
    /// The copy differs from the original, or cannot be verified as required.
    #[error("{0}")]
    Differs(String),
    /// A transfer between two servers failed: the replies of both, and whether trying again may help.
    #[error("{0}")]
    Servers(String, bool),
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

    /// The server sends more than the `size` bytes that it announced.
    pub(super) fn too_long(server: &str, path: &[u8], size: u64) -> Self {
        let path = one_line(path);
        Self::TooLong {
            what: format!("{server} sends more than the {size} bytes that it announced of {path}"),
            transient: false,
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
            Self::Connect { .. } | Self::Silent { .. } | Self::Broken { .. } => true,
            Self::Data { .. } => true,
            Self::Refused { reply, .. } => reply.is_transient_failure(),
            Self::Servers(_, transient) | Self::TooLong { transient, .. } => *transient,
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
