//! The experiment file of a cell: the thesis' networks, and what it leaves open.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

use crate::Error;
use crate::plan::Run;

/// Bytes of an Ethernet frame with preamble and gap for each byte of payload: of full segments, and of datagrams.
/// All rates here count the former.
pub(super) const WIRE_TCP: f64 = 1538.0 / 1448.0;
pub(super) const WIRE_UDP: f64 = 1538.0 / 1472.0;
/// For each byte of the IP packet.
const WIRE_IP: f64 = 1538.0 / 1500.0;

/// Length of one run of a pair, seconds.
const PAIR_S: f64 = 15.0;

/// `[data]` of the plan.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Data {
    /// By their names in runs.
    pub networks: BTreeMap<String, Network>,
}

/// A network, and the traffic that crosses it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Network {
    /// Of the bottleneck.
    pub bandwidth_mbps: f64,
    /// Least round-trip time, ms.
    pub rtt_ms: f64,
    /// Queue of the bottleneck, packets.
    pub queue_pkts: u64,
    /// Receive buffer of the TCP connections that cross it, bytes.
    pub receive_buffer: Buffer,
    /// Length of a run beside UDP, seconds.
    pub udp_s: f64,
    /// Its rates, in the order of time.
    pub udp: Vec<Step>,
    /// Length of a run beside TCP, seconds.
    pub tcp_s: f64,
    /// Its connections.
    pub tcp: Vec<Group>,
}

/// What it is in each engine.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Buffer {
    pub lab: u64,
    pub sim: u64,
}

/// A rate from a time on.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Step {
    pub from_s: f64,
    pub mbps: f64,
}

/// Connections that join one after another, and stay for a time.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(super) struct Group {
    pub connections: u64,
    pub from_s: f64,
    pub every_s: f64,
    pub stay_s: f64,
}

/// What crosses a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cross {
    /// Datagrams, whose rate changes.
    Udp,
    /// Connections that join and leave.
    Tcp,
}

impl Cross {
    /// Its word in plans.
    pub(super) fn word(self) -> &'static str {
        match self {
            Cross::Udp => "udp",
            Cross::Tcp => "tcp",
        }
    }
}

/// Who is in the background, on which network, and what crosses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub network: String,
    pub cross: Cross,
    pub control: String,
    /// Of the bottleneck, packets, if not the network's.
    pub queue: Option<u64>,
    /// Of which pair of short runs it is one.
    pub pair: Option<u64>,
}

/// The cells of these runs.
///
/// # Errors
/// If a run names a network that the data lacks.
pub(super) fn cells(data: &Data, runs: &[&Run]) -> Result<Vec<Cell>, Error> {
    let cell = |run: &&Run| {
        let network = run.get(super::super::NETWORK).to_owned();
        if !data.networks.contains_key(&network) {
            let known: Vec<&str> = data.networks.keys().map(String::as_str).collect();
            return Err(Error::input(format!(
                "no network is called {network}\n  help: the plan's data has {}",
                known.join(", ")
            )));
        }
        Ok(Cell {
            network,
            cross: match run.get("cross") {
                "udp" => Cross::Udp,
                _ => Cross::Tcp,
            },
            control: run.get("control").to_owned(),
            queue: run.get("queue").parse().ok(),
            pair: run.get("pair").parse().ok(),
        })
    };
    runs.iter().map(cell).collect()
}

impl Cell {
    /// The name of its runs.
    pub(super) fn name(&self) -> String {
        let (network, cross) = (&self.network, self.cross.word());
        let mut name = format!("{network}-{cross}-{}", self.control);
        for (what, number) in [("queue", self.queue), ("pair", self.pair)] {
            if let Some(number) = number {
                // Writing to a string cannot fail.
                let _ = write!(name, "-{what}-{number}");
            }
        }
        name
    }

