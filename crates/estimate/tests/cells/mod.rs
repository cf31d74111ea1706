//! A flow under `probe` with cross traffic, and the truth by the bottleneck's counters.

#![allow(dead_code, reason = "the tests and the bench use their own share")]

use fairwind_cc::native::{TcpSock, find};
use fairwind_estimate::{Estimate, Estimator, Unknown, latest};
use fairwind_path::delay::{Delay, DelayConfig};
use fairwind_path::loss::LossConfig;
use fairwind_path::pipe::PipeConfig;
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::units::{Bandwidth, Duration, Time};
use fairwind_sim::outcome::{Instruments, Observer, PipeSample};
use fairwind_sim::run;
use fairwind_sim::scenario::{FlowConfig, Hop, Sampling, Scenario, TcpConfig};
use fairwind_workload::Application;

/// What else uses the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cross {
    /// Datagrams that take this share of the capacity.
    Datagrams(f64),
    /// Bulk transfers under this control, each of which could fill the link.
    Bulk(&'static str, usize),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) mbps: f64,
    pub(crate) rtt_ms: f64,
    pub(crate) cross: Cross,
    pub(crate) seconds: f64,
    pub(crate) seed: u64,
    pub(crate) trouble: Trouble,
}

/// What else goes wrong on the path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trouble {
    /// Share of the data that is lost at random.
    pub(crate) loss: f64,
    /// Share of the ACKs that are lost.
    pub(crate) ack_loss: f64,
    /// Share of the reverse direction, which is then as fast as the forward one, that datagrams take.
    pub(crate) reverse: f64,
}

/// An estimate and what was true at that time, bit/s.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) at_s: f64,
    pub(crate) estimate: Result<Estimate, Unknown>,
    pub(crate) available: f64,
}

struct Watch {
    estimator: Estimator,
    number: u16,
    /// Time, bytes served by the bottleneck.
    served: Vec<(f64, f64)>,
    /// Time, own bytes received, from the IP header on.
    own: Vec<(f64, f64)>,
    estimates: Vec<(f64, Result<Estimate, Unknown>)>,
    trace: bool,
}

impl Observer for Watch {
    fn socket(&mut self, flow: usize, _: usize, now: Time, socket: &TcpSock) {
        if flow > 0 {
            return;
        }
        let state: Vec<u8> = socket
            .icsk_ca_priv
            .iter()
            .flat_map(|w| w.to_ne_bytes())
            .collect();
        if let Some((number, train)) = latest(&state, socket.mss_cache)
            && number != self.number
        {
            self.number = number;
            if self.trace {
                println!("{:.4} {number} {train:?}", now.as_secs_f64());
            }
            self.estimator
                .add(now.as_secs_f64(), socket.delivered, train);
            self.estimates
                .push((now.as_secs_f64(), self.estimator.estimate()));
        }
    }

    fn flow(&mut self, flow: usize, _: usize, now: Time, instruments: &Instruments) {
        if flow == 0 {
            let bytes = instruments.bytes_received as f64 * 1500.0 / 1448.0;
            self.own.push((now.as_secs_f64(), bytes));
        }
    }

    fn pipe(&mut self, pipe: usize, now: Time, sample: &PipeSample) {
        if pipe == 0 {
            self.served.push((now.as_secs_f64(), sample.bytes as f64));
        }
    }
}

fn at(series: &[(f64, f64)], time: f64) -> f64 {
    let after = series.partition_point(|(at, _)| *at < time);
    match (series.get(after.wrapping_sub(1)), series.get(after)) {
        (Some((a, x)), Some((b, y))) => x + (y - x) * (time - a) / (b - a).max(1e-12),
        (Some((_, x)), None) | (None, Some((_, x))) => *x,
        (None, None) => 0.0,
    }
}

