//! The TCP connections of a network namespace, as the kernel reports them over netlink: the existing ones on
//! request, and each closed one with its final counts.
//!
//! No right is needed.
//!
//! Source: sock_diag(7); include/uapi/linux/{inet_diag,sock_diag,netlink}.h;
//! `inet_diag_handler_get_info` for closed connections, whose port may already be 0.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, recv, send};

use crate::TcpInfo;
use crate::netlink::{self, field};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_TCLASS: u16 = 6;
/// The class of the socket's control group; where that has none, the priority of the socket. It comes with the traffic
/// class (`inet_diag_msg_attrs_fill`).
const INET_DIAG_CLASS_ID: u16 = 17;
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
#[derive(Clone, Copy)]
pub struct Connection {
    /// The kernel's number for the socket, never reused (`SO_COOKIE`).
    pub cookie: u64,
    /// Address and port of this end; port 0 if the socket has released it. IPv4 also where an IPv6 socket has it.
    pub local: SocketAddr,
    /// Those of the other end.
    pub remote: SocketAddr,
    /// By which `/proc/PID/fd` has it; 0 if no process has it any more.
    pub inode: u64,
    /// The priority of its socket (`SO_PRIORITY`), or the class of its control group.
    pub priority: u32,
    /// The counts.
    pub info: TcpInfo,
}

/// Lists the connections of one network namespace.
#[derive(Debug)]
pub struct Connections {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Connections {
    /// For the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// If the kernel has no `sock_diag`, or the process no descriptor left.
    pub fn open() -> io::Result<Connections> {
        Ok(Connections {
            socket: netlink::open(Some(SOCK_DIAG), 0, SocketFlags::empty())?,
            // Datagrams of an answer have no more than 32 KiB (netlink_recvmsg).
            buffer: vec![0; 64 << 10],
        })
    }

    /// Those that exist; those of a local port, unless that is 0.
    ///
    /// # Errors
    ///
    /// What netlink(7) lists.
    pub fn list(&mut self, local_port: u16) -> io::Result<Vec<Connection>> {
        let mut connections = Vec::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            match self.dump(family as u8, local_port, &mut connections) {
                // A kernel without IPv6.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                listed => listed?,
            }
        }
        Ok(connections)
    }

    fn dump(
        &mut self,
        family: u8,
        local_port: u16,
        connections: &mut Vec<Connection>,
    ) -> io::Result<()> {
        let request = dump_request(family, local_port);
        send(&self.socket, &request, SendFlags::empty())?;
        loop {
            let len = match receive(&self.socket, &mut self.buffer) {
                Err(Errno::INTR) => continue,
                received => received?,
            };
            if parse(&self.buffer[..len], connections)? {
                return Ok(());
            }
        }
    }
}

/// Netlink sockets for the connections of one network namespace.
#[derive(Debug)]
pub struct Diag {
    existing: Connections,
    gone: OwnedFd,
    buffer: Vec<u8>,
}

impl Diag {
    /// Opens the sockets in the network namespace of the calling thread; connections closed from
    /// now on are reported.
    ///
    /// # Errors
    ///
    /// If the kernel has no `sock_diag`, or the process no descriptor left.
    pub fn open() -> io::Result<Diag> {
        let gone = netlink::open(Some(SOCK_DIAG), GONE, SocketFlags::NONBLOCK)?;
        // Beyond net.core.rmem_max, if that is permitted.
        set_socket_recv_buffer_size_force(&gone, RECEIVE_BUFFER)
            .or_else(|_| set_socket_recv_buffer_size(&gone, RECEIVE_BUFFER))?;
        Ok(Diag {
            existing: Connections::open()?,
            gone,
            buffer: vec![0; 256 << 10],
        })
    }

