//! PIE on pipes: when it begins, what it controls, and that a scheduler's queue is treated like a FIFO one.

use fairwind_path::pie::PieConfig;
use fairwind_path::pipe::{Aqm, LossCause, PipeConfig};
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::scheduler::SchedulerConfig;
use fairwind_path::units::{Bandwidth, Duration, Time};

use crate::drive::{Packet, Run, burst, run};

/// Packets of 1500 bytes take 1 ms each.
fn config(aqm: Aqm) -> PipeConfig {
    PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_mbps(12)),
        capacity: Capacity::Packets(1_000),
        aqm,
        ..PipeConfig::default()
    }
}

fn pie() -> PipeConfig {
    config(Aqm::Pie(PieConfig::default()))
}

/// Packets of 1500 bytes at a constant rate, a packet each `gap`, for a number of seconds.
fn stream(gap: Duration, secs: u64) -> Vec<Packet> {
    let packets = Duration::from_secs(secs).as_nanos() / gap.as_nanos();
    let packet = |number| burst(Time::ZERO + gap * number, 1, 1500);
    (0..packets).flat_map(packet).collect()
}

/// The waiting times, in milliseconds, of the packets that arrive from `from` seconds on.
fn waits(run: &Run, packets: &[Packet], from: u64) -> Vec<f64> {
    let late = |&index: &usize| packets[index].at >= Time::from_secs(from);
    let wait = |index: usize| {
        let time = run.far_end(index).unwrap() - packets[index].at;
        time.as_secs_f64() * 1e3 - 1.0
    };
    run.order.iter().copied().filter(late).map(wait).collect()
}

#[test]
fn a_burst_of_less_than_150_ms_loses_nothing() {
    let mut packets = burst(Time::from_millis(1), 130, 1500);
    packets.extend(burst(Time::from_secs(30), 130, 1500));
    assert_eq!(run(&pie(), &packets, 1).order.len(), 260);
}

/// 1.25 packets a millisecond arrive and one is sent. In equilibrium a fifth is dropped, whatever the queue;
/// the controller holds it where the delay is the target.
#[test]
fn the_delay_of_an_overload_that_does_not_react_settles_at_the_target() {
    let packets = stream(Duration::from_micros(800), 60);
    let run = run(&pie(), &packets, 1);
    let waits = waits(&run, &packets, 30);
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    assert!((mean - 15.0).abs() < 1.0, "{mean}");
    let late = |&&index: &&usize| packets[index].at >= Time::from_secs(30);
    let lost = run.lost_to(LossCause::Pie);
    let share = lost.iter().filter(late).count() as f64 / 37_500.0;
    assert!((share - 0.2).abs() < 0.005, "{share}");
    assert!(run.lost_to(LossCause::QueueFull).is_empty());
}

#[test]
fn the_target_is_a_parameter() {
    let slow = PieConfig {
        target: Duration::from_millis(40),
        ..PieConfig::default()
    };
    let packets = stream(Duration::from_micros(800), 60);
    let waits = waits(&run(&config(Aqm::Pie(slow)), &packets, 1), &packets, 30);
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    assert!((mean - 40.0).abs() < 2.0, "{mean}");
}

#[test]
fn below_the_bandwidth_nothing_is_dropped() {
    let packets = stream(Duration::from_micros(1_010), 10);
    assert_eq!(run(&pie(), &packets, 1).order.len(), packets.len());
}

/// A scheduler holds the packets, a FIFO queue knows their departures at arrival.
#[test]
fn one_class_of_a_scheduler_and_a_fifo_queue_drop_the_same_packets() {
    let held = PipeConfig {
        scheduler: SchedulerConfig::StrictPriority { classes: 1 },
        ..pie()
    };
    let mut packets = stream(Duration::from_micros(700), 4);
    packets.extend(burst(Time::from_secs(5), 300, 1200));
    let late = stream(Duration::from_micros(930), 10);
    packets.extend(
        late.into_iter()
            .filter(|packet| packet.at > Time::from_secs(6)),
    );
    let (fifo, held) = (run(&pie(), &packets, 3), run(&held, &packets, 3));
    assert!(!fifo.lost_to(LossCause::Pie).is_empty());
    assert_eq!(fifo.fates, held.fates);
}
