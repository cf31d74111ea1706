//! The connections of a run as the tracer reports them: assigns them to flows, and evaluates their
//! samples.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use fairwind_result::record::{FlowSample, Recorder};
use fairwind_trace::event::{Event, Identity, Sample, State};

use super::instruments::{Traced, payload_received};

/// Slow-start thresholds above this many packets, except the infinite one, do not occur on real
/// connections.
const SSTHRESH_MOST: u32 = 1_000_000;
/// `TCP_INFINITE_SSTHRESH`.
const SSTHRESH_INFINITE: u32 = 0x7fff_ffff;

/// A flow's ends, by which its connections are recognised: inode of the network namespace, and
/// address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    /// The sending host.
    pub from: (u32, Ipv4Addr),
    /// The receiving host.
    pub to: (u32, Ipv4Addr),
    /// The port at the receiver. `None`: all connections between the two that belong to no other
    /// flow, with data in both directions.
    pub port: Option<u16>,
}

/// The times of a run, and when samples become rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// `CLOCK_MONOTONIC` at the start of the run, nanoseconds.
    pub epoch_ns: u64,
    /// End of the warm-up, where totals begin, since the start of the run.
    pub warmup_ns: u64,
    /// End of the run.
    pub duration_ns: u64,
    /// Interval between two rows of a connection; `None`: every sample is a row.
    pub interval_ns: Option<u64>,
}

/// Totals of the samples of a flow's connections after the warm-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FlowTotals {
    /// The kernel's names of the senders' congestion controls, in the order in which they were
    /// first seen.
    pub controls: Vec<String>,
    /// Smallest round-trip time of the whole run, microseconds.
    pub rtt_min_us: Option<u32>,
    /// Sum of the round-trip times, each weighted by the packets delivered since the previous
    /// sample.
    rtt_sum_us: f64,
    rtt_packets: f64,
    /// Retransmitted segments.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Packets delivered with congestion reported by ECN.
    pub ecn_signals: u64,
    /// An impossible slow-start threshold, if one was seen.
    pub impossible_ssthresh: Option<u32>,
    connections: u32,
    last_row_ns: u64,
}

impl FlowTotals {
    /// Mean round-trip time, microseconds.
    pub(crate) fn rtt_mean_us(&self) -> Option<f64> {
        (self.rtt_packets > 0.0).then(|| self.rtt_sum_us / self.rtt_packets)
    }
}

/// Both ends of all open connections.
#[derive(Debug)]
pub(crate) struct Connections {
    directory: Directory,
    times: Times,
    traced: Traced,
    gauges: Vec<FlowTotals>,
    sockets: HashMap<u64, Socket>,
    /// Payload received so far and size of the receive buffer, by the sender's local and remote
    /// address.
    received: HashMap<(SocketAddr, SocketAddr), (u64, u64)>,
    rows: Vec<Row>,
    /// Whether the run is being ended: until its time is over, every further sample is a row.
    ends: bool,
}

/// A traced socket of a flow.
#[derive(Clone, Copy, Debug)]
struct Socket {
    flow: usize,
    role: Role,
    local: SocketAddr,
    remote: SocketAddr,
    opened_ns: u64,
    /// Number among the flow's connections; set with its first row.
    number: Option<u32>,
    next_row_ns: u64,
    delivered: u32,
    retransmits: u32,
    timeouts: u32,
    ecn_signals: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Sender,
    Receiver,
    /// A program's: a sender if it has sent data.
    Either,
}

/// A sample that still lacks what the peer has received by then.
#[derive(Debug)]
struct Row {
    flow: usize,
    /// The sender's local and remote address.
    way: (SocketAddr, SocketAddr),
    sample: FlowSample,
    /// Of the sender's congestion control, if it is traced.
    state: Option<State>,
    closes: bool,
}

impl Connections {
    /// Starts without connections, for these flows.
    pub(crate) fn new(flows: &[Ends], times: Times) -> Connections {
        Connections {
            directory: Directory::new(flows),
            times,
            traced: Traced::new(),
            gauges: vec![FlowTotals::default(); flows.len()],
            sockets: HashMap::new(),
            received: HashMap::new(),
            rows: Vec::new(),
            ends: false,
        }
    }

    /// Says that the run ends now, perhaps before its time: what connections did last is recorded whenever that is.
    pub(crate) fn end(&mut self) {
        self.ends = true;
    }

    /// The totals of the flows' samples.
    pub(crate) fn into_gauges(self) -> Vec<FlowTotals> {
        self.gauges
    }

    /// Processes an event of the tracer.
    pub(crate) fn take(&mut self, event: &Event<'_>) {
        match event {
            Event::Open(identity) | Event::Identity(identity) => self.identify(identity),
            Event::Control(control) => self.note_control(control.head.id, control.name()),
            Event::Sample(sample, state) => self.sample(sample, *state, false),
            Event::Close(sample, state) => self.sample(sample, *state, true),
        }
    }

