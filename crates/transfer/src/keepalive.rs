//! Detection of an unreachable peer. Without these options a lost network is noticed after a quarter of
//! an hour if there is data to send, and never if there is none.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// The longest times that Linux accepts for keepalive probes (`MAX_TCP_KEEPIDLE`, `MAX_TCP_KEEPINTVL`).
const LONGEST_PROBING: Duration = Duration::from_secs(32_767);

/// The longest `TCP_USER_TIMEOUT`: 31 bits of milliseconds.
const LONGEST_SILENCE: Duration = Duration::from_millis(i32::MAX as u64);

/// Has the kernel end the connection if the peer acknowledges nothing for `patience`: neither data
/// (`TCP_USER_TIMEOUT`, RFC 5482) nor, while there are none, the probes of `SO_KEEPALIVE`, the first of
/// which is sent after half of that time.
///
/// A peer that is reachable but reads nothing (a window of zero) is cut off, too. Times longer than the
/// kernel accepts are reduced to its longest.
///
/// # Errors
/// If a socket option cannot be set.
pub fn limit_silence(socket: SockRef<'_>, patience: Duration) -> io::Result<()> {
    let probing = |time: Duration| time.clamp(Duration::from_secs(1), LONGEST_PROBING);
    let probes = TcpKeepalive::new()
        .with_time(probing(patience / 2))
        .with_interval(probing(patience / 6));
    socket.set_tcp_keepalive(&probes)?;
    socket.set_tcp_user_timeout(Some(patience.min(LONGEST_SILENCE)))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_kernel_takes_any_patience() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        for seconds in [0, 1, 65_535, 65_536, 1 << 22, u64::MAX] {
            let patience = Duration::from_secs(seconds);
            limit_silence(SockRef::from(&socket), patience)
                .unwrap_or_else(|error| panic!("{seconds} s: {error}"));
        }
    }
}
