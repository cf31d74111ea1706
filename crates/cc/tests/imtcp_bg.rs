//! ImTCP-bg, worked by hand from section 3.2 of the thesis.

use fairwind_cc::native::find;

use crate::common::Connection;
use crate::imtcp::Path;

const MS: u64 = 1000;
/// kbit/s of payload that a packet in a millisecond is.
const PACKET_A_MS: f64 = 11_584.0;

/// A connection with a smallest round-trip time of 20 ms.
fn connection() -> Connection {
    let mut tcp = Connection::new("imtcp_bg");
    tcp.window(40, 20);
    tcp.sk.rtt_min_us = 20_000;
    tcp.sk.srtt_us = 8 * 20_000;
    tcp.sk.snd_nxt = 1448 * 40;
    tcp
}

#[test]
fn the_window_shrinks_by_the_ratio_of_the_round_trip_times_when_it_exceeds_delta() {
    let mut tcp = connection();
    // 24 ms are 1.2 times 20 ms: not more than delta.
    tcp.ack_with_rtt(2, 24_000);
    assert_eq!(tcp.sk.snd_cwnd, 40);
    // 7/8 of 24 ms and 1/8 of 40 ms are 26 ms: 40 * 20 / 26 = 30.8.
    tcp.ack_with_rtt(2, 40_000);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (30, 20));
}

#[test]
fn slow_start_ends_there() {
    let mut tcp = connection();
    tcp.window(40, 1000);
    tcp.ack_with_rtt(2, 40_000);
    // Slow start adds two: 42 * 20 / 40 = 21.
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (21, 21));
}

#[test]
fn it_shrinks_once_in_a_window() {
    let mut tcp = connection();
    tcp.ack_with_rtt(2, 40_000);
    assert_eq!(tcp.sk.snd_cwnd, 20);
    for _ in 0..18 {
        tcp.ack_with_rtt(2, 40_000);
        assert!(tcp.sk.snd_cwnd >= 20, "{}", tcp.sk.snd_cwnd);
    }
    // The ACK of all 40 packets that were in flight.
    let window = tcp.sk.snd_cwnd;
    tcp.ack_with_rtt(2, 40_000);
    assert_eq!(tcp.sk.snd_cwnd, window / 2);
}

#[test]
fn at_least_two_packets_are_left() {
    let mut tcp = connection();
    tcp.window(3, 2);
    tcp.ack_with_rtt(2, 1_000_000);
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.snd_ssthresh), (2, 2));
}

#[test]
fn an_ack_that_may_have_waited_for_a_second_packet_does_not_count() {
    let mut tcp = connection();
    tcp.window(4, 2);
    tcp.sk.packets_out = 2;
    tcp.ack_with_rtt(2, 20_000);
    for _ in 0..6 {
        tcp.ack_with_rtt(1, 60_000);
        assert!(tcp.sk.snd_cwnd >= 4);
    }
    // But not more than six in a row: 7/8 of 20 ms and 1/8 of 60 ms are 25 ms.
    let window = tcp.sk.snd_cwnd;
    tcp.ack_with_rtt(1, 60_000);
    assert!(tcp.sk.snd_cwnd < window);
}

#[test]
fn delta_is_a_parameter() {
    let mut parameters = find("imtcp_bg").unwrap().default_parameters();
    parameters.set("delta", 2 * 1024).unwrap();
    let mut tcp = Connection::with(&parameters);
    tcp.window(40, 20);
    tcp.sk.rtt_min_us = 20_000;
    tcp.ack_with_rtt(2, 40_000);
    assert_eq!(tcp.sk.snd_cwnd, 40);
    tcp.ack_with_rtt(2, 48_000);
    // 7/8 of 40 ms and 1/8 of 48 ms are 41 ms: 40 * 20 / 41 = 19.5.
    assert_eq!(tcp.sk.snd_cwnd, 19);
}

/// A path of 10 packets in a millisecond, of which others use `others`, and a round-trip time of 40 ms.
fn path(others: f64) -> Path {
    let parameters = find("imtcp_bg").unwrap().default_parameters();
    let mut path = Path::new(&parameters, 10.0 * PACKET_A_MS, others * PACKET_A_MS, 40.0);
    path.sk.snd_cwnd = 40;
    path.sk.snd_ssthresh = 20;
    path
}

#[test]
fn the_window_ends_at_what_the_bandwidth_carries_in_the_least_round_trip_time() {
    let mut path = path(8.0);
    path.ack_until(|path| path.available() != 0);
    for _ in 0..10_000 {
        path.ack();
        // 2 packets in a millisecond, 40.1 ms: 80 packets, and what the measurement is off.
        assert!(path.sk.snd_cwnd <= 90, "{}", path.sk.snd_cwnd);
    }
    let window = path.sk.snd_cwnd.max(path.word(0));
    assert!(window >= 74, "{window}");
}

#[test]
fn the_limit_is_the_smoothed_result() {
    let mut path = path(8.0);
    path.ack_until(|path| path.available() != 0);
    // `smoothed`, after `struct imtcp`; the first result is its beginning.
    assert_eq!(path.word(22), path.available());
    let before = path.available();
    path.ack_until(|path| path.available() != before);
    // 7/8 of what it was and 1/8 of the result, rounded down.
    assert_eq!(
        path.word(22),
        (896 * before + 128 * path.available()) / 1024
    );
}

#[test]
fn a_limit_without_a_result_for_eight_round_trip_times_is_dropped() {
    let mut tcp = connection();
    tcp.sk.icsk_ca_priv[11] |= 1000; // smoothed: 2.5 packets in 20 ms
    tcp.at(100 * MS);
    tcp.ack_with_rtt(2, 20_000);
    assert!(tcp.sk.snd_cwnd >= 40, "{}", tcp.sk.snd_cwnd);
    assert_eq!(tcp.sk.icsk_ca_priv[11] as u32, 0);
}
