//! Advises the connections of a run of their paths.

use std::net::{IpAddr, Ipv4Addr};

use fairwind_cc::kernel::Destination;
use fairwind_lab::host::Host;
use fairwind_scenario::Experiment;
use fairwind_scenario::file::flow;

use super::controls::Controls;
use super::plan::Plan;
use crate::engine::EngineError;

/// Tells the congestion controls, by their kernel's `names` for each flow of the file, what each flow is advised of its
/// path. Its time 0 is `epoch_ns` of `CLOCK_MONOTONIC`, nanoseconds.
pub(super) fn advise<'a>(
    experiment: &Experiment,
    plan: &Plan,
    hosts: &[Host],
    controls: &Controls,
    names: impl Fn(usize) -> Option<&'a str>,
    epoch_ns: u64,
) -> Result<(), EngineError> {
    for (planned, copy) in plan.flows.iter().zip(experiment.flows()) {
        let start = copy.flow.advised_start;
        let Some(start) = start.and_then(|start| start.for_control(epoch_ns)) else {
            continue;
        };
        let advised = names(copy.position).and_then(|name| controls.advised_starts(name));
        let Some(advised) = advised else {
            continue;
        };
        let [from, to] = planned.addresses;
        let mut ways = vec![(planned.from, to)];
        if let flow::Application::Command { .. } = copy.flow.application {
            ways.push((planned.to, from));
        }
        for (host, address) in ways {
            let told = advised.advise(&destination(&hosts[host], address), &start);
            told.map_err(|error| {
                EngineError::unable(error.to_string(), "give fewer flows advice")
            })?;
        }
    }
    Ok(())
}

/// One address, as a host's connections see it.
fn destination(host: &Host, address: Ipv4Addr) -> Destination {
    let destination = Destination::new(host.namespace_inode(), IpAddr::V4(address), 32);
    destination.expect("an IPv4 address has 32 bits")
}
