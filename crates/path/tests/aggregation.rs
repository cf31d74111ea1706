//! Aggregation: which turn a packet takes.

use fairwind_path::aggregation::AggregationConfig;
use fairwind_path::codel::CoDelConfig;
use fairwind_path::delay::{Delay, DelayConfig};
use fairwind_path::ecn::Ecn;
use fairwind_path::pipe::{Aqm, Offer, Pipe, PipeConfig};
use fairwind_path::rate::Rate;
use fairwind_path::units::{Bandwidth, Duration, Time};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::drive::{Packet, burst, run};

/// Packets of 1000 bytes take 1 ms each; turns at the multiples of 4 ms; then 10 ms of delay.
fn config(packets: Option<u32>) -> PipeConfig {
    PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_mbps(8)),
        delay: DelayConfig {
            base: Delay::Constant(Duration::from_millis(10)),
            jitter: None,
        },
        aggregation: Some(AggregationConfig {
            interval: Duration::from_millis(4),
            packets,
        }),
        ..PipeConfig::default()
    }
}

fn far_ends_ms(config: &PipeConfig, packets: &[Packet]) -> Vec<u64> {
    let far_ends = run(config, packets, 1).far_ends();
    far_ends.iter().map(|time| time.as_millis()).collect()
}

#[test]
fn what_is_sent_within_an_interval_goes_on_at_its_end() {
    // Sent at 1, 2, ... 10 ms: what is sent at the end of an interval still takes that turn.
    let packets = burst(Time::ZERO, 10, 1000);
    let expected = [14, 14, 14, 14, 18, 18, 18, 18, 22, 22];
    assert_eq!(far_ends_ms(&config(None), &packets), expected);
}

#[test]
fn a_full_turn_leaves_the_others_to_the_next() {
    let mut packets = burst(Time::ZERO, 8, 1000);
    packets.extend(burst(Time::from_millis(30), 1, 1000));
    // Sent at 1 to 8 ms, three a turn; one at 31 ms, when none is left.
    let expected = [14, 14, 14, 18, 18, 18, 22, 22, 42];
    assert_eq!(far_ends_ms(&config(Some(3)), &packets), expected);
}

#[test]
fn a_packet_that_waits_for_its_turn_has_left_the_queue() {
    let mut pipe = Pipe::new(&config(None), 1);
    pipe.arrive(Time::ZERO, Offer::of(1000), ());
    assert_eq!(pipe.queue(Time::from_micros(999)).packets, 1);
    assert_eq!(pipe.queue(Time::from_millis(1)).packets, 0);
    assert_eq!(pipe.bytes_out(Time::from_millis(1)), 1000);
}

#[test]
fn a_pipe_that_holds_packets_aggregates_them_too() {
    let held = PipeConfig {
        aqm: Aqm::CoDel(CoDelConfig::default()),
        ..config(Some(3))
    };
    let packets = burst(Time::ZERO, 5, 1000);
    assert_eq!(far_ends_ms(&held, &packets), [14, 14, 14, 18, 18]);
}

proptest! {
    #[test]
    fn every_packet_takes_the_first_turn_that_has_room(
        interval in 1u64..10_000,
        limit in 1u32..6,
        gaps in vec(0u64..5_000, 1..200),
    ) {
        let interval = Duration::from_micros(interval);
        let aggregation = AggregationConfig { interval, packets: Some(limit) };
        let unlimited = PipeConfig { aggregation: Some(aggregation), ..PipeConfig::default() };
        let mut at = Time::ZERO;
        let packet = |gap| {
            at += Duration::from_micros(gap);
            Packet { at, size: 100, class: 0, ecn: Ecn::NotEct }
        };
        let packets: Vec<Packet> = gaps.into_iter().map(packet).collect();
        let turns = run(&unlimited, &packets, 1).far_ends();
        let mut taken = std::collections::BTreeMap::new();
        for (packet, turn) in packets.iter().zip(&turns) {
            let mut first = packet.at.as_nanos().div_ceil(interval.as_nanos());
            while taken.get(&first) == Some(&limit) {
                first += 1;
            }
            *taken.entry(first).or_default() += 1;
            prop_assert_eq!(*turn, Time::ZERO + interval * first);
        }
    }
}
