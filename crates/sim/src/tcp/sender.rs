//! The sending half of a connection: its state and its entry points for the application, packets and timers.

use std::mem;

use fairwind_cc::native::{Control, Parameters, TcpSock};
use fairwind_path::units::{Duration, Time};

use super::cwnd_validation::CLASSIC_INITIAL_CWND;
use super::instruments::Limit;
use super::jiffies::Jiffies;
use super::rack::Rack;
use super::rate::DeliveryRate;
use super::retransmit_queue::RetransmitQueue;
use super::rtt::{RTO_INITIAL, RttEstimator};
use super::{clock_ns, milliseconds};
use crate::agenda::NEVER;
use crate::packet::{Kind, Packet, SYN_SIZE, SackBlocks, SackPool};
use crate::scenario::{Stack, TcpConfig};

/// `TCP_FASTRETRANS_THRESH`, segments.
pub const DUPLICATE_THRESHOLD: u32 = 3;
/// Initial retransmission timeout at the time of the papers (RFC 2988, section 2.1).
const CLASSIC_RTO_INITIAL: Duration = Duration::from_secs(3);
/// `tcp_syn_linear_timeouts`: the number of SYN timeouts without back-off.
const SYN_LINEAR_TIMEOUTS: u8 = 4;
/// `write_seq` of an application that writes without end: more payload than any run moves.
const UNLIMITED: u64 = u64::MAX / 4;

/// The use of the retransmission timer (`icsk_pending`); there is only one.
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

/// Counts since the connection was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Segments of data sent, retransmissions included.
    pub segments_sent: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Reductions of the congestion window.
    pub congestion_signals: u64,
}

/// The sending half of a connection.
#[derive(Debug)]
pub struct Sender {
    /// The socket state that the congestion control sees.
    pub tp: TcpSock,
    pub(super) control: &'static Control,
    pub(super) linux: bool,
    pub(super) connection: u32,
    pub(super) generation: u16,
    pub(super) established: bool,
    pub(super) snd_una: u64,
    pub(super) snd_nxt: u64,
    /// One past the last byte that the application has written.
    pub(super) write_seq: u64,
    /// Maximum of `write_seq - snd_una`, bytes.
    pub(super) send_buffer: u64,
    pub(super) window_end: u64,
    pub(super) high_seq: u64,
    pub(super) prior_ssthresh: u32,
    pub(super) undo_marker: Option<u64>,
    pub(super) undo_retrans: i32,
    /// When the first retransmission of this episode was sent, milliseconds.
    pub(super) retrans_stamp: Option<u32>,
    pub(super) queue: RetransmitQueue,
    /// Blocks of the latest selective acknowledgement, sorted (`recv_sack_cache`).
    pub(super) sack_cache: Vec<(u64, u64)>,
    /// Number of the highest segment acknowledged selectively.
    pub(super) highest_sacked: Option<u64>,
    /// No segment below this number is waiting for retransmission.
    pub(super) retransmit_hint: u64,
    pub(super) reordering: u32,
    pub(super) reordering_seen: bool,
    /// Segments that were reported as duplicates (`dsack_dups`).
    pub(super) duplicates: u64,
    pub(super) rack: Rack,
    pub(super) rtt: RttEstimator,
    pub(super) rate: DeliveryRate,
    pub(super) tlp_high_seq: Option<u64>,
    pub(super) tlp_retransmitted: bool,
    pub(super) tlp_duplicate: bool,
    pub(super) frto: bool,
    pub(super) ts_recent: u32,
    pub(super) ts_ecr: u32,
    pub(super) timer: Timer,
    /// The timeout set while the current event is handled, if any; see `set_timer`.
    timer_after: Option<Duration>,
    timer_due: Time,
    /// When the pacer releases the next segment, nanoseconds of the host's clock.
    pub(super) pacing_ns: u64,
    /// How late the latest segment was sent, nanoseconds.
    pub(super) pacing_credit_ns: u64,
    pub(super) pacing_due: Time,
    pub(super) pacing: bool,
    pub(super) now: Time,
    pub(super) jiffies: Jiffies,
    pub(super) statistics: Statistics,
    pub(super) syn_retries: u8,
    pub(super) limit: Limit,
    pub(super) limit_since: Time,
    pub(super) limited_us: [u64; 3],
}

impl Sender {
    /// Creates a sender that opens its connection at `now`.
    pub fn new(now: Time, config: &TcpConfig, connection: u32, generation: u16) -> Self {
        let linux = config.stack == Stack::Linux;
        let mut tp = TcpSock {
            mss_cache: config.mss,
            ..TcpSock::default()
        };
        if !linux {
            tp.snd_cwnd = CLASSIC_INITIAL_CWND;
        }
        let jiffies = match config.hz.filter(|_| linux) {
            Some(hz) => {
                tp.hz = hz;
                Jiffies::new(hz)
            }
            None => Jiffies::without_wheel(1000),
        };
        let parameters = config.parameters_at(now);
        let control = parameters.control();
        control.init(&mut tp, parameters);
        Sender {
            tp,
            control,
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
            timer_after: None,
            timer_due: NEVER,
            pacing_ns: 0,
            pacing_credit_ns: 0,
            pacing_due: NEVER,
            pacing: config.pacing,
            now: Time::ZERO,
            jiffies,
            statistics: Statistics::default(),
            syn_retries: 0,
            limit: Limit::Sender,
            limit_since: Time::ZERO,
            limited_us: [0; 3],
        }
    }

    /// When [`Sender::on_timer`] must be called next; `NEVER` if no timer is set.
    #[inline]
    pub fn due(&self) -> Time {
        self.timer_due.min(self.pacing_due)
    }

