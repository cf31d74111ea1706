//! `TCP_INFO`: what the kernel reports about a TCP connection.
//!
//! Source: struct tcp_info in include/uapi/linux/tcp.h. It only ever grows at its end, so an older kernel
//! writes less of it.

use std::io;
use std::mem::{offset_of, size_of};
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr;
use std::time::Duration;

use crate::sockopt;

const LEN: usize = size_of::<libc::tcp_info>();
/// Offset of a bit field that libc's structure omits: `tcpi_delivery_rate_app_limited` and others.
const FLAGS: usize = 7;

/// The kernel's `struct tcp_info`. Fields that the kernel is too old for are zero.
#[derive(Clone, Copy)]
pub struct TcpInfo {
    fields: libc::tcp_info,
    flags: u8,
    /// Bytes that the kernel wrote.
    written: usize,
}

impl TcpInfo {
    /// Asks the kernel.
    ///
    /// # Errors
    ///
    /// If this is not a TCP socket.
    pub fn of(socket: impl AsFd) -> io::Result<TcpInfo> {
        let mut bytes = [0; LEN];
        let written = sockopt::get(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
        Ok(TcpInfo::parse(&bytes[..written]))
    }

    /// The structure as the kernel has written it, here or in a message of `sock_diag`.
    pub fn parse(bytes: &[u8]) -> TcpInfo {
        let written = bytes.len().min(LEN);
        let mut whole = [0; LEN];
        whole[..written].copy_from_slice(&bytes[..written]);
        TcpInfo {
            // SAFETY: the structure consists of integers, for which every bit pattern is valid.
            fields: unsafe { ptr::read_unaligned(whole.as_ptr().cast()) },
            flags: whole[FLAGS],
            written,
        }
    }

    /// The shortest recent round-trip time (`tcpi_min_rtt`); `None` before the first sample.
    pub fn min_rtt(&self) -> Option<Duration> {
        // All ones before the first sample.
        let sampled = (1..u32::MAX).contains(&self.fields.tcpi_min_rtt);
        sampled.then(|| Duration::from_micros(self.fields.tcpi_min_rtt.into()))
    }

    /// The round-trip time as the receiver knows it (`tcpi_rcv_rtt`): from time stamps that come back, or the time in
    /// which a window arrives; `None` before the first sample.
    pub fn receive_rtt(&self) -> Option<Duration> {
        let us = self.fields.tcpi_rcv_rtt;
        (us > 0).then(|| Duration::from_micros(us.into()))
    }

    /// Whether the latest sample of the delivery rate was limited by the application, which had no more to
    /// send (Linux 4.9).
    pub fn application_limited(&self) -> bool {
        let bit = if cfg!(target_endian = "big") {
            0x80
        } else {
            0x01
        };
        self.flags & bit != 0
    }

    /// The window that was last offered, bytes (`tcpi_rcv_wnd`); `None` before Linux 6.2.
    pub fn receive_window(&self) -> Option<u32> {
        let end = offset_of!(libc::tcp_info, tcpi_rcv_wnd) + size_of::<u32>();
        (self.written >= end).then_some(self.fields.tcpi_rcv_wnd)
    }

    /// Packets received out of order (`tcpi_rcv_ooopack`); `None` before Linux 5.4.
    pub fn out_of_order(&self) -> Option<u32> {
        let end = offset_of!(libc::tcp_info, tcpi_rcv_ooopack) + size_of::<u32>();
        (self.written >= end).then_some(self.fields.tcpi_rcv_ooopack)
    }
}

impl Deref for TcpInfo {
    type Target = libc::tcp_info;

    fn deref(&self) -> &libc::tcp_info {
        &self.fields
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn fields_are_where_the_kernel_has_them() {
        let mut bytes = [0; 248];
        bytes[FLAGS] = if cfg!(target_endian = "big") {
            0x80
        } else {
            0x01
        };
        bytes[92] = 5;
        bytes[100] = 3;
        bytes[128] = 9;
        bytes[148..152].copy_from_slice(&10_000u32.to_ne_bytes());
        bytes[156] = 7;
        bytes[224] = 4;
        bytes[240] = 2;
        let info = TcpInfo::parse(&bytes);
        assert!(info.application_limited());
        assert_eq!(info.receive_rtt(), Some(Duration::from_micros(5)));
        assert_eq!(info.tcpi_total_retrans, 3);
        assert_eq!(info.tcpi_bytes_received, 9);
        assert_eq!(info.min_rtt(), Some(Duration::from_millis(10)));
        assert_eq!(info.tcpi_data_segs_out, 7);
        assert_eq!(info.out_of_order(), Some(4));
        assert_eq!(info.tcpi_total_rto, 2);
    }

    #[test]
    fn an_older_kernel_writes_less() {
        let info = TcpInfo::parse(&[0xff; 224]);
        assert_eq!(info.tcpi_total_rto, 0);
        assert_eq!(info.out_of_order(), None);
        assert_eq!(info.min_rtt(), None, "nothing was measured");
    }

    #[test]
    fn a_connection_reports_itself_and_a_udp_socket_does_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = TcpInfo::of(&stream).unwrap();
        assert!(info.min_rtt().unwrap() < Duration::from_secs(1));
        assert_eq!(info.tcpi_total_retrans, 0);
        assert!(TcpInfo::of(UdpSocket::bind("127.0.0.1:0").unwrap()).is_err());
    }
}
