//! LEDBAT++ against draft-irtf-iccrg-ledbat-plus-plus, with a target of 60 ms.

use crate::common::Connection;
use fairwind_cc::native::{AckSample, find};

const MS: u64 = 1000;
const MINUTE: u64 = 60_000 * MS;

/// Round-trip times, as often as the delay's filter is long.
fn measure(tcp: &mut Connection, rtt_ms: i32) {
    let sample = AckSample {
        pkts_acked: 1,
        rtt_us: rtt_ms * 1000,
        in_flight: 0,
    };
    for _ in 0..4 {
        tcp.control.pkts_acked(&mut tcp.sk, &sample);
    }
    tcp.sk.srtt_us = 8 * rtt_ms as u32 * 1000;
}

/// A connection in its first slow start on a path of this base delay.
fn opened(base_ms: i32) -> Connection {
    let mut tcp = Connection::new("ledbatpp");
    measure(&mut tcp, base_ms);
    tcp
}

/// A connection in congestion avoidance, long before its next slow-down, with a base delay of 20 ms:
/// GAIN is 1 / ceil(120 / 20), or 1/6.
fn avoiding(cwnd: u32) -> Connection {
    let mut tcp = opened(20);
    tcp.window(cwnd, 2);
    tcp.sk.srtt_us = 8 * 1_000_000;
    tcp.sk.is_cwnd_limited = 0;
    tcp.ack(0);
    tcp.sk.is_cwnd_limited = 1;
    tcp
}

/// A connection 20 ms after the beginning of its first slow-down, at a window of 60 packets.
fn slowed_down() -> Connection {
    let mut tcp = opened(20);
    tcp.window(60, 1000);
    measure(&mut tcp, 70);
    tcp.ack(0);
    measure(&mut tcp, 20);
    tcp.at(140 * MS);
    tcp.ack(0);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (2, 60));
    tcp.at(160 * MS);
    tcp
}

/// The ACK that ends a round.
fn round(tcp: &mut Connection) {
    tcp.sk.snd_nxt = tcp.sk.snd_una + 1448;
    tcp.ack(1);
}

#[test]
fn a_new_connection_begins_with_two_packets() {
    assert_eq!(Connection::new("ledbatpp").sk.snd_cwnd, 2);
}

#[test]
fn a_connection_that_carries_data_keeps_its_window() {
    let control = find("ledbatpp").unwrap();
    let mut tcp = Connection::new("reno");
    tcp.window(80, 50);
    tcp.sk.delivered = 300;
    control.init(&mut tcp.sk, &control.default_parameters());
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (80, 50));
}

#[test]
fn gain_follows_from_the_base_delay() {
    // 48 packets times 1 / min(16, ceil(120 / base))
    let cases = [
        (1, 3),
        (7, 3),
        (8, 3),
        (20, 8),
        (25, 9),
        (100, 24),
        (120, 48),
        (200, 48),
    ];
    for (base_ms, growth) in cases {
        let mut tcp = opened(base_ms);
        tcp.window(100, 1000);
        tcp.ack(48);
        assert_eq!(tcp.sk.snd_cwnd, 100 + growth, "{base_ms} ms");
    }
}

#[test]
fn slow_start_adds_gain_for_each_packet() {
    let mut tcp = opened(20);
    tcp.window(60, 1000);
    for _ in 0..5 {
        tcp.ack(1);
    }
    assert_eq!(tcp.sk.snd_cwnd, 60);
    tcp.ack(1);
    assert_eq!(tcp.sk.snd_cwnd, 61);
}

#[test]
fn the_first_slow_start_ends_above_three_quarters_of_the_target() {
    let mut tcp = opened(20);
    tcp.window(60, 1000);
    measure(&mut tcp, 65);
    tcp.ack(6);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (61, 1000));
    measure(&mut tcp, 66);
    tcp.ack(6);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (61, 61));
}

#[test]
fn congestion_avoidance_adds_gain_each_round() {
    let mut tcp = avoiding(60);
    for _ in 0..5 {
        round(&mut tcp);
    }
    assert_eq!(tcp.sk.snd_cwnd, 60);
    round(&mut tcp);
    assert_eq!(tcp.sk.snd_cwnd, 61);
}

#[test]
fn the_window_changes_once_a_round() {
    let mut tcp = avoiding(60);
    tcp.sk.snd_nxt = tcp.sk.snd_una + 100 * 1448;
    round(&mut tcp);
    tcp.sk.snd_nxt = tcp.sk.snd_una + 60 * 1448;
    tcp.ack(0);
    for _ in 0..30 {
        tcp.ack(1);
    }
    assert_eq!(tcp.sk.snd_cwnd, 60);
}

#[test]
fn at_the_target_the_window_still_grows() {
    let mut tcp = avoiding(60);
    measure(&mut tcp, 80);
    for _ in 0..6 {
        round(&mut tcp);
    }
    assert_eq!(tcp.sk.snd_cwnd, 61);
}

#[test]
fn above_the_target_the_window_falls_by_the_share_of_the_excess() {
    // 60 + 1/6 - 60 (q / 60 - 1), at most half of 60
    for (rtt_ms, window) in [(82, 58), (86, 54), (110, 30), (139, 30), (500, 30)] {
        let mut tcp = avoiding(60);
        measure(&mut tcp, rtt_ms);
        round(&mut tcp);
        assert_eq!(tcp.sk.snd_cwnd, window, "{rtt_ms} ms");
    }
}

