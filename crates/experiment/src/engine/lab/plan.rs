//! Plans what the lab builds: hosts with their addresses, the network between them, and the ports
//! of the flows.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::Path;

use fairwind_lab::emulator::Capture;
use fairwind_lab::host::{HostConfig, Offload, Pairing};
use fairwind_lab::network::{FlowId, FlowKey, Network, NodeId, PipeId};
use fairwind_result::CAPTURES_FOLDER;
use fairwind_scenario::file::{self, Stack, flow};
use fairwind_scenario::pipes;
use fairwind_scenario::{Experiment, FlowCopy};

use super::stack;
use crate::engine::EngineError;

/// Bytes of a full packet besides its payload: IP, TCP, time stamps.
const HEADERS: u32 = 52;
/// The MTU of most networks, and of hosts here unless a flow has larger packets.
const USUAL_MTU: u32 = 1500;
/// The largest MTU of a host's interface.
const LARGEST_MTU: u32 = 65_521;
/// Below the ephemeral ports, and above those of most programs.
const PORTS: std::ops::RangeInclusive<u16> = 10_001..=32_767;
/// Number of host addresses in 10.77.0.0/16.
const MOST_ADDRESSES: usize = 65_534;

/// The plan of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The hosts, in the order in which links name them.
    pub hosts: Vec<PlannedHost>,
    /// The flows, copies included, as in [`Experiment::flows`].
    pub flows: Vec<PlannedFlow>,
}

/// A node at which flows begin or end.
#[derive(Debug)]
pub(crate) struct PlannedHost {
    /// Its name in the experiment.
    pub name: String,
    /// Its address in the lab.
    pub address: Ipv4Addr,
    /// Its MTU.
    mtu: u32,
    /// The TCP stack that it imitates.
    pub stack: Stack,
    /// Which of its connections have ECN.
    pub ecn: stack::Ecn,
    /// Position in the topology.
    node: usize,
}

/// The ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedFlow {
    /// Position of the sender among the hosts.
    pub from: usize,
    /// Position of the receiver.
    pub to: usize,
    /// The two hosts' addresses for this flow.
    pub addresses: [Ipv4Addr; 2],
    /// The port at the receiver; `None` where programs choose it.
    pub port: Option<u16>,
}

impl PlannedFlow {
    /// Whether both flows have programs and share a host: the kernel distinguishes the programs of
    /// one host only by their addresses.
    fn is_mistaken_for(&self, other: &PlannedFlow) -> bool {
        let others = [other.from, other.to];
        let meet = others.contains(&self.from) || others.contains(&self.to);
        self.port.is_none() && other.port.is_none() && meet
    }
}

impl Plan {
    /// The plan of an experiment.
    ///
    /// # Errors
    /// Fails if there are too many hosts, addresses or ports, a packet is too large, one host's flows
    /// have different stacks, or a host sends flows with ECN and without.
    pub(crate) fn of(experiment: &Experiment) -> Result<Plan, EngineError> {
        let mut hosts = hosts(experiment)?;
        let at = |name: &str| {
            let position = hosts.iter().position(|host| host.name == name);
            position.expect("the file's flows end at nodes")
        };
        let mut addresses_taken = hosts.len();
        let mut next_port: HashMap<usize, u32> = HashMap::new();
        let mut flows = Vec::new();
        for copy in experiment.flows() {
            let (from, to) = (at(&copy.flow.from.value), at(&copy.flow.to.value));
            let port = match copy.flow.application {
                flow::Application::Command { .. } => None,
                _ => Some(port(next_port.entry(to).or_default(), &copy)?),
            };
            let addresses = [hosts[from].address, hosts[to].address];
            let mut planned = PlannedFlow {
                from,
                to,
                addresses,
                port,
            };
            if flows.iter().any(|other| planned.is_mistaken_for(other)) {
                planned.addresses = [
                    next_address(&mut addresses_taken)?,
                    next_address(&mut addresses_taken)?,
                ];
            }
            flows.push(planned);
        }
        for (planned, copy) in flows.iter().zip(experiment.flows()) {
            let packet = largest_packet(copy.flow);
            if packet > LARGEST_MTU {
                let message = format!(
                    "flow `{}` has packets of {packet} bytes; the lab's interfaces carry up to \
                     {LARGEST_MTU}",
                    copy.name
                );
                let help = "choose a smaller mss or packet";
                return Err(EngineError::unable(message, help));
            }
            for host in [planned.from, planned.to] {
                hosts[host].mtu = hosts[host].mtu.max(packet);
            }
        }
        Ok(Plan { hosts, flows })
    }

