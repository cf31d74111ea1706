//! Nodes and routes. Hosts and routers exist by being named as ends of links. Packets take the best routes of
//! [`fairwind_path::routes`], of which the delays are those at the start of the run.

use fairwind_path::routes::{Edge, toward};

use crate::diagnostic::some;
use crate::file::link::{Direction, Link};

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
    pub(crate) fn is_reverse(self) -> bool {
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
    /// The directions, by [`DirectedLink::index`].
    edges: Vec<Edge>,
    routes: Vec<Route>,
}

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
            let edge = |from, to, direction: &Direction| Edge {
                from,
                to,
                delay: direction.delay.at_start(),
            };
            edges.push(edge(a, b, &link.forward));
            edges.push(edge(b, a, &link.reverse));
        }
        Topology {
            nodes,
            edges,
            routes: Vec::new(),
        }
    }

    /// The same with a route for each flow of the file.
    pub(crate) fn with_routes(self, routes: Vec<Route>) -> Topology {
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
        let edge = self.edges[direction.0];
        (&self.nodes[edge.from], &self.nodes[edge.to])
    }

    /// The best route between two nodes; none if they are not connected.
    pub fn path(&self, from: usize, to: usize) -> Option<Vec<DirectedLink>> {
        let next = toward(to, self.nodes.len(), &self.edges);
        let mut path = Vec::new();
        let mut here = from;
        while here != to {
            let edge = next[here]?;
            path.push(DirectedLink(edge));
            here = self.edges[edge].to;
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
}
