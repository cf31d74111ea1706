//! Routes: the fewest pipes to each host, unless [`Network::set_route`] says otherwise.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;

use super::Network;
use crate::LabError;

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
    pub fn host(&self, address: Ipv4Addr) -> Option<usize> {
        self.hosts.get(&address).copied().or(self.gateway)
    }

    /// The next pipe from `node` toward the host of this number.
    #[inline]
    pub fn next(&self, node: usize, host: usize) -> Option<usize> {
        self.next[node][host]
    }

    /// True if packets from a host at `node` enter the pipe.
    pub fn enter(&self, node: usize, pipe: usize) -> bool {
        self.next[node].contains(&Some(pipe))
    }
}

impl Network {
    /// The next pipe for every node and address.
    ///
    /// # Errors
    /// Fails if a route is a loop.
    pub(crate) fn routes(&self) -> Result<Routes, LabError> {
        let toward: Vec<Vec<Option<usize>>> = self
            .hosts()
            .map(|(node, address)| self.toward(node, address))
            .collect();
        for ((target, address), pipes) in self.hosts().zip(&toward) {
            for start in 0..self.nodes.len() {
                self.follow(pipes, start, target, address)?;
            }
        }
        let next = (0..self.nodes.len())
            .map(|node| toward.iter().map(|pipes| pipes[node]).collect())
            .collect();
        let number = |of: usize| self.hosts().position(|(node, _)| node == of);
        let more = self.more_addresses.iter();
        let more = more.filter_map(|(&address, &node)| Some((address, number(node)?)));
        let hosts = self.hosts().enumerate();
        let hosts = hosts.map(|(n, (_, address))| (address, n));
        Ok(Routes {
            gateway: self
                .hosts()
                .position(|(node, _)| Some(node) == self.gateway),
            hosts: hosts.chain(more).collect(),
            next,
        })
    }

    /// Follows a route to its end; fails if it is a loop.
    fn follow(
        &self,
        next: &[Option<usize>],
        start: usize,
        target: usize,
        address: Ipv4Addr,
    ) -> Result<(), LabError> {
        let mut node = start;
        for _ in 0..=self.nodes.len() {
            match next[node] {
                Some(pipe) if node != target => node = self.pipes[pipe].to,
                _ => return Ok(()),
            }
        }
        Err(LabError::Network(format!(
            "routes to {address} go in a circle"
        )))
    }

    /// For each node, the first pipe of the shortest route to `target`, or the one set by
    /// [`Network::set_route`].
    fn toward(&self, target: usize, address: Ipv4Addr) -> Vec<Option<usize>> {
        let mut next = vec![None; self.nodes.len()];
        let mut reached = VecDeque::from([target]);
        while let Some(node) = reached.pop_front() {
            for (index, pipe) in self.pipes.iter().enumerate() {
                let passes = pipe.to == node && (node == target || self.nodes[node].is_none());
                if passes && pipe.from != target && next[pipe.from].is_none() {
                    next[pipe.from] = Some(index);
                    reached.push_back(pipe.from);
                }
            }
        }
        for (node, next) in next.iter_mut().enumerate() {
            *next = self
                .route_overrides
                .get(&(node, address))
                .copied()
                .or(*next);
        }
        next[target] = None;
        next
    }
}
