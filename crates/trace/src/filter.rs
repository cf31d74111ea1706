//! Which connections are traced.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// Alternatives of each kind at most, as in `bpf/event.h`.
pub const FILTER_MAX: usize = 16;

/// Connections are traced that match one alternative of every kind that has any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Either end is in one of these networks.
    pub hosts: Vec<Network>,
    /// Either end has one of these ports.
    pub ports: Vec<u16>,
    /// The process that opened or accepted the connection has one of these names. The kernel knows
    /// the first 15 bytes of a name.
    pub programs: Vec<String>,
    /// The socket is in one of these network namespaces, by inode.
    pub namespaces: Vec<u32>,
    /// The socket is in one of these control groups (version 2), by inode; not in those below.
    pub cgroups: Vec<u64>,
}

/// A filter that has too many alternatives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{given} {kind} to choose from; {FILTER_MAX} are possible")]
pub struct FilterError {
    kind: &'static str,
    given: usize,
}

/// Addresses with a common beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: u128,
    mask: u128,
}

/// What is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is neither an address nor a network; right would be 10.0.0.1, 10.0.0.0/8, 2001:db8::1 or 2001:db8::/32"
)]
pub struct NetworkError {
    text: String,
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Network, NetworkError> {
        parse(text).ok_or_else(|| NetworkError {
            text: text.to_owned(),
        })
    }
}

fn parse(text: &str) -> Option<Network> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let (bits, octets) = match address {
        IpAddr::V4(v4) => (32, v4.to_ipv6_mapped()),
        IpAddr::V6(v6) => (128, v6),
    };
    let length = length.unwrap_or(bits);
    if length > bits {
        return None;
    }
    let host_bits = bits - length;
    let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
    Some(Network {
        address: u128::from(octets) & mask,
        mask,
    })
}

impl Filter {
    /// `struct settings` of `bpf/event.h`.
    pub(crate) fn settings(&self, ring_bytes: u32) -> Result<Vec<u8>, FilterError> {
        let lengths = [
            length("hosts", self.hosts.len())?,
            length("ports", self.ports.len())?,
            length("programs", self.programs.len())?,
            length("namespaces", self.namespaces.len())?,
            length("control groups", self.cgroups.len())?,
        ];
        let mut bytes = Vec::new();
        for word in [ring_bytes].into_iter().chain(lengths) {
            bytes.extend(word.to_ne_bytes());
        }
        for i in 0..FILTER_MAX {
            bytes.extend(self.cgroups.get(i).unwrap_or(&0).to_ne_bytes());
        }
        for i in 0..FILTER_MAX {
            let (address, mask) = self.hosts.get(i).map_or((0, 0), |n| (n.address, n.mask));
            bytes.extend(Ipv6Addr::from(address).octets());
            bytes.extend(Ipv6Addr::from(mask).octets());
        }
        for i in 0..FILTER_MAX {
            let port = self.ports.get(i).copied().unwrap_or(0);
            bytes.extend(u32::from(port).to_ne_bytes());
        }
        for i in 0..FILTER_MAX {
            bytes.extend(self.namespaces.get(i).unwrap_or(&0).to_ne_bytes());
        }
        for i in 0..FILTER_MAX {
            let mut name = [0; 16];
            let program = self.programs.get(i).map_or(&b""[..], |p| p.as_bytes());
            let known = program.len().min(15);
            name[..known].copy_from_slice(&program[..known]);
            bytes.extend(name);
        }
        Ok(bytes)
    }
}

fn length(kind: &'static str, given: usize) -> Result<u32, FilterError> {
    if given > FILTER_MAX {
        return Err(FilterError { kind, given });
    }
    Ok(given as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_its_address_under_its_mask() {
        let network: Network = "10.1.2.3/8".parse().unwrap();
        assert_eq!(network.address, 0xffff_0a00_0000);
        assert_eq!(network.mask, u128::MAX << 24);
        let host: Network = "::1".parse().unwrap();
        assert_eq!((host.address, host.mask), (1, u128::MAX));
        let all: Network = "::/0".parse().unwrap();
        assert_eq!((all.address, all.mask), (0, 0));
        // Of IPv6's addresses only those that are IPv4's.
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert_eq!(all.address, 0xffff_0000_0000);
    }

    #[test]
    fn what_is_no_network_is_told_with_what_would_be() {
        for text in ["", "host", "10.0.0.0/33", "10.0.0.1/", "::/129"] {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains("10.0.0.0/8"), "{error}");
        }
    }

    #[test]
    fn more_alternatives_than_the_kernel_looks_at_are_refused() {
        let filter = Filter {
            ports: vec![1; 17],
            ..Filter::default()
        };
        assert_eq!(
            filter.settings(1 << 20).unwrap_err().to_string(),
            "17 ports to choose from; 16 are possible"
        );
    }
}
