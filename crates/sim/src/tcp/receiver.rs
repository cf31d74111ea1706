//! The receiving half of a connection: reassembly, selective and delayed acknowledgements and the
//! advertised window.
//!
//! The application reads as soon as a segment has been processed, so the window never closes.
//!
//! | Linux 6.x | here |
//! |---|---|
//! | `tcp_data_queue`, `tcp_data_queue_ofo` | [`Receiver::receive`] |
//! | `__tcp_ack_snd_check`, `tcp_send_delayed_ack`, SACK compression | [`AckPolicy`] |
//! | `tcp_select_window`, `tcp_rcv_space_adjust` | [`super::receive_window`] |
//! | a timer retransmits the SYN-ACK | it is sent again when the SYN is |
//! | GRO joins segments before TCP sees them | TCP sees every segment |
//! | a third SACK block flushes the compressed acknowledgement before its own | one acknowledgement for both |

use std::ops::Range;

use fairwind_path::ecn::Ecn;
use fairwind_path::units::{Duration, Time};

use super::ack_policy::{AckPolicy, MAX_QUICK_ACKS};
use super::constants::MSS_DEFAULT;
use super::ecn::{QUICK_ACKS, ReceiverEcn};
use super::jiffies::Jiffies;
use super::receive_window::ReceiveWindow;
use super::{Reply, milliseconds};
use crate::packet::{HEADER, Kind, MAX_SACK_BLOCKS, Packet, SYN_SIZE, SackBlocks};
use crate::scenario::{Stack, TcpConfig};

/// `TCP_SACK_BLOCKS_EXPECTED`: acknowledgements with more blocks are not held back.
const BLOCKS_EXPECTED: usize = 2;

/// The receiving half of a connection.
#[derive(Debug)]
pub(crate) struct Receiver {
    mss: u32,
    /// Payload of the largest segment so far, or what it is assumed to be (`rcv_mss`).
    largest: u32,
    stack: Stack,
    /// When the SYN-ACK was sent; `None` once the first segment has arrived.
    syn_ack_sent: Option<Time>,
    rcv_nxt: u64,
    /// Ranges beyond `rcv_nxt`, sorted and disjoint.
    out_of_order: Vec<(u64, u64)>,
    out_of_order_bytes: u64,
    /// Bytes that the current segment has made readable.
    unread: u64,
    /// The ranges to report in acknowledgements, the latest first (RFC 2018, section 4).
    recent: Vec<(u64, u64)>,
    duplicate: Option<(u64, u64)>,
    ts_recent: u32,
    /// `rcv_nxt` when the last acknowledgement was sent.
    rcv_wup: u64,
    policy: AckPolicy,
    window: ReceiveWindow,
    ecn: ReceiverEcn,
}

impl Receiver {
    /// A receiver that has received nothing yet.
    pub(crate) fn new(config: &TcpConfig) -> Self {
        let jiffies = match config.stack.wheel_hz(config.hz) {
            Some(hz) => Jiffies::new(hz),
            None => Jiffies::without_wheel(1_000_000_000),
        };
        Receiver {
            mss: config.mss,
            largest: config.mss.min(MSS_DEFAULT),
            stack: config.stack,
            syn_ack_sent: None,
            rcv_nxt: 0,
            out_of_order: Vec::new(),
            out_of_order_bytes: 0,
            unread: 0,
            recent: Vec::new(),
            duplicate: None,
            ts_recent: 0,
            rcv_wup: 0,
            policy: AckPolicy::new(jiffies),
            window: ReceiveWindow::new(config),
            ecn: ReceiverEcn::default(),
        }
    }

    /// Bytes delivered in order.
    #[inline]
    pub(crate) fn delivered(&self) -> u64 {
        self.rcv_nxt
    }

    /// The receive buffer, bytes.
    pub(crate) fn buffer_bytes(&self) -> u64 {
        self.window.buffer_bytes()
    }

    /// When [`Receiver::on_timer`] must be called next; `NEVER` if no timer is set.
    #[inline]
    pub(crate) fn due(&self) -> Time {
        self.policy.due()
    }

    /// Answers a SYN.
    pub(crate) fn on_syn(&mut self, now: Time, syn: &Packet) -> Reply {
        self.ts_recent = syn.ts_val;
        self.syn_ack_sent = Some(now);
        let packet = Packet {
            kind: Kind::SynAck,
            seq: 0,
            len: 0,
            size: SYN_SIZE as u16,
            window: self.window.initial(),
            ts_val: milliseconds(now),
            ts_ecr: self.ts_recent,
            hop: 0,
            ece: self.ecn.agrees(syn),
            cwr: false,
            ecn: Ecn::NotEct,
            ..*syn
        };
        Reply {
            packet,
            sack: SackBlocks::default(),
        }
    }

