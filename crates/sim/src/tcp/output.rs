//! Transmission: new data within the windows, retransmissions, and tail loss probes (RFC 8985,
//! section 7), paced if the congestion control asks for it (`tcp_output.c`).
//!
//! | Linux 6.x | here |
//! |---|---|
//! | `tcp_write_xmit` sends bursts of up to 64 KiB | one segment per packet, the last of a burst with PSH |
//! | Nagle's algorithm delays small segments | bulk senders set `TCP_NODELAY` |

use fairwind_cc::native::{PACING_NONE, ca_event, ca_state};

use super::clock_ns;
use super::instruments::Limit;
use super::rack::TIMEOUT_MIN_US;
use super::rate;
use super::retransmit_queue::{
    EVER_RETRANSMITTED, LOST, RACK_LOST, RETRANSMITTED, SACKED, Segment,
};
use super::rtt::{RTO_INITIAL, RTO_MIN_US};
use super::sender::{Sender, Timer};
use crate::packet::Packet;
use fairwind_path::units::{Duration, Time};

/// `sk_pacing_shift`: a burst is what the pacing rate sends in 1/1024 s.
const PACING_SHIFT: u32 = 10;
/// `tcp_tso_rtt_log`: the extra burst for short paths halves with every 512 us of round-trip time.
const TSO_RTT_LOG: u32 = 9;
/// Spacing starts when a connection has sent this many segments (`tcp_update_skb_after_send`).
const UNPACED_SEGMENTS: u64 = 10;

impl Sender {
    /// Whether there is data that has not been sent yet.
    pub(super) fn has_unsent(&self) -> bool {
        self.snd_nxt < self.sendable_end()
    }

    pub(super) fn sendable_end(&self) -> u64 {
        self.write_seq.min(self.snd_una + self.send_buffer)
    }

    /// Sends new data as the windows allow (`tcp_write_xmit`). With `probe`, exactly one segment,
    /// even if the congestion window is full.
    #[inline]
    pub(super) fn transmit_new(&mut self, out: &mut Vec<Packet>, probe: bool) {
        let end = self.sendable_end();
        let mut sent = 0;
        let first = out.len();
        let mut limit = Limit::Cwnd;
        let mut quota = self.tp.snd_cwnd.saturating_sub(self.in_flight());
        if probe {
            quota = 1;
        }
        loop {
            if self.snd_nxt >= end {
                limit = Limit::Sender;
                break;
            }
            if quota == 0 || self.is_held_by_pacing() {
                break;
            }
            let len = (end - self.snd_nxt).min(u64::from(self.tp.mss_cache)) as u32;
            if self.snd_nxt + u64::from(len) > self.window_end {
                limit = Limit::Receiver;
                break;
            }
            self.transmit_segment(len, out);
            quota -= 1;
            sent += 1;
        }
        self.push_bursts(&mut out[first..]);
        self.check_app_limited(end);
        if self.tp.packets_out == 0 && limit == Limit::Cwnd {
            limit = Limit::Sender;
        }
        self.set_limit(limit);
        let cwnd_limited = self.in_flight() >= self.tp.snd_cwnd;
        if sent > 0 || cwnd_limited {
            self.validate_cwnd(cwnd_limited);
        }
        if sent > 0 {
            if self.in_cwnd_reduction() {
                self.tp.prr_out += sent;
            }
            if !probe {
                self.schedule_loss_probe(false);
            }
        }
    }

    /// Sets PSH on the last segment of each burst of two or more, as the kernel does when it leaves
    /// segmentation to the device (`__tcp_transmit_skb`).
    #[inline]
    fn push_bursts(&mut self, sent: &mut [Packet]) {
        if !self.linux || sent.len() < 2 {
            return;
        }
        let most = self.burst_segments();
        for burst in sent.chunks_mut(most) {
            if let [_, .., last] = burst {
                last.push = true;
            }
        }
    }

    /// The largest burst, segments: about a millisecond at the pacing rate, more on short paths
    /// (`tcp_tso_autosize`).
    fn burst_segments(&mut self) -> usize {
        let gso_max = u64::from(self.tp.sk_gso_max_size);
        let mut bytes = self.tp.sk_pacing_rate >> PACING_SHIFT;
        let nearness = self.tp.rtt_min_us >> TSO_RTT_LOG;
        if nearness < 32 {
            bytes = bytes.saturating_add(gso_max >> nearness);
        }
        let segments = (bytes.min(gso_max) / u64::from(self.tp.mss_cache)) as u32;
        segments.max(self.control.min_tso_segs(&mut self.tp)) as usize
    }

