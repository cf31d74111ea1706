//! The sending half of a connection: acknowledgements in, packets out (`tcp_ack`).

use std::mem;

use fairwind_cc::native::{AckSample, Control, TcpSock, ca_event, ca_state};
use fairwind_path::units::{Duration, Time};

use super::rack::Rack;
use super::rate::{DeliveryRate, Sample};
use super::retransmit_queue::{
    EVER_RETRANSMITTED, LOST, RETRANSMITTED, RetransmitQueue, SACKED, Segment,
};
use super::rtt::{RTO_INITIAL, RttEstimator};
use super::scoreboard::SackResult;
use super::{clock_ns, milliseconds};
use crate::agenda::NEVER;
use crate::outcome::{CongestionState, Instruments};
use crate::packet::{Kind, Packet, SYN_SIZE, SackBlocks, SackPool};
use crate::scenario::{Stack, TcpConfig};

/// `TCP_FASTRETRANS_THRESH`, segments.
pub const DUPLICATE_THRESHOLD: u32 = 3;
/// Initial window of the papers' days, segments (RFC 2581).
const CLASSIC_INITIAL_CWND: u32 = 2;
/// Initial timeout of the papers' days (RFC 2988, section 2.1).
const CLASSIC_RTO_INITIAL: Duration = Duration::from_secs(3);
/// More payload than any run moves.
const UNLIMITED: u64 = u64::MAX / 4;

/// What an acknowledgement did: `FLAG_*` of `tcp_input.c`, which controls see.
pub mod flag {
    /// The window changed.
    pub const WIN_UPDATE: u32 = 0x02;
    /// New data was acknowledged.
    pub const DATA_ACKED: u32 = 0x04;
    /// Some of it had been sent again.
    pub const RETRANS_DATA_ACKED: u32 = 0x08;
    /// New data was acknowledged selectively.
    pub const DATA_SACKED: u32 = 0x20;
    /// A retransmission was lost.
    pub const LOST_RETRANS: u32 = 0x80;
    /// Never retransmitted data was acknowledged after a timeout.
    pub const ORIG_SACK_ACKED: u32 = 0x200;
    /// `snd_una` moved.
    pub const SND_UNA_ADVANCED: u32 = 0x400;
    /// It reports a duplicate.
    pub const DSACKING_ACK: u32 = 0x800;
    /// The timers are to be set anew.
    pub const SET_XMIT_TIMER: u32 = 0x1000;
    /// It was probably delayed by the receiver.
    pub const ACK_MAYBE_DELAYED: u32 = 0x10000;
    /// Not a duplicate acknowledgement.
    pub const NOT_DUP: u32 = 0x01 | WIN_UPDATE | DATA_ACKED;
    /// A sign of trouble.
    pub const CA_ALERT: u32 = DATA_SACKED | DSACKING_ACK;
}

/// What the one retransmission timer stands for (`icsk_pending`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Nothing is due.
    Idle,
    /// Retransmission timeout.
    Retransmit,
    /// Tail loss probe.
    LossProbe,
    /// RACK's reordering window.
    Reordering,
}

/// What to send after an acknowledgement besides new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retransmit {
    /// Nothing.
    Nothing,
    /// What is marked lost.
    Lost,
    /// New data first, to see whether the timeout was spurious.
    New,
}

/// Counts of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Segments sent, first and again.
    pub segments_sent: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Reductions of the window.
    pub congestion_signals: u64,
}

/// What keeps a sender from sending more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Cwnd,
    Receiver,
    Sender,
}

