//! Locations: `ftp://user:password@host:port/path` (RFC 1738 section 3.2, RFC 3986).
//!
//! The path is relative to the login directory; one that begins with a second slash, `ftp://host//path` or
//! `ftp://host/%2Fpath`, is relative to the server's root.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use url::Url;

use super::ClientError;
use crate::protocol::path::one_line;

/// Characters escaped in the path of a displayed URL.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'?').add(b'#').add(b';');

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `ftp://`: TLS only if asked for otherwise.
    Ftp,
    /// `ftpes://`: TLS after AUTH (RFC 4217), at the port of FTP.
    Ftpes,
    /// `ftps://`: TLS from the first byte, at a port of its own.
    Ftps,
}

impl Scheme {
    const ALL: [Self; 3] = [Self::Ftp, Self::Ftpes, Self::Ftps];

    /// The name in URLs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ftp => "ftp",
            Self::Ftpes => "ftpes",
            Self::Ftps => "ftps",
        }
    }

    /// The port unless another one is given.
    pub fn port(self) -> u16 {
        match self {
            Self::Ftp | Self::Ftpes => 21,
            Self::Ftps => 990,
        }
    }

    /// The scheme of a URL, and what follows it, from the colon on.
    fn of(text: &str) -> Option<(Self, &str)> {
        let (name, rest) = text.split_at_checked(text.find(':')?)?;
        let known = |scheme: &Self| scheme.name().eq_ignore_ascii_case(name);
        let scheme = Self::ALL.into_iter().find(known)?;
        rest.starts_with("://").then_some((scheme, rest))
    }
}

/// A location on a server.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    /// How the server is reached.
    pub scheme: Scheme,
    /// Host name or address; an IPv6 address without brackets.
    pub host: String,
    /// Port of the control connection; by default that of the scheme.
    pub port: u16,
    /// The user name, if given.
    pub user: Option<String>,
    /// The password, if given.
    pub password: Option<String>,
    /// The path as sent in commands; empty for the login directory.
    pub path: Vec<u8>,
}

impl Place {
    /// Host and port, as shown in messages.
    pub fn server(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Another path for the same server and user.
    pub fn with_path(&self, path: Vec<u8>) -> Self {
        Self {
            path,
            ..self.clone()
        }
    }

    /// Whether the path means a directory: it is empty or ends with a slash.
    pub fn is_directory(&self) -> bool {
        self.path.is_empty() || self.path.ends_with(b"/")
    }

    /// The last component of the path; `None` for an empty path and for `/`.
    pub fn name(&self) -> Option<&[u8]> {
        let trimmed = trim(&self.path);
        let name = trimmed.rsplit(|byte| *byte == b'/').next()?;
        (!name.is_empty()).then_some(name)
    }
}

/// Appends a name to a directory's path.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = directory.to_vec();
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Where the bytes of a file gather: beside its path under another name, or `in_place`.
pub(super) fn beside(path: &[u8], in_place: bool, other: fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    if in_place {
        return path.to_vec();
    }
    let (directory, name) = split(path);
    join(directory, &other(name))
}

/// A path or a name as text on a single line, for messages.
pub fn printable(path: &[u8]) -> String {
    one_line(path).into_owned()
}

/// The path without trailing slashes; `/` stays.
pub(super) fn trim(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/');
    match end {
        Some(end) => &path[..=end],
        None => &path[..path.len().min(1)],
    }
}

/// Splits a path into directory, with its slash, and name.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..=slash], &path[slash + 1..]),
        None => (b"", path),
    }
}

impl FromStr for Place {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, ClientError> {
        let wrong = |what: &str| ClientError::Usage(format!("{}: {what}", without_secret(text)));
        let Some((scheme, rest)) = Scheme::of(text) else {
            return Err(wrong("a URL is wanted: ftp://user@host/path"));
        };
        // All three have the same syntax, of which only one is known to the parser.
        let url = Url::parse(&format!("ftp{rest}")).map_err(|error| wrong(&error.to_string()))?;
        let host = url.host_str().ok_or_else(|| wrong("the host is missing"))?;
        let (path, kind) = url.path().split_once(";type=").unwrap_or((url.path(), "i"));
        if !matches!(kind, "i" | "I" | "d" | "D") {
            return Err(wrong("only ;type=i is served: files are moved as they are"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("? and # in a name are written %3F and %23"));
        }
        let decoded = |text: &str| {
            let bytes: Vec<u8> = percent_decode_str(text).collect();
            if bytes.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
                return Err(wrong("a line end cannot be part of a name"));
            }
            Ok(bytes)
        };
        let word = |text: &str| {
            String::from_utf8(decoded(text)?).map_err(|_| wrong("user or password is no UTF-8"))
        };
        Ok(Self {
            scheme,
            host: host.trim_matches(['[', ']']).to_owned(),
            port: match url.port() {
                Some(port) => port,
                None if names_port(rest) => 21,
                None => scheme.port(),
            },
            user: match url.username() {
                "" => None,
                user => Some(word(user)?),
            },
            password: url.password().map(word).transpose()?,
            path: decoded(path.strip_prefix('/').unwrap_or(path))?,
        })
    }
}

/// Whether the text is an FTP URL rather than the name of a file.
pub fn is_url(text: &str) -> bool {
    Scheme::of(text).is_some()
}

