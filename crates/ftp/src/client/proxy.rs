//! Connections through a proxy: SOCKS version 5 (RFC 1928, RFC 1929) or HTTP's CONNECT (RFC 9110 section 9.3.6).
//!
//! The proxy is a stranger on the way: what it says is bounded in length and time, and checked.

use std::env;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::str::FromStr;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use rustix::event::PollFlags;
use url::Url;

use super::progress::wait;
use super::{ClientError, Progress};
use crate::protocol::path::one_line;

/// Longest reply of a proxy to CONNECT, bytes.
const LONGEST: usize = 16 << 10;

/// A proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    kind: Kind,
    host: String,
    port: u16,
    user: Option<(String, String)>,
    given: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// SOCKS version 5.
    Socks {
        /// The proxy resolves names. Otherwise they are resolved here, so that all connections lead to one address.
        resolves: bool,
    },
    Http,
}

/// The host that a proxy is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Address(IpAddr),
    Name(String),
}

impl Proxy {
    /// The proxy that the environment names for a host, as for curl(1): `ftp_proxy`, else `all_proxy`, unless
    /// `no_proxy` excepts the host; each also in upper case.
    ///
    /// # Errors
    /// If a variable holds no proxy.
    pub fn from_environment(host: &str) -> Result<Option<Self>, ClientError> {
        let variable = |name: &str| {
            let names = [name.to_owned(), name.to_uppercase()];
            names.into_iter().find_map(|name| {
                let value = env::var(&name).ok().filter(|value| !value.is_empty());
                value.map(|value| (name, value))
            })
        };
        let Some((name, value)) = variable("ftp_proxy").or_else(|| variable("all_proxy")) else {
            return Ok(None);
        };
        if variable("no_proxy").is_some_and(|(_, list)| is_excepted(&list, host)) {
            return Ok(None);
        }
        let proxy = value.parse::<Self>();
        let wrong = |error| ClientError::Usage(format!("the variable {name}: {error}"));
        proxy.map(Some).map_err(wrong)
    }

    /// The URL as it was given, with user and password.
    pub fn given(&self) -> &str {
        &self.given
    }

