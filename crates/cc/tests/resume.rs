//! Careful Resume against RFC 9959, packet by packet. Sections are the RFC's.

use fairwind_cc::AdvisedStart;
use fairwind_cc::native::{
    AckSample, AdvisedPath, Control, Hosts, PACING_FQ, PACING_NEEDED, PACING_NONE,
    TCP_INFINITE_SSTHRESH, TcpSock, ca_event, ca_state, find,
};
use proptest::prelude::*;

use self::Phase::{Normal, Reconnaissance, SafeRetreat, Unvalidated, Validating};
use self::Trigger::{
    Confirmed, Congestion, Expired, InUse, NoGain, NotAdvised, PathChanged, Queue, RateLimited,
    Recovered, RttNotValidated, Sent, Timeout, Validated,
};

const MS: u64 = 1000;
const RTT_US: u32 = 100_000;
/// Payload of a packet; with the headers of IPv6 and TCP 1520 bytes.
const MSS: u32 = 1448;
/// 1500 packets of 1520 bytes in 100 ms.
const RATE: u64 = 22_800_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Normal,
    Reconnaissance,
    Unvalidated,
    Validating,
    SafeRetreat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trigger {
    None,
    NotAdvised,
    Expired,
    RttNotValidated,
    NoGain,
    InUse,
    Congestion,
    Confirmed,
    PathChanged,
    Sent,
    RateLimited,
    Validated,
    Recovered,
    Timeout,
    Queue,
}

const PHASES: [Phase; 5] = [Normal, Reconnaissance, Unvalidated, Validating, SafeRetreat];
const TRIGGERS: [Trigger; 15] = [
    Trigger::None,
    NotAdvised,
    Expired,
    RttNotValidated,
    NoGain,
    InUse,
    Congestion,
    Confirmed,
    PathChanged,
    Sent,
    RateLimited,
    Validated,
    Recovered,
    Timeout,
    Queue,
];

/// A sender under `reno`, whose every packet the test sends and acknowledges. Its state is that of the start alone.
#[derive(Clone)]
struct Sender {
    control: &'static Control,
    sk: TcpSock,
    now_us: u64,
    /// That the next ACK shows.
    rtt_us: u32,
}

impl Sender {
    /// At time 0, limited by its window, with as much to send as the window ever allows.
    fn new(advised: AdvisedPath) -> Sender {
        Sender::under("reno", advised)
    }

    fn under(control: &str, advised: AdvisedPath) -> Sender {
        let control = find(control).unwrap();
        let mut sender = Sender {
            control,
            sk: TcpSock {
                is_cwnd_limited: 1,
                delivered: 1,
                rtt_min_us: RTT_US,
                srtt_us: RTT_US << 3,
                write_seq: 100_000 * MSS,
                cc_advised: advised,
                ..TcpSock::default()
            },
            now_us: 0,
            rtt_us: RTT_US,
        };
        sender.at(0);
        control.init(&mut sender.sk, &control.default_parameters());
        sender
    }

    fn advised(start: AdvisedStart) -> Sender {
        Sender::new(AdvisedPath::alone(start))
    }

    /// Sets the clock, microseconds.
    fn at(&mut self, us: u64) {
        self.now_us = us;
        let us = us + 1_000_000_000;
        self.sk.tcp_mstamp = us;
        self.sk.now_ns = us * 1000;
        self.sk.jiffies = (us / 1000) as u32;
    }

    fn phase(&self) -> (Phase, Trigger) {
        let [phase, trigger, ..] = self.sk.icsk_ca_priv[0].to_ne_bytes();
        (PHASES[usize::from(phase)], TRIGGERS[usize::from(trigger)])
    }

    fn pipe_size(&self) -> u32 {
        (self.sk.icsk_ca_priv[0] >> 32) as u32
    }

    fn in_flight(&self) -> u32 {
        self.sk.packets_out - self.sk.sacked_out - self.sk.lost_out + self.sk.retrans_out
    }

    /// Sends as many packets as the window allows, at most this many.
    fn send(&mut self, most: u32) -> u32 {
        self.control.min_tso_segs(&mut self.sk);
        let count = self.sk.snd_cwnd.saturating_sub(self.in_flight()).min(most);
        self.sk.packets_out += count;
        self.sk.snd_nxt += count * MSS;
        count
    }

