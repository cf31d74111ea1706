//! Delivery-rate samples: `tcp_rate.c`.

use super::script::*;

fn rate(s: &Sending, at_ms: u64) -> u64 {
    s.sender.instruments(ms(at_ms)).delivery_rate
}

#[test]
fn the_rate_is_what_was_delivered_since_the_segment_left() {
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    // 2 segments in 100 ms.
    s.at(ms(200)).ack(2).sends(10..14);
    assert_eq!(rate(&s, 200), 28_960);
    // 4 in 101 ms: 4 * 1448 / 0.101 = 57,346.5.
    s.at(ms(201)).ack(4).sends(14..18);
    assert_eq!(rate(&s, 201), 57_346);
    // Segment 10 was sent at 200 ms, when 2 had been delivered: 9 in 101 ms.
    s.at(ms(301)).ack(11).sends(18..32);
    assert_eq!(rate(&s, 301), 129_029);
}

#[test]
fn selective_acknowledgements_count_as_delivered() {
    let mut s = Sending::established(&reno(), 100);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).sack(0, &[2..6]).sends([0]);
    // 4 in 100 ms.
    assert_eq!(rate(&s, 200), 57_920);
}

#[test]
fn a_rate_that_the_application_holds_down_does_not_replace_a_higher_one() {
    // tcp_rate_check_app_limited, tcp_rate_gen.
    let mut s = Sending::established(&reno(), 100);
    s.write(10).sends(0..10);
    s.at(ms(200)).ack(10).sends_nothing();
    assert_eq!(rate(&s, 200), 144_800);
    s.write(2).sends([10, 11]);
    s.at(ms(300)).ack(12).sends_nothing();
    assert_eq!(rate(&s, 300), 144_800);
}

#[test]
fn the_syn_counts_as_delivered() {
    let mut s = Sending::established(&reno(), 100);
    s.write(2).sends([0, 1]);
    s.at(ms(200)).ack(2).sends_nothing();
    assert_eq!(s.sender.tp().delivered, 3);
}
