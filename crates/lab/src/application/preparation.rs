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

/// Prepares everything for these flows.
pub(super) fn prepare(plans: &[FlowPlan]) -> Result<(), LabError> {
    let hosts = plans.iter().flat_map(|plan| [&plan.from, &plan.to]);
    let hosts: BTreeMap<Ipv4Addr, &Host> = hosts.map(|host| (host.address(), host)).collect();
    hosts
        .values()
        .try_for_each(|host| prepare_host(host, plans))?;
    let connections: usize = plans.iter().map(|plan| plan.work.connections()).sum();
    allow_descriptors(connections as u64)
}

fn prepare_host(host: &Host, plans: &[FlowPlan]) -> Result<(), LabError> {
    let incoming = plans
        .iter()
        .filter(|plan| plan.to.address() == host.address() && plan.port != 0);
    let ports: Vec<String> = incoming.map(|plan| plan.port.to_string()).collect();
    let outgoing = plans.iter().filter(|p| p.from.address() == host.address());
    let connections: usize = outgoing.map(|plan| plan.work.connections()).sum();
    host.within(|| {
        // Many web sessions may connect at once.
        set("net.core.somaxconn", &BACKLOG.to_string())?;
        // No outgoing connection may take the port of an incoming flow.
        set("net.ipv4.ip_local_reserved_ports", &ports.join(","))?;
        if connections > USUAL_PORTS {
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
