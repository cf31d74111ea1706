//! What is seen of a run: rates each second, the results of ImTCP's measurements, window and round-trip time.

use fairwind_cc::kernel;
use fairwind_result::RunResult;
use fairwind_result::record::{FlowSample, LinkSample, Recorder};
use fairwind_trace::control_state::{ControlState, StateField};
use serde::{Deserialize, Serialize};

use super::super::curve::Curve;
use super::setup::{Cell, Cross, WIRE_TCP, WIRE_UDP};
use crate::Error;

/// Payload of a full segment, bytes.
const MSS: f64 = 1448.0;
/// Time between two moments, seconds.
const MOMENT_S: f64 = 0.1;
/// ImTCP-bg's δ.
const DELTA: f64 = 1.2;

/// What is measured of a run. Rates are in Mbit/s on the wire.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Measures {
    /// Of the background, in each second.
    pub background_mbps: Vec<f64>,
    /// Of all cross traffic together, in each second.
    pub cross_mbps: Vec<f64>,
    /// Results of ImTCP's measurements: seconds, and the available bandwidth.
    pub results: Vec<(f64, f64)>,
    /// The background's connection.
    pub moments: Vec<Moment>,
    /// Queue of the bottleneck each 100 ms, packets.
    pub queue_pkts: Vec<u64>,
    /// Packets that it dropped.
    pub drops: u64,
    /// Processor time, seconds for each second.
    pub processors: f64,
    /// Why the run is doubtful.
    pub warnings: Vec<String>,
}

/// The background's connection at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Moment {
    pub seconds: f64,
    /// Congestion window, packets: the greatest since the moment before, as ImTCP makes it smaller to store a stream.
    pub window: f64,
    /// ImTCP-bg's upper limit of it, if a measurement has told one.
    pub limit: Option<f64>,
    /// Smoothed round-trip time, ms: ImTCP-bg's own where it is in the background.
    pub rtt_ms: f64,
    /// From which ImTCP-bg makes the window smaller.
    pub threshold_ms: f64,
}

/// Fields of the state of a congestion control that measures.
#[derive(Default)]
struct Fields {
    available: Option<StateField>,
    smoothed: Option<StateField>,
    srtt: Option<StateField>,
}

impl Fields {
    fn of(control: &str) -> Result<Fields, Error> {
        let Some(object) = kernel::object(control) else {
            return Ok(Fields::default());
        };
        let state = ControlState::of_object(control, object);
        let state = state.map_err(|error| Error::work(error.to_string()))?;
        let field = |column: &str| {
            let mut fields = state.fields.iter();
            fields.find(|field| field.column == column).cloned()
        };
        Ok(Fields {
            available: field("imtcp_available").or(field("imtcp_bg_measurement_available")),
            smoothed: field("imtcp_bg_smoothed"),
            srtt: field("imtcp_bg_srtt_us"),
        })
    }
}

/// A run while it goes on.
pub(super) struct Watch {
    has_background: bool,
    cross: Cross,
    fields: Fields,
    background: Curve,
    others: Vec<Curve>,
    seen: Measures,
    /// The latest sample of the background, not yet among the moments.
    moment: Moment,
    next_queue_s: f64,
}

impl Watch {
    /// Nothing yet, of a run of this cell.
    ///
    /// # Errors
    /// If the state of its congestion control has no description.
    pub(super) fn new(cell: &Cell) -> Result<Watch, Error> {
        Ok(Watch {
            has_background: cell.has_background(),
            cross: cell.cross,
            fields: Fields::of(&cell.control)?,
            background: Curve::new(1.0),
            others: Vec::new(),
            seen: Measures::default(),
            moment: Moment::default(),
            next_queue_s: 0.0,
        })
    }

    /// What was seen, and the totals of the result.
    pub(super) fn measures(self, result: &RunResult) -> Measures {
        let wire = match self.cross {
            Cross::Tcp => WIRE_TCP,
            Cross::Udp => WIRE_UDP,
        };
        let mut cross_mbps = Vec::new();
        for rates in self.others.iter().map(|curve| curve.mbps(wire)) {
            cross_mbps.resize(rates.len().max(cross_mbps.len()), 0.0);
            for (sum, rate) in cross_mbps.iter_mut().zip(rates) {
                *sum += rate;
            }
        }
        Measures {
            background_mbps: self.background.mbps(WIRE_TCP),
            cross_mbps,
            drops: result.links[0].drops,
            processors: result.performance.cpu_s / result.performance.wall_s,
            warnings: result.warnings.clone(),
            ..self.seen
        }
    }

    /// The connection of the background in a new sample.
    fn note(&mut self, sample: &FlowSample) {
        let seconds = sample.time_ns as f64 / 1e9;
        let before = self.moment;
        if (seconds / MOMENT_S).floor() > (before.seconds / MOMENT_S).floor() {
            self.seen.moments.push(before);
            self.moment.window = 0.0;
        }
        let instruments = &sample.instruments;
        let ms = |us: Option<u32>| f64::from(us.unwrap_or(0)) / 1e3;
        self.moment = Moment {
            seconds,
            window: self.moment.window.max(instruments.cur_cwnd as f64 / MSS),
            limit: None,
            rtt_ms: ms(instruments.smoothed_rtt_us),
            threshold_ms: DELTA * ms(instruments.min_rtt_us),
        };
    }
}

impl Recorder for Watch {
    fn records_states(&self) -> bool {
        self.fields.available.is_some()
    }

