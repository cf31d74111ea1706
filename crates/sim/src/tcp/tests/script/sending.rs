//! Scripts for senders.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use fairwind_cc::native::find;
use fairwind_path::ecn::Ecn;
use fairwind_path::units::{Duration, Time};

use super::{MSS, blank, ms, reno};
use crate::agenda::NEVER;
use crate::outcome::CongestionState;
use crate::packet::{Kind, Packet, SackBlocks};
use crate::scenario::TcpConfig;
use crate::tcp::{Sender, milliseconds};

/// A sender; the script is its peer.
pub(crate) struct Sending {
    pub sender: Sender,
    now: Time,
    window: u64,
    una: u64,
    /// What the next acknowledgement echoes, unless it is what a receiver would echo.
    echo: Option<u32>,
    /// The handshake and acknowledgements have ECE.
    ece: bool,
    /// Time stamp of the latest copy of each segment.
    stamps: HashMap<u64, u32>,
    sent: Vec<(Time, Packet)>,
}

impl Sending {
    /// A sender that is not open yet.
    pub(crate) fn new(config: &TcpConfig) -> Self {
        Sending {
            sender: Sender::new(Time::ZERO, config, &Rc::default(), 0, 0),
            now: Time::ZERO,
            window: 1 << 30,
            una: 0,
            echo: None,
            ece: config.ecn,
            stamps: HashMap::new(),
            sent: Vec::new(),
        }
    }

    /// Opened at 0; the SYN-ACK arrives after `rtt_ms`, and nothing has been written yet.
    pub(crate) fn established(config: &TcpConfig, rtt_ms: u64) -> Self {
        let mut script = Sending::new(config);
        script.open().sends_syn();
        script.at(ms(rtt_ms)).syn_ack(ms(0));
        script
    }

    /// The same after 100 ms, with this window in the SYN-ACK and afterwards.
    pub(crate) fn with_first_window(bytes: u64) -> Self {
        let mut script = Sending::new(&reno());
        script.open().sends_syn().with_window(bytes);
        script.at(ms(100)).syn_ack(ms(0));
        script
    }

    pub(crate) fn open(&mut self) -> &mut Self {
        self.step(|sender, now, out| sender.open(now, out))
    }

    /// The SYN-ACK for the SYN sent at `syn` arrives.
    pub(crate) fn syn_ack(&mut self, syn: Time) -> &mut Self {
        let packet = Packet {
            window: self.window.min(65_535) as u32,
            ts_val: milliseconds(self.now),
            ts_ecr: milliseconds(syn),
            ece: self.ece,
            ..blank(Kind::SynAck)
        };
        self.ece = false;
        self.receive(packet, SackBlocks::default())
    }

    /// The application writes this many full segments.
    pub(crate) fn write(&mut self, segments: u64) -> &mut Self {
        self.write_bytes(segments * MSS)
    }

    pub(crate) fn write_bytes(&mut self, bytes: u64) -> &mut Self {
        self.step(|sender, now, out| sender.write(now, Some(bytes), out))
    }

    pub(crate) fn write_without_end(&mut self) -> &mut Self {
        self.step(|sender, now, out| sender.write(now, None, out))
    }

    /// The application asks for another congestion control, with its default parameters.
    pub(crate) fn switch_control(&mut self, name: &str) -> &mut Self {
        let parameters = find(name).expect("a control of cc/").default_parameters();
        self.sender.switch_control(self.now, &parameters);
        self
    }

