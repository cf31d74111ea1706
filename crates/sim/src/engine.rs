//! The event loop: takes the next due source off the agenda and dispatches to pipes, connections
//! and applications.

use std::collections::HashMap;
use std::rc::Rc;

use fairwind_cc::native::Hosts;
use fairwind_path::units::{Duration, Time};
use fairwind_workload::{Application, Driver, Step};

use crate::agenda::{NEVER, Source};
use crate::network::Network;
use crate::outcome::{Observer, Outcome};
use crate::packet::{Kind, Packet};
use crate::scenario::{FlowConfig, Sampling, Scenario};
use crate::tcp::{Receiver, Reply, Sender, Statistics};

mod housekeeping;
mod totals;

use totals::Totals;

/// Agenda sources of a connection: the timers of its sender and its receiver, and its application.
const SENDER: Source = 0;
const RECEIVER: Source = 1;
const APPLICATION: Source = 2;
const SOURCES_PER_CONNECTION: Source = 3;
/// Calls of [`Observer::progress`] per run.
const PROGRESS_STEPS: u64 = 200;

/// A connection of a flow with both endpoints, or a stream of datagrams.
#[derive(Debug)]
struct Connection {
    flow: u32,
    /// Index within the flow.
    index: u32,
    generation: u16,
    /// When the connection was opened.
    opened: Time,
    driver: Driver,
    ends: Option<(Sender, Receiver)>,
    /// Bytes whose delivery completes what the application has written; `None` if it never ends.
    expected: Option<u64>,
    /// The sender's counts when the warm-up ended.
    before: Statistics,
    /// Bytes received in datagrams, or over earlier connections in this slot.
    received_before: u64,
}

/// A run in progress.
pub(crate) struct Engine<'a> {
    scenario: &'a Scenario,
    network: Network,
    connections: Vec<Connection>,
    totals: Vec<Totals>,
    end: Time,
    measuring_from: Time,
    housekeeping: Source,
    /// Changes of congestion control as (time, flow), the next one last.
    switches: Vec<(Time, usize)>,
    next_sample: Time,
    next_progress: Time,
    progress_step: Duration,
    /// What the connections of two hosts share.
    hosts: HashMap<[u32; 2], Rc<Hosts>>,
    out: Vec<Packet>,
    data_packets: u64,
    events: u64,
}