    /// Processes a segment. Returns the reply to send now, if any.
    #[inline]
    pub(crate) fn receive(&mut self, now: Time, packet: &Packet) -> Option<Reply> {
        if let Some(sent) = self.syn_ack_sent {
            self.policy.set_handshake_rtt(now - sent);
            self.syn_ack_sent = None;
        }
        // RFC 7323, section 4.3: the time stamp never moves back.
        if packet.seq <= self.rcv_wup && packet.ts_val.wrapping_sub(self.ts_recent) as i32 >= 0 {
            self.ts_recent = packet.ts_val;
        }
        if packet.len > self.largest {
            self.largest = packet.len;
            if self.stack.measures_overhead() {
                self.window.learn_overhead(packet.len);
            }
        }
        self.window
            .measure_rtt(now, packet.ts_ecr, packet.len >= self.largest);

        let window_reduced = self.ecn.accepts_cwr(packet);
        if packet.seq == self.rcv_nxt && self.out_of_order.is_empty() {
            self.rcv_nxt = packet.end();
            self.on_in_order(now, packet.ecn);
            // A segment that is not full, or has PSH, ends what the sender had to send, and the
            // application has read it (`tcp_measure_rcv_mss`, `tcp_cleanup_rbuf`).
            let ends = packet.len < self.largest || packet.push && self.stack.heeds_push();
            let now_due = ends || window_reduced || self.has_more_than_a_segment_pending();
            return self
                .policy
                .ack_now(now, now_due)
                .then(|| self.acknowledge(now, packet));
        }
        self.unread = 0;
        self.receive_slow(now, packet, window_reduced)
    }

    /// Handles the arrival of data in order (`tcp_event_data_recv`).
    #[inline]
    fn on_in_order(&mut self, now: Time, codepoint: Ecn) {
        self.policy
            .on_data(now, self.window.offered(), self.largest);
        self.note_codepoint(codepoint);
        self.grow_window();
        let held_span = self.held_span();
        self.window.on_in_order(now, self.rcv_nxt, held_span);
    }

    #[inline]
    fn note_codepoint(&mut self, codepoint: Ecn) {
        if self.ecn.on_data(codepoint) {
            self.policy
                .enter_quick_ack_mode(self.window.offered(), self.largest, QUICK_ACKS);
        }
    }

    /// Bytes from the end of the data in order to the end of all data.
    fn held_span(&self) -> u64 {
        let last = self.out_of_order.last();
        last.map_or(0, |&(_, end)| end - self.rcv_nxt)
    }

    #[inline]
    fn grow_window(&mut self) {
        if self.window.grow(self.mss, self.out_of_order_bytes) {
            self.policy.on_window_growth();
        }
    }

    #[inline]
    fn has_more_than_a_segment_pending(&self) -> bool {
        self.rcv_nxt - self.rcv_wup > u64::from(self.largest)
    }

    /// Handles the acknowledgement timers. Returns the acknowledgement if one is due.
    pub(crate) fn on_timer(&mut self, now: Time, template: &Packet) -> Option<Reply> {
        self.unread = 0;
        self.policy
            .on_timer(now)
            .then(|| self.acknowledge(now, template))
    }

    fn receive_slow(&mut self, now: Time, packet: &Packet, window_reduced: bool) -> Option<Reply> {
        if packet.end() <= self.rcv_nxt {
            return Some(self.refuse_duplicate(now, packet));
        }
        if packet.seq > self.rcv_nxt {
            return self.receive_out_of_order(now, packet, window_reduced);
        }
        let had_holes = !self.out_of_order.is_empty();
        let before = self.rcv_nxt;
        self.rcv_nxt = packet.end();
        self.absorb_contiguous();
        if self.stack.withholds_unread_space() {
            self.unread = self.rcv_nxt - before;
        }
        self.on_in_order(now, packet.ecn);
        let all_filled = had_holes && self.out_of_order.is_empty();
        let due_now = all_filled
            || window_reduced
            || self.has_more_than_a_segment_pending()
            || self.policy.in_quick_ack_mode();
        // RFC 5681, section 4.2: an immediate ACK when a segment fills in a gap.
        if due_now || !self.stack.compresses_acks() {
            return Some(self.acknowledge(now, packet));
        }
        self.compressed_or_now(now, packet)
    }

    fn receive_out_of_order(
        &mut self,
        now: Time,
        packet: &Packet,
        window_reduced: bool,
    ) -> Option<Reply> {
        self.note_codepoint(packet.ecn);
        if self.contains(packet.seq, packet.end()) {
            self.duplicate = Some((packet.seq, packet.end()));
        } else {
            self.grow_window();
        }
        // RFC 2883, section 4.2: the block after a duplicate is the one that contains it.
        let merged = self.insert(packet.seq, packet.end());
        self.window.on_out_of_order(self.held_span());
        // A range held back must not lose its place among the blocks (`tcp_sack_new_ofo_skb`).
        let crowded = self.place_of(&merged) >= BLOCKS_EXPECTED && self.policy.is_compressing();
        self.remember(merged);
        if crowded || window_reduced || !self.stack.compresses_acks() {
            return Some(self.acknowledge(now, packet));
        }
        self.compressed_or_now(now, packet)
    }

