//! Processing of acknowledgements: `tcp_ack` of `tcp_input.c`, step by step.

use fairwind_cc::native::ca_state;

use super::Sender;
use super::effects::{Effects, TransmissionTimes, flag};
use super::loss::Reordering;
use super::pacing;
use super::recovery::Retransmit;
use super::retransmit_queue::{Segment, in_flight};
use super::window::in_cwnd_reduction;
use crate::packet::{Packet, SackBlocks};
use crate::tcp::since_echoed_us;

/// The sender before an acknowledgement.
struct Prior {
    una: u64,
    delivered: u32,
    lost: u32,
    sacked_out: u32,
    highest_sacked: u64,
}

/// The segments that an acknowledgement takes off the queue.
struct Acked {
    packets: u32,
    /// Of those delivered just now and never retransmitted.
    times: TransmissionTimes,
    /// Lowest byte of these; `u64::MAX` if there are none.
    lowest: u64,
}

impl Sender {
    pub(super) fn on_ack(&mut self, packet: &Packet, sack: &SackBlocks, out: &mut Vec<Packet>) {
        let ack = packet.seq;
        if ack > self.sequence.nxt() {
            return;
        }
        let prior = self.prior();
        let mut effects = Effects::new(in_flight(&self.tp));
        let is_old = ack < prior.una;
        if !is_old {
            self.advance(packet, &mut effects);
        }
        self.probe.begin_ack();
        if !sack.is_empty() {
            self.tag_sacked(ack, prior.una, sack, &mut effects);
        }
        if !is_old && self.ecn.is_echo(packet) {
            effects.add(flag::ECE);
        }
        if is_old {
            // Its selective acknowledgements count.
            if !sack.is_empty() {
                let next = self.alert(prior.una, false, &mut effects);
                self.send_after_ack(next, out);
            }
            return;
        }
        if self.tp.packets_out == 0 {
            // A late duplicate report can still show that the reduction of the window was
            // unnecessary.
            if effects.any(flag::DSACKING_ACK) {
                self.alert(prior.una, false, &mut effects);
            }
            self.process_probe_ack(ack, &effects);
            return;
        }
        self.clean_queue(&prior, &mut effects);
        let prior_delivered = effects.rate.sample.prior_delivered;
        self.rack.adapt_window(prior_delivered, self.tp.delivered);
        self.process_probe_ack(ack, &effects);
        let next = self.alert_if_dubious(ack, &prior, &mut effects);
        if effects.any(flag::SET_XMIT_TIMER) {
            self.set_xmit_timer();
        }
        self.control_congestion(ack, &prior, &mut effects);
        self.send_after_ack(next, out);
    }

    #[inline]
    fn prior(&self) -> Prior {
        let una = self.sequence.una();
        Prior {
            una,
            delivered: self.tp.delivered,
            lost: self.tp.lost,
            sacked_out: self.tp.sacked_out,
            highest_sacked: self.queue.highest_sacked_seq(&self.tp, una),
        }
    }

    /// Takes time stamps, window and cumulative acknowledgement from a packet that is not old.
    #[inline]
    fn advance(&mut self, packet: &Packet, effects: &mut Effects) {
        let ack = packet.seq;
        self.tp.rcv_tsval = packet.ts_val;
        self.ts_ecr = packet.ts_ecr;
        let tp = &mut self.tp;
        if self.sequence.update_window(tp, ack, packet.window) {
            effects.add(flag::WIN_UPDATE);
        }
        if ack > self.sequence.una() {
            effects.add(flag::SND_UNA_ADVANCED);
            tp.icsk_retransmits = 0;
            self.sequence.acknowledge(tp, ack);
        }
    }

    /// Lets loss detection and recovery look at anything but plain progress in the open state.
    #[inline]
    fn alert_if_dubious(&mut self, ack: u64, prior: &Prior, effects: &mut Effects) -> Retransmit {
        let grows_first = !self.stack.marks_losses_first() && effects.any(flag::DATA_ACKED);
        if !self.is_dubious(effects) {
            if grows_first {
                self.window.avoid_congestion(&mut self.tp, ack, 1);
            }
            return Retransmit::Nothing;
        }
        let duplicate = !effects.any(flag::SND_UNA_ADVANCED | flag::NOT_DUP | flag::DSACKING_ACK);
        let may_grow = !effects.any(flag::ECE) || self.tp.snd_cwnd < self.tp.snd_ssthresh;
        if grows_first && may_grow && !in_cwnd_reduction(&self.tp) {
            self.window.avoid_congestion(&mut self.tp, ack, 1);
        }
        self.alert(prior.una, duplicate, effects)
    }

