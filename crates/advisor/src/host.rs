//! Hosts at the far end of paths, and the mapping from hosts to paths.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use fairwind_origin::Prefix;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A set of hosts that a path leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum HostPattern {
    /// An address, or a whole network.
    Network(Prefix),
    /// A host name, in lower case.
    Name(String),
    /// All names below a domain, in lower case.
    Under(String),
}

/// A text that is no address, network or name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{0:?} is neither an address, a network (192.0.2.0/24), a name, nor a domain (*.example.org)"
)]
pub struct NoHost(String);

impl FromStr for HostPattern {
    type Err = NoHost;

    fn from_str(text: &str) -> Result<Self, NoHost> {
        if let Some(address) = address(text) {
            return Ok(Self::Network(Prefix::host(address)));
        }
        if let Ok(network) = text.parse::<IpNet>()
            && let Some(prefix) = Prefix::new(network.addr(), network.prefix_len())
        {
            return Ok(Self::Network(prefix));
        }
        let under = text.strip_prefix("*.");
        let name = name(under.unwrap_or(text)).ok_or_else(|| NoHost(text.to_owned()))?;
        Ok(match under {
            Some(_) => Self::Under(name),
            None => Self::Name(name),
        })
    }
}

impl TryFrom<String> for HostPattern {
    type Error = NoHost;

    fn try_from(text: String) -> Result<Self, NoHost> {
        text.parse()
    }
}

impl From<HostPattern> for String {
    fn from(pattern: HostPattern) -> String {
        pattern.to_string()
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(prefix) => prefix.in_words().fmt(f),
            Self::Name(name) => name.fmt(f),
            Self::Under(domain) => write!(f, "*.{domain}"),
        }
    }
}

impl HostPattern {
    /// The host, if the pattern matches only one.
    pub fn single(&self) -> Option<String> {
        match self {
            Self::Network(prefix) if !prefix.is_host() => None,
            Self::Under(_) => None,
            _ => Some(self.to_string()),
        }
    }
}

/// Parses an address; an IPv4-mapped address becomes IPv4, and brackets and zone are dropped.
pub fn address(text: &str) -> Option<IpAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let bare = bare.unwrap_or(text);
    let (bare, zone) = bare.split_once('%').unwrap_or((bare, ""));
    if !zone.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    bare.parse::<IpAddr>()
        .ok()
        .map(|address| address.to_canonical())
}

/// A host name in lower case without the trailing dot; `None` if it is not valid.
pub fn name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=63).contains(&label.len()) && label.bytes().all(allowed)
    };
    // Only digits and dots: a mistyped address.
    let numbers = name
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let sound = name.len() <= 253 && !numbers && name.split('.').all(label);
    sound.then(|| name.to_ascii_lowercase())
}

/// Maps hosts to paths by exact name, longest domain or longest prefix.
#[derive(Clone, Debug)]
pub struct Routes<T> {
    networks: BTreeMap<Prefix, T>,
    /// The prefix lengths in use, for IPv4 and IPv6, so that the longest is tried first.
    lengths: [BTreeSet<u8>; 2],
    names: HashMap<String, T>,
    domains: HashMap<String, T>,
}

impl<T: Copy> Default for Routes<T> {
    fn default() -> Self {
        Routes {
            networks: BTreeMap::new(),
            lengths: Default::default(),
            names: HashMap::new(),
            domains: HashMap::new(),
        }
    }
}

impl<T: Copy + PartialEq> Routes<T> {
    /// Maps this pattern to `path`, unless another path has the same pattern: then returns that one.
    pub fn insert(&mut self, pattern: &HostPattern, path: T) -> Option<T> {
        let (map, key) = match pattern {
            &HostPattern::Network(prefix) => {
                if let Some(&taken) = self.networks.get(&prefix) {
                    return Some(taken);
                }
                self.lengths[family(prefix)].insert(prefix.bits());
                self.networks.insert(prefix, path);
                return None;
            }
            HostPattern::Name(name) => (&mut self.names, name),
            HostPattern::Under(domain) => (&mut self.domains, domain),
        };
        if let Some(&taken) = map.get(key) {
            return Some(taken);
        }
        map.insert(key.clone(), path);
        None
    }

