//! CoDel against its control law, worked out by hand.

use fairwind_path::codel::CoDelConfig;
use fairwind_path::ecn::Ecn;
use fairwind_path::pipe::{Aqm, LossCause, PipeConfig};
use fairwind_path::rate::Rate;
use fairwind_path::units::{Bandwidth, Time};

use crate::drive::{burst, burst_with, run};

/// Packets of 1500 bytes take 10 ms each; target 5 ms, interval 100 ms.
fn config() -> PipeConfig {
    PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_bps(1_200_000)),
        aqm: Aqm::CoDel(CoDelConfig::default()),
        ..PipeConfig::default()
    }
}

#[test]
fn drops_come_closer_as_the_square_root_of_their_number() {
    let run = run(&config(), &burst(Time::ZERO, 72, 1500), 1);
    // Packet 1 leaves the queue after 10 ms, which is more than 5 ms: dropping starts 100 ms later.
    // Drops are due at (ms), each taken at the next multiple of 10 ms:
    //   110
    //   + 100           = 210
    //   + 100 / sqrt(2) = 280.71
    //   + 100 / sqrt(3) = 338.45
    //   + 100 / sqrt(4) = 388.45
    //   + 100 / sqrt(5) = 433.17
    //   + 100 / sqrt(6) = 473.99
    //   + 100 / sqrt(7) = 511.79
    //   + 100 / sqrt(8) = 547.14
    //   + 100 / sqrt(9) = 580.48
    assert_eq!(
        run.lost_to(LossCause::CoDel),
        [11, 22, 31, 37, 43, 49, 54, 59, 63, 68]
    );
    // The packet behind a dropped one takes its place.
    assert_eq!(run.far_end(10), Some(Time::from_millis(110)));
    assert_eq!(run.far_end(12), Some(Time::from_millis(120)));
    assert_eq!(run.far_end(32), Some(Time::from_millis(300)));
}

#[test]
fn dropping_soon_again_starts_near_the_rate_that_was_needed() {
    let mut packets = burst(Time::ZERO, 40, 1500);
    packets.extend(burst(Time::from_secs(1), 40, 1500));
    let run = run(&config(), &packets, 1);
    // The first burst takes the count from 1 to 4. The second starts at 1110 ms with count 4 - 1 = 3;
    // drops are due at + 100 / sqrt(3) = 1167.7, + 100 / sqrt(4) = 1217.7,
    // + 100 / sqrt(5) = 1262.5, + 100 / sqrt(6) = 1303.3 ms.
    assert_eq!(
        run.lost_to(LossCause::CoDel),
        [11, 22, 31, 37, 51, 58, 64, 70, 75]
    );
}

#[test]
fn dropping_long_after_starts_slowly_again() {
    let mut packets = burst(Time::ZERO, 40, 1500);
    packets.extend(burst(Time::from_secs(10), 40, 1500));
    let run = run(&config(), &packets, 1);
    assert_eq!(
        run.lost_to(LossCause::CoDel),
        [11, 22, 31, 37, 51, 62, 71, 77]
    );
}

#[test]
fn a_queue_of_one_packet_is_never_touched() {
    let packets: Vec<_> = (0..100)
        .flat_map(|n| burst(Time::from_millis(10 * n), 1, 1500))
        .collect();
    let mut late = burst(Time::ZERO, 1, 1500);
    late.extend(packets);
    assert!(
        run(&config(), &late, 1)
            .lost_to(LossCause::CoDel)
            .is_empty()
    );
}

#[test]
fn a_standing_queue_below_target_is_left_alone_and_one_above_is_not() {
    // 1 ms a packet; after the first ones, a packet arrives each millisecond.
    let bandwidth = Rate::Constant(Bandwidth::from_mbps(12));
    let config = PipeConfig {
        bandwidth,
        ..config()
    };
    let drops = |first| {
        let mut packets = burst(Time::ZERO, first, 1500);
        packets.extend((1..1_000).flat_map(|millis| burst(Time::from_millis(millis), 1, 1500)));
        run(&config, &packets, 1).lost_to(LossCause::CoDel).len()
    };
    // Each packet waits for first - 1 before it.
    assert_eq!(drops(5), 0);
    // The first drop leaves a queue of 4 ms.
    assert_eq!(drops(6), 1);
}

#[test]
fn packets_that_are_ecn_capable_are_marked_at_the_times_of_drops() {
    let marking = PipeConfig {
        aqm: Aqm::CoDel(CoDelConfig {
            ecn: true,
            ..CoDelConfig::default()
        }),
        ..config()
    };
    for ecn in [Ecn::Ect0, Ecn::Ect1] {
        let packets = burst_with(ecn, Time::ZERO, 72, 1500);
        let run = run(&marking, &packets, 1);
        assert!(run.lost_to(LossCause::CoDel).is_empty());
        // Due at the times above, but no packet makes way: packet n leaves the queue at 10 n ms.
        let marked = [11, 21, 29, 34, 39, 44, 48, 52, 55, 59];
        assert_eq!(run.marked(&packets)[..10], marked);
        assert_eq!(run.far_end(71), Some(Time::from_millis(720)));
    }
    // Others are dropped as ever, and marked ones stay as they are.
    let packets = burst(Time::ZERO, 72, 1500);
    let dropping = run(&config(), &packets, 1);
    assert_eq!(run(&marking, &packets, 1).fates, dropping.fates);
    let packets = burst_with(Ecn::Ce, Time::ZERO, 72, 1500);
    let mut run = run(&marking, &packets, 1);
    let statistics = run.pipe.statistics(Time::from_secs(1));
    assert_eq!((statistics.drops, statistics.marks), (0, 0));
}
