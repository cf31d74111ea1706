//! Description of a network: hosts and routers joined by pipes, and the routes between them.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use fairwind_path::pipe::PipeConfig;
use fairwind_path::routes::Edge;

use crate::LabError;

mod parts;
mod routes;

pub(crate) use routes::Routes;

/// A host or router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId(pub(crate) usize);

/// A pipe: one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PipeId(pub(crate) usize);

/// Hosts and routers joined by pipes. Packets take the best route of [`fairwind_path::routes`] to their
/// destination host; pipes are in the order of addition.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// The address of each host; routers have none.
    nodes: Vec<Option<Ipv4Addr>>,
    /// Additional addresses of hosts, with their nodes.
    more_addresses: HashMap<Ipv4Addr, usize>,
    pipes: Vec<PipePlan>,
    flows: Vec<FlowKey>,
    /// The node of the host that gets packets for addresses that no host has.
    gateway: Option<usize>,
}

/// One direction of a link, not yet running.
#[derive(Clone, Debug)]
pub(crate) struct PipePlan {
    pub name: String,
    pub from: usize,
    pub to: usize,
    pub config: PipeConfig,
    /// The class of packets whose flow is not in `classes`, or that have none.
    pub default_class: u16,
    /// Classes by flow, and whether for its acknowledgements.
    pub classes: HashMap<(usize, bool), u16>,
}

impl PipePlan {
    fn edge(&self) -> Edge {
        Edge {
            from: self.from,
            to: self.to,
            delay: self.config.delay.base.at_start(),
        }
    }
}

impl PipeId {
    /// Position in the order of addition, from 0.
    pub fn index(self) -> usize {
        self.0
    }
}

/// The packets of a flow: data goes `from` -> `to`, acknowledgements come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// The address of the host that sends the data.
    pub from: Ipv4Addr,
    /// The address of the host that receives it.
    pub to: Ipv4Addr,
    /// The TCP or UDP port of the socket at `to`. `None`: every packet between the two hosts that
    /// belongs to no flow with a port.
    pub port: Option<u16>,
}

/// A flow, in the order of addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId(pub(crate) usize);

impl FlowId {
    /// Position in the order of addition, from 0.
    pub fn index(self) -> usize {
        self.0
    }
}

impl Network {
    /// An empty network.
    pub fn new() -> Network {
        Network::default()
    }

    /// Adds a host.
    ///
    /// # Errors
    /// Fails if another host has the address.
    pub fn add_host(&mut self, address: Ipv4Addr) -> Result<NodeId, LabError> {
        self.check_is_free(address)?;
        Ok(self.add_node(Some(address)))
    }

    /// Gives a host an additional address, reached by the same routes as its first.
    ///
    /// # Errors
    /// Fails if any host has the address.
    pub fn add_address(&mut self, host: NodeId, address: Ipv4Addr) -> Result<(), LabError> {
        self.check_is_free(address)?;
        self.more_addresses.insert(address, host.0);
        Ok(())
    }

    fn check_is_free(&self, address: Ipv4Addr) -> Result<(), LabError> {
        if self.nodes.contains(&Some(address)) || self.more_addresses.contains_key(&address) {
            return Err(LabError::Failed(format!(
                "two hosts have the address {address}; each must have its own"
            )));
        }
        Ok(())
    }

    /// Adds a router.
    pub fn add_router(&mut self) -> NodeId {
        self.add_node(None)
    }

    /// Adds a pipe. The name is for messages and statistics.
    ///
    /// # Errors
    /// Fails if the configuration is invalid.
    pub fn add_pipe(
        &mut self,
        name: impl Into<String>,
        from: NodeId,
        to: NodeId,
        config: PipeConfig,
    ) -> Result<PipeId, LabError> {
        config.check()?;
        self.pipes.push(PipePlan {
            name: name.into(),
            from: from.0,
            to: to.0,
            config,
            default_class: 0,
            classes: HashMap::new(),
        });
        Ok(PipeId(self.pipes.len() - 1))
    }

    /// Adds a flow, whose packets are counted and may be put into scheduler classes. Among flows
    /// with the same key, the first gets the packets.
    pub fn add_flow(&mut self, key: FlowKey) -> FlowId {
        self.flows.push(key);
        FlowId(self.flows.len() - 1)
    }

    /// Sets the scheduler class of a flow's data in a pipe, or of its acknowledgements: the packets
    /// from `to`. Without it they are in the pipe's default class.
    pub fn set_class(&mut self, pipe: PipeId, flow: FlowId, acknowledgements: bool, class: u16) {
        let classes = &mut self.pipes[pipe.0].classes;
        classes.insert((flow.0, acknowledgements), class);
    }

    /// Sets the scheduler class of all packets of a pipe for which [`Network::set_class`] sets
    /// none; 0 unless set.
    pub fn set_default_class(&mut self, pipe: PipeId, class: u16) {
        self.pipes[pipe.0].default_class = class;
    }

