//! Growth of the window without loss, with `cc/reno.c`.

use super::script::*;

#[test]
fn the_initial_window_is_10_segments() {
    // RFC 6928.
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.cwnd(10);
}

#[test]
fn slow_start_adds_a_segment_for_each_acknowledged() {
    // tcp_slow_start; RFC 3465 with no limit on L.
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).ack(2).sends(10..14);
    s.cwnd(12);
    s.at(ms(201)).ack(4).sends(14..18);
    s.cwnd(14);
    s.at(ms(202)).ack(10).sends(18..30);
    s.cwnd(20);
}

#[test]
fn what_slow_start_leaves_over_counts_towards_the_next_segment() {
    // tcp_reno_cong_avoid: of 5 acknowledged, 2 lift the window to the threshold and 3 count; with
    // 8 more and 1 more, 12 have been acknowledged at a window of 12.
    let mut s = Sending::established(&reno(), 100);
    s.sender.tp_mut().snd_ssthresh = 12;
    s.write_without_end().sends(0..10);
    s.at(ms(200)).ack(5).sends(10..17);
    s.cwnd(12);
    s.at(ms(205)).ack(13).sends(17..25);
    s.cwnd(12);
    s.at(ms(206)).ack(14).sends(25..27);
    s.cwnd(13);
}

#[test]
fn an_acknowledgement_beyond_what_was_sent_is_ignored() {
    // RFC 9293, section 3.10.7.4.
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).ack(11).sends_nothing();
    assert_eq!(s.sender.bytes_acked(), 0);
}

#[test]
fn an_old_acknowledgement_is_ignored() {
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).ack(2).sends(10..14);
    s.at(ms(201)).ack(1).sends_nothing();
    s.cwnd(12);
    assert_eq!(s.sender.bytes_acked(), 2 * MSS);
}

#[test]
fn the_last_segment_of_a_burst_is_pushed() {
    // tcp_tso_autosize: 10 segments in 100 ms are 144,800 B/s, paced at twice that; a 1024th of it
    // is less than the minimum burst of two segments (tcp_min_tso_segs).
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end();
    assert_eq!(s.pushed(), [1, 3, 5, 7, 9]);
    s.at(ms(200)).ack(1);
    assert_eq!(s.pushed(), [11]);
}

#[test]
fn bursts_are_large_where_the_path_is_short() {
    // 65,215 B, halved for each 512 us in 1 ms: 32,607 B or 22 segments, but at most half of the window
    // (tcp_cwnd_test).
    let mut s = Sending::established(&reno(), 1);
    s.write_without_end();
    assert_eq!(s.pushed(), [4, 9]);
}
