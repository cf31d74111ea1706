//! Locations: `ftp://user:password@host:port/path` (RFC 1738 section 3.2, RFC 3986).
//!
//! The path is relative to the login directory; one that begins with a second slash, `ftp://host//path` or
//! `ftp://host/%2Fpath`, is relative to the server's root. It is taken as it is written: general parsers of URLs drop
//! blanks at its end and tabs, turn `\` into `/` and resolve `..`, so that another file would be meant.

use std::fmt;
use std::ops::Range;
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
        let wrong = |what: &str| {
            let text = without_passwords(text);
            ClientError::Usage(format!("{}: {what}", one_line(text.as_bytes())))
        };
        let Some((scheme, rest)) = Scheme::of(text) else {
            return Err(wrong("a URL is wanted: ftp://user@host/path"));
        };
        let (authority, path) = authority_and_path(&rest["://".len()..]);
        if authority.contains(|one: char| one == '\\' || one.is_control()) {
            return Err(wrong(
                "\\ and control characters have no place before the path",
            ));
        }
        // All three have the same syntax, of which only one is known to the parser.
        let url = Url::parse(&format!("ftp://{authority}/"));
        let url = url.map_err(|error| wrong(&error.to_string()))?;
        let host = url.host_str().ok_or_else(|| wrong("the host is missing"))?;
        let path = without_type(path).map_err(wrong)?;
        if path.contains(['?', '#']) {
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
        let path = decoded(path.strip_prefix('/').unwrap_or(path))?;
        if path.split(|byte| *byte == b'/').any(leads_elsewhere) {
            return Err(wrong("a URL has no . or .. in its path"));
        }
        Ok(Self {
            scheme,
            host: host.trim_matches(['[', ']']).to_owned(),
            port: match url.port() {
                Some(port) => port,
                None if names_port(authority) => 21,
                None => scheme.port(),
            },
            user: match url.username() {
                "" => None,
                user => Some(word(user)?),
            },
            password: url.password().map(word).transpose()?,
            path,
        })
    }
}

/// Whether the text is an FTP URL rather than the name of a file.
pub fn is_url(text: &str) -> bool {
    Scheme::of(text).is_some()
}

/// What stands between `//` and the path of a URL, and the path.
fn authority_and_path(rest: &str) -> (&str, &str) {
    rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()))
}

/// Whether the authority of a URL names a port. The parser leaves FTP's own one out.
fn names_port(authority: &str) -> bool {
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    port.is_some_and(|port| !port.contains('@') && port.parse::<u16>().is_ok())
}

/// The path of a URL without `;type=i`.
///
/// # Errors
/// If it has another type.
pub(super) fn without_type(path: &str) -> Result<&str, &'static str> {
    let (path, kind) = path.split_once(";type=").unwrap_or((path, "i"));
    match kind {
        "i" | "I" | "d" | "D" => Ok(path),
        _ => {
            Err("only ;type=i is served: files are moved as they are; in a name, ; is written %3B")
        }
    }
}

/// Whether a component of a path is another directory than the one of its name.
pub(super) fn leads_elsewhere(component: &[u8]) -> bool {
    matches!(component, b"." | b"..")
}

/// A text without the passwords of the URLs in it, of whatever scheme, for messages and logs.
pub fn without_passwords(text: &str) -> String {
    let mut without = String::new();
    let mut done = 0;
    for password in passwords(text) {
        if password.start >= done {
            without.push_str(&text[done..password.start]);
            done = password.end;
        }
    }
    without.push_str(&text[done..]);
    without
}

/// Where the passwords of URLs are in a text, each with the colon before it.
fn passwords(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices("://").filter_map(move |(at, mark)| {
        let begin = at + mark.len();
        let rest = &text[begin..];
        let (authority, _) = authority_and_path(rest);
        let end = authority.rfind('@').or_else(|| {
            // With a / ? or # in its password it is no URL; what was meant is no less secret.
            let (_, port) = authority.split_once(':')?;
            let is_host = authority.starts_with('[') || port.parse::<u16>().is_ok();
            rest.rfind('@').filter(|_| !is_host)
        })?;
        let colon = rest[..end].find(':')?;
        Some(begin + colon..begin + end)
    })
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
    fn a_name_is_what_is_written() {
        for (text, path) in [
            ("ftp://h/x ", &b"x "[..]),
            ("ftp://h/ x", b" x"),
            ("ftp://h/a\tb", b"a\tb"),
            ("ftp://h/a\\b\\", b"a\\b\\"),
            ("ftp://h/a//b|^{}\"<>`", b"a//b|^{}\"<>`"),
            ("ftp://h/ä%C3%A4%zz%", "ää%zz%".as_bytes()),
            ("ftp://h/...;type=i", b"..."),
            ("ftp://h/a:b@c", b"a:b@c"),
        ] {
            assert_eq!(place(text).path, path, "{text:?}");
        }
    }

    #[test]
    fn what_would_be_another_place_is_refused() {
        for path in [
            "../x",
            "x/..",
            "./x",
            ".",
            "a/%2e%2E/x",
            "a%2F..%2Fx",
            "/..//x",
        ] {
            let error = wrong(&format!("ftp://h/{path}"));
            assert!(
                error.ends_with("a URL has no . or .. in its path"),
                "{error}"
            );
        }
        for text in ["ftp://h\\x", "ftp://a\tb@h/x", "ftp://h\n/x", "ftp:///h/x"] {
            assert!(text.parse::<Place>().is_err(), "{text:?}");
        }
        assert!(wrong("ftp://h/x\ny").contains("line end"));
    }

    #[test]
    fn passwords_are_found_in_any_text() {
        for (text, without) in [
            ("ftp://a:pw@h/x y@z", "ftp://a@h/x y@z"),
            ("--proxy=socks5://b:p@w@p:1080", "--proxy=socks5://b@p:1080"),
            ("ftp://a:p/w?#@h/x", "ftp://a@h/x"),
            (
                "curl ftp://h/ -x http://b:pw@p",
                "curl ftp://h/ -x http://b@p",
            ),
            ("ftp://:pw@[::1]:21/", "ftp://@[::1]:21/"),
        ] {
            assert_eq!(without_passwords(text), without);
        }
        for text in [
            "ftp://a@h:21/b:c@d",
            "ftp://h:2121/a@b",
            "ftp://[2001:db8::1]/a@b",
            "ftp://h/a:b@c",
            "a:b@c",
        ] {
            assert_eq!(without_passwords(text), text);
        }
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
