//! Where an advisor is.

use std::fmt;
use std::path::PathBuf;

use ureq::http::Uri;

use crate::ClientError;

/// The longest name of a socket, bytes (`sun_path` of unix(7), without the zero).
const LONGEST_SOCKET: usize = 107;

/// Where an advisor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `http://host:port` or `https://host:port`, without a slash at its end.
    Url(String),
    /// A Unix socket.
    Socket(PathBuf),
}

impl Address {
    /// Reads `http://host:port`, `https://host:port`, `host:port` or `unix:/path/of/socket`.
    pub fn parse(text: &str) -> Result<Address, ClientError> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match (1..=LONGEST_SOCKET).contains(&path.len()) && !path.contains('\0') {
                true => Ok(Address::Socket(path.into())),
                false => Err(ClientError::Url(text.to_owned())),
            };
        }
        let url = match text.contains("://") {
            true => text.trim_end_matches('/').to_owned(),
            false => format!("http://{}", text.trim_end_matches('/')),
        };
        let has_host = |uri: Uri| uri.host().is_some_and(|host| !host.is_empty());
        let sound = ["http://", "https://"].iter().any(|s| url.starts_with(s))
            && url.parse::<Uri>().is_ok_and(has_host);
        match sound {
            true => Ok(Address::Url(url)),
            false => Err(ClientError::Url(text.to_owned())),
        }
    }

    /// Whether the server proves who it is.
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Address::Url(url) if url.starts_with("https://"))
    }

    /// What is asked for at this path, which begins with `/`.
    pub fn request(&self, path: &str) -> String {
        match self {
            Address::Url(url) => format!("{url}{path}"),
            // The socket is the way; a request of HTTP names a host all the same.
            Address::Socket(_) => format!("http://127.0.0.1{path}"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Url(url) => f.write_str(url),
            Address::Socket(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
