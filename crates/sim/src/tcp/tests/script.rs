//! The language of the scripts. Segments are full and counted from 0, so that `ack(2)` acknowledges
//! segments 0 and 1, and `2..4` are segments 2 and 3.
//!
//! Everything an endpoint sends must be asserted, at the moment it is sent: `at` fails if a timer
//! has sent something on the way, and so does the end of a script.

use std::collections::HashMap;
use std::ops::Range;

use fairwind_cc::native::find;
use fairwind_path::units::{Bytes, Duration, Time};

use crate::agenda::NEVER;
use crate::outcome::CongestionState;
use crate::packet::{Kind, Packet, SackBlocks, SackPool};
use crate::scenario::{Stack, TcpConfig};
use crate::tcp::Reply;
use crate::tcp::milliseconds;
use crate::tcp::receiver::Receiver;
use crate::tcp::sender::Sender;

/// Payload of a segment.
pub const MSS: u64 = 1448;

pub fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// A connection of this stack with Linux's defaults.
pub fn tcp(control: &str, stack: Stack) -> TcpConfig {
    let control = find(control).expect("a control of cc/");
    TcpConfig {
        stack,
        control,
        parameters: control.default_parameters(),
        mss: MSS as u32,
        receive_buffer: None,
        send_buffer: None,
        tcp_rmem: [4096, 131_072, 6_291_456],
        tcp_wmem: [4096, 16_384, 4_194_304],
        pacing: false,
    }
}

pub fn reno() -> TcpConfig {
    tcp("reno", Stack::Linux)
}

pub fn classic() -> TcpConfig {
    tcp("reno", Stack::Classic2005)
}

fn blank(kind: Kind) -> Packet {
    Packet {
        seq: 0,
        connection: 0,
        len: 0,
        window: 0,
        ts_val: 0,
        ts_ecr: 0,
        sack: SackPool::NONE,
        size: 0,
        generation: 0,
        hop: 0,
        kind,
    }
}

/// A sender and the other end of its connection, which is the script.
pub struct Sending {
    pub sender: Sender,
    now: Time,
    window: u64,
    una: u64,
    /// What the next acknowledgement echoes, if not what a receiver would.
    echo: Option<u32>,
    /// Time stamp of the latest copy of each segment.
    stamps: HashMap<u64, u32>,
    sent: Vec<(Time, Packet)>,
}

impl Sending {
    /// Not yet open.
    pub fn new(config: &TcpConfig) -> Self {
        Sending {
            sender: Sender::new(config, 0, 0),
            now: Time::ZERO,
            window: 1 << 30,
            una: 0,
            echo: None,
            stamps: HashMap::new(),
            sent: Vec::new(),
        }
    }

    /// Opened at 0, and the SYN-ACK arrives after this many milliseconds; nothing is written yet.
    pub fn established(config: &TcpConfig, rtt_ms: u64) -> Self {
        let mut script = Sending::new(config);
        script.open().sends_syn();
        script.at(ms(rtt_ms)).syn_ack(ms(0));
        script
    }

    /// The same after 100 ms, with this window in the SYN-ACK and from then on.
    pub fn with_first_window(bytes: u64) -> Self {
        let mut script = Sending::new(&reno());
        script.open().sends_syn().with_window(bytes);
        script.at(ms(100)).syn_ack(ms(0));
        script
    }

    pub fn open(&mut self) -> &mut Self {
        self.step(|sender, now, out| sender.open(now, out))
    }

    /// The SYN-ACK that answers the SYN sent at `syn`.
    pub fn syn_ack(&mut self, syn: Time) -> &mut Self {
        let packet = Packet {
            window: self.window.min(65_535) as u32,
            ts_val: milliseconds(self.now),
            ts_ecr: milliseconds(syn),
            ..blank(Kind::SynAck)
        };
        self.receive(packet, SackBlocks::default())
    }

    /// The application writes so many full segments.
    pub fn write(&mut self, segments: u64) -> &mut Self {
        self.write_bytes(segments * MSS)
    }

    pub fn write_bytes(&mut self, bytes: u64) -> &mut Self {
        self.step(|sender, now, out| sender.write(now, Some(bytes), out))
    }

    pub fn write_without_end(&mut self) -> &mut Self {
        self.step(|sender, now, out| sender.write(now, None, out))
    }

    /// Time passes; timers that are due by then expire.
    pub fn at(&mut self, time: Time) -> &mut Self {
        assert!(time >= self.now, "scripts go forward");
        self.no_leftovers();
        while self.sender.due() <= time {
            self.now = self.now.max(self.sender.due());
            self.step(|sender, now, out| sender.on_timer(now, out));
        }
        if let Some(&(when, packet)) = self.sent.first() {
            assert_eq!(when, time, "segment {} was sent early", packet.seq / MSS);
        }
        self.now = time;
        self
    }

