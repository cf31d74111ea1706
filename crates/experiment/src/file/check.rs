//! What the parts of a file say about each other: names, hosts, routes, queues.

use std::collections::HashMap;

use super::ExperimentFile;
use super::decode::Findings;
use super::flow::{Application, Flow};
use super::link::{Direction, Link, Queue, Scheduler};
use crate::diagnostic::{Located, Span, suggestion};
use crate::topology::{Route, Topology};
use crate::units_text::Amount;

/// Headers of a TCP segment with time stamps.
const TCP_HEADERS: u64 = 52;

/// Notes every contradiction; gives the topology if there is none.
pub fn check(file: &ExperimentFile, findings: &mut Findings) -> Option<Topology> {
    let found_before = findings.list.len();
    link_names(&file.link, findings);
    flow_names(&file.flow, findings);
    let topology = Topology::of(&file.link);
    for link in &file.link {
        scheduler_names(link, file, &topology, findings);
    }
    let routes: Vec<Option<Route>> = file
        .flow
        .iter()
        .map(|flow| route(flow, &topology, findings))
        .collect();
    let routes: Vec<Route> = routes.into_iter().collect::<Option<_>>()?;
    for (flow, route) in file.flow.iter().zip(&routes) {
        packets_fit(flow, route, &file.link, findings);
    }
    (findings.list.len() == found_before).then(|| topology.with_routes(routes))
}

fn link_names(links: &[Link], findings: &mut Findings) {
    let mut seen: HashMap<&str, ()> = HashMap::new();
    for link in links {
        if seen.insert(&link.name.value, ()).is_some() {
            findings.add(
                link.name.span,
                format!("a second link is called `{}`", link.name.value),
                "give it a name of its own: name = \"…\"",
            );
        }
    }
}

fn flow_names(flows: &[Flow], findings: &mut Findings) {
    let mut seen: HashMap<String, ()> = HashMap::new();
    for flow in flows {
        for (name, _) in flow.copies() {
            if seen.insert(name.clone(), ()).is_some() {
                findings.add(
                    flow.name.span,
                    format!("a second flow is called `{name}`"),
                    "give it a name of its own: name = \"…\"",
                );
                break;
            }
        }
    }
}

/// Each name in a scheduler must be that of a flow or a host, once.
fn scheduler_names(
    link: &Link,
    file: &ExperimentFile,
    topology: &Topology,
    findings: &mut Findings,
) {
    for direction in [&link.forward, &link.reverse] {
        let names: Vec<&Located<String>> = class_names(direction);
        for (index, name) in names.iter().enumerate() {
            let flows = file.flow.iter().map(|flow| flow.name.value.as_str());
            let mut known = flows.chain(topology.nodes().iter().map(String::as_str));
            if !known.clone().any(|known| known == name.value) {
                findings.add(
                    name.span,
                    format!("no flow and no host is called `{}`", name.value),
                    suggestion(&name.value, &mut known),
                );
            }
            if names[..index].iter().any(|n| n.value == name.value) {
                findings.add(
                    name.span,
                    format!("`{}` stands here twice", name.value),
                    "name each flow or host once",
                );
            }
        }
    }
}

fn class_names(direction: &Direction) -> Vec<&Located<String>> {
    match &direction.scheduler {
        Scheduler::Fifo => Vec::new(),
        Scheduler::Priority { order } => order.iter().collect(),
        Scheduler::Wf2q { weights } => weights.iter().map(|(name, _)| name).collect(),
    }
}

fn route(flow: &Flow, topology: &Topology, findings: &mut Findings) -> Option<Route> {
    let mut node = |name: &Located<String>| {
        let found = topology.node(&name.value);
        if found.is_none() {
            findings.add(
                name.span,
                format!("no link has an end `{}`", name.value),
                suggestion(&name.value, topology.nodes().iter().map(String::as_str)),
            );
        }
        found
    };
    let (from, to) = (node(&flow.from), node(&flow.to));
    let (from, to) = (from?, to?);
    let forward = topology.path(from, to);
    let backward = topology.path(to, from);
    match (forward, backward) {
        (Some(forward), Some(backward)) => Some(Route { forward, backward }),
        _ => {
            findings.add(
                flow.to.span,
                format!("no route from `{}` to `{}`", flow.from.value, flow.to.value),
                format!(
                    "from `{}` links lead only to {}; add a [[link]] that joins the two parts",
                    flow.from.value,
                    topology.reachable(from).join(", ")
                ),
            );
            None
        }
    }
}

/// A queue in bytes must hold one packet of each flow, or the flow would stand still for ever.
fn packets_fit(flow: &Flow, route: &Route, links: &[Link], findings: &mut Findings) {
    let packet = match flow.application {
        Application::Constant { packet, .. } => u64::from(packet),
        _ => u64::from(flow.mss) + TCP_HEADERS,
    };
    for direction in &route.forward {
        let link = &links[direction.link()];
        let queue = direction.of(link).queue;
        if let Some(Queue::Limited(Amount::Bytes(bytes))) = queue
            && bytes < packet
        {
            let span: Span = link.name.span;
            findings.add(
                span,
                format!(
                    "the queue of link `{}`, {bytes} bytes, holds no packet of flow `{}`, \
                     {packet} bytes",
                    link.name.value, flow.name.value
                ),
                format!("write a queue of \"{packet}B\" or more"),
            );
        }
    }
}
