//! The textual form of listening addresses.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A listening address: `127.0.0.1:8649`, or `unix:/run/fairwind/advisor.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Address and port; port 0 picks a free one.
    Address(SocketAddr),
    /// The path of a Unix socket.
    Socket(PathBuf),
}

impl Listen {
    /// The address, if it can be reached from another machine.
    pub fn beyond_this_machine(&self) -> Option<SocketAddr> {
        match self {
            Listen::Address(address) => {
                (!address.ip().to_canonical().is_loopback()).then_some(*address)
            }
            Listen::Socket(_) => None,
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let right = || format!("{text:?}: ADDRESS:PORT or unix:PATH is needed");
        match text.strip_prefix("unix:") {
            Some("") => Err(right()),
            Some(path) => Ok(Listen::Socket(path.into())),
            None => text.parse().map(Listen::Address).map_err(|_| right()),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Address(address) => address.fmt(f),
            Listen::Socket(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Listen, D::Error> {
        from.deserialize_str(Place)
    }
}

struct Place;

impl Visitor<'_> for Place {
    type Value = Listen;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("\"ADDRESS:PORT\" or \"unix:PATH\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Listen, E> {
        text.parse().map_err(E::custom)
    }
}

/// Deserializes a single address, such as `"127.0.0.1:8649"`, or an array of them.
pub(super) fn one_or_several<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Listen>, D::Error> {
    from.deserialize_any(Places)
}

struct Places;

impl<'de> Visitor<'de> for Places {
    type Value = Vec<Listen>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        Place.expecting(f)?;
        f.write_str(", or an array of them")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<Listen>, E> {
        Ok(vec![Place.visit_str(text)?])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Vec<Listen>, A::Error> {
        let mut places = Vec::new();
        while let Some(place) = array.next_element()? {
            places.push(place);
        }
        Ok(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_is_written() {
        for text in ["127.0.0.1:8649", "[::1]:8649", "unix:/run/fairwind/a.sock"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        for text in ["unix:", "localhost:8649", "127.0.0.1", "/run/a.sock"] {
            let error = text.parse::<Listen>().unwrap_err();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn only_the_loopback_and_sockets_stay_on_this_machine() {
        for (text, beyond) in [
            ("127.0.0.1:1", false),
            ("127.8.0.1:1", false),
            ("[::1]:1", false),
            ("[::ffff:127.0.0.1]:1", false),
            ("unix:a", false),
            ("0.0.0.0:1", true),
            ("[::]:1", true),
            ("192.168.0.1:1", true),
        ] {
            let place: Listen = text.parse().unwrap();
            assert_eq!(place.beyond_this_machine().is_some(), beyond, "{text}");
        }
    }
}