    /// Sends packets whose destination is no host's address to this host. Without a gateway they
    /// are dropped and counted.
    pub fn set_gateway(&mut self, host: NodeId) {
        self.gateway = Some(host.0);
    }

    fn add_node(&mut self, address: Option<Ipv4Addr>) -> NodeId {
        self.nodes.push(address);
        NodeId(self.nodes.len() - 1)
    }

    pub(crate) fn pipes(&self) -> &[PipePlan] {
        &self.pipes
    }

    pub(crate) fn flows(&self) -> &[FlowKey] {
        &self.flows
    }

    /// The hosts' nodes and addresses, in the order of addition.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = (usize, Ipv4Addr)> {
        let address = |(node, address): (usize, &Option<Ipv4Addr>)| Some((node, (*address)?));
        self.nodes.iter().enumerate().filter_map(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, last)
    }

    fn link(network: &mut Network, a: NodeId, b: NodeId) {
        let config = PipeConfig::default();
        network.add_pipe("there", a, b, config.clone()).unwrap();
        network.add_pipe("back", b, a, config).unwrap();
    }

    #[test]
    fn the_directions_of_a_single_link_are_parts_of_their_own() {
        let mut network = Network::new();
        let a = network.add_host(address(1)).unwrap();
        let b = network.add_host(address(2)).unwrap();
        link(&mut network, a, b);
        assert_eq!(network.parts(&network.routes()), [[0], [1]]);
    }

    #[test]
    fn a_host_sends_into_one_part_and_unused_pipes_are_in_the_first() {
        let mut network = Network::new();
        let a = network.add_host(address(1)).unwrap();
        let b = network.add_host(address(2)).unwrap();
        let r = network.add_router();
        link(&mut network, a, b); // 0, 1
        link(&mut network, a, r); // 2, 3
        link(&mut network, r, b); // 4, 5
        let routes = network.routes();
        assert_eq!(network.parts(&routes), [vec![0, 2, 3, 4, 5], vec![1]]);
        assert!(routes.enter(a.0, 0));
        assert!(!routes.enter(a.0, 2));
    }

    #[test]
    fn packets_take_the_fewest_pipes() {
        let mut network = Network::new();
        let a = network.add_host(address(1)).unwrap();
        let b = network.add_host(address(2)).unwrap();
        let [r, s] = [network.add_router(), network.add_router()];
        link(&mut network, a, r); // 0, 1
        link(&mut network, r, s); // 2, 3
        link(&mut network, s, b); // 4, 5
        link(&mut network, r, b); // 6, 7
        let routes = network.routes();
        let to_b = routes.host(address(2)).unwrap();
        assert_eq!(routes.next(a.0, to_b), Some(0));
        assert_eq!(routes.next(r.0, to_b), Some(6));
        assert_eq!(routes.next(b.0, to_b), None);
        let to_a = routes.host(address(1)).unwrap();
        assert_eq!(routes.next(b.0, to_a), Some(7));
        assert_eq!(routes.host(address(3)), None);
    }

    #[test]
    fn more_addresses_of_a_host_are_reached_as_its_first() {
        let mut network = Network::new();
        let a = network.add_host(address(1)).unwrap();
        let b = network.add_host(address(2)).unwrap();
        link(&mut network, a, b);
        network.add_address(b, address(7)).unwrap();
        for taken in [2, 7] {
            assert!(network.add_address(a, address(taken)).is_err());
        }
        let routes = network.routes();
        assert_eq!(routes.host(address(7)), routes.host(address(2)));
    }

    #[test]
    fn hosts_forward_what_is_not_for_them() {
        let mut network = Network::new();
        let hosts = [1, 2, 3].map(|n| network.add_host(address(n)).unwrap());
        link(&mut network, hosts[0], hosts[1]); // 0, 1
        link(&mut network, hosts[1], hosts[2]); // 2, 3
        let routes = network.routes();
        let to_last = routes.host(address(3)).unwrap();
        assert_eq!(routes.next(hosts[0].0, to_last), Some(0));
        assert_eq!(routes.next(hosts[1].0, to_last), Some(2));
    }

    #[test]
    fn strangers_are_reached_through_the_gateway() {
        let mut network = Network::new();
        let a = network.add_host(address(1)).unwrap();
        let b = network.add_host(address(2)).unwrap();
        link(&mut network, a, b);
        network.set_gateway(b);
        let routes = network.routes();
        let strangers = routes.host(Ipv4Addr::new(192, 0, 2, 1)).unwrap();
        assert_eq!(routes.next(a.0, strangers), Some(0));
        assert_eq!(routes.next(b.0, strangers), None);
        let to_a = routes.host(address(1)).unwrap();
        assert_eq!(routes.next(b.0, to_a), Some(1));
    }

    #[test]
    fn an_address_belongs_to_one_host() {
        let mut network = Network::new();
        network.add_host(address(1)).unwrap();
        let error = network.add_host(address(1)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "two hosts have the address 10.0.0.1; each must have its own"
        );
    }
}
