//! ImTCP measures the available bandwidth in the simulator, and ImTCP-bg keeps to it.

use fairwind_cc::native::{TcpSock, find};
use fairwind_path::units::{Bandwidth, Duration, Time};
use fairwind_sim::outcome::{Observer, Outcome, PipeSample};
use fairwind_sim::run;
use fairwind_sim::scenario::{FlowConfig, Hop, Sampling, Scenario, Stack, TcpConfig};
use fairwind_workload::Application;

use common::pipe;

mod common;

const MBPS: u64 = 100;
const SECONDS: u64 = 12;
/// Results before this are of the search for the range.
const SETTLED: Time = Time::from_millis(3000);

/// One connection over 100 Mbit/s with a round-trip time of 30 ms and a queue of one bandwidth-delay
/// product, beside UDP of `udp_mbps`.
fn beside_udp(control: &str, stack: Stack, udp_mbps: u64) -> Scenario {
    let delay = Duration::from_millis(15);
    let hop = |pipe| Hop { pipe, class: 0 };
    let mut pipes = vec![pipe(MBPS, delay, 250), pipe(MBPS, delay, 250)];
    let mut applications = vec![Application::Bulk { bytes: None }];
    if udp_mbps > 0 {
        applications.push(Application::ConstantRate {
            rate: Bandwidth::from_mbps(udp_mbps),
            packet: 1500,
        });
    }
    let parameters = find(control)
        .expect("a control of cc/")
        .default_parameters();
    let mut flows = Vec::new();
    for application in applications {
        let access = pipes.len() as u32;
        for _ in 0..2 {
            pipes.push(pipe(10 * MBPS, Duration::ZERO, 1000));
        }
        flows.push(FlowConfig {
            hosts: [flows.len() as u32 + 1, 0],
            start: Time::ZERO,
            application,
            tcp: TcpConfig {
                stack,
                hz: Some(250),
                ..TcpConfig::new(parameters.clone())
            },
            forward: vec![hop(access), hop(0)],
            backward: vec![hop(access + 1), hop(1)],
        });
    }
    Scenario {
        seed: 1,
        duration: Duration::from_secs(SECONDS),
        warmup: Duration::ZERO,
        pipes,
        flows,
        sampling: Sampling::Every(Duration::from_millis(10)),
    }
}

/// What is seen of a run every 10 ms: the latest result, Mbit/s on the wire, and the queue, packets.
#[derive(Default)]
struct Watch {
    results: Vec<f64>,
    queue: Vec<u64>,
}

impl Observer for Watch {
    fn socket(&mut self, flow: usize, _: usize, now: Time, socket: &TcpSock) {
        if flow == 0 && now >= SETTLED {
            // `available`, the sixth field of `struct imtcp`, kbit/s of payload.
            let available = (socket.icsk_ca_priv[2] >> 32) as u32;
            self.results
                .push(f64::from(available) * 1500.0 / 1448.0 / 1000.0);
        }
    }

    fn pipe(&mut self, pipe: usize, now: Time, sample: &PipeSample) {
        if pipe == 0 && now >= SETTLED {
            self.queue.push(sample.queue_packets);
        }
    }
}

fn watch(control: &str, stack: Stack, udp_mbps: u64) -> (Watch, Outcome) {
    let mut watch = Watch::default();
    let outcome = run(&beside_udp(control, stack, udp_mbps), &mut watch);
    (watch, outcome)
}

/// Asserts that the result is within `half` Mbit/s of what UDP leaves half of the time, and within
/// `nine_tenths` nine tenths of it.
fn check_results(control: &str, stack: Stack, [half, nine_tenths]: [f64; 2]) {
    for udp_mbps in [0, 30, 60] {
        let (watch, _) = watch(control, stack, udp_mbps);
        let available = (MBPS - udp_mbps) as f64;
        let off = |result: &f64| (result - available).abs();
        let mut errors: Vec<f64> = watch.results.iter().map(off).collect();
        errors.sort_by(f64::total_cmp);
        let (median, ninth) = (errors[errors.len() / 2], errors[errors.len() * 9 / 10]);
        assert!(
            median <= half && ninth <= nine_tenths,
            "{control} beside {udp_mbps} Mbit/s: errors of {median:.1} and {ninth:.1} Mbit/s"
        );
    }
}

#[test]
fn the_available_bandwidth_is_measured_while_reno_fills_the_queue() {
    check_results("imtcp", Stack::Linux, [2.5, 5.0]);
}

#[test]
fn it_is_measured_while_the_queue_is_short() {
    check_results("imtcp_bg", Stack::Linux, [2.5, 5.0]);
}

#[test]
fn it_is_measured_by_ten_packets_sent_one_by_one() {
    check_results("imtcp", Stack::Classic2005, [5.0, 15.0]);
}

#[test]
fn in_the_background_it_takes_most_of_what_is_left_and_keeps_the_queue_short() {
    for udp_mbps in [0, 30, 60] {
        let (watch, outcome) = watch("imtcp_bg", Stack::Linux, udp_mbps);
        let left = (MBPS - udp_mbps) as f64 * 1448.0 / 1500.0;
        let share = outcome.flows[0].bytes as f64 * 8e-6 / SECONDS as f64 / left;
        assert!(
            (0.75..1.0).contains(&share),
            "{share} beside {udp_mbps} Mbit/s"
        );
        let mean = watch.queue.iter().sum::<u64>() as f64 / watch.queue.len() as f64;
        assert!(mean < 10.0, "{mean} packets beside {udp_mbps} Mbit/s");
        // Slow start alone may fill the queue once.
        let udp = outcome.flows.get(1);
        assert!(
            udp.is_none_or(|udp| udp.packets_lost * 1000 < udp.packets_sent),
            "{udp:?}"
        );
    }
}
