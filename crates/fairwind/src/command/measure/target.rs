//! What takes the data: a sink that says nothing, or an FTP server, which stores it in a file for a while.

use std::net::{SocketAddr, ToSocketAddrs};
use std::process;
use std::sync::Arc;
use std::time::Duration;

use fairwind_ftp::client::{Options, Place, Progress, Scheme, Session, is_url, join};
use jiff::Timestamp;

use super::sender::{self, Limits, Measurement};
use crate::command::transfer::credentials;
use crate::failure::Failure;

/// The port of a sink, unless another is named.
pub(super) const PORT: u16 = 4009;
/// That of the discard protocol (RFC 863).
const DISCARD_PORT: u16 = 9;
/// How long an FTP server may take to answer; at the end, what is still on its way comes before the answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the data goes.
pub(super) enum Target {
    /// A sink at one of these addresses.
    Plain {
        host: String,
        addresses: Vec<SocketAddr>,
    },
    /// A directory of an FTP server.
    Ftp(Place),
}

impl Target {
    /// `HOST[:PORT]`, `discard://HOST[:PORT]` or `ftp://USER@HOST[:PORT]/DIRECTORY`.
    pub(super) fn parse(text: &str) -> Result<Target, Failure> {
        if is_url(text) {
            let place: Place = text.parse()?;
            if place.scheme != Scheme::Ftp {
                return Err(Failure::input(format!(
                    "{place}: a measurement is of TCP, without TLS: ftp://"
                )));
            }
            return Ok(Target::Ftp(place));
        }
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
            None => (String::new(), text),
        };
        let wrong = |what: &str| Failure::input(format!("{text}: {what}"));
        match scheme.as_str() {
            "" => plain(text, rest, PORT),
            "discard" => match rest.strip_suffix('/').unwrap_or(rest) {
                rest if rest.contains('/') => Err(wrong("a discard service has no path")),
                rest => plain(text, rest, DISCARD_PORT),
            },
            _ => Err(wrong("the schemes served are ftp:// and discard://")),
        }
    }

    /// The host's name or address.
    pub(super) fn host(&self) -> &str {
        match self {
            Target::Plain { host, .. } => host,
            Target::Ftp(place) => &place.host,
        }
    }

    /// Measures the path to it. `show` is called after each train.
    pub(super) fn measure(
        &self,
        limits: &Limits,
        show: impl FnMut(&Measurement) -> Result<(), Failure>,
    ) -> Result<Measurement, Failure> {
        match self {
            Target::Plain { addresses, .. } => {
                let handshakes = |address| Ok(sender::handshakes(address));
                let (result, connection) = sender::measure(addresses, limits, handshakes, show)?;
                connection.abort();
                result
            }
            Target::Ftp(place) => into_a_file(place, limits, show),
        }
    }
}

/// Measures with data that an FTP server stores in a file, which is deleted at the end.
fn into_a_file(
    place: &Place,
    limits: &Limits,
    show: impl FnMut(&Measurement) -> Result<(), Failure>,
) -> Result<Measurement, Failure> {
    let options = Options {
        patience: PATIENCE,
        progress: Arc::new(Notes),
        ..Options::default()
    };
    let mut session = Session::connect(place, &credentials(place)?, &options)?;
    let name = format!(
        "fairwind-measure-{}-{:x}.tmp",
        process::id(),
        Timestamp::now().as_millisecond()
    );
    let path = join(&place.path, name.as_bytes());
    let address = session.passive_address()?;
    let mut begun = false;
    let begin = |_| {
        session.begin_upload(&path)?;
        begun = true;
        Ok(session.min_rtt())
    };
    let measured = sender::measure(&[address], limits, begin, show);
    if !begun {
        session.quit();
        return measured.and_then(|(result, _)| result);
    }
    if let Ok((_, connection)) = &measured {
        // It fails if the server has closed the connection, which its reply explains.
        let _ = connection.end_of_data();
    }
    let stored = session.end_upload();
    if let Err(error) = session.delete(&path) {
        eprintln!("{name} is left in that directory: {error}");
    }
    session.quit();
    let (result, _) = measured?;
    match (result, stored) {
        // Why the server closed the connection says more than that it did.
        (Err(_), Err(error)) => Err(error.into()),
        (result, Err(error)) => {
            eprintln!("{error}");
            result
        }
        (result, Ok(())) => result,
    }
}

