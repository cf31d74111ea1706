//! Networks of addresses; origins, which per-client limits count as one client, and tallies by origin.

mod places;
mod prefix;

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

pub use places::{Place, Places};
pub use prefix::{NoPrefix, Prefix};

/// An IPv4 address or an IPv6 /64 network. Every household and every rented machine has at least a /64
/// (RFC 6177), so limits on single IPv6 addresses would limit nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin(IpAddr);

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(network) => write!(f, "{network}/64"),
        }
    }
}

/// An amount for each origin.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally(HashMap<Origin, u64>);

impl Tally {
    /// The amount of an origin.
    pub fn of(&self, origin: Origin) -> u64 {
        self.0.get(&origin).copied().unwrap_or(0)
    }

    /// The sum of all amounts.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// Sets the amount of an origin; 0 removes it.
    pub fn set(&mut self, origin: Origin, amount: u64) {
        match amount {
            0 => drop(self.0.remove(&origin)),
            amount => drop(self.0.insert(origin, amount)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Origin {
        Origin::from(text.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn ipv6_counts_by_networks_of_64_bits_and_ipv4_by_addresses() {
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:0:0:2"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_ne!(origin("192.0.2.1"), origin("192.0.2.2"));
        assert_eq!(origin("::ffff:192.0.2.1"), origin("192.0.2.1"));
        assert_eq!(origin("2001:db8::1").to_string(), "2001:db8::/64");
        assert_eq!(origin("192.0.2.1").to_string(), "192.0.2.1");
    }
}
