//! The kernel's counts of a connection, before and after a warm-up.

use fairwind_kernel::TcpInfo;
use fairwind_path::units::Duration;

/// Counts of a connection's sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// `tcpi_total_retrans`.
    pub retransmits: u64,
    /// `tcpi_total_rto`, since Linux 6.7.
    pub timeouts: u64,
    /// `tcpi_delivered_ce`.
    pub ecn_signals: u64,
    /// `tcpi_data_segs_out`, retransmissions included.
    pub packets: u64,
    /// `tcpi_bytes_received`.
    pub bytes_received: u64,
    /// `tcpi_min_rtt`.
    pub rtt_min: Option<Duration>,
}

impl Counts {
    /// Adds the difference between `now` and `before`.
    pub(super) fn add_since(&mut self, now: Counts, before: Counts) {
        self.retransmits += now.retransmits.saturating_sub(before.retransmits);
        self.timeouts += now.timeouts.saturating_sub(before.timeouts);
        self.ecn_signals += now.ecn_signals.saturating_sub(before.ecn_signals);
        self.packets += now.packets.saturating_sub(before.packets);
        self.bytes_received += now.bytes_received.saturating_sub(before.bytes_received);
        self.rtt_min = match (self.rtt_min, now.rtt_min) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// Resets the counts at the end of the warm-up; the smallest round-trip time stays.
    pub(super) fn restart(&mut self) {
        *self = Counts {
            rtt_min: self.rtt_min,
            ..Counts::default()
        };
    }
}

impl From<TcpInfo> for Counts {
    fn from(info: TcpInfo) -> Counts {
        Counts {
            retransmits: info.tcpi_total_retrans.into(),
            timeouts: info.tcpi_total_rto.into(),
            ecn_signals: info.tcpi_delivered_ce.into(),
            packets: info.tcpi_data_segs_out.into(),
            bytes_received: info.tcpi_bytes_received,
            rtt_min: info
                .min_rtt()
                .map(|rtt| Duration::from_micros(rtt.as_micros() as u64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_what_came_after_the_warmup() {
        let counts = |retransmits, rtt_ms| Counts {
            retransmits,
            rtt_min: Some(Duration::from_millis(rtt_ms)),
            ..Counts::default()
        };
        let mut total = counts(5, 20);
        total.restart();
        total.add_since(counts(9, 30), counts(6, 30));
        assert_eq!(total, counts(3, 20));
    }
}
