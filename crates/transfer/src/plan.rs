//! Options of a data socket that are fixed before it connects or listens.
//!
//! A receive buffer set before the handshake fixes the window scale of RFC 7323 for the life of the
//! connection, so a window that is to grow later has to be known here.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::str::FromStr;

use rustix::net::sockopt;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::{Direction, buffers};

/// Options of a data socket, applied before it connects or listens. Sizes are in bytes as passed to
/// setsockopt; the kernel doubles them for its own bookkeeping and, without `CAP_NET_ADMIN`, caps them at
/// `net.core.[rw]mem_max`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SocketPlan {
    /// `SO_SNDBUF`, bytes; none leaves the kernel's autotuning on.
    pub send_buffer: Option<u32>,
    /// `SO_RCVBUF`, bytes; none leaves the kernel's autotuning on.
    pub receive_buffer: Option<u32>,
    /// The largest receive window that the connection may ever need, bytes: the window scale is chosen
    /// for it, though the buffer begins smaller.
    pub window_scale_for: Option<u32>,
    /// `TCP_CONGESTION`; none leaves the kernel's default.
    pub congestion_control: Option<String>,
}

/// A buffer size as given on the command line: `auto`, or bytes with an optional unit (`64KiB`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Buffer {
    /// Left to the kernel's autotuning.
    #[default]
    Auto,
    /// A fixed size, bytes.
    Fixed(u32),
}

impl Buffer {
    /// Bytes, if fixed.
    pub fn bytes(self) -> Option<u32> {
        match self {
            Self::Auto => None,
            Self::Fixed(bytes) => Some(bytes),
        }
    }
}

impl FromStr for Buffer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let factor: u64 = match unit.trim() {
            "" | "B" => 1,
            "kB" | "KB" => 1_000,
            "KiB" | "k" | "K" => 1 << 10,
            "MB" => 1_000_000,
            "MiB" | "M" => 1 << 20,
            "GiB" | "G" => 1 << 30,
            _ => {
                return Err(format!(
                    "{text:?} is not a buffer size: auto, 64KiB, 16MB, 4194304, …"
                ));
            }
        };
        number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(factor))
            .filter(|bytes| (1..=1 << 30).contains(bytes))
            .map(|bytes| Self::Fixed(bytes as u32))
            .ok_or_else(|| format!("{text:?} is not a buffer size: auto, or 1 B to 1 GiB"))
    }
}

impl SocketPlan {
    /// A plan with the same size for both buffers of the socket.
    pub fn with_buffer(buffer: Buffer) -> Self {
        Self {
            send_buffer: buffer.bytes(),
            receive_buffer: buffer.bytes(),
            ..Self::default()
        }
    }

    /// A TCP socket for `address`'s family, neither bound nor connected, with these options.
    ///
    /// # Errors
    /// If the socket cannot be created or an option cannot be set; the error names a congestion control
    /// that was refused.
    pub fn socket(&self, address: SocketAddr) -> io::Result<Socket> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        self.apply(&socket)?;
        Ok(socket)
    }

    /// A non-blocking listening socket at `address`, with these options; connections inherit them. The
    /// port may still belong to connections that are closed (TIME_WAIT) or open, if they were accepted by
    /// a socket like this one: the host that sends a file closes first and would otherwise keep its port
    /// for a minute.
    ///
    /// # Errors
    /// As [`socket`](Self::socket), and if the socket cannot be bound.
    pub fn listen(&self, address: SocketAddr) -> io::Result<Socket> {
        let socket = self.socket(address)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.set_nonblocking(true)?;
        // Room for the data connection, the right-sizing connection beside it, and one or two from elsewhere.
        socket.listen(4)?;
        Ok(socket)
    }

    /// To be called once the connection is open, for it and for the socket that accepted it: returns a
    /// receive buffer that was widened for the sake of the window scale to the planned size, or to
    /// autotuning.
    ///
    /// # Errors
    /// If a socket option cannot be read or set.
    pub fn settle(&self, socket: SockRef<'_>) -> io::Result<()> {
        match (self.receive_buffer, self.window_scale_for) {
            (Some(bytes), Some(scale)) if scale > bytes => {
                buffers::set(&*socket, Direction::Receive, bytes).map(drop)
            }
            (None, Some(scale)) if buffers::is_widened(&*socket, scale)? => {
                buffers::settle_window_scale(&*socket)
            }
            _ => Ok(()),
        }
    }

    fn apply(&self, socket: &Socket) -> io::Result<()> {
        if let Some(bytes) = self.send_buffer {
            buffers::set(socket, Direction::Send, bytes)?;
        }
        match (self.receive_buffer, self.window_scale_for) {
            // A buffer that is set determines the scale alone.
            (Some(bytes), scale) => {
                buffers::set(socket, Direction::Receive, bytes.max(scale.unwrap_or(0)))?;
            }
            (None, Some(scale)) => buffers::prepare_window_scale(socket, scale)?,
            (None, None) => {}
        }
        if let Some(name) = &self.congestion_control {
            sockopt::set_tcp_congestion(socket.as_fd(), name)
                .map_err(|error| io::Error::other(format!("congestion control {name}: {error}")))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_auto_or_bytes_with_a_unit() {
        assert_eq!("auto".parse(), Ok(Buffer::Auto));
        assert_eq!("64KiB".parse(), Ok(Buffer::Fixed(65_536)));
        assert_eq!("16MB".parse(), Ok(Buffer::Fixed(16_000_000)));
        assert_eq!("4194304".parse(), Ok(Buffer::Fixed(4_194_304)));
        assert!("64 parsecs".parse::<Buffer>().is_err());
        assert!("0".parse::<Buffer>().is_err());
        assert!("2GiB".parse::<Buffer>().is_err());
    }
}