    /// The connections closed since the last call.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` if there were more than fit, of which the others come with the next call; what netlink(7) lists.
    pub fn closed(&mut self) -> io::Result<Vec<Connection>> {
        let mut connections = Vec::new();
        loop {
            match receive(&self.gone, &mut self.buffer) {
                Ok(len) => drop(parse(&self.buffer[..len], &mut connections)?),
                Err(Errno::AGAIN) => return Ok(connections),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The connections that exist; those of a local port, unless that is 0.
    ///
    /// # Errors
    ///
    /// What netlink(7) lists.
    pub fn existing(&mut self, local_port: u16) -> io::Result<Vec<Connection>> {
        self.existing.list(local_port)
    }
}

fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let (len, _) = recv(socket, buffer, RecvFlags::empty())?;
    Ok(len)
}

/// A request for the TCP connections of a family and a local port, with their counts.
fn dump_request(family: u8, local_port: u16) -> Vec<u8> {
    const LENGTH: usize = 56;
    let wanted = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_TCLASS - 1);
    let mut body = vec![family, libc::IPPROTO_TCP as u8, wanted, 0];
    body.extend(STATES.to_ne_bytes());
    body.extend(local_port.to_be_bytes());
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

/// Parses `struct inet_diag_msg` and the attributes that follow it; `None` if there are no counts.
fn connection(body: &[u8]) -> Option<Connection> {
    let attributes = body.get(MESSAGE..)?;
    let info = TcpInfo::parse(netlink::find_attribute(attributes, INET_DIAG_INFO)?);
    let class = netlink::find_attribute(attributes, INET_DIAG_CLASS_ID);
    let class = class.and_then(|class| field(class, 0));
    let port = |at| field(body, at).map(u16::from_be_bytes);
    let cookie = |at| field(body, at).map(u32::from_ne_bytes).map(u64::from);
    let end = |address_at, port_at| {
        let address = address(body[0], field(body, address_at)?)?;
        Some(SocketAddr::new(address, port(port_at)?))
    };
    Some(Connection {
        cookie: cookie(44)? | cookie(48)? << 32,
        local: end(8, 4)?,
        remote: end(24, 6)?,
        inode: field(body, 68).map(u32::from_ne_bytes)?.into(),
        priority: class.map_or(0, u32::from_ne_bytes),
        info,
    })
}

/// Parses an address; an IPv6 socket has one of IPv4 as `::ffff:a.b.c.d`.
fn address(family: u8, bytes: [u8; 16]) -> Option<IpAddr> {
    let [a, b, c, d, ..] = bytes;
    match i32::from(family) {
        libc::AF_INET => Some(Ipv4Addr::new(a, b, c, d).into()),
        libc::AF_INET6 => Some(IpAddr::from(Ipv6Addr::from(bytes)).to_canonical()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::netlink::HEADER;
    use crate::sockopt;

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
    fn addresses_of_ipv4_are_such_in_both_families() {
        let mut connections = Vec::new();
        let both = [message(libc::AF_INET), message(libc::AF_INET6)].concat();
        assert!(!parse(&both, &mut connections).unwrap());
        assert_eq!(connections.len(), 2);
        for one in connections {
            assert_eq!(one.cookie, 7 | 1 << 32);
            assert_eq!(one.local.port(), 5001);
            assert_eq!(one.remote, "10.0.0.1:40000".parse().unwrap());
            assert_eq!(one.inode, 9);
            assert_eq!(one.info.tcpi_data_segs_out, 3);
        }
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

    #[test]
    fn a_connection_is_found_by_its_port_and_told_when_it_is_closed() {
        let mut diag = Diag::open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        let local = near.local_addr().unwrap();
        let found = diag.existing(local.port()).unwrap();
        let found = found.iter().find(|one| one.local == local).unwrap();
        assert_eq!(found.remote, near.peer_addr().unwrap());
        assert_ne!(found.inode, 0);
        drop(near);
        drop(far);
        let cookie = found.cookie;
        assert!(fairwind_testing::eventually(|| {
            let closed = diag.closed().unwrap_or_default();
            closed.iter().any(|one| one.cookie == cookie)
        }));
    }

    #[test]
    fn what_a_connection_has_received_is_listed_with_its_priority() {
        for address in [
            IpAddr::from(Ipv4Addr::LOCALHOST),
            Ipv6Addr::LOCALHOST.into(),
        ] {
            let Ok(listener) = TcpListener::bind((address, 0)) else {
                continue;
            };
            let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut receiver, _) = listener.accept().unwrap();
            sockopt::set_priority(&receiver, 1).unwrap();
            sender.write_all(&[0; 1000]).unwrap();
            receiver.read_exact(&mut [0; 1000]).unwrap();
            let cookie = sockopt::cookie(&receiver).unwrap();
            let listed = Connections::open().unwrap().list(0).unwrap();
            let found = listed.iter().find(|found| found.cookie == cookie).unwrap();
            assert_eq!((found.info.tcpi_bytes_received, found.priority), (1000, 1));
            assert_eq!(found.local.ip(), found.remote.ip());
        }
    }

    #[test]
    fn an_answer_that_is_cut_off_is_no_connection() {
        let mut body = vec![0; MESSAGE];
        assert!(connection(&body).is_none());
        body.extend([8, 0, 2, 0, 1]);
        assert!(connection(&body).is_none());
        assert!(connection(&body[..40]).is_none());
    }
}
