//! Properties of whole runs: every byte arrives whatever the path does, and a seed always gives the
//! same run.

use fairwind_cc::native::all;
use fairwind_path::delay::ReorderConfig;
use fairwind_path::delay::{Delay, DelayConfig, Displacement, Jitter, JitterDistribution};
use fairwind_path::loss::LossConfig;
use fairwind_path::pipe::PipeConfig;
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::units::{Bandwidth, Bytes, Duration, Time};
use fairwind_testing::fuzz::cases;
use proptest::prelude::*;

use super::script::tcp;
use crate::outcome::{FlowOutcome, Outcome};
use crate::run;
use crate::scenario::{FlowConfig, Hop, Sampling, Scenario, Stack, TcpConfig};
use fairwind_workload::Application;

const MBIT: u64 = 1_000_000;

/// A path in both directions and the flows over it.
#[derive(Clone, Debug)]
struct Path {
    bandwidth_bps: u64,
    queue: u32,
    delay_us: u64,
    jitter_us: u64,
    loss: f64,
    ack_loss: f64,
    duplicate: f64,
    late: f64,
}

#[derive(Clone, Debug)]
struct Flow {
    control: usize,
    stack: Stack,
    bytes: u64,
    start_ms: u64,
    receive_buffer: Option<u64>,
    send_buffer: Option<u64>,
    pacing: bool,
}

fn path() -> impl Strategy<Value = Path> {
    (
        100_000u64..50 * MBIT,
        1u32..60,
        0u64..60_000,
        prop_oneof![Just(0u64), 1u64..20_000],
        prop_oneof![Just(0.0), 0.0..0.1],
        prop_oneof![Just(0.0), 0.0..0.2],
        prop_oneof![Just(0.0), 0.0..0.1],
        prop_oneof![Just(0.0), 0.0..0.05],
    )
        .prop_map(
            |(bandwidth_bps, queue, delay_us, jitter_us, loss, ack_loss, duplicate, late)| Path {
                bandwidth_bps,
                queue,
                delay_us,
                jitter_us,
                loss,
                ack_loss,
                duplicate,
                late,
            },
        )
}

fn flow() -> impl Strategy<Value = Flow> {
    (
        0..all().len(),
        prop_oneof![Just(Stack::Linux), Just(Stack::Classic2005)],
        1u64..200_000,
        0u64..300,
        prop_oneof![Just(None), (600u64..100_000).prop_map(Some)],
        prop_oneof![Just(None), (3000u64..50_000).prop_map(Some)],
        any::<bool>(),
    )
        .prop_map(
            |(control, stack, bytes, start_ms, receive_buffer, send_buffer, pacing)| Flow {
                control,
                stack,
                bytes,
                start_ms,
                receive_buffer,
                send_buffer,
                pacing,
            },
        )
}

fn pipe(path: &Path, loss: f64) -> PipeConfig {
    PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_bps(path.bandwidth_bps)),
        capacity: Capacity::Packets(path.queue),
        delay: DelayConfig {
            base: Delay::Constant(Duration::from_micros(path.delay_us)),
            jitter: (path.jitter_us > 0).then_some(Jitter {
                amount: Duration::from_micros(path.jitter_us),
                distribution: JitterDistribution::Uniform,
                correlation: 0.0,
                overtake: true,
            }),
        },
        loss: LossConfig::Bernoulli(loss),
        duplicate: path.duplicate,
        reorder: (path.late > 0.0).then_some(ReorderConfig {
            probability: path.late,
            displacement: Displacement::Late(Duration::from_millis(30)),
        }),
        ..PipeConfig::default()
    }
}

fn scenario(seed: u64, path: &Path, flows: &[Flow]) -> Scenario {
    let hop = |pipe| vec![Hop { pipe, class: 0 }];
    Scenario {
        seed,
        duration: Duration::from_secs(100_000),
        warmup: Duration::ZERO,
        pipes: vec![pipe(path, path.loss), pipe(path, path.ack_loss)],
        flows: flows
            .iter()
            .map(|flow| FlowConfig {
                hosts: [0, 1],
                start: Time::from_millis(flow.start_ms),
                application: Application::Bulk {
                    bytes: Some(Bytes(flow.bytes)),
                },
                tcp: TcpConfig {
                    receive_buffer: flow.receive_buffer.map(Bytes),
                    send_buffer: flow.send_buffer.map(Bytes),
                    pacing: flow.pacing,
                    ..tcp(all()[flow.control].name(), flow.stack)
                },
                forward: hop(0),
                backward: hop(1),
            })
            .collect(),
        sampling: Sampling::Off,
    }
}