    /// Time passes; timers that are due by then expire.
    pub(crate) fn at(&mut self, time: Time) -> &mut Self {
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

    /// Sets the receiver's window from now on, bytes.
    pub(crate) fn with_window(&mut self, bytes: u64) -> &mut Self {
        self.window = bytes;
        self
    }

    /// The SYN-ACK agrees to ECN, or acknowledgements echo a mark, from now on or no longer.
    pub(crate) fn with_ece(&mut self, ece: bool) -> &mut Self {
        self.ece = ece;
        self
    }

    /// The next acknowledgement echoes a time stamp of this time.
    pub(crate) fn echoing(&mut self, time: Time) -> &mut Self {
        self.echo = Some(milliseconds(time));
        self
    }

    /// Acknowledges the first `segments` segments.
    pub(crate) fn ack(&mut self, segments: u64) -> &mut Self {
        self.sack(segments, &[])
    }

    /// Acknowledges the first `segments` segments, and those of `beyond` selectively.
    pub(crate) fn sack(&mut self, segments: u64, beyond: &[Range<u64>]) -> &mut Self {
        self.acknowledge(segments, None, beyond)
    }

    /// Acknowledges the first `segments` segments, and these bytes selectively.
    pub(crate) fn sack_bytes(&mut self, segments: u64, bytes: Range<u64>) -> &mut Self {
        let mut sack = SackBlocks::default();
        sack.push(bytes);
        self.acknowledge_bytes(segments * MSS, sack)
    }

    /// Acknowledges the first `bytes` bytes.
    pub(crate) fn ack_bytes(&mut self, bytes: u64) -> &mut Self {
        self.acknowledge_bytes(bytes, SackBlocks::default())
    }

    fn acknowledge_bytes(&mut self, bytes: u64, sack: SackBlocks) -> &mut Self {
        let packet = Packet {
            seq: bytes,
            window: self.window as u32,
            ts_val: milliseconds(self.now),
            ts_ecr: milliseconds(ms(0)),
            ..blank(Kind::Ack)
        };
        self.receive(packet, sack)
    }

    /// Like `sack`, and reports the segments of `twice` as received twice (RFC 2883).
    pub(crate) fn dsack(
        &mut self,
        segments: u64,
        twice: Range<u64>,
        beyond: &[Range<u64>],
    ) -> &mut Self {
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
        // RFC 7323, section 4.3: the receiver echoes the segment at the left edge.
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
            ece: self.ece,
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

    /// The segments that leave now, whichever they are.
    pub(crate) fn take_numbers(&mut self) -> Vec<u64> {
        let sent = self.take_sent();
        sent.iter().map(|packet| packet.seq / MSS).collect()
    }

    pub(crate) fn sends_syn(&mut self) -> &mut Self {
        let kinds: Vec<_> = self.take_sent().iter().map(|packet| packet.kind).collect();
        assert_eq!(kinds, [Kind::Syn], "at {:?}", self.now);
        self
    }

    /// Asserts that these full segments leave now, and no others.
    pub(crate) fn sends(&mut self, segments: impl IntoIterator<Item = u64>) -> &mut Self {
        let expected: Vec<_> = segments.into_iter().collect();
        let sent = self.take_sent();
        let numbers: Vec<_> = sent.iter().map(|packet| packet.seq / MSS).collect();
        assert_eq!(numbers, expected, "segments sent at {:?}", self.now);
        assert!(sent.iter().all(|packet| u64::from(packet.len) == MSS));
        self
    }

    /// Asserts that segments with these first bytes and lengths leave now.
    pub(crate) fn sends_bytes_of(&mut self, segments: &[(u64, u32)]) -> &mut Self {
        let sent: Vec<_> = self
            .take_sent()
            .iter()
            .map(|packet| (packet.seq, packet.len))
            .collect();
        assert_eq!(sent, segments, "at {:?}", self.now);
        self
    }

    /// Ignores whatever left now.
    pub(crate) fn forget_sent(&mut self) -> &mut Self {
        self.take_sent();
        self
    }

    pub(crate) fn sends_nothing(&mut self) -> &mut Self {
        self.sends([])
    }

    /// ECE and CWR of the SYN that leaves now.
    pub(crate) fn syn_asks(&mut self) -> (bool, bool) {
        match self.take_sent()[..] {
            [syn] if syn.kind == Kind::Syn => (syn.ece, syn.cwr),
            ref other => panic!("no SYN, but {other:?}"),
        }
    }

    /// Codepoint and CWR of each segment that leaves now.
    pub(crate) fn marks_sent(&mut self) -> Vec<(u64, Ecn, bool)> {
        let sent = self.take_sent();
        let of = |packet: &Packet| (packet.seq / MSS, packet.ecn, packet.cwr);
        sent.iter().map(of).collect()
    }

    /// The segments sent with PSH; everything sent counts as expected.
    pub(crate) fn pushed(&mut self) -> Vec<u64> {
        let sent = std::mem::take(&mut self.sent);
        let pushed = sent.iter().filter(|(_, packet)| packet.push);
        pushed.map(|(_, packet)| packet.seq / MSS).collect()
    }

    pub(crate) fn cwnd(&mut self, packets: u32) -> &mut Self {
        assert_eq!(self.sender.tp().snd_cwnd, packets, "cwnd at {:?}", self.now);
        self
    }

    pub(crate) fn ssthresh(&mut self, packets: u32) -> &mut Self {
        let ssthresh = self.sender.tp().snd_ssthresh;
        assert_eq!(ssthresh, packets, "ssthresh at {:?}", self.now);
        self
    }

    pub(crate) fn state(&mut self, state: CongestionState) -> &mut Self {
        let instruments = self.sender.instruments(self.now);
        assert_eq!(instruments.congestion_state, state, "at {:?}", self.now);
        self
    }

    /// Asserts the smoothed round-trip time and the timeout.
    pub(crate) fn rto(&mut self, srtt_us: u32, rto_ms: u64) -> &mut Self {
        let tp = self.sender.tp();
        assert_eq!(tp.srtt_us >> 3, srtt_us, "SRTT at {:?}", self.now);
        let rto = self.sender.rtt().rto();
        assert_eq!(rto, Duration::from_millis(rto_ms), "at {:?}", self.now);
        self
    }

    /// Asserts when the next timer is due.
    pub(crate) fn due(&mut self, time: Time) -> &mut Self {
        assert_eq!(self.sender.due(), time, "timer set at {:?}", self.now);
        self
    }

    pub(crate) fn no_timer(&mut self) -> &mut Self {
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
