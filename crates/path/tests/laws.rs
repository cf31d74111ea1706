//! Invariants of every pipe, whatever its configuration.

use std::sync::Arc;

use fairwind_path::accounting::Accounting;
use fairwind_path::aggregation::AggregationConfig;
use fairwind_path::codel::CoDelConfig;
use fairwind_path::delay::{
    Delay, DelayConfig, Displacement, Jitter, JitterDistribution, ReorderConfig,
};
use fairwind_path::dualpi2::DualPi2Config;
use fairwind_path::ecn::Ecn;
use fairwind_path::fq_codel::FqCoDelConfig;
use fairwind_path::loss::LossConfig;
use fairwind_path::pie::PieConfig;
use fairwind_path::pipe::{Aqm, Arrival, LossCause, Offer, Pipe, PipeConfig};
use fairwind_path::policer::PolicerConfig;
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::red::RedConfig;
use fairwind_path::scheduler::SchedulerConfig;
use fairwind_path::trace::{Opportunities, Steps};
use fairwind_path::units::{Bandwidth, Bytes, Duration, Time};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::drive::{Fate, Packet, run, run_late};

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let gap = prop_oneof![Just(0u64), 0u64..2_000_000, 0u64..50_000_000];
    vec((gap, 40u32..=1500, 0u16..5, 0u8..4), 1..300).prop_map(|list| {
        let mut at = Time::ZERO;
        let packet = |(gap, size, class, bits)| {
            at += Duration::from_nanos(gap);
            let ecn = Ecn::from_bits(bits);
            Packet {
                at,
                size,
                class,
                ecn,
            }
        };
        list.into_iter().map(packet).collect()
    })
}

fn constant_rate() -> impl Strategy<Value = Rate> {
    (100_000u64..100_000_000).prop_map(|bps| Rate::Constant(Bandwidth::from_bps(bps)))
}

fn any_rate() -> impl Strategy<Value = Rate> {
    let steps = vec((1u64..50, 0u64..50_000_000), 1..10).prop_map(|steps| {
        let mut at = Time::ZERO;
        let mut points = vec![(at, Bandwidth::from_mbps(1))];
        for (millis, bps) in steps {
            at += Duration::from_millis(millis);
            points.push((at, Bandwidth::from_bps(bps)));
        }
        Rate::Steps(Arc::new(Steps::new(points).unwrap().repeated()))
    });
    let opportunities = vec((1u64..10, 1u32..4), 1..50).prop_map(|list| {
        let mut at = Time::ZERO;
        let point = |(millis, packets)| {
            at += Duration::from_millis(millis);
            (at, packets)
        };
        Rate::Opportunities(Arc::new(
            Opportunities::new(list.into_iter().map(point)).unwrap(),
        ))
    });
    prop_oneof![Just(Rate::Unlimited), constant_rate(), steps, opportunities]
}

fn any_scheduler() -> impl Strategy<Value = SchedulerConfig> {
    prop_oneof![
        Just(SchedulerConfig::Fifo),
        (1u16..4).prop_map(|classes| SchedulerConfig::StrictPriority { classes }),
        vec(1u32..100, 1..5).prop_map(|weights| SchedulerConfig::Wf2q { weights }),
    ]
}