    /// From now on the receiver's window is so many bytes.
    pub fn with_window(&mut self, bytes: u64) -> &mut Self {
        self.window = bytes;
        self
    }

    /// The next acknowledgement echoes a time stamp of this time.
    pub fn echoing(&mut self, time: Time) -> &mut Self {
        self.echo = Some(milliseconds(time));
        self
    }

    /// The receiver has the first `segments` segments.
    pub fn ack(&mut self, segments: u64) -> &mut Self {
        self.sack(segments, &[])
    }

    /// And these beyond them.
    pub fn sack(&mut self, segments: u64, beyond: &[Range<u64>]) -> &mut Self {
        self.acknowledge(segments, None, beyond)
    }

    /// Nothing beyond `segments` segments but these bytes.
    pub fn sack_bytes(&mut self, segments: u64, bytes: Range<u64>) -> &mut Self {
        let mut sack = SackBlocks::default();
        sack.push(bytes);
        let packet = Packet {
            seq: segments * MSS,
            window: self.window as u32,
            ts_val: milliseconds(self.now),
            ts_ecr: milliseconds(ms(0)),
            ..blank(Kind::Ack)
        };
        self.receive(packet, sack)
    }

    /// And it has received these twice (RFC 2883).
    pub fn dsack(&mut self, segments: u64, twice: Range<u64>, beyond: &[Range<u64>]) -> &mut Self {
        self.acknowledge(segments, Some(twice), beyond)
    }

    fn acknowledge(
        &mut self,
        segments: u64,
        twice: Option<Range<u64>>,
        beyond: &[Range<u64>],
    ) -> &mut Self {
        let mut sack = SackBlocks::default();
        sack.duplicate_first = twice.is_some();
        for block in twice.iter().chain(beyond) {
            sack.push(block.start * MSS..block.end * MSS);
        }
        // RFC 7323, section 4.3: the segment at the left edge is echoed.
        let edge = if segments > self.una {
            self.una
        } else {
            self.una.saturating_sub(1)
        };
        let usual = self.stamps.get(&edge).copied();
        let packet = Packet {
            seq: segments * MSS,
            window: self.window as u32,
            ts_val: milliseconds(self.now),
            ts_ecr: self.echo.take().or(usual).unwrap_or(milliseconds(ms(0))),
            ..blank(Kind::Ack)
        };
        self.una = self.una.max(segments);
        self.receive(packet, sack)
    }

    fn receive(&mut self, packet: Packet, sack: SackBlocks) -> &mut Self {
        self.no_leftovers();
        self.step(|sender, now, out| sender.receive(now, &packet, &sack, out))
    }

    fn step(&mut self, act: impl FnOnce(&mut Sender, Time, &mut Vec<Packet>)) -> &mut Self {
        let mut out = Vec::new();
        act(&mut self.sender, self.now, &mut out);
        self.sender.check_counters();
        for packet in out {
            if packet.kind == Kind::Data {
                self.stamps.insert(packet.seq / MSS, packet.ts_val);
            }
            self.sent.push((self.now, packet));
        }
        self
    }

    fn no_leftovers(&self) {
        let left: Vec<_> = self
            .sent
            .iter()
            .map(|(when, packet)| (when.as_micros(), packet.seq / MSS))
            .collect();
        assert_eq!(left, [], "sent (us, segment) without being expected");
    }

    fn take_sent(&mut self) -> Vec<Packet> {
        let now = self.now;
        let sent = std::mem::take(&mut self.sent);
        assert!(sent.iter().all(|&(when, _)| when == now));
        sent.into_iter().map(|(_, packet)| packet).collect()
    }

    pub fn sends_syn(&mut self) -> &mut Self {
        let kinds: Vec<_> = self.take_sent().iter().map(|packet| packet.kind).collect();
        assert_eq!(kinds, [Kind::Syn], "at {:?}", self.now);
        self
    }

    /// These full segments leave now, and no others.
    pub fn sends(&mut self, segments: impl IntoIterator<Item = u64>) -> &mut Self {
        let expected: Vec<_> = segments.into_iter().collect();
        let sent = self.take_sent();
        let numbers: Vec<_> = sent.iter().map(|packet| packet.seq / MSS).collect();
        assert_eq!(numbers, expected, "segments sent at {:?}", self.now);
        assert!(sent.iter().all(|packet| u64::from(packet.len) == MSS));
        self
    }

