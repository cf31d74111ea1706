//! The transmitter of a pipe: computes when the transmission of a packet ends.
//!
//! Exact in the long run: a transmission ends at a rational time, and the next one of a backlog starts
//! there; only the reported time is rounded, up to a nanosecond. No packet departs early, and rounding
//! errors do not accumulate.
//!
//! | original | here |
//! |---|---|
//! | Dummynet grants credit per clock tick (1/HZ), so packets depart in bursts at ticks | each packet has its own exact end of transmission |
//! | mahimahi's clock ticks in 1 ms, an opportunity carries 1504 bytes (1500 and the TUN header) | times as in the trace, 1500 bytes |
//! | a mahimahi packet that arrives in the millisecond of an opportunity may miss it | misses it only if it arrives at that exact time |

use std::sync::Arc;

use crate::trace::{Cursor, Opportunities, Steps};
use crate::units::{Bandwidth, Duration, Time};

/// Time to send `bytes` at the mean of the rate.
pub(crate) fn mean_time_for(rate: &Rate, bytes: u64) -> Duration {
    let bps = match rate {
        Rate::Unlimited => return Duration::ZERO,
        Rate::Constant(bandwidth) => return bandwidth.time_for(bytes),
        Rate::Steps(steps) => steps.mean(|rate| rate.as_bps() as f64),
        Rate::Opportunities(trace) => trace.mean_bps(),
    };
    Duration::from_secs_f64(bytes as f64 * 8.0 / bps)
}

/// One byte in units of 10^-9 bit, which is the work done at 1 bit/s in 1 ns.
const WORK_PER_BYTE: u64 = 8_000_000_000;

/// The bandwidth of a pipe.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Rate {
    /// Packets take no time to send, so none ever waits.
    #[default]
    Unlimited,
    /// Always the same.
    Constant(Bandwidth),
    /// As recorded; a transmission in progress continues at the new rate.
    Steps(Arc<Steps<Bandwidth>>),
    /// Bursts of bytes at given times, as in mahimahi's traces.
    Opportunities(Arc<Opportunities>),
}

/// The state of the transmitter: sends packets one after another.
#[derive(Clone, Debug)]
pub(crate) enum Transmitter {
    Unlimited,
    Constant(ConstantRate),
    Steps(SteppedRate),
    Opportunities(OpportunityRate),
}

impl Transmitter {
    pub(crate) fn new(rate: &Rate) -> Transmitter {
        match rate {
            Rate::Unlimited => Transmitter::Unlimited,
            Rate::Constant(bandwidth) => Transmitter::Constant(ConstantRate::new(*bandwidth)),
            Rate::Steps(steps) => Transmitter::Steps(SteppedRate::new(steps)),
            Rate::Opportunities(trace) => Transmitter::Opportunities(OpportunityRate::new(trace)),
        }
    }

    /// The end of transmission of a packet that arrived at `ready`; it starts after those before it have
    /// been sent. `ready` may be earlier than the last end, so a late caller delays no packet.
    #[inline(always)]
    pub(crate) fn transmit(&mut self, ready: Time, wire_bytes: u64) -> Time {
        Time::from_nanos(match self {
            // A recorded rate takes longer anyway, and this function must be small to be fast.
            Transmitter::Constant(rate) => rate.transmit(ready.as_nanos(), wire_bytes),
            recorded => recorded.transmit_slowly(ready.as_nanos(), wire_bytes),
        })
    }

    #[inline(never)]
    fn transmit_slowly(&mut self, ready: u64, wire_bytes: u64) -> u64 {
        match self {
            Transmitter::Unlimited => ready,
            Transmitter::Constant(rate) => rate.transmit(ready, wire_bytes),
            Transmitter::Steps(rate) => rate.transmit(ready, wire_bytes),
            Transmitter::Opportunities(rate) => rate.transmit(ready, wire_bytes),
        }
    }
}

impl Transmitter {
    /// Bits that a recorded bandwidth offers between two times; `None` if the bandwidth is not recorded.
    pub(crate) fn offered_bits(&self, from: Time, to: Time) -> Option<f64> {
        match self {
            Transmitter::Unlimited | Transmitter::Constant(_) => None,
            Transmitter::Steps(rate) => Some(rate.offered_bits(from, to)),
            Transmitter::Opportunities(rate) => Some(rate.trace.bytes_between(from, to) * 8.0),
        }
    }
}

/// The last end of transmission: `whole + rest / rate` nanoseconds.
#[derive(Clone, Debug, Default)]
struct End {
    whole: u64,
    rest: u64,
}