    /// Acknowledges the oldest packets.
    fn ack(&mut self, packets: u32) {
        self.sk.packets_out -= packets;
        self.sk.snd_una += packets * MSS;
        self.sk.delivered += packets;
        self.acked(packets);
        if self.sk.icsk_ca_state < ca_state::CWR {
            let ack = self.sk.snd_una;
            self.control.cong_avoid(&mut self.sk, ack, packets);
        }
    }

    fn acked(&mut self, packets: u32) {
        let sample = AckSample {
            pkts_acked: packets,
            rtt_us: self.rtt_us as i32,
            in_flight: 0,
        };
        self.control.pkts_acked(&mut self.sk, &sample);
    }

    /// Sends the initial window, and receives an ACK for each of its packets, `gap_us` apart, from 100 ms on.
    fn confirm(&mut self, gap_us: u64) {
        self.send(10);
        for packet in 0..10 {
            self.at(100 * MS + packet * gap_us);
            self.ack(1);
            if packet < 9 {
                self.send(2);
            }
        }
    }

    /// The jump that is advised by [`promise`] has begun and all of it has been sent.
    fn jumped() -> Sender {
        let mut sender = Sender::advised(promise());
        sender.confirm(10);
        assert_eq!(sender.phase(), (Unvalidated, Confirmed));
        sender.send(1000);
        sender
    }

    /// Enters recovery with this many packets lost, the latest ACK having been processed.
    fn lose(&mut self, packets: u32) {
        self.sk.lost_out = packets;
        self.reduce(ca_state::RECOVERY);
    }

    fn reduce(&mut self, state: u8) {
        self.sk.prior_cwnd = self.sk.snd_cwnd;
        self.sk.prr_delivered = 0;
        self.sk.prr_out = 0;
        self.sk.high_seq = self.sk.snd_nxt;
        self.sk.snd_ssthresh = self.control.ssthresh(&mut self.sk);
        self.enter(state);
    }

    fn enter(&mut self, state: u8) {
        self.control.set_state(&mut self.sk, state);
        self.sk.icsk_ca_state = state;
    }

    /// Ends a reduction as TCP does: at ssthresh.
    fn end_reduction(&mut self) {
        self.sk.snd_cwnd = self.sk.snd_ssthresh;
        self.control
            .cwnd_event(&mut self.sk, ca_event::COMPLETE_CWR);
        self.enter(ca_state::OPEN);
    }
}

/// 1500 packets in 100 ms, for the next ten seconds.
fn promise() -> AdvisedStart {
    AdvisedStart::new(RATE, RTT_US.into(), 1_010_000_000_000).unwrap()
}

#[test]
fn without_advice_the_first_window_ends_it() {
    let mut sender = Sender::new(AdvisedPath::default());
    assert_eq!(sender.phase(), (Reconnaissance, Trigger::None));
    sender.confirm(10);
    assert_eq!(sender.phase(), (Normal, NotAdvised));
    assert_eq!(sender.sk.snd_cwnd, 20);
    assert_eq!(sender.sk.snd_ssthresh, TCP_INFINITE_SSTHRESH);
    assert_eq!(sender.sk.sk_pacing_status, PACING_NONE);
}

#[test]
fn reconnaissance_grows_the_window_as_usual_until_all_of_the_first_is_acknowledged() {
    // 3.2: the CWND is increased using normal CC.
    let mut sender = Sender::advised(promise());
    sender.send(10);
    for acked in 1..10 {
        sender.at(100 * MS + 10 * acked);
        sender.ack(1);
        sender.send(2);
        assert_eq!(sender.phase(), (Reconnaissance, Trigger::None));
        assert_eq!(u64::from(sender.sk.snd_cwnd), 10 + acked);
    }
}

#[test]
fn a_confirmed_path_gets_a_fifth_of_the_promised_window() {
    // 3.3: jump_cwnd is no more than saved_cwnd/2; here it is saved_cwnd/5 = 300. PipeSize is the flight size on entry: of 10 + 18 packets
    // sent, 10 are acknowledged.
    let mut sender = Sender::advised(promise());
    sender.confirm(10);
    assert_eq!(sender.phase(), (Unvalidated, Confirmed));
    assert_eq!(sender.sk.snd_cwnd, 300);
    assert_eq!(sender.pipe_size(), 18);
    assert_eq!(sender.sk.snd_ssthresh, 1500);
}