/// The sending half of a connection.
#[derive(Debug)]
pub struct Sender {
    /// What the congestion control sees.
    pub tp: TcpSock,
    pub(super) control: &'static Control,
    pub(super) linux: bool,
    connection: u32,
    generation: u16,
    established: bool,
    pub(super) snd_una: u64,
    pub(super) snd_nxt: u64,
    /// One past the last byte that the application has written.
    pub(super) write_seq: u64,
    /// Most bytes between `snd_una` and `write_seq`.
    pub(super) send_buffer: u64,
    pub(super) window_end: u64,
    pub(super) high_seq: u64,
    pub(super) prior_ssthresh: u32,
    pub(super) undo_marker: Option<u64>,
    pub(super) undo_retrans: i32,
    /// When the first retransmission of this episode left, milliseconds.
    pub(super) retrans_stamp: Option<u32>,
    pub(super) queue: RetransmitQueue,
    /// Blocks of the latest selective acknowledgement, sorted.
    pub(super) sack_cache: Vec<(u64, u64)>,
    /// Number of the highest segment delivered selectively.
    pub(super) highest_sacked: Option<u64>,
    /// No segment before this number waits to be sent again.
    pub(super) retransmit_hint: u64,
    pub(super) reordering: u32,
    pub(super) reordering_seen: bool,
    /// Segments that duplicate reports have told of (`dsack_dups`).
    pub(super) duplicates: u64,
    pub(super) rack: Rack,
    pub(super) rtt: RttEstimator,
    rate: DeliveryRate,
    pub(super) tlp_high_seq: Option<u64>,
    pub(super) tlp_retransmitted: bool,
    pub(super) tlp_duplicate: bool,
    pub(super) frto: bool,
    ts_recent: u32,
    pub(super) ts_ecr: u32,
    pub(super) timer: Timer,
    timer_due: Time,
    /// When the pacer lets the next segment go, nanoseconds of the host's clock.
    pub(super) pacing_ns: u64,
    /// How late the latest segment left, nanoseconds.
    pub(super) pacing_credit_ns: u64,
    pub(super) pacing_due: Time,
    pub(super) pacing: bool,
    pub(super) now: Time,
    pub(super) statistics: Statistics,
    syn_retries: u8,
    pub(super) limit: Limit,
    pub(super) limit_since: Time,
    limited_us: [u64; 3],
}

impl Sender {
    /// A sender that has not opened its connection.
    pub fn new(config: &TcpConfig, connection: u32, generation: u16) -> Self {
        let linux = config.stack == Stack::Linux;
        let mut tp = TcpSock {
            mss_cache: config.mss,
            ..TcpSock::default()
        };
        if !linux {
            tp.snd_cwnd = CLASSIC_INITIAL_CWND;
        }
        config.control.init(&mut tp, &config.parameters);
        Sender {
            tp,
            control: config.control,
            linux,
            connection,
            generation,
            established: false,
            snd_una: 0,
            snd_nxt: 0,
            write_seq: 0,
            send_buffer: config.send_buffer.map_or(config.tcp_wmem[2], |b| b.0),
            window_end: 0,
            high_seq: 0,
            prior_ssthresh: 0,
            undo_marker: None,
            undo_retrans: 0,
            retrans_stamp: None,
            queue: RetransmitQueue::new(),
            sack_cache: Vec::with_capacity(4),
            highest_sacked: None,
            retransmit_hint: 0,
            reordering: DUPLICATE_THRESHOLD,
            reordering_seen: false,
            duplicates: 0,
            rack: Rack::new(),
            rtt: RttEstimator::new(if linux {
                RTO_INITIAL
            } else {
                CLASSIC_RTO_INITIAL
            }),
            rate: DeliveryRate::default(),
            tlp_high_seq: None,
            tlp_retransmitted: false,
            tlp_duplicate: false,
            frto: false,
            ts_recent: 0,
            ts_ecr: 0,
            timer: Timer::Idle,
            timer_due: NEVER,
            pacing_ns: 0,
            pacing_credit_ns: 0,
            pacing_due: NEVER,
            pacing: config.pacing,
            now: Time::ZERO,
            statistics: Statistics::default(),
            syn_retries: 0,
            limit: Limit::Sender,
            limit_since: Time::ZERO,
            limited_us: [0; 3],
        }
    }

    /// When [`Sender::on_timer`] wants to be called, or [`NEVER`].
    #[inline]
    pub fn due(&self) -> Time {
        self.timer_due.min(self.pacing_due)
    }

    /// Counts.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// The round-trip times measured.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// The same, to begin its statistics anew.
    pub fn rtt_mut(&mut self) -> &mut RttEstimator {
        &mut self.rtt
    }

    /// Bytes that have been acknowledged.
    pub fn bytes_acked(&self) -> u64 {
        self.snd_una
    }

    /// Bytes written and not yet acknowledged.
    pub fn bytes_outstanding(&self) -> u64 {
        self.write_seq - self.snd_una
    }

    /// Opens the connection.
    pub fn open(&mut self, now: Time, out: &mut Vec<Packet>) {
        self.refresh(now);
        out.push(self.syn());
        self.timer = Timer::Retransmit;
        self.timer_due = now + self.rtt.rto;
        self.limit_since = now;
    }

