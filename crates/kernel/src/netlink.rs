//! Netlink: sockets, requests, and the messages and attributes of answers. Callers supply the bodies.
//!
//! Source: netlink(7), rtnetlink(7). By hand, as few kinds of request are needed and no asynchronous
//! runtime, which the crate rtnetlink brings with it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send,
    socket_with,
};

/// Length of a message's header, bytes.
pub const HEADER: usize = 16;

/// Opens a netlink socket in the network namespace of the calling thread: of a protocol (`None`:
/// `NETLINK_ROUTE`), for the multicast groups of which the bits are set.
///
/// # Errors
///
/// If the kernel lacks the protocol, or there are too many open files.
pub fn open(protocol: Option<Protocol>, groups: u32, flags: SocketFlags) -> io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// A request.
pub fn request(kind: u16, flags: libc::c_int, body: &[u8]) -> Vec<u8> {
    let length = HEADER + body.len();
    let flags = flags | libc::NLM_F_REQUEST;
    let mut message = Vec::from((length as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((flags as u16).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Sends a request with the flag `NLM_F_ACK` to rtnetlink and waits for its acknowledgement, in the network
/// namespace of the calling thread.
///
/// # Errors
///
/// The kernel's, of the request.
pub fn transact(message: &[u8]) -> io::Result<()> {
    let socket = open(None, 0, SocketFlags::empty())?;
    send(&socket, message, SendFlags::empty())?;
    // It repeats a request that failed.
    let mut answer = [0u8; 4096];
    let (len, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    match acknowledged(&answer[..len]) {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// An attribute, padded to a multiple of four bytes.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut attribute = Vec::from((4 + value.len() as u16).to_ne_bytes());
    attribute.extend(kind.to_ne_bytes());
    attribute.extend(value);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}

/// Type and body of each message in a datagram, up to the first that is cut off.
pub fn messages(mut datagram: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(field(datagram, 0)?) as usize;
        let kind = u16::from_ne_bytes(field(datagram, 4)?);
        let body = datagram.get(HEADER..length)?;
        datagram = &datagram[length.next_multiple_of(4).min(datagram.len())..];
        Some((kind, body))
    })
}

/// The error number in the body of a message `NLMSG_ERROR`; 0 for success.
pub fn error_number(body: &[u8]) -> Option<i32> {
    field(body, 0).map(|number| -i32::from_ne_bytes(number))
}

/// The value of the first attribute of this type.
pub fn find_attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(field(attributes, 0)?));
        let kind = u16::from_ne_bytes(field(attributes, 2)?);
        let value = attributes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// The bytes of a field of a message.
pub fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// The error number in an answer; `None` if the answer is no acknowledgement.
fn acknowledged(answer: &[u8]) -> Option<i32> {
    let (kind, body) = messages(answer).next()?;
    error_number(body).filter(|_| i32::from(kind) == libc::NLMSG_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_tells_the_error() {
        let mut answer = [0; 36];
        answer[..4].copy_from_slice(&36u32.to_ne_bytes());
        answer[4..6].copy_from_slice(&2u16.to_ne_bytes());
        assert_eq!(acknowledged(&answer), Some(0));
        answer[16..20].copy_from_slice(&(-17i32).to_ne_bytes());
        assert_eq!(acknowledged(&answer), Some(17));
        assert_eq!(acknowledged(&answer[..10]), None);
        answer[4] = 3;
        assert_eq!(acknowledged(&answer), None);
    }

    #[test]
    fn attributes_are_found_by_their_type() {
        let attributes = [attribute(1, b"odd"), attribute(2, b"even")].concat();
        assert_eq!(find_attribute(&attributes, 2), Some(&b"even"[..]));
        assert_eq!(find_attribute(&attributes, 3), None);
        assert_eq!(find_attribute(&attributes[..10], 2), None);
    }
}