    /// Writes the pending rows. To be called once all events of one moment have been taken.
    pub(crate) fn write(&mut self, recorder: &mut dyn Recorder) {
        for row in self.rows.drain(..) {
            let other = if row.closes {
                self.received.remove(&row.way)
            } else {
                self.received.get(&row.way).copied()
            };
            let mut sample = row.sample;
            // Without a sample of the receiver, count what it has acknowledged.
            let (bytes, buffer) = other.unwrap_or((0, 0));
            let instruments = &mut sample.instruments;
            instruments.bytes_received = bytes.max(instruments.hc_thru_octets_acked);
            instruments.cur_receive_buffer = buffer;
            let gauge = &mut self.gauges[row.flow];
            sample.time_ns = sample.time_ns.max(gauge.last_row_ns);
            gauge.last_row_ns = sample.time_ns;
            recorder.flow(row.flow, &sample);
            if let Some(state) = &row.state {
                recorder.state(row.flow, &sample, state);
            }
        }
    }

    fn identify(&mut self, identity: &Identity) {
        let (local, remote) = (identity.local(), identity.remote());
        if let Some(socket) = self.sockets.get_mut(&identity.head.id) {
            (socket.local, socket.remote) = (local, remote);
            return;
        }
        let Some((flow, role)) = self.directory.find(identity.netns, local, remote) else {
            return;
        };
        let socket = Socket {
            flow,
            role,
            local,
            remote,
            opened_ns: identity.head.time_ns,
            number: None,
            next_row_ns: 0,
            delivered: 0,
            retransmits: 0,
            timeouts: 0,
            ecn_signals: 0,
        };
        self.sockets.insert(identity.head.id, socket);
    }

    fn note_control(&mut self, id: u64, name: String) {
        let Some(socket) = self.sockets.get(&id) else {
            return;
        };
        let controls = &mut self.gauges[socket.flow].controls;
        if socket.role != Role::Receiver && !controls.contains(&name) {
            controls.push(name);
        }
    }

    fn sample(&mut self, sample: &Sample, state: Option<&State>, closes: bool) {
        let Some(mut socket) = self.sockets.get(&sample.head.id).copied() else {
            return;
        };
        if socket.role != Role::Sender {
            let (way, now) = ((socket.remote, socket.local), payload_received(sample));
            let (bytes, buffer) = self.received.entry(way).or_default();
            *bytes = now.max(*bytes);
            *buffer = sample.sk_rcvbuf.into();
        }
        let sends = match socket.role {
            Role::Sender => true,
            Role::Receiver => false,
            Role::Either => sample.bytes_sent > 0,
        };
        if sends {
            self.sample_sender(&mut socket, sample, state, closes);
        }
        if closes {
            self.sockets.remove(&sample.head.id);
        } else {
            self.sockets.insert(sample.head.id, socket);
        }
    }

    fn sample_sender(
        &mut self,
        socket: &mut Socket,
        sample: &Sample,
        state: Option<&State>,
        closes: bool,
    ) {
        let Times {
            epoch_ns,
            warmup_ns,
            duration_ns,
            interval_ns,
        } = self.times;
        let now_ns = sample.head.time_ns.saturating_sub(epoch_ns);
        let gauge = &mut self.gauges[socket.flow];
        gauge.add(socket, sample, now_ns >= warmup_ns);
        let is_due = now_ns >= socket.next_row_ns || closes;
        if !(is_due || self.ends && now_ns < duration_ns) {
            return;
        }
        if let Some(interval_ns) = interval_ns {
            socket.next_row_ns = (now_ns / interval_ns + 1) * interval_ns;
        }
        let number = *socket.number.get_or_insert_with(|| {
            gauge.connections += 1;
            gauge.connections - 1
        });
        self.rows.push(Row {
            flow: socket.flow,
            way: (socket.local, socket.remote),
            sample: FlowSample {
                time_ns: now_ns.min(duration_ns),
                connection: number,
                instruments: self.traced.instruments(sample, socket.opened_ns),
            },
            state: state.copied(),
            closes,
        });
    }
}

impl FlowTotals {
    fn add(&mut self, socket: &mut Socket, sample: &Sample, counts: bool) {
        let ssthresh = sample.snd_ssthresh;
        if ssthresh > SSTHRESH_MOST && ssthresh != SSTHRESH_INFINITE {
            self.impossible_ssthresh = Some(ssthresh);
        }
        if sample.min_rtt_us > 0 && sample.min_rtt_us < u32::MAX {
            let least = self.rtt_min_us.unwrap_or(u32::MAX);
            self.rtt_min_us = Some(least.min(sample.min_rtt_us));
        }
        let since = |now: u32, before: &mut u32| {
            let more = now.wrapping_sub(*before);
            *before = now;
            u64::from(more)
        };
        let delivered = since(sample.delivered, &mut socket.delivered);
        let retransmits = since(sample.total_retrans, &mut socket.retransmits);
        let timeouts = since(sample.total_rto, &mut socket.timeouts);
        let ecn_signals = since(sample.delivered_ce, &mut socket.ecn_signals);
        if !counts {
            return;
        }
        self.retransmits += retransmits;
        self.ecn_signals += ecn_signals;
        // Linux before 6.7 does not count them.
        if sample.total_rto != u32::MAX {
            self.timeouts += timeouts;
        }
        if sample.sample_rtt_us > 0 {
            self.rtt_sum_us += f64::from(sample.sample_rtt_us) * delivered as f64;
            self.rtt_packets += delivered as f64;
        }
    }
}