    /// `tcp_ack_is_dubious`.
    #[inline]
    fn is_dubious(&self, effects: &Effects) -> bool {
        !effects.any(flag::NOT_DUP)
            || effects.any(flag::CA_ALERT)
            || self.tp.icsk_ca_state != ca_state::OPEN
    }

    /// Removes acknowledged segments from the queue and measures the round-trip time
    /// (`tcp_clean_rtx_queue`).
    #[inline]
    fn clean_queue(&mut self, prior: &Prior, effects: &mut Effects) {
        let mut acked = Acked {
            packets: 0,
            times: TransmissionTimes::default(),
            lowest: u64::MAX,
        };
        let una = self.sequence.una();
        while let Some(segment) = self.queue.pop_acknowledged(&mut self.tp, una) {
            self.on_segment_acked(&segment, &mut acked, effects);
        }
        if effects.any(flag::ECE) {
            let delivered = self.tp.delivered.wrapping_sub(prior.delivered);
            self.tp.delivered_ce = self.tp.delivered_ce.wrapping_add(delivered);
        }
        let measured = self.measure_rtt(prior, &acked, effects);
        if acked.packets > 0 {
            effects.add(flag::SET_XMIT_TIMER);
            if acked.lowest < prior.highest_sacked {
                self.note_reordering(acked.lowest);
            }
        } else if measured && self.is_sacked_older_than_head(effects) {
            effects.add(flag::SET_XMIT_TIMER);
        }
        let sample = &effects.rate.sample;
        self.window.on_acked(
            &mut self.tp,
            acked.packets,
            sample.rtt_us,
            sample.prior_delivered,
        );
    }

    #[inline]
    fn on_segment_acked(&mut self, segment: &Segment, acked: &mut Acked, effects: &mut Effects) {
        effects.add(flag::DATA_ACKED);
        acked.packets += 1;
        if segment.was_retransmitted() {
            effects.add(flag::RETRANS_DATA_ACKED);
        } else if !segment.is_sacked() {
            acked.times.add(segment.tx_us());
            acked.lowest = acked.lowest.min(segment.seq());
            if segment.end() <= self.episode.high_seq() {
                effects.add(flag::ORIG_SACK_ACKED);
            }
        }
        if !segment.is_sacked() && !self.is_ack_before(segment) {
            self.rack.advance(&self.tp, segment);
        }
        segment.add_to(&mut self.tp, &mut effects.rate);
    }

    /// Whether the echoed time stamp precedes the segment's retransmission, so that the
    /// acknowledgement is for the original (`tcp_skb_spurious_retrans`).
    #[inline]
    fn is_ack_before(&self, segment: &Segment) -> bool {
        segment.was_retransmitted()
            && (self.ts_ecr.wrapping_sub((segment.tx_us() / 1000) as u32) as i32) < 0
    }

    /// Finds the round-trip times that the acknowledgement shows. Returns whether there is one.
    #[inline]
    fn measure_rtt(&mut self, prior: &Prior, acked: &Acked, effects: &mut Effects) -> bool {
        let now_us = self.tp.tcp_mstamp;
        let (mut seq_rtt_us, mut ca_rtt_us) = (-1, -1);
        if let Some((first_us, last_us)) = acked.times.until(now_us)
            && !effects.any(flag::RETRANS_DATA_ACKED)
        {
            (seq_rtt_us, ca_rtt_us) = (first_us, last_us);
            let alone = acked.packets == 1
                && prior.sacked_out == 0
                && self.sequence.una() - prior.una < u64::from(self.tp.mss_cache)
                && effects.rate.sample.prior_delivered + 1 == self.tp.delivered
                && !effects.any(flag::CA_ALERT);
            if alone {
                effects.add(flag::ACK_MAYBE_DELAYED);
            }
        }
        let mut sack_rtt_us = -1;
        if let Some((first_us, last_us)) = effects.sacked().until(now_us) {
            (sack_rtt_us, ca_rtt_us) = (first_us, last_us);
        }
        self.update_rtt(seq_rtt_us, sack_rtt_us, ca_rtt_us, effects)
    }

