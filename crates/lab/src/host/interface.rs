//! Configures interfaces of the calling thread's network namespace.
//!
//! Source: rtnetlink(7), linux/if_link.h, linux/if_addr.h.

use std::io;
use std::net::Ipv4Addr;

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::{queueing, vnet};
use crate::error::{During, LabError};
use fairwind_kernel::netlink::{self, attribute};

/// Packets that a host's device queues while the emulator is busy. No burst of one connection is
/// larger; packets dropped for lack of room are counted and reported.
const DEVICE_QUEUE: u32 = 30_000;

/// Configures a host's device, with a netmask of 32 bits, and brings it up. Returns its index.
pub(super) fn configure(name: &str, address: Ipv4Addr, mtu: u16) -> Result<u32, LabError> {
    let interface = index(name)?;
    let set = |what: &str, kind: u16, value: &[u8]| {
        let request = link(interface, 0, &attribute(kind, value));
        netlink::transact(&request).during(format!("setting {what} of {name}"))
    };
    set("the hardware address", libc::IFLA_ADDRESS, &vnet::ADDRESS)?;
    set("the MTU", libc::IFLA_MTU, &u32::from(mtu).to_ne_bytes())?;
    set("the queue", libc::IFLA_TXQLEN, &DEVICE_QUEUE.to_ne_bytes())?;
    add_address(interface, address).during(format!("setting the address of {name}"))?;
    // There is nobody to answer ARP requests.
    let request = link(interface, libc::IFF_UP | libc::IFF_NOARP, &[]);
    netlink::transact(&request).during(format!("setting {name} up"))?;
    queueing::set_pfifo_fast(interface)?;
    Ok(interface)
}

/// Brings an interface up.
pub(super) fn bring_up(name: &str) -> Result<(), LabError> {
    let request = link(index(name)?, libc::IFF_UP, &[]);
    netlink::transact(&request).during(format!("setting {name} up"))
}

/// Gives an interface one more address, with a netmask of 32 bits.
pub(super) fn add_address(interface: u32, address: Ipv4Addr) -> io::Result<()> {
    netlink::transact(&new_address(interface, address))
}

/// `ip link set dev INDEX ...`: adds flags, and sets what the attributes say.
fn link(interface: u32, flags: libc::c_int, attributes: &[u8]) -> Vec<u8> {
    let (family_and_type, flags) = (0, flags as u32);
    let numbers = [family_and_type, interface, flags, flags];
    let body = [&numbers.map(u32::to_ne_bytes).concat(), attributes].concat();
    netlink::request(libc::RTM_NEWLINK, libc::NLM_F_ACK, &body)
}

/// `ip address add ADDRESS/32 dev INDEX`
fn new_address(interface: u32, address: Ipv4Addr) -> Vec<u8> {
    let (prefix, flags, scope) = (32, 0, libc::RT_SCOPE_UNIVERSE);
    let mut body = vec![libc::AF_INET as u8, prefix, flags, scope];
    body.extend(interface.to_ne_bytes());
    body.extend(attribute(libc::IFA_LOCAL, &address.octets()));
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    netlink::request(libc::RTM_NEWADDR, flags, &body)
}

fn index(name: &str) -> Result<u32, LabError> {
    let (family, flags) = (AddressFamily::INET, SocketFlags::CLOEXEC);
    socket_with(family, SocketType::DGRAM, flags, None)
        .and_then(|socket| name_to_index(&socket, name))
        .during(format!("finding {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_32_bits_and_its_interface() {
        let request = new_address(7, Ipv4Addr::new(10, 77, 0, 1));
        // A header of 16 bytes, 8 of `struct ifaddrmsg`, an attribute of 4 and 4 bytes.
        assert_eq!(request.len(), 16 + 8 + 8);
        assert_eq!(request[16..18], [2, 32]);
        assert_eq!(request[20..24], 7u32.to_ne_bytes());
        assert_eq!(request[28..], [10, 77, 0, 1]);
    }

    #[test]
    fn only_flags_that_are_given_are_changed() {
        let request = link(7, libc::IFF_UP, &[]);
        // A header of 16 bytes, then `struct ifinfomsg`: its flags, and which of them change.
        assert_eq!(request.len(), 16 + 16);
        assert_eq!(request[20..24], 7u32.to_ne_bytes());
        assert_eq!(request[24..28], 1u32.to_ne_bytes());
        assert_eq!(request[24..28], request[28..]);
    }
}
