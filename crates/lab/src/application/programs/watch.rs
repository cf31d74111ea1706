//! Watches the connections of programs: what they deliver, their counts, and their congestion
//! control.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use fairwind_kernel::sock_diag::{Connection, Diag};
use fairwind_path::units::{Duration, Time};
use fairwind_workload::Meter;

use super::{CommandFlow, sockets};
use crate::application::counts::Counts;
use crate::application::plan::{FlowPlan, Work};
use crate::application::shared::Shared;
use crate::error::{During, LabError};
use crate::host::Host;

/// Whole seconds, where the meters' intervals end, are multiples of it.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// What the programs of one flow did.
#[derive(Debug)]
pub(super) struct WatchedFlow {
    pub meter: Meter,
    pub counts: Counts,
    pub switched: Vec<(Duration, String)>,
}

/// State of the thread.
pub(super) struct Watch {
    shared: Arc<Shared>,
    hosts: Vec<WatchedHost>,
    flows: Vec<Flow>,
    /// Ports of flows without programs, with the receiving host.
    traffic_ports: HashSet<(Ipv4Addr, u16)>,
}

struct WatchedHost {
    address: Ipv4Addr,
    diag: Diag,
    /// Connections by cookie: the index of their flow, if any, and their latest counts.
    known: HashMap<u64, (Option<usize>, Counts)>,
}

struct Flow {
    command: Arc<CommandFlow>,
    watched: WatchedFlow,
    /// Number of switches made.
    switches: usize,
}

impl Watch {
    /// Watches the programs of `flows`, a subset of `plans`.
    pub(super) fn new(
        shared: Arc<Shared>,
        flows: Vec<Arc<CommandFlow>>,
        plans: &[FlowPlan],
    ) -> Result<Watch, LabError> {
        let mut hosts: Vec<WatchedHost> = Vec::new();
        for flow in &flows {
            for host in [&flow.plan.from, &flow.plan.to] {
                if hosts.iter().all(|known| known.address != host.address()) {
                    hosts.push(WatchedHost::new(host)?);
                }
            }
        }
        let traffic = plans
            .iter()
            .filter(|plan| matches!(plan.work, Work::Traffic(_)));
        let traffic_ports = traffic.map(|plan| (plan.to.address(), plan.port));
        let flow = |command: Arc<CommandFlow>| Flow {
            watched: WatchedFlow {
                meter: shared.meter(&command.plan),
                counts: Counts::default(),
                switched: Vec::new(),
            },
            command,
            switches: 0,
        };
        let flows = flows.into_iter().map(flow).collect();
        Ok(Watch {
            shared,
            hosts,
            flows,
            traffic_ports: traffic_ports.collect(),
        })
    }

    /// Runs until the end of the run, or until asked to stop.
    pub(super) fn run(mut self) -> Vec<WatchedFlow> {
        let mut next = Time::ZERO;
        let mut warm = self.shared.warmup == Time::ZERO;
        while next <= self.shared.end {
            self.shared.sleep_until(next);
            if self.shared.is_stopped() {
                self.poll(self.shared.over());
                break;
            }
            self.poll(next);
            self.apply_switches();
            if !warm && next >= self.shared.warmup {
                warm = true;
                self.flows
                    .iter_mut()
                    .for_each(|flow| flow.watched.counts.restart());
            }
            // Polls missed because one took long are skipped.
            let now = self.shared.clock.now();
            while next <= now {
                next += POLL_INTERVAL;
            }
            if next > self.shared.end && now < self.shared.end {
                next = self.shared.end;
            }
        }
        self.flows.into_iter().map(|flow| flow.watched).collect()
    }

    /// Adds what happened up to `time`.
    fn poll(&mut self, time: Time) {
        // What is seen now happened earlier.
        let before = Time::from_nanos(time.as_nanos().saturating_sub(1));
        for at in 0..self.hosts.len() {
            let connections = match self.hosts[at].connections() {
                Ok(connections) => connections,
                Err(error) => {
                    self.fail(at, &error);
                    continue;
                }
            };
            for connection in connections {
                self.add(at, &connection, before);
            }
        }
    }