/// Finds the flow of a socket, and its role there, by namespace, remote address and port.
#[derive(Debug, Default)]
struct Directory(HashMap<(u32, IpAddr, Port), (usize, Role)>);

/// Which port of a socket is that of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Port {
    Remote(u16),
    Local(u16),
    Any,
}

impl Directory {
    fn new(flows: &[Ends]) -> Directory {
        let mut directory = HashMap::new();
        for (flow, Ends { from, to, port }) in flows.iter().enumerate() {
            let ends = match *port {
                Some(port) => [
                    (Port::Remote(port), Role::Sender),
                    (Port::Local(port), Role::Receiver),
                ],
                None => [(Port::Any, Role::Either); 2],
            };
            for ((port, role), (own, other)) in ends.into_iter().zip([(from, to), (to, from)]) {
                // Of several flows with programs between the same two addresses, the first gets all
                // connections.
                let end = (own.0, other.1.into(), port);
                directory.entry(end).or_insert((flow, role));
            }
        }
        Directory(directory)
    }

    fn find(&self, netns: u32, local: SocketAddr, remote: SocketAddr) -> Option<(usize, Role)> {
        let ports = [
            Port::Remote(remote.port()),
            Port::Local(local.port()),
            Port::Any,
        ];
        let mut found = ports
            .iter()
            .map(|port| self.0.get(&(netns, remote.ip(), *port)));
        found.find_map(|found| found.copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

    fn socket(address: Ipv4Addr, port: u16) -> SocketAddr {
        SocketAddr::new(address.into(), port)
    }

    #[test]
    fn connections_are_told_by_namespace_and_port() {
        let ends = |port| Ends {
            from: (1, A),
            to: (2, B),
            port,
        };
        let directory = Directory::new(&[ends(Some(10_001)), ends(None), ends(Some(10_002))]);
        let find = |netns, local, remote| directory.find(netns, local, remote);
        let (here, there) = (socket(A, 40_000), socket(B, 10_002));
        assert_eq!(find(1, here, there), Some((2, Role::Sender)));
        assert_eq!(find(2, there, here), Some((2, Role::Receiver)));
        assert_eq!(find(1, here, socket(B, 80)), Some((1, Role::Either)));
        // Another lab may use the same addresses.
        assert_eq!(find(3, here, there), None);
    }

    #[test]
    fn round_trip_times_weigh_as_much_as_packets_were_delivered() {
        let mut gauge = FlowTotals::default();
        let mut sender = Socket {
            flow: 0,
            role: Role::Sender,
            local: socket(A, 40_000),
            remote: socket(B, 10_001),
            opened_ns: 0,
            number: None,
            next_row_ns: 0,
            delivered: 0,
            retransmits: 0,
            timeouts: 0,
            ecn_signals: 0,
        };
        let mut add = |delivered, sample_rtt_us, counts| {
            let sample = Sample {
                delivered,
                sample_rtt_us,
                min_rtt_us: sample_rtt_us,
                total_retrans: delivered / 10,
                ..Sample::default()
            };
            gauge.add(&mut sender, &sample, counts);
        };
        add(100, 5_000, false);
        add(110, 10_000, true);
        add(140, 20_000, true);
        // (10 x 10 ms + 30 x 20 ms) / 40.
        assert_eq!(gauge.rtt_mean_us(), Some(17_500.0));
        assert_eq!(gauge.rtt_min_us, Some(5_000));
        assert_eq!(gauge.retransmits, 4);
    }

    #[test]
    fn a_threshold_that_cannot_be_is_noticed() {
        let threshold = |snd_ssthresh| {
            let mut connections = Connections::new(
                &[Ends {
                    from: (1, A),
                    to: (2, B),
                    port: Some(10_001),
                }],
                Times {
                    epoch_ns: 0,
                    warmup_ns: 0,
                    duration_ns: 1,
                    interval_ns: None,
                },
            );
            connections.sockets.insert(
                0,
                Socket {
                    flow: 0,
                    role: Role::Sender,
                    local: socket(A, 40_000),
                    remote: socket(B, 10_001),
                    opened_ns: 0,
                    number: None,
                    next_row_ns: 0,
                    delivered: 0,
                    retransmits: 0,
                    timeouts: 0,
                    ecn_signals: 0,
                },
            );
            let sample = Sample {
                snd_ssthresh,
                ..Sample::default()
            };
            connections.take(&Event::Sample(&sample, None));
            connections.into_gauges()[0].impossible_ssthresh
        };
        assert_eq!(threshold(0x7fff_ffff), None);
        assert_eq!(threshold(100), None);
        assert_eq!(threshold(0x8110_4110), Some(0x8110_4110));
    }
}
