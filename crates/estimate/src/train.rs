//! A train as the control's state describes it: `struct train` of `cc/include/fairwind/estimate.h`.

/// Bytes of a control's state that describe a train: it is the state's first member.
pub const TRAIN_BYTES: usize = 55;

const APPLICATION: u8 = 1;
const RECEIVER: u8 = 2;
const SLOW: u8 = 4;
const FAST: u8 = 8;
const FIRST: u8 = 16;

/// Packets that were sent at one rate, and how their delay changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Train {
    /// Bursts, each of which is a sample of volume and time.
    pub samples: u32,
    /// Rate of sending, bytes of payload a second; 0 if unknown.
    pub sent: f64,
    /// Rate at which the receiver got them, bytes of payload a second; 0 if unknown.
    pub received: f64,
    /// Standard error of `received`, as a share of it; infinite with less than three samples.
    pub received_error: f64,
    /// Standard deviation of the times of its ACKs from those of an even rate, seconds.
    pub noise_s: f64,
    /// Packets of the train that its first ACK was of; 0 if there was none.
    pub open: u32,
    /// Round-trip time of that ACK, seconds.
    pub open_rtt_s: f64,
    /// Packets marked lost while the train was under way.
    pub lost: u32,
    /// Of the faster of two kinds.
    pub is_fast: bool,
    /// The connection's first window, which leaves at once.
    pub is_first: bool,
    /// What kept the train from being sent as it should have been.
    pub limit: Option<Limit>,
}

/// What limits the rate of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The application had nothing to send.
    Application,
    /// The receiver's window was full.
    Receiver,
    /// The host sends no faster.
    Host,
}

/// The number of trains that have ended, and the latest of them. `None` while another one's sums are
/// collected, before the first, or if `state` is shorter than [`TRAIN_BYTES`]. `mss` is the payload
/// of a packet in bytes.
///
/// `state` is the private state of a control that begins with a `struct train`, in the byte order of
/// this machine.
pub fn latest(state: &[u8], mss: u32) -> Option<(u16, Train)> {
    /// `TRAIN_SAMPLED`: the sums are incomplete.
    const SAMPLED: u8 = 2;
    let state: &[u8; TRAIN_BYTES] = state.first_chunk()?;
    let number = u16_at(state, 48);
    if number == 0 || state[53] == SAMPLED {
        return None;
    }
    let flags = state[52];
    let samples = u32::from(u16_at(state, 46));
    let sums = Sums {
        n: f64::from(samples),
        va: u64_at(state, 0) as f64,
        aa: u64_at(state, 8) as f64,
        vv: f64::from(u32_at(state, 16)),
        v: f64::from(u32_at(state, 20)),
        a: f64::from(u32_at(state, 24)),
    };
    let (packets_per_us, received_error, noise_us) = sums.slope();
    let sent_us = f64::from(u32_at(state, 32));
    let train = Train {
        samples,
        sent: match sent_us > 0.0 {
            true => f64::from(u32_at(state, 36)) * 1e6 / sent_us,
            false => 0.0,
        },
        received: packets_per_us * f64::from(mss) * 1e6,
        received_error,
        noise_s: noise_us / 1e6,
        open: u32::from(state[54]),
        open_rtt_s: f64::from(u32_at(state, 40)) / 1e6,
        lost: u32::from(u16_at(state, 50)),
        is_fast: flags & FAST != 0,
        is_first: flags & FIRST != 0,
        limit: match flags {
            _ if flags & RECEIVER != 0 => Some(Limit::Receiver),
            _ if flags & APPLICATION != 0 => Some(Limit::Application),
            _ if flags & SLOW != 0 => Some(Limit::Host),
            _ => None,
        },
    };
    Some((number, train))
}

/// Sums of a regression of the time of an ACK, microseconds, on the volume delivered, packets: what
/// is random is the time.
struct Sums {
    n: f64,
    va: f64,
    aa: f64,
    vv: f64,
    v: f64,
    a: f64,
}

impl Sums {
    /// Packets a microsecond, its standard error as a share of it, and the standard deviation of the
    /// times, microseconds; (0, infinite, 0) if unknown.
    fn slope(&self) -> (f64, f64, f64) {
        let spread = self.vv - self.v * self.v / self.n;
        let together = self.va - self.v * self.a / self.n;
        if self.n < 3.0 || spread <= 0.0 || together <= 0.0 {
            return (0.0, f64::INFINITY, 0.0);
        }
        let us_per_packet = together / spread;
        let left = (self.aa - self.a * self.a / self.n) - us_per_packet * together;
        let noise = (left.max(0.0) / (self.n - 2.0)).sqrt();
        let error = noise / spread.sqrt();
        (1.0 / us_per_packet, error / us_per_packet, noise)
    }
}

fn u16_at(state: &[u8; TRAIN_BYTES], at: usize) -> u16 {
    u16::from_ne_bytes([state[at], state[at + 1]])
}

fn u32_at(state: &[u8; TRAIN_BYTES], at: usize) -> u32 {
    let bytes = state[at..].first_chunk();
    u32::from_ne_bytes(*bytes.expect("the offsets are those of struct train"))
}

fn u64_at(state: &[u8; TRAIN_BYTES], at: usize) -> u64 {
    let bytes = state[at..].first_chunk();
    u64::from_ne_bytes(*bytes.expect("the offsets are those of struct train"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three samples: 0, 2 and 4 packets after 0, 3000 and 6000 us, sent in 2000 us.
    fn state() -> Vec<u8> {
        let mut state = Vec::new();
        for sum in [30_000_u64, 45_000_000] {
            state.extend(sum.to_ne_bytes());
        }
        for word in [20_u32, 6, 9000, 6000, 2000, 5792, 25_000] {
            state.extend(word.to_ne_bytes());
        }
        for half in [4_u16, 3, 7, 1] {
            state.extend(half.to_ne_bytes());
        }
        state.extend([FAST | SLOW, 0, 2]);
        state
    }

    #[test]
    fn rates_follow_from_the_sums() {
        let (number, train) = latest(&state(), 1448).unwrap();
        assert_eq!((number, train.samples, train.lost), (7, 3, 1));
        // Four packets of 1448 bytes in 2 ms, received in 6 ms.
        assert!((train.sent - 2_896_000.0).abs() < 1e-3);
        assert!((train.received - 965_333.3).abs() < 0.1);
        assert!(train.received_error.abs() < 1e-9);
        assert!(train.open == 2 && (train.open_rtt_s - 0.025).abs() < 1e-12);
        assert!(train.noise_s < 1e-9);
        assert!(train.is_fast && !train.is_first);
        assert_eq!(train.limit, Some(Limit::Host));
    }

    #[test]
    fn there_is_no_train_before_the_first_and_while_one_is_collected() {
        let mut collecting = state();
        collecting[53] = 2;
        assert_eq!(latest(&collecting, 1448), None);
        assert_eq!(latest(&[0; 104], 1448), None);
        assert_eq!(latest(&state()[..54], 1448), None);
    }
}