/// Notes of the client go to standard error. Nothing stops it before the file is deleted.
struct Notes;

impl Progress for Notes {
    fn note(&self, text: &str) {
        eprintln!("{text}");
    }
}

/// A sink at `rest`; `text` is what the user wrote.
fn plain(text: &str, rest: &str, port: u16) -> Result<Target, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::input(format!("{text}: {error}"));
    let (host, named) = split(rest);
    if host.is_empty() {
        return Err(wrong(&"the host is missing"));
    }
    let port = match named {
        Some(port) => port.parse().ok().filter(|port| *port > 0),
        None => Some(port),
    };
    let port = port.ok_or_else(|| wrong(&"a port is a number from 1 to 65535"))?;
    let addresses = (host, port)
        .to_socket_addrs()
        .map_err(|error| wrong(&error))?;
    let addresses: Vec<SocketAddr> = addresses.collect();
    if addresses.is_empty() {
        return Err(wrong(&"the name has no address"));
    }
    Ok(Target::Plain {
        host: host.to_owned(),
        addresses,
    })
}

/// Host and port: `host`, `host:port`, `[2001:db8::1]:port`, or an IPv6 address without a port.
fn split(text: &str) -> (&str, Option<&str>) {
    if let Some(rest) = text.strip_prefix('[')
        && let Some((host, rest)) = rest.split_once(']')
    {
        let port = (!rest.is_empty()).then(|| rest.strip_prefix(':').unwrap_or(rest));
        return (host, port);
    }
    match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host, Some(port)),
        _ => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_follows_a_colon_and_an_ipv6_address_in_brackets() {
        assert_eq!(split("a.example.org"), ("a.example.org", None));
        assert_eq!(split("a.example.org:9"), ("a.example.org", Some("9")));
        assert_eq!(split("192.0.2.7:4010"), ("192.0.2.7", Some("4010")));
        assert_eq!(split("2001:db8::1"), ("2001:db8::1", None));
        assert_eq!(split("[2001:db8::1]:9"), ("2001:db8::1", Some("9")));
        assert_eq!(split("[2001:db8::1]"), ("2001:db8::1", None));
        // No port, which is refused as one.
        assert_eq!(split("[2001:db8::1]x"), ("2001:db8::1", Some("x")));
    }

    #[test]
    fn a_scheme_names_the_service() {
        let plain = |text: &str| match Target::parse(text).unwrap() {
            Target::Plain { host, addresses } => (host, addresses),
            Target::Ftp(place) => panic!("{place}"),
        };
        assert_eq!(
            plain("discard://127.0.0.1").1,
            ["127.0.0.1:9".parse().unwrap()]
        );
        assert_eq!(
            plain("discard://[::1]:4010/").1,
            ["[::1]:4010".parse().unwrap()]
        );
        assert_eq!(plain("[::1]").1, ["[::1]:4009".parse().unwrap()]);
        let Target::Ftp(place) = Target::parse("FTP://alice@127.0.0.1:2121/in/").unwrap() else {
            panic!("no FTP server");
        };
        assert_eq!((place.port, place.path.as_slice()), (2121, &b"in/"[..]));
    }

    #[test]
    fn what_is_no_sink_is_refused() {
        for (text, says) in [
            ("http://127.0.0.1/", "ftp:// and discard://"),
            ("discard://127.0.0.1/x", "no path"),
            ("discard://", "host"),
        ] {
            let Err(Failure::Input(what)) = Target::parse(text) else {
                panic!("{text} is accepted");
            };
            assert!(what.contains(says), "{what}");
        }
    }

    #[test]
    fn a_port_out_of_range_is_refused() {
        for text in ["127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:ftp"] {
            let Err(Failure::Input(what)) = Target::parse(text) else {
                panic!("{text} is accepted");
            };
            assert!(what.contains("1 to 65535"), "{what}");
        }
    }
}