    /// The path with exactly this pattern.
    pub fn exactly(&self, pattern: &HostPattern) -> Option<T> {
        let path = match pattern {
            HostPattern::Network(prefix) => self.networks.get(prefix),
            HostPattern::Name(name) => self.names.get(name),
            HostPattern::Under(domain) => self.domains.get(domain),
        };
        path.copied()
    }

    /// The path to a host, given as an address or a name.
    pub fn find(&self, host: &str) -> Option<T> {
        match address(host) {
            Some(address) => self.find_address(address).map(|(_, path)| path),
            None => self.find_name(&name(host)?),
        }
    }

    /// The longest matching prefix, and its path.
    pub fn find_address(&self, address: IpAddr) -> Option<(Prefix, T)> {
        let lengths = self.lengths[family(Prefix::host(address))].iter().rev();
        let mut prefixes = lengths.filter_map(|&length| Prefix::new(address, length));
        prefixes.find_map(|prefix| Some((prefix, *self.networks.get(&prefix)?)))
    }

    /// The largest part of a prefix around an address in which no path but this one has a network.
    pub fn part_of(&self, prefix: Prefix, address: IpAddr, path: T) -> Prefix {
        let host = Prefix::host(address);
        let is_other = |(other, of): &(&Prefix, &T)| **of != path && !other.contains(address);
        // Of those on one side, the nearest has the most bits in common with the address.
        let before = self.networks.range(prefix..host).rev().find(is_other);
        let mut after = self.networks.range(host..);
        let after = after
            .by_ref()
            .take_while(|(other, _)| prefix.covers(**other))
            .find(is_other);
        let others = before.into_iter().chain(after);
        prefix.around(address, others.map(|(other, _)| *other))
    }

    fn find_name(&self, name: &str) -> Option<T> {
        if let Some(&path) = self.names.get(name) {
            return Some(path);
        }
        let mut rest = name;
        while let Some((_, domain)) = rest.split_once('.') {
            if let Some(&path) = self.domains.get(domain) {
                return Some(path);
            }
            rest = domain;
        }
        None
    }
}

