//! Whether the other end of a connection can still be reached. Without these options a lost network is
//! noticed after a quarter of an hour if something is to be sent, and never if not.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// Has the kernel end the connection if the other end acknowledges nothing for `patience`: neither data
/// (`TCP_USER_TIMEOUT`, RFC 5482) nor, while there are none, the probes of `SO_KEEPALIVE`, the first of them
/// after half of the time.
///
/// A receiver that is reached but takes nothing (a window of zero) is also ended then.
///
/// # Errors
/// The kernel's.
pub fn limit_silence(socket: SockRef<'_>, patience: Duration) -> io::Result<()> {
    let second = Duration::from_secs(1);
    let probes = TcpKeepalive::new()
        .with_time((patience / 2).max(second))
        .with_interval((patience / 6).max(second));
    socket.set_tcp_keepalive(&probes)?;
    socket.set_tcp_user_timeout(Some(patience))
}
