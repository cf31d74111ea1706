//! Destinations that begin with the same bits.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Bits before an IPv4 address that is written as an IPv6 address.
const MAPPED_BITS: u8 = 96;

/// A network of IPv4 or IPv6. One of IPv4-mapped IPv6 addresses is of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Prefix {
    /// An IPv4 address as the IPv6 address that it is mapped to; 0 beyond the bits.
    address: u128,
    bits: u8,
}

/// A text that is no network.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NoPrefix {
    /// Not an address and a length.
    #[error("{0:?} is no network such as 192.0.2.0/24 or 2001:db8::/32")]
    Form(String),
    /// Bits are set beyond the length.
    #[error("{text:?} is an address in a network, which is {network}")]
    HostBits {
        /// The text.
        text: String,
        /// The network.
        network: Prefix,
    },
}

impl Prefix {
    /// All IPv4 addresses.
    pub const IPV4: Prefix = Prefix {
        address: 0xffff_0000_0000,
        bits: MAPPED_BITS,
    };

    /// The addresses whose first `bits` are those of `address`. `None`: it has fewer.
    pub fn new(address: IpAddr, bits: u8) -> Option<Prefix> {
        let bits = match address {
            IpAddr::V4(_) if bits <= 32 => bits + MAPPED_BITS,
            IpAddr::V6(_) if bits <= 128 => bits,
            _ => return None,
        };
        Some(Prefix::cut(number(address), bits))
    }

    /// This address alone.
    pub fn host(address: IpAddr) -> Prefix {
        Prefix::cut(number(address), 128)
    }

    fn cut(address: u128, bits: u8) -> Prefix {
        let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
        Prefix {
            address: address & mask,
            bits,
        }
    }

    /// The first address.
    pub fn address(self) -> IpAddr {
        let address = Ipv6Addr::from(self.address);
        match address.to_ipv4_mapped() {
            Some(address) if self.bits >= MAPPED_BITS => address.into(),
            _ => address.into(),
        }
    }

    /// The same with an IPv4 address written as the IPv6 address that it is mapped to, as the kernel's programs have it.
    pub fn mapped(self) -> (Ipv6Addr, u8) {
        (self.address.into(), self.bits)
    }

    /// Whether it is one address.
    pub fn is_host(self) -> bool {
        self.bits == 128
    }

    /// As people write it: an address alone without its length.
    pub fn in_words(self) -> String {
        match self.is_host() {
            true => self.address().to_string(),
            false => self.to_string(),
        }
    }

    /// How many of its bits count.
    pub fn bits(self) -> u8 {
        match self.address() {
            IpAddr::V4(_) => self.bits - MAPPED_BITS,
            IpAddr::V6(_) => self.bits,
        }
    }

    /// Whether an address is in it. No IPv4 address is in a network of IPv6, `::/0` included.
    pub fn contains(self, address: IpAddr) -> bool {
        let is_of_family = address.to_canonical().is_ipv4() == self.address().is_ipv4();
        is_of_family && self.has(number(address))
    }

    fn has(self, address: u128) -> bool {
        Prefix::cut(address, self.bits) == self
    }

    /// Whether all addresses of the other are in it, those of IPv4 as the IPv6 addresses that they are mapped to.
    pub fn covers(self, other: Prefix) -> bool {
        self.bits <= other.bits && self.has(other.address)
    }

    /// The largest part around one of its addresses that has nothing of the others. Who has the address itself does not
    /// count.
    pub fn around(self, address: IpAddr, others: impl IntoIterator<Item = Prefix>) -> Prefix {
        let address = number(address);
        let others = others.into_iter().filter(|other| !other.has(address));
        let beyond_common = |other: Prefix| (other.address ^ address).leading_zeros() as u8 + 1;
        let bits = others.map(beyond_common).fold(self.bits, u8::max);
        Prefix::cut(address, bits)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address(), self.bits())
    }
}

impl FromStr for Prefix {
    type Err = NoPrefix;

    fn from_str(text: &str) -> Result<Prefix, NoPrefix> {
        let parse = || {
            let (address, bits) = text.split_once('/')?;
            let address: IpAddr = address.parse().ok()?;
            let is_number = bits.bytes().all(|byte| byte.is_ascii_digit());
            let bits = bits.parse().ok().filter(|_| is_number)?;
            Some((address, Prefix::new(address, bits)?))
        };
        match parse() {
            None => Err(NoPrefix::Form(text.to_owned())),
            Some((address, prefix)) if number(address) == prefix.address => Ok(prefix),
            Some((_, network)) => Err(NoPrefix::HostBits {
                text: text.to_owned(),
                network,
            }),
        }
    }
}

impl TryFrom<String> for Prefix {
    type Error = NoPrefix;

