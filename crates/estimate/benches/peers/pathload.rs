//! Pathload: self-loading periodic streams (Jain and Dovrolis, "End-to-end available bandwidth:
//! measurement methodology, dynamics, and relation with TCP throughput", SIGCOMM 2002; the constants of
//! the tests from "Pathload: a measurement tool for end-to-end available bandwidth", PAM 2002).
//!
//! | original | here |
//! |---|---|
//! | clocks of two hosts | the simulator's |
//! | the first rate from a train of packets | the same: 48 packets at once, whose rate of arrival is the upper end |
//! | resolutions of 1 and 1.5 Mbit/s for the paths there | 2 and 3 % of that rate |
//! | a receiver's reports over TCP | known half a round trip later, with nothing sent |

use super::{Answer, Method, Next};

/// Packets of a stream, and streams of a fleet.
const STREAM: usize = 100;
const FLEET: usize = 12;
/// Share of a fleet's streams that decides.
const DECIDES: f64 = 0.7;
/// Shortest time between packets, s.
const LEAST_PERIOD: f64 = 100e-6;
const LEAST_BYTES: f64 = 200.0;
const MOST_BYTES: f64 = 1500.0;
/// Groups of a stream, whose medians the tests compare.
const GROUPS: usize = 10;
const FIRST_TRAIN: usize = 48;

#[derive(Clone, Copy, PartialEq)]
enum Trend {
    Increasing,
    None,
    Unclear,
}

pub(super) struct Pathload {
    rtt_s: f64,
    /// Rates, bit/s: A is above the first, below the second; between the third and fourth it is grey.
    low: f64,
    high: f64,
    grey: Option<(f64, f64)>,
    /// Highest rate that could be, by the first train.
    most: f64,
    rate: f64,
    /// Packets of the stream that have been sent, and one-way delays of those that arrived.
    sent: usize,
    delays: Vec<(u64, f64)>,
    sent_at: Vec<f64>,
    arrivals: Vec<f64>,
    trends: Vec<Trend>,
    /// Number of the stream's first packet.
    first: u64,
    stream_lost: usize,
    ended: Option<f64>,
    answer: Option<Answer>,
}

impl Pathload {
    pub(super) fn new(rtt_s: f64) -> Pathload {
        Pathload {
            rtt_s,
            low: 0.0,
            high: f64::INFINITY,
            grey: None,
            most: f64::INFINITY,
            rate: f64::INFINITY,
            sent: 0,
            delays: Vec::new(),
            sent_at: Vec::new(),
            arrivals: Vec::new(),
            trends: Vec::new(),
            first: 0,
            stream_lost: 0,
            ended: None,
            answer: None,
        }
    }

    fn length(&self) -> usize {
        match self.rate.is_finite() {
            true => STREAM,
            false => FIRST_TRAIN,
        }
    }

    /// Bytes of a packet and seconds between two.
    fn packet(&self) -> (f64, f64) {
        if !self.rate.is_finite() {
            return (MOST_BYTES, 0.0);
        }
        let bytes = (self.rate * LEAST_PERIOD / 8.0).clamp(LEAST_BYTES, MOST_BYTES);
        (bytes.round(), bytes.round() * 8.0 / self.rate)
    }

    /// Takes what arrived of a stream; the next one begins when this returns.
    fn judge(&mut self, now: f64) {
        if !self.rate.is_finite() {
            let bits = (self.arrivals.len().max(2) - 1) as f64 * MOST_BYTES * 8.0;
            let seconds =
                self.arrivals.last().unwrap_or(&1.0) - self.arrivals.first().unwrap_or(&0.0);
            self.most = bits / seconds.max(1e-9);
            self.high = self.most;
            self.rate = self.most / 2.0;
            return;
        }
        self.stream_lost = STREAM - self.delays.len();
        let lossy = self.stream_lost * 10 > STREAM;
        self.trends.push(trend(&self.delays));
        let count = |of: Trend| self.trends.iter().filter(|trend| **trend == of).count() as f64;
        let enough = DECIDES * FLEET as f64;
        if lossy || count(Trend::Increasing) >= enough {
            self.high = self.rate;
        } else if count(Trend::None) >= enough {
            self.low = self.rate;
        } else if self.trends.len() == FLEET {
            let (low, high) = self.grey.unwrap_or((self.rate, self.rate));
            self.grey = Some((low.min(self.rate), high.max(self.rate)));
        } else {
            return;
        }
        self.trends.clear();
        self.next_rate(now);
    }

