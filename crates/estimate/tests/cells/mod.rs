//! A flow under `probe` with cross traffic, and the truth by the bottleneck's counters.

#![allow(dead_code, reason = "the tests and the bench use their own share")]

use fairwind_cc::native::{TcpSock, find};
use fairwind_estimate::{Estimate, Estimator, Unknown, latest};
use fairwind_path::aggregation::AggregationConfig;
use fairwind_path::delay::{Delay, DelayConfig, Jitter};
use fairwind_path::fq_codel::FqCoDelConfig;
use fairwind_path::loss::LossConfig;
use fairwind_path::pipe::{Aqm, PipeConfig};
use fairwind_path::policer::PolicerConfig;
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::scheduler::SchedulerConfig;
use fairwind_path::units::{Bandwidth, Bytes, Duration, Time};
use fairwind_sim::outcome::{Instruments, Observer, PipeSample};
use fairwind_sim::run;
use fairwind_sim::scenario::{FlowConfig, Hop, Sampling, Scenario, TcpConfig};
use fairwind_workload::Application;

/// When the flow begins that measures.
pub(crate) const MEASURES_FROM_S: f64 = 5.0;

/// What else uses the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cross {
    /// Datagrams that take this share of the capacity.
    Datagrams(f64),
    /// Bulk transfers under this control, each of which could fill the link.
    Bulk(&'static str, usize),
}

/// How the bottleneck serves packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// In the order of arrival.
    Fifo,
    /// FQ-CoDel.
    FqCodel,
    /// Weighted fair queueing, with equal weights.
    Wfq,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) mbps: f64,
    pub(crate) rtt_ms: f64,
    pub(crate) cross: Cross,
    pub(crate) queue: Queue,
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
    /// The delay of data differs from one packet to the next by up to as much, either way.
    pub(crate) jitter_ms: f64,
    /// Packets go on together at the end of intervals of this length: those of data, and ACKs.
    pub(crate) aggregation_ms: f64,
    pub(crate) ack_aggregation_ms: f64,
    /// A policer before the bottleneck's queue.
    pub(crate) policer: Option<Policer>,
}

/// What passes in the long run, as a share of the capacity, and a burst of this many bytes, or of as much
/// as passes in a fifth of as many microseconds, if that is more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policer {
    pub(crate) share: f64,
    pub(crate) burst: u64,
}

/// An estimate and what was true at that time, bit/s.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) at_s: f64,
    pub(crate) estimate: Result<Estimate, Unknown>,
    pub(crate) available: f64,
}

/// Time, s, and bytes so far, from the IP header on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// Of all at the bottleneck.
    pub(crate) served: Vec<(f64, f64)>,
    /// Of the measuring flow at its receiver.
    pub(crate) own: Vec<(f64, f64)>,
}

impl Series {
    /// What others had of the bottleneck in this time, bit/s. The receiver is `back` seconds behind it.
    pub(crate) fn others(&self, from: f64, to: f64, back: f64) -> f64 {
        let all = at(&self.served, to) - at(&self.served, from);
        let own = at(&self.own, to + back) - at(&self.own, from + back);
        8.0 * (all - own) / (to - from)
    }
}

