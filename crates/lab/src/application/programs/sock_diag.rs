//! The TCP connections of a host, as the kernel reports them over netlink: the existing ones on
//! request, and each closed one with its final counts.
//!
//! Source: sock_diag(7); include/uapi/linux/{inet_diag,sock_diag,netlink}.h;
//! `inet_diag_handler_get_info` for closed connections, whose port may already be 0.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use fairwind_kernel::TcpInfo;
use fairwind_kernel::netlink::{self, field};
use rustix::io::Errno;
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, recv, send};

use crate::application::counts::Counts;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
/// Multicast groups for closed connections (`SKNLGRP_INET_TCP_DESTROY`, and that of IPv6, which
/// carries IPv4 as well).
const GONE: u32 = (1 << 0) | (1 << 2);
/// All states except `TCP_LISTEN`, `TCP_TIME_WAIT` and `TCP_NEW_SYN_RECV`, which have no counts.
const STATES: u32 = !((1 << 10) | (1 << 6) | (1 << 12));
/// Length of `struct inet_diag_msg`.
const MESSAGE: usize = 72;
/// Buffer for messages about closed connections until they are read, bytes.
const RECEIVE_BUFFER: usize = 8 << 20;

/// A connection as one of its ends reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connection {
    /// The kernel's number for the socket, never reused.
    pub cookie: u64,
    /// 0 if the socket has released its port.
    pub local_port: u16,
    pub remote: Ipv4Addr,
    pub remote_port: u16,
    pub inode: u64,
    pub counts: Counts,
}

/// Netlink sockets for the connections of one network namespace.
#[derive(Debug)]
pub(super) struct Diag {
    ask: OwnedFd,
    gone: OwnedFd,
    buffer: Vec<u8>,
}

impl Diag {
    /// Opens the sockets in the network namespace of the calling thread; connections closed from
    /// now on are reported.
    pub(super) fn open() -> io::Result<Diag> {
        let ask = netlink::open(Some(SOCK_DIAG), 0, SocketFlags::empty())?;
        let gone = netlink::open(Some(SOCK_DIAG), GONE, SocketFlags::NONBLOCK)?;
        set_socket_recv_buffer_size_force(&gone, RECEIVE_BUFFER)?;
        Ok(Diag {
            ask,
            gone,
            buffer: vec![0; 256 << 10],
        })
    }

    /// The connections closed since the last call, and those that exist.
    pub(super) fn connections(&mut self) -> io::Result<Vec<Connection>> {
        let mut connections = Vec::new();
        loop {
            match receive(&self.gone, &mut self.buffer) {
                Ok(len) => drop(parse(&self.buffer[..len], &mut connections)?),
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.dump(family as u8, &mut connections)?;
        }
        Ok(connections)
    }

    /// Adds the existing connections of an address family.
    fn dump(&mut self, family: u8, connections: &mut Vec<Connection>) -> io::Result<()> {
        send(&self.ask, &dump_request(family), SendFlags::empty())?;
        loop {
            let len = receive(&self.ask, &mut self.buffer)?;
            if parse(&self.buffer[..len], connections)? {
                return Ok(());
            }
        }
    }
}

fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let (len, _) = recv(socket, buffer, RecvFlags::empty())?;
    Ok(len)
}

/// A request for all TCP connections of a family, with their counts.
fn dump_request(family: u8) -> Vec<u8> {
    const LENGTH: usize = 56;
    let with_info = 1 << (INET_DIAG_INFO - 1);
    let mut body = vec![family, libc::IPPROTO_TCP as u8, with_info, 0];
    body.extend(STATES.to_ne_bytes());
    body.resize(LENGTH, 0);
    netlink::request(SOCK_DIAG_BY_FAMILY, libc::NLM_F_DUMP, &body)
}