    fn next_rate(&mut self, now: f64) {
        // Rates that were judged otherwise since are no longer grey.
        self.grey = self.grey.and_then(|(low, high)| {
            let (low, high) = (low.max(self.low), high.min(self.high));
            (low <= high).then_some((low, high))
        });
        let done = |width: f64, share: f64| width <= share * self.most;
        let (below, above) = match self.grey {
            Some((low, high)) => (low - self.low, self.high - high),
            None => (0.0, 0.0),
        };
        let is_grey = self.grey.is_some() && done(below, 0.03) && done(above, 0.03);
        if done(self.high - self.low, 0.02) || is_grey {
            self.answer = Some(Answer {
                at_s: now,
                low: self.low,
                high: self.high,
            });
            return;
        }
        self.rate = match self.grey {
            Some((_, high)) if above >= below => (high + self.high) / 2.0,
            Some((low, _)) => (low + self.low) / 2.0,
            None => (self.low + self.high) / 2.0,
        };
    }
}

impl Method for Pathload {
    fn next(&mut self, now: f64) -> Next {
        let (bytes, period) = self.packet();
        if self.sent < self.length() {
            let number = self.first + self.sent as u64;
            self.sent += 1;
            self.sent_at.push(now);
            return Next {
                send: Some((bytes as u32, number)),
                again: now + period,
            };
        }
        // Nine streams' time, so that a tenth of the rate is sent, or a round trip; and what is in the
        // queue has arrived.
        let pause = (9.0 * period * STREAM as f64).max(self.rtt_s);
        let wait = Next {
            send: None,
            again: now + pause.max(2.0 * self.rtt_s),
        };
        let Some(ended) = self.ended else {
            self.ended = Some(now);
            return wait;
        };
        debug_assert!(ended <= now, "the clock does not go back");
        self.judge(now);
        self.ended = None;
        self.first += self.sent as u64;
        self.sent = 0;
        self.delays.clear();
        self.sent_at.clear();
        self.arrivals.clear();
        match self.answer {
            Some(_) => wait,
            None => Next {
                send: None,
                again: now,
            },
        }
    }

    fn arrival(&mut self, now: f64, number: u64) {
        let Some(index) = number.checked_sub(self.first) else {
            return;
        };
        if let Some(sent) = self.sent_at.get(index as usize) {
            self.delays.push((index, now - sent));
            self.arrivals.push(now);
        }
    }

    fn answer(&self) -> Option<Answer> {
        self.answer
    }
}

/// The pairwise comparison and the pairwise difference test on the medians of groups.
fn trend(delays: &[(u64, f64)]) -> Trend {
    let size = (delays.len() / GROUPS).max(1);
    let medians: Vec<f64> = delays
        .chunks(size)
        .map(|group| {
            let mut group: Vec<f64> = group.iter().map(|(_, delay)| *delay).collect();
            group.sort_by(f64::total_cmp);
            group[group.len() / 2]
        })
        .collect();
    if medians.len() < 3 {
        return Trend::Unclear;
    }
    // The simulator's clock has no noise; below a microsecond nothing rises.
    let steps: Vec<f64> = medians.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let rising = steps.iter().filter(|step| **step > 1e-6).count() as f64;
    let comparison = rising / steps.len() as f64;
    let whole: f64 = steps.iter().map(|step| step.abs()).sum();
    let difference = match whole > 1e-6 {
        true => (medians[medians.len() - 1] - medians[0]) / whole,
        false => 0.0,
    };
    let of = |value: f64, above: f64, below: f64| match value {
        value if value > above => Trend::Increasing,
        value if value < below => Trend::None,
        _ => Trend::Unclear,
    };
    match (of(comparison, 0.66, 0.54), of(difference, 0.55, 0.45)) {
        (one, other) if one == other => one,
        (Trend::Unclear, one) | (one, Trend::Unclear) => one,
        _ => Trend::Unclear,
    }
}
