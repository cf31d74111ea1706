//! Congestion control off.

use crate::common::Connection;
use fairwind_cc::native::{RateSample, TCP_INFINITE_SSTHRESH, ca_state, find};

#[test]
fn the_window_is_open_from_the_first_packet() {
    let tcp = Connection::new("nocc");
    assert_eq!(tcp.sk.snd_cwnd, 100_000);
    assert_eq!(tcp.sk.snd_ssthresh, TCP_INFINITE_SSTHRESH);
}

#[test]
fn losses_are_ignored() {
    let mut tcp = Connection::new("nocc");
    tcp.enter_recovery();
    assert_eq!(tcp.sk.snd_ssthresh, TCP_INFINITE_SSTHRESH);
    assert_eq!(tcp.sk.snd_cwnd, 100_000);
}

#[test]
fn after_a_timeout_the_window_is_open_at_once() {
    let mut tcp = Connection::new("nocc");
    tcp.time_out();
    assert_eq!(tcp.sk.icsk_ca_state, ca_state::LOSS);
    assert_eq!(tcp.sk.snd_cwnd, 100_000);
}

#[test]
fn whoever_lowers_the_window_the_next_ack_opens_it() {
    let mut tcp = Connection::new("nocc");
    assert!(tcp.control.has_cong_control());
    tcp.sk.snd_cwnd = 10;
    tcp.control
        .cong_control(&mut tcp.sk, 0, 0, &RateSample::default());
    assert_eq!(tcp.sk.snd_cwnd, 100_000);
}

#[test]
fn the_window_is_a_parameter_and_stays_within_the_clamp() {
    let mut parameters = find("nocc").unwrap().default_parameters();
    parameters.set("window", 3000).unwrap();
    let mut tcp = Connection::with(&parameters);
    assert_eq!(tcp.sk.snd_cwnd, 3000);
    tcp.sk.snd_cwnd_clamp = 44;
    tcp.time_out();
    assert_eq!(tcp.sk.snd_cwnd, 44);
}

/// An acknowledgement that delivers `packets`, `us` microseconds after the connection began.
fn deliver(tcp: &mut Connection, us: u64, packets: u32) {
    tcp.at(us);
    tcp.sk.delivered += packets;
    tcp.sk.delivered_mstamp = tcp.sk.tcp_mstamp;
    tcp.control
        .cong_control(&mut tcp.sk, 0, 0, &RateSample::default());
}

/// A connection that has carried five packets a millisecond for `milliseconds`, in lumps of 200 ms, as
/// recoveries produce them. The minimum round-trip time is 50 ms, the smoothed one 80 ms.
fn carrying(milliseconds: u64) -> Connection {
    let mut tcp = Connection::new("nocc");
    tcp.sk.rtt_min_us = 50_000;
    tcp.sk.srtt_us = 8 * 80_000;
    for lump in 0..=milliseconds / 200 {
        deliver(&mut tcp, 200_000 * lump, 1000);
    }
    tcp
}

#[test]
fn a_recovery_ends_at_what_the_path_was_seen_to_carry() {
    let mut tcp = carrying(2000);
    tcp.sk.lost = 70;
    tcp.enter_recovery();
    tcp.sk.packets_out = 20;
    tcp.control.release(&mut tcp.sk);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (250, 250));
    // During a recovery, the number of packets in flight does not matter, be it few or many.
    let mut tcp = carrying(2000);
    tcp.sk.lost = 70;
    tcp.enter_recovery();
    tcp.sk.packets_out = 900;
    tcp.control.release(&mut tcp.sk);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (250, 250));
}

#[test]
fn before_a_reduction_the_window_is_what_is_in_flight_up_to_twice_that() {
    for (in_flight, window) in [(5, 250), (380, 380), (905, 500)] {
        let mut tcp = carrying(2000);
        tcp.sk.lost = 70;
        tcp.sk.packets_out = in_flight + 50;
        tcp.sk.sacked_out = 50;
        tcp.control.release(&mut tcp.sk);
        assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (window, 250));
    }
}

#[test]
fn a_path_that_loses_nothing_leaves_no_threshold() {
    let mut tcp = carrying(2000);
    tcp.control.release(&mut tcp.sk);
    assert_eq!(tcp.sk.snd_cwnd, 250);
    assert_eq!(tcp.sk.snd_ssthresh, TCP_INFINITE_SSTHRESH);
}

#[test]
fn what_the_path_carried_long_ago_is_forgotten() {
    // 250 packets a round trip until 2 s, then 50: after 20 of 80 ms, the first part no longer counts.
    let mut tcp = carrying(2000);
    tcp.sk.lost = 70;
    for tenth in 21..=60 {
        deliver(&mut tcp, 100_000 * tenth, 100);
    }
    tcp.control.release(&mut tcp.sk);
    assert_eq!(tcp.sk.snd_cwnd, 50);
    assert_eq!(tcp.sk.snd_ssthresh, TCP_INFINITE_SSTHRESH);
}

#[test]
fn the_initial_window_is_the_least_and_the_window_of_nocc_the_most() {
    let mut tcp = Connection::new("nocc");
    tcp.sk.rtt_min_us = 50_000;
    deliver(&mut tcp, 0, 1);
    deliver(&mut tcp, 1_000_000, 20);
    tcp.control.release(&mut tcp.sk);
    assert_eq!(tcp.sk.snd_cwnd, 10);

    let mut parameters = find("nocc").unwrap().default_parameters();
    parameters.set("window", 100).unwrap();
    let mut tcp = Connection::with(&parameters);
    tcp.sk.rtt_min_us = 50_000;
    deliver(&mut tcp, 0, 1);
    deliver(&mut tcp, 1_000_000, 5000);
    tcp.control.release(&mut tcp.sk);
    assert_eq!(tcp.sk.snd_cwnd, 100);
}

#[test]
fn after_less_than_a_round_trip_window_and_threshold_are_as_before() {
    let mut tcp = Connection::new("reno");
    tcp.window(120, 80);
    tcp.sk.rtt_min_us = 50_000;
    tcp.control = find("nocc").unwrap();
    let parameters = tcp.control.default_parameters();
    tcp.control.init(&mut tcp.sk, &parameters);
    assert_eq!(tcp.sk.snd_cwnd, 100_000);
    deliver(&mut tcp, 0, 60);
    deliver(&mut tcp, 49_999, 60);
    tcp.control.release(&mut tcp.sk);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (120, 80));
}