    #[inline]
    fn transmit_segment(&mut self, len: u32, out: &mut Vec<Packet>) {
        if self.in_flight() == 0 {
            self.control.cwnd_event(&mut self.tp, ca_event::TX_START);
        }
        let tx_us = self.departure_us();
        let mut segment = Segment {
            seq: self.snd_nxt,
            tx_us,
            len,
            ..Segment::default()
        };
        rate::on_sent(&mut self.tp, &mut segment);
        let was_empty = self.queue.is_empty();
        if self.retransmit_hint == self.queue.end() {
            self.retransmit_hint += 1;
        }
        self.queue.push(segment);
        self.tp.packets_out += 1;
        self.tp.lsndtime = self.tp.jiffies;
        out.push(self.packet(self.snd_nxt, len));
        self.snd_nxt += u64::from(len);
        self.tp.snd_nxt = self.snd_nxt as u32;
        self.statistics.segments_sent += 1;
        self.pace(len);
        if was_empty || self.timer == Timer::LossProbe {
            self.rearm_rto();
        }
    }

    /// Retransmits segments marked lost (`tcp_xmit_retransmit_queue`).
    pub(super) fn transmit_lost_into(&mut self, out: &mut Vec<Packet>) {
        let mut number = self.retransmit_hint.max(self.queue.first());
        let mut head_sent = false;
        while number < self.queue.end() {
            if self.tp.retrans_out >= self.tp.lost_out || self.is_held_by_pacing() {
                break;
            }
            if self.in_flight() >= self.tp.snd_cwnd {
                break;
            }
            let segment = self.queue.get(number);
            if !segment.is(LOST) || segment.is(SACKED | RETRANSMITTED) {
                number += 1;
                continue;
            }
            self.retransmit(number, out);
            if self.in_cwnd_reduction() {
                self.tp.prr_out += 1;
            }
            head_sent |= number == self.queue.first();
            number += 1;
        }
        self.retransmit_hint = number;
        if head_sent && self.timer != Timer::Reordering {
            self.set_timer(Timer::Retransmit, self.rtt.rto);
        }
    }

    /// Retransmits a segment and counts it (`tcp_retransmit_skb`).
    fn retransmit(&mut self, number: u64, out: &mut Vec<Packet>) {
        self.resend(number, out);
        let segment = self.queue.get_mut(number);
        segment.flags |= RETRANSMITTED;
        let stamp = (segment.tx_us / 1000) as u32;
        self.tp.retrans_out += 1;
        self.retrans_stamp.get_or_insert(stamp);
        self.undo_retrans = self.undo_retrans.max(0) + 1;
    }

    /// `__tcp_retransmit_skb`.
    fn resend(&mut self, number: u64, out: &mut Vec<Packet>) {
        if self.in_flight() == 0 {
            self.control.cwnd_event(&mut self.tp, ca_event::TX_START);
        }
        self.tp.lsndtime = self.tp.jiffies;
        let tx_us = self.departure_us();
        let segment = self.queue.get_mut(number);
        segment.tx_us = tx_us;
        segment.flags |= EVER_RETRANSMITTED;
        segment.flags &= !RACK_LOST;
        rate::on_sent(&mut self.tp, segment);
        let (seq, len) = (segment.seq, segment.len);
        self.rack.on_resent(number, tx_us, self.snd_nxt);
        out.push(self.packet(seq, len));
        self.statistics.segments_sent += 1;
        self.statistics.retransmits += 1;
        self.pace(len);
    }

    /// `tcp_retransmit_timer`.
    pub(super) fn on_retransmission_timeout(&mut self, out: &mut Vec<Packet>) {
        if self.queue.is_empty() {
            return;
        }
        self.statistics.timeouts += 1;
        self.enter_loss();
        self.tp.icsk_retransmits = self.tp.icsk_retransmits.saturating_add(1);
        let head = self.queue.first();
        if self.queue.get(head).is(RETRANSMITTED) {
            self.queue.get_mut(head).flags &= !RETRANSMITTED;
            self.tp.retrans_out -= 1;
        }
        self.retransmit(head, out);
        self.rtt.back_off();
        self.set_timer(Timer::Retransmit, self.rtt.rto);
    }

    /// Handles the reordering timer and retransmits what it finds lost.
    pub(super) fn on_reordering_timeout_into(&mut self, out: &mut Vec<Packet>) {
        if self.on_reordering_timeout() {
            self.transmit_lost_into(out);
        }
        if self.timer != Timer::Retransmit {
            self.rearm_rto();
        }
    }

