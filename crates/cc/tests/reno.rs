//! Reno against RFC 5681, counted in packets.

use crate::common::Connection;

#[test]
fn slow_start_adds_a_packet_for_each_packet_acknowledged() {
    let mut tcp = Connection::new("reno");
    tcp.ack(1);
    assert_eq!(tcp.sk.snd_cwnd, 11);
    tcp.ack(2);
    assert_eq!(tcp.sk.snd_cwnd, 13);
}

#[test]
fn slow_start_ends_at_the_threshold_and_the_rest_counts_for_congestion_avoidance() {
    let mut tcp = Connection::new("reno");
    tcp.window(10, 12);
    tcp.ack(5);
    assert_eq!(tcp.sk.snd_cwnd, 12);
    assert_eq!(tcp.sk.snd_cwnd_cnt, 3);
}

#[test]
fn congestion_avoidance_adds_a_packet_for_each_window_acknowledged() {
    let mut tcp = Connection::new("reno");
    tcp.window(10, 5);
    for _ in 0..9 {
        tcp.ack(1);
    }
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_cwnd_cnt), (10, 9));
    tcp.ack(1);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_cwnd_cnt), (11, 0));
}

#[test]
fn a_stretched_ack_counts_for_all_it_acknowledges() {
    let mut tcp = Connection::new("reno");
    tcp.window(10, 5);
    tcp.ack(25);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_cwnd_cnt), (12, 5));
}

#[test]
fn credit_from_a_larger_window_is_worth_one_packet() {
    let mut tcp = Connection::new("reno");
    tcp.window(10, 5);
    tcp.sk.snd_cwnd_cnt = 30;
    tcp.ack(1);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_cwnd_cnt), (11, 1));
}

#[test]
fn a_window_that_does_not_limit_does_not_grow() {
    let mut tcp = Connection::new("reno");
    tcp.sk.is_cwnd_limited = 0;
    tcp.window(10, 5);
    tcp.ack(10);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_cwnd_cnt), (10, 0));
}

#[test]
fn in_slow_start_the_window_may_reach_twice_what_was_in_flight() {
    let mut tcp = Connection::new("reno");
    tcp.sk.is_cwnd_limited = 0;
    tcp.sk.max_packets_out = 6;
    tcp.ack(1);
    assert_eq!(tcp.sk.snd_cwnd, 11);
    tcp.ack(1);
    assert_eq!(tcp.sk.snd_cwnd, 12);
    tcp.ack(1);
    assert_eq!(tcp.sk.snd_cwnd, 12);
}

#[test]
fn the_window_stops_at_the_clamp() {
    let mut tcp = Connection::new("reno");
    tcp.sk.snd_cwnd_clamp = 12;
    tcp.ack(5);
    assert_eq!(tcp.sk.snd_cwnd, 12);
}

#[test]
fn a_loss_halves_the_window_but_leaves_two_packets() {
    for (cwnd, ssthresh) in [(40, 20), (21, 10), (4, 2), (3, 2), (1, 2)] {
        let mut tcp = Connection::new("reno");
        tcp.window(cwnd, 1000);
        tcp.enter_recovery();
        assert_eq!(tcp.sk.snd_ssthresh, ssthresh, "of {cwnd}");
    }
}

#[test]
fn a_mistaken_loss_gives_the_window_back() {
    let mut tcp = Connection::new("reno");
    tcp.window(40, 1000);
    tcp.enter_recovery();
    tcp.end_recovery();
    assert_eq!(tcp.sk.snd_cwnd, 20);
    tcp.undo();
    assert_eq!(tcp.sk.snd_cwnd, 40);
}