impl<'a> Engine<'a> {
    /// Prepares a run.
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        let mut connections = Vec::new();
        for (flow, config) in scenario.flows.iter().enumerate() {
            let first = connections.len();
            let drivers = Driver::of_flow(&config.application, config.start, scenario.seed, first);
            for (index, driver) in drivers.enumerate() {
                connections.push(Connection {
                    flow: flow as u32,
                    index: index as u32,
                    generation: 0,
                    opened: Time::ZERO,
                    driver,
                    ends: None,
                    expected: None,
                    before: Statistics::default(),
                    received_before: 0,
                });
            }
        }
        let flows: Vec<u32> = connections.iter().map(|c| c.flow).collect();
        let sources = SOURCES_PER_CONNECTION as usize * connections.len() + 1;
        let network = Network::new(scenario, &flows, sources);
        let housekeeping = network.sources() + SOURCES_PER_CONNECTION * connections.len() as Source;
        let measuring_from = Time::ZERO + scenario.warmup;
        let end = Time::ZERO + scenario.duration;
        let totals = scenario
            .flows
            .iter()
            .map(|flow| Totals::new(flow.start.max(measuring_from), end))
            .collect();
        Engine {
            scenario,
            network,
            connections,
            totals,
            end,
            measuring_from,
            housekeeping,
            switches: housekeeping::switches(&scenario.flows),
            next_sample: match scenario.sampling {
                Sampling::Off => NEVER,
                Sampling::Every(_) | Sampling::EveryAck(_) => Time::ZERO,
            },
            next_progress: Time::ZERO,
            progress_step: (scenario.duration / PROGRESS_STEPS).max(Duration::from_nanos(1)),
            hosts: HashMap::new(),
            out: Vec::new(),
            data_packets: 0,
            events: 0,
        }
    }

    /// Runs to the end, or until the observer stops the run.
    pub(crate) fn run(mut self, observer: &mut dyn Observer) -> Outcome {
        for index in 0..self.connections.len() {
            let first = self.connections[index].driver.first();
            self.network
                .agenda
                .arm(self.source(index, APPLICATION), first);
        }
        self.network.agenda.arm(self.housekeeping, Time::ZERO);
        let own = self.network.sources();
        while let Some((now, source)) = self.network.agenda.next() {
            if now > self.end {
                break;
            }
            self.events += 1;
            if self.network.is_lane(source) {
                let mut packet = self.network.take(source);
                if self.network.has_arrived(&packet) {
                    self.deliver(now, &packet, observer);
                } else {
                    self.network.transmit(now, &mut packet);
                }
            } else if source < own {
                self.network.serve(now, source);
            } else if source == self.housekeeping {
                if !self.on_schedule(now, observer) {
                    break;
                }
            } else {
                self.on_connection_event(now, source - own, observer);
            }
        }
        self.finish()
    }

    fn flow(&self, connection: usize) -> &'a FlowConfig {
        &self.scenario.flows[self.connections[connection].flow as usize]
    }

    fn source(&self, connection: usize, kind: Source) -> Source {
        self.network.sources() + SOURCES_PER_CONNECTION * connection as Source + kind
    }

    /// Handles a packet that has reached the end of its route.
    #[inline]
    fn deliver(&mut self, now: Time, packet: &Packet, observer: &mut dyn Observer) {
        let index = packet.connection as usize;
        let connection = &mut self.connections[index];
        if packet.kind == Kind::Datagram {
            let totals = &mut self.totals[connection.flow as usize];
            connection.received_before += u64::from(packet.len);
            totals.meter.add(now, u64::from(packet.len));
            self.data_packets += 1;
            observer.arrival(connection.flow as usize, now, packet.seq);
            return;
        }
        let current = packet.generation == connection.generation;
        let Some((sender, receiver)) = connection.ends.as_mut().filter(|_| current) else {
            self.network.sacks.take(packet.sack);
            return;
        };
        match packet.kind {
            Kind::Syn => {
                let mut reply = receiver.on_syn(now, packet);
                self.network.send(now, &mut reply.packet);
            }
            Kind::Data => {
                self.data_packets += 1;
                let before = receiver.delivered();
                let reply = receiver.receive(now, packet);
                let delivered = receiver.delivered();
                let due = receiver.due();
                self.answer(now, index, reply, due);
                if delivered > before {
                    let totals = &mut self.totals[self.connections[index].flow as usize];
                    totals.meter.add(now, delivered - before);
                    if self.connections[index]
                        .expected
                        .is_some_and(|e| delivered >= e)
                    {
                        self.on_complete(now, index);
                    }
                }
            }
            Kind::SynAck | Kind::Ack => {
                let sack = self.network.sacks.take(packet.sack);
                sender.receive(now, packet, &sack, &mut self.out);
                if matches!(self.scenario.sampling, Sampling::EveryAck(_)) {
                    self.show_flow(now, index, observer);
                }
                self.flush(now, index);
            }
            Kind::Datagram => unreachable!("handled above"),
        }
    }

    /// Sends the packets that a sender has queued in `out` and arms its timer.
    #[inline]
    fn flush(&mut self, now: Time, index: usize) {
        for packet in &mut self.out {
            self.network.send(now, packet);
        }
        self.out.clear();
        if let Some((sender, _)) = &self.connections[index].ends {
            let due = sender.due();
            if due != NEVER {
                self.network.agenda.arm(self.source(index, SENDER), due);
            }
        }
    }

    /// Sends a receiver's reply, if any, and arms its timer for `due`.
    #[inline]
    fn answer(&mut self, now: Time, index: usize, reply: Option<Reply>, due: Time) {
        if let Some(Reply { mut packet, sack }) = reply {
            packet.sack = self.network.sacks.put(sack);
            self.network.send(now, &mut packet);
        }
        if due != NEVER {
            self.network.agenda.arm(self.source(index, RECEIVER), due);
        }
    }

    /// Dispatches an event of a connection. A timer may have been pushed back in the meantime.
    fn on_connection_event(&mut self, now: Time, source: Source, observer: &mut dyn Observer) {
        let index = (source / SOURCES_PER_CONNECTION) as usize;
        match source % SOURCES_PER_CONNECTION {
            SENDER => self.on_sender_timer(now, index),
            RECEIVER => self.on_receiver_timer(now, index),
            _ => self.on_application(now, index, observer),
        }
    }

    fn on_sender_timer(&mut self, now: Time, index: usize) {
        let Some((sender, _)) = &mut self.connections[index].ends else {
            return;
        };
        if sender.due() <= now {
            sender.on_timer(now, &mut self.out);
        }
        self.flush(now, index);
    }

    fn on_receiver_timer(&mut self, now: Time, index: usize) {
        let connection = &mut self.connections[index];
        let template = Packet::new(Kind::Ack, index as u32, connection.generation);
        let Some((_, receiver)) = &mut connection.ends else {
            return;
        };
        let reply = if receiver.due() <= now {
            receiver.on_timer(now, &template)
        } else {
            None
        };
        let due = receiver.due();
        self.answer(now, index, reply, due);
    }

    fn on_application(&mut self, now: Time, index: usize, observer: &mut dyn Observer) {
        let config = self.flow(index);
        let connection = &mut self.connections[index];
        if matches!(config.application, Application::ConstantRate { .. })
            && let Some(next) = observer.datagram(connection.flow as usize, now)
        {
            if let Some((size, number)) = next.send {
                self.send_datagram(now, index, size, number);
            }
            self.network
                .agenda
                .arm(self.source(index, APPLICATION), next.again);
            return;
        }
        let (step, again) = connection.driver.step(now);
        match step {
            Step::Open(bytes) => {
                connection.generation = connection.generation.wrapping_add(1);
                connection.opened = now;
                let hosts = self.hosts.entry(config.hosts).or_default();
                let mut sender =
                    Sender::new(now, &config.tcp, hosts, index as u32, connection.generation);
                sender.write(now, bytes, &mut self.out);
                sender.open(now, &mut self.out);
                connection.ends = Some((sender, Receiver::new(&config.tcp)));
                connection.expected = bytes;
                connection.before = Statistics::default();
            }
            Step::Resume => {
                if let Some((sender, _)) = &mut connection.ends {
                    sender.write(now, None, &mut self.out);
                }
            }
            Step::Pause => {
                if let Some((sender, _)) = &mut connection.ends {
                    sender.stop_writing();
                }
            }
            Step::Datagram(size) => self.send_datagram(now, index, size, 0),
        }
        if let Some(again) = again {
            self.network
                .agenda
                .arm(self.source(index, APPLICATION), again);
        }
        self.flush(now, index);
    }

    fn send_datagram(&mut self, now: Time, index: usize, size: u32, number: u64) {
        let totals = &mut self.totals[self.connections[index].flow as usize];
        totals.outcome.packets_sent += 1;
        let mut packet = Packet {
            seq: number,
            size: size as u16,
            len: size.saturating_sub(28),
            ..Packet::new(Kind::Datagram, index as u32, 0)
        };
        self.network.send(now, &mut packet);
    }

    /// Handles the delivery of everything that a connection was to carry.
    fn on_complete(&mut self, now: Time, index: usize) {
        let start = self.flow(index).start;
        let connection = &mut self.connections[index];
        connection.expected = None;
        let totals = &mut self.totals[connection.flow as usize];
        totals.outcome.object_times.push(now - connection.opened);
        match connection.driver.on_complete(now) {
            None => totals.outcome.completion = Some(now - start),
            Some(again) => {
                if let Some((sender, receiver)) = connection.ends.take() {
                    totals.add(&sender, connection.before);
                    connection.received_before += receiver.delivered();
                }
                self.network
                    .agenda
                    .arm(self.source(index, APPLICATION), again);
            }
        }
    }

    fn finish(mut self) -> Outcome {
        for (connection, lost) in self.connections.iter().zip(&self.network.lost) {
            let totals = &mut self.totals[connection.flow as usize];
            totals.outcome.packets_lost += lost;
            if let Some((sender, _)) = &connection.ends {
                totals.add(sender, connection.before);
            }
        }
        let end = self.end;
        let flows = self
            .totals
            .into_iter()
            .zip(&self.scenario.flows)
            .map(|(totals, config)| totals.finish(config, end))
            .collect();
        Outcome {
            flows,
            pipes: self.network.statistics(end),
            data_packets: self.data_packets,
            events: self.events,
        }
    }
}
