//! Feeds the simulator's TCP the ACKs that the kernel's received, at the same times, and compares
//! the state of both before each ACK.
//!
//! The simulator's sender makes every decision itself: what is lost, what is retransmitted, how the
//! window falls in recovery, when a timer expires. Once its state differs, the ACKs answer packets
//! that it has not sent, or has sent at another time.

use std::rc::Rc;

use fairwind_cc::native::Parameters;
use fairwind_path::units::Time;
use fairwind_sim::packet::{Kind, Packet, SackBlocks};
use fairwind_sim::scenario::{Stack, TcpConfig};
use fairwind_sim::tcp::Sender;

use crate::exchange::{Ack, Exchange, SenderState};

/// The simulator's clock at its start, milliseconds; this is jiffy number `hz`.
const UPTIME_MS: u32 = 1000;
/// Payload of a packet of 1500 bytes with time stamps, bytes.
const MSS: u32 = 1448;
/// More than any connection here has in flight, bytes.
const BUFFER: u64 = 64 << 20;

/// How far the two senders agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Number of ACKs.
    pub acks: u64,
    /// ACKs before which the whole state was equal.
    pub alike: u64,
    /// ACKs before which the window was equal.
    pub cwnd: u64,
    /// Maximum number of retransmissions in flight at a time, in the kernel.
    pub most_retransmitted: u32,
    /// The first difference, if any.
    pub first_difference: Option<Difference>,
}

/// An ACK before which the states differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Index of the ACK, from 0.
    pub index: usize,
    /// The kernel's state.
    pub kernel: SenderState,
    /// The simulator's state.
    pub simulator: SenderState,
}

/// Replays an exchange into the simulator's sender with the congestion control of `parameters`.
pub fn replay(exchange: &Exchange, parameters: &Parameters) -> Agreement {
    let mut agreement = Agreement::default();
    let mut sender = open(exchange, parameters);
    let mut out = Vec::new();
    for (index, ack) in exchange.acks.iter().enumerate() {
        let now = time(ack.time_us);
        while sender.due() <= now {
            sender.on_timer(sender.due(), &mut out);
        }
        let (kernel, simulator) = (ack.before, standing(&sender));
        agreement.acks += 1;
        agreement.alike += u64::from(kernel == simulator);
        agreement.cwnd += u64::from(kernel.cwnd == simulator.cwnd);
        agreement.most_retransmitted = agreement.most_retransmitted.max(kernel.retrans_out);
        if kernel != simulator && agreement.first_difference.is_none() {
            agreement.first_difference = Some(Difference {
                index,
                kernel,
                simulator,
            });
        }
        sender.receive(now, &packet(ack), &blocks(ack), &mut out);
        out.clear();
    }
    agreement
}

/// A sender that is opened, established and written to at the same times as the kernel's.
fn open(exchange: &Exchange, parameters: &Parameters) -> Sender {
    let config = TcpConfig {
        stack: Stack::Linux,
        hz: Some(exchange.hz),
        mss: MSS,
        tcp_rmem: [4096, 131_072, BUFFER],
        tcp_wmem: [4096, BUFFER, BUFFER],
        // As the kernel was told (`tcp_min_tso_segs`), no segment waits for another.
        tso_win_divisor: u32::MAX,
        ..TcpConfig::new(parameters.clone())
    };
    let mut out = Vec::new();
    let opened = time(exchange.opened_us);
    let mut sender = Sender::new(opened, &config, &Rc::default(), 0, 0);
    sender.open(opened, &mut out);
    let answer = Packet {
        window: exchange.window,
        ts_ecr: UPTIME_MS,
        ..blank(Kind::SynAck)
    };
    let established = time(exchange.established_us);
    sender.receive(established, &answer, &SackBlocks::default(), &mut out);
    sender.write(time(exchange.written_us), None, &mut out);
    sender
}

fn standing(sender: &Sender) -> SenderState {
    let tp = sender.tp();
    SenderState {
        cwnd: tp.snd_cwnd,
        ssthresh: tp.snd_ssthresh,
        ca_state: tp.icsk_ca_state.into(),
        packets_out: tp.packets_out,
        sacked_out: tp.sacked_out,
        lost_out: tp.lost_out,
        retrans_out: tp.retrans_out,
        snd_nxt: tp.snd_nxt,
    }
}

fn packet(ack: &Ack) -> Packet {
    Packet {
        seq: ack.ack.into(),
        window: ack.window,
        ts_val: ack.ts_val,
        ts_ecr: ack.ts_ecr.wrapping_add(UPTIME_MS),
        ..blank(Kind::Ack)
    }
}

/// A first block below the ACK or within the second is a duplicate report (RFC 2883).
fn blocks(ack: &Ack) -> SackBlocks {
    let mut blocks = SackBlocks::default();
    let [first, second, _] = ack.blocks;
    let is_block = |&(start, end): &(u32, u32)| end > start;
    let within = is_block(&second) && first.0 >= second.0 && first.1 <= second.1;
    blocks.duplicate_first = is_block(&first) && (first.1 <= ack.ack || within);
    for (start, end) in ack.blocks.into_iter().filter(is_block) {
        blocks.push(start.into()..end.into());
    }
    blocks
}

fn blank(kind: Kind) -> Packet {
    Packet {
        ts_val: 1,
        size: 52,
        ..Packet::new(kind, 0, 0)
    }
}

fn time(us: u64) -> Time {
    Time::from_nanos(us * 1000)
}