    fn fail(&self, at: usize, error: &io::Error) {
        let address = self.hosts[at].address;
        for flow in &self.flows {
            let ends = ends(&flow.command.plan);
            if ends.contains(&address) {
                let text = format!("reading the connections of host {address}: {error}");
                self.shared.fail(flow.command.index, text);
            }
        }
    }

    fn add(&mut self, at: usize, connection: &Connection, time: Time) {
        let known = self.hosts[at].known.get(&connection.cookie).copied();
        let (flow, before) = known.unwrap_or_else(|| {
            (
                self.flow_of(self.hosts[at].address, connection),
                Counts::default(),
            )
        });
        let counts = Counts::from(connection.info);
        let entry = (flow, counts);
        self.hosts[at].known.insert(connection.cookie, entry);
        let Some(flow) = flow.map(|flow| &mut self.flows[flow]) else {
            return;
        };
        let bytes = counts.bytes_received.saturating_sub(before.bytes_received);
        flow.watched.meter.add(time, bytes);
        flow.watched.counts.add_since(counts, before);
        self.shared.add_received(flow.command.index, bytes);
    }

    /// The flow that a connection of the host at `local` belongs to.
    fn flow_of(&self, local: Ipv4Addr, connection: &Connection) -> Option<usize> {
        let IpAddr::V4(remote) = connection.remote.ip() else {
            return None;
        };
        let here = (local, connection.local.port());
        let there = (remote, connection.remote.port());
        let of_no_program =
            self.traffic_ports.contains(&here) || self.traffic_ports.contains(&there);
        if of_no_program || there.1 == 0 {
            return None;
        }
        let fits = |&flow: &usize| {
            let plan = &self.flows[flow].command.plan;
            let ends = ends(plan);
            let port = if ends[1] == local { here.1 } else { there.1 };
            ends.contains(&local) && ends.contains(&remote) && (plan.port == 0 || plan.port == port)
        };
        let candidates: Vec<usize> = (0..self.flows.len()).filter(fits).collect();
        if let [flow] = candidates[..] {
            return Some(flow);
        }
        let holds = |&&flow: &&usize| {
            let first = self.flows[flow].command.first_process();
            first.is_some_and(|first| sockets::holds(first, connection.inode))
        };
        let holder = candidates.iter().find(holds).or(candidates.first());
        holder.copied()
    }

    /// Makes the switches that are due, and applies them to connections opened since.
    fn apply_switches(&mut self) {
        let now = self.shared.clock.now();
        for flow in &mut self.flows {
            let plan = &flow.command.plan;
            let due = plan
                .switches
                .iter()
                .take_while(|s| Time::ZERO + s.at <= now);
            let due = due.count();
            let Some(switch) = due.checked_sub(1).map(|last| &plan.switches[last]) else {
                continue;
            };
            let Some(first) = flow.command.first_process() else {
                continue;
            };
            let name = &switch.congestion_control;
            let changed = sockets::switch_congestion_control(first, ends(plan), name);
            match changed {
                Err(error) => self.shared.fail(
                    flow.command.index,
                    format!("switching to the congestion control `{name}`: {error}"),
                ),
                Ok(_) if due > flow.switches => {
                    flow.watched.switched.push((now - Time::ZERO, name.clone()));
                }
                Ok(_) => {}
            }
            flow.switches = due;
        }
    }
}

impl WatchedHost {
    fn new(host: &Host) -> Result<WatchedHost, LabError> {
        let open = || Diag::open().during("asking for a host's connections");
        Ok(WatchedHost {
            address: host.address(),
            diag: host.within(open)?,
            known: HashMap::new(),
        })
    }

    /// The connections closed since the last call, and those that exist.
    fn connections(&mut self) -> io::Result<Vec<Connection>> {
        let mut connections = self.diag.closed()?;
        connections.extend(self.diag.existing(0)?);
        Ok(connections)
    }
}

fn ends(plan: &FlowPlan) -> [Ipv4Addr; 2] {
    [plan.from.address(), plan.to.address()]
}
