//! Transmission: new data within the windows, retransmissions, and tail loss probes (RFC 8985,
//! section 7), paced if the congestion control asks for it (`tcp_output.c`).
//!
//! | Linux 6.x | here |
//! |---|---|
//! | `tcp_write_xmit` sends bursts of up to 64 KiB | one segment per packet, the last of a burst with PSH; a burst leaves at once |
//! | data wait in buffers of about 64 KiB (`tcp_xmit_size_goal`) whatever the application writes | the same, but the last data written count as closed (FIN) |
//! | Nagle's algorithm delays small segments | bulk senders set `TCP_NODELAY` |

use fairwind_cc::native::{TcpSock, ca_state};
use fairwind_path::units::Duration;

use super::Sender;
use super::counters::Limit;
use super::rate;
use super::retransmit_queue::in_flight;
use super::retransmit_timer::TimerUse;
use super::tail_loss_probe::TailLossProbe;
use crate::packet::{HEADER, Kind, Packet};

/// A burst waits for an acknowledgement that is at most this far, and only while data has been sent
/// this lately, nanoseconds.
const DEFER_MOST_NS: u64 = 1_000_000;

/// What of the data from `nxt` on is in one buffer (`skb`), bytes: as many full segments as the device
/// may be left to segment (`tcp_xmit_size_goal`).
#[inline]
fn buffered(tp: &TcpSock, nxt: u64) -> u64 {
    let mss = u64::from(tp.mss_cache);
    let whole = (u64::from(tp.sk_gso_max_size) / mss).max(1) * mss;
    whole - nxt % whole
}

impl Sender {
    /// Sends new data as the windows allow (`tcp_write_xmit`).
    #[inline]
    pub(super) fn transmit_new(&mut self, out: &mut Vec<Packet>) {
        self.window.before_sending(&mut self.tp);
        let quota = self.tp.snd_cwnd.saturating_sub(in_flight(&self.tp));
        let was_empty = self.queue.is_empty();
        if self.transmit_some(quota, true, out) > 0
            && !self.schedule_loss_probe(false)
            && (was_empty || self.timer.pending() == TimerUse::LossProbe)
        {
            self.rearm_rto();
        }
    }

    /// Sends up to `quota` new segments, as application, pacer and receiver's window allow; if it
    /// `may_defer`, not less than a burst while acknowledgements are near. Returns how many.
    #[inline]
    fn transmit_some(&mut self, quota: u32, may_defer: bool, out: &mut Vec<Packet>) -> u32 {
        let end = self.sequence.sendable_end();
        let mut sent = 0;
        let mut limit = Limit::Cwnd;
        let mut cwnd_limited = false;
        loop {
            if self.sequence.nxt() >= end {
                limit = Limit::Sender;
                break;
            }
            if sent == quota || self.pacer.holds(&self.tp) {
                break;
            }
            let room = quota - sent;
            let full = self.full_burst(room);
            if may_defer && let Some(deferred) = self.deferred_by(room, full, end) {
                limit = deferred;
                cwnd_limited = deferred == Limit::Cwnd;
                break;
            }
            // At most half of the window (`tcp_cwnd_test`).
            let most = full.min(room).min((self.tp.snd_cwnd / 2).max(1));
            let burst = self.transmit_burst(most, end, out);
            if burst == 0 {
                limit = Limit::Receiver;
                break;
            }
            sent += burst;
        }
        self.account_for(sent, end, limit, cwnd_limited);
        sent
    }

    /// Segments that the host would leave to the device to segment at once, where `room` fit the window; more than that
    /// is not told apart.
    #[inline]
    fn full_burst(&mut self, room: u32) -> u32 {
        if self.stack.offloads_segmentation() {
            self.window
                .burst_segments(&mut self.tp, room.saturating_add(1))
        } else if self.pacer.is_on(&self.tp) {
            1
        } else {
            room
        }
    }

    /// The window for whose growth the next segments wait, of the data before `end`, though `room`
    /// segments fit the congestion window: where a `full` burst does not, and an acknowledgement is
    /// near (`tcp_tso_should_defer`). `None` if they need not wait.
    #[inline]
    fn deferred_by(&self, room: u32, full: u32, end: u64) -> Option<Limit> {
        let tp = &self.tp;
        let mss = u64::from(tp.mss_cache);
        let unsent = end - self.sequence.nxt();
        if !self.stack.offloads_segmentation()
            || unsent <= mss
            || tp.icsk_ca_state >= ca_state::RECOVERY
            || self.pacer.since_latest_ns(tp) > DEFER_MOST_NS
        {
            return None;
        }
        let receiver = self.sequence.window_left();
        let congestion = u64::from(room) * mss;
        let allowed = congestion.min(receiver);
        let window = u64::from(tp.snd_wnd).min(u64::from(tp.snd_cwnd) * mss);
        if receiver < mss
            || allowed >= u64::from(full) * mss
            || allowed >= buffered(tp, self.sequence.nxt()).min(unsent)
            || allowed >= window / u64::from(self.tso_win_divisor)
        {
            return None;
        }
        let srtt_ns = u64::from(tp.srtt_us) * 1000 / 8;
        let near_ns = tp.now_ns + (srtt_ns / 2).min(DEFER_MOST_NS);
        if self.queue.head()?.tx_us() * 1000 + srtt_ns > near_ns {
            return None;
        }
        Some(if congestion < receiver {
            Limit::Cwnd
        } else {
            Limit::Receiver
        })
    }