    fn try_from(text: String) -> Result<Prefix, NoPrefix> {
        text.parse()
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> String {
        prefix.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_contains_its_addresses() {
        for (network, inside, outside) in [
            ("192.0.2.0/24", "192.0.2.7", "192.0.3.7"),
            ("192.0.2.0/24", "::ffff:192.0.2.7", "::192.0.2.7"),
            ("::ffff:192.0.2.0/120", "192.0.2.7", "192.0.3.7"),
            ("2001:db8::/32", "2001:db8:ff::1", "2001:db9::1"),
            ("0.0.0.0/0", "255.255.255.255", "2001:db8::1"),
            ("::/0", "2001:db8::1", "192.0.2.7"),
            ("::/80", "::1", "::ffff:192.0.2.7"),
        ] {
            assert!(prefix(network).contains(address(inside)), "{network}");
            assert!(!prefix(network).contains(address(outside)), "{network}");
        }
        assert_eq!(prefix("::ffff:0:0/96"), Prefix::IPV4);
        assert_eq!(Prefix::IPV4.to_string(), "0.0.0.0/0");
        let (bits, host) = (prefix("192.0.2.0/24").bits(), address("192.0.2.7"));
        assert_eq!((bits, Prefix::host(host).bits()), (24, 32));
        assert!(prefix("::/0").covers(Prefix::IPV4) && !Prefix::IPV4.covers(prefix("::/0")));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "192.0.2.7",
            "192.0.2.0/33",
            "192.0.2.0/+24",
            "2001:db8::/129",
            "192.0.2.0/",
            "192.0.2.0/255.255.255.0",
            "here/8",
        ] {
            let wrong = NoPrefix::Form(text.to_owned());
            assert_eq!(text.parse::<Prefix>(), Err(wrong));
        }
        let error = "192.0.2.7/24".parse::<Prefix>().unwrap_err();
        let said = "\"192.0.2.7/24\" is an address in a network, which is 192.0.2.0/24";
        assert_eq!(error.to_string(), said);
    }

    #[test]
    fn the_part_around_an_address_has_nothing_of_others() {
        let around = |network: &str, host: &str, others: &[&str]| {
            let others = others.iter().map(|other| prefix(other));
            prefix(network).around(address(host), others).to_string()
        };
        let net = "192.0.2.0/24";
        assert_eq!(around(net, "192.0.2.1", &[]), net);
        assert_eq!(
            around(net, "192.0.2.1", &["192.0.2.128/25"]),
            "192.0.2.0/25"
        );
        assert_eq!(around(net, "192.0.2.1", &["192.0.2.3/32"]), "192.0.2.0/31");
        assert_eq!(around(net, "192.0.2.1", &["192.0.2.0/32"]), "192.0.2.1/32");
        assert_eq!(around(net, "192.0.2.1", &["198.51.100.0/24"]), net);
        // That has the address itself.
        assert_eq!(around(net, "192.0.2.1", &["192.0.0.0/16"]), net);
        assert_eq!(around("::/0", "2001:db8::1", &["0.0.0.0/0"]), "2000::/3");
    }
}

#[cfg(test)]
mod fuzz {
    use fairwind_testing::fuzz::{cases, damaged_text};
    use proptest::prelude::*;

    use super::*;

    const TEXTS: [&str; 5] = [
        "192.0.2.128/25",
        "0.0.0.0/0",
        "::ffff:192.0.2.0/120",
        "2001:db8::/32",
        "::/0",
    ];

    fn any_prefix() -> impl Strategy<Value = Prefix> {
        (any::<u128>(), 0..=128u8).prop_map(|(address, bits)| Prefix::cut(address, bits))
    }

    proptest! {
        #![proptest_config(cases(256))]

        #[test]
        fn a_network_is_written_as_it_is_read(text in damaged_text(&TEXTS)) {
            if let Ok(prefix) = text.parse::<Prefix>() {
                prop_assert_eq!(prefix.to_string().parse(), Ok(prefix));
                prop_assert!(prefix.contains(prefix.address()));
            }
        }

        #[test]
        fn the_part_is_in_the_whole_and_apart_from_the_others(
            whole in any_prefix(),
            of in any::<u128>(),
            others in proptest::collection::vec((any::<u128>(), 0..=128u8), 0..8),
        ) {
            let mask = u128::MAX.checked_shr(whole.bits.into()).unwrap_or(0);
            let address = IpAddr::from(Ipv6Addr::from(whole.address | (of & mask)));
            // Near the address.
            let near = |(noise, bits): (u128, u8)| {
                let noise = noise.checked_shr(bits.into()).unwrap_or(0);
                Prefix::cut(number(address) ^ noise, bits.saturating_add(4).min(128))
            };
            let others: Vec<Prefix> = others.into_iter().map(near).collect();
            let part = whole.around(address, others.iter().copied());
            prop_assert!(whole.covers(part) && part.has(number(address)));
            for other in others.into_iter().filter(|other| !other.has(number(address))) {
                prop_assert!(!part.covers(other) && !other.covers(part));
            }
        }
    }
}