    fn compressed_or_now(&mut self, now: Time, packet: &Packet) -> Option<Reply> {
        if self.out_of_order.is_empty() {
            return self
                .policy
                .ack_now(now, false)
                .then(|| self.acknowledge(now, packet));
        }
        let delay = compression_delay(self.rtt_us_shifted());
        self.policy
            .wants_selective_ack(now, self.rcv_nxt, delay)
            .then(|| self.acknowledge(now, packet))
    }

    fn refuse_duplicate(&mut self, now: Time, packet: &Packet) -> Reply {
        self.duplicate = Some((packet.seq, packet.end()));
        self.policy
            .enter_quick_ack_mode(self.window.offered(), self.largest, MAX_QUICK_ACKS);
        self.acknowledge(now, packet)
    }

    fn acknowledge(&mut self, now: Time, template: &Packet) -> Reply {
        let mut sack = SackBlocks::default();
        if let Some((start, end)) = self.duplicate.take() {
            sack.push(start..end);
            sack.duplicate_first = true;
        }
        for &(start, end) in &self.recent {
            sack.push(start..end);
        }
        self.policy.on_ack_sent();
        self.rcv_wup = self.rcv_nxt;
        let unread = std::mem::take(&mut self.unread);
        let held = self.out_of_order_bytes;
        let window = self.window.select(self.rcv_nxt, held, unread);
        let packet = Packet {
            kind: Kind::Ack,
            seq: self.rcv_nxt,
            len: 0,
            size: (HEADER + sack.option_size()) as u16,
            window,
            ts_val: milliseconds(now),
            ts_ecr: self.ts_recent,
            hop: 0,
            ece: self.ecn.echoes(),
            cwr: false,
            ecn: Ecn::NotEct,
            ..*template
        };
        Reply { packet, sack }
    }

    /// The smaller of the known round-trip times, microseconds times eight.
    fn rtt_us_shifted(&self) -> u32 {
        let handshake = 8 * self.policy.handshake_rtt().as_micros();
        let measured = self.window.rtt_us_shifted();
        match handshake {
            0 => measured,
            handshake => handshake.min(u64::from(measured)) as u32,
        }
    }

    fn contains(&self, start: u64, end: u64) -> bool {
        let after = self.out_of_order.partition_point(|&(s, _)| s <= start);
        after > 0 && self.out_of_order[after - 1].1 >= end
    }

    /// Adds a range and returns the merged range that now contains it.
    fn insert(&mut self, start: u64, end: u64) -> Range<u64> {
        let first = self.out_of_order.partition_point(|&(_, e)| e < start);
        let last = self.out_of_order.partition_point(|&(s, _)| s <= end);
        let mut merged = start..end;
        for &(s, e) in &self.out_of_order[first..last] {
            merged.start = merged.start.min(s);
            merged.end = merged.end.max(e);
            self.out_of_order_bytes -= e - s;
        }
        self.out_of_order_bytes += merged.end - merged.start;
        if last == first {
            self.out_of_order.insert(first, (merged.start, merged.end));
        } else {
            self.out_of_order[first] = (merged.start, merged.end);
            self.out_of_order.drain(first + 1..last);
        }
        merged
    }

    /// Index of the first reported range that is part of `range`; their number if there is none.
    fn place_of(&self, range: &Range<u64>) -> usize {
        let part = |&(start, end): &(u64, u64)| start <= range.end && end >= range.start;
        let known = self.recent.iter().position(part);
        known.unwrap_or(self.recent.len())
    }

    /// Puts a range at the head of the reported ones, replacing its parts.
    fn remember(&mut self, range: Range<u64>) {
        self.recent
            .retain(|&(s, e)| s > range.end || e < range.start);
        self.recent.insert(0, (range.start, range.end));
        self.recent.truncate(MAX_SACK_BLOCKS + 1);
    }

    fn absorb_contiguous(&mut self) {
        let mut taken = 0;
        for &(start, end) in &self.out_of_order {
            if start > self.rcv_nxt {
                break;
            }
            self.rcv_nxt = self.rcv_nxt.max(end);
            self.out_of_order_bytes -= end - start;
            taken += 1;
        }
        self.out_of_order.drain(..taken);
        let rcv_nxt = self.rcv_nxt;
        self.recent.retain(|&(_, end)| end > rcv_nxt);
    }
}

/// How long selective acknowledgements may be held back: 5 % of the round-trip time, at most 1 ms
/// (`tcp_comp_sack_delay_ns`).
fn compression_delay(rtt_us_shifted: u32) -> Duration {
    Duration::from_nanos((u64::from(rtt_us_shifted) * 125 / 20).min(1_000_000))
}
