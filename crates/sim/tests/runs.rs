//! Whole runs over a dumbbell: what applications achieve, and that observing changes nothing.

use fairwind_cc::native::find;
use fairwind_path::delay::Delay;
use fairwind_path::dualpi2::DualPi2Config;
use fairwind_path::fq_codel::FqCoDelConfig;
use fairwind_path::pie::PieConfig;
use fairwind_path::pipe::Aqm;
use fairwind_path::queue::Capacity;
use fairwind_path::units::{Bandwidth, Bytes, Duration, Time};
use fairwind_sim::outcome::{Instruments, Observer, Outcome, PipeSample};
use fairwind_sim::run;
use fairwind_sim::scenario::{FlowConfig, Hop, Sampling, Scenario, Switch, TcpConfig};
use fairwind_workload::Application;

use common::pipe;

mod common;

const BOTTLENECK: u32 = 0;
const RETURN: u32 = 1;

/// A bottleneck of 10 Mbit/s with a base round-trip time of 20 ms and 50 slots; access at 100 Mbit/s.
fn dumbbell(applications: &[Application], seconds: u64) -> Scenario {
    let delay = Duration::from_millis(10);
    let mut pipes = vec![pipe(10, delay, 50), pipe(10, delay, 50)];
    let hop = |pipe| Hop { pipe, class: 0 };
    let control = find("reno").expect("cc/reno.c");
    let mut flows = Vec::new();
    for (index, application) in applications.iter().enumerate() {
        let access = pipes.len() as u32;
        for _ in 0..2 {
            pipes.push(pipe(100, Duration::ZERO, 1000));
        }
        flows.push(FlowConfig {
            hosts: [flows.len() as u32 + 1, 0],
            start: Time::from_millis(100 * index as u64),
            application: application.clone(),
            tcp: TcpConfig {
                hz: Some(250),
                ..TcpConfig::new(control.default_parameters())
            },
            forward: vec![hop(access), hop(BOTTLENECK)],
            backward: vec![hop(access + 1), hop(RETURN)],
        });
    }
    Scenario {
        seed: 1,
        duration: Duration::from_secs(seconds),
        warmup: Duration::ZERO,
        pipes,
        flows,
        sampling: Sampling::Off,
    }
}

const GREEDY: Application = Application::Bulk { bytes: None };

fn mbps(outcome: &Outcome, flow: usize) -> f64 {
    let flow = &outcome.flows[flow];
    flow.bytes as f64 * 8e-6 / flow.active.as_secs_f64()
}

#[derive(Default)]
struct Watch {
    flow_samples: usize,
    pipe_samples: usize,
    last: Time,
    bytes_acked: u64,
}

impl Observer for Watch {
    fn flow(&mut self, _: usize, _: usize, now: Time, instruments: &Instruments) {
        assert!(now >= self.last);
        self.last = now;
        self.flow_samples += 1;
        self.bytes_acked = self.bytes_acked.max(instruments.hc_thru_octets_acked);
    }

    fn pipe(&mut self, pipe: usize, _: Time, sample: &PipeSample) {
        self.pipe_samples += 1;
        if pipe == BOTTLENECK as usize {
            assert!(sample.queue_packets <= 50);
        }
    }
}

#[test]
fn a_greedy_flow_gets_what_headers_leave_of_the_bottleneck() {
    let outcome = run(&dumbbell(&[GREEDY], 30), &mut ());
    // 1448 of every 1500 bytes are payload: 9.653 of 10 Mbit/s.
    let goodput = mbps(&outcome, 0);
    assert!((9.55..=9.654).contains(&goodput), "{goodput} Mbit/s");
    assert_eq!(outcome.flows[0].bytes_per_second.len(), 30);
    assert_eq!(
        outcome.flows[0].rtt_min.map(|rtt| rtt.as_millis()),
        Some(20)
    );
}