#[test]
fn the_jump_is_paced_over_the_current_round_trip_time() {
    // 4.3.2: 300 packets of 1448 bytes in 100 ms are 4,344,000 bytes/s.
    let mut sender = Sender::advised(promise());
    sender.confirm(10);
    assert_eq!(sender.sk.sk_pacing_status, PACING_NEEDED);
    sender.sk.sk_pacing_rate = 8_688_000; // as TCP sets it in slow start
    sender.send(10);
    assert_eq!(sender.sk.sk_pacing_rate, 4_344_000);
    // Three times the advised round-trip time: a third of the rate.
    sender.sk.srtt_us = 8 * 300_000;
    sender.send(10);
    assert_eq!(sender.sk.sk_pacing_rate, 1_448_000);
    sender.sk.sk_max_pacing_rate = 1_000_000;
    sender.send(10);
    assert_eq!(sender.sk.sk_pacing_rate, 1_000_000);
}

#[test]
fn slow_start_after_the_jump_is_paced_and_pacing_ends_with_it_unless_others_want_it() {
    for (status, max_pacing_rate, at_the_end) in [
        (PACING_NONE, u64::MAX, PACING_NONE),
        (PACING_FQ, u64::MAX, PACING_FQ),
        (PACING_NEEDED, 1 << 40, PACING_NEEDED),
    ] {
        let mut sender = Sender::advised(promise());
        sender.sk.sk_pacing_status = status;
        sender.sk.sk_max_pacing_rate = max_pacing_rate;
        sender.confirm(10);
        sender.send(1000);
        sender.send(1);
        assert_eq!(sender.phase(), (Validating, Sent));
        let paced = sender.sk.sk_pacing_status;
        assert_ne!(paced, PACING_NONE);
        while sender.sk.snd_cwnd < 1500 {
            assert_eq!(sender.sk.sk_pacing_status, paced);
            sender.at(sender.now_us + MS);
            sender.ack(10);
            sender.send(1000);
        }
        sender.ack(10);
        assert_eq!(sender.sk.sk_pacing_status, at_the_end);
    }
}

#[test]
fn packets_from_before_the_jump_show_no_queue_of_others() {
    // They left at once, and come back 1.2 ms apart, as a path of 10 Mbit/s carries them.
    let mut sender = Sender::advised(promise());
    sender.confirm(10);
    sender.send(1000);
    sender.send(1);
    assert_eq!(sender.phase(), (Validating, Sent));
    for packet in 1..=18 {
        sender.at(200 * MS + u64::from(packet) * 1200);
        sender.rtt_us = RTT_US + packet * 1200;
        sender.ack(1);
    }
    assert_eq!(sender.sk.snd_ssthresh, 1500);
}

#[test]
fn the_window_is_held_while_the_jump_is_sent() {
    let mut sender = Sender::advised(promise());
    sender.confirm(10);
    sender.send(100);
    for packet in 0..9 {
        sender.at(110 * MS + packet);
        sender.ack(2);
    }
    assert_eq!(sender.phase(), (Unvalidated, Confirmed));
    assert_eq!(sender.sk.snd_cwnd, 300);
    // 3.3, tracking PipeSize: 18 in flight and 18 acknowledged.
    assert_eq!(sender.pipe_size(), 36);
}

#[test]
fn a_full_window_ends_the_jump() {
    // 3.3: the flight size equals the CWND.
    let mut sender = Sender::jumped();
    assert_eq!(sender.in_flight(), 300);
    sender.send(1);
    assert_eq!(sender.phase(), (Validating, Sent));
    assert_eq!(sender.sk.snd_cwnd, 300);
}

#[test]
fn the_first_unvalidated_packet_s_acknowledgement_ends_the_jump() {
    // 3.3: the CWND becomes the flight size: 18 + 150 sent, 19 acknowledged.
    let mut sender = Sender::advised(promise());
    sender.confirm(10);
    sender.send(150);
    sender.at(190 * MS);
    sender.ack(18);
    assert_eq!(sender.phase(), (Unvalidated, Confirmed));
    sender.ack(1);
    assert_eq!(sender.phase(), (Validating, Sent));
    assert_eq!(sender.sk.snd_cwnd, 149 + 1); // and slow start again
    assert_eq!(sender.pipe_size(), 18 + 19);
}

