//! The address of an advisor.

use std::fmt;
use std::path::PathBuf;

use ureq::http::Uri;

use crate::ClientError;

/// Maximum length of a socket's path, bytes (`sun_path` of unix(7), without the terminating zero).
const LONGEST_SOCKET: usize = 107;

/// The address of an advisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// `http://host:port` or `https://host:port`, without a trailing slash.
    Url(String),
    /// A Unix socket.
    Socket(PathBuf),
}

impl Address {
    /// Parses `http://host:port`, `https://host:port`, `host:port` or `unix:/path/of/socket`.
    pub(crate) fn parse(text: &str) -> Result<Address, ClientError> {
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
        // A word alone is none.
        let needs_port = !text.contains("://");
        let sound = ["http://", "https://"].iter().any(|s| url.starts_with(s))
            && url
                .parse()
                .is_ok_and(|uri: Uri| has_host(&uri) && has_port(&uri).unwrap_or(!needs_port));
        match sound {
            true => Ok(Address::Url(url)),
            false => Err(ClientError::Url(text.to_owned())),
        }
    }

    /// Whether the connection uses TLS, and so authenticates the server.
    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self, Address::Url(url) if url.starts_with("https://"))
    }

    /// The URL of a request for `path`, which begins with `/`.
    pub(crate) fn request(&self, path: &str) -> String {
        match self {
            Address::Url(url) => format!("{url}{path}"),
            // An HTTP request needs a host, even if the socket determines the server.
            Address::Socket(_) => format!("http://127.0.0.1{path}"),
        }
    }
}

fn has_host(uri: &Uri) -> bool {
    uri.host().is_some_and(|host| !host.is_empty())
}

/// Whether the port of a URL is one to which a connection can be made; `None` if it has none.
fn has_port(uri: &Uri) -> Option<bool> {
    let authority = uri.authority()?;
    let (_, server) = authority
        .as_str()
        .rsplit_once('@')
        .unwrap_or(("", authority.as_str()));
    let is_there = server != authority.host();
    is_there.then(|| authority.port_u16().is_some_and(|port| port != 0))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Url(url) => f.write_str(url),
            Address::Socket(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
