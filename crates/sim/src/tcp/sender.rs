//! The sending half of a connection.
//!
//! [`Sender`] is composed of owners, each of which alone changes its part of the state:
//!
//! | file | owns |
//! |---|---|
//! | `sequence.rs` | what is written, sent and acknowledged, and the receiver's window |
//! | `retransmit_queue.rs` | the segments in flight, and what has become of each |
//! | `loss/rack.rs`, `loss/reordering.rs` | what acknowledgements tell about losses and reordering |
//! | `episode.rs` | where a recovery began, and whether it was necessary |
//! | `tail_loss_probe.rs` | the probe in flight |
//! | `window.rs` | the congestion control, and reductions of its window |
//! | `rtt.rs`, `rate.rs` | measurements of round-trip time and delivery rate |
//! | `retransmit_timer.rs`, `pacing.rs`, `clock.rs` | when the next event is due |
//! | `counters.rs` | counts, and how long what limited the sender |
//!
//! The other files are what the sender does with them: `handshake.rs`, `input.rs`, `scoreboard.rs`
//! (selective acknowledgements), `recovery.rs`, `output.rs`, `instruments.rs`. Variables that
//! congestion controls read are in the [`TcpSock`], which the owners are handed to keep their part
//! of it.

use std::rc::Rc;

use fairwind_cc::AdvisedStart;
use fairwind_cc::native::{Hosts, Parameters, SharedState, TcpSock};
use fairwind_path::units::Time;

use crate::packet::{Kind, Packet, SackBlocks};
use crate::scenario::{Stack, TcpConfig};
use crate::tcp::UPTIME_NS;
use crate::tcp::ecn::SenderEcn;

mod clock;
mod counters;
mod effects;
mod episode;
mod handshake;
mod input;
mod instruments;
mod loss;
mod output;
mod pacing;
mod rate;
mod recovery;
mod retransmit_queue;
mod retransmit_timer;
mod rtt;
mod scoreboard;
mod sequence;
mod tail_loss_probe;
mod window;

pub(crate) use counters::Statistics;

use clock::Clock;
use counters::Counters;
use episode::Episode;
use loss::{Rack, Reordering};
use pacing::Pacer;
use retransmit_queue::RetransmitQueue;
use retransmit_timer::RetransmitTimer;
use rtt::RttEstimator;
use sequence::SendSequence;
use tail_loss_probe::TailLossProbe;
use window::CongestionWindow;

/// The sending half of a connection: a state machine that is given the time and the packets that
/// arrive, and returns what to send and when to wake it.
#[derive(Debug)]
pub struct Sender {
    tp: TcpSock,
    stack: Stack,
    tso_win_divisor: u32,
    established: bool,
    syn_retries: u8,
    generation: u16,
    connection: u32,
    /// The time stamp that the latest acknowledgement echoed (`rcv_tsecr`).
    ts_ecr: u32,
    clock: Clock,
    timer: RetransmitTimer,
    pacer: Pacer,
    sequence: SendSequence,
    queue: RetransmitQueue,
    rack: Rack,
    reordering: Reordering,
    probe: TailLossProbe,
    episode: Episode,
    window: CongestionWindow,
    rtt: RttEstimator,
    ecn: SenderEcn,
    counters: Counters,
    /// The blocks of the latest selective acknowledgement, sorted (`recv_sack_cache`).
    sack_cache: SackBlocks,
}

/// The advice with its time on the clock that congestion controls see.
fn on_own_clock(start: AdvisedStart) -> AdvisedStart {
    let until = start.until_ns().unwrap_or_default();
    start.until(until.saturating_add(UPTIME_NS))
}

impl Sender {
    /// Creates a sender that opens its connection at `now`.
    pub fn new(
        now: Time,
        config: &TcpConfig,
        hosts: &Rc<Hosts>,
        connection: u32,
        generation: u16,
    ) -> Self {
        let stack = config.stack;
        let hz = stack.wheel_hz(config.hz);
        let mut tp = TcpSock {
            mss_cache: config.mss,
            cc_shared: SharedState::between(hosts),
            cc_advised: config
                .advised_start
                .map(|start| hosts.advised(on_own_clock(start)))
                .unwrap_or_default(),
            ..TcpSock::default()
        };
        if let Some(hz) = hz {
            tp.hz = hz;
        }
        let window = CongestionWindow::new(&mut tp, stack, config.parameters_at(now));
        Sender {
            tp,
            stack,
            tso_win_divisor: config.tso_win_divisor,
            established: false,
            syn_retries: 0,
            generation,
            connection,
            ts_ecr: 0,
            clock: Clock::new(hz),
            timer: RetransmitTimer::new(),
            pacer: Pacer::new(config.pacing),
            sequence: SendSequence::new(config.send_buffer.map_or(config.tcp_wmem[2], |b| b.0)),
            queue: RetransmitQueue::new(),
            rack: Rack::new(),
            reordering: Reordering::new(),
            probe: TailLossProbe::default(),
            episode: Episode::default(),
            window,
            rtt: RttEstimator::new(stack.rto_initial()),
            ecn: SenderEcn::new(config.ecn),
            counters: Counters::default(),
            sack_cache: SackBlocks::default(),
        }
    }

