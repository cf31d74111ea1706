//! When data in order is acknowledged: `__tcp_ack_snd_check`, `tcp_send_delayed_ack`,
//! `tcp_event_data_recv`.

use super::script::*;
use fairwind_path::units::Duration;

#[test]
fn the_first_23_segments_are_acknowledged_one_by_one() {
    // tcp_grow_window asks for 7 and TCP_MAX_QUICKACKS for 16. The window grows from 64,088 bytes,
    // a segment less than half the buffer, to the 81,920 that segments of 1448 bytes make of it:
    // (81,920 - 64,088) / 2,896 = 6.2, so 7 times.
    let mut r = Receiving::established(&reno());
    for segment in 0..23 {
        r.at(ms(100 + segment)).data(segment).acks(segment + 1);
    }
    r.at(ms(123)).data(23).answers_nothing();
    r.at(ms(124)).data(24).acks(25);
}

#[test]
fn a_small_window_makes_for_fewer_quick_acknowledgements() {
    // tcp_incr_quickack: as many as segments fit in half the window, 11,584 / 2,896 = 4, and one
    // for the growth by two segments, from a half of the buffer to five eighths.
    let mut r = Receiving::established(&with_buffer(16 * MSS));
    for segment in 0..5 {
        r.at(ms(100 + segment)).data(segment).acks(segment + 1);
    }
    r.at(ms(105)).data(5).answers_nothing();
    r.at(ms(106)).data(6).acks(7);
}

#[test]
fn every_second_segment_is_acknowledged() {
    // RFC 5681, section 4.2.
    let mut r = Receiving::established(&reno());
    let next = r.past_quick_acks();
    let t = r.now();
    r.at(t + Duration::from_millis(1))
        .data(next)
        .answers_nothing();
    r.at(t + Duration::from_millis(2))
        .data(next + 1)
        .acks(next + 2);
    r.at(t + Duration::from_millis(3))
        .data(next + 2)
        .answers_nothing();
    r.at(t + Duration::from_millis(4))
        .data(next + 3)
        .acks(next + 4);
}

#[test]
fn a_single_segment_is_acknowledged_after_40_ms() {
    // TCP_DELACK_MIN.
    let mut r = Receiving::established(&reno());
    let next = r.past_quick_acks();
    let t = r.now();
    r.at(t + Duration::from_millis(1)).data(next);
    r.at(t + Duration::from_millis(40)).answers_nothing();
    r.at(t + Duration::from_millis(41)).acks(next + 1);
}

#[test]
fn after_a_late_acknowledgement_the_delay_doubles_up_to_a_round_trip() {
    // tcp_delack_timer_handler doubles the delay; tcp_send_delayed_ack bounds it by the smoothed
    // round-trip time of the handshake, at least 40 ms.
    for (rtt_ms, second_delay) in [(100, 80), (50, 50), (10, 40)] {
        let mut r = Receiving::with_rtt(&reno(), rtt_ms);
        for segment in 0..23 {
            r.at(ms(rtt_ms + segment)).data(segment).acks(segment + 1);
        }
        r.at(ms(rtt_ms + 25)).data(23).answers_nothing();
        r.at(ms(rtt_ms + 65)).acks(24);
        r.at(ms(rtt_ms + 150)).data(24).answers_nothing();
        r.at(ms(rtt_ms + 150 + second_delay)).acks(25);
    }
}

#[test]
fn a_segment_that_is_not_full_is_acknowledged_at_once() {
    // tcp_measure_rcv_mss and tcp_cleanup_rbuf: the reader has emptied the buffer.
    let mut r = Receiving::established(&reno());
    let next = r.past_quick_acks();
    let t = r.now();
    r.at(t + Duration::from_millis(1)).bytes(next * MSS, 100);
    let reply = r.answer().expect("an acknowledgement");
    assert_eq!(reply.packet.seq, next * MSS + 100);
}

#[test]
fn a_gap_of_more_than_the_timeout_begins_quick_acknowledgements_anew() {
    // tcp_event_data_recv. The receiver's timeout is 100 + 200 ms here.
    let mut r = Receiving::established(&reno());
    let next = r.past_quick_acks();
    let t = r.now();
    r.at(t + Duration::from_millis(300))
        .data(next)
        .answers_nothing();
    r.at(t + Duration::from_millis(340)).acks(next + 1);
    r.at(t + Duration::from_millis(601))
        .data(next + 1)
        .acks(next + 2);
    r.at(t + Duration::from_millis(602))
        .data(next + 2)
        .acks(next + 3);
}

#[test]
fn growth_of_the_window_is_told_at_once() {
    // tcp_grow_window asks for a quick acknowledgement. From half of the buffer, 104,858 bytes, the
    // window grows by two segments per segment, up to 131,072: (131,072 - 104,858) / 2,896 = 9.05, so
    // 10 times. Then come the 16 quick acknowledgements of the start.
    let mut r = Receiving::established(&with_buffer(209_716));
    for segment in 0..26 {
        r.at(ms(100 + segment)).data(segment).acks(segment + 1);
    }
    r.at(ms(126)).data(26).answers_nothing();
    r.at(ms(127)).data(27).acks(28);
}

#[test]
fn an_acknowledgement_echoes_the_time_stamp_of_the_first_segment_it_covers() {
    // RFC 7323, section 4.3, case A.
    let mut r = Receiving::established(&reno());
    let next = r.past_quick_acks();
    let t = r.now();
    r.at(t + Duration::from_millis(10))
        .data_sent_at(next, ms(80))
        .answers_nothing();
    r.at(t + Duration::from_millis(12))
        .data_sent_at(next + 1, ms(82));
    let reply = r.acks(next + 2);
    // Hosts have been up for a second when a run starts.
    assert_eq!(reply.packet.ts_ecr, 1080);
}

#[test]
fn a_pushed_segment_is_acknowledged_at_once() {
    // tcp_measure_rcv_mss: "it is likely the end of an application write", and tcp_cleanup_rbuf
    // acknowledges when it has been read.
    let mut r = Receiving::established(&reno());
    let n = r.past_quick_acks();
    let t = r.now();
    r.at(t + Duration::from_millis(1)).pushed(n);
    r.acks(n + 1);
    r.at(t + Duration::from_millis(2))
        .data(n + 1)
        .answers_nothing();
}
