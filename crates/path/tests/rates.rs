//! Transmission times: constant, stepped and by opportunities.

use std::sync::Arc;

use fairwind_path::accounting::Accounting;
use fairwind_path::ecn::Ecn;
use fairwind_path::pipe::{Arrival, Offer, Pipe, PipeConfig};
use fairwind_path::rate::Rate;
use fairwind_path::trace::{Steps, parse_opportunities};
use fairwind_path::units::{Bandwidth, Time};

fn pipe(bandwidth: Rate) -> Pipe<()> {
    Pipe::new(
        &PipeConfig {
            bandwidth,
            ..PipeConfig::default()
        },
        1,
    )
}

/// The far-end time in microseconds of a packet that arrives at a time in microseconds.
fn leaves(pipe: &mut Pipe<()>, at_us: u64, size: u32) -> u64 {
    match pipe.arrive(Time::from_micros(at_us), Offer::of(size), ()) {
        Arrival::Leaves(time, _) => {
            assert_eq!(time.as_nanos() % 1_000, 0);
            time.as_micros()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_million_packets_at_an_odd_rate_end_at_the_exact_time() {
    let mut pipe = pipe(Rate::Constant(Bandwidth::from_bps(7_000_003)));
    let mut last = Arrival::Held;
    for _ in 0..1_000_000 {
        last = pipe.arrive(Time::ZERO, Offer::of(1500), ());
    }
    // 10^6 * 12,000 bit / 7,000,003 bit/s = 1714.284979592562... s
    assert_eq!(
        last,
        Arrival::Leaves(Time::from_nanos(1_714_284_979_593), Ecn::NotEct)
    );
}

#[test]
fn accounting_decides_what_a_packet_takes_of_the_bandwidth() {
    let leaves_at = |accounting| {
        let bandwidth = Rate::Constant(Bandwidth::from_mbps(8));
        let config = PipeConfig {
            bandwidth,
            accounting,
            ..PipeConfig::default()
        };
        leaves(&mut Pipe::new(&config, 1), 0, 1500)
    };
    assert_eq!(leaves_at(Accounting::Ip), 1500);
    assert_eq!(leaves_at(Accounting::Ethernet), 1518);
    assert_eq!(leaves_at(Accounting::EthernetWire), 1538);
}

fn steps(values: &[(u64, u64)]) -> Steps<Bandwidth> {
    let points = values.iter();
    let points =
        points.map(|&(millis, mbps)| (Time::from_millis(millis), Bandwidth::from_mbps(mbps)));
    Steps::new(points).unwrap()
}

#[test]
fn a_packet_in_transmission_goes_on_at_the_new_rate() {
    // 1500 bytes are 12,000 bit. From 0.5 ms at 12 Mbit/s: 6,000 bit by 1 ms, the rest at 3 Mbit/s.
    let mut pipe = pipe(Rate::Steps(Arc::new(steps(&[(0, 12), (1, 3)]))));
    assert_eq!(leaves(&mut pipe, 500, 1500), 3_000);
    assert_eq!(leaves(&mut pipe, 500, 1500), 7_000);
}

#[test]
fn an_outage_holds_packets_until_it_ends() {
    let mut pipe = pipe(Rate::Steps(Arc::new(steps(&[(0, 12), (1, 0), (5, 12)]))));
    assert_eq!(leaves(&mut pipe, 500, 1500), 5_500);
    assert_eq!(leaves(&mut pipe, 2_000, 1500), 6_500);
}

#[test]
fn a_trace_that_ends_at_zero_never_sends_again() {
    let mut pipe = pipe(Rate::Steps(Arc::new(steps(&[(0, 12), (2, 0)]))));
    assert_eq!(leaves(&mut pipe, 0, 1500), 1_000);
    assert_eq!(
        pipe.arrive(Time::from_millis(2), Offer::of(1500), ()),
        Arrival::Leaves(Time::MAX, Ecn::NotEct)
    );
    assert_eq!(
        pipe.arrive(Time::from_secs(9), Offer::of(1500), ()),
        Arrival::Leaves(Time::MAX, Ecn::NotEct)
    );
    assert_eq!(pipe.queue(Time::from_secs(99)).packets, 2);
}

#[test]
fn a_repeated_trace_goes_on_for_ever() {
    // 12,000 bit in the first of every two milliseconds.
    let mut pipe = pipe(Rate::Steps(Arc::new(steps(&[(0, 12), (1, 0)]).repeated())));
    for packet in 0..1_000 {
        assert_eq!(leaves(&mut pipe, 0, 1500), packet * 2_000 + 1_000);
    }
    // A long pause must not cost a loop over its periods.
    assert_eq!(
        leaves(&mut pipe, 1_000_000_000_000_500, 1500),
        1_000_000_000_002_500
    );
}

#[test]
fn stepped_rates_are_exact_in_the_long_run() {
    // 7 and 11 Mbit/s, alternating every 1 ms: 18,000 bit in 2 ms, so three packets of 1500 bytes in 4 ms.
    let mut pipe = pipe(Rate::Steps(Arc::new(steps(&[(0, 7), (1, 11)]).repeated())));
    let mut last = Arrival::Held;
    for _ in 0..300_000 {
        last = pipe.arrive(Time::ZERO, Offer::of(1500), ());
    }
    assert_eq!(last, Arrival::Leaves(Time::from_secs(400), Ecn::NotEct));
}

#[test]
fn each_opportunity_sends_1500_bytes() {
    let trace = parse_opportunities("2\n3\n3\n10\n").unwrap();
    let mut pipe = pipe(Rate::Opportunities(Arc::new(trace)));
    // 2, 3, 3, 10, then the same 10 ms later.
    let times = [0; 6].map(|at| leaves(&mut pipe, at, 1500));
    assert_eq!(times, [2_000, 3_000, 3_000, 10_000, 12_000, 13_000]);
}

#[test]
fn small_packets_share_an_opportunity_and_large_ones_take_several() {
    let trace = parse_opportunities("1\n2\n3\n4\n").unwrap();
    let mut pipe = pipe(Rate::Opportunities(Arc::new(trace)));
    let times = [500, 500, 1000, 1000, 1500].map(|size| leaves(&mut pipe, 0, size));
    // 500 + 500 + 500 of 1000 | 500 + 1000 | 1500
    assert_eq!(times, [1_000, 1_000, 2_000, 2_000, 3_000]);
}

#[test]
fn what_an_opportunity_leaves_unused_is_lost_to_later_packets() {
    let trace = parse_opportunities("1\n2\n3\n4\n").unwrap();
    let mut pipe = pipe(Rate::Opportunities(Arc::new(trace)));
    assert_eq!(leaves(&mut pipe, 0, 500), 1_000);
    assert_eq!(leaves(&mut pipe, 1_000, 500), 2_000);
    // The opportunity at 3 ms finds nothing.
    assert_eq!(leaves(&mut pipe, 3_500, 1500), 4_000);
    // Much later, after many repetitions of the trace.
    assert_eq!(
        leaves(&mut pipe, 1_000_000_000_500, 1500),
        1_000_000_001_000
    );
}

#[test]
fn utilization_of_a_trace_is_the_share_of_what_it_offered() {
    let trace = parse_opportunities("1\n2\n3\n4\n").unwrap();
    let mut pipe = pipe(Rate::Opportunities(Arc::new(trace)));
    for _ in 0..3 {
        leaves(&mut pipe, 0, 1500);
    }
    assert_eq!(pipe.statistics(Time::from_millis(4)).utilization, 0.75);
    assert_eq!(pipe.statistics(Time::from_millis(12)).utilization, 0.25);
}

#[test]
fn utilization_of_stepped_rates_is_the_share_of_what_they_offered() {
    // 12,000 bit in the first of every two milliseconds, and one packet of that size.
    let mut pipe = pipe(Rate::Steps(Arc::new(steps(&[(0, 12), (1, 0)]).repeated())));
    leaves(&mut pipe, 0, 1500);
    let utilization = |pipe: &mut Pipe<()>, end| pipe.statistics(end).utilization;
    assert_eq!(utilization(&mut pipe, Time::from_millis(1)), 1.0);
    assert_eq!(utilization(&mut pipe, Time::from_millis(2)), 1.0);
    assert_eq!(
        utilization(&mut pipe, Time::from_micros(2_500)),
        12.0 / 18.0
    );
    assert_eq!(utilization(&mut pipe, Time::from_millis(20)), 0.1);
}

#[test]
fn utilization_of_a_constant_bandwidth_is_the_share_of_time_in_which_it_was_busy() {
    let mut pipe = pipe(Rate::Constant(Bandwidth::from_mbps(12)));
    leaves(&mut pipe, 2_000, 1500);
    leaves(&mut pipe, 2_500, 1500);
    pipe.reset_statistics(Time::from_millis(3));
    leaves(&mut pipe, 8_000, 1500);
    let statistics = pipe.statistics(Time::from_millis(11));
    // From 3 to 4 and from 8 to 9 of 8 ms.
    assert_eq!(statistics.utilization, 0.25);
    // The first packet left at the moment of the reset.
    assert_eq!((statistics.packets, statistics.bytes), (2, 3_000));
    assert_eq!(pipe.bytes_out(Time::from_millis(11)), 4_500);
}