    /// The application writes so many bytes, or without limit, and they are sent as far as the
    /// windows allow.
    pub fn write(&mut self, now: Time, bytes: Option<u64>, out: &mut Vec<Packet>) {
        self.refresh(now);
        self.write_seq = match bytes {
            Some(bytes) => self.write_seq + bytes,
            None => UNLIMITED,
        };
        if self.established {
            self.restart_after_idle();
            self.transmit_new(out, false);
        }
    }

    /// The application stops writing: what has not been sent will not be.
    pub fn stop_writing(&mut self) {
        self.write_seq = self.snd_nxt;
    }

    /// An acknowledgement, or a SYN-ACK, arrives.
    #[inline]
    pub fn receive(
        &mut self,
        now: Time,
        packet: &Packet,
        sack: &SackBlocks,
        out: &mut Vec<Packet>,
    ) {
        self.refresh(now);
        if packet.kind == Kind::SynAck {
            self.on_syn_ack(now, packet, out);
            return;
        }
        if !self.established {
            return;
        }
        self.on_ack(packet, sack, out);
        self.transmit_new(out, false);
        #[cfg(test)]
        self.check_counters();
    }

    /// A timer has expired.
    pub fn on_timer(&mut self, now: Time, out: &mut Vec<Packet>) {
        self.refresh(now);
        if self.pacing_due <= now {
            self.pacing_due = NEVER;
            if self.tp.lost_out > self.tp.retrans_out {
                self.transmit_lost_into(out);
            }
            self.transmit_new(out, false);
        }
        if self.timer_due > now {
            return;
        }
        let timer = mem::replace(&mut self.timer, Timer::Idle);
        self.timer_due = NEVER;
        if !self.established {
            self.retry_syn(out);
            return;
        }
        match timer {
            Timer::Idle => {}
            Timer::Retransmit => self.on_retransmission_timeout(out),
            Timer::LossProbe => self.send_loss_probe(out),
            Timer::Reordering => {
                self.timer = Timer::Reordering;
                self.on_reordering_timeout_into(out);
            }
        }
    }

    fn on_syn_ack(&mut self, now: Time, packet: &Packet, out: &mut Vec<Packet>) {
        if self.established {
            return;
        }
        self.established = true;
        self.ts_recent = packet.ts_val;
        self.window_end = u64::from(packet.window);
        self.tp.snd_wnd = packet.window;
        self.timer = Timer::Idle;
        self.timer_due = NEVER;
        let rtt_us = self.syn_rtt_us(now, packet.ts_ecr);
        self.rtt.update_min(&mut self.tp, rtt_us);
        self.rtt.update(&mut self.tp, rtt_us, 0, 0);
        if self.syn_retries > 1 {
            self.tp.snd_cwnd = 1;
        }
        self.tp.mss_cache = half_window_mss(self.tp.mss_cache, packet.window);
        // The SYN counts as delivered.
        self.tp.delivered = 1;
        self.tp.delivered_mstamp = self.tp.tcp_mstamp;
        self.tp.snd_cwnd_stamp = self.tp.jiffies;
        self.update_pacing_rate();
        self.transmit_new(out, false);
    }

    /// To the microsecond if there was only one SYN; else the time stamp tells which one was
    /// answered.
    fn syn_rtt_us(&self, now: Time, sent_ms: u32) -> u32 {
        if self.syn_retries == 0 {
            return (self.tp.tcp_mstamp - self.tp.first_tx_mstamp) as u32;
        }
        1000 * milliseconds(now).wrapping_sub(sent_ms).max(1)
    }

    fn retry_syn(&mut self, out: &mut Vec<Packet>) {
        self.syn_retries += 1;
        self.statistics.timeouts += 1;
        self.rtt.back_off();
        out.push(self.syn());
        self.timer = Timer::Retransmit;
        self.timer_due = self.now + self.rtt.rto;
    }

    fn syn(&mut self) -> Packet {
        self.tp.first_tx_mstamp = self.tp.tcp_mstamp;
        Packet {
            kind: Kind::Syn,
            size: SYN_SIZE as u16,
            ..self.packet(0, 0)
        }
    }

    pub(super) fn packet(&self, seq: u64, len: u32) -> Packet {
        Packet {
            seq,
            connection: self.connection,
            len,
            window: 0,
            ts_val: (self.pacing_ns.max(self.tp.now_ns) / 1_000_000) as u32,
            ts_ecr: self.ts_recent,
            sack: SackPool::NONE,
            size: (len + crate::packet::HEADER) as u16,
            generation: self.generation,
            hop: 0,
            kind: Kind::Data,
        }
    }

