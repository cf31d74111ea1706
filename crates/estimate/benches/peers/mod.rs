//! Other methods in the same cells, and what each costs.

mod pathload;
mod spruce;

use fairwind_path::units::{Bandwidth, Duration, Time};
use fairwind_sim::outcome::{NextDatagram, Observer, PipeSample};
use fairwind_sim::run;
use fairwind_workload::Application;

use crate::cells::{CUBIC, Cell, Cross, EIGHT_RENO, Half, MEASURES_FROM_S, Pair, Series, quantile};
use pathload::Pathload;
use spruce::Spruce;

/// Peers have until then, s; what is unknown then stays so.
const UNTIL_S: f64 = 65.0;
/// `fairwind measure` measures for as long.
const OURS_S: f64 = 10.0;

/// A range of the available bandwidth, bit/s, and when it was known.
#[derive(Clone, Copy)]
struct Answer {
    at_s: f64,
    low: f64,
    high: f64,
}

/// What a method sends next, and when it is asked again, s.
struct Next {
    send: Option<(u32, u64)>,
    again: f64,
}

trait Method {
    fn next(&mut self, now: f64) -> Next;
    fn arrival(&mut self, now: f64, number: u64);
    fn answer(&self) -> Option<Answer>;
}

/// The method's traffic in a cell, and the bottleneck's counters.
struct Watch<'a> {
    method: Option<&'a mut dyn Method>,
    packets: u64,
    answer: Option<Answer>,
    carried: Series,
    own_bytes: f64,
    bytes_of: Vec<f64>,
}

impl Watch<'_> {
    fn run(cell: &Cell, method: Option<&mut dyn Method>) -> (Option<Answer>, u64, Series) {
        let nothing = Application::ConstantRate {
            rate: Bandwidth::from_bps(1_000_000),
            packet: 100,
        };
        let mut watch = Watch {
            method,
            packets: 0,
            answer: None,
            carried: Series {
                served: Vec::new(),
                own: vec![(0.0, 0.0)],
            },
            own_bytes: 0.0,
            bytes_of: Vec::new(),
        };
        let cell = Cell {
            seconds: UNTIL_S,
            ..*cell
        };
        run(&cell.scenario(nothing), &mut watch);
        (watch.answer, watch.packets, watch.carried)
    }
}

