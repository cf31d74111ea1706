//! The applications' sockets: creation, options, and closing.
//!
//! Source: tcp(7), socket(7), udp(7); net/ipv4/tcp.c and net/core/sock.c of Linux 6.18.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use fairwind_kernel::TcpInfo;
use nix::errno::Errno;

use super::counts::Counts;
use super::plan::SocketOptions;

/// Bytes that the time stamp option takes of each segment.
const TIMESTAMP_OPTION: u32 = 12;
/// Most connections that may wait to be accepted; the namespace must allow it.
pub const BACKLOG: i32 = 65_535;
/// Receive buffer for datagrams, bytes as the kernel counts them: 10 ms at 1 Gbit/s in the smallest
/// packets.
const DATAGRAM_BUFFER: u64 = 32 << 20;
/// Most bytes that an on-off sender gives the kernel ahead of transmission; they cannot be taken
/// back at the end of an on period.
const AHEAD_OF_SENDING: i32 = 32 << 10;

/// An option or call that the kernel refused, with the error.
#[derive(Debug)]
pub struct Refused {
    pub what: String,
    pub error: io::Error,
}

fn refused(what: impl Into<String>) -> impl FnOnce(io::Error) -> Refused {
    let what = what.into();
    move |error| Refused { what, error }
}

/// Creates a non-blocking TCP socket in the calling thread's network namespace.
pub fn stream() -> io::Result<OwnedFd> {
    socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK)
}

fn socket(kind: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    let fd = unsafe { libc::socket(libc::AF_INET, kind | libc::SOCK_CLOEXEC, 0) };
    let fd = Errno::result(fd)?;
    // SAFETY: the descriptor has just been opened and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets the options of a sender's socket before it connects. `timestamps`: whether its host uses
/// the time stamp option.
pub fn set_up_sender(
    socket: &impl AsRawFd,
    options: &SocketOptions,
    timestamps: bool,
) -> Result<(), Refused> {
    set_integer(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1).map_err(refused("TCP_NODELAY"))?;
    if let Some(control) = &options.congestion_control {
        set_congestion_control(socket, control)
            .map_err(refused(format!("the congestion control `{control}`")))?;
    }
    if let Some(mss) = options.mss {
        let mss = mss + if timestamps { TIMESTAMP_OPTION } else { 0 };
        set_integer(socket, libc::IPPROTO_TCP, libc::TCP_MAXSEG, integer(mss))
            .map_err(refused(format!("an mss of {mss} bytes")))?;
    }
    if let Some(bytes) = options.send_buffer {
        // The kernel doubles the value.
        let half = integer(bytes / 2);
        set_integer(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, half)
            .map_err(refused(format!("a send buffer of {bytes} bytes")))?;
    }
    if options.pacing {
        // Any finite limit makes TCP pace itself if the interface does not.
        let highest = u64::MAX - 1;
        set(
            socket,
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            &highest.to_ne_bytes(),
        )
        .map_err(refused("SO_MAX_PACING_RATE"))?;
    }
    Ok(())
}

/// Lets a sender write only a little ahead of transmission.
pub fn keep_little_ahead(socket: &impl AsRawFd) -> Result<(), Refused> {
    set_integer(
        socket,
        libc::IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
        AHEAD_OF_SENDING,
    )
    .map_err(refused("TCP_NOTSENT_LOWAT"))
}

/// Listens on a TCP port of the calling thread's host. Accepted sockets inherit the options.
pub fn listen(port: u16, options: &SocketOptions) -> Result<OwnedFd, Refused> {
    let listening = || format!("listening on TCP port {port}");
    let socket = stream().map_err(refused(listening()))?;
    if let Some(bytes) = options.receive_buffer {
        // The kernel doubles the value.
        let half = integer(bytes / 2);
        set_integer(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, half)
            .map_err(refused(format!("a receive buffer of {bytes} bytes")))?;
    }
    bind(&socket, port).map_err(refused(listening()))?;
    // SAFETY: the call takes numbers only.
    let done = unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) };
    Errno::result(done).map_err(|error| refused(listening())(error.into()))?;
    Ok(socket)
}