    /// Sends up to `most` of the segments before `end`, as the receiver's window allows, as one
    /// burst: with one departure time, and the next burst spaced from all of it. Returns how many.
    #[inline]
    fn transmit_burst(&mut self, most: u32, end: u64, out: &mut Vec<Packet>) -> u32 {
        let begin = self.sequence.nxt();
        let mut tx_us = None;
        let mut sent = 0;
        while sent < most && self.sequence.nxt() < end {
            let unsent = end - self.sequence.nxt();
            let len = unsent.min(u64::from(self.tp.mss_cache));
            if !self.sequence.fits_window(len) {
                break;
            }
            let tx_us = *tx_us.get_or_insert_with(|| {
                self.window.on_transmit(&mut self.tp);
                self.pacer.depart(&self.tp)
            });
            self.transmit_segment(len as u32, tx_us, out);
            sent += 1;
        }
        if sent > 1 && self.stack.offloads_segmentation() {
            // As the device does to the last of what it segments (`__tcp_transmit_skb`).
            out.last_mut().expect("sent").push = true;
        }
        if sent > 0 {
            let bytes = self.sequence.nxt() - begin;
            let segments_sent = self.counters.statistics().segments_sent;
            self.pacer.space(&self.tp, bytes, segments_sent);
        }
        sent
    }

    /// Notes what limits the sender now that `sent` segments of the bytes before `end` have left;
    /// `cwnd_limited` if segments wait for a larger congestion window though some would fit.
    #[inline]
    fn account_for(&mut self, sent: u32, end: u64, limit: Limit, cwnd_limited: bool) {
        let in_flight = in_flight(&self.tp);
        let unsent = end - self.sequence.nxt();
        rate::check_app_limited(&mut self.tp, unsent, in_flight);
        let limit = if self.tp.packets_out == 0 && limit == Limit::Cwnd {
            Limit::Sender
        } else {
            limit
        };
        self.counters.set_limit(self.clock.now(), limit);
        let cwnd_limited = cwnd_limited || in_flight >= self.tp.snd_cwnd;
        if (sent > 0 || cwnd_limited) && !self.window.note_use(&mut self.tp, cwnd_limited) {
            let rto = self.clock.jiffies().count(self.rtt.rto());
            let application_limited = self.sequence.is_all_buffered();
            self.window
                .shrink_unused(&mut self.tp, rto, application_limited);
        }
        if sent > 0 {
            self.window.on_sent(&mut self.tp, sent);
        }
    }

    #[inline]
    fn transmit_segment(&mut self, len: u32, tx_us: u64, out: &mut Vec<Packet>) {
        let seq = self.sequence.nxt();
        self.queue.push(&mut self.tp, seq, len, tx_us);
        let mut packet = self.packet(seq, len);
        self.ecn.on_new_segment(&mut packet);
        out.push(packet);
        self.sequence.on_sent(&mut self.tp, len);
        self.counters.count_segment();
    }

    /// Retransmits segments marked lost (`tcp_xmit_retransmit_queue`).
    pub(super) fn transmit_lost(&mut self, out: &mut Vec<Packet>) {
        self.window.before_sending(&mut self.tp);
        let mut number = self.queue.retransmit_hint();
        let mut head_sent = false;
        while number < self.queue.end() {
            if self.tp.retrans_out >= self.tp.lost_out || self.pacer.holds(&self.tp) {
                break;
            }
            if in_flight(&self.tp) >= self.tp.snd_cwnd {
                break;
            }
            if self.queue.awaits_retransmission(number) {
                self.retransmit(number, out);
                self.window.on_sent(&mut self.tp, 1);
                head_sent |= number == self.queue.first();
            }
            number += 1;
        }
        self.queue.set_retransmit_hint(number);
        if head_sent && self.timer.pending() != TimerUse::Reordering {
            self.timer.set(TimerUse::Retransmit, self.rtt.rto());
        }
    }

    /// Retransmits a segment and counts it (`tcp_retransmit_skb`).
    fn retransmit(&mut self, number: u64, out: &mut Vec<Packet>) {
        self.resend(number, out);
        let tx_us = self.queue.mark_retransmitted(&mut self.tp, number);
        self.episode.note_retransmission((tx_us / 1000) as u32);
    }