#[test]
fn a_file_completes_and_every_byte_is_counted_once() {
    let file = Application::Bulk {
        bytes: Some(Bytes(5_000_000)),
    };
    let outcome = run(&dumbbell(&[file], 30), &mut ());
    let flow = &outcome.flows[0];
    assert_eq!(flow.bytes, 5_000_000);
    let completion = flow.completion.expect("5 MB at 9.65 Mbit/s take 4.2 s");
    assert!(
        (4.14..4.6).contains(&completion.as_secs_f64()),
        "{completion:?}"
    );
    assert_eq!(flow.active, completion);
}

#[test]
fn a_file_crosses_a_path_with_a_round_trip_of_more_than_an_hour() {
    let file = Application::Bulk {
        bytes: Some(Bytes(14_480)),
    };
    let mut scenario = dumbbell(&[file], 24 * 3600);
    for pipe in [BOTTLENECK, RETURN] {
        scenario.pipes[pipe as usize].delay.base = Delay::Constant(Duration::from_secs(40 * 60));
    }
    let outcome = run(&scenario, &mut ());
    let flow = &outcome.flows[0];
    assert_eq!(flow.bytes, 14_480);
    // More microseconds than 32 bits hold.
    let minimum = flow.rtt_min.map(|rtt| rtt.as_millis());
    assert_eq!(minimum, Some(80 * 60 * 1000));
}

#[test]
fn looking_at_a_run_does_not_change_it() {
    let applications = [
        GREEDY,
        GREEDY,
        Application::ConstantRate {
            rate: Bandwidth::from_mbps(1),
            packet: 500,
        },
    ];
    let mut scenario = dumbbell(&applications, 20);
    scenario.warmup = Duration::from_millis(3_333);
    let unseen = run(&scenario, &mut ());
    let interval = Duration::from_micros(7_777);
    for sampling in [Sampling::Every(interval), Sampling::EveryAck(interval)] {
        scenario.sampling = sampling;
        let mut watch = Watch::default();
        let seen = run(&scenario, &mut watch);
        assert_eq!((&seen.flows, &seen.pipes), (&unseen.flows, &unseen.pipes));
        assert!(watch.flow_samples > 2000 && watch.pipe_samples > 2000);
        assert!(watch.bytes_acked > 1_000_000);
    }
}

#[test]
fn a_run_stops_when_the_observer_has_seen_enough() {
    struct Impatient;
    impl Observer for Impatient {
        fn progress(&mut self, now: Time) -> bool {
            now < Time::from_secs(5)
        }
    }
    let outcome = run(&dumbbell(&[GREEDY], 1000), &mut Impatient);
    assert!(outcome.data_packets < 10 * 850);
}

#[test]
fn summaries_leave_the_warm_up_out() {
    let mut scenario = dumbbell(&[GREEDY], 20);
    scenario.warmup = Duration::from_secs(5);
    let outcome = run(&scenario, &mut ());
    assert_eq!(outcome.flows[0].active, Duration::from_secs(15));
    assert_eq!(outcome.flows[0].bytes_per_second.len(), 15);
    assert_eq!(
        outcome.pipes[BOTTLENECK as usize].length,
        Duration::from_secs(15)
    );
    assert!((0.999..=1.0).contains(&outcome.pipes[BOTTLENECK as usize].utilization));
}

#[test]
fn a_constant_rate_keeps_its_rate_and_counts_what_it_loses() {
    let flood = Application::ConstantRate {
        rate: Bandwidth::from_mbps(20),
        packet: 1500,
    };
    let outcome = run(&dumbbell(&[flood], 10), &mut ());
    let flow = &outcome.flows[0];
    // 20 Mbit/s of 12,000-bit datagrams for 10 s, the first at time 0.
    assert_eq!(flow.packets_sent, 16_667);
    // Half of it fits; at the end 50 slots of queue and 10 ms of link are full.
    let received = flow.bytes / 1472;
    assert!((8_270..=8_334).contains(&received), "{received}");
    let under_way = flow.packets_sent - flow.packets_lost - received;
    assert!((50..=60).contains(&under_way), "{under_way}");
}