/// Whether a URL, from the colon behind its scheme on, names a port. The parser leaves FTP's own one out.
fn names_port(rest: &str) -> bool {
    let authority = rest
        .trim_start_matches([':', '/'])
        .split(['/', '?', '#'])
        .next();
    let port = authority.and_then(|authority| Some(authority.rsplit_once(':')?.1));
    port.is_some_and(|port| !port.contains('@') && port.parse::<u16>().is_ok())
}

/// A URL without the password, for messages.
fn without_secret(text: &str) -> String {
    match text.split_once("://") {
        Some((scheme, rest)) => match rest.rsplit_once('@') {
            Some((who, rest)) => {
                let user = who.split_once(':').map_or(who, |(user, _)| user);
                format!("{scheme}://{user}@{rest}")
            }
            None => text.to_owned(),
        },
        None => text.to_owned(),
    }
}

/// Shows the URL without the password.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = match &self.user {
            Some(user) => format!(
                "{}@",
                utf8_percent_encode(user, percent_encoding::NON_ALPHANUMERIC)
            ),
            None => String::new(),
        };
        let server = self.server();
        let usual = format!(":{}", self.scheme.port());
        let server = server.strip_suffix(&*usual).unwrap_or(&server);
        let path = one_line(&self.path);
        write!(
            f,
            "{}://{user}{server}/{}",
            self.scheme.name(),
            utf8_percent_encode(&path, ESCAPED)
        )
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Place {
        text.parse().unwrap()
    }

    fn wrong(text: &str) -> String {
        text.parse::<Place>().unwrap_err().to_string()
    }

    #[test]
    fn a_url_names_user_host_port_and_path() {
        let all = place("ftp://anna:s%40crt@[2001:db8::1]:2121/a%20b/c");
        assert_eq!((all.host.as_str(), all.port), ("2001:db8::1", 2121));
        assert_eq!(all.user.as_deref(), Some("anna"));
        assert_eq!(all.password.as_deref(), Some("s@crt"));
        assert_eq!(all.path, b"a b/c");
        assert_eq!(all.to_string(), "ftp://anna@[2001:db8::1]:2121/a%20b/c");
        let short = place("FTP://ftp.example.org");
        assert_eq!((short.port, short.user, short.path), (21, None, vec![]));
    }

    #[test]
    fn the_scheme_gives_the_port_unless_the_url_does() {
        for (text, scheme, port) in [
            ("ftpes://h/x", Scheme::Ftpes, 21),
            ("FTPS://h/x", Scheme::Ftps, 990),
            ("ftps://h:21/x", Scheme::Ftps, 21),
            ("ftps://a:21@h/x", Scheme::Ftps, 990),
            ("ftps://[2001:db8::21]/x", Scheme::Ftps, 990),
            ("ftps://[2001:db8::21]:21/x", Scheme::Ftps, 21),
            ("ftps://h:2121/x", Scheme::Ftps, 2121),
        ] {
            let place = place(text);
            assert_eq!((place.scheme, place.port), (scheme, port), "{text}");
        }
        assert_eq!(place("ftps://h:990/x").to_string(), "ftps://h/x");
        assert_eq!(place("ftps://h:21/x").to_string(), "ftps://h:21/x");
        assert!(!is_url("ftpx://h/") && !is_url("ftps:/h/") && !is_url("ftps"));
    }

    #[test]
    fn paths_begin_where_the_server_puts_the_user_or_at_its_root() {
        assert_eq!(place("ftp://h/x").path, b"x");
        assert_eq!(place("ftp://h//x").path, b"/x");
        assert_eq!(place("ftp://h/%2Fx").path, b"/x");
        assert!(place("ftp://h/x/").is_directory());
        assert_eq!(place("ftp://h/x/y/").name(), Some(&b"y"[..]));
        assert_eq!(place("ftp://h/").name(), None);
    }

    #[test]
    fn commands_are_not_smuggled_in_by_line_ends() {
        assert_eq!(
            wrong("ftp://u:p@h/x%0d%0aDELE%20y"),
            "ftp://u@h/x%0d%0aDELE%20y: a line end cannot be part of a name"
        );
        assert!(wrong("ftp://u%0aX@h/").contains("line end"));
    }

    #[test]
    fn what_is_no_ftp_url_is_refused_without_showing_the_password() {
        assert!(wrong("http://u:secret@h/").starts_with("http://u@h/: a URL is wanted"));
        assert!(wrong("ftp://h/x;type=a").contains("only ;type=i"));
        assert!(wrong("ftp://h/x?y").contains("%3F"));
        assert!(!wrong("ftp://u:secret@h:99999/").contains("secret"));
    }

    #[test]
    fn paths_are_put_together_and_taken_apart() {
        assert_eq!(join(b"", b"x"), b"x");
        assert_eq!(join(b"/", b"x"), b"/x");
        assert_eq!(join(b"a", b"x"), b"a/x");
        assert_eq!(split(b"/a/x"), (&b"/a/"[..], &b"x"[..]));
        assert_eq!(split(b"x"), (&b""[..], &b"x"[..]));
        assert_eq!(trim(b"a//"), b"a");
        assert_eq!(trim(b"//"), b"/");
    }
}