struct Watch {
    estimator: Estimator,
    number: u16,
    carried: Series,
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
                .set_least_rtt(f64::from(socket.rtt_min_us) / 1e6);
            self.estimator
                .add(now.as_secs_f64(), socket.delivered, train);
            self.estimates
                .push((now.as_secs_f64(), self.estimator.estimate()));
        }
    }

    fn flow(&mut self, flow: usize, _: usize, now: Time, instruments: &Instruments) {
        if flow == 0 {
            let bytes = instruments.bytes_received as f64 * 1500.0 / 1448.0;
            self.carried.own.push((now.as_secs_f64(), bytes));
        }
    }

    fn pipe(&mut self, pipe: usize, now: Time, sample: &PipeSample) {
        if pipe == 0 {
            self.carried
                .served
                .push((now.as_secs_f64(), sample.bytes as f64));
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
    pub(crate) fn scenario(&self, measures: Application) -> Scenario {
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
                hosts: [flows.len() as u32 + 1, 0],
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
        flow("probe", measures, 0.0, MEASURES_FROM_S);
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
        match self.queue {
            Queue::Fifo => {}
            Queue::FqCodel => {
                pipes[0].aqm = Aqm::FqCoDel(FqCoDelConfig::default());
                pipes[0].capacity = Capacity::Packets(10_240);
            }
            Queue::Wfq => {
                pipes[0].scheduler = SchedulerConfig::Wf2q {
                    weights: vec![1; flows.len()],
                };
                for (class, flow) in flows.iter_mut().enumerate() {
                    flow.forward[1].class = class as u16;
                }
            }
        }
        pipes[0].policer = self.trouble.policer.map(|policer| PolicerConfig {
            rate: Bandwidth::from_bps((bps * policer.share) as u64),
            burst: Bytes(
                policer
                    .burst
                    .max((bps * policer.share / 8.0 * policer.burst as f64 / 5e6) as u64),
            ),
        });
        let [loss, ack_loss] = [self.trouble.loss, self.trouble.ack_loss];
        // On the estimator's own access.
        pipes[2].loss = LossConfig::Bernoulli(loss);
        pipes[3].loss = LossConfig::Bernoulli(ack_loss);
        let ms = |ms: f64| Duration::from_nanos((ms * 1e6) as u64);
        let aggregation = |interval: f64| {
            (interval > 0.0).then(|| AggregationConfig {
                interval: ms(interval),
                packets: None,
            })
        };
        pipes[0].aggregation = aggregation(self.trouble.aggregation_ms);
        pipes[3].aggregation = aggregation(self.trouble.ack_aggregation_ms);
        if self.trouble.jitter_ms > 0.0 {
            pipes[0].delay.jitter = Some(Jitter {
                amount: ms(self.trouble.jitter_ms),
                ..Jitter::default()
            });
        }
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

    /// What the bottleneck carries in the long run, bit/s.
    pub(crate) fn bps(&self) -> f64 {
        let share = self.trouble.policer.map_or(1.0, |policer| policer.share);
        self.mbps * 1e6 * share
    }

    /// Runs the cell. `trace` prints the trains.
    pub(crate) fn run(&self, trace: bool) -> Vec<Pair> {
        self.measured(trace).0
    }

    /// Estimates, what was carried, and the data packets that were sent.
    pub(crate) fn measured(&self, trace: bool) -> (Vec<Pair>, Series, u64) {
        let mut watch = Watch {
            estimator: Estimator::new(1448, 52),
            number: 0,
            carried: Series::default(),
            estimates: Vec::new(),
            trace,
        };
        let greedy = Application::Bulk { bytes: None };
        let outcome = run(&self.scenario(greedy), &mut watch);
        let capacity = self.bps();
        let back = self.rtt_ms / 2e3;
        let pairs = watch.estimates.iter().map(|(now, estimate)| {
            // Of the time in which the trains were in the queue.
            let (from, to) = match estimate {
                Ok(estimate) => (estimate.from_s - self.rtt_ms / 1e3, estimate.to_s),
                Err(_) => (now - 0.1, *now),
            };
            let others = watch.carried.others(from - back, to - back, back);
            Pair {
                at_s: *now,
                estimate: estimate.clone(),
                available: capacity - others,
            }
        });
        let packets = outcome.flows[0].packets_sent;
        (pairs.collect(), watch.carried, packets)
    }
}

/// Errors of one cell, as shares of the capacity.
pub(crate) struct Errors {
    pub(crate) estimates: usize,
    pub(crate) unknown: usize,
    /// Of these, for fair queueing.
    pub(crate) fair: usize,
    /// Why the latest of these was unknown.
    pub(crate) why: Option<Unknown>,
    pub(crate) available: Vec<f64>,
    pub(crate) capacity: Vec<f64>,
    pub(crate) held: usize,
    /// Estimates that are said to be of a policer.
    pub(crate) policed: usize,
    pub(crate) capacity_held: usize,
    /// Round-trip times between two estimates.
    pub(crate) every_rtts: f64,
}

impl Errors {
    pub(crate) fn of(cell: &Cell, pairs: &[Pair], from_s: f64) -> Errors {
        let c = cell.bps();
        let mut errors = Errors {
            estimates: 0,
            unknown: 0,
            fair: 0,
            why: None,
            available: Vec::new(),
            capacity: Vec::new(),
            held: 0,
            policed: 0,
            capacity_held: 0,
            every_rtts: f64::NAN,
        };
        let late: Vec<&Pair> = pairs.iter().filter(|pair| pair.at_s > from_s).collect();
        for pair in &late {
            let estimate = match &pair.estimate {
                Ok(estimate) => estimate,
                Err(why) => {
                    errors.unknown += 1;
                    errors.fair += usize::from(*why == Unknown::FairQueueing);
                    errors.why = Some(*why);
                    continue;
                }
            };
            errors.estimates += 1;
            errors.policed += usize::from(estimate.is_policed);
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

/// Cells that the constants were chosen on, or others, which the results are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Chosen,
    Reported,
}

impl Half {
    /// The reported half, unless one of the words is `chosen`.
    pub(crate) fn of(words: &[String]) -> Half {
        match words.iter().any(|word| word == "chosen") {
            true => Half::Chosen,
            false => Half::Reported,
        }
    }

    fn mbps(self) -> [f64; 4] {
        match self {
            Half::Chosen => [10.0, 30.0, 100.0, 500.0],
            Half::Reported => [14.0, 50.0, 200.0, 450.0],
        }
    }

    fn rtt_ms(self) -> [f64; 4] {
        match self {
            Half::Chosen => [5.0, 20.0, 50.0, 100.0],
            Half::Reported => [7.0, 15.0, 35.0, 80.0],
        }
    }

    /// Datagrams, as shares of the capacity.
    fn loads(self) -> [f64; 4] {
        match self {
            Half::Chosen => [0.0, 0.3, 0.6, 0.9],
            Half::Reported => [0.1, 0.45, 0.75, 0.85],
        }
    }

    /// Adds the cells of all capacities and round-trip times.
    fn add(self, cross: Cross, queue: Queue, trouble: Trouble, cells: &mut Vec<Cell>) {
        let first_seed = match self {
            Half::Chosen => 0,
            Half::Reported => 10_000,
        };
        for mbps in self.mbps() {
            for rtt_ms in self.rtt_ms() {
                cells.push(Cell {
                    mbps,
                    rtt_ms,
                    cross,
                    queue,
                    seconds: 20.0,
                    seed: first_seed + cells.len() as u64,
                    trouble,
                });
            }
        }
    }

    /// Those that the goals are stated for: a queue in order of arrival, and no trouble.
    pub(crate) fn plain(self) -> Vec<Cell> {
        let mut cells = Vec::new();
        let datagrams = self.loads().map(Cross::Datagrams);
        for cross in datagrams.into_iter().chain([CUBIC, EIGHT_RENO]) {
            self.add(cross, Queue::Fifo, Trouble::default(), &mut cells);
        }
        cells
    }

    /// Fair queueing.
    pub(crate) fn fair(self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for queue in [Queue::FqCodel, Queue::Wfq] {
            for cross in [Cross::Datagrams(0.0), CUBIC, EIGHT_CUBIC] {
                self.add(cross, queue, Trouble::default(), &mut cells);
            }
        }
        cells
    }

    /// Beside datagrams, each trouble in a group of cells.
    pub(crate) fn troubled(self) -> Vec<(&'static str, Vec<Cell>)> {
        let group = |(name, trouble): (&'static str, Trouble)| {
            let mut cells = Vec::new();
            let cross = Cross::Datagrams(self.loads()[1]);
            self.add(cross, Queue::Fifo, trouble, &mut cells);
            (name, cells)
        };
        troubles().into_iter().map(group).collect()
    }

    /// Behind a policer, and with as many losses without one, each in a group of cells.
    pub(crate) fn policed(self) -> Vec<(String, Vec<Cell>)> {
        let (shares, bursts) = match self {
            Half::Chosen => ([0.2, 0.4, 0.8], [20_000, 60_000]),
            Half::Reported => ([0.15, 0.3, 0.7], [30_000, 80_000]),
        };
        let mut groups = Vec::new();
        let mut group = |name, cross, trouble| {
            let mut cells = Vec::new();
            self.add(cross, Queue::Fifo, trouble, &mut cells);
            groups.push((name, cells));
        };
        for share in shares {
            for burst in bursts {
                let policer = Some(Policer { share, burst });
                let name = format!(
                    "{:.0} % of the capacity, a burst of {} kB or {} ms",
                    100.0 * share,
                    burst / 1000,
                    burst / 5_000
                );
                let trouble = Trouble {
                    policer,
                    ..Trouble::default()
                };
                group(name, Cross::Datagrams(0.0), trouble);
            }
        }
        for loss in [0.01, 0.05] {
            let name = format!("none, {:.0} % of the data lost at random", 100.0 * loss);
            let trouble = Trouble {
                loss,
                ..Trouble::default()
            };
            group(name, Cross::Datagrams(self.loads()[1]), trouble);
        }
        groups
    }
}

pub(crate) const CUBIC: Cross = Cross::Bulk("cubic", 1);
pub(crate) const EIGHT_CUBIC: Cross = Cross::Bulk("cubic", 8);
pub(crate) const EIGHT_RENO: Cross = Cross::Bulk("reno", 8);

/// What goes wrong, with its name in tables.
fn troubles() -> [(&'static str, Trouble); 10] {
    let none = Trouble::default();
    let jitter = |jitter_ms| Trouble { jitter_ms, ..none };
    let ack_loss = |ack_loss| Trouble { ack_loss, ..none };
    let aggregation = |aggregation_ms| Trouble {
        aggregation_ms,
        ..none
    };
    [
        ("jitter of 0.2 ms", jitter(0.2)),
        ("jitter of 1 ms", jitter(1.0)),
        ("jitter of 5 ms", jitter(5.0)),
        ("data goes on every 1 ms", aggregation(1.0)),
        ("data goes on every 4 ms", aggregation(4.0)),
        (
            "ACKs go on every 1 ms",
            Trouble {
                ack_aggregation_ms: 1.0,
                ..none
            },
        ),
        ("10 % of the ACKs lost", ack_loss(0.1)),
        ("75 % of the ACKs lost: stretched ones", ack_loss(0.75)),
        (
            "reverse direction 70 % full",
            Trouble {
                reverse: 0.7,
                ..none
            },
        ),
        (
            "1 % of the data lost at random",
            Trouble { loss: 0.01, ..none },
        ),
    ]
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
    let row = format!(
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
    );
    // Where no cell has an estimate.
    row.replace("NaN %", "–").replace("NaN", "–")
}

/// A group of cells: its name in the tables, and the results.
type Group = (String, Vec<(Cell, Errors)>);

/// Runs the cells of a group and prints a line for each.
fn run_group(name: &str, cells: Vec<Cell>, trace: Option<usize>) -> Group {
    println!("{name}");
    let mut results = Vec::new();
    for (index, cell) in cells.into_iter().enumerate() {
        if trace.is_some_and(|only| only != index) {
            continue;
        }
        let errors = Errors::of(&cell, &cell.run(trace.is_some()), 8.0);
        let sizes = |values: &[f64]| values.iter().map(|value| value.abs()).collect::<Vec<_>>();
        let available = sizes(&errors.available);
        println!(
            "{index}, {}, {}, {:?}, {:?}, {}: {} ({} policed), {}; {:.3}, {:.3}, {:.3}; {:.2}; {:.3}; {:.1}; {}",
            cell.mbps,
            cell.rtt_ms,
            cell.cross,
            cell.queue,
            cell.seed,
            errors.estimates,
            errors.policed,
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
    (name.to_owned(), results)
}

/// Prints a table with a row for each group.
fn print_table<'a>(rows: impl Iterator<Item = (String, Vec<&'a (Cell, Errors)>)>) {
    println!();
    println!(
        "| cells | number | median error | 95th percentile | worst cell's median | interval holds | capacity: median error | round trips to the next: median cell | worst cell | unknown |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for (name, group) in rows {
        if !group.is_empty() {
            println!("{}", summary(&name, &group));
        }
    }
}

/// Runs the reported half, or with the word `chosen` the other: prints a line for each cell, and
/// tables. With the name of a group, only that; with a number, too, only that cell of it and its
/// trains.
pub(crate) fn table(words: &[String]) {
    let half = Half::of(words);
    let only: Option<usize> = words.iter().find_map(|word| word.parse().ok());
    let is_asked = |name: &str| {
        let names = ["plain", "fair", "troubled", "policed"];
        let asked = words.iter().find(|word| names.contains(&word.as_str()));
        asked.is_none_or(|asked| asked == name)
    };
    println!(
        "cell, Mbit/s, ms, cross traffic, queue, seed: estimates (of a policer), unknown; median, p95, bias of the available bandwidth; held; median of the capacity; round trips; why unknown"
    );
    if is_asked("plain") {
        print_plain(half, &run_group("plain", half.plain(), only).1);
    }
    if is_asked("troubled") {
        let troubled = half.troubled().into_iter();
        let groups: Vec<Group> = troubled
            .map(|(name, cells)| run_group(name, cells, only))
            .collect();
        print_table(
            groups
                .iter()
                .map(|(name, results)| (name.clone(), results.iter().collect())),
        );
    }
    if is_asked("policed") {
        let policed = half.policed().into_iter();
        let groups: Vec<Group> = policed
            .map(|(name, cells)| run_group(&name, cells, only))
            .collect();
        print_policed(&groups);
    }
    if is_asked("fair") {
        print_fair(&run_group("fair", half.fair(), only).1);
    }
}

fn print_plain(half: Half, results: &[(Cell, Errors)]) {
    let group = |name: String, is: &dyn Fn(&Cell) -> bool| {
        let of_group = results.iter().filter(|(cell, _)| is(cell));
        (name, of_group.collect::<Vec<_>>())
    };
    let mut rows = vec![group("all".to_owned(), &|_| true)];
    for load in half.loads() {
        let name = format!("datagrams, {:.0} % of the capacity", 100.0 * load);
        rows.push(group(name, &|cell| cell.cross == Cross::Datagrams(load)));
    }
    rows.push(group("one Cubic".to_owned(), &|cell| cell.cross == CUBIC));
    let reno = &|cell: &Cell| cell.cross == EIGHT_RENO;
    rows.push(group("eight Reno".to_owned(), reno));
    for rtt_ms in half.rtt_ms() {
        let name = format!("round trip {rtt_ms} ms");
        rows.push(group(name, &|cell| cell.rtt_ms == rtt_ms));
    }
    for mbps in half.mbps() {
        let name = format!("{mbps} Mbit/s");
        rows.push(group(name, &|cell| cell.mbps == mbps));
    }
    print_table(rows.into_iter());
}

/// How often a policer is told, and how well its rate is known. Each cell counts the same.
fn print_policed(groups: &[Group]) {
    println!();
    println!(
        "| policer | number | told | median error | 95th percentile | interval holds | an estimate without it | unknown |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (name, results) in groups {
        let share = |of: &dyn Fn(&Errors) -> usize| {
            let shares = results.iter().map(|(_, errors)| {
                of(errors) as f64 / (errors.estimates + errors.unknown).max(1) as f64
            });
            100.0 * shares.sum::<f64>() / results.len().max(1) as f64
        };
        let mut all = Vec::new();
        for (_, errors) in results {
            let sizes: Vec<f64> = errors.available.iter().map(|error| error.abs()).collect();
            all.extend((0..100).map(|share| quantile(&sizes, f64::from(share) / 99.0)));
        }
        all.retain(|error| error.is_finite());
        println!(
            "| {name} | {} | {:.0} % | {:.1} % | {:.1} % | {:.0} % | {:.0} % | {:.0} % |",
            results.len(),
            share(&|errors| errors.policed),
            100.0 * quantile(&all, 0.5),
            100.0 * quantile(&all, 0.95),
            share(&|errors| errors.held) / share(&|errors| errors.estimates) * 100.0,
            share(&|errors| errors.estimates - errors.policed),
            share(&|errors| errors.unknown),
        );
    }
}

/// How often fair queueing is told, by cross traffic, queue and capacity.
fn print_fair(results: &[(Cell, Errors)]) {
    println!();
    println!("| cells | number | \"fair queueing\" | unknown for another reason | an estimate |");
    println!("|---|---|---|---|---|");
    let print = |name: String, is: &dyn Fn(&Cell) -> bool| {
        let of_group = results.iter().filter(|(cell, _)| is(cell));
        let errors: Vec<&Errors> = of_group.map(|(_, errors)| errors).collect();
        if errors.is_empty() {
            return;
        }
        // Each cell counts the same.
        let share = |of: &dyn Fn(&Errors) -> usize| {
            let shares = errors.iter().map(|errors| {
                of(errors) as f64 / (errors.estimates + errors.unknown).max(1) as f64
            });
            100.0 * shares.sum::<f64>() / errors.len() as f64
        };
        println!(
            "| {name} | {} | {:.0} % | {:.0} % | {:.0} % |",
            errors.len(),
            share(&|errors| errors.fair),
            share(&|errors| errors.unknown - errors.fair),
            share(&|errors| errors.estimates),
        );
    };
    for (queue, of_queue) in [(Queue::FqCodel, "FQ-CoDel"), (Queue::Wfq, "WFQ")] {
        let is = |cell: &Cell, cross: Cross| cell.queue == queue && cell.cross == cross;
        let idle = Cross::Datagrams(0.0);
        print(format!("{of_queue}, idle"), &|cell| is(cell, idle));
        for (slow, link) in [(true, "up to 100 Mbit/s"), (false, "200 Mbit/s or more")] {
            for (cross, name) in [(CUBIC, "one Cubic"), (EIGHT_CUBIC, "eight Cubic")] {
                print(format!("{of_queue}, {name}, {link}"), &|cell| {
                    is(cell, cross) && (cell.mbps <= 100.0) == slow
                });
            }
        }
    }
}