#[test]
fn copies_pass_from_pipe_to_pipe_without_waiting() {
    let mut scenario = dumbbell(&[GREEDY], 10);
    let alone = run(&scenario, &mut ());
    // The pipe of the ACKs to the sender's side, which nothing but the access of the receiver feeds.
    let access = scenario.flows[0].backward[0].pipe as usize;
    scenario.pipes[access].duplicate = 1.0;
    let copied = run(&scenario, &mut ());
    let mean = |outcome: &Outcome| outcome.flows[0].rtt_mean.unwrap().as_secs_f64();
    let ratio = mean(&copied) / mean(&alone);
    assert!((0.9..=1.1).contains(&ratio), "{ratio}");
    assert_eq!(copied.flows[0].timeouts, 0);
}

#[test]
fn an_on_off_flow_sends_only_while_it_is_on() {
    let on_off = Application::OnOff {
        on: Duration::from_secs(1),
        off: Duration::from_secs(3),
        random: false,
    };
    let outcome = run(&dumbbell(&[on_off], 16), &mut ());
    let seconds = &outcome.flows[0].bytes_per_second;
    for on in [4, 8, 12] {
        assert!(seconds[on] > 1_000_000, "second {on}: {}", seconds[on]);
        assert_eq!(seconds[on + 2], 0);
    }
}

#[test]
fn web_sessions_fetch_objects_over_connections_of_their_own() {
    let web = Application::Web {
        sessions: 5,
        object_mean: Bytes(30_000),
        object_shape: 1.5,
        think_mean: Duration::from_millis(500),
    };
    let outcome = run(&dumbbell(&[web, GREEDY], 60), &mut ());
    let flow = &outcome.flows[0];
    assert!(
        flow.object_times.len() > 100,
        "{} objects",
        flow.object_times.len()
    );
    assert!(flow.bytes > 1_000_000);
    assert_eq!(flow.completion, None);
}

#[test]
fn a_seed_gives_the_objects_that_it_gives_in_the_lab() {
    let web = Application::Web {
        sessions: 3,
        object_mean: Bytes(12_000),
        object_shape: 1.2,
        think_mean: Duration::from_millis(400),
    };
    let scenario = Scenario {
        seed: 14,
        duration: Duration::from_millis(2100),
        ..dumbbell(&[web], 0)
    };
    let outcome = run(&scenario, &mut ());
    let flow = &outcome.flows[0];
    // As in the lab's test of the same name; nothing is in transit for 0.3 s before and after the end.
    assert_eq!((flow.object_times.len(), flow.bytes), (9, 30_759));
}

#[test]
fn seeds_differ_only_where_there_is_chance() {
    let certain = dumbbell(&[GREEDY], 10);
    let other = Scenario {
        seed: 2,
        ..certain.clone()
    };
    assert_eq!(run(&certain, &mut ()), run(&other, &mut ()));

    let mut lossy = certain;
    lossy.pipes[BOTTLENECK as usize].loss = fairwind_path::loss::LossConfig::Bernoulli(0.01);
    let other = Scenario {
        seed: 2,
        ..lossy.clone()
    };
    assert_eq!(run(&lossy, &mut ()), run(&lossy, &mut ()));
    assert_ne!(run(&lossy, &mut ()), run(&other, &mut ()));
}

/// Reno until 5 s, then nocc, which only the receiver's window limits.
fn switching(application: Application) -> Scenario {
    let mut scenario = dumbbell(&[application], 10);
    scenario.flows[0].tcp.receive_buffer = Some(Bytes(32_000));
    scenario.flows[0].tcp.switches = vec![Switch {
        at: Time::from_secs(5),
        parameters: find("nocc").expect("cc/nocc.c").default_parameters(),
    }];
    scenario.sampling = Sampling::Every(Duration::from_secs(1));
    scenario
}

/// The largest congestion window sampled before and after 5 s, packets.
#[derive(Default)]
struct Windows([u64; 2]);

impl Observer for Windows {
    fn flow(&mut self, _: usize, _: usize, now: Time, instruments: &Instruments) {
        let window = &mut self.0[usize::from(now >= Time::from_secs(5))];
        *window = (*window).max(instruments.cur_cwnd / 1448);
    }
}

