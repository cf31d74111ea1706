//! Routes: the next pipe for each node and address.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use fairwind_path::routes::{Edge, toward};

use super::{Network, PipePlan};

/// The next pipe for each node and address.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    hosts: HashMap<Ipv4Addr, usize>,
    /// The number of the host that gets packets for all other addresses.
    gateway: Option<usize>,
    /// By node, then by host in the order of addition.
    next: Vec<Vec<Option<usize>>>,
}

impl Routes {
    /// The number, for [`Routes::next`], of the host that gets packets for this address.
    pub(crate) fn host(&self, address: Ipv4Addr) -> Option<usize> {
        self.hosts.get(&address).copied().or(self.gateway)
    }

    /// The next pipe from `node` toward the host of this number.
    #[inline]
    pub(crate) fn next(&self, node: usize, host: usize) -> Option<usize> {
        self.next[node][host]
    }

    /// True if packets from a host at `node` enter the pipe.
    pub(crate) fn enter(&self, node: usize, pipe: usize) -> bool {
        self.next[node].contains(&Some(pipe))
    }
}

impl Network {
    /// The next pipe for every node and address.
    pub(crate) fn routes(&self) -> Routes {
        let edges: Vec<Edge> = self.pipes.iter().map(PipePlan::edge).collect();
        let toward: Vec<Vec<Option<usize>>> = self
            .hosts()
            .map(|(node, _)| toward(node, self.nodes.len(), &edges))
            .collect();
        let next = (0..self.nodes.len())
            .map(|node| toward.iter().map(|pipes| pipes[node]).collect())
            .collect();
        let number = |of: usize| self.hosts().position(|(node, _)| node == of);
        let more = self.more_addresses.iter();
        let more = more.filter_map(|(&address, &node)| Some((address, number(node)?)));
        let hosts = self.hosts().enumerate();
        let hosts = hosts.map(|(n, (_, address))| (address, n));
        Routes {
            gateway: self
                .hosts()
                .position(|(node, _)| Some(node) == self.gateway),
            hosts: hosts.chain(more).collect(),
            next,
        }
    }
}
