//! TCP Nice against its paper, with the threshold 102/1024 and the fraction 1/2.

use crate::common::Connection;
use fairwind_cc::native::{Parameters, RateSample, ca_state, find};

const MS: i64 = 1000;

/// A connection on a path of 20 ms, of which it knows the round-trip time with a full queue.
struct Flow {
    tcp: Connection,
    /// Packets delivered when the round began.
    begun: u32,
}

impl Flow {
    fn new(cwnd: u32, ssthresh: u32) -> Flow {
        Flow::with(cwnd, ssthresh, &find("nice").unwrap().default_parameters())
    }

    /// It has seen 20 and 120 ms: more than 20 + 100 * 102/1024 = 29.96 ms is congestion.
    fn with(cwnd: u32, ssthresh: u32, parameters: &Parameters) -> Flow {
        let mut tcp = Connection::new("reno");
        tcp.control = parameters.control();
        tcp.window(cwnd, ssthresh);
        tcp.sk.delivered = 1000;
        tcp.sk.srtt_us = 8 * 20_000;
        tcp.control.init(&mut tcp.sk, parameters);
        let mut flow = Flow { tcp, begun: 1000 };
        flow.tcp.sk.is_cwnd_limited = 0;
        flow.ack(10, 20 * MS);
        flow.end_round(1, 120 * MS);
        flow.tcp.sk.is_cwnd_limited = 1;
        flow
    }

    /// An ACK of packets that were sent before the round began.
    fn ack(&mut self, packets: u32, rtt_us: i64) {
        self.cong_control(packets, rtt_us, self.begun - 1);
    }

    /// An ACK of packets that were sent in this round.
    fn end_round(&mut self, packets: u32, rtt_us: i64) {
        self.cong_control(packets, rtt_us, self.begun);
        self.begun = self.tcp.sk.delivered;
    }

    fn cong_control(&mut self, packets: u32, rtt_us: i64, prior_delivered: u32) {
        let sk = &mut self.tcp.sk;
        sk.delivered += packets;
        let sample = RateSample {
            prior_mstamp: 1,
            prior_delivered,
            acked_sacked: packets,
            prior_in_flight: 40,
            rtt_us,
            ..RateSample::default()
        };
        self.tcp.control.cong_control(sk, 0, 0, &sample);
    }

    /// The window, if it is two packets or more.
    fn window(&self) -> u32 {
        self.tcp.sk.snd_cwnd
    }

    /// What the pacing rate of a finer window sends in 20 ms, 1/1000 packets.
    fn fine_window(&self) -> u64 {
        assert_eq!(self.tcp.sk.snd_cwnd, 4);
        self.tcp.sk.sk_pacing_rate * 20 / 1448
    }
}

#[test]
fn more_than_half_of_the_packets_congested_halve_the_window() {
    let mut flow = Flow::new(40, 2);
    flow.ack(11, 30 * MS);
    flow.end_round(9, 20 * MS);
    assert_eq!(flow.window(), 20);
}

#[test]
fn half_of_the_packets_congested_do_not() {
    let mut flow = Flow::new(40, 2);
    flow.ack(10, 30 * MS);
    flow.end_round(10, 20 * MS);
    assert_eq!(flow.window(), 41);
}

#[test]
fn packets_below_the_threshold_are_not_congested() {
    let mut flow = Flow::new(40, 2);
    flow.ack(20, 29_900);
    flow.end_round(20, 29_900);
    // Of Vegas: 40 * 9.9 / 29.9 is above 3.
    assert_eq!(flow.window(), 39);
}

#[test]
fn the_window_is_halved_once_a_round() {
    let mut flow = Flow::new(40, 2);
    for _ in 0..4 {
        flow.ack(10, 100 * MS);
    }
    assert_eq!(flow.window(), 40);
    flow.end_round(1, 100 * MS);
    for _ in 0..4 {
        flow.ack(10, 100 * MS);
    }
    assert_eq!(flow.window(), 20);
}

#[test]
fn vegas_holds_one_to_three_packets_in_the_queue() {
    // 40 (1 - 20 / rtt): 0.78, 1.17, 2.88, 3.13
    for (rtt_us, window) in [(20_400, 41), (20_600, 40), (21_550, 40), (21_700, 39)] {
        let mut flow = Flow::new(40, 2);
        flow.end_round(20, rtt_us);
        assert_eq!(flow.window(), window, "{rtt_us}");
    }
}

#[test]
fn vegas_takes_the_least_delay_of_the_round() {
    let mut flow = Flow::new(40, 2);
    flow.ack(10, 25 * MS);
    flow.ack(10, 20_400);
    flow.end_round(10, 25 * MS);
    assert_eq!(flow.window(), 41);
}

#[test]
fn slow_start_doubles_in_each_round() {
    let mut flow = Flow::new(10, 1000);
    for _ in 0..5 {
        flow.ack(2, 20 * MS);
    }
    assert_eq!(flow.window(), 20);
}

#[test]
fn slow_start_ends_with_more_than_a_packet_in_the_queue() {
    let mut flow = Flow::new(30, 1000);
    flow.end_round(10, 20_480);
    // 40 * 0.48 / 20.48 = 0.94
    assert_eq!((flow.window(), flow.tcp.sk.snd_ssthresh), (40, 1000));
    flow.end_round(10, 21 * MS);
    // 50 - 50 / 21 + 1 = 48.6
    assert_eq!((flow.window(), flow.tcp.sk.snd_ssthresh), (49, 48));
    flow.ack(10, 20 * MS);
    assert_eq!(flow.window(), 49);
}