#[test]
fn the_window_keeps_two_packets() {
    let mut tcp = avoiding(3);
    measure(&mut tcp, 500);
    round(&mut tcp);
    assert_eq!(tcp.sk.snd_cwnd, 2);
    round(&mut tcp);
    assert_eq!(tcp.sk.snd_cwnd, 2);
}

#[test]
fn the_delay_is_the_least_of_four_samples() {
    let mut tcp = avoiding(60);
    for _ in 0..3 {
        tcp.sk.snd_nxt = tcp.sk.snd_una + 1448;
        tcp.ack_with_rtt(1, 200_000);
    }
    assert_eq!(tcp.sk.snd_cwnd, 60);
    tcp.sk.snd_nxt = tcp.sk.snd_una + 1448;
    tcp.ack_with_rtt(1, 200_000);
    assert_eq!(tcp.sk.snd_cwnd, 30);
}

#[test]
fn the_base_delay_is_that_of_ten_minutes() {
    // The clock stands in its 17th minute. A base of 20 ms makes GAIN 1/6, one of 50 ms 1/3.
    let mut tcp = opened(20);
    for minute in 1..10 {
        tcp.at(minute * MINUTE);
        measure(&mut tcp, 50);
    }
    tcp.window(60, 1000);
    tcp.ack(6);
    assert_eq!(tcp.sk.snd_cwnd, 61);
    tcp.at(10 * MINUTE);
    measure(&mut tcp, 50);
    tcp.ack(6);
    assert_eq!(tcp.sk.snd_cwnd, 63);
}

#[test]
fn the_first_slow_down_comes_two_round_trips_after_slow_start() {
    let mut tcp = opened(20);
    tcp.window(60, 1000);
    measure(&mut tcp, 70);
    tcp.ack(0);
    tcp.at(139 * MS);
    tcp.ack(0);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (60, 60));
    tcp.at(140 * MS);
    tcp.ack(0);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (2, 60));
}

#[test]
fn a_slow_down_holds_two_packets_for_two_round_trips() {
    let mut tcp = slowed_down();
    // It began at 140 ms with a smoothed round-trip time of 20 ms.
    tcp.at(179 * MS);
    tcp.ack(12);
    assert_eq!(tcp.sk.snd_cwnd, 2);
    tcp.at(180 * MS);
    tcp.ack(12);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (4, 60));
}

#[test]
fn a_slow_down_ends_where_it_began_whatever_the_delay() {
    let mut tcp = slowed_down();
    tcp.at(180 * MS);
    tcp.ack(12);
    measure(&mut tcp, 79);
    tcp.ack(600);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (60, 60));
}

#[test]
fn the_next_slow_down_comes_after_nine_times_the_length_of_this_one() {
    let mut tcp = slowed_down();
    tcp.at(180 * MS);
    tcp.ack(12);
    tcp.at(380 * MS);
    tcp.ack(600);
    tcp.at(400 * MS);
    tcp.ack(0);
    // From 140 to 400 ms: the next one begins 9 * 260 ms later, at 2740 ms.
    tcp.at(2739 * MS);
    tcp.ack(0);
    assert_eq!(tcp.sk.snd_cwnd, 60);
    tcp.at(2740 * MS);
    tcp.ack(0);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (2, 60));
}

#[test]
fn a_loss_halves_the_window() {
    let mut tcp = avoiding(61);
    tcp.enter_recovery();
    assert_eq!(tcp.sk.snd_ssthresh, 30);
    tcp.end_recovery();
    assert_eq!(tcp.sk.snd_cwnd, 30);
}

#[test]
fn a_loss_during_a_slow_down_halves_the_window_that_it_returns_to() {
    let mut tcp = slowed_down();
    tcp.enter_recovery();
    assert_eq!(tcp.sk.snd_ssthresh, 30);
    tcp.end_recovery();
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (2, 30));
}

#[test]
fn after_a_timeout_slow_start_is_not_a_slow_down() {
    let mut tcp = avoiding(60);
    tcp.time_out();
    tcp.set_state(fairwind_cc::native::ca_state::OPEN);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (1, 30));
    // The time of the slow-down, 2 s after slow start, passes.
    tcp.at(3000 * MS);
    tcp.ack(6);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (2, 30));
    tcp.ack(180);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (30, 30));
    tcp.ack(0);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (2, 30));
}

#[test]
fn a_window_that_does_not_limit_does_not_grow() {
    let mut tcp = avoiding(60);
    tcp.sk.is_cwnd_limited = 0;
    for _ in 0..12 {
        round(&mut tcp);
    }
    assert_eq!(tcp.sk.snd_cwnd, 60);
}

#[test]
fn the_target_is_a_parameter() {
    let mut parameters = find("ledbatpp").unwrap().default_parameters();
    assert_eq!(parameters.get("target"), Ok(60_000));
    parameters.set("target", 40_000).unwrap();
    let mut tcp = Connection::with(&parameters);
    measure(&mut tcp, 20);
    tcp.window(60, 1000);
    // 1 / ceil(80 / 20) of 48
    tcp.ack(48);
    assert_eq!(tcp.sk.snd_cwnd, 72);
}