#[test]
fn a_round_trip_time_ends_the_jump() {
    // 3.3: more than one RTT. It began at 100.09 ms.
    let mut sender = Sender::advised(promise());
    sender.confirm(10);
    sender.send(150);
    sender.at(200 * MS + 90);
    sender.ack(2);
    assert_eq!(sender.phase(), (Unvalidated, Confirmed));
    sender.at(200 * MS + 91);
    sender.ack(2);
    assert_eq!(sender.phase(), (Validating, Sent));
}

#[test]
fn too_little_data_validates_nothing() {
    // 3.3: with a flight size of no more than PipeSize the CWND is reset to PipeSize. 18 packets in flight, 5 more
    // sent, 19 acknowledged: 4 in flight, PipeSize 37.
    let mut sender = Sender::advised(promise());
    sender.confirm(10);
    sender.send(5);
    sender.at(190 * MS);
    sender.ack(19);
    assert_eq!(sender.phase(), (Normal, RateLimited));
    // Slow start adds the packets of this ACK, as the window was its limit.
    assert_eq!(sender.sk.snd_cwnd, 37 + 19);
    assert_eq!(sender.sk.sk_pacing_status, PACING_NONE);
}

#[test]
fn a_queue_ends_the_jump() {
    let mut sender = Sender::advised(promise());
    sender.confirm(10);
    sender.send(150);
    sender.at(150 * MS);
    sender.rtt_us = 112_500;
    sender.ack(2);
    assert_eq!(sender.phase(), (Unvalidated, Confirmed));
    sender.rtt_us = 112_501;
    sender.ack(2);
    assert_eq!(sender.phase(), (Validating, Sent));
    assert_eq!(sender.sk.snd_cwnd, 164 + 2);
    assert_eq!(sender.sk.snd_ssthresh, 1500);
}

#[test]
fn a_queue_that_stays_ends_slow_start_after_the_jump() {
    // A queue is more than a thirty-second of 100 ms, for a sixteenth of 100 ms. ACKs are for two packets.
    let validating = || {
        let mut sender = Sender::jumped();
        sender.at(200 * MS);
        sender.send(1);
        sender
    };
    let acks = |sender: &mut Sender, acks: &[(u64, u32)]| {
        for (us, rtt_us) in acks {
            sender.at(200 * MS + us);
            sender.rtt_us = *rtt_us;
            sender.ack(2);
        }
        sender.sk.snd_ssthresh
    };
    let long = 103_126;
    let threshold = acks(&mut validating(), &[(0, long), (10, long), (6_249, long)]);
    assert_eq!(threshold, 1500);
    let threshold = acks(&mut validating(), &[(0, long), (1, 103_125), (6_250, long)]);
    assert_eq!(threshold, 1500);
    let threshold = acks(&mut validating(), &[(0, long), (6_250, long)]);
    assert_eq!(threshold, 302);
    // The first window has met 8 ms of others' queue: it is not the jump's.
    let mut sender = validating();
    sender.sk.rtt_min_us = 108_000;
    assert_eq!(acks(&mut sender, &[(6_750, 111_375)]), 1500);
    assert_eq!(acks(&mut sender, &[(13_499, 111_376)]), 1500);
    assert_eq!(acks(&mut sender, &[(13_500, 111_376)]), 304);
    // Once all of the jump has been acknowledged, as well.
    let mut sender = validating();
    sender.ack(300);
    assert_eq!(sender.phase(), (Normal, Validated));
    sender.send(300);
    assert_eq!(acks(&mut sender, &[(6_250, long)]), 600);
}

#[test]
fn the_last_unvalidated_packet_s_acknowledgement_validates() {
    // 3.4: slow start for 300 packets.
    let mut sender = Sender::jumped();
    sender.send(1);
    sender.at(200 * MS);
    sender.ack(299);
    assert_eq!(sender.phase(), (Validating, Sent));
    assert_eq!(sender.sk.snd_cwnd, 599);
    sender.ack(1);
    assert_eq!(sender.phase(), (Normal, Validated));
    assert_eq!(sender.sk.snd_cwnd, 600);
    // And on, to what was promised.
    assert_eq!(sender.sk.snd_ssthresh, 1500);
    sender.send(600);
    sender.at(300 * MS);
    sender.ack(600);
    assert_eq!(sender.sk.snd_cwnd, 1200);
    sender.send(1200);
    sender.at(400 * MS);
    sender.ack(600);
    assert_eq!(sender.sk.snd_cwnd, 1500, "congestion avoidance");
}

