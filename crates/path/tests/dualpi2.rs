//! DualPI2: which queue goes first, what is marked, and what the controller controls.

use fairwind_path::dualpi2::DualPi2Config;
use fairwind_path::ecn::Ecn;
use fairwind_path::pipe::{Aqm, LossCause, PipeConfig};
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::units::{Bandwidth, Duration, Time};

use crate::drive::{Packet, Run, run};

/// Packets of 1500 bytes take 1 ms each.
fn config() -> PipeConfig {
    PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_mbps(12)),
        capacity: Capacity::Packets(1_000),
        aqm: Aqm::DualPi2(DualPi2Config::default()),
        ..PipeConfig::default()
    }
}

fn packet(at: Time, ecn: Ecn) -> Packet {
    Packet {
        at,
        size: 1500,
        class: 0,
        ecn,
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[test]
fn l4s_packets_go_first_and_leave_a_tenth_to_the_classic_ones() {
    let mut packets = vec![packet(Time::ZERO, Ecn::Ect1); 60];
    packets.extend(vec![packet(Time::ZERO, Ecn::NotEct); 20]);
    let run = run(&config(), &packets, 1);
    let classic: Vec<usize> = (0..run.order.len())
        .filter(|&place| run.order[place] >= 60)
        .collect();
    // Packet 0 is being sent. The credit begins at -80 full packets and grows by 10 with each L4S packet: 9
    // of them bring it above 0. A classic packet costs 90.
    assert_eq!(classic[..6], [10, 20, 30, 40, 50, 60]);
}

#[test]
fn l4s_packets_that_waited_for_more_than_1_ms_are_marked_unless_they_are_the_last() {
    let run = run(&config(), &[packet(Time::ZERO, Ecn::Ect1); 5], 1);
    // They waited 0, 1, 2, 3 and 4 ms.
    let marked = |&index: &usize| run.codepoints[index] == Ecn::Ce;
    assert!((0..5).filter(marked).eq([2, 3]));
    assert!(run.lost_to(LossCause::DualPi2).is_empty());
}

#[test]
fn a_full_queue_drops_whatever_arrives() {
    let config = PipeConfig {
        capacity: Capacity::Packets(3),
        ..config()
    };
    let mut packets = vec![packet(Time::ZERO, Ecn::NotEct); 3];
    packets.extend([packet(Time::ZERO, Ecn::Ect1)]);
    assert_eq!(run(&config, &packets, 1).lost_to(LossCause::QueueFull), [3]);
}

/// Classic packets at 1.25 times the bandwidth for a minute, and an L4S packet every 10 ms.
fn overload() -> (Vec<Packet>, Run) {
    let at = |micros| Time::ZERO + Duration::from_micros(micros);
    let classic = (0..75_000).map(|n| packet(at(n * 800), Ecn::NotEct));
    let l4s = (0..6_000).map(|n| Packet {
        size: 100,
        ..packet(at(n * 10_000 + 333), Ecn::Ect1)
    });
    let mut packets: Vec<Packet> = classic.chain(l4s).collect();
    packets.sort_by_key(|packet| packet.at);
    let run = run(&config(), &packets, 1);
    (packets, run)
}

#[test]
fn an_overload_settles_at_the_target_and_l4s_packets_hardly_wait() {
    let (packets, run) = overload();
    let late = |&index: &usize| packets[index].at >= Time::from_secs(30);
    let (mut classic, mut l4s, mut marks) = (Vec::new(), Vec::new(), 0);
    for index in run.order.iter().copied().filter(late) {
        let waited = millis(run.far_end(index).unwrap() - packets[index].at);
        match packets[index].ecn {
            Ecn::Ect1 => l4s.push(waited),
            _ => classic.push(waited - 1.0),
        }
        marks += usize::from(run.codepoints[index] == Ecn::Ce);
    }
    let mean = classic.iter().sum::<f64>() / classic.len() as f64;
    assert!((mean - 15.0).abs() < 1.0, "{mean}");
    // A packet of 100 bytes takes 67 us, after the classic one that is being sent. After 135 of them, which are
    // a tenth of nine classic ones, it is a classic one's turn once more.
    let turns = l4s.iter().filter(|&&waited| waited > 1.07).count();
    assert!(turns <= l4s.len().div_ceil(135), "{turns} of {}", l4s.len());
    assert!(l4s.iter().all(|&waited| waited < 2.07));
    // Of 1250 classic packets a second, 993 pass: p squared is 0.205. L4S packets are marked with 2 p.
    let lost = run.lost_to(LossCause::DualPi2).into_iter().filter(late);
    let lost = lost.count() as f64 / 37_500.0;
    assert!((lost - 0.205).abs() < 0.005, "{lost}");
    let share = marks as f64 / l4s.len() as f64;
    assert!((share - 0.906).abs() < 0.03, "{share}");
}
