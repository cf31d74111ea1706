//! Strict priority and WF2Q+: order, shares and delay bounds.

use fairwind_path::ecn::Ecn;
use fairwind_path::pipe::PipeConfig;
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::scheduler::SchedulerConfig;
use fairwind_path::units::{Bandwidth, Duration, Time};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::drive::{Packet, run};

/// 8 Mbit/s, which is a byte a microsecond.
fn config(scheduler: SchedulerConfig) -> PipeConfig {
    let bandwidth = Rate::Constant(Bandwidth::from_mbps(8));
    PipeConfig {
        bandwidth,
        scheduler,
        ..PipeConfig::default()
    }
}

fn packet(at_us: u64, size: u32, class: u16) -> Packet {
    Packet {
        at: Time::from_micros(at_us),
        size,
        class,
        ecn: Ecn::NotEct,
    }
}

#[test]
fn a_higher_class_goes_first_and_interrupts_nobody() {
    let config = config(SchedulerConfig::StrictPriority { classes: 3 });
    let packets = [
        packet(0, 1000, 2),
        packet(10, 1000, 2),
        packet(20, 1000, 1),
        packet(30, 1000, 0),
        packet(40, 1000, 0),
    ];
    assert_eq!(run(&config, &packets, 1).order, [0, 3, 4, 2, 1]);
}

#[test]
fn a_class_too_large_is_the_last_one() {
    let config = config(SchedulerConfig::StrictPriority { classes: 2 });
    let packets = [
        packet(0, 1000, 0),
        packet(1, 1000, 9),
        packet(2, 1000, 1),
        packet(3, 1000, 0),
    ];
    assert_eq!(run(&config, &packets, 1).order, [0, 3, 1, 2]);
}

#[test]
fn each_class_has_a_queue_of_its_own() {
    let config = PipeConfig {
        capacity: Capacity::Packets(2),
        ..config(SchedulerConfig::Wf2q {
            weights: vec![1, 1],
        })
    };
    let packets = [0, 0, 0, 0, 1, 1, 1].map(|class| packet(0, 1000, class));
    // Class 0: one being sent and one waiting; class 1: two waiting.
    assert_eq!(run(&config, &packets, 1).order.len(), 4);
}

/// Bytes of each class sent by `until`.
fn served(run: &crate::drive::Run, packets: &[Packet], classes: usize, until: Time) -> Vec<u64> {
    let mut served = vec![0; classes];
    for &index in &run.order {
        if run.far_end(index).unwrap() <= until {
            served[usize::from(packets[index].class)] += u64::from(packets[index].size);
        }
    }
    served
}

proptest! {
    /// Bennett and Zhang: while a class of share phi is backlogged, it gets at least phi of the bytes
    /// sent, less L_i + (L_max - L_i) phi. All classes are backlogged from time 0, so one class's deficit
    /// is the most that the others can gain.
    #[test]
    fn backlogged_classes_share_by_weight(
        classes in vec((1u32..50, vec(40u32..=1500, 300)), 2..6),
        checks in vec(1u64..100_000, 10),
    ) {
        let weights: Vec<u32> = classes.iter().map(|&(weight, _)| weight).collect();
        let total: u32 = weights.iter().sum();
        let mut packets = Vec::new();
        for (class, (_, sizes)) in classes.iter().enumerate() {
            packets.extend(sizes.iter().map(|&size| packet(0, size, class as u16)));
        }
        let run = run(&config(SchedulerConfig::Wf2q { weights: weights.clone() }), &packets, 1);
        let all_backlogged_until = classes.iter().enumerate().map(|(class, (_, sizes))| {
            run.far_end(class * 300 + 299).unwrap() - Duration::from_micros(sizes[299].into())
        }).map(|length| length.as_nanos()).min().unwrap();
        for check in checks {
            let until = Time::from_nanos(all_backlogged_until * check / 100_000);
            let served = served(&run, &packets, weights.len(), until);
            let sent: u64 = served.iter().sum();
            for (class, &bytes) in served.iter().enumerate() {
                let phi = f64::from(weights[class]) / f64::from(total);
                let largest = f64::from(*classes[class].1.iter().max().unwrap());
                let lag = largest + (1500.0 - largest) * phi;
                prop_assert!(bytes as f64 + lag + 0.01 >= phi * sent as f64,
                    "class {class} of share {phi} got {bytes} of {sent}");
            }
        }
    }

    /// Bennett and Zhang: a class that conforms to a bucket of sigma bytes at its rate r_i waits no
    /// longer than sigma / r_i + L_max / r, whatever the other classes do.
    #[test]
    fn a_class_that_keeps_to_its_rate_waits_no_longer_than_the_bound(
        weight in 1u32..20,
        others in vec((1u32..50, vec((0u64..3_000, 40u32..=1500), 200)), 1..5),
        wanted in vec((0u64..20_000, 40u32..=1500), 60),
        sigma in 1500u64..6_000,
    ) {
        let mut weights = vec![weight];
        weights.extend(others.iter().map(|&(weight, _)| weight));
        let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        // The class' rate is weight / total bytes a microsecond. Tokens in bytes times total.
        let (full, weight) = (sigma * total, u64::from(weight));
        let (mut tokens, mut now) = (full, 0);
        let mut packets = Vec::new();
        for (gap, size) in wanted {
            tokens = full.min(tokens + gap * weight);
            now += gap;
            let needed = u64::from(size) * total;
            if tokens < needed {
                let wait = (needed - tokens).div_ceil(weight);
                tokens += wait * weight;
                now += wait;
            }
            tokens -= needed;
            packets.push(packet(now, size, 0));
        }
        for (class, (_, sizes)) in others.iter().enumerate() {
            let mut at = 0;
            for &(gap, size) in sizes {
                at += gap;
                packets.push(packet(at, size, class as u16 + 1));
            }
        }
        packets.sort_by_key(|packet| packet.at);
        let run = run(&config(SchedulerConfig::Wf2q { weights }), &packets, 1);
        let bound = Duration::from_micros((sigma * total).div_ceil(weight) + 1500 + 1);
        for (index, packet) in packets.iter().enumerate().filter(|(_, packet)| packet.class == 0) {
            let waited = run.far_end(index).unwrap() - packet.at;
            prop_assert!(waited <= bound, "packet {index} waited {waited}, more than {bound}");
        }
    }
}