impl Observer for Watch<'_> {
    fn datagram(&mut self, flow: usize, now: Time) -> Option<NextDatagram> {
        if flow > 0 {
            return None;
        }
        let far = NextDatagram {
            send: None,
            again: now + Duration::from_millis(1_000),
        };
        let Some(method) = self.method.as_mut().filter(|_| self.answer.is_none()) else {
            return Some(far);
        };
        let next = method.next(now.as_secs_f64());
        if let Some((bytes, number)) = next.send {
            self.packets += 1;
            let number = number as usize;
            if self.bytes_of.len() <= number {
                self.bytes_of.resize(number + 1, 0.0);
            }
            self.bytes_of[number] = f64::from(bytes);
        }
        self.answer = method.answer();
        let again = Time::from_nanos((next.again * 1e9) as u64);
        Some(NextDatagram {
            send: next.send,
            again: again.max(now),
        })
    }

    fn arrival(&mut self, flow: usize, now: Time, number: u64) {
        if flow > 0 {
            return;
        }
        self.own_bytes += self.bytes_of.get(number as usize).copied().unwrap_or(0.0);
        self.carried.own.push((now.as_secs_f64(), self.own_bytes));
        if let Some(method) = &mut self.method {
            method.arrival(now.as_secs_f64(), number);
            self.answer = self.answer.or(method.answer());
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

/// One method in one cell.
struct Row {
    /// Of the middle of the range, as a share of the capacity; none: no answer.
    error: Option<f64>,
    /// Width of the range, as a share of the capacity.
    width: f64,
    first_s: f64,
    packets: f64,
    /// What others lost while it measured, as a share of what they had without it.
    cost: f64,
}

fn of_peer(cell: &Cell, method: &mut dyn Method, quiet: &Series) -> Row {
    let (answer, packets, series) = Watch::run(cell, Some(method));
    let back = cell.rtt_ms / 2e3;
    let to = answer.map_or(UNTIL_S, |answer| answer.at_s) - back;
    let others = series.others(MEASURES_FROM_S, to, back);
    let capacity = cell.mbps * 1e6;
    Row {
        error: answer
            .map(|answer| ((answer.low + answer.high) / 2.0 - (capacity - others)) / capacity),
        width: answer.map_or(f64::NAN, |answer| (answer.high - answer.low) / capacity),
        first_s: answer.map_or(f64::INFINITY, |answer| answer.at_s - MEASURES_FROM_S),
        packets: packets as f64,
        cost: cost(others, quiet.others(MEASURES_FROM_S, to, back)),
    }
}

fn cost(others: f64, quiet: f64) -> f64 {
    match quiet > 0.0 {
        true => 1.0 - others / quiet,
        false => 0.0,
    }
}

/// As `fairwind measure` does it: the median of the estimates of ten seconds.
fn of_ours(cell: &Cell, quiet: &Series) -> Row {
    let cell = Cell {
        seconds: MEASURES_FROM_S + OURS_S,
        ..*cell
    };
    let (pairs, own, packets) = cell.measured(false);
    let back = cell.rtt_ms / 2e3;
    let (from, to) = (MEASURES_FROM_S, cell.seconds - back);
    let others = own.others(from, to, back);
    let known: Vec<&Pair> = pairs.iter().filter(|pair| pair.estimate.is_ok()).collect();
    let of = |of: &dyn Fn(&fairwind_estimate::Estimate) -> f64| {
        let values: Vec<f64> = known
            .iter()
            .filter_map(|pair| pair.estimate.as_ref().ok().map(of))
            .collect();
        quantile(&values, 0.5)
    };
    let capacity = cell.mbps * 1e6;
    let value = of(&|estimate| estimate.available.value);
    Row {
        error: known
            .first()
            .map(|_| (value - (capacity - others)) / capacity),
        width: (of(&|estimate| estimate.available.high) - of(&|estimate| estimate.available.low))
            / capacity,
        first_s: known
            .first()
            .map_or(f64::INFINITY, |pair| pair.at_s - MEASURES_FROM_S),
        packets: packets as f64,
        cost: cost(others, quiet.others(from, to, back)),
    }
}

/// A row of the table: medians over cells.
fn print_row(cross: &str, method: &str, rows: &[Row]) {
    let errors: Vec<f64> = rows
        .iter()
        .filter_map(|row| row.error.map(f64::abs))
        .collect();
    let answered = |of: &dyn Fn(&Row) -> f64, share: f64| {
        let answered = rows.iter().filter(|row| row.error.is_some());
        quantile(&answered.map(of).collect::<Vec<_>>(), share)
    };
    println!(
        "| {cross} | {method} | {} of {} | {:.1} % | {:.1} % | {:.1} % | {:.1} | {:.0} | {:.1} % | {:.1} % |",
        errors.len(),
        rows.len(),
        100.0 * quantile(&errors, 0.5),
        100.0 * quantile(&errors, 0.95),
        100.0 * answered(&|row| row.width, 0.5),
        answered(&|row| row.first_s, 0.5),
        answered(&|row| row.packets, 0.5),
        100.0 * answered(&|row| row.cost, 0.5),
        100.0 * answered(&|row| row.cost, 1.0),
    );
}

/// Prints the table of the half's cells behind a FIFO queue.
pub(crate) fn table(half: Half) {
    println!(
        "| cross traffic | method | answers | median error | 95th percentile | width of the range | first answer, s | packets | taken from others: median cell | worst cell |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let cells = half.plain();
    for name in ["datagrams", "one Cubic", "eight Reno"] {
        let is = |cross: &Cross| match cross {
            Cross::Datagrams(_) => name == "datagrams",
            cross if *cross == CUBIC => name == "one Cubic",
            cross => *cross == EIGHT_RENO && name == "eight Reno",
        };
        let mut rows = [Vec::new(), Vec::new(), Vec::new()];
        for cell in cells.iter().filter(|cell| is(&cell.cross)) {
            let quiet = Watch::run(cell, None).2;
            rows[0].push(of_ours(cell, &quiet));
            let mut pathload = Pathload::new(cell.rtt_ms / 1e3);
            rows[1].push(of_peer(cell, &mut pathload, &quiet));
            let mut spruce = Spruce::new(cell.mbps * 1e6, cell.seed);
            rows[2].push(of_peer(cell, &mut spruce, &quiet));
        }
        let methods = ["fairwind measure", "pathload", "Spruce"];
        for (method, rows) in methods.iter().zip(&rows) {
            print_row(name, method, rows);
        }
    }
}
