//! Trains: what is sent when, and what the ACKs of a train leave behind.

use crate::common::Connection;
use fairwind_cc::native::{RateSample, TcpSock, ca_state};

const MSS: u32 = 1448;

/// A path without cross traffic that carries a packet a millisecond, 20 ms away, and its sender.
struct Path {
    tcp: Connection,
    now_us: u64,
    /// When the bottleneck is free again.
    free_us: u64,
    /// When the pacer is.
    paced_us: u64,
    /// Time of sending, of the ACK, end, that of what was sent at once, and `delivered` at sending.
    flying: Vec<(u64, u64, u32, u32, u32)>,
    /// Packets of each burst, and the pacing rate.
    bursts: Vec<(u32, u64)>,
    /// Whether the kernel has kept together what was sent at once, so that an ACK of a part of it has the end of all.
    is_together: bool,
}

impl Path {
    fn new() -> Path {
        let mut tcp = Connection::new("probe");
        tcp.sk.srtt_us = 8 * 20_000;
        tcp.sk.rtt_min_us = 20_000;
        tcp.sk.snd_wnd = 10_000_000;
        tcp.control
            .init(&mut tcp.sk, &tcp.control.default_parameters());
        let mut path = Path {
            tcp,
            now_us: 0,
            free_us: 0,
            paced_us: 0,
            flying: Vec::new(),
            bursts: Vec::new(),
            is_together: false,
        };
        path.send();
        path
    }

    fn sk(&mut self) -> &mut TcpSock {
        &mut self.tcp.sk
    }

    /// Sends what window and pacer allow, two packets at a time.
    fn send(&mut self) {
        while self.sk().packets_out < self.sk().snd_cwnd && self.paced_us <= self.now_us {
            let room = self.sk().snd_cwnd - self.sk().packets_out;
            let count = room.min(2);
            let rate = self.sk().sk_pacing_rate;
            self.bursts.push((count, rate));
            let all = self.sk().snd_nxt.wrapping_add(count * MSS);
            for _ in 0..count {
                let now = self.now_us;
                self.free_us = self.free_us.max(now) + 1000;
                let sk = self.sk();
                sk.snd_nxt = sk.snd_nxt.wrapping_add(MSS);
                sk.packets_out += 1;
                let entry = (
                    now,
                    self.free_us + 19_000,
                    self.sk().snd_nxt,
                    all,
                    self.sk().delivered,
                );
                self.flying.push(entry);
            }
            self.paced_us = self.now_us + u64::from(count * MSS) * 1_000_000 / rate.max(1);
        }
    }

    /// Until the next ACK, of one packet.
    fn ack(&mut self) {
        loop {
            let next = self.flying.first().map_or(u64::MAX, |entry| entry.1);
            let can_send = self.sk().packets_out < self.sk().snd_cwnd;
            if !can_send || self.paced_us >= next {
                break;
            }
            self.now_us = self.now_us.max(self.paced_us);
            self.send();
        }
        let (sent, acked, end, all, delivered) = self.flying.remove(0);
        self.now_us = acked;
        self.tcp.at(acked);
        let sk = self.sk();
        sk.packets_out -= 1;
        sk.delivered += 1;
        sk.snd_una = end;
        let sample = RateSample {
            prior_mstamp: 1,
            prior_delivered: delivered,
            delivered: 1,
            rtt_us: (acked - sent) as i64,
            acked_sacked: 1,
            last_end_seq: if self.is_together { all } else { end },
            ..RateSample::default()
        };
        let control = self.tcp.control;
        control.cong_control(&mut self.tcp.sk, 0, 0, &sample);
        self.send();
    }

    /// A field of `struct train` of two bytes.
    fn u16_at(&self, at: usize) -> u32 {
        let words = self.tcp.sk.icsk_ca_priv;
        ((words[at / 8] >> (at % 8 * 8)) & 0xffff) as u32
    }

    fn u32_at(&self, at: usize) -> u32 {
        (self.tcp.sk.icsk_ca_priv[at / 8] >> (at % 8 * 8)) as u32
    }

    /// Trains that have ended.
    fn trains(&self) -> u32 {
        self.u16_at(48)
    }

    fn until_train(&mut self, number: u32) {
        for _ in 0..2000 {
            if self.trains() == number {
                return;
            }
            self.ack();
        }
        panic!("train {number} does not end");
    }
}

#[test]
fn what_the_first_ack_of_a_train_is_of_is_counted_though_more_was_sent_at_once() {
    let mut path = Path::new();
    path.is_together = true;
    for number in 2..6 {
        path.until_train(number);
        let open = path.u16_at(60) & 0xff;
        assert_eq!(open, 1, "each packet is acknowledged");
    }
}

#[test]
fn before_it_is_initialised_it_leaves_window_and_rate_alone() {
    let mut tcp = Connection::new("probe");
    tcp.sk.icsk_ca_priv = Default::default();
    tcp.window(7, 100);
    tcp.sk.sk_pacing_rate = 12_345;
    let control = tcp.control;
    control.cong_control(&mut tcp.sk, 0, 0, &RateSample::default());
    assert_eq!((tcp.sk.snd_cwnd, tcp.sk.sk_pacing_rate), (7, 12_345));
}

#[test]
fn the_first_window_gives_the_capacity_by_its_dispersion() {
    let mut path = Path::new();
    path.until_train(1);
    // The tenth packet's ACK is not awaited. Eight follow the first, a millisecond each.
    assert_eq!((path.u16_at(44), path.u32_at(28)), (8, 8000));
    // The fast train begins at once: at twice 1448 bytes in a millisecond.
    assert_eq!(path.sk().sk_pacing_rate, 2 * 1_448_000);
    assert_eq!(path.sk().snd_cwnd, 1 + 16);
}

#[test]
fn a_train_s_sums_have_its_rates() {
    let mut path = Path::new();
    path.until_train(2);
    // Eight pairs at 2896 bytes a millisecond: one a millisecond, which are received in two. Neither
    // the first pair nor the last, whose second packet is not awaited, is a sample.
    assert_eq!(path.u16_at(46), 6);
    // From the second pair's departure to the eighth's, and the pairs two to seven.
    assert_eq!((path.u32_at(32), path.u32_at(36)), (6000, 6 * 2 * MSS));
    // Received from the end of the second pair to the last ACK.
    assert_eq!((path.u16_at(44), path.u32_at(28)), (11, 11_000));
}

#[test]
fn without_cross_traffic_the_slow_train_s_rate_becomes_five_quarters_of_the_capacity() {
    let mut path = Path::new();
    path.until_train(30);
    let slow = path.u32_at(88);
    assert!((1_800_000..1_820_000).contains(&slow), "{slow}");
    let capacity = path.u32_at(92);
    assert!((1_440_000..1_450_000).contains(&capacity), "{capacity}");
}

#[test]
fn in_recovery_it_begins_no_train_and_keeps_a_window_for_retransmissions() {
    let mut path = Path::new();
    path.tcp.set_state(ca_state::RECOVERY);
    path.until_train(1);
    assert_eq!(path.sk().snd_cwnd, 4);
    for _ in 0..20 {
        path.ack();
    }
    assert_eq!(path.trains(), 1);
    path.tcp.set_state(ca_state::OPEN);
    path.until_train(2);
}

#[test]
fn losses_do_not_lower_the_window() {
    let mut tcp = Connection::new("probe");
    tcp.window(40, 100);
    tcp.enter_recovery();
    assert_eq!(tcp.sk.snd_ssthresh, 40);
    tcp.undo();
    assert_eq!(tcp.sk.snd_cwnd, 40);
}
