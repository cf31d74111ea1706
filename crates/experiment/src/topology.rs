//! Nodes and routes. Hosts and routers exist by being named as ends of links. A packet takes the route with
//! the fewest hops, of those the one with the least delay, of those the one whose links come first in the
//! file.

use fairwind_path::units::{Duration, Time};

use crate::diagnostic::some;
use crate::file::link::{Delay, Direction, Link};

/// One direction of a link, which is one pipe of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectedLink(usize);

impl DirectedLink {
    /// From the link's first end to its second.
    pub fn forward(link: usize) -> DirectedLink {
        DirectedLink(2 * link)
    }

    /// From the link's second end to its first.
    pub fn reverse(link: usize) -> DirectedLink {
        DirectedLink(2 * link + 1)
    }

    /// Index of the link in the file.
    pub fn link(self) -> usize {
        self.0 / 2
    }

    /// Whether it goes from the second end to the first.
    pub fn is_reverse(self) -> bool {
        self.0 % 2 == 1
    }

    /// Position among all directions: forward and reverse of the first link, of the second, …
    pub fn index(self) -> usize {
        self.0
    }

    /// The link's description in this direction.
    pub fn of(self, link: &Link) -> &Direction {
        if self.is_reverse() {
            &link.reverse
        } else {
            &link.forward
        }
    }

    /// Its name in results: the link's, with `.reverse` for the reverse direction.
    pub fn name(self, link: &Link) -> String {
        let suffix = if self.is_reverse() { ".reverse" } else { "" };
        format!("{}{suffix}", link.name.value)
    }
}

/// The links that a flow's packets pass, and those of its acknowledgements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// From sender to receiver.
    pub forward: Vec<DirectedLink>,
    /// From receiver to sender.
    pub backward: Vec<DirectedLink>,
}

/// The nodes of an experiment, and the route of each of its flows.
#[derive(Clone, Debug)]
pub struct Topology {
    nodes: Vec<String>,
    /// Start, end and delay of each direction, by [`DirectedLink::index`].
    edges: Vec<(usize, usize, Duration)>,
    routes: Vec<Route>,
}

/// Distance to a node: hops, then delay.
type Distance = (u32, Duration);

impl Topology {
    /// The nodes that these links name, in order of first mention; no routes yet.
    pub fn of(links: &[Link]) -> Topology {
        let mut nodes: Vec<String> = Vec::new();
        let mut edges = Vec::new();
        for link in links {
            let [a, b] = link.between.each_ref().map(|end| {
                let known = nodes.iter().position(|node| *node == end.value);
                known.unwrap_or_else(|| {
                    nodes.push(end.value.clone());
                    nodes.len() - 1
                })
            });
            edges.push((a, b, first_delay(&link.forward)));
            edges.push((b, a, first_delay(&link.reverse)));
        }
        Topology {
            nodes,
            edges,
            routes: Vec::new(),
        }
    }

    /// The same with a route for each flow of the file.
    pub fn with_routes(self, routes: Vec<Route>) -> Topology {
        Topology { routes, ..self }
    }

    /// Names of the nodes, in the order in which the links name them.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// The route of each flow of the file.
    pub fn routes(&self) -> &[Route] {
        &self.routes
    }

    /// The index of a node.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node == name)
    }

    /// The names of the nodes at which a direction starts and ends.
    pub fn ends(&self, direction: DirectedLink) -> (&str, &str) {
        let (from, to, _) = self.edges[direction.0];
        (&self.nodes[from], &self.nodes[to])
    }

    /// The best route between two nodes; none if they are not connected.
    pub fn path(&self, from: usize, to: usize) -> Option<Vec<DirectedLink>> {
        let distances = self.distances_to(to);
        let mut path = Vec::new();
        let mut here = from;
        while here != to {
            let (hops, delay) = distances[here]?;
            let next = (0..self.edges.len()).find(|&edge| {
                let (start, end, edge_delay) = self.edges[edge];
                start == here
                    && distances[end].is_some_and(|(h, d)| (h + 1, d + edge_delay) == (hops, delay))
            })?;
            path.push(DirectedLink(next));
            here = self.edges[next].1;
        }
        Some(path)
    }

    /// Names of the other nodes that packets from a node can reach, for messages.
    pub fn reachable(&self, from: usize) -> String {
        let names: Vec<String> = (0..self.nodes.len())
            .filter(|&node| node != from && self.path(from, node).is_some())
            .map(|node| format!("`{}`", self.nodes[node]))
            .collect();
        some(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Bellman-Ford: topologies are small, and delays may be 0.
    fn distances_to(&self, to: usize) -> Vec<Option<Distance>> {
        let mut distances: Vec<Option<Distance>> = vec![None; self.nodes.len()];
        distances[to] = Some((0, Duration::ZERO));
        loop {
            let mut changed = false;
            for &(start, end, edge_delay) in &self.edges {
                let Some((hops, delay)) = distances[end] else {
                    continue;
                };
                let through = (hops + 1, delay + edge_delay);
                if distances[start].is_none_or(|known| through < known) {
                    distances[start] = Some(through);
                    changed = true;
                }
            }
            if !changed {
                return distances;
            }
        }
    }
}

/// The delay that routing uses: the one at the start of the run.
fn first_delay(direction: &Direction) -> Duration {
    match &direction.delay {
        Delay::Constant(delay) => *delay,
        Delay::Trace(recording) => recording.values.at(Time::ZERO),
    }
}