fn goodput_bps(flow: &FlowOutcome) -> f64 {
    let time = flow
        .completion
        .map_or(f64::INFINITY, |time| time.as_secs_f64());
    flow.bytes as f64 * 8.0 / time
}

fn check(path: &Path, flows: &[Flow], outcome: &Outcome) -> Result<(), TestCaseError> {
    for (flow, outcome) in flows.iter().zip(&outcome.flows) {
        prop_assert!(outcome.completion.is_some(), "not completed: {flow:?}");
        prop_assert_eq!(outcome.bytes, flow.bytes);
        // One packet may have been in transit at the start, but the path also carries headers.
        prop_assert!(goodput_bps(outcome) <= path.bandwidth_bps as f64);
        prop_assert!(outcome.packets_sent * 1448 >= flow.bytes.saturating_sub(1448));
        prop_assert!(outcome.retransmits <= outcome.packets_sent);
        if let (Some(least), Some(mean)) = (outcome.rtt_min, outcome.rtt_mean) {
            prop_assert!(least <= mean + Duration::from_micros(1));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn every_transfer_completes_whatever_the_path_does(
        seed in any::<u64>(),
        path in path(),
        flows in prop::collection::vec(flow(), 1..4),
    ) {
        let outcome = run(&scenario(seed, &path, &flows), &mut ());
        check(&path, &flows, &outcome)?;
    }

    #[test]
    fn the_same_seed_gives_the_same_outcome(
        seed in any::<u64>(),
        path in path(),
        flows in prop::collection::vec(flow(), 1..3),
    ) {
        let scenario = scenario(seed, &path, &flows);
        prop_assert_eq!(run(&scenario, &mut ()), run(&scenario, &mut ()));
    }

    #[test]
    fn a_path_that_loses_nothing_needs_no_retransmission(
        seed in any::<u64>(),
        bandwidth_bps in 20 * MBIT..100 * MBIT,
        delay_us in 1_000u64..50_000,
        flow in flow(),
    ) {
        let path = Path {
            bandwidth_bps,
            queue: 10_000,
            delay_us,
            jitter_us: 0,
            loss: 0.0,
            ack_loss: 0.0,
            duplicate: 0.0,
            late: 0.0,
        };
        let flow = Flow { receive_buffer: None, ..flow };
        let outcome = run(&scenario(seed, &path, std::slice::from_ref(&flow)), &mut ());
        check(&path, std::slice::from_ref(&flow), &outcome)?;
        prop_assert_eq!(outcome.flows[0].retransmits, 0);
        prop_assert_eq!(outcome.flows[0].timeouts, 0);
    }
}

#[test]
fn a_long_transfer_fills_a_path_without_loss() {
    // 10 Mbit/s, 20 ms, a queue of 100 packets, which is more than the 17 packets of the
    // bandwidth-delay product: 1448 of 1500 bytes are payload, so 9.65 Mbit/s at best.
    for stack in [Stack::Linux, Stack::Classic2005] {
        let path = Path {
            bandwidth_bps: 10 * MBIT,
            queue: 100,
            delay_us: 10_000,
            jitter_us: 0,
            loss: 0.0,
            ack_loss: 0.0,
            duplicate: 0.0,
            late: 0.0,
        };
        let reno = all().iter().position(|control| control.name() == "reno");
        let flow = Flow {
            control: reno.expect("reno is in cc/"),
            stack,
            bytes: 20_000_000,
            start_ms: 0,
            receive_buffer: None,
            send_buffer: None,
            pacing: false,
        };
        let outcome = run(&scenario(1, &path, std::slice::from_ref(&flow)), &mut ());
        let mbps = goodput_bps(&outcome.flows[0]) / 1e6;
        assert!((9.4..9.66).contains(&mbps), "{stack:?}: {mbps} Mbit/s");
        assert_eq!(outcome.flows[0].timeouts, 0);
    }
}