    /// Brings the clocks that controls see up to now.
    #[inline]
    fn refresh(&mut self, now: Time) {
        self.now = now;
        let ns = clock_ns(now);
        self.tp.now_ns = ns;
        self.tp.tcp_mstamp = ns / 1000;
        self.tp.jiffies = (ns / 1_000_000) as u32;
    }

    fn on_ack(&mut self, packet: &Packet, sack: &SackBlocks, out: &mut Vec<Packet>) {
        let ack = packet.seq;
        let prior_una = self.snd_una;
        let prior_delivered = self.tp.delivered;
        let prior_lost = self.tp.lost;
        let prior_sacked = self.tp.sacked_out;
        let prior_highest = self.highest_sacked_seq();
        let mut flags = 0;
        let mut sacked = SackResult::default();
        if ack > self.snd_nxt {
            return;
        }
        let mut rate = Sample::new(self.in_flight());
        if ack >= prior_una {
            self.ts_recent = packet.ts_val;
            self.ts_ecr = packet.ts_ecr;
            if ack > prior_una {
                flags |= flag::SND_UNA_ADVANCED;
                self.tp.icsk_retransmits = 0;
                self.snd_una = ack;
                self.tp.snd_una = ack as u32;
                self.tp.bytes_acked = ack;
            }
            flags |= self.update_window(packet, prior_una);
        }
        self.tlp_duplicate = false;
        if !sack.is_empty() {
            flags |= self.tag_sacked(ack, prior_una, sack, &mut rate, &mut sacked);
        }
        if ack < prior_una {
            // Old, but its selective acknowledgements count.
            if sack.is_empty() {
                return;
            }
            let next = self.alert(prior_una, false, &mut flags);
            self.send_after_ack(next, out);
            return;
        }
        let had_packets = self.tp.packets_out > 0;
        if !had_packets {
            // A late duplicate report can still show that the window was reduced for nothing.
            if flags & flag::DSACKING_ACK != 0 {
                self.alert(prior_una, false, &mut flags);
            }
            self.process_probe_ack(ack, flags);
            return;
        }
        flags |= self.clean_queue(
            flags,
            prior_una,
            prior_sacked,
            prior_highest,
            &mut rate,
            &sacked,
        );
        self.rack
            .update_window(rate.sample.prior_delivered, self.tp.delivered);
        self.process_probe_ack(ack, flags);
        let mut next = Retransmit::Nothing;
        if self.is_dubious(flags) {
            let duplicate =
                flags & (flag::SND_UNA_ADVANCED | flag::NOT_DUP | flag::DSACKING_ACK) == 0;
            if !self.linux && flags & flag::DATA_ACKED != 0 && self.may_raise_cwnd(flags) {
                self.avoid_congestion(ack, 1);
            }
            next = self.alert(prior_una, duplicate, &mut flags);
        } else if !self.linux && flags & flag::DATA_ACKED != 0 {
            self.avoid_congestion(ack, 1);
        }
        if flags & flag::SET_XMIT_TIMER != 0 {
            self.set_xmit_timer();
        }
        let delivered = self.tp.delivered.wrapping_sub(prior_delivered);
        let lost = self.tp.lost.wrapping_sub(prior_lost);
        rate.sample.is_ack_delayed = flags & flag::ACK_MAYBE_DELAYED != 0;
        self.rate.generate(&mut self.tp, &mut rate, delivered, lost);
        self.control_congestion(ack, delivered, lost, flags, &rate);
        self.send_after_ack(next, out);
    }

    #[inline]
    fn is_dubious(&self, flags: u32) -> bool {
        flags & flag::NOT_DUP == 0
            || flags & flag::CA_ALERT != 0
            || self.tp.icsk_ca_state != ca_state::OPEN
    }

    #[inline]
    fn update_window(&mut self, packet: &Packet, prior_una: u64) -> u32 {
        let end = packet.seq + u64::from(packet.window);
        if packet.seq > prior_una || end > self.window_end {
            self.window_end = self.window_end.max(end);
            self.tp.snd_wnd = packet.window;
            return flag::WIN_UPDATE;
        }
        0
    }

