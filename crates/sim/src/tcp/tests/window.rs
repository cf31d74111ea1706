//! The receiver's window and both buffers.

use super::script::*;
use crate::packet::Packet;
use crate::scenario::TcpConfig;
use crate::tcp::receive_window::ReceiveWindow;
use fairwind_path::units::Bytes;

#[test]
fn the_receivers_window_holds_the_sender_back() {
    let mut s = Sending::with_first_window(12 * MSS);
    s.write_without_end().sends(0..10);
    s.at(ms(200)).ack(2).sends(10..14);
    // 14 = 2 + 12: the window is full.
    s.at(ms(201)).ack(3).sends(14..15);
    s.with_window(20 * MSS);
    // A pure window update is not a duplicate acknowledgement (tcp_ack_update_window).
    s.at(ms(202)).ack(3).sends(15..16);
    s.cwnd(13);
}

#[test]
fn a_window_smaller_than_a_segment_holds_it_back() {
    // tcp_snd_wnd_test: silly window avoidance by the sender, as by the receiver.
    let mut s = Sending::with_first_window(3 * MSS);
    s.write(3).sends(0..3);
    s.with_window(MSS + 1000);
    s.at(ms(200)).ack(3).sends_nothing();
    s.write(3).sends(3..4);
    s.at(ms(300)).ack(4).sends(4..5);
}

#[test]
fn the_window_does_not_grow_while_the_receiver_limits() {
    // tcp_is_cwnd_limited: 4 in flight, less than half of 10.
    let mut s = Sending::with_first_window(4 * MSS);
    s.write_without_end().sends(0..4);
    s.at(ms(200)).ack(4).sends(4..8);
    s.cwnd(10);
}

#[test]
fn the_send_buffer_limits_what_is_in_flight() {
    let config = TcpConfig {
        send_buffer: Some(Bytes(4 * MSS)),
        ..reno()
    };
    let mut s = Sending::established(&config, 100);
    s.write_without_end().sends(0..4);
    s.at(ms(200)).ack(2).sends(4..6);
    s.at(ms(201)).ack(3).sends(6..7);
}

/// A packet of 1500 bytes takes 2304 bytes of a buffer, so payload may use 1448 * 256 / 2304 = 160
/// 256ths of it (`tcp_scaling_ratio`).
const fn buffer_for(window: u64) -> u64 {
    window * 256 / 160
}

#[test]
fn five_eighths_of_a_fixed_buffer_are_the_window() {
    // 18,534 B, half of which, 9267 B, before the first full segment: three quick acknowledgements.
    let mut r = Receiving::established(&with_buffer(buffer_for(8 * MSS)));
    let mut windows = Vec::new();
    for segment in 0..3 {
        let reply = r.at(ms(100 + segment)).data(segment).acks(segment + 1);
        windows.push(reply.packet.window);
    }
    assert_eq!(windows, [11_583; 3]);
    assert_eq!(r.receiver.buffer_bytes(), 18_534);
}

#[test]
fn a_large_fixed_buffer_opens_by_two_segments_a_segment() {
    // tcp_grow_window. 419,430 bytes, of which 209,715 at first, need a window scale of 2
    // (tcp_select_initial_window), so windows are multiples of 4: 209,715 + 2,896 = 212,611 -> 212,612
    // and so on.
    let mut r = Receiving::established(&with_buffer(419_430));
    let mut windows = Vec::new();
    for segment in 0..3 {
        let reply = r.at(ms(100 + segment)).data(segment).acks(segment + 1);
        windows.push(reply.packet.window);
    }
    assert_eq!(windows, [212_612, 215_508, 218_404]);
}

#[test]
fn the_window_is_no_larger_than_its_scale_holds() {
    // 131,072 B at first need a scale of 2, which also holds 163,840 B, five eighths of 262,144 B.
    // Half of 262,140 B, 131,070 B, fits a scale of 1, which never holds more.
    for (buffer, window) in [(262_144, 163_840), (262_140, 131_070)] {
        let mut r = Receiving::established(&with_buffer(buffer));
        let mut last = 0;
        for segment in 0..100 {
            r.at(ms(100 + segment)).data(segment);
            if let Some(reply) = r.answer() {
                last = reply.packet.window;
            }
        }
        assert_eq!(last, window);
    }
}

#[test]
fn what_has_not_been_read_is_not_offered_by_the_acknowledgement_that_fills_a_gap() {
    // Of 40 segments, 57,920 B, four wait behind the gap: they and the segment that fills it are
    // still in the buffer when the acknowledgement is sent.
    let mut r = Receiving::established(&with_buffer(buffer_for(40 * MSS)));
    for segment in (0..20).chain(21..25) {
        r.at(ms(100 + segment)).data(segment);
        r.answer();
    }
    r.at(ms(125));
    let before = r.answer().expect("a compressed one").packet;
    r.at(ms(130)).data(20);
    let filled = r.acks(25).packet;
    let edge = |packet: Packet| packet.seq + u64::from(packet.window);
    assert_eq!(edge(filled), edge(before));
    r.at(ms(131)).data(25);
    r.answer();
    r.at(ms(132)).data(26);
    assert_eq!(r.acks(27).packet.window, 57_920);
}

