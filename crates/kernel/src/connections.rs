//! What the TCP connections of a network namespace have received, as any process may ask.
//!
//! Source: sock_diag(7); include/uapi/linux/inet_diag.h; `inet_diag_msg_attrs_fill` in net/ipv4/inet_diag.c of Linux.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, recv, send};

use crate::TcpInfo;
use crate::netlink::{self, field};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_TCLASS: u16 = 6;
/// The class of the socket's control group; where that has none, the priority of the socket. It comes with the traffic
/// class.
const INET_DIAG_CLASS_ID: u16 = 17;
/// `TCP_ESTABLISHED`, `TCP_FIN_WAIT1` and `TCP_FIN_WAIT2`: those to which bytes still come.
const STATES: u32 = (1 << 1) | (1 << 4) | (1 << 5);
/// Length of `struct inet_diag_msg`, and of the request.
const MESSAGE: usize = 72;
const REQUEST: usize = 56;

/// What a connection has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The kernel's number of its socket, never reused.
    pub cookie: u64,
    /// Bytes so far.
    pub bytes: u64,
    /// Packets that came out of order so far.
    pub out_of_order: u32,
    /// The priority of its socket (`SO_PRIORITY`), or the class of its control group.
    pub priority: u32,
    /// Whether both ends have the same address.
    pub is_within_host: bool,
}

/// Lists the connections of the network namespace in which it was opened.
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
    /// If the kernel lacks sock_diag, or there are too many open files.
    pub fn open() -> io::Result<Connections> {
        Ok(Connections {
            socket: netlink::open(Some(SOCK_DIAG), 0, SocketFlags::empty())?,
            buffer: vec![0; 64 << 10],
        })
    }

    /// Adds those that are there, of IPv4 and IPv6.
    ///
    /// # Errors
    ///
    /// If the kernel cannot list them.
    pub fn list(&mut self, arrived: &mut Vec<Arrived>) -> io::Result<()> {
        for family in [libc::AF_INET, libc::AF_INET6] {
            match self.dump(family as u8, arrived) {
                // A kernel without IPv6.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
                other => other?,
            }
        }
        Ok(())
    }

    fn dump(&mut self, family: u8, arrived: &mut Vec<Arrived>) -> io::Result<()> {
        send(&self.socket, &request(family), SendFlags::empty())?;
        loop {
            let len = match recv(&self.socket, &mut self.buffer, RecvFlags::empty()) {
                Ok((len, _)) => len,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            if parse(&self.buffer[..len], arrived)? {
                return Ok(());
            }
        }
    }
}

fn request(family: u8) -> Vec<u8> {
    let wanted = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_TCLASS - 1);
    let mut body = vec![family, libc::IPPROTO_TCP as u8, wanted, 0];
    body.extend(STATES.to_ne_bytes());
    body.resize(REQUEST, 0);
    netlink::request(SOCK_DIAG_BY_FAMILY, libc::NLM_F_DUMP, &body)
}

/// Adds the connections of a datagram. Returns true if it is the last of an answer.
fn parse(datagram: &[u8], arrived: &mut Vec<Arrived>) -> io::Result<bool> {
    for (kind, body) in netlink::messages(datagram) {
        match kind {
            kind if i32::from(kind) == libc::NLMSG_DONE => return Ok(true),
            kind if i32::from(kind) == libc::NLMSG_ERROR => {
                let error = netlink::error_number(body).unwrap_or(0);
                return Err(io::Error::from_raw_os_error(error));
            }
            SOCK_DIAG_BY_FAMILY => arrived.extend(connection(body)),
            _ => {}
        }
    }
    Ok(false)
}

/// Parses `struct inet_diag_msg` and the attributes that follow it; `None` without counts.
fn connection(body: &[u8]) -> Option<Arrived> {
    let attributes = body.get(MESSAGE..)?;
    let info = TcpInfo::parse(netlink::find_attribute(attributes, INET_DIAG_INFO)?);
    let class = netlink::find_attribute(attributes, INET_DIAG_CLASS_ID);
    let class = class.and_then(|class| field(class, 0));
    let cookie = |at| field(body, at).map(u32::from_ne_bytes).map(u64::from);
    Some(Arrived {
        cookie: cookie(44)? | cookie(48)? << 32,
        bytes: info.tcpi_bytes_received,
        out_of_order: info.out_of_order().unwrap_or(0),
        priority: class.map_or(0, u32::from_ne_bytes),
        is_within_host: body[8..24] == body[24..40],
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv6Addr, TcpListener, TcpStream};

    use super::*;
    use crate::sockopt;

    fn list() -> Vec<Arrived> {
        let mut arrived = Vec::new();
        Connections::open().unwrap().list(&mut arrived).unwrap();
        arrived
    }

    #[test]
    fn what_a_connection_has_received_is_listed_with_its_priority() {
        for address in ["127.0.0.1".parse().unwrap(), Ipv6Addr::LOCALHOST.into()] {
            let address: std::net::IpAddr = address;
            let Ok(listener) = TcpListener::bind((address, 0)) else {
                continue;
            };
            let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut receiver, _) = listener.accept().unwrap();
            sockopt::set_priority(&receiver, 1).unwrap();
            sender.write_all(&[0; 1000]).unwrap();
            receiver.read_exact(&mut [0; 1000]).unwrap();
            let cookie = sockopt::cookie(&receiver).unwrap();
            let found = list().into_iter().find(|found| found.cookie == cookie);
            let expected = Arrived {
                cookie,
                bytes: 1000,
                out_of_order: 0,
                priority: 1,
                is_within_host: true,
            };
            assert_eq!(found, Some(expected));
            drop((sender, receiver));
        }
    }

    #[test]
    fn an_answer_that_is_cut_off_is_no_connection() {
        let mut body = vec![0; MESSAGE];
        assert_eq!(connection(&body), None);
        body.extend([8, 0, 2, 0, 1]);
        assert_eq!(connection(&body), None);
        assert_eq!(connection(&body[..40]), None);
    }
}
