//! A link of 100 Mbit/s by the millisecond: a download whose sender sends at once all that it is offered, and Cubics that
//! start beside it, which the download knows by its queue alone.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::neighbours::Beside;
use super::{Law, Seen};

const SEGMENT: f64 = 1448.0;
/// What the link carries in a millisecond, and what a sender sends in one, bytes of payload.
const LINK: f64 = 11_955.0;
const AT_ONCE: f64 = 125_000.0;
/// How long others use the link, ms.
const OTHERS: usize = 20_000;

/// A sender as Linux's cubic at its start: slow start, HyStart by delay, and the convex part of its curve.
struct Cubic {
    window: f64,
    sent: f64,
    acked: f64,
    least_rtt: f64,
    /// The round of slow start: where it ends, bytes acknowledged in it, and the least round-trip time of its first.
    round_end: f64,
    round_acked: f64,
    round_rtt: f64,
    /// When slow start ended, and the window then.
    plateau: Option<(usize, f64)>,
}

impl Cubic {
    fn new() -> Cubic {
        Cubic {
            window: 10.0 * SEGMENT,
            sent: 0.0,
            acked: 0.0,
            least_rtt: f64::INFINITY,
            round_end: 0.0,
            round_acked: 0.0,
            round_rtt: f64::INFINITY,
            plateau: None,
        }
    }

    /// Whole segments that it sends now; all are lost that have no room.
    fn send(&mut self, room: f64, now: usize) -> f64 {
        let allowed = (self.window - (self.sent - self.acked)).clamp(0.0, AT_ONCE);
        let bytes = (allowed / SEGMENT).floor() * SEGMENT;
        if bytes > room && self.plateau.is_none() {
            self.window *= 0.7;
            self.plateau = Some((now, self.window));
        }
        let bytes = bytes.min((room / SEGMENT).floor() * SEGMENT);
        self.sent += bytes;
        bytes
    }

    fn acknowledge(&mut self, bytes: f64, rtt: f64, now: usize) {
        self.acked += bytes;
        self.least_rtt = self.least_rtt.min(rtt);
        if let Some((since, window)) = self.plateau {
            let seconds = (now - since) as f64 / 1e3;
            let goal = window + 0.4 * seconds.powi(3) * SEGMENT;
            self.window += ((goal - self.window) / self.window * bytes).max(0.0);
            return;
        }
        if self.acked > self.round_end {
            (self.round_end, self.round_acked) = (self.sent, 0.0);
            self.round_rtt = f64::INFINITY;
        }
        self.round_acked += bytes;
        // HyStart takes eight samples, of every second segment.
        if self.round_acked <= 16.0 * SEGMENT {
            self.round_rtt = self.round_rtt.min(rtt);
        } else if self.round_rtt > self.least_rtt + (self.least_rtt / 8.0).clamp(4.0, 16.0) {
            self.plateau = Some((now, self.window));
        }
        self.window += bytes;
    }
}

/// What becomes of a download and of others.
pub(super) struct Outcome {
    /// What the download has of the link from five seconds on, and how long it yielded.
    pub download: f64,
    pub yielded: Duration,
    /// What the others have of it in their time.
    pub others: f64,
}

/// Lets this many Cubics start at a moment, ms, beside a download or without one; the round-trip time is even, ms.
pub(super) fn run(base: usize, downloads: bool, flows: usize, start: usize) -> Outcome {
    let half = base / 2;
    let mut law = Law::new(SEGMENT as u32);
    let mut others: Vec<Cubic> = (0..flows).map(|_| Cubic::new()).collect();
    // What waits, and what each millisecond carried: bytes, of which flow, and when they were sent or, of the download (flow
    // 0), when what they answer was offered.
    let mut queue: VecDeque<(f64, usize, usize)> = VecDeque::new();
    let mut carried: Vec<Vec<(f64, usize, usize)>> = Vec::new();
    // The right edge that was offered in each millisecond.
    let mut edges: Vec<f64> = Vec::new();
    let (mut sent, mut received, mut edge) = (0.0, 0.0, 0.0_f64);
    let (mut rtt, mut at_five, mut of_others) = (0.0, 0.0, 0.0);
    let end = start + OTHERS;
    for now in 0..end {
        if let Some(offered) = now.checked_sub(half).filter(|_| downloads) {
            let bytes = (edges[offered] - sent).clamp(0.0, AT_ONCE);
            sent += bytes;
            queue.push_back((bytes, 0, offered));
        }
        if now >= start {
            // They start one after the other.
            let started = 1 + (now - start) / 3;
            for (flow, other) in others.iter_mut().enumerate().take(started) {
                let waits: f64 = queue.iter().map(|(bytes, ..)| bytes).sum();
                let bytes = other.send(LINK * base as f64 - waits, now);
                queue.push_back((bytes, flow + 1, now));
            }
        }
        let mut room = LINK;
        let mut leaves = Vec::new();
        while let Some((bytes, flow, at)) = queue.front_mut() {
            let part = room.min(*bytes);
            leaves.push((part, *flow, *at));
            room -= part;
            *bytes -= part;
            if *bytes > 0.0 {
                break;
            }
            queue.pop_front();
        }
        carried.push(leaves);
        for &(bytes, flow, at) in now
            .checked_sub(half)
            .map_or(&Vec::new(), |then| &carried[then])
        {
            if flow > 0 {
                of_others += bytes;
            } else if bytes > 0.0 {
                received += bytes;
                // The kernel's mean over eight samples, of every second segment.
                let weight = 1.0 - (7.0_f64 / 8.0).powf(bytes / SEGMENT / 2.0);
                rtt += ((now - at) as f64 - rtt) * if rtt == 0.0 { 1.0 } else { weight };
            }
        }
        for &(bytes, flow, at) in now
            .checked_sub(base)
            .map_or(&Vec::new(), |then| &carried[then])
        {
            if flow > 0 && bytes > 0.0 {
                others[flow - 1].acknowledge(bytes, (now - at) as f64, now);
            }
        }
        if now % 10 == 0 {
            let seen = Seen {
                at: Duration::from_millis(now as u64),
                received: received as u64,
                rtt: (rtt > 0.0).then(|| Duration::from_secs_f64(rtt / 1e3)),
                out_of_order: 0,
                window: None,
            };
            law.see(&seen, &Beside::default());
        }
        edge = edge.max(received + f64::from(law.window()));
        edges.push(edge);
        if now == 5_000 {
            at_five = received;
        }
    }
    Outcome {
        download: (received - at_five) / ((end - 5_000) as f64 * LINK),
        yielded: law.yielded(),
        others: of_others / (OTHERS as f64 * LINK),
    }
}
