//! Timers of a kernel with 250 jiffies per second: `usecs_to_jiffies`, `calc_wheel_index`. The
//! clock starts at one second, which is jiffy 250.

use super::script::*;
use crate::scenario::TcpConfig;
use fairwind_path::units::{Duration, Time};

/// Reno on such a kernel.
fn coarse() -> TcpConfig {
    TcpConfig {
        hz: Some(250),
        ..reno()
    }
}

/// Ten segments were sent at 100 ms, in jiffy 275; the round-trip time is 100 ms.
fn ten_in_flight() -> Sending {
    let mut s = Sending::established(&coarse(), 100);
    s.write_without_end().sends(0..10);
    s
}

#[test]
fn a_probe_waits_for_the_end_of_its_jiffy_and_the_next_one() {
    // 2 * 100 ms + 2 ms are 51 jiffies, without the current one: 275 + 51 + 1 = 327.
    let mut s = ten_in_flight();
    s.due(ms(308));
    s.at(ms(308)).sends([10]);
}

#[test]
fn the_reordering_timer_is_up_to_a_jiffy_late() {
    // 25 ms + 2 ms are 7 jiffies; set during jiffy 300, the timer expires when jiffy 308 begins.
    let mut s = ten_in_flight();
    s.at(ms(201)).sack(0, &[1..2]).sends([10]);
    s.due(ms(232));
    s.at(ms(232)).sends([0]);
}

#[test]
fn the_timeout_is_a_whole_number_of_jiffies() {
    // 101 ms + 202 ms = 303 ms are 76 jiffies.
    let mut s = Sending::established(&coarse(), 101);
    s.rto(101_000, 304);
}

#[test]
fn the_timer_of_a_syn_is_on_the_second_level_of_the_wheel() {
    // 250 jiffies from jiffy 250 on, to the next multiple of 8: 504. Then from there to 760.
    let mut s = Sending::new(&coarse());
    s.open().sends_syn();
    s.due(ms(1016));
    s.at(ms(1016)).sends_syn();
    s.due(ms(2040));
}

#[test]
fn cubic_counts_in_the_same_jiffies() {
    let mut s = ten_in_flight();
    assert_eq!((s.sender.tp().hz, s.sender.tp().jiffies), (250, 275));
    s.at(Time::from_micros(203_999)).ack(1).sends(10..12);
    assert_eq!(s.sender.tp().jiffies, 300);
    s.at(ms(204)).ack(2).sends(12..14);
    assert_eq!(s.sender.tp().jiffies, 301);
}

#[test]
fn an_acknowledgement_is_delayed_for_40_to_44_ms() {
    let mut r = Receiving::established(&coarse());
    let next = r.past_quick_acks();
    let t = r.now();
    // Into the middle of a jiffy, 2 ms before its end.
    let middle = t + Duration::from_millis(6 - t.as_micros() / 1000 % 4);
    r.at(middle).data(next);
    r.at(middle + Duration::from_millis(41)).answers_nothing();
    r.at(middle + Duration::from_millis(42)).acks(next + 1);
}