    /// Whether it is run in the lab, or else in the simulator.
    pub(super) fn is_run_in(&self, lab: bool) -> bool {
        match lab {
            true => self.queue.is_none(),
            false => self.pair.is_none(),
        }
    }

    pub(super) fn has_background(&self) -> bool {
        self.control != "none"
    }

    /// The experiment file, whose times are scaled. Its recordings are called `NAME-…`.
    pub(super) fn text(&self, network: &Network, buffer: u64, scale: f64) -> String {
        let mut text = format!(
            "title = \"{}\"\nduration = \"{}s\"\nseeds = [1]\naccounting = \"ethernet-wire\"\n\n\
             [record]\ninterval = \"20ms\"\n\n\
             [[link]]\nname = \"bottleneck\"\nbetween = [\"router\", \"receiver\"]\n\
             bandwidth = \"{}Mbit/s\"\ndelay = \"{}ms\"\nqueue = \"{}pkt\"\n\
             reverse = {{ bandwidth = \"unlimited\", queue = \"unlimited\" }}\n",
            self.name(),
            match self.pair {
                Some(_) => PAIR_S,
                None => network.length_s(self.cross),
            } * scale,
            network.bandwidth_mbps,
            network.rtt_ms / 2.0,
            self.queue.unwrap_or(network.queue_pkts),
        );
        if self.has_background() {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n[[link]]\nbetween = [\"sender\", \"router\"]\n\
                 \n[[flow]]\nname = \"background\"\nfrom = \"sender\"\nto = \"receiver\"\n\
                 congestion_control = \"{}\"\nreceive_buffer = \"8MB\"\nsend_buffer = \"8MB\"\n",
                self.control
            );
        }
        match self.cross {
            Cross::Udp => self.datagrams(network, scale, &mut text),
            Cross::Tcp => connections(network, buffer, scale, &mut text),
        }
        text
    }

    /// A sender for each rate. Its link lets nothing pass once the next has begun.
    fn datagrams(&self, network: &Network, scale: f64, text: &mut String) {
        for (number, step) in network.steps() {
            let loss = match network.end_of(number) {
                Some(_) => format!("loss = {{ trace = \"{}\" }}\n", self.recording(number)),
                None => String::new(),
            };
            let _ = write!(
                text,
                "\n[[link]]\nbetween = [\"generator-{number}\", \"router\"]\n{loss}\
                 \n[[flow]]\nname = \"cross-{number}\"\nfrom = \"generator-{number}\"\nto = \"receiver\"\n\
                 start = \"{}s\"\napplication = {{ kind = \"constant\", rate = \"{:.3}Mbit/s\" }}\n",
                step.from_s * scale,
                step.mbps / WIRE_IP,
            );
        }
    }

    fn recording(&self, number: usize) -> String {
        format!("{}-{number}.csv", self.name())
    }

    /// The recordings of its experiment file: names and contents.
    pub(super) fn recordings(&self, network: &Network, scale: f64) -> Vec<(String, String)> {
        let of_step = |(number, _)| {
            let end = network.end_of(number)? * scale;
            let text = format!("time_s,loss_probability\n0,0\n{end},1\n");
            Some((self.recording(number), text))
        };
        match self.cross {
            Cross::Udp => network.steps().filter_map(of_step).collect(),
            Cross::Tcp => Vec::new(),
        }
    }
}

/// A bulk transfer does not stop, so connections that leave are on once.
fn connections(network: &Network, buffer: u64, scale: f64, text: &mut String) {
    text.push_str("\n[[link]]\nbetween = [\"generator\", \"router\"]\n");
    for (number, group) in network.tcp.iter().enumerate() {
        let _ = write!(
            text,
            "\n[[flow]]\nname = \"cross-{number}\"\nfrom = \"generator\"\nto = \"receiver\"\n\
             congestion_control = \"reno\"\nreceive_buffer = \"{buffer}B\"\ncount = {}\nstart = \"{}s\"\n\
             every = \"{}s\"\n\
             application = {{ kind = \"on-off\", on = \"{}s\", off = \"1h\", random = false }}\n",
            group.connections,
            group.from_s * scale,
            group.every_s * scale,
            group.stay_s * scale,
        );
    }
}