#[test]
fn a_flow_takes_another_control_at_its_time() {
    let mut windows = Windows::default();
    run(&switching(GREEDY), &mut windows);
    assert!(windows.0[0] < 100, "{:?}", windows.0);
    assert_eq!(windows.0[1], 100_000);
}

#[test]
fn connections_that_open_later_begin_with_the_control_then_in_force() {
    let web = Application::Web {
        sessions: 3,
        object_mean: Bytes(100_000),
        object_shape: 1.5,
        think_mean: Duration::from_millis(10),
    };
    let mut windows = Windows::default();
    run(&switching(web), &mut windows);
    assert!(windows.0[0] < 100, "{:?}", windows.0);
    assert_eq!(windows.0[1], 100_000);
}

#[test]
fn a_switch_before_the_start_is_the_control_from_the_start() {
    let mut scenario = switching(GREEDY);
    scenario.flows[0].start = Time::from_secs(6);
    let mut windows = Windows::default();
    run(&scenario, &mut windows);
    assert_eq!(windows.0, [0, 100_000]);
}

/// Five flows through a bottleneck whose queue of 200 packets takes 240 ms, from 20 to 60 seconds.
fn shared(aqm: Aqm) -> Outcome {
    let mut scenario = dumbbell(&[GREEDY; 5], 60);
    scenario.warmup = Duration::from_secs(20);
    let bottleneck = &mut scenario.pipes[BOTTLENECK as usize];
    bottleneck.capacity = Capacity::Packets(200);
    bottleneck.aqm = aqm;
    run(&scenario, &mut ())
}

/// The mean delay in the bottleneck's queue, in milliseconds: 1.2 ms a packet.
fn queueing_ms(outcome: &Outcome) -> f64 {
    outcome.pipes[BOTTLENECK as usize].queue_mean_pkts * 1.2
}

#[test]
fn pie_holds_the_queue_of_reno_flows_near_its_target() {
    let pie = shared(Aqm::Pie(PieConfig::default()));
    let delay = queueing_ms(&pie);
    assert!((10.0..20.0).contains(&delay), "{delay} ms");
    let bottleneck = &pie.pipes[BOTTLENECK as usize];
    assert!(bottleneck.utilization > 0.97, "{}", bottleneck.utilization);
    let doubled = PieConfig {
        target: Duration::from_millis(30),
        ..PieConfig::default()
    };
    let delay = queueing_ms(&shared(Aqm::Pie(doubled)));
    assert!((24.0..36.0).contains(&delay), "{delay} ms");
}

#[test]
fn fq_codel_gives_a_flow_that_does_not_react_no_more_than_its_share() {
    let datagrams = Application::ConstantRate {
        rate: Bandwidth::from_mbps(9),
        packet: 1500,
    };
    let reno_mbps = |aqm| {
        let mut scenario = dumbbell(&[GREEDY, datagrams.clone()], 40);
        scenario.warmup = Duration::from_secs(10);
        scenario.pipes[BOTTLENECK as usize].aqm = aqm;
        mbps(&run(&scenario, &mut ()), 0)
    };
    assert!(reno_mbps(Aqm::DropTail) < 1.5);
    // Half of the bottleneck, less the headers, is 4.8; CoDel costs a little of it.
    let share = reno_mbps(Aqm::FqCoDel(FqCoDelConfig::default()));
    assert!((4.4..4.9).contains(&share), "{share} Mbit/s");
}

#[test]
fn dualpi2_holds_the_queue_of_classic_flows_near_its_target() {
    let dualpi2 = shared(Aqm::DualPi2(DualPi2Config::default()));
    let delay = queueing_ms(&dualpi2);
    assert!((10.0..20.0).contains(&delay), "{delay} ms");
    let bottleneck = &dualpi2.pipes[BOTTLENECK as usize];
    assert!(bottleneck.utilization > 0.97, "{}", bottleneck.utilization);
}
