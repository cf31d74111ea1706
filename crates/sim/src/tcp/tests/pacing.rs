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
fn the_first_ten_segments_leave_at_once_and_the_next_are_spaced_in_bursts_of_two() {
    // At 200 ms the window is 12 and the rate 347,520 bytes/s: less than two segments in 1/1024 s, so
    // bursts have the minimum (tcp_min_tso_segs) and are 8,333,333 ns apart. The first is late by more
    // than that, so the second follows after half that time.
    let mut s = Sending::established(&paced(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).ack(2).sends([10, 11]);
    s.at(Time::from_nanos(204_166_667)).sends([12, 13]);
    s.at(ms(220)).sends_nothing();
}

#[test]
fn the_eleventh_segment_waits_for_the_tenth() {
    // tcp_update_skb_after_send spaces from data_segs_out >= 10 on: the burst of segments 8 and 9 takes
    // 10 ms at 289,600 bytes/s. (The rate would be 347,520 bytes/s with 12 in the window.)
    let mut s = Sending::established(&paced(), 100);
    s.sender.tp_mut().snd_cwnd = 12;
    s.write_without_end().sends(0..10);
    s.at(ms(110)).sends([10, 11]);
}

#[test]
fn a_burst_is_what_the_rate_sends_in_a_millisecond() {
    // With a window of 512 the rate is 14,827,520 bytes/s, ten segments in 1/1024 s. They take
    // 976,562 ns, and the first burst is late by more than that.
    let mut s = Sending::established(&paced(), 100);
    s.write_without_end().sends(0..10);
    s.sender.tp_mut().snd_cwnd = 511;
    s.at(ms(200)).ack(1).sends(10..20);
    s.at(Time::from_nanos(200_488_281)).sends(20..30);
    s.at(Time::from_nanos(201_464_843)).sends(30..40);
    s.at(Time::from_nanos(202_000_000)).sends_nothing();
}

#[test]
fn a_burst_is_at_most_half_of_the_window() {
    // tcp_cwnd_test. On so short a path the host would leave 22 segments to the device at once.
    let mut s = Sending::established(&paced(), 1);
    s.write_without_end().sends(0..10);
    s.at(ms(2)).ack(10).sends(10..20);
    s.cwnd(20);
}

#[test]
fn nothing_is_spaced_unless_asked_for() {
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).ack(5).sends(10..20);
}
