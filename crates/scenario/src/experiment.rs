//! A validated experiment, as the engines receive it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use fairwind_path::delay::Delay;
use fairwind_path::loss::LossConfig;
use fairwind_path::pipe::Aqm;
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::units::Duration;

use crate::diagnostic::{Diagnostic, Located};
use crate::file::decode;
use crate::file::link::Scheduler;
use crate::file::{self, ExperimentFile, Flow};
use crate::topology::{DirectedLink, Topology};

/// A valid experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    file: ExperimentFile,
    topology: Topology,
    text: String,
    overrides: Vec<String>,
}

/// One flow of a run: a flow of the file, or a copy of one.
#[derive(Clone, Debug)]
pub struct FlowCopy<'a> {
    /// Its name, unique among all flows of the run.
    pub name: String,
    /// Position in the file's flows, and in [`Topology::routes`].
    pub position: usize,
    /// Its description in the file.
    pub flow: &'a Flow,
    /// When it starts, from the start of the run.
    pub start: Duration,
}

impl Experiment {
    /// Reads a file and applies the arguments of `--set` to it in order.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is invalid; the diagnostic lists every problem with its place and
    /// its correction.
    pub fn load(file: &Path, set: &[String]) -> Result<Experiment, Diagnostic> {
        let text = std::fs::read(file).map_err(|error| {
            let help = "name an experiment file in TOML";
            Diagnostic::whole_file(file, format!("cannot be read: {error}"), help.into())
        })?;
        let text = String::from_utf8(text).map_err(|error| {
            let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
                .split(|byte| *byte == b'\n')
                .count();
            let message = format!("line {line} is not UTF-8");
            Diagnostic::whole_file(file, message, "save the file as UTF-8".into())
        })?;
        let folder = file.parent().unwrap_or(Path::new(""));
        Experiment::parse(&text, &file.display().to_string(), folder, set)
    }

    /// Reads a text. Messages call it `name`; traces are looked up in `folder`.
    ///
    /// # Errors
    /// As [`load`](Experiment::load).
    pub fn parse(
        text: &str,
        name: &str,
        folder: &Path,
        set: &[String],
    ) -> Result<Experiment, Diagnostic> {
        let (file, topology) = decode::document(text, name, |table, findings| {
            file::read(table, name, folder, set, findings)
        })?;
        Ok(Experiment {
            file,
            topology,
            text: text.to_owned(),
            overrides: set.to_vec(),
        })
    }

    /// Its title.
    pub fn title(&self) -> &str {
        &self.file.title
    }

    /// Its seeds, at least one.
    pub fn seeds(&self) -> &[u64] {
        &self.file.seeds
    }

    /// The decoded file.
    pub fn file(&self) -> &ExperimentFile {
        &self.file
    }

    /// Nodes and routes.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The text of the file as it was read, without the overrides.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The arguments of `--set`.
    pub fn overrides(&self) -> &[String] {
        &self.overrides
    }