impl Cell {
    fn scenario(&self) -> Scenario {
        let bps = self.mbps * 1e6;
        let one_way = Duration::from_nanos((self.rtt_ms * 1e6 / 2.0) as u64);
        let slots = (bps * self.rtt_ms / 1e3 / 12_000.0).max(20.0) as u32;
        let pipe = |bps: f64, delay: Duration, slots| PipeConfig {
            bandwidth: Rate::Constant(Bandwidth::from_bps(bps as u64)),
            delay: DelayConfig {
                base: Delay::Constant(delay),
                ..DelayConfig::default()
            },
            capacity: Capacity::Packets(slots),
            ..PipeConfig::default()
        };
        let back = if self.trouble.reverse > 0.0 {
            bps
        } else {
            bps * 10.0
        };
        let mut pipes = vec![pipe(bps, one_way, slots), pipe(back, one_way, 10_000)];
        let hop = |pipe| Hop { pipe, class: 0 };
        let mut flows = Vec::new();
        let mut flow = |control: &str, application: Application, extra: f64, start: f64| {
            let access = pipes.len() as u32;
            let delay = Duration::from_nanos((self.rtt_ms * 1e6 * extra / 2.0) as u64);
            pipes.push(pipe(bps * 10.0, delay, 100_000));
            pipes.push(pipe(bps * 10.0, delay, 100_000));
            flows.push(FlowConfig {
                start: Time::from_millis((start * 1e3) as u64),
                application,
                tcp: TcpConfig {
                    hz: Some(1000),
                    tcp_rmem: [4096, 131_072, 33_554_432],
                    tcp_wmem: [4096, 16_384, 33_554_432],
                    ..TcpConfig::new(find(control).expect("a control").default_parameters())
                },
                forward: vec![hop(access), hop(0)],
                backward: vec![hop(access + 1), hop(1)],
            });
        };
        let greedy = Application::Bulk { bytes: None };
        // The estimator comes when TCP has found its rate.
        flow("probe", greedy.clone(), 0.0, 5.0);
        let phase = (self.seed as f64 * 0.618).fract();
        match self.cross {
            Cross::Datagrams(share) if share > 0.0 => {
                let rate = Bandwidth::from_bps((bps * share) as u64);
                let packet = [1500, 1200, 700][self.seed as usize % 3];
                flow(
                    "cubic",
                    Application::ConstantRate { rate, packet },
                    0.0,
                    phase * 0.01,
                );
            }
            Cross::Datagrams(_) => {}
            Cross::Bulk(control, count) => {
                for index in 0..count {
                    let extra = 0.05 * index as f64 + 0.04 * phase;
                    flow(
                        control,
                        greedy.clone(),
                        extra,
                        0.3 * phase + 0.1 * index as f64,
                    );
                }
            }
        }
        let [loss, ack_loss] = [self.trouble.loss, self.trouble.ack_loss];
        // On the estimator's own access.
        pipes[2].loss = LossConfig::Bernoulli(loss);
        pipes[3].loss = LossConfig::Bernoulli(ack_loss);
        if self.trouble.reverse > 0.0 {
            let mut opposite = flows[0].clone();
            opposite.start = Time::ZERO;
            opposite.application = Application::ConstantRate {
                rate: Bandwidth::from_bps((bps * self.trouble.reverse) as u64),
                packet: 1500,
            };
            opposite.forward = vec![hop(1)];
            opposite.backward = vec![hop(0)];
            flows.push(opposite);
        }
        Scenario {
            seed: self.seed,
            duration: Duration::from_nanos((self.seconds * 1e9) as u64),
            warmup: Duration::ZERO,
            pipes,
            flows,
            sampling: Sampling::EveryAck(Duration::from_millis(1)),
        }
    }

    /// Runs the cell. `trace` prints the trains.
    pub(crate) fn run(&self, trace: bool) -> Vec<Pair> {
        let mut watch = Watch {
            estimator: Estimator::new(1448, 52),
            number: 0,
            served: Vec::new(),
            own: Vec::new(),
            estimates: Vec::new(),
            trace,
        };
        run(&self.scenario(), &mut watch);
        let capacity = self.mbps * 1e6;
        let back = self.rtt_ms / 2e3;
        let pairs = watch.estimates.iter().map(|(now, estimate)| {
            // Of the time in which the trains were in the queue.
            let (from, to) = match estimate {
                Ok(estimate) => (estimate.from_s - self.rtt_ms / 1e3, estimate.to_s),
                Err(_) => (now - 0.1, *now),
            };
            let (from, to) = (from - back, to - back);
            let seconds = to - from;
            let all = at(&watch.served, to) - at(&watch.served, from);
            let own = at(&watch.own, to + back) - at(&watch.own, from + back);
            Pair {
                at_s: *now,
                estimate: estimate.clone(),
                available: capacity - (all - own) * 8.0 / seconds,
            }
        });
        pairs.collect()
    }
}