    /// Segments of these first bytes and lengths leave now.
    pub fn sends_bytes_of(&mut self, segments: &[(u64, u32)]) -> &mut Self {
        let sent: Vec<_> = self
            .take_sent()
            .iter()
            .map(|packet| (packet.seq, packet.len))
            .collect();
        assert_eq!(sent, segments, "at {:?}", self.now);
        self
    }

    /// Whatever left now is of no interest.
    pub fn forget_sent(&mut self) -> &mut Self {
        self.take_sent();
        self
    }

    pub fn sends_nothing(&mut self) -> &mut Self {
        self.sends([])
    }

    pub fn cwnd(&mut self, packets: u32) -> &mut Self {
        assert_eq!(self.sender.tp.snd_cwnd, packets, "cwnd at {:?}", self.now);
        self
    }

    pub fn ssthresh(&mut self, packets: u32) -> &mut Self {
        let ssthresh = self.sender.tp.snd_ssthresh;
        assert_eq!(ssthresh, packets, "ssthresh at {:?}", self.now);
        self
    }

    pub fn state(&mut self, state: CongestionState) -> &mut Self {
        let instruments = self.sender.instruments(self.now);
        assert_eq!(instruments.state, state, "at {:?}", self.now);
        self
    }

    /// Smoothed round-trip time and timeout.
    pub fn rto(&mut self, srtt_us: u32, rto_ms: u64) -> &mut Self {
        let tp = &self.sender.tp;
        assert_eq!(tp.srtt_us >> 3, srtt_us, "SRTT at {:?}", self.now);
        let rto = self.sender.rtt().rto;
        assert_eq!(rto, Duration::from_millis(rto_ms), "at {:?}", self.now);
        self
    }

    /// Which timer is set, and for when.
    pub fn due(&mut self, time: Time) -> &mut Self {
        assert_eq!(self.sender.due(), time, "timer set at {:?}", self.now);
        self
    }

    pub fn no_timer(&mut self) -> &mut Self {
        self.due(NEVER)
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.no_leftovers();
        }
    }
}

/// A receiver and the other end of its connection, which is the script.
pub struct Receiving {
    pub receiver: Receiver,
    now: Time,
    /// Age of the time stamps that arriving segments echo.
    rtt: Duration,
    /// Age of arriving segments.
    one_way: Duration,
    answers: Vec<(Time, Reply)>,
}

impl Receiving {
    /// The SYN has been answered at time 0; the round-trip time is 100 ms.
    pub fn established(config: &TcpConfig) -> Self {
        Self::with_rtt(config, 100)
    }

    pub fn with_rtt(config: &TcpConfig, rtt_ms: u64) -> Self {
        let mut receiver = Receiver::new(config);
        receiver.on_syn(Time::ZERO, &blank(Kind::Syn));
        Receiving {
            receiver,
            now: Time::ZERO,
            rtt: Duration::from_millis(rtt_ms),
            one_way: Duration::from_millis(rtt_ms / 2),
            answers: Vec::new(),
        }
    }

    pub fn at(&mut self, time: Time) -> &mut Self {
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
    pub fn data(&mut self, segment: u64) -> &mut Self {
        self.bytes(segment * MSS, MSS as u32)
    }

    pub fn bytes(&mut self, seq: u64, len: u32) -> &mut Self {
        let sent = self.now - self.one_way;
        self.stamped(seq, len, sent)
    }

    /// A full segment arrives that was sent at `sent`.
    pub fn data_sent_at(&mut self, segment: u64, sent: Time) -> &mut Self {
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

    /// An acknowledgement of the first `segments` segments leaves now, without blocks.
    pub fn acks(&mut self, segments: u64) -> Reply {
        self.sacks(segments, &[])
    }

    /// The same with selective blocks, in this order.
    pub fn sacks(&mut self, segments: u64, blocks: &[Range<u64>]) -> Reply {
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

    pub fn answers_nothing(&mut self) -> &mut Self {
        self.no_leftovers();
        self
    }

    /// What leaves now, if anything does.
    pub fn answer(&mut self) -> Option<Reply> {
        (!self.answers.is_empty()).then(|| self.take_answer())
    }

    /// Segments from `first` on arrive one a millisecond until the receiver, having acknowledged
    /// each, no longer does; ends with no acknowledgement pending. Returns the next segment.
    pub fn past_quick_acks(&mut self) -> u64 {
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

    pub fn now(&self) -> Time {
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

/// With this fixed receive buffer, bytes.
pub fn with_buffer(bytes: u64) -> TcpConfig {
    TcpConfig {
        receive_buffer: Some(Bytes(bytes)),
        ..reno()
    }
}