    /// `tcp_rearm_rto`.
    pub(super) fn rearm_rto(&mut self) {
        if self.queue.is_empty() {
            self.clear_timer();
            return;
        }
        let after = if matches!(self.timer, Timer::Reordering | Timer::LossProbe) {
            Duration::from_micros(self.rto_left_us().max(1) as u64)
        } else {
            self.rtt.rto
        };
        self.set_timer(Timer::Retransmit, after);
    }

    /// Time until the oldest segment times out, microseconds; not positive if it is overdue.
    fn rto_left_us(&self) -> i64 {
        let head = self.queue.head().map_or(0, |head| head.tx_us);
        (head + self.rtt.rto.as_micros()) as i64 - self.tp.tcp_mstamp as i64
    }

    /// Arms the tail loss probe if one may be sent (`tcp_schedule_loss_probe`). `advancing` means
    /// that the retransmission timeout counts from now.
    #[inline]
    pub(super) fn schedule_loss_probe(&mut self, advancing: bool) -> bool {
        let state = self.tp.icsk_ca_state;
        if !self.linux
            || self.queue.is_empty()
            || !(state == ca_state::OPEN || state == ca_state::CWR)
        {
            return false;
        }
        let mut timeout = if self.tp.srtt_us == 0 {
            RTO_INITIAL
        } else {
            // Twice the smoothed round-trip time, plus room for a delayed acknowledgement.
            let slack_us = if self.tp.packets_out == 1 {
                u64::from(RTO_MIN_US)
            } else {
                TIMEOUT_MIN_US
            };
            Duration::from_micros(u64::from(self.tp.srtt_us >> 2) + slack_us)
        };
        if advancing {
            timeout = timeout.min(self.rtt.rto);
        } else if let left_us @ 1.. = self.rto_left_us() {
            timeout = timeout.min(Duration::from_micros(left_us as u64));
        }
        self.set_timer(Timer::LossProbe, timeout);
        true
    }

    /// `tcp_send_loss_probe`.
    pub(super) fn send_loss_probe(&mut self, out: &mut Vec<Packet>) {
        self.timer = Timer::LossProbe;
        if self.tlp_high_seq.is_none() && self.probe(out) {
            self.tlp_high_seq = Some(self.snd_nxt);
            self.timer = Timer::Idle;
        }
        self.rearm_rto();
    }

    fn probe(&mut self, out: &mut Vec<Packet>) -> bool {
        self.tlp_retransmitted = false;
        let next = (self.sendable_end() - self.snd_nxt).min(u64::from(self.tp.mss_cache));
        if next > 0 && self.snd_nxt + next <= self.window_end {
            let before = self.tp.packets_out;
            self.transmit_new(out, true);
            return self.tp.packets_out > before;
        }
        if self.queue.is_empty() {
            return false;
        }
        self.resend(self.queue.end() - 1, out);
        self.tlp_retransmitted = true;
        true
    }

    fn is_paced(&self) -> bool {
        self.pacing || self.tp.sk_pacing_status != PACING_NONE
    }

    /// Whether the pacer holds the next segment back; if so, sets its timer (`tcp_pacing_check`).
    #[inline]
    fn is_held_by_pacing(&mut self) -> bool {
        if !self.is_paced() || self.pacing_ns <= self.tp.now_ns {
            return false;
        }
        let wait_ns = self.pacing_ns - clock_ns(Time::ZERO);
        self.pacing_due = Time::from_nanos(wait_ns);
        true
    }

    /// The departure time that the pacer assigns to the segment. Timeouts and probes do not wait
    /// for the pacer, so it can lie in the future.
    fn departure_us(&mut self) -> u64 {
        self.pacing_credit_ns = self.tp.now_ns.saturating_sub(self.pacing_ns);
        self.pacing_ns = self.pacing_ns.max(self.tp.now_ns);
        self.pacing_ns / 1000
    }

    /// Spaces the next segment from this one (`tcp_update_skb_after_send`).
    #[inline]
    fn pace(&mut self, len: u32) {
        let rate = self.tp.sk_pacing_rate;
        if !self.is_paced()
            || rate == u64::MAX
            || rate == 0
            || self.statistics.segments_sent < UNPACED_SEGMENTS
        {
            return;
        }
        let spacing_ns = u64::from(len) * 1_000_000_000 / rate;
        // After a late segment the next one may catch up by half its spacing.
        self.pacing_ns += spacing_ns - self.pacing_credit_ns.min(spacing_ns / 2);
    }
}