#[test]
fn a_loss_in_reconnaissance_is_an_ordinary_one() {
    // 3.2: detected congestion.
    let mut sender = Sender::advised(promise());
    sender.send(10);
    sender.at(100 * MS);
    sender.ack(2);
    sender.lose(1);
    assert_eq!(sender.phase(), (Normal, Congestion));
    assert_eq!(sender.sk.snd_ssthresh, 6);
    assert!(sender.sk.cc_advised.get().unwrap().until_ns().is_some());
}

#[test]
fn a_loss_of_the_jump_leaves_half_of_what_was_carried() {
    // The example of appendix B.4, with a flight of 18: 34 unvalidated packets are acknowledged, then a loss is
    // detected. PipeSize = 18 + 18 + 34 = 70.
    let mut sender = Sender::jumped();
    sender.send(1);
    sender.at(200 * MS);
    sender.ack(52);
    assert_eq!(sender.pipe_size(), 70);
    sender.lose(1);
    assert_eq!(sender.phase(), (SafeRetreat, Congestion));
    assert_eq!(sender.sk.snd_cwnd, 35);
    assert_eq!(sender.sk.snd_ssthresh, 35);
    assert_eq!(
        sender.sk.cc_advised.get().unwrap().until_ns(),
        None,
        "withdrawn"
    );
}

#[test]
fn a_loss_while_the_jump_is_sent_is_a_retreat_too() {
    let mut sender = Sender::advised(promise());
    sender.confirm(10);
    sender.send(100);
    sender.at(110 * MS);
    sender.ack(4);
    sender.lose(1);
    assert_eq!(sender.phase(), (SafeRetreat, Congestion));
    assert_eq!(sender.sk.snd_cwnd, 11);
    assert_eq!(sender.sk.sk_pacing_status, PACING_NONE);
}

#[test]
fn a_mark_is_congestion_as_a_loss_is() {
    let mut sender = Sender::jumped();
    sender.send(1);
    sender.at(200 * MS);
    sender.ack(52);
    sender.reduce(ca_state::CWR);
    assert_eq!(sender.phase(), (SafeRetreat, Congestion));
    assert_eq!(sender.sk.snd_cwnd, 35);
}

#[test]
fn a_retreat_leaves_at_least_two_packets() {
    let mut sender = Sender::jumped();
    sender.sk.icsk_ca_priv[0] &= 0xffff_ffff; // a PipeSize of 0
    sender.lose(1);
    assert_eq!(sender.sk.snd_cwnd, 2);
    assert_eq!(sender.sk.snd_ssthresh, 2);
}

#[test]
fn the_retreat_sends_nothing_until_the_path_is_drained() {
    // 4.5: not by proportional rate reduction, which would set the window to what is in flight and a share.
    let mut sender = Sender::jumped();
    sender.send(1);
    sender.at(200 * MS);
    sender.ack(52);
    sender.lose(1);
    // The first retransmission leaves at once.
    sender.sk.snd_cwnd = sender.in_flight() + 3;
    sender.control.min_tso_segs(&mut sender.sk);
    assert_eq!(sender.sk.snd_cwnd, sender.in_flight() + 1);
    sender.sk.retrans_out = 1;
    sender.sk.prr_out = 1;
    for _ in 0..20 {
        sender.ack(10);
        sender.sk.snd_cwnd = sender.in_flight() + 5;
        sender.control.min_tso_segs(&mut sender.sk);
        assert_eq!(sender.sk.snd_cwnd, (sender.in_flight() + 5).min(35));
    }
}

#[test]
fn the_end_of_the_retreat_is_slow_start_to_half_of_what_was_carried() {
    // 3.5: ssthresh is no more than PipeSize * Beta. 70 + 200 acknowledged within a round-trip time, 48 later.
    let mut sender = Sender::jumped();
    sender.send(1);
    sender.at(200 * MS);
    sender.ack(52);
    sender.lose(1);
    sender.at(250 * MS);
    sender.ack(200);
    sender.at(350 * MS);
    sender.sk.lost_out = 0;
    sender.ack(48);
    assert_eq!(sender.phase(), (SafeRetreat, Congestion));
    sender.end_reduction();
    assert_eq!(sender.phase(), (Normal, Recovered));
    assert_eq!(sender.sk.snd_cwnd, 35);
    assert_eq!(sender.sk.snd_ssthresh, 135);
}