    /// The socket state that the congestion control sees.
    pub fn tp(&self) -> &TcpSock {
        &self.tp
    }

    /// When [`Sender::on_timer`] must be called next; `Time::MAX` if no timer is set.
    #[inline]
    pub fn due(&self) -> Time {
        self.timer.due().min(self.pacer.due())
    }

    /// The counts so far.
    pub(crate) fn statistics(&self) -> Statistics {
        Statistics {
            ecn_signals: self.tp.delivered_ce.into(),
            ..self.counters.statistics()
        }
    }

    /// The round-trip time estimator.
    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Leaves the round-trip times measured so far out of their mean.
    pub(crate) fn reset_rtt_statistics(&mut self) {
        self.rtt.reset_statistics();
    }

    /// The application writes `bytes`, or without limit if `None`; what the windows allow is sent.
    pub fn write(&mut self, now: Time, bytes: Option<u64>, out: &mut Vec<Packet>) {
        self.refresh(now);
        self.sequence.write(&mut self.tp, bytes);
        if self.established {
            let rto = self.clock.jiffies().count(self.rtt.rto());
            self.window.restart_after_idle(&mut self.tp, rto);
            self.transmit_new(out);
            self.timer.start(&self.clock);
        }
    }

    /// The application stops writing, and unsent data is discarded.
    pub fn stop_writing(&mut self) {
        self.sequence.discard_unsent(&mut self.tp);
    }

    /// Switches to another congestion control, or to other parameters of the same one
    /// (`tcp_set_congestion_control`). Window and threshold stay until the new one changes them;
    /// nothing is sent before the next acknowledgement or timer.
    pub fn switch_control(&mut self, now: Time, parameters: &Parameters) {
        if self.window.is_under(&self.tp, parameters) {
            return;
        }
        self.refresh(now);
        self.window.switch_control(&mut self.tp, parameters);
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
            self.on_syn_ack(packet, out);
            return;
        }
        if !self.established {
            return;
        }
        self.on_ack(packet, sack, out);
        self.transmit_new(out);
        self.timer.start(&self.clock);
        #[cfg(test)]
        self.check_counters();
    }

    /// Handles the timers that are due.
    pub fn on_timer(&mut self, now: Time, out: &mut Vec<Packet>) {
        self.refresh(now);
        if self.pacer.releases(now) {
            if self.tp.lost_out > self.tp.retrans_out {
                self.transmit_lost(out);
            }
            self.transmit_new(out);
            self.timer.start(&self.clock);
        }
        if self.timer.due() <= now {
            self.on_retransmission_timer(out);
            self.timer.start(&self.clock);
        }
    }

    /// Brings the clocks up to `now`.
    #[inline]
    fn refresh(&mut self, now: Time) {
        self.clock.advance(&mut self.tp, now);
    }
}

/// For tests.
#[cfg(test)]
impl Sender {
    pub(super) fn tp_mut(&mut self) -> &mut TcpSock {
        &mut self.tp
    }

    pub(super) fn rack(&mut self) -> &mut Rack {
        &mut self.rack
    }

    pub(super) fn reordering(&self) -> &Reordering {
        &self.reordering
    }

    /// Whether a tail loss probe is in flight.
    pub(super) fn is_probing(&self) -> bool {
        self.probe.is_in_flight()
    }

    /// Bytes acknowledged cumulatively.
    pub(super) fn bytes_acked(&self) -> u64 {
        self.sequence.una()
    }

    /// Segments neither delivered nor lost, and retransmissions.
    pub(super) fn in_flight(&self) -> u32 {
        retransmit_queue::in_flight(&self.tp)
    }

    /// Checks that the counters agree with the queue.
    pub(super) fn check_counters(&self) {
        let (una, nxt) = (self.sequence.una(), self.sequence.nxt());
        self.queue.check(&self.tp, una, nxt);
        assert!(self.tp.snd_cwnd >= 1);
        assert!(
            self.queue.is_empty() || self.due() != crate::agenda::NEVER,
            "something will wake a sender that waits"
        );
    }
}
