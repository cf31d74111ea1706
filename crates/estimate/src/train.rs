//! A train as the control's state describes it: `struct train` of `cc/include/fairwind/estimate.h`.

/// Bytes of a control's state that describe a train: it is the state's first member.
pub const TRAIN_BYTES: usize = 61;

const APPLICATION: u8 = 1;
const RECEIVER: u8 = 2;
const SLOW: u8 = 4;
const FAST: u8 = 8;
const FIRST: u8 = 16;
const TOGETHER: u8 = 32;
/// `TRAIN_TAIL_US`.
const TAIL_US: f64 = 32.0;

/// Packets that were sent at one rate, and how their delay changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Train {
    /// Bursts, each of which is a sample of volume and time.
    pub samples: u32,
    /// Packets received from the first sample to the last ACK.
    pub packets: u32,
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
    /// Round-trip time of its last packet that was received, seconds.
    pub end_rtt_s: f64,
    /// Packets marked lost while the train was under way.
    pub lost: u32,
    /// What was sent and received of it after the first packets were lost.
    pub tail: Option<Tail>,
    /// Of the faster of two kinds.
    pub is_fast: bool,
    /// The connection's first window, which leaves at once.
    pub is_first: bool,
    /// Whether packets of different bursts came together, as in aggregates.
    pub is_together: bool,
    /// What kept the train from being sent as it should have been.
    pub limit: Option<Limit>,
}

impl Train {
    /// Packets marked lost, as a share of these and the received ones.
    pub fn lost_share(&self) -> f64 {
        f64::from(self.lost) / f64::from((self.lost + self.packets).max(1))
    }
}

/// The part of a train from the first ACK that shows packets to be missing to the last one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tail {
    /// Packets received.
    pub packets: u32,
    /// Rate at which they passed, bytes of payload a second.
    pub received: f64,
    /// Share of what was sent that was not received.
    pub lost: f64,
    /// How much the delay fell, as a share of the time in which it was sent.
    pub fall: f64,
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
    if number == 0 || state[59] == SAMPLED {
        return None;
    }
    let flags = state[58];
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
    let (last_us, sent_us) = (f64::from(u32_at(state, 28)), f64::from(u32_at(state, 32)));
    let open_us = f64::from(u32_at(state, 40));
    let sent = match sent_us > 0.0 {
        true => f64::from(u32_at(state, 36)) * 1e6 / sent_us,
        false => 0.0,
    };
    let train = Train {
        samples,
        packets: u16_at(state, 44).into(),
        sent,
        received: packets_per_us * f64::from(mss) * 1e6,
        received_error,
        noise_s: noise_us / 1e6,
        open: u32::from(state[60]),
        open_rtt_s: open_us / 1e6,
        end_rtt_s: (open_us + last_us - sent_us) / 1e6,
        lost: u32::from(u16_at(state, 50)),
        tail: tail(state, f64::from(mss), sent),
        is_fast: flags & FAST != 0,
        is_first: flags & FIRST != 0,
        is_together: flags & TOGETHER != 0,
        limit: match flags {
            _ if flags & RECEIVER != 0 => Some(Limit::Receiver),
            _ if flags & APPLICATION != 0 => Some(Limit::Application),
            _ if flags & SLOW != 0 => Some(Limit::Host),
            _ => None,
        },
    };
    Some((number, train))
}

/// Its tail, of a train that was sent at this rate, bytes of payload a second.
fn tail(state: &[u8; TRAIN_BYTES], mss: f64, sent: f64) -> Option<Tail> {
    let begin = u16_at(state, 52);
    let packets = u16_at(state, 44).checked_sub(begin).filter(|_| begin > 0)?;
    // In the middle of its unit.
    let since = |now: u32, then: u16| f64::from(now) - (f64::from(then) + 0.5) * TAIL_US;
    let acked_us = since(u32_at(state, 28), u16_at(state, 54));
    let sent_us = since(u32_at(state, 32), u16_at(state, 56));
    // A queue before the policer spreads packets, one behind it draws them together.
    let longer_us = acked_us.max(sent_us);
    if sent <= 0.0 || sent_us <= 0.0 {
        return None;
    }
    let volume = f64::from(packets) * mss;
    Some(Tail {
        packets: packets.into(),
        received: volume * 1e6 / longer_us,
        lost: 1.0 - volume * 1e6 / sent_us / sent,
        fall: 1.0 - acked_us / sent_us,
    })
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

    /// Three samples: 0, 2 and 4 packets after 0, 3000 and 6000 us, sent in 2000 us. Its tail
    /// begins with the second, after 93 and 31 units.
    fn state() -> Vec<u8> {
        let mut state = Vec::new();
        for sum in [30_000_u64, 45_000_000] {
            state.extend(sum.to_ne_bytes());
        }
        for word in [20_u32, 6, 9000, 6000, 2000, 5792, 25_000] {
            state.extend(word.to_ne_bytes());
        }
        for half in [4_u16, 3, 7, 1, 2, 93, 31] {
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
        assert!((train.end_rtt_s - 0.029).abs() < 1e-12);
        // Two packets, received in 3008 us and sent in 992 us, in which 2872 bytes were sent.
        let tail = train.tail.unwrap();
        assert_eq!(tail.packets, 2);
        assert!((tail.received - 962_765.9).abs() < 0.1, "{tail:?}");
        assert!((tail.lost + 0.008).abs() < 0.001, "{tail:?}");
        assert!(train.noise_s < 1e-9);
        assert!(train.is_fast && !train.is_first);
        assert_eq!(train.limit, Some(Limit::Host));
    }

    #[test]
    fn there_is_no_train_before_the_first_and_while_one_is_collected() {
        let mut collecting = state();
        collecting[59] = 2;
        assert_eq!(latest(&collecting, 1448), None);
        assert_eq!(latest(&[0; 104], 1448), None);
        assert_eq!(latest(&state()[..60], 1448), None);
        let mut whole = state();
        whole[52..54].fill(0);
        assert_eq!(latest(&whole, 1448).unwrap().1.tail, None);
    }
}
