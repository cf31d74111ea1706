//! What a receiver reports about data out of order: RFC 2018, RFC 2883, SACK compression.

use super::script::*;
use fairwind_path::units::Duration;

#[test]
fn a_gap_is_reported_at_once() {
    // RFC 5681, section 4.2.
    let mut r = Receiving::established(&reno());
    let next = r.past_quick_acks();
    let t = r.now();
    r.at(t + Duration::from_millis(1))
        .data(next + 1)
        .sacks(next, &[next + 1..next + 2]);
}

#[test]
fn the_block_of_the_latest_segment_comes_first_and_there_are_three() {
    // RFC 2018, section 4; three blocks fit beside a time stamp.
    let mut r = Receiving::established(&reno());
    r.at(ms(100)).data(0).acks(1);
    r.at(ms(101)).data(2).sacks(1, &[2..3]);
    r.at(ms(102)).data(4).sacks(1, &[4..5, 2..3]);
    r.at(ms(103)).data(6).sacks(1, &[6..7, 4..5, 2..3]);
    r.at(ms(104)).data(8).sacks(1, &[8..9, 6..7, 4..5]);
    // Segment 3 joins 2 and 4 to one block.
    r.at(ms(105)).data(3).sacks(1, &[2..5, 8..9, 6..7]);
    let reply = r.at(ms(106)).data(9).sacks(1, &[8..10, 2..5, 6..7]);
    // 52 bytes of headers, 4 + 3 * 8 of blocks.
    assert_eq!(reply.packet.size, 80);
}

#[test]
fn a_filled_gap_is_acknowledged_at_once() {
    // RFC 5681, section 4.2; tcp_data_queue sets ICSK_ACK_NOW.
    let mut r = Receiving::established(&reno());
    let next = r.past_quick_acks();
    let t = r.now();
    r.at(t + Duration::from_millis(1))
        .data(next + 1)
        .sacks(next, &[next + 1..next + 2]);
    r.at(t + Duration::from_millis(2)).data(next).acks(next + 2);
}

#[test]
fn a_gap_filled_in_part_is_acknowledged_at_once_and_its_block_is_gone() {
    let mut r = Receiving::established(&reno());
    let n = r.past_quick_acks();
    let t = r.now();
    r.at(t + Duration::from_millis(1))
        .data(n + 2)
        .sacks(n, &[n + 2..n + 3]);
    r.at(t + Duration::from_millis(2))
        .data(n + 4)
        .sacks(n, &[n + 4..n + 5, n + 2..n + 3]);
    r.at(t + Duration::from_millis(3))
        .data(n)
        .sacks(n + 1, &[n + 4..n + 5, n + 2..n + 3]);
    r.at(t + Duration::from_millis(4))
        .data(n + 1)
        .sacks(n + 3, &[n + 4..n + 5]);
}

#[test]
fn an_old_segment_is_reported_as_a_duplicate() {
    // RFC 2883, section 4.1.1.
    let mut r = Receiving::established(&reno());
    r.at(ms(100)).data(0).acks(1);
    r.at(ms(101)).data(1).acks(2);
    let reply = r.at(ms(102)).data(0).sacks(2, &[0..1]);
    assert!(reply.sack.duplicate_first);
    // It is reported only once.
    r.at(ms(103)).data(2).acks(3);
}

#[test]
fn a_duplicate_above_a_gap_comes_before_the_block_that_holds_it() {
    // RFC 2883, section 4.2.
    let mut r = Receiving::established(&reno());
    r.at(ms(100)).data(0).acks(1);
    r.at(ms(101)).data(2).sacks(1, &[2..3]);
    r.at(ms(102)).data(3).sacks(1, &[2..4]);
    r.at(ms(103)).data(5).sacks(1, &[5..6, 2..4]);
    let reply = r.at(ms(104)).data(3).sacks(1, &[3..4, 2..4, 5..6]);
    assert!(reply.sack.duplicate_first);
}

#[test]
fn a_duplicate_does_not_set_the_echoed_time_back() {
    // RFC 7323, section 4.3 (2): only if SEG.TSval >= TS.Recent.
    let mut r = Receiving::established(&reno());
    r.at(ms(100)).data_sent_at(0, ms(50)).acks(1);
    r.at(ms(200)).data_sent_at(1, ms(150)).acks(2);
    r.at(ms(201)).data_sent_at(0, ms(90));
    let reply = r.sacks(2, &[0..1]);
    assert_eq!(reply.packet.ts_ecr, 1150);
}

#[test]
fn the_fourth_selective_acknowledgement_waits_for_a_millisecond() {
    // __tcp_ack_snd_check: 5 % of the round-trip time, at most tcp_comp_sack_delay_ns.
    let mut r = Receiving::established(&reno());
    let n = r.past_quick_acks();
    let t = r.now();
    let after = |micros| t + Duration::from_micros(micros);
    r.at(after(100)).data(n + 1).sacks(n, &[n + 1..n + 2]);
    r.at(after(200)).data(n + 2).sacks(n, &[n + 1..n + 3]);
    r.at(after(300)).data(n + 3).sacks(n, &[n + 1..n + 4]);
    r.at(after(400)).data(n + 4).answers_nothing();
    r.at(after(500)).data(n + 5).answers_nothing();
    r.at(after(1400)).sacks(n, &[n + 1..n + 6]);
}

#[test]
fn on_a_short_path_it_waits_for_5_percent_of_the_round_trip_time() {
    let mut r = Receiving::with_rtt(&reno(), 10);
    let n = r.past_quick_acks();
    let t = r.now();
    let after = |micros| t + Duration::from_micros(micros);
    for segment in 1..4 {
        r.at(after(100 * segment)).data(n + segment);
        r.sacks(n, &[n + 1..n + 1 + segment]);
    }
    r.at(after(400)).data(n + 4).answers_nothing();
    // 10 ms by the time stamps (the handshake took 11).
    r.at(after(900)).sacks(n, &[n + 1..n + 5]);
}

#[test]
fn a_third_block_is_not_held_back() {
    // tcp_sack_new_ofo_skb: with more than TCP_SACK_BLOCKS_EXPECTED the rest goes out.
    let mut r = Receiving::established(&reno());
    let n = r.past_quick_acks();
    let t = r.now();
    let after = |micros| t + Duration::from_micros(micros);
    for segment in 1..4 {
        r.at(after(10 * segment)).data(n + segment);
        r.sacks(n, &[n + 1..n + 1 + segment]);
    }
    r.at(after(40)).data(n + 5).answers_nothing();
    r.at(after(50)).data(n + 7);
    r.sacks(n, &[n + 7..n + 8, n + 5..n + 6, n + 1..n + 4]);
}

#[test]
fn at_most_44_selective_acknowledgements_are_held_back() {
    // tcp_comp_sack_nr. The buffer is fixed, as growth of the window is advertised at once.
    let mut r = Receiving::established(&with_buffer(65_000));
    let n = r.past_quick_acks();
    let t = r.now();
    let after = |micros| t + Duration::from_micros(micros);
    for segment in 1..4 {
        r.at(after(10 * segment)).data(n + segment);
        r.sacks(n, &[n + 1..n + 1 + segment]);
    }
    for segment in 4..48 {
        r.at(after(10 * segment))
            .data(n + segment)
            .answers_nothing();
    }
    r.at(after(480)).data(n + 48).sacks(n, &[n + 1..n + 49]);
}