fn any_config() -> impl Strategy<Value = PipeConfig> {
    let capacity = prop_oneof![
        Just(Capacity::Unlimited),
        (1u32..50).prop_map(Capacity::Packets),
        (1_000u64..50_000).prop_map(Capacity::Bytes),
    ];
    let aqm = prop_oneof![
        Just(Aqm::DropTail),
        any::<(bool, bool)>().prop_map(|(gentle, ecn)| {
            Aqm::Red(RedConfig {
                w_q: 0.1,
                gentle,
                ecn,
                ..RedConfig::default()
            })
        }),
        any::<bool>().prop_map(|ecn| {
            Aqm::CoDel(CoDelConfig {
                ecn,
                ..CoDelConfig::default()
            })
        }),
        Just(Aqm::DualPi2(DualPi2Config {
            target: Duration::from_millis(2),
            alpha: 10.0,
            beta: 100.0,
            ..DualPi2Config::default()
        })),
        (1u32..10, any::<bool>()).prop_map(|(flows, ecn)| {
            Aqm::FqCoDel(FqCoDelConfig {
                flows,
                ecn,
                ..FqCoDelConfig::default()
            })
        }),
        (0u64..20, any::<bool>()).prop_map(|(millis, ecn)| {
            Aqm::Pie(PieConfig {
                ecn,
                target: Duration::from_millis(2),
                max_burst: Duration::from_millis(millis),
                alpha: 10.0,
                beta: 100.0,
                ..PieConfig::default()
            })
        }),
    ];
    let loss = prop_oneof![
        Just(LossConfig::None),
        (0.0..1.0).prop_map(LossConfig::Bernoulli),
        (0.0..0.2, 0.2..1.0, 0.0..0.5).prop_map(|(p, r, h)| LossConfig::GilbertElliott {
            p,
            r,
            h,
            k: 1.0
        }),
    ];
    let distribution = prop_oneof![
        Just(JitterDistribution::Uniform),
        Just(JitterDistribution::Normal),
        Just(JitterDistribution::Pareto),
    ];
    let policer =
        (10_000u64..50_000_000, 1_500u64..20_000).prop_map(|(bps, burst)| PolicerConfig {
            rate: Bandwidth::from_bps(bps),
            burst: Bytes(burst),
        });
    let aggregation =
        (1u64..10_000, proptest::option::of(1u32..20)).prop_map(|(micros, packets)| {
            AggregationConfig {
                interval: Duration::from_micros(micros),
                packets,
            }
        });
    let jitter = (0u64..20, distribution, 0.0..0.99, any::<bool>()).prop_map(
        |(millis, distribution, correlation, overtake)| Jitter {
            amount: Duration::from_millis(millis),
            distribution,
            correlation,
            overtake,
        },
    );
    let delay = (0u64..30, proptest::option::of(jitter)).prop_map(|(millis, jitter)| DelayConfig {
        base: Delay::Constant(Duration::from_millis(millis)),
        jitter,
    });
    let displacement = prop_oneof![
        Just(Displacement::SkipsDelay),
        (0u64..10).prop_map(|millis| Displacement::Late(Duration::from_millis(millis))),
    ];
    let reorder = (0.0..0.3, displacement).prop_map(|(probability, displacement)| ReorderConfig {
        probability,
        displacement,
    });
    let accounting = prop_oneof![
        Just(Accounting::Ip),
        Just(Accounting::Ethernet),
        Just(Accounting::EthernetWire)
    ];
    (
        (any_rate(), accounting, delay, capacity, aqm),
        (
            any_scheduler(),
            loss,
            prop_oneof![Just(0.0), 0.0..0.3],
            proptest::option::of(reorder),
            proptest::option::of(policer),
            proptest::option::of(aggregation),
        ),
    )
        .prop_map(
            |(
                (bandwidth, accounting, delay, capacity, aqm),
                (scheduler, loss, duplicate, reorder, policer, aggregation),
            )| {
                PipeConfig {
                    bandwidth,
                    accounting,
                    delay,
                    policer,
                    aggregation,
                    capacity,
                    scheduler: match aqm.schedules() {
                        true => SchedulerConfig::Fifo,
                        false => scheduler,
                    },
                    aqm,
                    loss,
                    duplicate,
                    reorder,
                }
            },
        )
}

