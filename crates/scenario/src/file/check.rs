//! Checks the parts of a file against each other: names, hosts, routes, queues.

use std::collections::HashSet;

use fairwind_path::queue::Capacity;

use super::ExperimentFile;
use super::decode::Findings;
use super::flow::{Application, Flow};
use super::link::Link;
use crate::diagnostic::{Located, Span, nearest, suggestion};
use crate::topology::{DirectedLink, Route, Topology};

/// Connections in a run; each costs some kilobytes.
const MOST_CONNECTIONS: u64 = 1_000_000;

/// Links on a route; the time to live of an IP packet allows no more.
const MOST_HOPS: usize = 255;

/// IP and TCP headers of a segment with timestamps, in bytes.
const TCP_HEADERS: u64 = 52;

/// Reports every contradiction; returns the topology if there is none.
pub fn check(file: &ExperimentFile, findings: &mut Findings) -> Option<Topology> {
    let found_before = findings.list.len();
    link_names(&file.link, findings);
    flow_names(&file.flow, findings);
    connections(&file.flow, findings);
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
    let mut seen: HashSet<String> = HashSet::new();
    for link in links {
        // Results give the reverse direction this name.
        let reverse = DirectedLink::reverse(0).name(link);
        if !seen.insert(link.name.value.clone()) || !seen.insert(reverse) {
            findings.add(
                link.name.span,
                format!("duplicate link name `{}`", link.name.value),
                "give it a name of its own: name = \"…\"",
            );
        }
    }
}

fn flow_names(flows: &[Flow], findings: &mut Findings) {
    let mut seen: HashSet<String> = HashSet::new();
    for flow in flows {
        for (name, _) in flow.copies() {
            if !seen.insert(name.clone()) {
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

/// Limits the sum of copies times web sessions over all flows.
fn connections(flows: &[Flow], findings: &mut Findings) {
    let mut sum = 0;
    for flow in flows {
        let sessions = match flow.application {
            Application::Web { sessions, .. } => u64::from(sessions),
            _ => 1,
        };
        sum += u64::from(flow.count) * sessions;
        if sum > MOST_CONNECTIONS {
            findings.add(
                flow.name.span,
                format!("{sum} connections up to this flow"),
                format!("write fewer copies or sessions: at most {MOST_CONNECTIONS} in all"),
            );
            return;
        }
    }
}

/// Names in schedulers must be unique. A name that is neither a flow's nor a node's is an empty class; it is
/// refused if the scheduler has no known name at all, or if it resembles a flow or node that the scheduler
/// does not list.
fn scheduler_names(
    link: &Link,
    file: &ExperimentFile,
    topology: &Topology,
    findings: &mut Findings,
) {
    let flows = file.flow.iter().map(|flow| flow.name.value.as_str());
    let nodes = topology.nodes().iter().map(String::as_str);
    let known: Vec<&str> = flows.chain(nodes).collect();
    for direction in [&link.forward, &link.reverse] {
        let names = direction.scheduler.names();
        let none_known = !names.iter().any(|n| known.contains(&n.value.as_str()));
        for (index, name) in names.iter().enumerate() {
            if names[..index].iter().any(|n| n.value == name.value) {
                findings.add(
                    name.span,
                    format!("`{}` is listed twice", name.value),
                    "name each flow or host once",
                );
            }
            if known.contains(&name.value.as_str()) {
                continue;
            }
            let unnamed = || {
                let named = |known: &&&str| names.iter().any(|n| n.value == **known);
                known.iter().filter(move |known| !named(known)).copied()
            };
            if none_known || nearest(&name.value, unnamed()).is_some() {
                findings.add(
                    name.span,
                    format!("no flow and no host is called `{}`", name.value),
                    suggestion(&name.value, unnamed()),
                );
            }
        }
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
        (Some(forward), Some(backward)) if forward.len().max(backward.len()) > MOST_HOPS => {
            findings.add(
                flow.to.span,
                format!(
                    "the way from `{}` to `{}` has {} links",
                    flow.from.value,
                    flow.to.value,
                    forward.len().max(backward.len())
                ),
                format!("a packet lives for {MOST_HOPS} links at most"),
            );
            None
        }
        (Some(forward), Some(backward)) => Some(Route { forward, backward }),
        _ => {
            findings.add(
                flow.to.span,
                format!("no route from `{}` to `{}`", flow.from.value, flow.to.value),
                format!(
                    "from `{}` links lead only to {}; add a [[link]] that joins the two parts",
                    flow.from.value,
                    topology.reachable(from)
                ),
            );
            None
        }
    }
}

/// A queue in bytes must hold one packet of each flow, or the flow would never progress.
fn packets_fit(flow: &Flow, route: &Route, links: &[Link], findings: &mut Findings) {
    let packet = match flow.application {
        Application::Constant { packet, .. } => u64::from(packet),
        _ => u64::from(flow.mss) + TCP_HEADERS,
    };
    for direction in &route.forward {
        let link = &links[direction.link()];
        let queue = direction.of(link).queue;
        if let Some(Capacity::Bytes(bytes)) = queue
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
