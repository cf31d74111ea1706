//! `TCP_INFO`: the kernel's counts of a connection.
//!
//! Source: struct tcp_info in include/uapi/linux/tcp.h. It only ever grows at its end, so a field
//! exists if the kernel's answer is long enough.

use fairwind_path::units::Duration;

/// Bytes of the structure that are read at most.
pub const TCP_INFO_LEN: usize = 248;
/// `tcpi_min_rtt` before the first measurement.
const NOT_MEASURED: u32 = u32::MAX;

/// Counts of a connection's sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `tcpi_total_retrans`.
    pub retransmits: u64,
    /// `tcpi_total_rto`, since Linux 6.7.
    pub timeouts: u64,
    /// `tcpi_data_segs_out`, retransmissions included.
    pub packets: u64,
    /// `tcpi_bytes_received`.
    pub bytes_received: u64,
    /// `tcpi_min_rtt`.
    pub rtt_min: Option<Duration>,
}

impl Counts {
    /// Parses what the kernel has written.
    pub fn parse(info: &[u8]) -> Counts {
        let word = |at: usize| number::<4>(info, at).map_or(0, u32::from_ne_bytes);
        let rtt_min = number(info, 148).map(u32::from_ne_bytes);
        Counts {
            retransmits: word(100).into(),
            timeouts: number(info, 240).map_or(0, |bytes| u16::from_ne_bytes(bytes).into()),
            packets: word(156).into(),
            bytes_received: number(info, 128).map_or(0, u64::from_ne_bytes),
            rtt_min: rtt_min
                .filter(|&us| us != NOT_MEASURED && us != 0)
                .map(|us| Duration::from_micros(us.into())),
        }
    }

    /// Adds the difference between `now` and `before`.
    pub fn add_since(&mut self, now: Counts, before: Counts) {
        self.retransmits += now.retransmits.saturating_sub(before.retransmits);
        self.timeouts += now.timeouts.saturating_sub(before.timeouts);
        self.packets += now.packets.saturating_sub(before.packets);
        self.bytes_received += now.bytes_received.saturating_sub(before.bytes_received);
        self.rtt_min = match (self.rtt_min, now.rtt_min) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// Resets the counts at the end of the warm-up; the smallest round-trip time stays.
    pub fn restart(&mut self) {
        *self = Counts {
            rtt_min: self.rtt_min,
            ..Counts::default()
        };
    }
}

fn number<const N: usize>(info: &[u8], at: usize) -> Option<[u8; N]> {
    info.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_where_the_kernel_has_them() {
        let mut info = [0; TCP_INFO_LEN];
        info[100] = 3;
        info[128] = 9;
        info[148..152].copy_from_slice(&10_000u32.to_ne_bytes());
        info[156] = 7;
        info[240] = 2;
        let counts = Counts::parse(&info);
        let expected = Counts {
            retransmits: 3,
            timeouts: 2,
            packets: 7,
            bytes_received: 9,
            rtt_min: Some(Duration::from_millis(10)),
        };
        assert_eq!(counts, expected);
        // A kernel before 6.7 writes less.
        assert_eq!(Counts::parse(&info[..232]).timeouts, 0);
    }

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