    /// Addresses of the proxy.
    pub(super) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        Ok((self.host.as_str(), self.port).to_socket_addrs()?.collect())
    }

    /// How the proxy is told of a host.
    pub(super) fn target(&self, host: &str, port: u16) -> io::Result<Target> {
        if let Ok(address) = host.parse() {
            return Ok(Target::Address(address));
        }
        if self.kind != (Kind::Socks { resolves: false }) {
            return Ok(Target::Name(host.to_owned()));
        }
        let first = (host, port).to_socket_addrs()?.next();
        let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        first
            .map(|address| Target::Address(address.ip()))
            .ok_or_else(none)
    }

    /// Has the proxy at the other end of a connection connect to a host.
    ///
    /// # Errors
    /// If it refuses, breaks its protocol, or does not answer by the deadline.
    pub(super) fn ask(
        &self,
        stream: &TcpStream,
        target: &Target,
        port: u16,
        deadline: Instant,
        progress: &dyn Progress,
    ) -> io::Result<()> {
        stream.set_write_timeout(Some(
            deadline
                .saturating_duration_since(Instant::now())
                .max(std::time::Duration::from_millis(1)),
        ))?;
        let mut talk = Talk {
            stream,
            deadline,
            progress,
        };
        let asked = match self.kind {
            Kind::Socks { .. } => self.ask_socks(&mut talk, target, port),
            Kind::Http => self.ask_http(&mut talk, target, port),
        };
        asked.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.error("it closed the connection"),
            io::ErrorKind::TimedOut => self.error("it did not answer in time"),
            io::ErrorKind::Other => error,
            _ => self.error(&error.to_string()),
        })
    }

    fn error(&self, what: &str) -> io::Error {
        io::Error::other(format!("the proxy {self}: {what}"))
    }

    fn ask_socks(&self, talk: &mut Talk<'_>, target: &Target, port: u16) -> io::Result<()> {
        const NONE: u8 = 0;
        const PASSWORD: u8 = 2;
        let methods: &[u8] = match self.user {
            Some(_) => &[NONE, PASSWORD],
            None => &[NONE],
        };
        let mut hello = vec![5, methods.len() as u8];
        hello.extend_from_slice(methods);
        talk.send(&hello)?;
        let [version, method] = talk.read()?;
        if version != 5 {
            return Err(self.error("it does not speak SOCKS version 5"));
        }
        match (method, &self.user) {
            (NONE, _) => {}
            (PASSWORD, Some((user, password))) => {
                let mut login = vec![1];
                for word in [user, password] {
                    let length = u8::try_from(word.len());
                    let length =
                        length.map_err(|_| self.error("its user or password is too long"))?;
                    login.push(length);
                    login.extend_from_slice(word.as_bytes());
                }
                talk.send(&login)?;
                let [_, status] = talk.read()?;
                if status != 0 {
                    return Err(self.error("it refused the user or the password"));
                }
            }
            (0xff, Some(_)) => return Err(self.error("it accepts no password")),
            (0xff, None) => return Err(self.error("it wants a user and a password")),
            _ => return Err(self.error("it chose a method that was not offered")),
        }
        let mut request = vec![5, 1, 0];
        match target {
            Target::Address(IpAddr::V4(address)) => {
                request.push(1);
                request.extend_from_slice(&address.octets());
            }
            Target::Address(IpAddr::V6(address)) => {
                request.push(4);
                request.extend_from_slice(&address.octets());
            }
            Target::Name(name) => {
                let length = u8::try_from(name.len());
                let length = length.map_err(|_| self.error("the name of the host is too long"))?;
                request.extend_from_slice(&[3, length]);
                request.extend_from_slice(name.as_bytes());
            }
        }
        request.extend_from_slice(&port.to_be_bytes());
        talk.send(&request)?;
        let [version, status, _, kind] = talk.read()?;
        if version != 5 {
            return Err(self.error("its answer is not of SOCKS version 5"));
        }
        if status != 0 {
            let why = match status {
                1 => "it failed",
                2 => "its rules do not allow the connection",
                3 => "the network cannot be reached",
                4 => "the host cannot be reached",
                5 => "the host refused the connection",
                6 => "the connection took too long",
                7 => "it does not know the command",
                8 => "it does not know the kind of address",
                _ => "it refused for a reason that it does not tell",
            };
            return Err(self.error(why));
        }
        // The address that it connects from, which nobody needs.
        let length = match kind {
            1 => 4,
            4 => 16,
            3 => usize::from(talk.read::<1>()?[0]),
            _ => return Err(self.error("its answer has an address of no known kind")),
        };
        for _ in 0..length + 2 {
            talk.read::<1>()?;
        }
        Ok(())
    }

    fn ask_http(&self, talk: &mut Talk<'_>, target: &Target, port: u16) -> io::Result<()> {
        let host = match target {
            Target::Address(address) => SocketAddr::new(*address, port).to_string(),
            Target::Name(name) => format!("{name}:{port}"),
        };
        let login = self
            .user
            .as_ref()
            .map_or(String::new(), |(user, password)| {
                let login = STANDARD.encode(format!("{user}:{password}"));
                format!("Proxy-Authorization: Basic {login}\r\n")
            });
        talk.send(format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n{login}\r\n").as_bytes())?;
        let mut answer = Vec::new();
        // Byte by byte: what follows is the server's.
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() >= LONGEST {
                return Err(self.error("an answer without end"));
            }
            answer.extend_from_slice(&talk.read::<1>()?);
            if answer.len() == 5 && answer != b"HTTP/" {
                return Err(self.error("it does not speak HTTP"));
            }
        }
        let line = answer
            .split(|byte| *byte == b'\r')
            .next()
            .unwrap_or_default();
        let line = one_line(line);
        let code = line.split(' ').nth(1).unwrap_or_default();
        match code.as_bytes() {
            [b'2', _, _] => Ok(()),
            b"407" => Err(self.error("it wants a user and a password, or others")),
            _ => Err(self.error(&format!("it refused with {line}"))),
        }
    }
}