    /// The addresses that a host has for single flows, each with the congestion control of its
    /// flow, which `control` returns by the flow's number.
    pub(crate) fn pairings(
        &self,
        host: usize,
        control: impl Fn(usize) -> Option<String>,
    ) -> Vec<Pairing> {
        let mut pairings = Vec::new();
        for (number, flow) in self.flows.iter().enumerate() {
            let [from, to] = flow.addresses;
            for (end, own, other) in [(flow.from, from, to), (flow.to, to, from)] {
                if end == host && own != self.hosts[host].address {
                    pairings.push(Pairing {
                        own,
                        other,
                        congestion_control: control(number),
                    });
                }
            }
        }
        pairings
    }

    /// The configuration of a host.
    pub(crate) fn host_config(
        &self,
        host: &PlannedHost,
        experiment: &Experiment,
        offload: Offload,
        congestion_control: Option<String>,
    ) -> HostConfig {
        let file = experiment.file();
        HostConfig {
            mtu: u16::try_from(host.mtu).unwrap_or(u16::MAX),
            offload,
            congestion_control,
            tcp_rmem: stack::tcp_rmem(host.stack, file.tcp_rmem),
            tcp_wmem: file.tcp_wmem,
            initial_window: stack::initial_window(host.stack),
            sysctls: stack::sysctls(host.stack, host.ecn),
            ..HostConfig::new(host.address)
        }
    }

    /// The network between the hosts, and its pipes in the order of the file's directions. Its
    /// flows are in the order of the plan's.
    ///
    /// # Errors
    /// Fails if the emulator refuses an address or a pipe.
    pub(crate) fn network(
        &self,
        experiment: &Experiment,
    ) -> Result<(Network, Vec<PipeId>), EngineError> {
        let mut network = Network::new();
        let nodes = (0..experiment.topology().nodes().len()).map(|node| {
            let host = self.hosts.iter().find(|host| host.node == node);
            match host {
                Some(host) => network.add_host(host.address),
                None => Ok(network.add_router()),
            }
        });
        let nodes: Vec<NodeId> = nodes.collect::<Result<_, _>>()?;
        let mut pipe_ids = Vec::new();
        for (direction, link) in experiment.file().directions() {
            let (from, to) = experiment.topology().ends(direction);
            let end = |name: &str| nodes[experiment.topology().node(name).expect("an end")];
            let pipe = network.add_pipe(
                direction.name(link),
                end(from),
                end(to),
                pipes::pipe(direction.of(link)),
            )?;
            network.set_default_class(pipe, pipes::default_class(direction.of(link)));
            pipe_ids.push(pipe);
        }
        for (planned, copy) in self.flows.iter().zip(experiment.flows()) {
            let [from, to] = planned.addresses;
            for (host, address) in [(planned.from, from), (planned.to, to)] {
                if self.hosts[host].address != address {
                    network.add_address(nodes[self.hosts[host].node], address)?;
                }
            }
            let port = planned.port;
            let flow = network.add_flow(FlowKey { from, to, port });
            set_classes(&mut network, &pipe_ids, experiment, &copy, flow);
        }
        Ok((network, pipe_ids))
    }
}

/// Sets the classes of a flow's packets in the pipes on its route.
fn set_classes(
    network: &mut Network,
    pipes: &[PipeId],
    experiment: &Experiment,
    copy: &FlowCopy<'_>,
    flow: FlowId,
) {
    let route = &experiment.topology().routes()[copy.position];
    for (way, acknowledgements) in [(&route.forward, false), (&route.backward, true)] {
        for direction in way {
            let link = &experiment.file().link[direction.link()];
            let class = pipes::class(direction.of(link), copy.flow, acknowledgements);
            network.set_class(pipes[direction.index()], flow, acknowledgements, class);
        }
    }
}

