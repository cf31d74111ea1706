//! From which networks clients are served.

use std::net::IpAddr;

use ipnet::IpNet;

/// Whether clients at `address` are served. Of the networks that contain the address, the one with the longest
/// prefix decides; if both lists have it, it is denied. An address in none of them is served unless something
/// is allowed.
pub(super) fn admits(allow: &[IpNet], deny: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    let longest = |networks: &[IpNet]| {
        let containing = networks.iter().filter(|network| network.contains(&address));
        containing.map(IpNet::prefix_len).max()
    };
    match (longest(allow), longest(deny)) {
        (None, None) => allow.is_empty(),
        (allowed, denied) => allowed > denied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(allow: &[&str], deny: &[&str], address: &str) -> bool {
        let networks = |texts: &[&str]| -> Vec<IpNet> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        admits(&networks(allow), &networks(deny), address.parse().unwrap())
    }

    #[test]
    fn the_longest_prefix_decides_and_a_tie_denies() {
        let (wide, narrow) = ("192.0.2.0/24", "192.0.2.128/25");
        assert!(served(&[narrow], &[wide], "192.0.2.200"));
        assert!(!served(&[narrow], &[wide], "192.0.2.100"));
        assert!(!served(&[wide], &[narrow], "192.0.2.200"));
        assert!(served(&[wide], &[narrow], "192.0.2.100"));
        assert!(!served(&[wide], &[wide], "192.0.2.1"));
    }

    #[test]
    fn an_address_in_no_network_is_served_unless_something_is_allowed() {
        assert!(served(&[], &[], "192.0.2.1"));
        assert!(served(&[], &["198.51.100.0/24"], "192.0.2.1"));
        assert!(!served(&["198.51.100.0/24"], &[], "192.0.2.1"));
        assert!(!served(&["2001:db8::/32"], &[], "192.0.2.1"));
        assert!(served(&["0.0.0.0/0"], &[], "::ffff:192.0.2.1"));
        assert!(!served(&[], &["192.0.2.1/32"], "::ffff:192.0.2.1"));
    }
}