#[test]
fn one_that_doubles_the_window_offers_what_is_read_at_once() {
    // tcp_cleanup_rbuf.
    let mut r = Receiving::established(&with_buffer(buffer_for(8 * MSS)));
    r.at(ms(100)).data(0).acks(1);
    for segment in 2..8 {
        r.at(ms(99 + segment)).data(segment);
        r.answer();
    }
    r.at(ms(107));
    r.answer();
    r.at(ms(110)).data(1);
    assert_eq!(r.acks(8).packet.window, 11_583);
}

#[test]
fn the_right_edge_does_not_move_back_while_a_gap_is_open() {
    // RFC 9293, section 3.8.6: shrinking the window is discouraged. Data beyond a gap takes room.
    let mut r = Receiving::established(&with_buffer(buffer_for(10 * MSS)));
    r.at(ms(100)).data(0).acks(1);
    for segment in 2..6 {
        let reply = r.at(ms(99 + segment)).data(segment);
        let reply = reply.sacks(1, &[2..segment + 1]);
        assert_eq!(reply.packet.seq + u64::from(reply.packet.window), 11 * MSS);
    }
}

#[test]
fn the_buffer_grows_by_what_arrives_in_a_round_trip() {
    // tcp_rcvbuf_grow: 41 segments = 59,368 bytes in the first round trip, against the 10 expected
    // (14,480). 2 * 59,368 = 118,736; growth 118,736 * 44,888 / 14,480 = 368,081; the window is
    // 118,736 + 2 * 368,081 = 854,898 bytes, the buffer 256/160 of that.
    let mut r = Receiving::established(&reno());
    assert_eq!(r.receiver.buffer_bytes(), 131_072);
    for segment in 0..40 {
        r.at(ms(100 + segment)).data(segment);
        if segment < 23 || segment % 2 == 0 {
            r.acks(segment + 1);
        }
    }
    assert_eq!(r.receiver.buffer_bytes(), 131_072);
    r.at(ms(179)).acks(40);
    r.at(ms(200)).data(40).answers_nothing();
    assert_eq!(r.receiver.buffer_bytes(), 1_367_836);
}

#[test]
fn an_echo_from_before_a_pause_of_more_than_an_hour_is_no_round_trip() {
    let mut window = ReceiveWindow::new(&reno());
    // The host's clock was at 1000 ms when the run began.
    window.measure_rtt(ms(50), 1000, true);
    assert_eq!(window.rtt_us_shifted(), 8 * 50_000);
    // 72 minutes are more microseconds than 32 bits hold, and tcp_rtt_tsopt_us takes 31.
    window.measure_rtt(ms(72 * 60_000), 1001, true);
    assert_eq!(window.rtt_us_shifted(), 8 * 50_000);
}

#[test]
fn what_waits_behind_a_gap_has_room_of_its_own() {
    // tcp_data_queue_ofo: twice the 14,480 bytes of a round trip, and 40 segments from the gap to
    // the end: a window of 28,960 + 57,920 = 86,880 bytes, a buffer of 256/160 of that.
    let mut r = Receiving::established(&reno());
    r.at(ms(100)).data(0).acks(1);
    for segment in 2..41 {
        r.at(ms(101)).data(segment);
        r.answer();
    }
    assert_eq!(r.receiver.buffer_bytes(), 139_008);
}

#[test]
fn the_buffer_grows_no_further_than_tcp_rmem() {
    let config = TcpConfig {
        tcp_rmem: [4096, 131_072, 400_000],
        ..reno()
    };
    let mut r = Receiving::established(&config);
    let mut window = 0;
    for segment in 0..400 {
        r.at(ms(100 + segment)).data(segment);
        if let Some(reply) = r.answer() {
            window = reply.packet.window;
        }
    }
    assert_eq!(r.receiver.buffer_bytes(), 400_000);
    // Five eighths of it, in steps of 8 (window scale 3: 65,535 << 3 holds 400,000).
    assert_eq!(window, 250_000);
}

#[test]
fn a_fixed_buffer_is_not_tuned() {
    let mut r = Receiving::established(&with_buffer(65_000));
    for segment in 0..400 {
        r.at(ms(100 + segment)).data(segment);
        r.answer();
    }
    assert_eq!(r.receiver.buffer_bytes(), 65_000);
}