#[test]
fn a_second_loss_in_the_retreat_lowers_the_window_as_usual() {
    let mut sender = Sender::jumped();
    sender.send(1);
    sender.ack(52);
    sender.lose(1);
    assert_eq!(sender.sk.snd_ssthresh, 35);
    sender.lose(5);
    assert_eq!(sender.sk.snd_ssthresh, 17);
    assert_eq!(sender.phase(), (SafeRetreat, Congestion));
}

#[test]
fn a_mistaken_loss_does_not_raise_the_window_in_the_retreat() {
    let mut sender = Sender::jumped();
    sender.send(1);
    sender.ack(52);
    sender.lose(1);
    let window = sender.sk.snd_cwnd;
    assert_eq!(sender.control.undo_cwnd(&mut sender.sk), window);
}

#[test]
fn a_shorter_path_while_the_jump_is_sent_is_a_retreat_without_loss() {
    // 3.3, confirming the path during transmission: at most half of the advised round-trip time.
    let mut sender = Sender::jumped();
    sender.sk.rtt_min_us = RTT_US / 2;
    sender.at(150 * MS);
    sender.ack(4);
    assert_eq!(sender.phase(), (SafeRetreat, PathChanged));
    assert_eq!(sender.sk.snd_cwnd, 11);
    // It ends with the last packet of the jump, without a reduction by TCP.
    sender.ack(313 - 18);
    assert_eq!(sender.phase(), (SafeRetreat, PathChanged));
    sender.ack(1);
    assert_eq!(sender.phase(), (Normal, Recovered));
}

#[test]
fn a_timeout_ends_it() {
    // 3.6
    let mut sender = Sender::jumped();
    sender.reduce(ca_state::LOSS);
    assert_eq!(sender.phase(), (Normal, Timeout));
    assert_eq!(sender.sk.snd_ssthresh, 9);
    let mut sender = Sender::advised(promise());
    sender.enter(ca_state::LOSS);
    assert_eq!(sender.phase(), (Normal, Timeout));
}

#[test]
fn only_a_round_trip_time_like_the_advised_one_is_confirmed() {
    // 3.2 and 4.2.1: more than half, at most ten times; and no more than an eighth above it, which is a queue.
    for (rtt_us, expected) in [
        (50_000, (Normal, RttNotValidated)),
        (50_001, (Unvalidated, Confirmed)),
        (112_500, (Unvalidated, Confirmed)),
        (112_501, (Normal, Queue)),
        (1_000_009, (Normal, Queue)),
        (1_000_010, (Normal, RttNotValidated)),
    ] {
        let mut sender = Sender::advised(promise());
        sender.sk.rtt_min_us = rtt_us;
        sender.confirm(10);
        assert_eq!(sender.phase(), expected, "{rtt_us} us");
        if expected.0 == Normal {
            assert_eq!(sender.sk.snd_cwnd, 20);
        }
    }
}

#[test]
fn advice_of_yesterday_is_not_used() {
    // 3.2, Lifetime: until 100.09 ms, when the first window has been acknowledged, or a nanosecond longer.
    for (later, phase) in [(0, (Normal, Expired)), (1, (Unvalidated, Confirmed))] {
        let start = promise().until(1_000_100_090_000 + later);
        let mut sender = Sender::advised(start);
        sender.confirm(10);
        assert_eq!(sender.phase(), phase);
    }
}

#[test]
fn one_connection_at_a_time_uses_the_advice() {
    // 3.2: for three round-trip times.
    let hosts = Hosts::default();
    let mut first = Sender::new(hosts.advised(promise()));
    first.confirm(10);
    assert_eq!(first.phase(), (Unvalidated, Confirmed));
    let mut second = Sender::new(hosts.advised(promise()));
    second.confirm(10);
    assert_eq!(second.phase(), (Normal, InUse));
    let mut third = Sender::new(hosts.advised(promise()));
    third.send(10);
    for packet in 0..10 {
        third.at(400 * MS + 90 + packet);
        third.ack(1);
        third.send(2);
    }
    assert_eq!(third.phase(), (Unvalidated, Confirmed));
}

#[test]
fn wrong_advice_is_used_once() {
    // 3.5, removing saved information.
    let hosts = Hosts::default();
    let mut first = Sender::new(hosts.advised(promise()));
    first.confirm(10);
    first.send(1000);
    first.lose(20);
    let mut second = Sender::new(hosts.advised(promise()));
    second.confirm(10);
    assert_eq!(second.phase(), (Normal, Expired));
}

