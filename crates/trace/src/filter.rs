//! Which connections are traced.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use fairwind_origin::Prefix;

/// A connection is traced if it matches one alternative of every kind that has any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Either end of the connection is in one of these networks.
    pub hosts: Vec<Network>,
    /// Either end of the connection has one of these ports.
    pub ports: Vec<u16>,
    /// The process that opened the connection or listens for it has one of these names. The kernel
    /// keeps the first 15 bytes of a name.
    pub programs: Vec<String>,
    /// The socket is in one of these network namespaces, given by inode.
    pub namespaces: Vec<u32>,
    /// The socket is in one of these control groups (version 2) or below one, given by inode.
    pub cgroups: Vec<u64>,
}

/// Addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(Prefix);

/// A text that is not a network.
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
        Some((address, length)) => (address, Some(length.parse().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let prefix = match length {
        Some(length) => Prefix::new(address, length)?,
        None => Prefix::host(address),
    };
    Some(Network(prefix))
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Network {
    /// The addresses in it.
    pub fn prefix(self) -> Prefix {
        self.0
    }

    /// Whether the address is in it; an IPv4 address as the IPv6 address that it is mapped to.
    pub fn contains(self, address: IpAddr) -> bool {
        self.0.covers(Prefix::host(address))
    }

    /// Whether all addresses of the other are in it.
    pub fn covers(self, other: Network) -> bool {
        self.0.covers(other.0)
    }

    /// The key of a trie in the kernel: the length of the prefix, 4 bytes in the host's order, and the address, 16 bytes
    /// in the network's (`struct network` of `bpf/event.h`).
    pub fn key(self) -> Vec<u8> {
        let (address, bits) = self.0.mapped();
        let mut key = u32::from(bits).to_ne_bytes().to_vec();
        key.extend(address.octets());
        key
    }
}

/// A program's name as the kernel keeps it: at most 15 bytes, padded with zeros to 16.
pub(crate) fn program_key(name: &str) -> Vec<u8> {
    let mut key = vec![0; 16];
    let known = name.len().min(15);
    key[..known].copy_from_slice(&name.as_bytes()[..known]);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_its_address_under_its_mask() {
        let parts = |text: &str| {
            let (address, bits) = text.parse::<Network>().unwrap().0.mapped();
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            (address.to_bits(), mask)
        };
        assert_eq!(parts("10.1.2.3/8"), (0xffff_0a00_0000, u128::MAX << 24));
        assert_eq!(parts("::1"), (1, u128::MAX));
        assert_eq!(parts("::/0"), (0, 0));
        // Of the IPv6 addresses only the mapped IPv4 ones.
        assert_eq!(parts("0.0.0.0/0").0, 0xffff_0000_0000);
    }

    #[test]
    fn a_network_contains_its_addresses_and_covers_smaller_ones() {
        let network = |text: &str| text.parse::<Network>().unwrap();
        let ten = network("10.0.0.0/8");
        assert!(ten.contains("10.1.2.3".parse().unwrap()));
        assert!(ten.contains("::ffff:10.1.2.3".parse().unwrap()));
        assert!(!ten.contains("11.0.0.1".parse().unwrap()));
        assert!(ten.covers(ten) && ten.covers(network("10.1.0.0/16")));
        assert!(!ten.covers(network("0.0.0.0/0")) && !ten.covers(network("::/0")));
        assert!(network("::/0").covers(ten));
        for text in ["10.0.0.0/8", "::/0", "2001:db8::1/128", "0.0.0.0/0"] {
            assert_eq!(network(text).to_string(), text);
        }
    }

    #[test]
    fn what_is_no_network_is_told_with_what_would_be() {
        for text in ["", "host", "10.0.0.0/33", "10.0.0.1/", "::/129"] {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains("10.0.0.0/8"), "{error}");
        }
    }

    #[test]
    fn keys_are_laid_out_as_the_kernel_compares_them() {
        let network: Network = "10.1.0.0/16".parse().unwrap();
        let mut expected = 112u32.to_ne_bytes().to_vec();
        expected.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 0, 0]);
        assert_eq!(network.key(), expected);
        assert_eq!(program_key("curl"), b"curl\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(program_key("a-very-long-name"), b"a-very-long-nam\0");
    }
}