/// The end of transmission of each packet in a FIFO queue, in exact arithmetic.
fn exact_departures(packets: &[Packet], bps: u64) -> Vec<Time> {
    // In units of 10^-9 s / bps.
    let mut end: u128 = 0;
    let departure = |packet: &Packet| {
        let arrival = u128::from(packet.at.as_nanos()) * u128::from(bps);
        end = end.max(arrival) + u128::from(packet.size) * 8_000_000_000;
        Time::from_nanos(end.div_ceil(u128::from(bps)) as u64)
    };
    packets.iter().map(departure).collect()
}

proptest! {
    #[test]
    fn every_packet_has_one_fate_and_the_counts_balance(
        config in any_config(), packets in packets(), seed: u64,
    ) {
        let mut run = run(&config, &packets, seed);
        let end = Time::from_secs(3_600);
        let statistics = run.pipe.statistics(end);
        let lost = |cause| run.lost_to(cause).len() as u64;
        let causes = [
            LossCause::QueueFull,
            LossCause::Red,
            LossCause::CoDel,
            LossCause::Pie,
            LossCause::DualPi2,
        ];
        prop_assert_eq!(statistics.drops, causes.into_iter().map(lost).sum::<u64>());
        prop_assert_eq!(statistics.random_losses, lost(LossCause::Random));
        prop_assert_eq!(statistics.policed, lost(LossCause::Policer));
        prop_assert_eq!(statistics.arrived, packets.len() as u64);
        prop_assert_eq!(
            statistics.arrived,
            statistics.packets
                + statistics.drops
                + statistics.random_losses
                + statistics.policed
        );
        let bytes = run.order.iter().map(|&index| u64::from(packets[index].size)).sum::<u64>();
        prop_assert_eq!(statistics.bytes, bytes);
        prop_assert_eq!(run.pipe.bytes_out(end), bytes);
        prop_assert_eq!(run.pipe.queue(end).packets, 0);
        prop_assert_eq!(run.pipe.queue(end).bytes, 0);
        let twice = run.fates.iter().filter(|fate| matches!(fate, Fate::Arrived(_, Some(_))));
        prop_assert_eq!(statistics.duplicates, twice.count() as u64);
        let marked = run.marked(&packets);
        prop_assert_eq!(statistics.marks, marked.len() as u64);
        for packet in marked {
            prop_assert!(packets[packet].ecn.is_capable());
            prop_assert_eq!(run.codepoints[packet], Ecn::Ce);
        }
        prop_assert!((0.0..=1.0).contains(&statistics.utilization));
        prop_assert!(statistics.queue_mean_pkts <= statistics.queue_max_pkts as f64);
    }

    #[test]
    fn no_packet_arrives_before_it_could(config in any_config(), packets in packets(), seed: u64) {
        let run = run(&config, &packets, seed);
        for (index, packet) in packets.iter().enumerate() {
            if let Fate::Arrived(first, second) = run.fates[index] {
                prop_assert!(first >= packet.at);
                prop_assert!(second.is_none_or(|second| second >= first));
            }
        }
    }

    #[test]
    fn nothing_is_reordered_where_none_is_asked_for(
        config in any_config(), packets in packets(), seed: u64,
    ) {
        let in_order = |jitter| Jitter { overtake: false, ..jitter };
        let config = PipeConfig {
            delay: DelayConfig { jitter: config.delay.jitter.map(in_order), ..config.delay },
            reorder: None,
            ..config
        };
        let run = run(&config, &packets, seed);
        prop_assert!(run.pipe.keeps_order());
        prop_assert!(run.far_ends().is_sorted());
        let classes = match config.aqm.schedules() {
            true => u16::MAX,
            false => config.scheduler.classes() as u16,
        };
        // DualPI2 keeps the order of each of its queues.
        let dual = matches!(config.aqm, Aqm::DualPi2(_));
        let l4s = |packet: &Packet| dual && matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce);
        for (class, queue) in (0..classes.min(5)).flat_map(|class| [(class, false), (class, true)]) {
            let of_queue = |&&index: &&usize| {
                let packet = &packets[index];
                packet.class.min(classes - 1) == class && l4s(packet) == queue
            };
            prop_assert!(run.order.iter().filter(of_queue).is_sorted());
        }
        let mut copies: Vec<(Time, Time)> = Vec::new();
        for &index in &run.order {
            if let Fate::Arrived(first, second) = run.fates[index] {
                copies.push((first, second.unwrap_or(first)));
            }
        }
        prop_assert!(copies.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }

    #[test]
    fn a_queue_is_served_exactly_at_its_rate(bps in 1u64..10_000_000_000, packets in packets()) {
        let bandwidth = Rate::Constant(Bandwidth::from_bps(bps));
        let run = run(&PipeConfig { bandwidth, ..PipeConfig::default() }, &packets, 1);
        prop_assert_eq!(run.far_ends(), exact_departures(&packets, bps));
    }

    /// Schedulers may differ in which packet they serve, but not in serving one whenever one waits.
    #[test]
    fn all_schedulers_conserve_work(
        bps in 100_000u64..100_000_000,
        scheduler in any_scheduler(),
        packets in packets(),
        checks in vec(0u64..1_000_000_000, 20),
    ) {
        let bandwidth = Rate::Constant(Bandwidth::from_bps(bps));
        let config = PipeConfig { bandwidth, scheduler, ..PipeConfig::default() };
        let mut run = run(&config, &packets, 1);
        let expected = exact_departures(&packets, bps);
        prop_assert_eq!(run.far_ends().last().copied(), expected.last().copied());

        // At any time, the work done equals that of a FIFO queue, except for the packet being sent.
        let done = |times: &[Time], order: &[usize], until: Time| -> u64 {
            let sent = times.iter().zip(order).filter(|&(&time, _)| time <= until);
            sent.map(|(_, &index)| u64::from(packets[index].size)).sum()
        };
        let in_order: Vec<usize> = (0..packets.len()).collect();
        let (far_ends, order) = (run.far_ends(), run.order.clone());
        for check in checks {
            let until = Time::from_nanos(check);
            let here = done(&far_ends, &order, until);
            let fifo = done(&expected, &in_order, until);
            prop_assert!(here.abs_diff(fifo) < 1500, "{here} and {fifo} bytes until {until}");
        }

        // The pipe is busy for exactly the time that the work takes, to a nanosecond a busy period.
        let end = *expected.last().unwrap();
        let busy = run.pipe.statistics(end).utilization * end.as_nanos() as f64;
        let work: u64 = packets.iter().map(|packet| u64::from(packet.size)).sum();
        let work = work as f64 * 8e9 / bps as f64;
        prop_assert!((busy - work).abs() <= packets.len() as f64 + 1.0, "{busy}, {work}");
    }

    /// With one class, a pipe that holds packets must behave like an immediate one.
    #[test]
    fn a_scheduler_of_one_class_is_a_fifo(
        config in any_config(), packets in packets(), seed: u64, weight in 1u32..9,
    ) {
        prop_assume!(!config.aqm.schedules());
        let fifo = PipeConfig {
            scheduler: SchedulerConfig::Fifo,
            delay: DelayConfig { jitter: None, ..config.delay },
            duplicate: 0.0,
            reorder: None,
            ..config
        };
        let wf2q = SchedulerConfig::Wf2q { weights: vec![weight] };
        for scheduler in [wf2q, SchedulerConfig::StrictPriority { classes: 1 }] {
            let other = PipeConfig { scheduler, ..fifo.clone() };
            let (mut fifo, mut other) = (run(&fifo, &packets, seed), run(&other, &packets, seed));
            prop_assert_eq!(&fifo.fates, &other.fates);
            let end = Time::from_secs(100);
            prop_assert_eq!(fifo.pipe.statistics(end), other.pipe.statistics(end));
        }
    }

    #[test]
    fn a_late_caller_delays_nobody(
        config in any_config(), packets in packets(), seed: u64, late in 0u64..30_000_000,
    ) {
        let prompt = run(&config, &packets, seed);
        let late = run_late(&config, &packets, seed, Duration::from_nanos(late));
        prop_assert_eq!(&prompt.fates, &late.fates);
        prop_assert_eq!(&prompt.order, &late.order);
    }

    #[test]
    fn the_same_seed_gives_the_same_run(config in any_config(), packets in packets(), seed: u64) {
        let (mut one, mut two) = (run(&config, &packets, seed), run(&config, &packets, seed));
        prop_assert_eq!(&one.fates, &two.fates);
        let end = Time::from_secs(100);
        prop_assert_eq!(one.pipe.statistics(end), two.pipe.statistics(end));
    }

    /// Little's law: the area under the queue length is the sum of the times spent in the queue.
    #[test]
    fn the_mean_queue_is_the_time_spent_in_it(
        rate in constant_rate(), limit in 1u32..40, packets in packets(),
    ) {
        let capacity = Capacity::Packets(limit);
        let config = PipeConfig { bandwidth: rate, capacity, ..PipeConfig::default() };
        let mut run = run(&config, &packets, 1);
        let spent = |&index: &usize| (run.far_end(index).unwrap() - packets[index].at).as_nanos();
        let spent: u64 = run.order.iter().map(spent).sum();
        let end = run.far_ends().last().copied().unwrap();
        let statistics = run.pipe.statistics(end);
        let area = statistics.queue_mean_pkts * end.as_nanos() as f64;
        prop_assert!((area - spent as f64).abs() <= 1e-9 * spent as f64 + 1.0);
        prop_assert!(statistics.queue_max_pkts <= u64::from(limit));
        prop_assert!(statistics.queue_p99_pkts <= statistics.queue_max_pkts);
    }

    /// Queries between arrivals must not change the outcome.
    #[test]
    fn looking_at_a_pipe_changes_nothing(
        config in any_config(), packets in packets(), seed: u64,
    ) {
        let (mut seen, mut unseen) = (Pipe::new(&config, seed), Pipe::new(&config, seed));
        for (index, packet) in packets.iter().enumerate() {
            seen.queue(packet.at);
            seen.bytes_out(packet.at);
            let (at, offer) = (packet.at, packet.offer());
            let outcome = seen.arrive(at, offer, index);
            prop_assert_eq!(outcome, unseen.arrive(at, offer, index));
        }
        let end = Time::from_secs(100);
        loop {
            let departure = seen.depart(end);
            prop_assert_eq!(departure, unseen.depart(end));
            if departure.is_none() {
                break;
            }
        }
        prop_assert_eq!(seen.statistics(end), unseen.statistics(end));
    }
}