    fn flow(&mut self, flow: usize, sample: &FlowSample) {
        let bytes = sample.instruments.bytes_received;
        match flow.checked_sub(self.has_background.into()) {
            None => {
                self.background.add(sample.time_ns, bytes);
                self.note(sample);
            }
            Some(other) => {
                if self.others.len() <= other {
                    self.others.resize(other + 1, Curve::new(1.0));
                }
                self.others[other].add(sample.time_ns, bytes);
            }
        }
    }

    fn state(&mut self, flow: usize, sample: &FlowSample, state: &[u8]) {
        let Some(state) = state
            .first_chunk()
            .filter(|_| self.has_background && flow == 0)
        else {
            return;
        };
        let value = |field: &Option<StateField>| {
            let value = field.as_ref().map(|field| field.value(state) as f64);
            value.filter(|value| *value > 0.0)
        };
        if let Some(kbps) = value(&self.fields.available) {
            let mbps = kbps / 1e3 * WIRE_TCP;
            if self.seen.results.last().is_none_or(|last| last.1 != mbps) {
                self.seen.results.push((sample.time_ns as f64 / 1e9, mbps));
            }
        }
        if let Some(eighths) = value(&self.fields.srtt) {
            self.moment.rtt_ms = eighths / 8e3;
        }
        let least_ms = self.moment.threshold_ms / DELTA;
        self.moment.limit = value(&self.fields.smoothed).map(|kbps| kbps * least_ms / 8.0 / MSS);
    }

    fn link(&mut self, link: usize, sample: &LinkSample) {
        let seconds = sample.time_ns as f64 / 1e9;
        if link == 0 && seconds >= self.next_queue_s {
            self.seen.queue_pkts.push(sample.queue_packets);
            self.next_queue_s = (seconds / MOMENT_S + 1e-6).floor() * MOMENT_S + MOMENT_S;
        }
    }
}

/// The values of these seconds: each stands for the second that begins at its place.
pub(super) fn within(values: &[f64], (from, to): (f64, f64)) -> &[f64] {
    let at = |seconds: f64| (seconds.round() as usize).min(values.len());
    &values[at(from)..at(to).max(at(from))]
}

impl Measures {
    /// What the cross traffic leaves of a bandwidth in the second of this time.
    pub(super) fn left(&self, bandwidth_mbps: f64, seconds: f64) -> f64 {
        let of_cross = self.cross_mbps.get(seconds as usize).copied();
        (bandwidth_mbps - of_cross.unwrap_or(0.0)).max(0.0)
    }

    /// Its moments between two times.
    pub(super) fn moments_in(&self, (from, to): (f64, f64)) -> impl Iterator<Item = &Moment> {
        let is_in = move |moment: &&Moment| (from..to).contains(&moment.seconds);
        self.moments.iter().filter(is_in)
    }

    /// The queue between two times, packets.
    pub(super) fn queue_in(&self, (from, to): (f64, f64)) -> f64 {
        let at = |seconds: f64| ((seconds / MOMENT_S).round() as usize).min(self.queue_pkts.len());
        let all = &self.queue_pkts[at(from)..at(to).max(at(from))];
        all.iter().sum::<u64>() as f64 / all.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use fairwind_experiment::engine::sim::Sim;
    use fairwind_experiment::engine::{Engine, Run};
    use fairwind_scenario::Experiment;

    use super::*;

    /// A connection alone over 100 Mbit/s, with a queue of one bandwidth-delay product.
    fn alone(control: &str) -> Measures {
        let text = format!(
            "duration = \"10s\"\naccounting = \"ethernet-wire\"\nrecord = {{ interval = \"20ms\" }}\n\
             [[link]]\nbetween = [\"a\", \"b\"]\nbandwidth = \"100Mbit/s\"\ndelay = \"15ms\"\nqueue = \"250pkt\"\n\
             [[flow]]\nname = \"background\"\nfrom = \"a\"\nto = \"b\"\ncongestion_control = \"{control}\"\n"
        );
        let experiment = Experiment::parse(&text, "x.toml", "".as_ref(), &[]).unwrap();
        let cell = Cell {
            network: String::new(),
            cross: Cross::Tcp,
            control: control.to_owned(),
            queue: None,
            pair: None,
        };
        let mut watch = Watch::new(&cell).unwrap();
        let run = Run {
            experiment: &experiment,
            seed: 1,
            folder: "".as_ref(),
        };
        let result = Sim.run(run, &mut watch, &|_| true).unwrap();
        watch.measures(&result)
    }

    #[test]
    fn what_imtcp_measures_is_read_from_its_state() {
        for control in ["imtcp", "imtcp_bg"] {
            let measures = alone(control);
            let (_, mbps) = measures.results.last().expect("a result");
            assert!((90.0..110.0).contains(mbps), "{control}: {mbps} Mbit/s");
            let rate = measures.background_mbps[8];
            assert!((70.0..100.1).contains(&rate), "{control}: {rate} Mbit/s");
        }
        assert_eq!(alone("reno").results, []);
    }

    #[test]
    fn imtcp_bg_keeps_its_window_within_the_limit_that_is_read() {
        let measures = alone("imtcp_bg");
        let late: Vec<&Moment> = measures.moments_in((5.0, 10.0)).collect();
        assert_eq!(late.len(), 50);
        let within = late.iter().filter(|moment| {
            moment
                .limit
                .is_some_and(|limit| moment.window <= limit + 1.0)
        });
        assert!(within.count() * 10 >= late.len() * 9, "{late:?}");
        // 1.2 times 30 ms and a packet's transmission.
        assert!((36.0..38.0).contains(&late[0].threshold_ms), "{late:?}");
    }
}
