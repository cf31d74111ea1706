//! The queueing discipline between a host's TCP and its device, the same on every machine.
//!
//! A machine's default (`net.core.default_qdisc`) may pace, drop packets itself, or report to TCP
//! what the device dropped, which with this device is every packet.
//!
//! Source: rtnetlink(7), linux/pkt_sched.h.

use crate::error::{During, LabError};
use fairwind_kernel::netlink::{self, attribute};

/// Sets `pfifo_fast` on an interface of the calling thread's network namespace.
pub(super) fn set_pfifo_fast(interface: u32) -> Result<(), LabError> {
    match netlink::transact(&request(interface)) {
        // A kernel without queueing disciplines has no other queue.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
        done => done.during("setting the queueing discipline of a host"),
    }
}

/// `tc qdisc replace dev INDEX root pfifo_fast`
fn request(interface: u32) -> Vec<u8> {
    const ROOT: u32 = 0xffff_ffff;
    const TCA_KIND: u16 = 1;
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    let (family, handle, info) = (0u32, 0u32, 0u32);
    let numbers = [family, interface, handle, ROOT, info];
    let mut body = numbers.map(u32::to_ne_bytes).concat();
    body.extend(attribute(TCA_KIND, b"pfifo_fast\0"));
    netlink::request(libc::RTM_NEWQDISC, flags, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_queue_is_asked_for_at_the_root_by_name() {
        let request = request(7);
        // A header of 16 bytes, 20 of `struct tcmsg`, an attribute of 4 and 11 bytes, padded.
        assert_eq!(request.len(), 16 + 20 + 16);
        assert_eq!(request[20..24], 7u32.to_ne_bytes());
        assert_eq!(request[28..32], [0xff; 4]);
        assert_eq!(request[40..51], *b"pfifo_fast\0");
    }
}
