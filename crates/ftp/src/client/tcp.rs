//! The client's own watcher, which reports progress and stops a transfer on request, and the counters of TCP.

use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use serde::Serialize;

use super::Progress;
use crate::data::{Meter, TransferWatcher, sampled};

/// Stops a transfer when the user asks for it.
pub struct ProgressWatcher<'a> {
    progress: Arc<dyn Progress>,
    meter: &'a Meter,
    file: Option<(usize, u64)>,
}

impl<'a> ProgressWatcher<'a> {
    /// For a transfer with this meter.
    pub fn new(progress: Arc<dyn Progress>, meter: &'a Meter) -> Self {
        Self {
            progress,
            meter,
            file: None,
        }
    }

    /// Also reports progress of file number `file`, of which the transfer starts at byte `first`.
    pub fn telling(self, file: usize, first: u64) -> Self {
        Self {
            file: Some((file, first)),
            ..self
        }
    }
}

impl TransferWatcher for ProgressWatcher<'_> {
    fn started(&mut self, _: BorrowedFd<'_>, _: Option<u64>) {
        if let Some((file, first)) = self.file {
            self.progress.begins(file, first);
        }
    }

    fn progressed(&mut self, moved: u64) {
        if let Some((file, first)) = self.file {
            self.progress.reaches(file, first + moved);
        }
        if self.progress.stopped() {
            self.meter.stop();
        }
    }

    fn ended(&mut self, _: u64) {}
}

/// The kernel's counters for a data connection (`TCP_INFO`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct TcpCounts {
    /// Segments retransmitted by this host.
    pub retransmits: u64,
    /// Smallest round-trip time measured, milliseconds; `None` before the first measurement.
    pub min_rtt_ms: Option<f64>,
    /// Smoothed round-trip time, milliseconds.
    pub rtt_ms: f64,
    /// Packets received out of order, if the kernel counts them: a sign of losses on the way from the peer.
    pub out_of_order: Option<u64>,
}

/// The kernel's `struct tcp_info` up to the fields that Linux 5.4 added, `tcpi_rcv_ooopack` and
/// `tcpi_snd_wnd`: libc's definition is shorter.
#[repr(C)]
struct Extended {
    head: [u8; 68],
    rtt: u32,
    middle: [u32; 7],
    total_retrans: u32,
    rates: [u64; 4],
    segments: [u32; 2],
    notsent_bytes: u32,
    min_rtt: u32,
    data_segments: [u32; 2],
    times: [u64; 4],
    delivered: [u32; 2],
    bytes: [u64; 2],
    dsack_dups: u32,
    reord_seen: u32,
    rcv_ooopack: u32,
    snd_wnd: u32,
}

const _: () = {
    assert!(offset_of!(Extended, rtt) == 68);
    assert!(offset_of!(Extended, total_retrans) == 100);
    assert!(offset_of!(Extended, min_rtt) == 148);
    assert!(offset_of!(Extended, rcv_ooopack) == 224);
};

/// Reads the counters; `None` if the socket is not a TCP socket.
pub fn counts(socket: impl AsFd) -> Option<TcpCounts> {
    let mut info = MaybeUninit::<Extended>::zeroed();
    let mut length = size_of::<Extended>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which `info` has; all of its fields are
    // integers, for which zeroes are values.
    let info = unsafe {
        let descriptor = socket.as_fd().as_raw_fd();
        let place = info.as_mut_ptr().cast();
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
        if libc::getsockopt(descriptor, level, name, place, &mut length) != 0 {
            return None;
        }
        info.assume_init()
    };
    let written = length as usize;
    Some(TcpCounts {
        retransmits: info.total_retrans.into(),
        min_rtt_ms: sampled(info.min_rtt).map(|time| time.as_secs_f64() * 1e3),
        rtt_ms: f64::from(info.rtt) / 1e3,
        out_of_order: (written >= offset_of!(Extended, snd_wnd)).then_some(info.rcv_ooopack.into()),
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_on_one_host_has_a_short_round_trip_and_loses_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let counts = counts(&stream).unwrap();
        assert_eq!((counts.retransmits, counts.out_of_order), (0, Some(0)));
        assert!((0.001..1_000.0).contains(&counts.rtt_ms), "{counts:?}");
    }
}
