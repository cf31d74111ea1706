//! The applications' sockets: creation, options, and closing.
//!
//! Source: tcp(7), socket(7), udp(7); net/ipv4/tcp.c and net/core/sock.c of Linux 6.18.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use fairwind_kernel::TcpInfo;
use fairwind_kernel::sockopt::{
    enter_repair_mode, set_max_pacing_rate, set_max_segment_size, set_notsent_lowat, unacknowledged,
};
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_linger, set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force,
    set_tcp_congestion, set_tcp_nodelay, socket_error,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, acceptfrom_with, bind,
    getsockname, recv, socket_with,
};

use super::counts::Counts;
use super::plan::SocketOptions;

/// Bytes that the time stamp option takes of each segment.
const TIMESTAMP_OPTION: u32 = 12;
/// Most connections that may wait to be accepted; the namespace must allow it.
pub(super) const BACKLOG: i32 = 65_535;
/// Receive buffer for datagrams, bytes as the kernel counts them: 10 ms at 1 Gbit/s in the smallest
/// packets.
const DATAGRAM_BUFFER: usize = 32 << 20;
/// Most bytes that an on-off sender gives the kernel ahead of transmission; they cannot be taken
/// back at the end of an on period.
const NOTSENT_LOWAT: u32 = 32 << 10;

/// An option or call that the kernel refused, with the error.
#[derive(Debug)]
pub(super) struct Refused {
    pub what: String,
    pub error: io::Error,
}

fn refused<E: Into<io::Error>>(what: impl Into<String>) -> impl FnOnce(E) -> Refused {
    let what = what.into();
    move |error| Refused {
        what,
        error: error.into(),
    }
}

/// Creates a non-blocking TCP socket in the calling thread's network namespace.
pub(super) fn stream() -> io::Result<OwnedFd> {
    socket(SocketType::STREAM)
}

fn socket(kind: SocketType) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(AddressFamily::INET, kind, flags, None)?)
}

/// Sets the options of a sender's socket before it connects. `timestamps`: whether its host uses
/// the time stamp option.
pub(super) fn set_up_sender(
    socket: &OwnedFd,
    options: &SocketOptions,
    timestamps: bool,
) -> Result<(), Refused> {
    set_tcp_nodelay(socket, true).map_err(refused("TCP_NODELAY"))?;
    if let Some(control) = &options.congestion_control {
        set_tcp_congestion(socket, control)
            .map_err(refused(format!("the congestion control `{control}`")))?;
    }
    if let Some(mss) = options.mss {
        let mss = mss + if timestamps { TIMESTAMP_OPTION } else { 0 };
        set_max_segment_size(socket, mss).map_err(refused(format!("an mss of {mss} bytes")))?;
    }
    if let Some(bytes) = options.send_buffer {
        set_socket_send_buffer_size_force(socket, half(bytes))
            .map_err(refused(format!("a send buffer of {bytes} bytes")))?;
    }
    if options.pacing {
        // Any finite limit makes TCP pace itself if the interface does not.
        let highest = u64::MAX - 1;
        set_max_pacing_rate(socket, Some(highest)).map_err(refused("SO_MAX_PACING_RATE"))?;
    }
    Ok(())
}

/// Lets a sender write only a little ahead of transmission.
pub(super) fn limit_unsent(socket: &OwnedFd) -> Result<(), Refused> {
    set_notsent_lowat(socket, NOTSENT_LOWAT).map_err(refused("TCP_NOTSENT_LOWAT"))
}

/// Listens on a TCP port of the calling thread's host. Accepted sockets inherit the options.
pub(super) fn listen(port: u16, options: &SocketOptions) -> Result<OwnedFd, Refused> {
    let listening = || format!("listening on TCP port {port}");
    let socket = stream().map_err(refused(listening()))?;
    if let Some(bytes) = options.receive_buffer {
        set_socket_recv_buffer_size_force(&socket, half(bytes))
            .map_err(refused(format!("a receive buffer of {bytes} bytes")))?;
    }
    bind(&socket, &any_address(port)).map_err(refused(listening()))?;
    rustix::net::listen(&socket, BACKLOG).map_err(refused(listening()))?;
    Ok(socket)
}

