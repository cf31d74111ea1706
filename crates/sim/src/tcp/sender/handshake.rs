//! Opening the connection.

use fairwind_cc::native::RateSample;
use fairwind_path::units::Time;

use super::Sender;
use super::pacing;
use super::retransmit_timer::TimerUse;
use crate::packet::{Kind, Packet, SYN_SIZE};
use crate::tcp::constants::MSS_DEFAULT;

impl Sender {
    /// Opens the connection: sends the SYN.
    pub fn open(&mut self, now: Time, out: &mut Vec<Packet>) {
        self.refresh(now);
        self.send_syn(out);
        self.timer.start(&self.clock);
        self.counters.start(now);
    }

    /// The SYN has timed out.
    pub(super) fn retry_syn(&mut self, out: &mut Vec<Packet>) {
        self.syn_retries = self.syn_retries.saturating_add(1);
        self.counters.count_timeout();
        if self.syn_retries > self.stack.linear_syn_timeouts() {
            self.rtt.back_off();
        }
        self.send_syn(out);
    }

    fn send_syn(&mut self, out: &mut Vec<Packet>) {
        self.tp.first_tx_mstamp = self.tp.tcp_mstamp;
        let mut syn = Packet {
            kind: Kind::Syn,
            size: SYN_SIZE as u16,
            ..self.packet(0, 0)
        };
        if self.syn_retries == 0 {
            self.ecn.ask(&mut syn);
        }
        out.push(syn);
        self.timer.set(TimerUse::Retransmit, self.rtt.rto());
    }

    /// Establishes the connection and sends what has been written (`tcp_finish_connect`).
    pub(super) fn on_syn_ack(&mut self, packet: &Packet, out: &mut Vec<Packet>) {
        if self.established {
            return;
        }
        self.established = true;
        self.ecn.on_syn_ack(packet);
        self.tp.rcv_tsval = packet.ts_val;
        self.sequence.open_window(&mut self.tp, packet.window);
        self.timer.clear();
        let rtt_us = self.syn_rtt_us(packet.ts_ecr);
        self.rtt.update_min(&mut self.tp, rtt_us);
        let jiffies = self.clock.jiffies();
        self.rtt.update(&mut self.tp, jiffies, rtt_us, 0, 0);
        self.tp.mss_cache = half_window_mss(self.tp.mss_cache, packet.window);
        // The SYN counts as delivered.
        self.tp.delivered = 1;
        self.tp.delivered_mstamp = self.tp.tcp_mstamp;
        self.begin_control(rtt_us);
        self.transmit_new(out);
        self.timer.start(&self.clock);
    }

    /// Hands the window over to the congestion control.
    fn begin_control(&mut self, rtt_us: u64) {
        let cwnd = if self.syn_retries > 1 {
            1
        } else {
            self.stack.initial_cwnd()
        };
        let rate = RateSample {
            prior_mstamp: self.tp.first_tx_mstamp,
            delivered: 1,
            interval_us: rtt_us as i64,
            rcv_interval_us: u32::try_from(rtt_us).unwrap_or(u32::MAX),
            rtt_us: rtt_us as i64,
            acked_sacked: 1,
            prior_in_flight: 1,
            is_retrans: self.syn_retries > 0,
            ..RateSample::default()
        };
        self.window.establish(&mut self.tp, cwnd, &rate);
        if !self.window.has_cong_control() {
            pacing::update_rate(&mut self.tp);
        }
    }

    /// Exact to the microsecond if only one SYN was sent; otherwise the echoed time stamp tells
    /// which SYN was answered.
    fn syn_rtt_us(&self, sent_ms: u32) -> u64 {
        if self.syn_retries == 0 {
            return self.tp.tcp_mstamp - self.tp.first_tx_mstamp;
        }
        1000 * u64::from(self.clock.milliseconds().wrapping_sub(sent_ms).max(1))
    }
}

/// The segment size for a receiver with a small window: half the window, so that acknowledgements
/// arrive to clock out the next segment (`tcp_bound_to_half_wnd`).
fn half_window_mss(mss: u32, window: u32) -> u32 {
    let most = if window > MSS_DEFAULT {
        window / 2
    } else {
        window
    };
    mss.min(most.max(16))
}