impl End {
    #[inline]
    fn rounded_up(&self) -> u64 {
        self.whole.saturating_add(u64::from(self.rest > 0))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ConstantRate {
    bps: u64,
    /// Nanoseconds for a byte, if it takes a whole number of them: then there are no rests.
    byte_ns: Option<u64>,
    end: End,
    /// Cache of transmission times by size: a pipe sees few sizes, and a division is slow.
    times: [TransmissionTime; 8],
}

/// `whole + rest / bps` nanoseconds for `bytes`.
#[derive(Clone, Copy, Debug, Default)]
struct TransmissionTime {
    bytes: u64,
    whole: u64,
    rest: u64,
}

impl ConstantRate {
    fn new(bandwidth: Bandwidth) -> ConstantRate {
        // The sum of two rests must fit into 64 bits.
        let bps = bandwidth.as_bps().min(u64::MAX / 2);
        ConstantRate {
            bps,
            byte_ns: WORK_PER_BYTE
                .checked_div(bps)
                .filter(|whole| whole * bps == WORK_PER_BYTE),
            end: End::default(),
            times: Default::default(),
        }
    }

    #[inline]
    fn time_for(&mut self, bytes: u64) -> TransmissionTime {
        let cached = &mut self.times[(bytes / 4 % 8) as usize];
        if cached.bytes != bytes {
            *cached = transmission_time(bytes, self.bps);
        }
        *cached
    }

    #[inline]
    fn transmit(&mut self, ready: u64, bytes: u64) -> u64 {
        if let Some(byte_ns) = self.byte_ns {
            let start = ready.max(self.end.whole);
            self.end.whole = start.saturating_add(bytes.saturating_mul(byte_ns));
            return self.end.whole;
        }
        self.transmit_with_rest(ready, bytes)
    }

    fn transmit_with_rest(&mut self, ready: u64, bytes: u64) -> u64 {
        let time = self.time_for(bytes);
        if ready > self.end.whole {
            self.end = End {
                whole: ready,
                rest: 0,
            };
        }
        let mut rest = self.end.rest + time.rest;
        let carry = rest >= self.bps;
        if carry {
            rest -= self.bps;
        }
        let whole = self
            .end
            .whole
            .saturating_add(time.whole)
            .saturating_add(carry.into());
        self.end = End { whole, rest };
        self.end.rounded_up()
    }
}

#[cold]
#[inline(never)]
fn transmission_time(bytes: u64, bps: u64) -> TransmissionTime {
    if bps == 0 {
        return TransmissionTime {
            bytes,
            whole: u64::MAX,
            rest: 0,
        };
    }
    let work = u128::from(bytes) * u128::from(WORK_PER_BYTE);
    let whole = u64::try_from(work / u128::from(bps)).unwrap_or(u64::MAX);
    TransmissionTime {
        bytes,
        whole,
        rest: (work % u128::from(bps)) as u64,
    }
}

#[derive(Clone, Debug)]
pub(crate) struct SteppedRate {
    steps: Arc<Steps<Bandwidth>>,
    cursor: Cursor,
    /// `rest` is in units of the rate at `end.whole`, which holds throughout that nanosecond.
    end: End,
    never: bool,
}

impl SteppedRate {
    fn new(steps: &Arc<Steps<Bandwidth>>) -> SteppedRate {
        let never = steps.values().iter().all(|rate| rate.as_bps() == 0);
        SteppedRate {
            steps: steps.clone(),
            cursor: Cursor::default(),
            end: End::default(),
            never,
        }
    }

    fn offered_bits(&self, from: Time, to: Time) -> f64 {
        let (mut cursor, mut now, mut work) = (Cursor::default(), from.as_nanos(), 0.0);
        if let Some(period) = self.steps.period() {
            let periods = (to - from).as_nanos() / period.as_nanos() * period.as_nanos();
            work += self.steps.mean(|rate| rate.as_bps() as f64) * periods as f64;
            now += periods;
        }
        while now < to.as_nanos() {
            let (rate, until) = cursor.seek(&self.steps, now);
            let until = until.min(to.as_nanos());
            work += rate.as_bps() as f64 * (until - now) as f64;
            now = until;
        }
        work / 1e9
    }

    fn transmit(&mut self, ready: u64, bytes: u64) -> u64 {
        if ready > self.end.whole {
            self.end = End {
                whole: ready,
                rest: 0,
            };
        }
        let mut work = u128::from(bytes) * u128::from(WORK_PER_BYTE) + u128::from(self.end.rest);
        let mut now = self.end.whole;
        self.end = loop {
            let (rate, until) = self.cursor.seek(&self.steps, now);
            let rate = u128::from(rate.as_bps());
            let room = rate * u128::from(until - now);
            if rate > 0 && work <= room {
                let whole = now + (work / rate) as u64;
                break End {
                    whole,
                    rest: (work % rate) as u64,
                };
            }
            if until == u64::MAX || self.never {
                break End {
                    whole: u64::MAX,
                    rest: 0,
                };
            }
            work -= room;
            now = until;
        };
        self.end.rounded_up()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct OpportunityRate {
    trace: Arc<Opportunities>,
    /// Index of the opportunity after the current one, and start of its repetition.
    next: usize,
    base: u64,
    /// Time of the current opportunity, and the bytes left of it.
    time: u64,
    left: u64,
}

impl OpportunityRate {
    fn new(trace: &Arc<Opportunities>) -> OpportunityRate {
        OpportunityRate {
            trace: trace.clone(),
            next: 0,
            base: 0,
            time: 0,
            left: 0,
        }
    }

    fn advance(&mut self) {
        if self.next == self.trace.list.len() {
            self.next = 0;
            self.base = self.base.saturating_add(self.trace.period);
        }
        let (time, bytes) = self.trace.list[self.next];
        self.next += 1;
        self.time = self.base.saturating_add(time);
        self.left = bytes;
    }

    /// Unused bytes of an opportunity are lost to packets that arrive at its time or later.
    fn transmit(&mut self, ready: u64, bytes: u64) -> u64 {
        let periods = ready.saturating_sub(self.base) / self.trace.period;
        if periods > 1 {
            self.base += (periods - 1) * self.trace.period;
            self.next = 0;
        }
        let mut needed = bytes;
        loop {
            while self.left == 0 || self.time <= ready {
                if self.time == u64::MAX {
                    return u64::MAX;
                }
                self.advance();
            }
            let used = needed.min(self.left);
            needed -= used;
            self.left -= used;
            if needed == 0 {
                return self.time;
            }
        }
    }
}
