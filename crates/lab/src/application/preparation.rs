//! Prepares the hosts and this process before the first connection.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use fairwind_kernel::set_sysctl;
use fairwind_workload::Application;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::plan::{FlowPlan, Work};
use super::socket::BACKLOG;
use crate::error::{During, LabError};
use crate::host::Host;

/// Connections per host for which the kernel's default port range suffices, with room for those
/// that are closing.
const USUAL_PORTS: usize = 20_000;
/// Most descriptors that the rest of the process needs.
const OTHER_DESCRIPTORS: u64 = 4_096;

/// A host's part in the flows.
struct Part<'a> {
    host: &'a Host,
    /// Ports of the flows that it receives.
    ports: Vec<u16>,
    /// Connections that it has open at the same time.
    connections: usize,
}

/// Prepares everything for these flows.
pub(super) fn prepare(plans: &[FlowPlan]) -> Result<(), LabError> {
    let mut parts: BTreeMap<Ipv4Addr, Part> = BTreeMap::new();
    for plan in plans {
        let connections = plan.work.connections();
        part(&mut parts, &plan.from).connections += connections;
        let ports = &mut part(&mut parts, &plan.to).ports;
        if plan.port != 0 {
            ports.push(plan.port);
        }
    }
    parts.values().try_for_each(prepare_host)?;
    let connections: usize = plans.iter().map(|plan| plan.work.connections()).sum();
    allow_descriptors(connections as u64)
}

fn part<'a, 'b>(parts: &'b mut BTreeMap<Ipv4Addr, Part<'a>>, host: &'a Host) -> &'b mut Part<'a> {
    parts.entry(host.address()).or_insert_with(|| Part {
        host,
        ports: Vec::new(),
        connections: 0,
    })
}

fn prepare_host(part: &Part) -> Result<(), LabError> {
    part.host.within(|| {
        // Many web sessions may connect at once.
        set("net.core.somaxconn", &BACKLOG.to_string())?;
        // No outgoing connection may take the port of an incoming flow.
        let reserved: Vec<String> = part.ports.iter().map(u16::to_string).collect();
        set("net.ipv4.ip_local_reserved_ports", &reserved.join(","))?;
        if part.connections > USUAL_PORTS {
            set("net.ipv4.ip_local_port_range", "1024 65535")?;
        }
        Ok(())
    })
}

fn set(name: &str, value: &str) -> Result<(), LabError> {
    set_sysctl(name, value).during(format!("setting {name}"))
}

/// Raises the limit of descriptors for this number of connections: two for each, and as many for
/// those that are closing. If that is more than the process may have, it takes the hard limit,
/// provided that this suffices for half of the connections: idle web sessions have none. If
/// descriptors run out after all, the flow reports it.
fn allow_descriptors(connections: u64) -> Result<(), LabError> {
    let needed = 4 * connections + OTHER_DESCRIPTORS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let [soft, hard] = [current, maximum].map(|limit| limit.unwrap_or(u64::MAX));
    if soft >= needed {
        return Ok(());
    }
    let Err(error) = limit_descriptors(needed, hard.max(needed)) else {
        return Ok(());
    };
    let least = connections + OTHER_DESCRIPTORS;
    if hard >= least && (soft == hard || limit_descriptors(hard, hard).is_ok()) {
        return Ok(());
    }
    let action = format!(
        "raising the limit of open files to {needed} for {connections} connections (it is {soft}; \
         `ulimit -n` and fs.nr_open set it)"
    );
    Err(error).during(action)
}

fn limit_descriptors(soft: u64, hard: u64) -> Result<(), Errno> {
    let limit = Rlimit {
        current: Some(soft),
        maximum: Some(hard),
    };
    setrlimit(Resource::Nofile, limit)
}

/// Checks that the host can send what the flow consists of.
pub(super) fn check(plan: &FlowPlan) -> Result<(), String> {
    let mtu = u32::from(plan.from.config().mtu);
    match plan.work {
        Work::Traffic(Application::ConstantRate { packet, .. })
            if !(28..=mtu).contains(&packet) =>
        {
            Err(format!(
                "a datagram of {packet} bytes does not fit the host {}: 28 to {mtu}, its MTU",
                plan.from.address()
            ))
        }
        _ => Ok(()),
    }
}