    /// Takes what is acknowledged off the queue and measures the round-trip time
    /// (`tcp_clean_rtx_queue`).
    #[inline]
    fn clean_queue(
        &mut self,
        before: u32,
        prior_una: u64,
        prior_sacked: u32,
        prior_highest: u64,
        rate: &mut Sample,
        sacked: &SackResult,
    ) -> u32 {
        let mut flags = 0;
        let mut reordered = u64::MAX;
        let (mut first_us, mut last_us) = (0, 0);
        let mut packets_acked = 0;
        let now_us = self.tp.tcp_mstamp;
        let min_rtt_us = self.min_rtt_us();
        while let Some(head) = self.queue.head() {
            if head.end() > self.snd_una {
                break;
            }
            let number = self.queue.first();
            let segment = *head;
            if segment.is(EVER_RETRANSMITTED) {
                if segment.is(RETRANSMITTED) {
                    self.tp.retrans_out -= 1;
                }
                flags |= flag::RETRANS_DATA_ACKED;
            } else if !segment.is(SACKED) {
                last_us = segment.tx_us;
                if first_us == 0 {
                    first_us = last_us;
                }
                reordered = reordered.min(segment.seq);
                if segment.end() <= self.high_seq {
                    flags |= flag::ORIG_SACK_ACKED;
                }
            }
            if segment.is(SACKED) {
                self.tp.sacked_out -= 1;
            } else {
                self.tp.delivered = self.tp.delivered.wrapping_add(1);
                if !self.is_ack_before(&segment) {
                    self.rack.advance(&segment, now_us, min_rtt_us);
                }
            }
            if segment.is(LOST) {
                self.tp.lost_out -= 1;
            }
            self.tp.packets_out -= 1;
            packets_acked += 1;
            rate.on_delivered(&mut self.tp, self.queue.get_mut(number));
            flags |= flag::DATA_ACKED;
            self.queue.pop();
        }
        let all = before | flags;
        let mut seq_rtt_us = -1;
        let mut ca_rtt_us = -1;
        if first_us != 0 && flags & flag::RETRANS_DATA_ACKED == 0 {
            seq_rtt_us = now_us.saturating_sub(first_us) as i64;
            ca_rtt_us = now_us.saturating_sub(last_us) as i64;
            let alone = packets_acked == 1
                && prior_sacked == 0
                && self.snd_una - prior_una < u64::from(self.tp.mss_cache)
                && rate.sample.prior_delivered + 1 == self.tp.delivered
                && all & flag::CA_ALERT == 0;
            if alone {
                flags |= flag::ACK_MAYBE_DELAYED;
            }
        }
        let mut sack_rtt_us = -1;
        if sacked.first_us != 0 {
            sack_rtt_us = now_us.saturating_sub(sacked.first_us) as i64;
            ca_rtt_us = now_us.saturating_sub(sacked.last_us) as i64;
        }
        let updated = self.update_rtt(flags, seq_rtt_us, sack_rtt_us, ca_rtt_us, rate);
        if flags & flag::DATA_ACKED != 0 {
            flags |= flag::SET_XMIT_TIMER;
            if reordered < prior_highest {
                self.note_reordering(reordered);
            }
            self.retransmit_hint = self.retransmit_hint.max(self.queue.first());
        } else if updated && sack_rtt_us >= 0 {
            let head_age_us = self
                .queue
                .head()
                .map_or(0, |head| now_us.saturating_sub(head.tx_us));
            if sack_rtt_us > head_age_us as i64 {
                flags |= flag::SET_XMIT_TIMER;
            }
        }
        if self.control.has_pkts_acked() {
            let sample = AckSample {
                pkts_acked: packets_acked,
                rtt_us: rate.sample.rtt_us as i32,
                in_flight: rate.sample.prior_in_flight,
            };
            self.control.pkts_acked(&mut self.tp, &sample);
        }
        flags
    }

    /// The acknowledgement echoes a time stamp from before the segment was sent again, so it is
    /// for the original (`tcp_skb_spurious_retrans`).
    #[inline]
    fn is_ack_before(&self, segment: &Segment) -> bool {
        segment.is(EVER_RETRANSMITTED)
            && (self.ts_ecr.wrapping_sub((segment.tx_us / 1000) as u32) as i32) < 0
    }