/// Errors of one cell, as shares of the capacity.
pub(crate) struct Errors {
    pub(crate) estimates: usize,
    pub(crate) unknown: usize,
    /// Why the latest of these was unknown.
    pub(crate) why: Option<Unknown>,
    pub(crate) available: Vec<f64>,
    pub(crate) capacity: Vec<f64>,
    pub(crate) held: usize,
    pub(crate) capacity_held: usize,
    /// Round-trip times between two estimates.
    pub(crate) every_rtts: f64,
}

impl Errors {
    pub(crate) fn of(cell: &Cell, pairs: &[Pair], from_s: f64) -> Errors {
        let c = cell.mbps * 1e6;
        let mut errors = Errors {
            estimates: 0,
            unknown: 0,
            why: None,
            available: Vec::new(),
            capacity: Vec::new(),
            held: 0,
            capacity_held: 0,
            every_rtts: f64::NAN,
        };
        let late: Vec<&Pair> = pairs.iter().filter(|pair| pair.at_s > from_s).collect();
        for pair in &late {
            let estimate = match &pair.estimate {
                Ok(estimate) => estimate,
                Err(why) => {
                    errors.unknown += 1;
                    errors.why = Some(*why);
                    continue;
                }
            };
            errors.estimates += 1;
            errors
                .available
                .push((estimate.available.value - pair.available) / c);
            errors.capacity.push((estimate.capacity.value - c) / c);
            let holds =
                |low: f64, high: f64, truth: f64| usize::from(low <= truth && truth <= high);
            errors.held += holds(
                estimate.available.low,
                estimate.available.high,
                pair.available,
            );
            errors.capacity_held += holds(estimate.capacity.low, estimate.capacity.high, c);
        }
        if let (Some(first), Some(last)) = (late.first(), late.last()) {
            let each = (last.at_s - first.at_s) / (late.len() - 1).max(1) as f64;
            errors.every_rtts = each / (cell.rtt_ms / 1e3);
        }
        errors
    }
}

pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = (sorted.len() as f64 - 1.0) * share;
    sorted
        .get(index.round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

/// All cells: a row for each, and all together.
pub(crate) fn grid() -> Vec<Cell> {
    let mut cells = Vec::new();
    for mbps in [10.0, 30.0, 100.0, 500.0] {
        for rtt_ms in [5.0, 20.0, 50.0, 100.0] {
            for cross in [
                Cross::Datagrams(0.0),
                Cross::Datagrams(0.3),
                Cross::Datagrams(0.6),
                Cross::Datagrams(0.9),
                Cross::Bulk("cubic", 1),
                Cross::Bulk("reno", 8),
            ] {
                let seed = cells.len() as u64;
                cells.push(Cell {
                    mbps,
                    rtt_ms,
                    cross,
                    seconds: 20.0,
                    seed,
                    trouble: Trouble::default(),
                });
            }
        }
    }
    cells
}

/// A row: what a group's cells have in common, and their errors. Each cell counts the same.
fn summary(name: &str, results: &[&(Cell, Errors)]) -> String {
    let sizes = |values: &[f64]| values.iter().map(|value| value.abs()).collect::<Vec<_>>();
    // A cell without an estimate has no errors.
    let of_cells = |of: &dyn Fn(&Errors) -> f64| {
        let known = results.iter().filter(|(_, errors)| errors.estimates > 0);
        let values: Vec<f64> = known.map(|(_, errors)| of(errors)).collect();
        (
            quantile(&values, 0.5),
            quantile(&values, 1.0),
            values.iter().sum::<f64>() / values.len() as f64,
        )
    };
    let mut all = Vec::new();
    for (_, errors) in results {
        let errors = sizes(&errors.available);
        all.extend((0..100).map(|share| quantile(&errors, f64::from(share) / 99.0)));
    }
    all.retain(|error| error.is_finite());
    let worst = of_cells(&|errors| quantile(&sizes(&errors.available), 0.5)).1;
    let held = of_cells(&|errors| errors.held as f64 / errors.estimates.max(1) as f64).2;
    let capacity = of_cells(&|errors| quantile(&sizes(&errors.capacity), 0.5));
    let every = of_cells(&|errors| errors.every_rtts);
    let unknown: usize = results.iter().map(|(_, errors)| errors.unknown).sum();
    let known: usize = results.iter().map(|(_, errors)| errors.estimates).sum();
    format!(
        "| {name} | {} | {:.1} % | {:.1} % | {:.1} % | {:.0} % | {:.1} % | {:.1} | {:.1} | {:.1} % |",
        results.len(),
        100.0 * quantile(&all, 0.5),
        100.0 * quantile(&all, 0.95),
        100.0 * worst,
        100.0 * held,
        100.0 * capacity.0,
        every.0,
        every.1,
        100.0 * unknown as f64 / (known + unknown).max(1) as f64,
    )
}

/// Prints a row for each cell (all, or the one of a number among the words), and a summary by groups.
/// `trace` prints the trains, too.
pub(crate) fn table(words: impl Iterator<Item = String>) {
    let words: Vec<String> = words.collect();
    let trace = words.iter().any(|word| word == "trace");
    let only: Option<usize> = words.iter().find_map(|word| word.parse().ok());
    let mut results = Vec::new();
    println!(
        "cell, Mbit/s, ms, cross traffic, seed: estimates, unknown; median, p95, bias of the available bandwidth; held; median of the capacity; round trips; why unknown"
    );
    for (index, cell) in grid().into_iter().enumerate() {
        if only.is_some_and(|only| only != index) {
            continue;
        }
        let errors = Errors::of(&cell, &cell.run(trace), 8.0);
        let sizes = |values: &[f64]| values.iter().map(|value| value.abs()).collect::<Vec<_>>();
        let available = sizes(&errors.available);
        println!(
            "{index}, {}, {}, {:?}, {}: {}, {}; {:.3}, {:.3}, {:.3}; {:.2}; {:.3}; {:.1}; {}",
            cell.mbps,
            cell.rtt_ms,
            cell.cross,
            cell.seed,
            errors.estimates,
            errors.unknown,
            quantile(&available, 0.5),
            quantile(&available, 0.95),
            quantile(&errors.available, 0.5),
            errors.held as f64 / errors.estimates.max(1) as f64,
            quantile(&sizes(&errors.capacity), 0.5),
            errors.every_rtts,
            errors.why.map_or(String::new(), |why| why.to_string()),
        );
        results.push((cell, errors));
    }
    println!();
    println!(
        "| cells | number | median error | 95th percentile | worst cell's median | interval holds | capacity: median error | round trips to the next: median cell | worst cell | unknown |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let print = |name: String, is: &dyn Fn(&Cell) -> bool| {
        let group: Vec<_> = results.iter().filter(|(cell, _)| is(cell)).collect();
        if !group.is_empty() {
            println!("{}", summary(&name, &group));
        }
    };
    print("all".to_owned(), &|_| true);
    for load in [0.0, 0.3, 0.6, 0.9] {
        let name = format!("datagrams, {:.0} % of the capacity", 100.0 * load);
        print(name, &|cell| cell.cross == Cross::Datagrams(load));
    }
    print("one Cubic".to_owned(), &|cell| {
        cell.cross == Cross::Bulk("cubic", 1)
    });
    print("eight Reno".to_owned(), &|cell| {
        cell.cross == Cross::Bulk("reno", 8)
    });
    for rtt_ms in [5.0, 20.0, 50.0, 100.0] {
        print(format!("round trip {rtt_ms} ms"), &|cell| {
            cell.rtt_ms == rtt_ms
        });
    }
    for mbps in [10.0, 30.0, 100.0, 500.0] {
        print(format!("{mbps} Mbit/s"), &|cell| cell.mbps == mbps);
    }
}