#[test]
fn a_duplicate_reaches_the_far_end_behind_its_original() {
    let config = PipeConfig {
        duplicate: 1.0,
        ..PipeConfig::default()
    };
    let now = Time::from_secs(1);
    assert_eq!(
        Pipe::new(&config, 1).arrive(now, Offer::of(100), ()),
        Arrival::Duplicated(now, now, Ecn::NotEct)
    );
}

#[test]
fn a_full_queue_in_bytes_still_takes_a_packet_that_fits() {
    let config = PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_mbps(8)),
        capacity: Capacity::Bytes(3_000),
        ..PipeConfig::default()
    };
    let mut pipe = Pipe::new(&config, 1);
    let outcomes = [1500, 1000, 501, 500].map(|size| pipe.arrive(Time::ZERO, Offer::of(size), ()));
    assert_eq!(outcomes[2], Arrival::Lost(LossCause::QueueFull));
    assert_eq!(
        outcomes[3],
        Arrival::Leaves(Time::from_micros(3_000), Ecn::NotEct)
    );
    assert_eq!(pipe.drops(), 1);
}

/// `check` rejects each of these; a pipe made from one anyway must not panic.
#[test]
fn a_wrong_configuration_does_not_panic() {
    let slow = || Rate::Constant(Bandwidth::from_bps(1_000_000));
    let jitter = Jitter {
        amount: Duration::from_millis(1),
        distribution: JitterDistribution::Normal,
        correlation: 2.0,
        overtake: false,
    };
    let red = RedConfig {
        w_q: f64::NAN,
        min_th: 5.0,
        max_th: 5.0,
        ..RedConfig::default()
    };
    let codel = CoDelConfig {
        target: Duration::ZERO,
        interval: Duration::ZERO,
        ecn: false,
    };
    let pie = PieConfig {
        tupdate: Duration::ZERO,
        alpha: f64::NAN,
        ..PieConfig::default()
    };
    let dualpi2 = DualPi2Config {
        tupdate: Duration::ZERO,
        beta: f64::NAN,
        coupling: f64::INFINITY,
        ..DualPi2Config::default()
    };
    let fq_codel = FqCoDelConfig {
        flows: 0,
        quantum: Bytes(0),
        ..FqCoDelConfig::default()
    };
    let wrong = [
        PipeConfig {
            bandwidth: slow(),
            aqm: Aqm::DualPi2(dualpi2),
            ..PipeConfig::default()
        },
        PipeConfig {
            bandwidth: slow(),
            aqm: Aqm::FqCoDel(fq_codel),
            ..PipeConfig::default()
        },
        PipeConfig {
            bandwidth: slow(),
            aqm: Aqm::FqCoDel(FqCoDelConfig::default()),
            scheduler: SchedulerConfig::StrictPriority { classes: 2 },
            ..PipeConfig::default()
        },
        PipeConfig {
            bandwidth: Rate::Constant(Bandwidth::from_bps(0)),
            scheduler: SchedulerConfig::StrictPriority { classes: 0 },
            ..PipeConfig::default()
        },
        PipeConfig {
            bandwidth: slow(),
            scheduler: SchedulerConfig::Wf2q {
                weights: Vec::new(),
            },
            ..PipeConfig::default()
        },
        PipeConfig {
            bandwidth: slow(),
            scheduler: SchedulerConfig::Wf2q {
                weights: vec![0, 0],
            },
            ..PipeConfig::default()
        },
        PipeConfig {
            bandwidth: slow(),
            aqm: Aqm::Red(red),
            ..PipeConfig::default()
        },
        PipeConfig {
            bandwidth: slow(),
            aqm: Aqm::CoDel(codel),
            ..PipeConfig::default()
        },
        PipeConfig {
            bandwidth: slow(),
            aqm: Aqm::Pie(pie),
            ..PipeConfig::default()
        },
        PipeConfig {
            policer: Some(PolicerConfig {
                rate: Bandwidth::from_bps(0),
                burst: Bytes(0),
            }),
            ..PipeConfig::default()
        },
        PipeConfig {
            aggregation: Some(AggregationConfig {
                interval: Duration::ZERO,
                packets: Some(0),
            }),
            ..PipeConfig::default()
        },
        PipeConfig {
            capacity: Capacity::Packets(0),
            ..PipeConfig::default()
        },
        PipeConfig {
            loss: LossConfig::Bernoulli(f64::NAN),
            ..PipeConfig::default()
        },
        PipeConfig {
            delay: DelayConfig {
                jitter: Some(jitter),
                ..DelayConfig::default()
            },
            ..PipeConfig::default()
        },
    ];
    for config in wrong {
        assert!(config.check().is_err(), "{config:?}");
        let mut pipe = Pipe::new(&config, 1);
        for millis in 0..1_000 {
            let now = Time::from_millis(millis);
            let class = millis as u16;
            let offer = Offer {
                class,
                flow: millis as u32,
                ..Offer::of(1500)
            };
            pipe.arrive(now, offer, millis);
            pipe.depart(now);
        }
        pipe.reset_statistics(Time::from_secs(1));
        pipe.statistics(Time::from_secs(2));
    }
}