#[test]
fn a_jump_that_gains_nothing_is_left_out() {
    // A fifth of 99 packets is no more than the window of 19, a fifth of 100 is.
    for (packets, phase) in [(99, (Normal, NoGain)), (100, (Unvalidated, Confirmed))] {
        let start = AdvisedStart::new(packets * 15_200, RTT_US.into(), u64::MAX).unwrap();
        let mut sender = Sender::advised(start);
        sender.confirm(10);
        assert_eq!(sender.phase(), phase);
    }
}

#[test]
fn the_first_window_s_acknowledgements_bound_the_jump() {
    // The first ACK is at 100 ms, nine packets more at 100.9 ms: 9 * 100 / 0.9 = 1000 packets in 100 ms.
    let mut sender = Sender::advised(promise());
    sender.confirm(100);
    assert_eq!(sender.phase(), (Unvalidated, Confirmed));
    assert_eq!(sender.sk.snd_cwnd, 200);
    assert_eq!(sender.sk.snd_ssthresh, 1500);
    // 9 * 100 / 1.26 = 714 packets are less than half of what was promised.
    let mut sender = Sender::advised(promise());
    sender.confirm(140);
    assert_eq!(sender.phase(), (Reconnaissance, Trigger::None));
    assert_eq!(sender.sk.snd_cwnd, 20);
    // The next train has fewer than five packets at first, then 5 * 100 / 0.4 = 1250.
    sender.send(2);
    for packet in 0..5 {
        sender.at(200 * MS + 80 * packet);
        sender.ack(1);
        assert_eq!(sender.phase(), (Reconnaissance, Trigger::None));
    }
    sender.at(200 * MS + 400);
    sender.ack(1);
    assert_eq!(sender.phase(), (Unvalidated, Confirmed));
    assert_eq!(sender.sk.snd_cwnd, 250);
}

#[test]
fn one_acknowledgement_for_all_says_nothing_and_the_next_window_does() {
    let mut sender = Sender::advised(promise());
    sender.send(10);
    sender.at(100 * MS);
    sender.ack(10);
    assert_eq!(sender.phase(), (Reconnaissance, Trigger::None));
    sender.send(20);
    for packet in 0..5 {
        sender.at(200 * MS + packet);
        sender.ack(1);
        assert_eq!(sender.phase(), (Reconnaissance, Trigger::None));
        sender.send(2);
    }
    sender.at(200 * MS + 5);
    sender.ack(1);
    assert_eq!(sender.phase(), (Unvalidated, Confirmed));
}

#[test]
fn a_sender_with_little_data_jumps_when_it_has_more() {
    // 4.2: it may remain in Reconnaissance until there is more than the window permits.
    let mut sender = Sender::advised(promise());
    sender.sk.write_seq = 28 * MSS;
    sender.confirm(10);
    assert_eq!(sender.phase(), (Reconnaissance, Trigger::None));
    sender.sk.write_seq = 100 * MSS;
    sender.ack(1);
    assert_eq!(sender.phase(), (Unvalidated, Confirmed));
}

#[test]
fn a_connection_under_way_is_no_start() {
    let mut sender = Sender::advised(promise());
    sender.sk.delivered = 10;
    let parameters = sender.control.default_parameters();
    sender.control.init(&mut sender.sk, &parameters);
    assert_eq!(sender.phase(), (Normal, Trigger::None));
}

#[test]
fn a_jump_is_within_the_clamp() {
    let mut sender = Sender::advised(promise());
    sender.sk.snd_cwnd_clamp = 100;
    sender.confirm(10);
    assert_eq!(sender.phase(), (Unvalidated, Confirmed));
    assert_eq!(sender.sk.snd_cwnd, 100);
}

