//! Pacing by `sk_pacing_rate` (`tcp_update_pacing_rate`, `tcp_update_skb_after_send`).

use super::script::*;
use crate::scenario::TcpConfig;
use fairwind_path::units::Time;

fn paced() -> TcpConfig {
    TcpConfig {
        pacing: true,
        ..reno()
    }
}

#[test]
fn the_rate_is_twice_the_window_a_round_trip_in_slow_start() {
    // tcp_pacing_ss_ratio: 2 * 10 * 1448 bytes / 0.1 s.
    let s = Sending::established(&paced(), 100);
    assert_eq!(s.sender.tp().sk_pacing_rate, 289_600);
}

#[test]
fn it_is_1_2_times_that_from_half_the_threshold_on() {
    // tcp_pacing_ca_ratio: 1.2 * 12 * 1448 bytes / 0.1 s.
    let mut s = Sending::established(&reno(), 100);
    s.sender.tp_mut().snd_ssthresh = 24;
    s.write_without_end().sends(0..10);
    s.at(ms(200)).ack(2).sends(10..14);
    assert_eq!(s.sender.tp().sk_pacing_rate, 208_512);
}

#[test]
fn the_first_ten_segments_leave_at_once_and_the_next_are_spaced() {
    // At 200 ms the window is 12 and the rate 347,520 bytes/s: 4,166,666 ns per segment. Segment 10
    // is late by more than that, so segment 11 follows after half that time.
    let mut s = Sending::established(&paced(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).ack(2).sends([10]);
    s.at(Time::from_nanos(202_083_333)).sends([11]);
    s.at(Time::from_nanos(206_249_999)).sends([12]);
    s.at(Time::from_nanos(210_416_665)).sends([13]);
    s.at(ms(220)).sends_nothing();
}

#[test]
fn the_eleventh_segment_waits_for_the_tenth() {
    // tcp_update_skb_after_send spaces from data_segs_out >= 10 on: 1448 bytes at 289,600 bytes/s
    // are 5 ms after segment 9. (The rate would be 347,520 bytes/s with 12 in the window.)
    let mut s = Sending::established(&paced(), 100);
    s.sender.tp_mut().snd_cwnd = 12;
    s.write_without_end().sends(0..10);
    s.at(ms(105)).sends([10]);
    s.at(ms(110)).sends([11]);
}

#[test]
fn nothing_is_spaced_unless_asked_for() {
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).ack(5).sends(10..20);
}
