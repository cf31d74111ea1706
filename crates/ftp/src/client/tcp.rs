//! The client's own watcher, which reports progress and stops a transfer on request, and the counters of TCP.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use fairwind_kernel::TcpInfo;
use fairwind_transfer::{Meter, TransferWatcher};
use serde::Serialize;

use super::Progress;

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
    pub fn reporting(self, file: usize, first: u64) -> Self {
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

/// Reads the counters; `None` if the socket is not a TCP socket.
pub fn counts(socket: impl AsFd) -> Option<TcpCounts> {
    let info = TcpInfo::of(socket).ok()?;
    Some(TcpCounts {
        retransmits: info.tcpi_total_retrans.into(),
        min_rtt_ms: info.min_rtt().map(|time| time.as_secs_f64() * 1e3),
        rtt_ms: f64::from(info.tcpi_rtt) / 1e3,
        out_of_order: info.out_of_order().map(u64::from),
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