    /// The counts so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// The round-trip time estimator.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// The same, mutable, to reset its statistics after the warm-up.
    pub fn rtt_mut(&mut self) -> &mut RttEstimator {
        &mut self.rtt
    }

    /// Bytes acknowledged cumulatively.
    pub fn bytes_acked(&self) -> u64 {
        self.snd_una
    }

    /// Opens the connection: sends the SYN.
    pub fn open(&mut self, now: Time, out: &mut Vec<Packet>) {
        self.refresh(now);
        out.push(self.syn());
        self.set_timer(Timer::Retransmit, self.rtt.rto);
        self.start_timer();
        self.limit_since = now;
    }

    /// The application writes `bytes`, or without limit if `None`; what the windows allow is sent.
    pub fn write(&mut self, now: Time, bytes: Option<u64>, out: &mut Vec<Packet>) {
        self.refresh(now);
        self.write_seq = match bytes {
            Some(bytes) => self.write_seq + bytes,
            None => UNLIMITED,
        };
        if self.established {
            self.restart_after_idle();
            self.transmit_new(out, false);
            self.start_timer();
        }
    }

    /// The application stops writing, and unsent data is discarded.
    pub fn stop_writing(&mut self) {
        self.write_seq = self.snd_nxt;
    }

    /// Switches to another congestion control, or to other parameters of the same one
    /// (`tcp_set_congestion_control`). Window and threshold stay until the new one changes them;
    /// nothing is sent before the next acknowledgement or timer.
    pub fn switch_control(&mut self, now: Time, parameters: &Parameters) {
        if self.control == parameters.control() && self.tp.parameters == *parameters.values() {
            return;
        }
        self.refresh(now);
        self.control.release(&mut self.tp);
        self.control = parameters.control();
        self.prior_ssthresh = 0;
        self.control.init(&mut self.tp, parameters);
    }

    /// Handles an acknowledgement or a SYN-ACK.
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
        self.start_timer();
        #[cfg(test)]
        self.check_counters();
    }

    /// Handles the timers that are due.
    pub fn on_timer(&mut self, now: Time, out: &mut Vec<Packet>) {
        self.refresh(now);
        if self.pacing_due <= now {
            self.pacing_due = NEVER;
            if self.tp.lost_out > self.tp.retrans_out {
                self.transmit_lost_into(out);
            }
            self.transmit_new(out, false);
            self.start_timer();
        }
        if self.timer_due <= now {
            self.on_retransmission_timer(out);
            self.start_timer();
        }
    }

    /// The retransmission timer has expired (`tcp_write_timer_handler`).
    fn on_retransmission_timer(&mut self, out: &mut Vec<Packet>) {
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
        self.clear_timer();
        let rtt_us = self.syn_rtt_us(now, packet.ts_ecr);
        self.rtt.update_min(&mut self.tp, rtt_us);
        self.rtt.update(&mut self.tp, &self.jiffies, rtt_us, 0, 0);
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
        self.start_timer();
    }

    /// Exact to the microsecond if only one SYN was sent; otherwise the echoed time stamp tells
    /// which SYN was answered.
    fn syn_rtt_us(&self, now: Time, sent_ms: u32) -> u32 {
        if self.syn_retries == 0 {
            return (self.tp.tcp_mstamp - self.tp.first_tx_mstamp) as u32;
        }
        1000 * milliseconds(now).wrapping_sub(sent_ms).max(1)
    }

    fn retry_syn(&mut self, out: &mut Vec<Packet>) {
        self.syn_retries = self.syn_retries.saturating_add(1);
        self.statistics.timeouts += 1;
        if !self.linux || self.syn_retries > SYN_LINEAR_TIMEOUTS {
            self.rtt.back_off();
        }
        out.push(self.syn());
        self.set_timer(Timer::Retransmit, self.rtt.rto);
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
            push: false,
        }
    }

    /// Brings the clocks that the congestion control sees up to `now`.
    #[inline]
    fn refresh(&mut self, now: Time) {
        self.now = now;
        let ns = clock_ns(now);
        self.tp.now_ns = ns;
        self.tp.tcp_mstamp = ns / 1000;
        self.jiffies.advance(ns);
        self.tp.jiffies = self.jiffies.now() as u32;
    }

    /// `tcp_min_rtt`: very large before the first measurement.
    #[inline]
    pub(super) fn min_rtt_us(&self) -> u32 {
        self.tp.rtt_min_us
    }

    /// Sets the timer to expire after this time, rounded up to whole jiffies. An event may set it
    /// several times and the last call counts, so it starts only when the event has been handled.
    #[inline]
    pub(super) fn set_timer(&mut self, timer: Timer, after: Duration) {
        self.timer = timer;
        self.timer_after = Some(after);
    }

    pub(super) fn clear_timer(&mut self) {
        self.timer = Timer::Idle;
        self.timer_after = None;
        self.timer_due = NEVER;
    }

    /// Starts the timer if this event has set it.
    #[inline]
    fn start_timer(&mut self) {
        if let Some(after) = self.timer_after.take() {
            self.timer_due = self.jiffies.expiry(self.now, self.jiffies.count(after));
        }
    }
}

/// The segment size for a receiver with a small window: half the window, so that acknowledgements
/// arrive to clock out the next segment (`tcp_bound_to_half_wnd`).
fn half_window_mss(mss: u32, window: u32) -> u32 {
    const MSS_DEFAULT: u32 = 536;
    let most = if window > MSS_DEFAULT {
        window / 2
    } else {
        window
    };
    mss.min(most.max(16))
}