    /// `tcp_ack_update_rtt`. Times in microseconds; negative values mean none.
    #[inline]
    fn update_rtt(
        &mut self,
        seq_rtt_us: i64,
        sack_rtt_us: i64,
        ca_rtt_us: i64,
        effects: &mut Effects,
    ) -> bool {
        let mut rtt_us = if seq_rtt_us < 0 {
            sack_rtt_us
        } else {
            seq_rtt_us
        };
        let mut ca_rtt_us = ca_rtt_us;
        if rtt_us < 0 && effects.any(flag::DATA_ACKED) && self.ts_ecr != 0 {
            // Only retransmissions were acknowledged: the time stamp tells which copy.
            let elapsed_us = since_echoed_us(self.clock.now(), self.ts_ecr);
            rtt_us = elapsed_us.map_or(-1, |us| us.max(1000).into());
            ca_rtt_us = rtt_us;
        }
        effects.rate.sample.rtt_us = ca_rtt_us;
        if rtt_us < 0 {
            return false;
        }
        // The minimum must not drift up to the times of delayed acknowledgements.
        let delayed = effects.any(flag::ACK_MAYBE_DELAYED);
        if !delayed || ca_rtt_us <= i64::from(self.tp.rtt_min_us) {
            self.rtt.update_min(&mut self.tp, ca_rtt_us as u64);
        }
        self.rtt.update(
            &mut self.tp,
            self.clock.jiffies(),
            rtt_us as u64,
            self.sequence.una(),
            self.sequence.nxt(),
        );
        true
    }

    /// Whether the first segment newly acknowledged selectively was sent before the head of the
    /// queue.
    fn is_sacked_older_than_head(&self, effects: &Effects) -> bool {
        let now_us = self.tp.tcp_mstamp;
        let Some((sack_rtt_us, _)) = effects.sacked().until(now_us) else {
            return false;
        };
        let head = self.queue.head();
        let head_age_us = head.map_or(0, |head| now_us.saturating_sub(head.tx_us()));
        sack_rtt_us > head_age_us as i64
    }

    /// Lets the congestion control set the window (`tcp_cong_control`), with the sample of the
    /// delivery rate.
    #[inline]
    fn control_congestion(&mut self, ack: u64, prior: &Prior, effects: &mut Effects) {
        let tp = &mut self.tp;
        let delivered = tp.delivered.wrapping_sub(prior.delivered);
        let lost = tp.lost.wrapping_sub(prior.lost);
        effects.rate.sample.is_ack_delayed = effects.any(flag::ACK_MAYBE_DELAYED);
        effects.rate.generate(tp, delivered, lost);
        if self.window.has_cong_control() {
            let sample = &effects.rate.sample;
            self.window.control(tp, ack, effects.flags(), sample);
            return;
        }
        if in_cwnd_reduction(tp) {
            let advanced = effects.any(flag::SND_UNA_ADVANCED);
            self.window.reduce(tp, delivered, lost, advanced);
        } else if self.stack.marks_losses_first() && may_raise_cwnd(&self.reordering, effects) {
            self.window.avoid_congestion(tp, ack, delivered);
        }
        pacing::update_rate(tp);
    }

    fn send_after_ack(&mut self, next: Retransmit, out: &mut Vec<Packet>) {
        match next {
            Retransmit::Nothing => {}
            Retransmit::Lost => self.transmit_lost(out),
            Retransmit::New => {
                self.transmit_new(out);
                // Nothing new could be sent, so F-RTO cannot decide: recover as after any timeout.
                if self.sequence.nxt() <= self.episode.high_seq() {
                    self.episode.set_frto(false);
                    self.transmit_lost(out);
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

/// `tcp_may_raise_cwnd`.
#[inline]
fn may_raise_cwnd(reordering: &Reordering, effects: &Effects) -> bool {
    if reordering.is_expected() {
        return effects.any(flag::DATA_ACKED | flag::DATA_SACKED);
    }
    effects.any(flag::DATA_ACKED)
}
