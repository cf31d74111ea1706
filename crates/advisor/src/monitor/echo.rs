//! ICMP echo (RFC 792, RFC 4443), unprivileged where the kernel allows it.
//!
//! Linux lets the groups of `net.ipv4.ping_group_range` send echo requests through datagram sockets; it
//! chooses the identifier and gives each socket only its own answers. Otherwise a raw socket is used, which
//! needs CAP_NET_RAW.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use thiserror::Error;
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// Timeout for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Why no round-trip time was measured.
#[derive(Debug, Error)]
pub(super) enum EchoError {
    /// Neither kind of socket is allowed.
    #[error(
        "no ICMP echo: give the group of this process to sysctl net.ipv4.ping_group_range \
         (\"0 2147483647\" for everybody), or the process CAP_NET_RAW"
    )]
    Forbidden,
    /// No answer came.
    #[error("no answer")]
    Silent,
    /// The kernel refused.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Sends echo requests.
#[derive(Debug)]
pub(super) struct Echo {
    kind: Type,
    /// Distinguishes the requests of this process.
    next: AtomicU32,
}

impl Echo {
    /// Determines which kind of socket is allowed.
    pub(super) fn open() -> Result<Echo, EchoError> {
        let allowed = |kind| Socket::new(Domain::IPV4, kind, Some(Protocol::ICMPV4)).is_ok();
        let kinds = [Type::DGRAM, Type::RAW];
        let kind = kinds.into_iter().find(|&kind| allowed(kind));
        Ok(Echo {
            kind: kind.ok_or(EchoError::Forbidden)?,
            next: AtomicU32::new(std::process::id() << 16),
        })
    }

    /// Sends one echo request and measures the time until its answer.
    pub(super) async fn round_trip(&self, address: IpAddr) -> Result<Duration, EchoError> {
        let (domain, protocol) = match address {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
        };
        let socket = Socket::new(domain, self.kind.nonblocking(), Some(protocol))?;
        socket.connect(&SocketAddr::new(address, 0).into())?;
        // Sending and receiving on a connected socket works alike for all kinds of datagrams.
        let socket = UdpSocket::from_std(socket.into())?;
        let request = Request::new(address, self.next.fetch_add(1, Ordering::Relaxed));
        let begin = Instant::now();
        socket.send(&request.packet).await?;
        match timeout(ANSWER_TIMEOUT, answered(&socket, &request)).await {
            Ok(result) => result.map(|()| begin.elapsed()),
            Err(_) => Err(EchoError::Silent),
        }
    }
}

async fn answered(socket: &UdpSocket, request: &Request) -> Result<(), EchoError> {
    let mut buffer = [0; 256];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if request.is_answered_by(&buffer[..length]) {
            return Ok(());
        }
    }
}

/// An echo request: the header, and a number in the payload, because datagram sockets change the identifier.
struct Request {
    packet: [u8; 16],
    /// The ICMP type of the answer.
    answer: u8,
}

impl Request {
    fn new(address: IpAddr, number: u32) -> Request {
        let (kind, answer) = match address {
            IpAddr::V4(_) => (8, 0),
            IpAddr::V6(_) => (128, 129),
        };
        let mut packet = [0; 16];
        packet[0] = kind;
        packet[4..8].copy_from_slice(&number.to_be_bytes());
        packet[8..12].copy_from_slice(b"fwnd");
        packet[12..16].copy_from_slice(&number.to_be_bytes());
        // For ICMPv6 the kernel computes the checksum, which also covers the pseudo-header.
        let checksum = checksum(&packet);
        packet[2..4].copy_from_slice(&checksum.to_be_bytes());
        Request { packet, answer }
    }

    /// Whether the packet answers this request. A raw IPv4 socket also returns the IP header.
    fn is_answered_by(&self, packet: &[u8]) -> bool {
        let header = match packet.first() {
            Some(first) if first >> 4 == 4 => usize::from(first & 15) * 4,
            _ => 0,
        };
        let Some(icmp) = packet
            .get(header..)
            .filter(|icmp| icmp.len() >= self.packet.len())
        else {
            return false;
        };
        icmp[0] == self.answer && icmp[8..16] == self.packet[8..16]
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let (words, _) = bytes.as_chunks::<2>();
    let sum: u32 = words
        .iter()
        .map(|&word| u32::from(u16::from_be_bytes(word)))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_of_a_packet_with_its_checksum_is_zero() {
        let request = Request::new("192.0.2.7".parse().unwrap(), 0x1234_5678);
        assert_eq!(checksum(&request.packet), 0);
        assert_eq!(
            checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            0x220d
        );
    }

    #[test]
    fn only_the_answer_to_the_request_is_one() {
        let request = Request::new("192.0.2.7".parse().unwrap(), 7);
        let mut answer = request.packet;
        assert!(
            !request.is_answered_by(&answer),
            "the request itself, as on loopback"
        );
        answer[0] = 0;
        assert!(request.is_answered_by(&answer));
        let mut with_header = vec![0x45; 20];
        with_header.extend(answer);
        assert!(request.is_answered_by(&with_header));
        answer[15] = 8;
        assert!(!request.is_answered_by(&answer));
        assert!(!request.is_answered_by(&[]) && !request.is_answered_by(&[0x4f]));
    }

    #[tokio::test]
    async fn this_machine_answers() {
        let needed = "ICMP echo is needed: ping_group_range or CAP_NET_RAW";
        let Some(echo) = fairwind_testing::or_skip(Echo::open().map_err(|_| needed)) else {
            return;
        };
        let rtt = echo.round_trip("127.0.0.1".parse().unwrap()).await.unwrap();
        assert!(rtt < ANSWER_TIMEOUT, "{rtt:?}");
    }
}