#[test]
fn cubic_forgets_the_window_of_a_jump_that_failed() {
    let mut sender = Sender::under("cubic", AdvisedPath::alone(promise()));
    let w_max = |sender: &Sender| sender.sk.icsk_ca_priv[0] >> 32;
    sender.confirm(10);
    sender.send(1000);
    sender.send(1);
    sender.at(200 * MS);
    sender.ack(52);
    assert_eq!(sender.sk.snd_cwnd, 300 + 52);
    sender.lose(1);
    assert_eq!(sender.sk.snd_cwnd, 35);
    assert_eq!(w_max(&sender), 352);
    sender.sk.lost_out = 0;
    sender.end_reduction();
    assert_eq!(w_max(&sender), 70, "PipeSize");
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Send(u32),
    Ack(u32),
    Wait(u32),
    Lose(u32),
    EndReduction,
    Timeout,
    MinimumRtt(u32),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let one = prop_oneof![
        8 => (1u32..200).prop_map(Operation::Send),
        12 => (1u32..20).prop_map(Operation::Ack),
        4 => (0u32..60_000).prop_map(Operation::Wait),
        1 => (1u32..10).prop_map(Operation::Lose),
        1 => Just(Operation::EndReduction),
        1 => Just(Operation::Timeout),
        1 => (1000u32..3_000_000).prop_map(Operation::MinimumRtt),
    ];
    prop::collection::vec(one, 1..200)
}

impl Sender {
    fn operate(&mut self, operation: Operation) {
        match operation {
            Operation::Send(most) => {
                self.send(most);
            }
            Operation::Ack(most) => {
                let packets = most.min(self.sk.packets_out - self.sk.lost_out);
                if packets > 0 {
                    self.ack(packets);
                }
            }
            Operation::Wait(us) => self.at(self.now_us + u64::from(us)),
            Operation::Lose(packets) => {
                if self.in_flight() > packets && self.sk.icsk_ca_state == ca_state::OPEN {
                    self.lose(packets);
                }
            }
            Operation::EndReduction => {
                if self.sk.icsk_ca_state == ca_state::RECOVERY {
                    self.sk.lost_out = 0;
                    self.end_reduction();
                }
            }
            Operation::Timeout => {
                if self.sk.icsk_ca_state == ca_state::OPEN {
                    self.reduce(ca_state::LOSS);
                    self.sk.snd_cwnd = self.in_flight() + 1;
                    self.enter(ca_state::OPEN);
                }
            }
            Operation::MinimumRtt(us) => self.sk.rtt_min_us = self.sk.rtt_min_us.min(us),
        }
    }
}

proptest! {
    /// Whatever happens: no jump beyond a fifth of the promise, no growth in a retreat beyond half of what was carried,
    /// no window below two packets by a retreat, no phase that the RFC's figure 1 does not lead to.
    #[test]
    fn laws_hold_whatever_happens(
        operations in operations(),
        rate in 1u64..1_000_000_000,
        rtt_us in 2u64..10_000_000,
        until_ns in 1_000_000_000_000u64..1_003_000_000_000,
    ) {
        let start = AdvisedStart::new(rate, rtt_us, until_ns).unwrap();
        let promised = rate * rtt_us / 1_000_000 / 1520;
        let mut sender = Sender::advised(start);
        for operation in operations {
            let (before, _) = sender.phase();
            let now_ns = sender.sk.now_ns;
            sender.operate(operation);
            let (phase, trigger) = sender.phase();
            let window = u64::from(sender.sk.snd_cwnd);
            let leads = match before {
                Normal => [Normal; 4],
                Reconnaissance => [Reconnaissance, Unvalidated, Normal, Normal],
                // All that an ACK or a loss shows at once.
                Unvalidated => [Unvalidated, Validating, SafeRetreat, Normal],
                Validating => [Validating, SafeRetreat, Normal, Normal],
                SafeRetreat => [SafeRetreat, Normal, Normal, Normal],
            };
            prop_assert!(leads.contains(&phase), "{before:?} to {phase:?}");
            if before == Reconnaissance && phase == Unvalidated {
                prop_assert!(now_ns < until_ns);
                prop_assert!(u64::from(sender.sk.rtt_min_us) > rtt_us / 2);
                prop_assert!(u64::from(sender.sk.rtt_min_us) < 10 * rtt_us + 10);
            }
            if phase == Unvalidated {
                prop_assert!(window <= promised / 5);
            }
            if phase == SafeRetreat {
                prop_assert!(window >= 2);
                let drained = sender.sk.prr_out > 0 || sender.sk.icsk_ca_state == ca_state::OPEN;
                let most = u64::from(sender.pipe_size() / 2).max(2);
                prop_assert!(!drained || window <= most, "{window} of {most}");
                prop_assert_eq!(sender.sk.cc_advised.get().unwrap().until_ns(), None);
            }
            if (before, phase, trigger) == (SafeRetreat, Normal, Recovered) {
                prop_assert!(sender.sk.snd_ssthresh <= (sender.pipe_size() / 2).max(2));
            }
        }
    }
}