fn family(prefix: Prefix) -> usize {
    match prefix.address() {
        IpAddr::V4(_) => 0,
        IpAddr::V6(_) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(patterns: &[(&str, u32)]) -> Routes<u32> {
        let mut routes = Routes::default();
        for (pattern, path) in patterns {
            assert_eq!(routes.insert(&pattern.parse().unwrap(), *path), None);
        }
        routes
    }

    #[test]
    fn the_longest_prefix_wins() {
        let routes = routes(&[
            ("0.0.0.0/0", 0),
            ("192.0.2.0/24", 1),
            ("192.0.2.128/25", 2),
            ("192.0.2.130", 3),
            ("2001:db8::/32", 4),
        ]);
        for (host, path) in [
            ("198.51.100.1", Some(0)),
            ("192.0.2.1", Some(1)),
            ("192.0.2.129", Some(2)),
            ("192.0.2.130", Some(3)),
            ("::ffff:192.0.2.130", Some(3)),
            ("2001:db8::7", Some(4)),
            ("[2001:db8::7%eth0]", Some(4)),
            ("2001:db9::7", None),
            ("no/host", None),
        ] {
            assert_eq!(routes.find(host), path, "{host}");
        }
    }

    #[test]
    fn a_part_has_no_network_of_another_path() {
        let routes = routes(&[
            ("0.0.0.0/0", 0),
            ("192.0.2.0/24", 1),
            ("192.0.2.64/26", 1),
            ("192.0.2.128/25", 2),
            ("192.0.2.130", 3),
            ("::/0", 4),
            ("2001:db8::/32", 5),
        ]);
        for (host, part) in [
            ("192.0.2.1", "192.0.2.0/25"),
            ("192.0.2.65", "192.0.2.64/26"),
            ("192.0.2.129", "192.0.2.128/31"),
            ("192.0.2.130", "192.0.2.130/32"),
            ("192.0.2.255", "192.0.2.192/26"),
            ("198.51.100.1", "196.0.0.0/6"),
            ("10.0.0.1", "0.0.0.0/1"),
            ("2001:db8::7", "2001:db8::/32"),
            ("2001:db9::7", "2001:db9::/32"),
        ] {
            let address = host.parse().unwrap();
            let (prefix, path) = routes.find_address(address).unwrap();
            let found = routes.part_of(prefix, address, path);
            assert_eq!(found.to_string(), part, "{host}");
        }
    }

    #[test]
    fn names_and_domains_lead_to_paths_whatever_their_case() {
        let routes = routes(&[
            ("Data.example.org", 1),
            ("*.example.org", 2),
            ("*.far.example.org", 3),
        ]);
        assert_eq!(routes.find("data.EXAMPLE.org."), Some(1));
        assert_eq!(routes.find("x.example.org"), Some(2));
        assert_eq!(routes.find("a.b.far.example.org"), Some(3));
        assert_eq!(routes.find("example.org"), None);
    }

    #[test]
    fn a_network_of_mapped_addresses_is_one_of_ipv4() {
        let routes = routes(&[("::ffff:192.0.2.0/120", 1), ("::ffff:198.51.100.7/128", 2)]);
        assert_eq!(routes.find("192.0.2.77"), Some(1));
        assert_eq!(routes.find("::ffff:198.51.100.7"), Some(2));
        assert_eq!(routes.find("198.51.100.8"), None);
    }

    #[test]
    fn the_same_pattern_leads_to_one_path_only() {
        let mut routes = routes(&[("192.0.2.0/24", 1)]);
        let same = "192.0.2.77/24".parse().unwrap();
        assert_eq!(routes.insert(&same, 2), Some(1));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            "a b",
            "192.0.2.0/33",
            "1.2.3",
            "*.",
            "a..b",
            "-/-",
            "a\u{1b}[2J",
            "fe80::1%a\nb",
        ] {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
        let written: Vec<String> = ["192.0.2.7", "192.0.2.9/24", "*.Example.org"]
            .map(|text| text.parse::<HostPattern>().unwrap().to_string())
            .into();
        assert_eq!(written, ["192.0.2.7", "192.0.2.0/24", "*.example.org"]);
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, damaged_text};
    use proptest::prelude::*;

    use super::*;

    const TEXTS: [&str; 7] = [
        "192.0.2.130",
        "192.0.2.77/25",
        "::ffff:192.0.2.130",
        "[2001:db8::7%eth0]",
        "2001:db8::/32",
        "Data.example.org.",
        "*.far.Example.org",
    ];

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn a_pattern_is_written_as_it_is_read(text in damaged_text(&TEXTS)) {
            if let Ok(pattern) = text.parse::<HostPattern>() {
                let written = pattern.to_string();
                prop_assert!(written.chars().all(|c| c.is_ascii_graphic()));
                prop_assert_eq!(written.parse::<HostPattern>(), Ok(pattern));
            }
        }

        #[test]
        fn all_addresses_of_a_part_lead_to_one_path(
            networks in proptest::collection::vec((any::<u8>(), 20..=32u8, 0..3u32), 0..12),
            host in any::<u8>(),
        ) {
            let mut routes = Routes::default();
            let all = std::iter::once((0, 20, 0)).chain(networks);
            for (last, length, path) in all {
                let network = Prefix::new(IpAddr::from([192, 0, 2, last]), length).unwrap();
                routes.insert(&HostPattern::Network(network), path);
            }
            let address = |last| IpAddr::from([192, 0, 2, last]);
            let (prefix, path) = routes.find_address(address(host)).unwrap();
            let part = routes.part_of(prefix, address(host), path);
            prop_assert!(part.contains(address(host)));
            for other in (0..=255).map(address).filter(|other| part.contains(*other)) {
                prop_assert_eq!(routes.find_address(other).unwrap().1, path);
            }
        }

        #[test]
        fn a_host_leads_to_the_path_of_its_own_pattern(text in damaged_text(&TEXTS)) {
            let mut routes = Routes::default();
            if let Ok(pattern) = text.parse::<HostPattern>() {
                prop_assert_eq!(routes.insert(&pattern, 7), None);
                prop_assert_eq!(routes.exactly(&pattern), Some(7));
                prop_assert!(pattern.single().is_none_or(|host| routes.find(&host) == Some(7)));
            }
        }
    }
}