    /// `tcp_ack_update_rtt`; times in microseconds, negative: none.
    #[inline]
    fn update_rtt(
        &mut self,
        flags: u32,
        seq_rtt_us: i64,
        sack_rtt_us: i64,
        ca_rtt_us: i64,
        rate: &mut Sample,
    ) -> bool {
        let mut rtt_us = if seq_rtt_us < 0 {
            sack_rtt_us
        } else {
            seq_rtt_us
        };
        let mut ca_rtt_us = ca_rtt_us;
        if rtt_us < 0 && flags & flag::DATA_ACKED != 0 && self.ts_ecr != 0 {
            // Only retransmissions were acknowledged: the time stamp tells which copy.
            let elapsed_ms = milliseconds(self.now).wrapping_sub(self.ts_ecr);
            rtt_us = i64::from(elapsed_ms.max(1)) * 1000;
            ca_rtt_us = rtt_us;
        }
        rate.sample.rtt_us = ca_rtt_us;
        if rtt_us < 0 {
            return false;
        }
        // The minimum must not drift up to what a delayed acknowledgement shows.
        let delayed = flags & flag::ACK_MAYBE_DELAYED != 0;
        if !delayed || ca_rtt_us <= i64::from(self.min_rtt_us()) {
            self.rtt.update_min(&mut self.tp, ca_rtt_us as u32);
        }
        self.rtt
            .update(&mut self.tp, rtt_us as u32, self.snd_una, self.snd_nxt);
        true
    }

    /// `tcp_min_rtt`: a great value before the first measurement.
    #[inline]
    pub(super) fn min_rtt_us(&self) -> u32 {
        self.tp.rtt_min_us
    }

    fn may_raise_cwnd(&self, flags: u32) -> bool {
        if !self.linux {
            return !self.in_cwnd_reduction();
        }
        if self.reordering > DUPLICATE_THRESHOLD {
            return flags & (flag::DATA_ACKED | flag::DATA_SACKED) != 0;
        }
        flags & flag::DATA_ACKED != 0
    }

    /// `tcp_cong_control`.
    #[inline]
    fn control_congestion(
        &mut self,
        ack: u64,
        delivered: u32,
        lost: u32,
        flags: u32,
        rate: &Sample,
    ) {
        if self.control.has_cong_control() {
            self.control
                .cong_control(&mut self.tp, ack as u32, flags as i32, &rate.sample);
            self.bound_cwnd();
            return;
        }
        if self.in_cwnd_reduction() {
            let advanced = flags & flag::SND_UNA_ADVANCED != 0;
            self.reduce_cwnd(delivered, lost, advanced);
        } else if self.linux && self.may_raise_cwnd(flags) {
            self.avoid_congestion(ack, delivered);
        }
        self.update_pacing_rate();
    }

    fn avoid_congestion(&mut self, ack: u64, acked: u32) {
        if self.control.has_cong_control() {
            return;
        }
        self.control.cong_avoid(&mut self.tp, ack as u32, acked);
        self.tp.snd_cwnd_stamp = self.tp.jiffies;
        self.bound_cwnd();
    }

    /// A control must leave at least one packet, as the kernel insists.
    #[inline]
    fn bound_cwnd(&mut self) {
        self.tp.snd_cwnd = self.tp.snd_cwnd.clamp(1, self.tp.snd_cwnd_clamp);
    }

    /// `tcp_update_pacing_rate`: twice the rate in slow start, 1.2 times after it.
    #[inline]
    fn update_pacing_rate(&mut self) {
        let mut rate = u64::from(self.tp.mss_cache) * (1_000_000 << 3) / 100;
        rate *= if self.tp.snd_cwnd < self.tp.snd_ssthresh / 2 {
            200
        } else {
            120
        };
        rate *= u64::from(self.tp.snd_cwnd.max(self.tp.packets_out));
        if self.tp.srtt_us != 0 {
            rate /= u64::from(self.tp.srtt_us);
        }
        self.tp.sk_pacing_rate = rate.min(self.tp.sk_max_pacing_rate);
    }

    fn send_after_ack(&mut self, next: Retransmit, out: &mut Vec<Packet>) {
        match next {
            Retransmit::Nothing => {}
            Retransmit::Lost => self.transmit_lost_into(out),
            Retransmit::New => {
                self.transmit_new(out, false);
                // Nothing new could go: the timeout was no mistake.
                if self.snd_nxt <= self.high_seq {
                    self.frto = false;
                    self.transmit_lost_into(out);
                }
            }
        }
    }

    pub(super) fn set_timer(&mut self, timer: Timer, after: Duration) {
        self.timer = timer;
        self.timer_due = self.now + after;
    }

