//! Scripts for receivers.

use std::ops::Range;

use fairwind_path::ecn::Ecn;
use fairwind_path::units::{Duration, Time};

use super::{MSS, blank};
use crate::packet::{Kind, Packet};
use crate::scenario::TcpConfig;
use crate::tcp::{Receiver, Reply, milliseconds};

/// A receiver; the script is its peer.
pub(crate) struct Receiving {
    pub receiver: Receiver,
    now: Time,
    /// Age of the time stamps that arriving segments echo.
    rtt: Duration,
    /// Age of arriving segments.
    one_way: Duration,
    /// Arriving segments have PSH.
    push: bool,
    /// Codepoint and CWR of arriving segments.
    ecn: Ecn,
    cwr: bool,
    answers: Vec<(Time, Reply)>,
}

impl Receiving {
    /// The SYN is answered at time 0; the round-trip time is 100 ms.
    pub(crate) fn established(config: &TcpConfig) -> Self {
        Self::with_rtt(config, 100)
    }

    pub(crate) fn with_rtt(config: &TcpConfig, rtt_ms: u64) -> Self {
        let mut receiver = Receiver::new(config);
        let syn = Packet {
            ece: config.ecn,
            cwr: config.ecn,
            ..blank(Kind::Syn)
        };
        let syn_ack = receiver.on_syn(Time::ZERO, &syn).packet;
        assert_eq!((syn_ack.ece, syn_ack.cwr), (config.ecn, false));
        Receiving {
            receiver,
            now: Time::ZERO,
            rtt: Duration::from_millis(rtt_ms),
            one_way: Duration::from_millis(rtt_ms / 2),
            push: false,
            ecn: Ecn::NotEct,
            cwr: false,
            answers: Vec::new(),
        }
    }

    pub(crate) fn at(&mut self, time: Time) -> &mut Self {
        assert!(time >= self.now, "scripts go forward");
        self.no_leftovers();
        while self.receiver.due() <= time {
            self.now = self.now.max(self.receiver.due());
            let reply = self.receiver.on_timer(self.now, &blank(Kind::Data));
            self.answers.extend(reply.map(|reply| (self.now, reply)));
        }
        if let Some((when, _)) = self.answers.first() {
            assert_eq!(*when, time, "an acknowledgement was sent early");
        }
        self.now = time;
        self
    }

    /// A full segment arrives.
    pub(crate) fn data(&mut self, segment: u64) -> &mut Self {
        self.bytes(segment * MSS, MSS as u32)
    }

    /// A full segment with PSH arrives.
    pub(crate) fn pushed(&mut self, segment: u64) -> &mut Self {
        self.push = true;
        self.data(segment);
        self.push = false;
        self
    }

    /// Segments arrive with this codepoint from now on.
    pub(crate) fn with_codepoint(&mut self, ecn: Ecn) -> &mut Self {
        self.ecn = ecn;
        self
    }

    /// A full segment with CWR arrives.
    pub(crate) fn data_with_cwr(&mut self, segment: u64) -> &mut Self {
        self.cwr = true;
        self.data(segment);
        self.cwr = false;
        self
    }

    pub(crate) fn bytes(&mut self, seq: u64, len: u32) -> &mut Self {
        let sent = self.now - self.one_way;
        self.stamped(seq, len, sent)
    }

    /// A full segment arrives that was sent at `sent`.
    pub(crate) fn data_sent_at(&mut self, segment: u64, sent: Time) -> &mut Self {
        self.stamped(segment * MSS, MSS as u32, sent)
    }

    fn stamped(&mut self, seq: u64, len: u32, sent: Time) -> &mut Self {
        self.no_leftovers();
        let echo = self.now - self.rtt;
        let packet = Packet {
            seq,
            len,
            ts_val: milliseconds(sent),
            ts_ecr: milliseconds(echo),
            push: self.push,
            ecn: self.ecn,
            cwr: self.cwr,
            ..blank(Kind::Data)
        };
        let reply = self.receiver.receive(self.now, &packet);
        self.answers.extend(reply.map(|reply| (self.now, reply)));
        self
    }

    fn no_leftovers(&self) {
        let left: Vec<_> = self
            .answers
            .iter()
            .map(|(when, reply)| (when.as_micros(), reply.packet.seq / MSS))
            .collect();
        assert_eq!(left, [], "acknowledged (us, segments) unexpectedly");
    }

    fn take_answer(&mut self) -> Reply {
        let answers = std::mem::take(&mut self.answers);
        assert_eq!(answers.len(), 1, "acknowledgements at {:?}", self.now);
        answers[0].1
    }

    /// Asserts that an acknowledgement of the first `segments` segments leaves now, without blocks.
    pub(crate) fn acks(&mut self, segments: u64) -> Reply {
        self.sacks(segments, &[])
    }

    /// Asserts the same with these selective blocks, in this order.
    pub(crate) fn sacks(&mut self, segments: u64, blocks: &[Range<u64>]) -> Reply {
        let reply = self.take_answer();
        assert_eq!(reply.packet.seq, segments * MSS, "at {:?}", self.now);
        let sent: Vec<_> = reply
            .sack
            .iter()
            .map(|block| block.start / MSS..block.end / MSS)
            .collect();
        assert_eq!(sent, blocks, "blocks at {:?}", self.now);
        reply
    }

    pub(crate) fn answers_nothing(&mut self) -> &mut Self {
        self.no_leftovers();
        self
    }

    /// The acknowledgement that leaves now, if any.
    pub(crate) fn answer(&mut self) -> Option<Reply> {
        (!self.answers.is_empty()).then(|| self.take_answer())
    }

    /// Segments from 0 on arrive, one per millisecond, until the receiver no longer acknowledges
    /// each one. Ends with no acknowledgement pending and returns the number of the next segment.
    pub(crate) fn past_quick_acks(&mut self) -> u64 {
        let mut next = 0;
        self.at(self.now.max(Time::ZERO + self.rtt));
        loop {
            self.at(self.now + Duration::from_millis(1)).data(next);
            next += 1;
            if self.answers.is_empty() {
                break;
            }
            self.take_answer();
        }
        self.at(self.now + Duration::from_millis(1)).data(next);
        self.take_answer();
        next + 1
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.no_leftovers();
        }
    }
}