/// Adds the connections of a datagram. Returns true if it is the last of an answer.
fn parse(datagram: &[u8], connections: &mut Vec<Connection>) -> io::Result<bool> {
    for (kind, body) in netlink::messages(datagram) {
        match kind {
            kind if i32::from(kind) == libc::NLMSG_DONE => return Ok(true),
            kind if i32::from(kind) == libc::NLMSG_ERROR => {
                let error = netlink::error_number(body).unwrap_or(0);
                return Err(io::Error::from_raw_os_error(error));
            }
            SOCK_DIAG_BY_FAMILY => connections.extend(connection(body)),
            _ => {}
        }
    }
    Ok(false)
}

/// Parses `struct inet_diag_msg` and the attributes that follow it; `None` if there are no counts,
/// or no IPv4 address.
fn connection(body: &[u8]) -> Option<Connection> {
    let attributes = body.get(MESSAGE..)?;
    let counts = TcpInfo::parse(netlink::find_attribute(attributes, INET_DIAG_INFO)?).into();
    let port = |at| field(body, at).map(u16::from_be_bytes);
    let cookie = |at| field(body, at).map(u32::from_ne_bytes).map(u64::from);
    Some(Connection {
        cookie: cookie(44)? | cookie(48)? << 32,
        local_port: port(4)?,
        remote_port: port(6)?,
        remote: address(body[0], field(body, 24)?)?,
        inode: field(body, 68).map(u32::from_ne_bytes)?.into(),
        counts,
    })
}

/// Parses an IPv4 address, which an IPv6 socket has as `::ffff:a.b.c.d`.
fn address(family: u8, bytes: [u8; 16]) -> Option<Ipv4Addr> {
    let [a, b, c, d, ..] = bytes;
    match i32::from(family) {
        libc::AF_INET => Some(Ipv4Addr::new(a, b, c, d)),
        libc::AF_INET6 => Ipv6Addr::from(bytes).to_ipv4_mapped(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairwind_kernel::netlink::HEADER;

    fn message(family: i32) -> Vec<u8> {
        let mut body = vec![0; MESSAGE];
        body[0] = family as u8;
        body[4..6].copy_from_slice(&5001u16.to_be_bytes());
        body[6..8].copy_from_slice(&40000u16.to_be_bytes());
        if family == libc::AF_INET {
            body[24..28].copy_from_slice(&[10, 0, 0, 1]);
        } else {
            body[34..40].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
        }
        body[44] = 7;
        body[48] = 1;
        body[68] = 9;
        let mut info = vec![0; 248];
        info[156] = 3;
        body.extend(8u16.to_ne_bytes());
        body.extend([1, 0, 0, 0, 0, 0]);
        body.extend((4 + info.len() as u16).to_ne_bytes());
        body.extend(INET_DIAG_INFO.to_ne_bytes());
        body.extend(info);
        let mut message = Vec::from((HEADER as u32 + body.len() as u32).to_ne_bytes());
        message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        message.resize(HEADER, 0);
        message.extend(body);
        message
    }

    #[test]
    fn connections_of_both_families_have_ipv4_ends() {
        let mut connections = Vec::new();
        let both = [message(libc::AF_INET), message(libc::AF_INET6)].concat();
        assert!(!parse(&both, &mut connections).unwrap());
        let expected = Connection {
            cookie: 7 | 1 << 32,
            local_port: 5001,
            remote: Ipv4Addr::new(10, 0, 0, 1),
            remote_port: 40000,
            inode: 9,
            counts: Counts {
                packets: 3,
                ..Counts::default()
            },
        };
        assert_eq!(connections, [expected, expected]);
    }

    #[test]
    fn an_answer_ends_with_a_message_or_an_error() {
        let mut done = vec![16, 0, 0, 0, 3, 0];
        done.resize(HEADER, 0);
        assert!(parse(&done, &mut Vec::new()).unwrap());
        let mut error = vec![36, 0, 0, 0, 2, 0];
        error.resize(HEADER, 0);
        error.extend((-libc::ENOENT).to_ne_bytes());
        error.resize(36, 0);
        let error = parse(&error, &mut Vec::new()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }
}
