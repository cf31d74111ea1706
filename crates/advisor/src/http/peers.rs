//! How many connections the addresses beyond this machine have.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections of every address.
#[derive(Clone, Debug, Default)]
pub struct Peers(Arc<Mutex<HashMap<IpAddr, u32>>>);

/// A connection, which counts until this is dropped.
#[derive(Debug)]
pub struct Counted {
    peers: Peers,
    /// None: of this machine.
    address: Option<IpAddr>,
}

impl Peers {
    /// Counts a connection of this address, unless it has `most` already; one of this machine has no
    /// address, and no bound.
    pub fn admit(&self, address: Option<IpAddr>, most: u32) -> Option<Counted> {
        let address = address.map(counted_as);
        if let Some(address) = address {
            let mut connections = self.lock();
            let number = connections.entry(address).or_default();
            if *number >= most {
                return None;
            }
            *number += 1;
        }
        let peers = self.clone();
        Some(Counted { peers, address })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some(address) = self.address else {
            return;
        };
        let mut connections = self.peers.lock();
        let left = connections.get(&address).map_or(0, |number| number - 1);
        match left {
            0 => drop(connections.remove(&address)),
            left => drop(connections.insert(address, left)),
        }
    }
}

/// Whoever has one address of IPv6 has the 2^64 of its network (RFC 4291, section 2.5.1).
fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            Ipv6Addr::from_bits(network).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_so_many_connections_at_most_and_a_closed_one_makes_room() {
        let peers = Peers::default();
        let admit = |address: &str| peers.admit(Some(address.parse().unwrap()), 2);
        let (one, two) = (admit("192.0.2.7").unwrap(), admit("192.0.2.7").unwrap());
        assert!(admit("192.0.2.7").is_none());
        assert!(admit("::ffff:192.0.2.7").is_none());
        let other = admit("192.0.2.8").unwrap();
        drop(one);
        let three = admit("192.0.2.7").unwrap();
        assert!(admit("192.0.2.7").is_none());
        drop((two, three, other));
        assert!(peers.lock().is_empty());
    }

    #[test]
    fn a_network_of_64_bits_counts_as_one_address() {
        let peers = Peers::default();
        let admit = |address: &str| peers.admit(Some(address.parse().unwrap()), 1);
        let _one = admit("2001:db8:0:1::7").unwrap();
        assert!(admit("2001:db8:0:1:ffff::8").is_none());
        assert!(admit("2001:db8:0:2::7").is_some());
    }

    #[test]
    fn this_machine_has_no_bound() {
        let peers = Peers::default();
        let all: Vec<_> = (0..3).map(|_| peers.admit(None, 1)).collect();
        assert!(all.iter().all(Option::is_some));
    }
}
