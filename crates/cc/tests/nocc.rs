//! Congestion control off.

mod common;

use common::Connection;
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

#[test]
fn the_next_control_begins_with_what_is_in_flight() {
    let mut tcp = Connection::new("nocc");
    tcp.sk.packets_out = 700;
    tcp.sk.sacked_out = 50;
    tcp.sk.lost_out = 30;
    tcp.sk.retrans_out = 5;
    tcp.control.release(&mut tcp.sk);
    assert_eq!(tcp.sk.snd_cwnd, 625);

    tcp.sk.packets_out = 85;
    tcp.control.release(&mut tcp.sk);
    assert_eq!(tcp.sk.snd_cwnd, 10);
}