/// Opens a UDP socket that receives on a port of the calling thread's host.
pub fn datagram_receiver(port: u16) -> Result<OwnedFd, Refused> {
    let opening = || format!("opening UDP port {port}");
    let socket = socket(libc::SOCK_DGRAM | libc::SOCK_NONBLOCK).map_err(refused(opening()))?;
    set_integer(
        &socket,
        libc::SOL_SOCKET,
        libc::SO_RCVBUFFORCE,
        integer(DATAGRAM_BUFFER),
    )
    .map_err(refused("SO_RCVBUFFORCE"))?;
    bind(&socket, port).map_err(refused(opening()))?;
    Ok(socket)
}

/// Opens a UDP socket in the calling thread's namespace that sends to an address.
pub fn datagram_sender(to: SocketAddrV4) -> Result<OwnedFd, Refused> {
    let opening = || format!("opening a UDP socket for {to}");
    let socket = socket(libc::SOCK_DGRAM | libc::SOCK_NONBLOCK).map_err(refused(opening()))?;
    connect(&socket, to).map_err(refused(opening()))?;
    Ok(socket)
}

fn bind(socket: &impl AsRawFd, port: u16) -> io::Result<()> {
    let address = address(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port));
    // SAFETY: the address is a local structure of the given length.
    let done = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    Ok(Errno::result(done).map(drop)?)
}