/// The links' captures, in the folder of the result.
pub(crate) fn captures(experiment: &Experiment, pipes: &[PipeId], folder: &Path) -> Vec<Capture> {
    let directions = experiment.file().directions();
    let captured = directions.filter(|(_, link)| link.capture);
    let captures = captured.map(|(direction, link)| {
        let name = format!("{}.pcapng", file_name(&direction.name(link)));
        Capture {
            pipe: pipes[direction.index()],
            file: folder.join(CAPTURES_FOLDER).join(name),
            snap_length: Capture::HEADERS,
        }
    });
    captures.collect()
}

/// Turns `name` into a file name: every character that file names cannot hold, or that a shell
/// would require quoting for, becomes an underscore.
pub(crate) fn file_name(name: &str) -> String {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name = name.replace(|c| !allowed(c), "_");
    match name.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => name,
    }
}

/// The nodes at which flows begin or end.
fn hosts(experiment: &Experiment) -> Result<Vec<PlannedHost>, EngineError> {
    let mut hosts: Vec<PlannedHost> = Vec::new();
    for (node, name) in experiment.topology().nodes().iter().enumerate() {
        let flows = experiment.file().flow.iter();
        let of_host = flows.filter(|flow| flow.from.value == *name || flow.to.value == *name);
        let of_host: Vec<&file::Flow> = of_host.collect();
        let Some(stack) = stack_of(name, &of_host)? else {
            continue;
        };
        hosts.push(PlannedHost {
            name: name.clone(),
            address: next_address(&mut hosts.len())?,
            mtu: USUAL_MTU,
            stack,
            ecn: ecn_of(name, &of_host)?,
            node,
        });
    }
    Ok(hosts)
}

/// The stack of the host's flows, which must agree; `None` if it has no flows.
fn stack_of(name: &str, flows: &[&file::Flow]) -> Result<Option<Stack>, EngineError> {
    let Some(first) = flows.first() else {
        return Ok(None);
    };
    let over_tcp = flows.iter().filter(|flow| flow.application.uses_tcp());
    let over_tcp: Vec<&&file::Flow> = over_tcp.collect();
    let stack = over_tcp.first().map_or(first.stack, |flow| flow.stack);
    match over_tcp.iter().find(|flow| flow.stack != stack) {
        None => Ok(Some(stack)),
        Some(other) => Err(EngineError::unable(
            format!(
                "host `{name}` has flows of both stacks, `{}` and `{}`; in the lab the stack is \
                 the host's",
                over_tcp[0].name.value, other.name.value
            ),
            "give these flows hosts of their own, or the same stack",
        )),
    }
}

/// Which connections of a host have ECN. The flows that it sends must agree.
fn ecn_of(name: &str, flows: &[&file::Flow]) -> Result<stack::Ecn, EngineError> {
    let over_tcp = flows.iter().filter(|flow| flow.application.uses_tcp());
    let (sent, received): (Vec<&file::Flow>, Vec<_>) =
        over_tcp.partition(|flow| flow.from.value == name);
    let with = sent.iter().find(|flow| flow.ecn);
    let without = sent.iter().find(|flow| !flow.ecn);
    match (with, without) {
        (Some(with), Some(without)) => Err(EngineError::unable(
            format!(
                "host `{name}` sends flows with ECN and without, `{}` and `{}`; in the lab ECN is \
                 the host's",
                with.name.value, without.name.value
            ),
            "give these flows hosts of their own, or the same `ecn`",
        )),
        (Some(_), None) => Ok(stack::Ecn::Asks),
        (None, _) if received.iter().any(|flow| flow.ecn) => Ok(stack::Ecn::IfAsked),
        (None, _) => Ok(stack::Ecn::Never),
    }
}

/// The next free address, when `taken` of them are in use.
fn next_address(taken: &mut usize) -> Result<Ipv4Addr, EngineError> {
    if *taken == MOST_ADDRESSES {
        let help = "the lab's hosts, and flows with programs in the same host, have addresses in \
                    10.77.0.0/16: use fewer";
        let message = format!("more than {MOST_ADDRESSES} addresses");
        return Err(EngineError::unable(message, help));
    }
    let next = address(*taken);
    *taken += 1;
    Ok(next)
}

/// 10.77.0.1, 10.77.0.2, …
fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 77, 0, 1)) + host as u32)
}