impl Network {
    /// The steps in which datagrams are sent.
    fn steps(&self) -> impl Iterator<Item = (usize, &Step)> {
        self.udp
            .iter()
            .enumerate()
            .filter(|(_, step)| step.mbps > 0.0)
    }

    /// When the next step begins, seconds.
    fn end_of(&self, step: usize) -> Option<f64> {
        self.udp.get(step + 1).map(|next| next.from_s)
    }

    fn length_s(&self, cross: Cross) -> f64 {
        match cross {
            Cross::Udp => self.udp_s,
            Cross::Tcp => self.tcp_s,
        }
    }

    /// The spans between two changes of the cross traffic, seconds; those shorter than `least_s` are left out.
    pub(super) fn spans(&self, cross: Cross, least_s: f64) -> Vec<(f64, f64)> {
        let mut times = vec![0.0, self.length_s(cross)];
        match cross {
            Cross::Udp => times.extend(self.udp.iter().map(|step| step.from_s)),
            Cross::Tcp => {
                for group in &self.tcp {
                    for number in 0..group.connections {
                        let from_s = group.from_s + number as f64 * group.every_s;
                        times.extend([from_s, from_s + group.stay_s]);
                    }
                }
            }
        }
        times.retain(|time| *time <= self.length_s(cross));
        times.sort_by(f64::total_cmp);
        let pairs = times.windows(2).map(|pair| (pair[0], pair[1]));
        pairs.filter(|(from, to)| to - from >= least_s).collect()
    }

    /// What datagrams leave at a time, Mbit/s.
    pub(super) fn left_by_datagrams(&self, seconds: f64) -> f64 {
        let begun = self.udp.iter().rev().find(|step| step.from_s <= seconds);
        self.bandwidth_mbps - begun.map_or(0.0, |step| step.mbps)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fairwind_scenario::Experiment;

    use super::*;
    use crate::plan::Plan;

    fn plan() -> Plan {
        let experiments = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
        Plan::read(&experiments, "imtcp-bg").unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn spans_are_between_changes_of_the_cross_traffic() {
        let data: Data = plan().data().unwrap();
        let laboratory = &data.networks["laboratory"];
        assert_eq!(
            laboratory.spans(Cross::Udp, 5.0),
            [(0.0, 20.0), (20.0, 40.0), (40.0, 60.0)]
        );
        // The tenth joins at 9 s, the first leaves at 60 s.
        assert_eq!(laboratory.spans(Cross::Tcp, 5.0), [(9.0, 60.0)]);
        assert_eq!(
            [0.0, 19.9, 20.0, 59.0].map(|at| laboratory.left_by_datagrams(at)),
            [70.0, 70.0, 30.0, 50.0]
        );
    }

    #[test]
    fn every_cell_of_the_plan_is_an_experiment_at_every_scale() {
        let plan = plan();
        let data: Data = plan.data().unwrap();
        let runs = plan
            .runs
            .iter()
            .filter(|run| !run.get("network").is_empty());
        let runs: Vec<&Run> = runs.collect();
        let folder = tempfile::tempdir().unwrap();
        for cell in cells(&data, &runs).unwrap() {
            for scale in [1.0, 0.2] {
                let network = &data.networks[&cell.network];
                for (file, text) in cell.recordings(network, scale) {
                    std::fs::write(folder.path().join(file), text).unwrap();
                }
                let text = cell.text(network, 24_000, scale);
                let read = Experiment::parse(&text, "cell.toml", folder.path(), &[]);
                read.unwrap_or_else(|error| panic!("{}: {error}", cell.name()));
            }
        }
    }
}
