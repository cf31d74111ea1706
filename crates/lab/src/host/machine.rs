//! This machine's own network as one end of a path: a TAP device in the network namespace of this process,
//! and a pair of addresses that nothing else there uses.
//!
//! The kernel names the device `fw0`, `fw1` ..., and it vanishes with the process. Its number determines the
//! addresses: for `fw3` they are 10.77.3.1, the host at the other end of the path, and 10.77.3.2, the
//! machine. So two processes that do this at the same time never get the same pair.

use std::fs;
use std::net::Ipv4Addr;

use super::tap::{Offload, Tap};
use crate::error::{During, LabError};

/// The kernel replaces `%d` by the first free number.
const NAME: &str = "fw%d";
const PREFIX: &str = "fw";
/// 10.77.0.0 to 10.77.255.0.
const PAIRS: usize = 256;
/// Prefix length: routes to networks wider than this are no conflict, because those to the pair's two
/// addresses are more specific.
const WIDEST: u32 = 16;

/// The addresses of the two ends of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The address of the lab's host.
    pub host: Ipv4Addr,
    /// The address of the machine.
    pub machine: Ipv4Addr,
}

impl Pair {
    /// The pair of the device with this number.
    pub const fn numbered(number: u8) -> Pair {
        Pair {
            host: Ipv4Addr::new(10, 77, number, 1),
            machine: Ipv4Addr::new(10, 77, number, 2),
        }
    }
}

/// Creates the device in the network namespace of the calling thread, and chooses its addresses.
pub(super) fn device(offload: Offload) -> Result<(Tap, Pair), LabError> {
    let path = "/proc/thread-self/net/route";
    let table = fs::read_to_string(path).during(format!("reading {path}"))?;
    let routes: Vec<Network> = table.lines().filter_map(Network::parse).collect();
    // Kept until a pair is found, so that the next device gets the next number.
    let mut conflicting = Vec::new();
    while conflicting.len() < PAIRS {
        let tap = Tap::create(NAME, offload)?;
        let number = tap.name().strip_prefix(PREFIX);
        let Some(number) = number.and_then(|number| number.parse().ok()) else {
            break;
        };
        let pair = Pair::numbered(number);
        if !routes.iter().any(|network| network.conflicts_with(pair)) {
            return Ok((tap, pair));
        }
        conflicting.push(tap);
    }
    Err(LabError::Failed(
        "no addresses are left for this machine's end of the path: all of 10.77.0.0/16 are taken"
            .to_owned(),
    ))
}

/// The destination of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: u32,
    mask: u32,
}

impl Network {
    /// Parses a line of /proc/net/route, whose numbers are in network byte order.
    fn parse(line: &str) -> Option<Network> {
        let mut columns = line.split_whitespace();
        let destination = columns.nth(1)?;
        let mask = columns.nth(5)?;
        let number = |text| u32::from_str_radix(text, 16).ok().map(u32::from_be);
        Some(Network {
            address: number(destination)?,
            mask: number(mask)?,
        })
    }

    fn conflicts_with(self, pair: Pair) -> bool {
        let leads_to = |address: Ipv4Addr| u32::from(address) & self.mask == self.address;
        self.mask.count_ones() >= WIDEST && (leads_to(pair.host) || leads_to(pair.machine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_to_either_address_conflict() {
        // Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
        let line = "eth0\t00034D0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0";
        let network = Network::parse(line).unwrap();
        assert_eq!(network.address, u32::from(Ipv4Addr::new(10, 77, 3, 0)));
        assert!(network.conflicts_with(Pair::numbered(3)));
        assert!(!network.conflicts_with(Pair::numbered(4)));
        let heading = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\tMTU";
        assert_eq!(Network::parse(heading), None);
    }

    #[test]
    fn the_default_route_and_wide_networks_are_not() {
        let default = Network {
            address: 0,
            mask: 0,
        };
        assert!(!default.conflicts_with(Pair::numbered(0)));
        let wide = Network {
            address: u32::from(Ipv4Addr::new(10, 0, 0, 0)),
            mask: 0xff00_0000,
        };
        assert!(!wide.conflicts_with(Pair::numbered(0)));
    }
}
