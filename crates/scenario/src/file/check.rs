//! Checks the parts of a file against each other: names, hosts, routes, queues.

use std::collections::HashSet;

use fairwind_path::policer::PolicerConfig;
use fairwind_path::queue::Capacity;

use super::decode::Findings;
use super::flow::{Application, Flow};
use super::link::Link;
use crate::diagnostic::{Located, nearest, suggestion};
use crate::topology::{DirectedLink, Route, Topology};

/// Connections in a run; each costs some kilobytes.
const MOST_CONNECTIONS: u64 = 1_000_000;

/// Links on a route; the time to live of an IP packet allows no more.
const MOST_HOPS: usize = 255;

/// IP and TCP headers of a segment with timestamps, in bytes.
const TCP_HEADERS: u64 = 52;

/// Reports every contradiction; returns the topology if there is none.
pub(super) fn check(links: &[Link], flows: &[Flow], findings: &mut Findings) -> Option<Topology> {
    let found_before = findings.list.len();
    link_names(links, findings);
    flow_names(flows, findings);
    connections(flows, findings);
    let topology = Topology::of(links);
    for link in links {
        scheduler_names(link, flows, &topology, findings);
    }
    let routes = flows.iter().map(|flow| route(flow, &topology, findings));
    let routes: Vec<Option<Route>> = routes.collect();
    let routes: Vec<Route> = routes.into_iter().collect::<Option<_>>()?;
    for (flow, route) in flows.iter().zip(&routes) {
        packets_fit(flow, route, links, findings);
    }
    (findings.list.len() == found_before).then(|| topology.with_routes(routes))
}

/// What helps where a name is not unique.
const OWN_NAME: &str = "give it a name of its own: name = \"…\"";

fn link_names(links: &[Link], findings: &mut Findings) {
    let mut seen: HashSet<String> = HashSet::new();
    for link in links {
        let Located { value: name, span } = &link.name;
        // Results give the reverse direction this name.
        let reverse = DirectedLink::reverse(0).name(link);
        if !seen.insert(name.clone()) || !seen.insert(reverse) {
            findings.add(*span, format!("duplicate link name `{name}`"), OWN_NAME);
        }
    }
}

fn flow_names(flows: &[Flow], findings: &mut Findings) {
    let mut seen: HashSet<String> = HashSet::new();
    for flow in flows {
        let mut names = flow.copies().map(|(name, _)| name);
        if let Some(name) = names.find(|name| !seen.insert(name.clone())) {
            let message = format!("a second flow is called `{name}`");
            findings.add(flow.name.span, message, OWN_NAME);
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
            let help = format!("write fewer copies or sessions: at most {MOST_CONNECTIONS} in all");
            let message = format!("{sum} connections up to this flow");
            return findings.add(flow.name.span, message, help);
        }
    }
}

/// Names in schedulers must be unique. A name that is neither a flow's nor a node's is an empty class; it is
/// refused if the scheduler has no known name at all, or if it resembles a flow or node that the scheduler
/// does not list.
fn scheduler_names(link: &Link, flows: &[Flow], topology: &Topology, findings: &mut Findings) {
    let flows = flows.iter().map(|flow| flow.name.value.as_str());
    let nodes = topology.nodes().iter().map(String::as_str);
    let known: Vec<&str> = flows.chain(nodes).collect();
    for direction in [&link.forward, &link.reverse] {
        let names = direction.scheduler.names();
        let is_named = |known: &str| names.iter().any(|name| name.value == known);
        let none_known = !known.iter().any(|known| is_named(known));
        let unnamed = || known.iter().copied().filter(|known| !is_named(known));
        for (index, Located { value: name, span }) in names.iter().enumerate() {
            if names[..index].iter().any(|n| n.value == *name) {
                let message = format!("`{name}` is listed twice");
                findings.add(*span, message, "name each flow or host once");
            }
            let is_known = known.contains(&name.as_str());
            if !is_known && (none_known || nearest(name, unnamed()).is_some()) {
                let message = format!("no flow and no host is called `{name}`");
                findings.add(*span, message, suggestion(name, unnamed()));
            }
        }
    }
}

fn route(flow: &Flow, topology: &Topology, findings: &mut Findings) -> Option<Route> {
    let mut node = |Located { value: name, span }: &Located<String>| {
        topology.node(name).or_else(|| {
            let help = suggestion(name, topology.nodes().iter().map(String::as_str));
            findings.refuse(*span, format!("no link has an end `{name}`"), help)
        })
    };
    let (from, to) = (node(&flow.from), node(&flow.to));
    let (from, to) = (from?, to?);
    let ends = format!("from `{}` to `{}`", flow.from.value, flow.to.value);
    let (Some(forward), Some(backward)) = (topology.path(from, to), topology.path(to, from)) else {
        let help = format!(
            "from `{}` links lead only to {}; add a [[link]] that joins the two parts",
            flow.from.value,
            topology.reachable(from)
        );
        return findings.refuse(flow.to.span, format!("no route {ends}"), help);
    };
    let hops = forward.len().max(backward.len());
    if hops > MOST_HOPS {
        let help = format!("a packet lives for {MOST_HOPS} links at most");
        return findings.refuse(
            flow.to.span,
            format!("the way {ends} has {hops} links"),
            help,
        );
    }
    Some(Route { forward, backward })
}

/// A queue in bytes and a policer's burst must hold one packet of each flow, or the flow would never progress.
fn packets_fit(flow: &Flow, route: &Route, links: &[Link], findings: &mut Findings) {
    let packet = match flow.application {
        Application::Constant { packet, .. } => u64::from(packet),
        _ => u64::from(flow.mss) + TCP_HEADERS,
    };
    for direction in &route.forward {
        let link = &links[direction.link()];
        if let Some(Capacity::Bytes(bytes)) = direction.of(link).queue
            && bytes < packet
        {
            let message = format!(
                "the queue of link `{}`, {bytes} bytes, holds no packet of flow `{}`, {packet} \
                 bytes",
                link.name.value, flow.name.value
            );
            let help = format!("write a queue of \"{packet}B\" or more");
            findings.add(link.name.span, message, help);
        }
        let needed = direction.of(link).accounting.wire_bytes(packet as u32);
        if let Some(PolicerConfig { burst, .. }) = direction.of(link).policer
            && burst.get() < needed
        {
            let message = format!(
                "the policer of link `{}` passes no packet of flow `{}`, {needed} bytes, with a \
                 burst of {burst}",
                link.name.value, flow.name.value
            );
            let help = format!("write a burst of \"{needed}B\" or more");
            findings.add(link.name.span, message, help);
        }
    }
}
