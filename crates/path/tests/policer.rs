//! Token buckets: what passes, exactly.

use fairwind_path::accounting::Accounting;
use fairwind_path::ecn::Ecn;
use fairwind_path::pipe::{Aqm, LossCause, Offer, Pipe, PipeConfig};
use fairwind_path::policer::PolicerConfig;
use fairwind_path::rate::Rate;
use fairwind_path::red::RedConfig;
use fairwind_path::units::{Bandwidth, Bytes, Duration, Time};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::drive::{Packet, burst, run};

/// 8 Mbit/s, which is a byte a microsecond, and a bucket of 3000 bytes.
fn config() -> PipeConfig {
    PipeConfig {
        policer: Some(PolicerConfig {
            rate: Bandwidth::from_mbps(8),
            burst: Bytes(3_000),
        }),
        ..PipeConfig::default()
    }
}

#[test]
fn a_burst_passes_and_then_the_rate() {
    // The bucket is empty after two packets. 1500 us later it holds 1500 bytes again; a packet that is a
    // microsecond early finds 1499 and leaves them.
    let mut packets = burst(Time::ZERO, 3, 1500);
    packets.extend(burst(Time::from_micros(1_499), 1, 1500));
    packets.extend(burst(Time::from_micros(1_500), 2, 1500));
    let run = run(&config(), &packets, 1);
    assert_eq!(run.order, [0, 1, 4]);
    assert_eq!(run.lost_to(LossCause::Policer), [2, 3, 5]);
}

#[test]
fn a_small_packet_takes_what_a_large_one_could_not() {
    let mut packets = burst(Time::ZERO, 2, 1400);
    packets.extend(burst(Time::ZERO, 1, 201));
    packets.extend(burst(Time::ZERO, 1, 200));
    assert_eq!(run(&config(), &packets, 1).order, [0, 1, 3]);
}

#[test]
fn a_long_pause_saves_up_no_more_than_the_burst() {
    let mut packets = burst(Time::ZERO, 2, 1500);
    packets.extend(burst(Time::from_secs(100_000), 3, 1500));
    assert_eq!(run(&config(), &packets, 1).order, [0, 1, 2, 3]);
}

#[test]
fn tokens_are_those_of_the_links_accounting() {
    let config = PipeConfig {
        accounting: Accounting::EthernetWire,
        ..config()
    };
    // 38 bytes more: 2 * 1462 + 2 * 38 = 3000.
    assert_eq!(run(&config, &burst(Time::ZERO, 2, 1462), 1).order, [0, 1]);
    assert_eq!(run(&config, &burst(Time::ZERO, 2, 1463), 1).order, [0]);
}

#[test]
fn what_exceeds_never_reaches_the_queue() {
    let red = Aqm::Red(RedConfig::default());
    for aqm in [Aqm::DropTail, red] {
        let slow = PipeConfig {
            bandwidth: Rate::Constant(Bandwidth::from_mbps(1)),
            aqm,
            ..config()
        };
        let mut pipe = Pipe::new(&slow, 1);
        for _ in 0..10 {
            pipe.arrive(Time::ZERO, Offer::of(1500), ());
        }
        assert_eq!(pipe.queue(Time::ZERO).packets, 2);
        assert_eq!((pipe.drops(), pipe.losses()), (0, 8));
        assert_eq!(pipe.statistics(Time::from_secs(1)).policed, 8);
    }
}

proptest! {
    /// No interval lets pass more than the burst and what the rate yields in it; and a packet is dropped only
    /// where one more would have been too many.
    #[test]
    fn the_rate_and_the_burst_bound_what_passes(
        bps in 1_000u64..100_000_000,
        bucket in 1_500u64..10_000,
        arrivals in vec((0u64..10_000, 40u32..=1500), 1..150),
    ) {
        let mut at = Time::ZERO;
        let packet = |(gap, size)| {
            at += Duration::from_micros(gap);
            Packet {
                at,
                size,
                class: 0,
                ecn: Ecn::NotEct,
            }
        };
        let packets: Vec<Packet> = arrivals.into_iter().map(packet).collect();
        let policer = PolicerConfig { rate: Bandwidth::from_bps(bps), burst: Bytes(bucket) };
        let config = PipeConfig { policer: Some(policer), ..PipeConfig::default() };
        let run = run(&config, &packets, 1);
        // In units of 10^-9 bit.
        let unit = 8_000_000_000u128;
        let allowed = |from: Time, to: Time| {
            u128::from(bucket) * unit + u128::from(bps) * u128::from((to - from).as_nanos())
        };
        for (last, dropped) in packets.iter().enumerate() {
            let passed = run.far_end(last).is_some();
            let mut bytes = u128::from(dropped.size);
            let mut exceeds = bytes * unit > allowed(dropped.at, dropped.at);
            for (first, packet) in packets[..last].iter().enumerate().rev() {
                if run.far_end(first).is_some() {
                    bytes += u128::from(packet.size);
                    exceeds |= bytes * unit > allowed(packet.at, dropped.at);
                }
            }
            prop_assert_eq!(passed, !exceeds, "packet {}", last);
        }
    }
}
