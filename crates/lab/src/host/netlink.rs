//! Netlink requests that configure routes and queueing disciplines; callers supply the message bodies.
//!
//! Source: netlink(7), rtnetlink(7).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::FromRawFd;

use nix::errno::Errno;

/// The header of a request that asks for an acknowledgement; [`whole`] fills in the length.
pub fn head(kind: u16, flags: libc::c_int) -> Vec<u8> {
    let flags = flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK;
    let mut message = vec![0; 4];
    message.extend(kind.to_ne_bytes());
    message.extend((flags as u16).to_ne_bytes());
    message.extend([0; 8]);
    message
}

/// Fills the message's length into its header.
pub fn whole(mut message: Vec<u8>) -> Vec<u8> {
    let len = message.len() as u32;
    message[..4].copy_from_slice(&len.to_ne_bytes());
    message
}

/// Sends the request and waits for its acknowledgement, in the network namespace of the calling thread.
pub fn order(message: &[u8]) -> io::Result<()> {
    let mut socket = open()?;
    socket.write_all(message)?;
    let mut answer = [0; 256];
    let len = socket.read(&mut answer)?;
    match error(&answer[..len]) {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn open() -> io::Result<File> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes numbers only.
    let socket = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
    let socket = Errno::result(socket)?;
    // SAFETY: the descriptor has just been opened and has no other owner.
    Ok(unsafe { File::from_raw_fd(socket) })
}

/// An attribute, padded to a multiple of four bytes.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut attribute = Vec::from((4 + value.len() as u16).to_ne_bytes());
    attribute.extend(kind.to_ne_bytes());
    attribute.extend(value);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}

/// The error number in an answer, 0 for success; `None` if the answer is no acknowledgement.
fn error(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let number = i32::from_ne_bytes(answer.get(16..20)?.try_into().ok()?);
    (i32::from(kind) == libc::NLMSG_ERROR).then_some(-number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_tells_the_error() {
        let mut answer = [0; 36];
        answer[4..6].copy_from_slice(&2u16.to_ne_bytes());
        assert_eq!(error(&answer), Some(0));
        answer[16..20].copy_from_slice(&(-17i32).to_ne_bytes());
        assert_eq!(error(&answer), Some(17));
        assert_eq!(error(&answer[..10]), None);
    }
}