/// Opens a UDP socket that receives on a port of the calling thread's host.
pub(super) fn datagram_receiver(port: u16) -> Result<OwnedFd, Refused> {
    let opening = || format!("opening UDP port {port}");
    let socket = socket(SocketType::DGRAM).map_err(refused(opening()))?;
    set_socket_recv_buffer_size_force(&socket, DATAGRAM_BUFFER)
        .map_err(refused("SO_RCVBUFFORCE"))?;
    bind(&socket, &any_address(port)).map_err(refused(opening()))?;
    Ok(socket)
}

/// Opens a UDP socket in the calling thread's namespace that sends to an address.
pub(super) fn datagram_sender(to: SocketAddrV4) -> Result<OwnedFd, Refused> {
    let opening = || format!("opening a UDP socket for {to}");
    let socket = socket(SocketType::DGRAM).map_err(refused(opening()))?;
    connect(&socket, to).map_err(refused(opening()))?;
    Ok(socket)
}

fn any_address(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port)
}

/// The kernel doubles the size of a buffer that is set.
fn half(bytes: u64) -> usize {
    (bytes / 2).min(i32::MAX as u64) as usize
}

/// Connects, or starts connecting: `EINPROGRESS` is no error.
pub(super) fn connect(socket: &OwnedFd, to: SocketAddrV4) -> io::Result<()> {
    match rustix::net::connect(socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The local port.
pub(super) fn local_port(socket: &OwnedFd) -> io::Result<u16> {
    let address = SocketAddrV4::try_from(getsockname(socket)?)?;
    Ok(address.port())
}

/// Accepts the next connection, and returns it with the peer's port; `None` if none is waiting.
pub(super) fn accept(listener: &OwnedFd) -> io::Result<Option<(OwnedFd, u16)>> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    match acceptfrom_with(listener, flags) {
        Ok((socket, peer)) => {
            let peer = peer.and_then(|peer| SocketAddrV4::try_from(peer).ok());
            Ok(Some((socket, peer.map_or(0, |peer| peer.port()))))
        }
        Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sends as much as the kernel accepts at once. With the flag `MORE`, a partial segment waits for what follows.
pub(super) fn send(socket: &OwnedFd, bytes: &[u8], flags: SendFlags) -> Result<usize, Errno> {
    let flags = flags | SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::send(socket, bytes, flags)
}

/// Discards, without copying, what has arrived, at most as much as fits into `buffer`. For a datagram
/// it returns the whole length.
pub(super) fn discard(socket: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let (_, length) = recv(socket, buffer, RecvFlags::TRUNC | RecvFlags::DONTWAIT)?;
    Ok(length)
}

/// The kernel's counts of a connection; zero if they cannot be read.
pub(super) fn counts(socket: impl AsFd) -> Counts {
    TcpInfo::of(socket).map_or_else(|_| Counts::default(), Counts::from)
}

/// The connection's pending error, if any.
pub(super) fn pending_error(socket: &OwnedFd) -> Option<io::Error> {
    socket_error(socket).ok()?.err().map(io::Error::from)
}

/// Datagrams that the socket has dropped so far for lack of room.
pub(super) fn drops(socket: &OwnedFd) -> u64 {
    fairwind_kernel::sockopt::drops(socket).map_or(0, u64::from)
}

/// True if everything written has been acknowledged.
pub(super) fn is_drained(socket: &OwnedFd) -> bool {
    unacknowledged(socket).unwrap_or(0) == 0
}

/// Closes a connection without a packet, so that the path sees none that the simulator does not
/// send, and without TIME_WAIT, which would occupy its port. The peer's end must be closed in the
/// same way.
pub(super) fn close_silently(socket: OwnedFd) {
    // Without the privilege, the connection ends with a reset.
    if enter_repair_mode(&socket).is_err() {
        let _ = set_socket_linger(&socket, Some(Duration::ZERO));
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::sockopt::socket_send_buffer_size;

    use super::*;

    #[test]
    fn a_send_buffer_has_the_size_asked_for() {
        if !fairwind_testing::permitted(crate::privilege::check()) {
            return;
        }
        let socket = stream().unwrap();
        let options = SocketOptions {
            send_buffer: Some(100_000),
            ..SocketOptions::default()
        };
        set_up_sender(&socket, &options, true).unwrap();
        assert_eq!(socket_send_buffer_size(&socket).unwrap(), 100_000);
    }
}
