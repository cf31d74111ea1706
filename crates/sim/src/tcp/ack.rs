//! Processing of acknowledgements: `tcp_ack` of `tcp_input.c`, step by step.

use fairwind_cc::native::{AckSample, ca_state};

use super::milliseconds;
use super::rate::Sample;
use super::retransmit_queue::{EVER_RETRANSMITTED, LOST, RETRANSMITTED, SACKED, Segment};
use super::scoreboard::SackResult;
use super::sender::{DUPLICATE_THRESHOLD, Sender};
use crate::packet::{Packet, SackBlocks};

/// The effects of an acknowledgement: `FLAG_*` of `tcp_input.c`, which congestion controls see.
pub mod flag {
    /// The send window was updated.
    pub const WIN_UPDATE: u32 = 0x02;
    /// Data was newly acknowledged.
    pub const DATA_ACKED: u32 = 0x04;
    /// Some of it had been retransmitted.
    pub const RETRANS_DATA_ACKED: u32 = 0x08;
    /// Data was newly acknowledged selectively.
    pub const DATA_SACKED: u32 = 0x20;
    /// A retransmission was found lost.
    pub const LOST_RETRANS: u32 = 0x80;
    /// Data sent before the present episode and never retransmitted was acknowledged; F-RTO uses it.
    pub const ORIG_SACK_ACKED: u32 = 0x200;
    /// `snd_una` moved.
    pub const SND_UNA_ADVANCED: u32 = 0x400;
    /// It reports a duplicate.
    pub const DSACKING_ACK: u32 = 0x800;
    /// The retransmission timer must be set again.
    pub const SET_XMIT_TIMER: u32 = 0x1000;
    /// The receiver probably delayed it.
    pub const ACK_MAYBE_DELAYED: u32 = 0x10000;
    /// Not a duplicate acknowledgement.
    pub const NOT_DUP: u32 = 0x01 | WIN_UPDATE | DATA_ACKED;
    /// A possible sign of loss or reordering.
    pub const CA_ALERT: u32 = DATA_SACKED | DSACKING_ACK;
}

/// What to send after an acknowledgement, besides new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retransmit {
    /// Nothing.
    Nothing,
    /// The segments marked lost.
    Lost,
    /// New data first, to find out whether the timeout was spurious (F-RTO).
    New,
}

impl Sender {
    pub(super) fn on_ack(&mut self, packet: &Packet, sack: &SackBlocks, out: &mut Vec<Packet>) {
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
            // It is old, but its selective acknowledgements count.
            if sack.is_empty() {
                return;
            }
            let next = self.alert(prior_una, false, &mut flags);
            self.send_after_ack(next, out);
            return;
        }
        let had_packets = self.tp.packets_out > 0;
        if !had_packets {
            // A late duplicate report can still show that the reduction of the window was
            // unnecessary.
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

    /// Removes acknowledged segments from the queue and measures the round-trip time
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
            let delivered = self.tp.delivered.wrapping_sub(rate.sample.prior_delivered);
            let sample = AckSample {
                pkts_acked: packets_acked,
                rtt_us: rate.sample.rtt_us as i32,
                in_flight: self.tp.mss_cache.wrapping_mul(delivered),
            };
            self.control.pkts_acked(&mut self.tp, &sample);
        }
        flags
    }

    /// Whether the echoed time stamp precedes the segment's retransmission, so that the
    /// acknowledgement is for the original (`tcp_skb_spurious_retrans`).
    #[inline]
    fn is_ack_before(&self, segment: &Segment) -> bool {
        segment.is(EVER_RETRANSMITTED)
            && (self.ts_ecr.wrapping_sub((segment.tx_us / 1000) as u32) as i32) < 0
    }

    /// `tcp_ack_update_rtt`. Times in microseconds; negative values mean none.
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
        // The minimum must not drift up to the times of delayed acknowledgements.
        let delayed = flags & flag::ACK_MAYBE_DELAYED != 0;
        if !delayed || ca_rtt_us <= i64::from(self.min_rtt_us()) {
            self.rtt.update_min(&mut self.tp, ca_rtt_us as u32);
        }
        self.rtt.update(
            &mut self.tp,
            &self.jiffies,
            rtt_us as u32,
            self.snd_una,
            self.snd_nxt,
        );
        true
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

    /// A congestion control must leave at least one packet, as in the kernel.
    #[inline]
    fn bound_cwnd(&mut self) {
        self.tp.snd_cwnd = self.tp.snd_cwnd.clamp(1, self.tp.snd_cwnd_clamp);
    }

    /// `tcp_update_pacing_rate`: twice the rate while the window is below half the threshold, 1.2 times
    /// from there on.
    #[inline]
    pub(super) fn update_pacing_rate(&mut self) {
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
                // Nothing new could be sent, so F-RTO cannot decide: recover as after any timeout.
                if self.snd_nxt <= self.high_seq {
                    self.frto = false;
                    self.transmit_lost_into(out);
                }
            }
        }
    }

    /// `tcp_set_xmit_timer`.
    #[inline]
    fn set_xmit_timer(&mut self) {
        if !self.schedule_loss_probe(true) {
            self.rearm_rto();
        }
    }
}