/// A conversation with a proxy.
struct Talk<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
    progress: &'a dyn Progress,
}

impl Talk<'_> {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        (&mut &*self.stream).write_all(bytes)
    }

    /// The next bytes.
    fn read<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        let mut have = 0;
        while have < N {
            if self.progress.stopped() {
                return Err(io::Error::other("interrupted"));
            }
            if Instant::now() >= self.deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let arrival = (self.stream.as_fd(), PollFlags::IN);
            if !wait(self.progress, &[arrival], Some(self.deadline))?[0] {
                continue;
            }
            match (&mut &*self.stream).read(&mut bytes[have..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => have += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }
}

/// Whether a list such as `.example.org,10.0.0.0/8,host` has this host; `*` has all.
fn is_excepted(list: &str, host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let address: Option<IpAddr> = host.parse().ok();
    list.split([',', ' ']).map(str::trim).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        let domain = entry.trim_start_matches('.').trim_end_matches('.');
        match (address, entry.parse::<IpNet>()) {
            _ if entry == "*" => true,
            (Some(address), Ok(network)) => network.contains(&address),
            _ if domain.is_empty() => false,
            _ => {
                host == domain
                    || host
                        .strip_suffix(domain)
                        .is_some_and(|before| before.ends_with('.'))
            }
        }
    })
}

impl FromStr for Proxy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted =
            "a proxy is wanted: socks5://host:1080, socks5h://host:1080 or http://host:3128";
        let url = Url::parse(text).map_err(|_| wanted.to_owned())?;
        let (kind, port) = match url.scheme() {
            "socks5" => (Kind::Socks { resolves: false }, 1080),
            "socks5h" => (Kind::Socks { resolves: true }, 1080),
            "http" => (Kind::Http, 80),
            _ => return Err(wanted.to_owned()),
        };
        let word = |text: &str| {
            let word = percent_decode_str(text).decode_utf8();
            word.map(|word| word.into_owned())
                .map_err(|_| "the proxy's user or password is no UTF-8".to_owned())
        };
        let host = url
            .host_str()
            .filter(|host| !host.is_empty())
            .ok_or(wanted)?;
        if !matches!(url.path(), "" | "/") || url.query().is_some() {
            return Err(wanted.to_owned());
        }
        Ok(Self {
            kind,
            host: host.trim_matches(['[', ']']).to_owned(),
            port: url.port().unwrap_or(port),
            given: text.to_owned(),
            user: match url.username() {
                "" => None,
                user => Some((word(user)?, word(url.password().unwrap_or_default())?)),
            },
        })
    }
}

/// Shows the proxy without user and password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            Kind::Socks { resolves: false } => "socks5",
            Kind::Socks { resolves: true } => "socks5h",
            Kind::Http => "http",
        };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_proxy() {
        let proxy: Proxy = "socks5h://anna:s%40crt@[2001:db8::1]".parse().unwrap();
        assert_eq!(proxy.user, Some(("anna".into(), "s@crt".into())));
        assert_eq!(proxy.to_string(), "socks5h://[2001:db8::1]:1080");
        let http: Proxy = "http://proxy.example.org:3128/".parse().unwrap();
        assert_eq!((http.kind, http.port), (Kind::Http, 3128));
        for wrong in ["proxy:1080", "https://h", "http://h/x", "socks5://", ""] {
            assert!(wrong.parse::<Proxy>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn hosts_are_excepted_by_name_domain_and_network() {
        assert!(is_excepted("localhost,127.0.0.0/8", "127.0.0.1"));
        assert!(is_excepted("a, example.org", "ftp.example.org"));
        assert!(is_excepted(".example.org", "EXAMPLE.org."));
        assert!(is_excepted("*", "any") && is_excepted("::1", "::1"));
        assert!(!is_excepted("example.org", "badexample.org"));
        assert!(!is_excepted("", "h") && !is_excepted("10.0.0.0/8", "11.0.0.1"));
    }
}