/// Connects, or starts connecting: `EINPROGRESS` is no error.
pub fn connect(socket: &impl AsRawFd, to: SocketAddrV4) -> io::Result<()> {
    let address = address(to);
    // SAFETY: the address is a local structure of the given length.
    let done = unsafe {
        libc::connect(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    match Errno::result(done) {
        Ok(_) | Err(Errno::EINPROGRESS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn address(to: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: to.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(to.ip().octets()),
        },
        sin_zero: [0; 8],
    }
}

/// The local port.
pub fn local_port(socket: &impl AsRawFd) -> io::Result<u16> {
    let mut name = address(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
    let mut len = size_of_val(&name) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to a local structure.
    let done =
        unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut name).cast(), &raw mut len) };
    Errno::result(done)?;
    Ok(u16::from_be(name.sin_port))
}

/// Accepts the next connection, and returns it with the peer's port; `None` if none is waiting.
pub fn accept(listener: &impl AsRawFd) -> io::Result<Option<(OwnedFd, u16)>> {
    let mut name = address(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
    let mut len = size_of_val(&name) as libc::socklen_t;
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the kernel writes at most `len` bytes to a local structure.
    let fd = unsafe {
        libc::accept4(
            listener.as_raw_fd(),
            (&raw mut name).cast(),
            &raw mut len,
            flags,
        )
    };
    match Errno::result(fd) {
        // SAFETY: the descriptor has just been opened and has no other owner.
        Ok(fd) => Ok(Some((
            unsafe { OwnedFd::from_raw_fd(fd) },
            u16::from_be(name.sin_port),
        ))),
        Err(Errno::EAGAIN | Errno::ECONNABORTED | Errno::EINTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sends as much as the kernel accepts at once.
pub fn send(socket: &impl AsRawFd, bytes: &[u8]) -> Result<usize, Errno> {
    send_with(socket, bytes, 0)
}

/// Like [`send`] when more follows: a partial segment waits for it.
pub fn send_with_more_to_come(socket: &impl AsRawFd, bytes: &[u8]) -> Result<usize, Errno> {
    send_with(socket, bytes, libc::MSG_MORE)
}

fn send_with(socket: &impl AsRawFd, bytes: &[u8], flags: i32) -> Result<usize, Errno> {
    // SAFETY: the kernel reads from a slice of the given length.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            flags | libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        )
    };
    Errno::result(sent).map(|sent| sent as usize)
}

/// Discards, without copying, what has arrived, at most as much as fits into `room`. For a datagram
/// it returns the whole length.
pub fn discard(socket: &impl AsRawFd, room: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes, if at all, to a slice of the given length.
    let got = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            room.as_mut_ptr().cast(),
            room.len(),
            libc::MSG_TRUNC | libc::MSG_DONTWAIT,
        )
    };
    Errno::result(got).map(|got| got as usize)
}

/// Sets the congestion control, by the kernel's name.
pub fn set_congestion_control(socket: &impl AsRawFd, name: &str) -> io::Result<()> {
    set(
        socket,
        libc::IPPROTO_TCP,
        libc::TCP_CONGESTION,
        name.as_bytes(),
    )
}

/// The congestion control, by the kernel's name.
pub fn congestion_control(socket: &impl AsRawFd) -> io::Result<String> {
    let mut name = [0; 16];
    let len = get(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name)?;
    let name: Vec<u8> = name[..len]
        .iter()
        .copied()
        .take_while(|&byte| byte != 0)
        .collect();
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// The peer's address, if there is a peer and it has an IPv4 address.
pub fn peer(socket: &impl AsRawFd) -> Option<Ipv4Addr> {
    let mut name = [0u8; 28];
    let mut len = name.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to a local buffer.
    let done =
        unsafe { libc::getpeername(socket.as_raw_fd(), name.as_mut_ptr().cast(), &raw mut len) };
    Errno::result(done).ok()?;
    let octets = |at: usize| <[u8; 4]>::try_from(&name[at..at + 4]).ok();
    // struct sockaddr_in: family, port, address; sockaddr_in6: family, port, flow, address, whose
    // last four bytes are the IPv4 address.
    match i32::from(u16::from_ne_bytes([name[0], name[1]])) {
        libc::AF_INET => octets(4).map(Ipv4Addr::from),
        libc::AF_INET6 if name[18..20] == [0xff, 0xff] => octets(20).map(Ipv4Addr::from),
        _ => None,
    }
}

/// The kernel's counts of a connection; zero if they cannot be read.
pub fn counts(socket: impl AsFd) -> Counts {
    TcpInfo::of(socket).map_or_else(|_| Counts::default(), Counts::from)
}

/// The connection's pending error, if any.
pub fn pending_error(socket: &impl AsRawFd) -> Option<io::Error> {
    let mut error = [0; 4];
    get(socket, libc::SOL_SOCKET, libc::SO_ERROR, &mut error).ok()?;
    match i32::from_ne_bytes(error) {
        0 => None,
        error => Some(io::Error::from_raw_os_error(error)),
    }
}

/// Datagrams that the socket has dropped so far for lack of room.
pub fn drops(socket: &impl AsRawFd) -> u64 {
    const SO_MEMINFO: i32 = 55;
    const SK_MEMINFO_DROPS: usize = 8;
    let mut info = [0; 9 * 4];
    match get(socket, libc::SOL_SOCKET, SO_MEMINFO, &mut info) {
        Ok(len) if len == info.len() => {
            let at = 4 * SK_MEMINFO_DROPS;
            let drops = [info[at], info[at + 1], info[at + 2], info[at + 3]];
            u32::from_ne_bytes(drops).into()
        }
        _ => 0,
    }
}

/// True if everything written has been acknowledged.
pub fn is_drained(socket: &impl AsRawFd) -> bool {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes a local integer. SIOCOUTQ is TIOCOUTQ.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    done != 0 || bytes == 0
}

/// Closes a connection without a packet, so that the path sees none that the simulator does not
/// send, and without TIME_WAIT, which would occupy its port. The peer's end must be closed in the
/// same way.
pub fn vanish(socket: OwnedFd) {
    const TCP_REPAIR: i32 = 19;
    // Without the privilege, the connection ends with a reset.
    if set_integer(&socket, libc::IPPROTO_TCP, TCP_REPAIR, 1).is_err() {
        // struct linger: on, 0 s.
        let bytes = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
        let _ = set(&socket, libc::SOL_SOCKET, libc::SO_LINGER, &bytes);
    }
}

fn integer(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

/// Sets an integer option.
pub fn set_integer(socket: &impl AsRawFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    set(socket, level, option, &value.to_ne_bytes())
}

fn set(socket: &impl AsRawFd, level: i32, option: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads a slice of the given length.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    Ok(Errno::result(done).map(drop)?)
}

/// Reads an option; returns its length.
pub fn get(socket: &impl AsRawFd, level: i32, option: i32, value: &mut [u8]) -> io::Result<usize> {
    let mut len = value.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to a local buffer.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            option,
            value.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    Errno::result(done)?;
    Ok(len as usize)
}