    pub(super) fn clear_timer(&mut self) {
        self.timer = Timer::Idle;
        self.timer_due = NEVER;
    }

    /// `tcp_set_xmit_timer`.
    #[inline]
    fn set_xmit_timer(&mut self) {
        if !self.schedule_loss_probe(true) {
            self.rearm_rto();
        }
    }

    fn restart_after_idle(&mut self) {
        if self.tp.packets_out > 0 || self.control.has_cong_control() {
            return;
        }
        let rto_ms = self.rtt.rto.as_nanos() / 1_000_000;
        let mut idle_ms = i64::from(self.tp.jiffies.wrapping_sub(self.tp.lsndtime));
        if self.tp.lsndtime == 0 || idle_ms <= rto_ms as i64 {
            return;
        }
        self.control
            .cwnd_event(&mut self.tp, ca_event::CWND_RESTART);
        self.tp.snd_ssthresh = self.current_ssthresh();
        let initial = self.initial_cwnd();
        let mut cwnd = self.tp.snd_cwnd;
        let least = initial.min(cwnd);
        loop {
            idle_ms -= rto_ms as i64;
            if idle_ms <= 0 || cwnd <= least {
                break;
            }
            cwnd >>= 1;
        }
        self.tp.snd_cwnd = cwnd.max(least);
        self.tp.snd_cwnd_stamp = self.tp.jiffies;
        self.tp.snd_cwnd_used = 0;
    }

    pub(super) fn initial_cwnd(&self) -> u32 {
        if self.linux {
            fairwind_cc::native::TCP_INIT_CWND
        } else {
            CLASSIC_INITIAL_CWND
        }
    }

    /// Books the time since the last change to what held the sender back.
    #[inline]
    pub(super) fn set_limit(&mut self, limit: Limit) {
        if limit != self.limit {
            self.limited_us[self.limit as usize] += (self.now - self.limit_since).as_micros();
            self.limit = limit;
            self.limit_since = self.now;
        }
    }

    /// The instruments at `now`; the receiver's are left at zero.
    pub fn instruments(&self, now: Time) -> Instruments {
        let mss = u64::from(self.tp.mss_cache);
        let infinite = fairwind_cc::native::TCP_INFINITE_SSTHRESH;
        let mut limited = self.limited_us;
        limited[self.limit as usize] += (now - self.limit_since).as_micros();
        Instruments {
            cwnd_bytes: u64::from(self.tp.snd_cwnd) * mss,
            ssthresh_bytes: if self.tp.snd_ssthresh >= infinite {
                u64::MAX
            } else {
                u64::from(self.tp.snd_ssthresh) * mss
            },
            smoothed_rtt_us: self.tp.srtt_us >> 3,
            rto_us: self.rtt.rto.as_micros() as u32,
            sample_rtt_us: self.rtt.sample_us,
            min_rtt_us: match self.rtt.least_us {
                u32::MAX => 0,
                least => least,
            },
            rtt_var_us: self.tp.rttvar_us >> 2,
            in_flight_bytes: u64::from(self.in_flight()) * mss,
            rwin_received_bytes: self.window_end.saturating_sub(self.snd_una),
            bytes_acked: self.snd_una,
            segments_retransmitted: self.statistics.retransmits,
            timeouts: self.statistics.timeouts,
            congestion_signals: self.statistics.congestion_signals,
            pacing_rate: self.tp.sk_pacing_rate,
            delivery_rate: self.rate.bytes_per_second(self.tp.mss_cache),
            limited_by_receiver_us: limited[Limit::Receiver as usize],
            limited_by_cwnd_us: limited[Limit::Cwnd as usize],
            limited_by_sender_us: limited[Limit::Sender as usize],
            state: match self.tp.icsk_ca_state {
                ca_state::DISORDER => CongestionState::Disorder,
                ca_state::CWR => CongestionState::Cwr,
                ca_state::RECOVERY => CongestionState::Recovery,
                ca_state::LOSS => CongestionState::Loss,
                _ => CongestionState::Open,
            },
            ..Instruments::default()
        }
    }
}

/// The segment size of a connection whose receiver offers little: half the window, so that there
/// are acknowledgements to clock the next one (`tcp_bound_to_half_wnd`).
fn half_window_mss(mss: u32, window: u32) -> u32 {
    const MSS_DEFAULT: u32 = 536;
    let most = if window > MSS_DEFAULT {
        window / 2
    } else {
        window
    };
    mss.min(most.max(16))
}