    /// Every flow of a run, copies included, in the order of the file.
    pub fn flows(&self) -> Vec<FlowCopy<'_>> {
        let flows = self.file.flow.iter().enumerate();
        let copies = flows.flat_map(|(position, flow)| {
            flow.copies().map(move |(name, start)| FlowCopy {
                name,
                position,
                flow,
                start,
            })
        });
        copies.collect()
    }

    /// The link directions that results report, in the order of the file: those that carry data, and those
    /// that the file describes with `reverse` if acknowledgements pass them.
    pub fn reported_links(&self) -> Vec<DirectedLink> {
        let routes = self.topology.routes();
        let directions = self.file.directions().filter(|(way, link)| {
            routes.iter().any(|route| {
                route.forward.contains(way) || link.reverse_written && route.backward.contains(way)
            })
        });
        directions.map(|(way, _)| way).collect()
    }

    /// What the numbers of a result count, as sentences.
    pub fn accounting(&self) -> String {
        let common = self.file.accounting;
        let mut sentence = format!(
            "Bandwidth counts {}. Queues count IP bytes. Goodput counts payload delivered in order \
             to the receiving application.",
            common.definition()
        );
        for (direction, link) in self.file.directions() {
            let own = direction.of(link).accounting;
            if own != common {
                let (name, what) = (direction.name(link), own.definition());
                let _ = write!(sentence, " The bandwidth of link {name} counts {what}.");
            }
        }
        sentence
    }

    /// Names in schedulers that match no flow and no node; their classes stay empty.
    fn empty_classes(&self) -> Vec<&str> {
        let known = |name: &str| {
            self.topology.node(name).is_some()
                || self.file.flow.iter().any(|flow| flow.name.value == name)
        };
        let directions = self.file.directions();
        let names = directions.flat_map(|(way, link)| way.of(link).scheduler.names());
        let names: BTreeSet<&str> = names.map(|name| name.value.as_str()).collect();
        names.into_iter().filter(|name| !known(name)).collect()
    }

    /// Topology and flows in words, for people.
    pub fn describe(&self) -> String {
        let file = &self.file;
        let seeds: Vec<String> = file.seeds.iter().map(u64::to_string).collect();
        let mut out = format!(
            "{}\n{} long, warm-up {}, seeds {}, stack {}\n\nnodes: {}\n\nlinks\n",
            file.title,
            file.duration,
            file.warmup,
            seeds.join(" "),
            file.stack.word(),
            self.topology.nodes().join(", ")
        );
        for (index, link) in file.link.iter().enumerate() {
            let forward = DirectedLink::forward(index);
            let (from, to) = self.topology.ends(forward);
            let what = describe_direction(&link.forward);
            if !link.reverse_written {
                let name = forward.name(link);
                let _ = writeln!(out, "  {name}: {from} <-> {to}, {what}");
                continue;
            }
            let back = describe_direction(&link.reverse);
            let reverse = DirectedLink::reverse(index).name(link);
            let _ = writeln!(out, "  {}: {from} -> {to}, {what}", forward.name(link));
            let _ = writeln!(out, "  {reverse}: {to} -> {from}, {back}");
        }
        out.push_str("\nflows\n");
        for (flow, route) in file.flow.iter().zip(self.topology.routes()) {
            let mut way = flow.from.value.clone();
            for direction in &route.forward {
                let _ = write!(way, " -> {}", self.topology.ends(*direction).1);
            }
            let what = describe_flow(flow);
            let _ = writeln!(out, "  {}: {way}, {what}", flow.name.value);
        }
        for note in self.notes() {
            let _ = write!(out, "\nnote: {note}\n");
        }
        out
    }

    /// What is valid but perhaps unintended, or not supported by both engines.
    fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self
            .empty_classes()
            .into_iter()
            .map(|name| format!("a scheduler names `{name}`, but no flow and no host is called so"))
            .collect();
        let end = self.file.duration;
        for copy in self.flows().iter().filter(|copy| copy.start >= end) {
            notes.push(format!(
                "flow `{}` starts at {}, but the run ends at {end}",
                copy.name, copy.start
            ));
        }
        for flow in &self.file.flow {
            let name = &flow.name.value;
            for switch in flow.switch.iter().filter(|switch| switch.at >= end) {
                notes.push(format!(
                    "flow `{name}` takes `{}` at {}, but the run ends at {end}",
                    switch.congestion_control.value, switch.at
                ));
            }
            if let Some(reason) = flow.only_in_lab() {
                notes.push(format!("flow `{name}` runs only in the lab: {reason}"));
            }
        }
        for link in self.file.link.iter().filter(|link| link.capture) {
            let name = &link.name.value;
            notes.push(format!("link `{name}` is captured only in the lab"));
        }
        if self.file.time_scale != 1.0 && !self.file.follows_traces() {
            notes.push("`time_scale` changes nothing: no link follows a trace".to_owned());
        }
        notes
    }
}