    /// `__tcp_retransmit_skb`.
    fn resend(&mut self, number: u64, out: &mut Vec<Packet>) {
        self.window.on_transmit(&mut self.tp);
        let tx_us = self.pacer.depart(&self.tp);
        let nxt = self.sequence.nxt();
        let (seq, len) = self.queue.resend(&mut self.tp, number, tx_us, nxt);
        out.push(self.packet(seq, len));
        self.counters.count_segment();
        self.counters.count_retransmission();
        let segments_sent = self.counters.statistics().segments_sent;
        self.pacer.space(&self.tp, u64::from(len), segments_sent);
    }

    /// The retransmission timer has expired (`tcp_write_timer_handler`).
    pub(super) fn on_retransmission_timer(&mut self, out: &mut Vec<Packet>) {
        let expired = self.timer.expire();
        if !self.established {
            self.retry_syn(out);
            return;
        }
        match expired {
            TimerUse::Idle => {}
            TimerUse::Retransmit => self.on_retransmission_timeout(out),
            TimerUse::LossProbe => self.send_loss_probe(out),
            TimerUse::Reordering => self.on_reordering_timeout(out),
        }
    }

    /// `tcp_retransmit_timer`.
    fn on_retransmission_timeout(&mut self, out: &mut Vec<Packet>) {
        if self.queue.is_empty() {
            return;
        }
        self.counters.count_timeout();
        self.enter_loss();
        self.tp.icsk_retransmits = self.tp.icsk_retransmits.saturating_add(1);
        let head = self.queue.first();
        self.queue.unmark_retransmitted(&mut self.tp, head);
        self.retransmit(head, out);
        self.rtt.back_off();
        self.timer.set(TimerUse::Retransmit, self.rtt.rto());
    }

    /// Handles the reordering timer and retransmits what it finds lost.
    fn on_reordering_timeout(&mut self, out: &mut Vec<Packet>) {
        if self.recover_from_overdue() {
            self.transmit_lost(out);
        }
        if self.timer.pending() != TimerUse::Retransmit {
            self.rearm_rto();
        }
    }

    /// `tcp_rearm_rto`.
    pub(super) fn rearm_rto(&mut self) {
        if self.queue.is_empty() {
            self.timer.clear();
            return;
        }
        let after = match self.timer.pending() {
            TimerUse::Reordering | TimerUse::LossProbe => {
                Duration::from_micros(self.rto_left_us().max(1) as u64)
            }
            TimerUse::Idle | TimerUse::Retransmit => self.rtt.rto(),
        };
        self.timer.set(TimerUse::Retransmit, after);
    }

    /// Time until the oldest segment times out, microseconds; not positive if it is overdue.
    fn rto_left_us(&self) -> i64 {
        let head = self.queue.head().map_or(0, |head| head.tx_us());
        (head + self.rtt.rto().as_micros()) as i64 - self.tp.tcp_mstamp as i64
    }

    /// Arms the tail loss probe if one may be sent (`tcp_schedule_loss_probe`). `advancing` means
    /// that the retransmission timeout counts from now.
    #[inline]
    pub(super) fn schedule_loss_probe(&mut self, advancing: bool) -> bool {
        let state = self.tp.icsk_ca_state;
        if !self.stack.probes_tail_losses()
            || self.queue.is_empty()
            || !(state == ca_state::OPEN || state == ca_state::CWR)
        {
            return false;
        }
        let mut timeout = TailLossProbe::timeout(&self.tp);
        if advancing {
            timeout = timeout.min(self.rtt.rto());
        } else if let left_us @ 1.. = self.rto_left_us() {
            timeout = timeout.min(Duration::from_micros(left_us as u64));
        }
        self.timer.set(TimerUse::LossProbe, timeout);
        true
    }

    /// `tcp_send_loss_probe`.
    fn send_loss_probe(&mut self, out: &mut Vec<Packet>) {
        if !self.probe.is_in_flight() && self.transmit_probe(out) {
            self.timer.end_probe();
        }
        self.rearm_rto();
    }

    /// Sends a new segment or the last one again, if there is one.
    fn transmit_probe(&mut self, out: &mut Vec<Packet>) -> bool {
        let unsent = self.sequence.sendable_end() - self.sequence.nxt();
        let len = unsent.min(u64::from(self.tp.mss_cache));
        let is_new = len > 0 && self.sequence.fits_window(len);
        if is_new {
            self.window.before_sending(&mut self.tp);
            if self.transmit_some(1, false, out) == 0 {
                return false;
            }
        } else if self.queue.is_empty() {
            return false;
        } else {
            self.resend(self.queue.end() - 1, out);
        }
        self.probe.on_sent(self.sequence.nxt(), !is_new);
        true
    }

    /// A segment that is sent now.
    #[inline]
    pub(super) fn packet(&self, seq: u64, len: u32) -> Packet {
        Packet {
            seq,
            len,
            ts_val: self.pacer.timestamp_ms(&self.tp),
            ts_ecr: self.tp.rcv_tsval,
            size: (len + HEADER) as u16,
            ..Packet::new(Kind::Data, self.connection, self.generation)
        }
    }
}