/// The next free port of a host, when `taken` of them are in use.
fn port(taken: &mut u32, copy: &FlowCopy<'_>) -> Result<u16, EngineError> {
    let port = PORTS.clone().nth(*taken as usize);
    *taken += 1;
    port.ok_or_else(|| {
        let host = &copy.flow.to.value;
        let message = format!("more than {} flows to host `{host}`", PORTS.len());
        let help = "every flow has a port of its own there: spread them over several hosts";
        EngineError::unable(message, help)
    })
}

/// The largest packet of a flow, IP bytes.
fn largest_packet(flow: &file::Flow) -> u32 {
    match flow.application {
        flow::Application::Constant { packet, .. } => packet,
        _ => flow.mss + HEADERS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(flows: &str) -> Experiment {
        let text = format!(
            "duration = \"10s\"\n\
             [[link]]\nbetween = [\"a\", \"r\"]\n\
             [[link]]\nbetween = [\"r\", \"b\"]\nbandwidth = \"10Mbit/s\"\n{flows}"
        );
        Experiment::parse(&text, "x.toml", Path::new(""), &[]).unwrap()
    }

    fn flow(name: &str, more: &str) -> String {
        format!("[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\n{more}\n")
    }

    #[test]
    fn hosts_are_the_ends_of_flows_and_each_flow_has_a_port() {
        let experiment = experiment(&(flow("one", "count = 2") + &flow("big", "mss = 8948")));
        let plan = Plan::of(&experiment).unwrap();
        let told: Vec<(&str, String, u32)> = plan
            .hosts
            .iter()
            .map(|host| (host.name.as_str(), host.address.to_string(), host.mtu))
            .collect();
        assert_eq!(
            told,
            [
                ("a", "10.77.0.1".to_owned(), 9000),
                ("b", "10.77.0.2".to_owned(), 9000)
            ]
        );
        let ports: Vec<Option<u16>> = plan.flows.iter().map(|flow| flow.port).collect();
        assert_eq!(ports, [Some(10_001), Some(10_002), Some(10_003)]);
        let (_, pipes) = plan.network(&experiment).unwrap();
        assert_eq!(pipes.len(), 4);
    }

    #[test]
    fn hosts_beyond_the_255th_have_addresses_too() {
        assert_eq!(address(254).to_string(), "10.77.0.255");
        assert_eq!(address(255).to_string(), "10.77.1.0");
    }

    #[test]
    fn programs_that_meet_others_in_a_host_have_addresses_of_their_own() {
        let program = "application = { kind = \"command\", client = \"true\" }\n";
        let reno = format!("{program}congestion_control = \"reno\"");
        let back = "[[flow]]\nname = \"back\"\nfrom = \"b\"\nto = \"a\"\n".to_owned() + program;
        let flows = flow("plain", "") + &flow("one", program) + &flow("two", &reno) + &back;
        let experiment = experiment(&flows);
        let plan = Plan::of(&experiment).unwrap();
        let addresses: Vec<[String; 2]> = plan
            .flows
            .iter()
            .map(|flow| flow.addresses.map(|address| address.to_string()))
            .collect();
        assert_eq!(
            addresses,
            [
                ["10.77.0.1", "10.77.0.2"],
                ["10.77.0.1", "10.77.0.2"],
                ["10.77.0.3", "10.77.0.4"],
                ["10.77.0.5", "10.77.0.6"],
            ]
        );
        let controls = ["cubic", "cubic", "reno", "cubic"];
        let own = |host| plan.pairings(host, |flow| Some(controls[flow].to_owned()));
        let pairing = |own: &str, other: &str, control: &str| Pairing {
            own: own.parse().unwrap(),
            other: other.parse().unwrap(),
            congestion_control: Some(control.to_owned()),
        };
        assert_eq!(
            own(0),
            [
                pairing("10.77.0.3", "10.77.0.4", "reno"),
                pairing("10.77.0.6", "10.77.0.5", "cubic"),
            ]
        );
        assert_eq!(own(1)[0], pairing("10.77.0.4", "10.77.0.3", "reno"));
        assert!(plan.network(&experiment).is_ok());
    }

    #[test]
    fn names_become_names_of_files() {
        assert_eq!(file_name("web-1"), "web-1");
        assert_eq!(file_name("../a b"), "_._a_b");
    }
}