#[test]
fn congested_packets_do_not_end_slow_start() {
    let mut flow = Flow::new(30, 1000);
    flow.ack(20, 100 * MS);
    flow.end_round(10, 20 * MS);
    assert_eq!((flow.window(), flow.tcp.sk.snd_ssthresh), (60, 1000));
}

#[test]
fn the_window_goes_down_to_about_a_packet_in_48_round_trips() {
    let mut flow = Flow::new(4, 2);
    flow.end_round(2, 100 * MS);
    assert_eq!(flow.window(), 2);
    // 1, 1/2, 1/4, 1/8, 1/16, 1/32; then 5/256
    for window in [1000, 500, 250, 125, 62, 31, 19, 19] {
        flow.end_round(2, 100 * MS);
        assert_eq!(flow.fine_window(), window);
    }
}

#[test]
fn a_clean_round_below_one_packet_adds_a_packet() {
    let mut flow = Flow::new(4, 2);
    for _ in 0..4 {
        flow.end_round(2, 100 * MS);
    }
    assert_eq!(flow.fine_window(), 250);
    flow.end_round(2, 20 * MS);
    assert_eq!(flow.fine_window(), 1250);
    flow.end_round(2, 20 * MS);
    assert_eq!(flow.window(), 2);
}

#[test]
fn a_loss_halves_the_window_which_recovery_leaves_alone() {
    let mut flow = Flow::new(40, 2);
    flow.tcp.enter_recovery();
    assert_eq!(flow.tcp.sk.snd_ssthresh, 20);
    flow.end_round(2, 100 * MS);
    flow.end_round(2, 20 * MS);
    assert_eq!(flow.window(), 20);
    flow.tcp.set_state(ca_state::OPEN);
    flow.end_round(2, 20 * MS);
    assert_eq!(flow.window(), 21);
}

#[test]
fn a_mistaken_loss_gives_the_window_back() {
    let mut flow = Flow::new(40, 2);
    flow.tcp.enter_recovery();
    flow.ack(2, 20 * MS);
    assert_eq!(flow.window(), 20);
    flow.tcp.undo();
    flow.tcp.set_state(ca_state::OPEN);
    flow.ack(2, 20 * MS);
    assert_eq!(flow.window(), 40);
}

#[test]
fn after_a_timeout_slow_start_goes_up_to_half_the_window() {
    let mut flow = Flow::new(40, 2);
    flow.tcp.time_out();
    flow.ack(0, -1);
    assert_eq!(flow.fine_window(), 1000);
    for _ in 0..15 {
        flow.ack(1, -1);
    }
    assert_eq!((flow.window(), flow.tcp.sk.snd_ssthresh), (16, 20));
    flow.ack(10, -1);
    flow.ack(10, -1);
    assert_eq!(flow.window(), 20);
}

#[test]
fn a_window_that_does_not_limit_does_not_grow() {
    let mut flow = Flow::new(40, 2);
    flow.tcp.sk.is_cwnd_limited = 0;
    flow.end_round(20, 20 * MS);
    assert_eq!(flow.window(), 40);
}

/// In 200 ms, up to ten packets are sent in pairs, with a congestion window of two more.
#[test]
fn a_window_sent_in_pairs_grows_though_the_congestion_window_has_room() {
    let mut flow = Flow::new(5, 2);
    flow.tcp.sk.srtt_us = 8 * 200_000;
    flow.tcp.sk.is_cwnd_limited = 0;
    flow.end_round(1, 20 * MS);
    assert_eq!(flow.tcp.sk.snd_cwnd, 6 + 2);
}

#[test]
fn an_ack_that_the_receiver_delayed_is_no_sign_of_congestion() {
    let mut flow = Flow::new(4, 2);
    let sample = RateSample {
        prior_mstamp: 1,
        prior_delivered: flow.begun,
        acked_sacked: 1,
        prior_in_flight: 1,
        rtt_us: 60 * MS,
        ..RateSample::default()
    };
    flow.tcp
        .control
        .cong_control(&mut flow.tcp.sk, 0, 0, &sample);
    assert_eq!(flow.window(), 4);
}

#[test]
fn threshold_fraction_alpha_and_beta_are_parameters() {
    let mut parameters = find("nice").unwrap().default_parameters();
    assert_eq!(parameters.get("threshold"), Ok(102));
    assert_eq!(parameters.get("fraction"), Ok(512));
    parameters.set("threshold", 205).unwrap();
    parameters.set("fraction", 256).unwrap();
    parameters.set("alpha", 3).unwrap();
    parameters.set("beta", 20).unwrap();
    // 20 + 100 * 205/1024 = 40.02 ms
    let mut flow = Flow::with(40, 2, &parameters);
    flow.end_round(20, 40 * MS);
    assert_eq!(flow.window(), 40);
    flow.ack(3, 41 * MS);
    flow.end_round(8, 21_500);
    // 3 of 11; 40 * 1.5 / 21.5 = 2.8
    assert_eq!(flow.window(), 20);
    let mut flow = Flow::with(40, 2, &parameters);
    flow.end_round(8, 21_500);
    assert_eq!(flow.window(), 41);
}

#[test]
fn the_control_that_follows_finds_no_fine_windows_rate() {
    let mut flow = Flow::new(4, 2);
    for _ in 0..4 {
        flow.end_round(2, 100 * MS);
    }
    assert_eq!(flow.fine_window(), 250);
    flow.tcp.control.release(&mut flow.tcp.sk);
    assert_eq!(flow.tcp.sk.sk_pacing_rate, u64::MAX);
}