fn describe_direction(direction: &file::link::Direction) -> String {
    let bandwidth = match &direction.bandwidth {
        Rate::Unlimited => "unlimited".to_owned(),
        Rate::Constant(bandwidth) => bandwidth.to_string(),
        Rate::Steps(trace) => format!("bandwidth as in {}", trace.name()),
        Rate::Opportunities(trace) => format!("bandwidth as in {}", trace.name()),
    };
    let delay = match &direction.delay {
        Delay::Constant(delay) => delay.to_string(),
        Delay::Steps(trace) => format!("delay as in {}", trace.name()),
    };
    let mut parts = vec![bandwidth, delay];
    if let Some(jitter) = &direction.jitter {
        parts.push(format!("jitter {}", jitter.amount));
    }
    if let Some(policer) = direction.policer {
        parts.push(format!("policed to {} and {}", policer.rate, policer.burst));
    }
    match direction.queue_or_default() {
        Capacity::Unlimited => {}
        Capacity::Packets(packets) => parts.push(format!("queue {packets} pkt")),
        Capacity::Bytes(bytes) => parts.push(format!("queue {bytes} B")),
    }
    match &direction.aqm {
        Aqm::DropTail => {}
        Aqm::Red(red) => parts.push(format!("RED {} to {}", red.min_th, red.max_th)),
        Aqm::CoDel(codel) => parts.push(format!("CoDel {}", codel.target)),
        Aqm::FqCoDel(fq_codel) => parts.push(format!("FQ-CoDel {}", fq_codel.target)),
        Aqm::DualPi2(dualpi2) => parts.push(format!("DualPI2 {}", dualpi2.target)),
        Aqm::Pie(pie) => parts.push(format!("PIE {}", pie.target)),
    }
    match &direction.scheduler {
        Scheduler::Fifo => {}
        Scheduler::Priority { order } => {
            let names: Vec<&str> = order.iter().map(|name| name.value.as_str()).collect();
            parts.push(format!("priority {}", names.join(" > ")));
        }
        Scheduler::Wf2q { weights } => {
            let share =
                |(name, weight): &(Located<String>, u32)| format!("{} {weight}", name.value);
            let shares: Vec<String> = weights.iter().map(share).collect();
            parts.push(format!("WF2Q+ {}", shares.join(", ")));
        }
    }
    match &direction.loss {
        LossConfig::None => {}
        LossConfig::Bernoulli(probability) => parts.push(format!("loss {probability}")),
        LossConfig::GilbertElliott { .. } => parts.push("Gilbert-Elliott loss".to_owned()),
        LossConfig::Steps(trace) => parts.push(format!("loss as in {}", trace.name())),
    }
    if direction.duplicate > 0.0 {
        parts.push(format!("duplicates {}", direction.duplicate));
    }
    if let Some(reorder) = &direction.reorder {
        parts.push(format!("reorders {}", reorder.probability));
    }
    if let Some(aggregation) = &direction.aggregation {
        parts.push(match aggregation.packets {
            None => format!("aggregates {}", aggregation.interval),
            Some(most) => format!("aggregates {most} pkt in {}", aggregation.interval),
        });
    }
    parts.join(", ")
}

fn describe_flow(flow: &Flow) -> String {
    let mut parts = Vec::new();
    if flow.application.uses_tcp() {
        parts.push(flow.congestion_control.value.clone());
    }
    parts.push(flow.application.kind().to_owned());
    if let Some(bytes) = flow.bytes {
        parts.push(bytes.to_string());
    }
    parts.push(format!("from {}", flow.start));
    for switch in &flow.switch {
        let control = &switch.congestion_control.value;
        parts.push(format!("{control} from {}", switch.at));
    }
    if flow.count > 1 {
        parts.push(format!("{} copies {} apart", flow.count, flow.every));
    }
    parts.join(", ")
}
